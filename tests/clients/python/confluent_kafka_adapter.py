"""confluent-kafka: librdkafka from Python."""

import threading
import time

from adapter import Digest, Progress
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

PATIENCE = 240


class Client:
    def __init__(self, bootstrap):
        # A request is not sent again while its answer may still come.
        self.base = {"bootstrap.servers": bootstrap, "socket.timeout.ms": PATIENCE * 1000}
        self.admin = AdminClient(self.base)
        self.readers = {}
        self.members = {}

    def create(self, topic, partitions, config):
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
        self.admin.create_topics([new])[topic].result(PATIENCE)

    def partitions(self, topic):
        return {"count": len(self.admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions)}

    def produce(self, topic, partition, values, codec, acks, idempotent, timestamp=None):
        settings = {
            "compression.type": codec,
            "acks": acks,
            "enable.idempotence": idempotent,
            "linger.ms": 5,
            "request.timeout.ms": PATIENCE * 1000,
        }
        producer = Producer(self.base | settings)
        first, errors = [], []

        def delivered(error, message):
            if error:
                errors.append(error)
            else:
                first.append(message.offset())

        for i, value in enumerate(values):
            time_ms = {} if timestamp is None else {"timestamp": timestamp + i}
            producer.produce(topic, value, partition=partition, on_delivery=delivered, **time_ms)
            producer.poll(0)
        left = producer.flush(PATIENCE)
        if errors:
            raise KafkaException(errors[0])
        if left or len(first) != len(values):
            raise TimeoutError(f"{len(first)} of {len(values)} delivered")
        return {"first": -1 if acks == "0" else first[0]}

    def _consumer(self, **settings):
        return Consumer(self.base | {"group.id": "unused", "enable.auto.commit": False} | settings)

    def open(self, id, topic, partition, start, reset):
        consumer = self._consumer(**{"auto.offset.reset": {"none": "error"}.get(reset, reset)})
        at = TopicPartition(topic, partition)
        if start == "beginning":
            at.offset = OFFSET_BEGINNING
        elif start == "end":
            at.offset = consumer.get_watermark_offsets(at, timeout=PATIENCE)[1]
        elif isinstance(start, dict):
            at.offset = start["timestamp"]
            at = consumer.offsets_for_times([at], timeout=PATIENCE)[0]
        else:
            at.offset = start
        consumer.assign([at])
        self.readers[id] = consumer

    def take(self, id, count):
        records, deadline = [], time.monotonic() + PATIENCE
        while len(records) < count:
            message = self.readers[id].poll(0.5)
            if message is not None:
                if message.error():
                    raise KafkaException(message.error())
                records.append([message.offset(), message.value().decode()])
            elif time.monotonic() > deadline:
                raise TimeoutError(f"{len(records)} of {count} records")
        return {"records": records}

    def poll(self, id):
        message = self.readers[id].poll(0.5)
        if message is None:
            return {"records": []}
        if message.error():
            raise KafkaException(message.error())
        return {"records": [[message.offset(), message.value().decode()]]}

    def close(self, id):
        self.readers.pop(id).close()

    def digest(self, topic, partitions, count):
        consumer = self._consumer()
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        digest, deadline = Digest(), time.monotonic() + PATIENCE
        while digest.count < count and time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=0.2):
                if message.error():
                    raise KafkaException(message.error())
                digest.add(message.partition(), message.offset(), message.value())
        consumer.close()
        return digest.reply()

    def join(self, id, group, topic, instance, protocol):
        settings = {"group.id": group, "auto.offset.reset": "earliest", "group.protocol": protocol}
        if instance:
            settings["group.instance.id"] = instance
        if protocol == "classic":
            settings |= {"session.timeout.ms": 240000, "heartbeat.interval.ms": 500}
        self.members[id] = Member(self._consumer(**settings), topic)

    def member(self, id):
        return self.members[id].progress.reply()

    def commit(self, id):
        self.members[id].commit()

    def leave(self, id):
        self.members.pop(id).leave()

    def committed(self, group, topic, partition):
        consumer = self._consumer(**{"group.id": group})
        found = consumer.committed([TopicPartition(topic, partition)], timeout=PATIENCE)[0]
        consumer.close()
        return {"offset": max(found.offset, -1)}

    def describe(self, topic, key):
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return {"value": self.admin.describe_configs([resource])[resource].result(PATIENCE)[key].value}

    def alter(self, topic, key, value):
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(PATIENCE)

    def delete_records(self, topic, partition, before):
        at = TopicPartition(topic, partition, before)
        self.admin.delete_records([at])[at].result(PATIENCE)


class Member:
    """A consumer in a thread of its own, which is the only one to touch it."""

    def __init__(self, consumer, topic):
        self.consumer, self.topic, self.progress = consumer, topic, Progress()
        self.work, self.done, self.running = None, threading.Event(), True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        def assigned(consumer, partitions):
            self.progress.assigned(p.partition for p in consumer.assignment() + partitions)

        def revoked(consumer, partitions):
            gone = {p.partition for p in partitions}
            self.progress.partitions = [p for p in self.progress.partitions if p not in gone]

        self.consumer.subscribe([self.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        while self.running:
            message = self.consumer.poll(0.05)
            if message is not None and message.error():
                self.progress.error = KafkaException(message.error())
            elif message is not None:
                self.progress.record(message.partition(), message.offset())
            if self.work:
                self.work()
                self.work = None
                self.done.set()
        self.consumer.close()

    def commit(self):
        failed = []

        def commit():
            try:
                own = [(p, o) for p, o in self.progress.next.items() if p in self.progress.partitions]
                positions = [TopicPartition(self.topic, p, o) for p, o in own]
                for result in self.consumer.commit(offsets=positions, asynchronous=False):
                    if result.error:
                        failed.append(KafkaException(result.error))
            except KafkaException as error:
                failed.append(error)

        self.done.clear()
        self.work = commit
        if not self.done.wait(PATIENCE):
            raise TimeoutError("the commit")
        if failed:
            raise failed[0]

    def leave(self):
        self.running = False
        self.thread.join(PATIENCE)
