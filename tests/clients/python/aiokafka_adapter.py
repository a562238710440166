"""aiokafka."""

import asyncio
import time

from adapter import Cannot, Digest, Progress
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

PATIENCE = 240


class Client:
    def __init__(self, bootstrap):
        # A request is not sent again while its answer may still come.
        self.base = {"bootstrap_servers": bootstrap, "request_timeout_ms": PATIENCE * 1000}
        self.readers = {}
        self.members = {}
        self._admin = None

    async def admin(self):
        if self._admin is None:
            self._admin = AIOKafkaAdminClient(**self.base)
            await self._admin.start()
        return self._admin

    async def create(self, topic, partitions, config):
        reply = await (await self.admin()).create_topics([NewTopic(topic, partitions, 1, topic_configs=config)])
        for _, code, *message in reply.topic_errors:
            if code:
                raise for_code(code)(*message)

    async def partitions(self, topic):
        return {"count": len((await (await self.admin()).describe_topics([topic]))[0]["partitions"])}

    async def produce(self, topic, partition, values, codec, acks, idempotent, timestamp=None):
        producer = AIOKafkaProducer(
            **self.base,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    value.encode(),
                    partition=partition,
                    timestamp_ms=None if timestamp is None else timestamp + i,
                )
                for i, value in enumerate(values)
            ]
            done = [await asyncio.wait_for(future, PATIENCE) for future in sent]
        finally:
            await producer.stop()
        return {"first": -1 if acks == "0" else done[0].offset}

    async def _consumer(self, *topics, **settings):
        consumer = AIOKafkaConsumer(
            *topics, **self.base, enable_auto_commit=False, **settings
        )
        await consumer.start()
        return consumer

    async def open(self, id, topic, partition, start, reset):
        consumer = await self._consumer(auto_offset_reset=reset)
        self.readers[id] = consumer
        at = TopicPartition(topic, partition)
        consumer.assign([at])
        if start == "beginning":
            await consumer.seek_to_beginning(at)
        elif start == "end":
            consumer.seek(at, (await consumer.end_offsets([at]))[at])
        elif isinstance(start, dict):
            consumer.seek(at, (await consumer.offsets_for_times({at: start["timestamp"]}))[at].offset)
        else:
            consumer.seek(at, start)

    async def take(self, id, count):
        records, deadline = [], time.monotonic() + PATIENCE
        while len(records) < count:
            batches = await self.readers[id].getmany(timeout_ms=500, max_records=count - len(records))
            records += [[r.offset, r.value.decode()] for batch in batches.values() for r in batch]
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(records)} of {count} records")
        return {"records": records}

    async def poll(self, id):
        batches = await self.readers[id].getmany(timeout_ms=500, max_records=1)
        return {"records": [[r.offset, r.value.decode()] for batch in batches.values() for r in batch]}

    async def close(self, id):
        await self.readers.pop(id).stop()

    async def digest(self, topic, partitions, count):
        consumer = await self._consumer()
        consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
        await consumer.seek_to_beginning()
        digest, deadline = Digest(), time.monotonic() + PATIENCE
        while digest.count < count and time.monotonic() < deadline:
            for at, batch in (await consumer.getmany(timeout_ms=500)).items():
                for record in batch:
                    digest.add(at.partition, record.offset, record.value)
        await consumer.stop()
        return digest.reply()

    async def join(self, id, group, topic, instance, protocol):
        if protocol != "classic":
            raise Cannot("no consumer-group protocol")
        consumer = await self._consumer(
            group_id=group,
            group_instance_id=instance,
            auto_offset_reset="earliest",
            session_timeout_ms=180000,
            heartbeat_interval_ms=500,
        )
        self.members[id] = Member(consumer, topic)

    def member(self, id):
        return self.members[id].progress.reply()

    async def commit(self, id):
        await self.members[id].commit()

    async def leave(self, id):
        await self.members.pop(id).leave()

    async def committed(self, group, topic, partition):
        consumer = await self._consumer(group_id=group)
        offset = await consumer.committed(TopicPartition(topic, partition))
        await consumer.stop()
        return {"offset": -1 if offset is None else offset}

    async def describe(self, topic, key):
        replies = await (await self.admin()).describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        for code, message, _, _, entries in (resource for reply in replies for resource in reply.resources):
            if code:
                raise for_code(code)(message)
            for name, value, *_ in entries:
                if name == key:
                    return {"value": value}
        raise KeyError(key)

    async def alter(self, topic, key, value):
        # The older request, which sets the whole: what is not named goes back to its default.
        replies = await (await self.admin()).alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, configs={key: value})]
        )
        for code, message, *_ in (resource for reply in replies for resource in reply.resources):
            if code:
                raise for_code(code)(message)

    async def delete_records(self, topic, partition, before):
        at = TopicPartition(topic, partition)
        await (await self.admin()).delete_records({at: RecordsToDelete(before)})


class Member(ConsumerRebalanceListener):
    """A consumer in a task of its own."""

    def __init__(self, consumer, topic):
        self.consumer, self.topic, self.progress, self.running = consumer, topic, Progress(), True
        consumer.subscribe([topic], listener=self)
        self.task = asyncio.create_task(self._run())

    def on_partitions_assigned(self, assigned):
        self.progress.assigned(p.partition for p in self.consumer.assignment())

    def on_partitions_revoked(self, revoked):
        gone = {p.partition for p in revoked}
        self.progress.partitions = [p for p in self.progress.partitions if p not in gone]

    async def _run(self):
        while self.running:
            try:
                for at, batch in (await self.consumer.getmany(timeout_ms=50)).items():
                    for record in batch:
                        self.progress.record(at.partition, record.offset)
            except Exception as error:
                self.progress.error = error
                return

    async def commit(self):
        own = [(p, o) for p, o in self.progress.next.items() if p in self.progress.partitions]
        await self.consumer.commit({TopicPartition(self.topic, p): o for p, o in own})

    async def leave(self):
        self.running = False
        await self.task
        await self.consumer.stop()
