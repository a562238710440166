"""A client of the judge: makes topics, writes records, reads everything back. One JSON document or line in, JSON lines out.

    client.py BOOTSTRAP create         {"topic": {"key": "value", …}, …}: one partition each, with these settings
    client.py BOOTSTRAP alter          the same, for topics that exist
    client.py BOOTSTRAP write          lines {"topic", "records": [{"timestamp", "key", "value", "headers"}], "codec", "idempotent", "transaction"};
                                       each line goes out as one batch; lines {"commit"|"abort"|"begin": transaction}
    client.py BOOTSTRAP delete         {"topic": offset, …}: DeleteRecords
    client.py BOOTSTRAP offsets        ["topic", …]: {"topic": [earliest, latest], …}
    client.py BOOTSTRAP dump LEVEL     ["topic", …]: every record under this isolation level, a line each

Keys, values and header values are hexadecimal, or null.
"""

import json
import os
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

bootstrap, command, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
common = {"bootstrap.servers": bootstrap, "socket.timeout.ms": 180000}
# Long enough for a loaded two-core machine.
PATIENCE = 180


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def tohex(value):
    return None if value is None else value.hex()


def settle(futures):
    for name, future in futures.items():
        try:
            future.result(PATIENCE)
        except Exception as error:
            sys.exit(f"{name}: {error}")


def create(topics):
    admin = AdminClient(common)
    new = [NewTopic(name, 1, 1, config=config) for name, config in topics.items()]
    settle(admin.create_topics(new, operation_timeout=PATIENCE, request_timeout=PATIENCE))
    deadline = time.monotonic() + PATIENCE
    while not set(topics) <= set(admin.list_topics(timeout=PATIENCE).topics):
        if time.monotonic() > deadline:
            sys.exit("the topics do not show up")


def alter(topics):
    resources = []
    for name, config in topics.items():
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resources.append(ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries))
    admin = AdminClient(common)
    settle(admin.incremental_alter_configs(resources))


class Writer:
    def __init__(self):
        self.producers = {}
        self.errors = []

    def producer(self, codec, idempotent, transaction):
        key = (codec, idempotent, transaction)
        if key not in self.producers:
            config = dict(common, **{"request.timeout.ms": 180000, "compression.type": codec, "linger.ms": 60000, "enable.idempotence": idempotent})
            if transaction:
                config["transactional.id"] = transaction
                config["transaction.timeout.ms"] = 86400000
            self.producers[key] = Producer(config)
            if transaction:
                self.producers[key].init_transactions(PATIENCE)
        return self.producers[key]

    def delivered(self, error, _message):
        if error:
            self.errors.append(str(error))

    def line(self, line):
        for end in ("begin", "commit", "abort"):
            if end in line:
                producer = self.producer(line.get("codec", "none"), True, line[end])
                if end == "begin":
                    producer.begin_transaction()
                elif end == "commit":
                    producer.commit_transaction(PATIENCE)
                else:
                    producer.abort_transaction(PATIENCE)
                return
        transaction = line.get("transaction")
        producer = self.producer(line.get("codec", "none"), line.get("idempotent", False) or bool(transaction), transaction)
        for record in line["records"]:
            fields = {"key": unhex(record.get("key")), "value": unhex(record.get("value")), "partition": 0}
            if record.get("timestamp") is not None:
                fields["timestamp"] = record["timestamp"]
            if record.get("headers"):
                fields["headers"] = [(key, unhex(value)) for key, value in record["headers"]]
            producer.produce(line["topic"], on_delivery=self.delivered, **fields)
        if producer.flush(PATIENCE) or self.errors:
            sys.exit(f"not delivered: {self.errors}")


def write():
    writer = Writer()
    for line in sys.stdin:
        writer.line(json.loads(line))
    print("{}")
    sys.stdout.flush()
    # A transaction that is left open stays open: no producer is closed in order.
    os._exit(0)


def delete(topics):
    partitions = [TopicPartition(topic, 0, offset) for topic, offset in topics.items()]
    # The client must outlive its futures.
    admin = AdminClient(common)
    settle(admin.delete_records(partitions))


def offsets(topics):
    admin = AdminClient(common)
    answer = {topic: [] for topic in topics}
    deadline = time.monotonic() + PATIENCE
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        open_topics = set(topics)
        while open_topics:
            futures = admin.list_offsets({TopicPartition(topic, 0): spec for topic in open_topics})
            for partition, future in futures.items():
                try:
                    answer[partition.topic].append(future.result(PATIENCE).offset)
                    open_topics.discard(partition.topic)
                except KafkaException as error:
                    # A broker that has just started does not lead all its partitions yet.
                    if time.monotonic() > deadline:
                        sys.exit(f"{partition.topic}: {error}")
                    time.sleep(0.1)
    print(json.dumps(answer))


def dump(topics, level):
    consumer = Consumer(
        dict(
            common,
            **{
                "group.id": "dump",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": level,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "fetch.wait.max.ms": 50,
            },
        )
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
    open_topics, deadline = set(topics), time.monotonic() + PATIENCE
    while open_topics:
        for message in consumer.consume(1000, 1):
            if message.error():
                if message.error().code() != KafkaError._PARTITION_EOF:
                    sys.exit(f"{message.topic()}: {message.error()}")
                open_topics.discard(message.topic())
                continue
            kind, timestamp = message.timestamp()
            record = {
                "topic": message.topic(),
                "offset": message.offset(),
                # Without a timestamp the client says so by its kind.
                "timestamp": -1 if kind == 0 else timestamp,
                "logAppendTime": kind == 2,
                "key": tohex(message.key()),
                "value": tohex(message.value()),
                "headers": [[key, tohex(value)] for key, value in message.headers() or []],
            }
            print(json.dumps(record))
        if time.monotonic() > deadline:
            sys.exit(f"no end of {sorted(open_topics)}")


if command == "create":
    create(json.load(sys.stdin))
elif command == "alter":
    alter(json.load(sys.stdin))
elif command == "write":
    write()
elif command == "delete":
    delete(json.load(sys.stdin))
elif command == "offsets":
    offsets(json.load(sys.stdin))
elif command == "dump":
    dump(json.load(sys.stdin), *arguments)
else:
    sys.exit(__doc__)
