"""Runs one Python client by commands, a JSON object a line; ../adapter.rs says which.

    adapter.py CLIENT BOOTSTRAP

Each client has a module with a class `Client` whose methods are the commands (a `-` is a `_`) and may be coroutines.
"""

import asyncio
import inspect
import json
import sys
import traceback
import zlib


class Cannot(Exception):
    """This client has no way to do it; the message says why."""


class Digest:
    """Count and sum that tell whether exactly the right records came."""

    def __init__(self):
        self.count = 0
        self.sum = 0

    def add(self, partition, offset, value):
        self.count += 1
        self.sum += zlib.crc32(f"{partition}:{offset}:{value.decode()}".encode())

    def reply(self):
        return {"count": self.count, "sum": self.sum}


class Progress:
    """What a group member has read."""

    def __init__(self):
        self.partitions = []
        self.first = {}
        self.next = {}
        self.count = 0
        self.rebalances = 0
        self.error = None

    def assigned(self, partitions):
        self.partitions = sorted(partitions)
        self.rebalances += 1

    def record(self, partition, offset):
        self.first.setdefault(partition, offset)
        self.next[partition] = offset + 1
        self.count += 1

    def reply(self):
        if self.error:
            raise self.error
        return {
            "partitions": self.partitions,
            "first": self.first,
            "count": self.count,
            "rebalances": self.rebalances,
        }


async def serve(make, bootstrap):
    client = make(bootstrap)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        method = getattr(client, command.pop("do").replace("-", "_"))
        if "from" in command:
            command["start"] = command.pop("from")
        try:
            reply = method(**command)
            if inspect.isawaitable(reply):
                reply = await reply
            print(json.dumps(reply or {}), flush=True)
        except Cannot as reason:
            print(json.dumps({"cannot": str(reason)}), flush=True)
        except Exception as error:
            traceback.print_exc()
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    sys.modules["adapter"] = sys.modules["__main__"]
    name, server = sys.argv[1:]
    module = __import__(name.replace("-", "_") + "_adapter")
    asyncio.run(serve(module.Client, server))
