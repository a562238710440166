"""kafka-python."""

import threading
import time

from adapter import Cannot, Digest, Progress
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.structs import OffsetAndMetadata

PATIENCE = 240


class Client:
    def __init__(self, bootstrap):
        # A request is not sent again while its answer may still come.
        self.base = {"bootstrap_servers": bootstrap, "request_timeout_ms": PATIENCE * 1000}
        self.readers = {}
        self.members = {}
        self._admin = None

    @property
    def admin(self):
        if self._admin is None:
            self._admin = KafkaAdminClient(**self.base)
        return self._admin

    def create(self, topic, partitions, config):
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": config}
        self.admin.create_topics({topic: options})

    def partitions(self, topic):
        return {"count": len(self.admin.describe_topics([topic])[0]["partitions"])}

    def produce(self, topic, partition, values, codec, acks, idempotent, timestamp=None):
        producer = KafkaProducer(
            **self.base,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            linger_ms=5,
            delivery_timeout_ms=2 * PATIENCE * 1000,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value.encode(),
                    partition=partition,
                    timestamp_ms=None if timestamp is None else timestamp + i,
                )
                for i, value in enumerate(values)
            ]
            producer.flush(PATIENCE)
            offsets = [future.get(PATIENCE).offset for future in sent]
        finally:
            producer.close(timeout=5)
        return {"first": -1 if acks == "0" else offsets[0]}

    def _consumer(self, **settings):
        return KafkaConsumer(**self.base, enable_auto_commit=False, **settings)

    def open(self, id, topic, partition, start, reset):
        consumer = self._consumer(auto_offset_reset=reset)
        at = TopicPartition(topic, partition)
        consumer.assign([at])
        if start == "beginning":
            consumer.seek_to_beginning(at)
        elif start == "end":
            consumer.seek(at, consumer.end_offsets([at])[at])
        elif isinstance(start, dict):
            consumer.seek(at, consumer.offsets_for_times({at: start["timestamp"]})[at].offset)
        else:
            consumer.seek(at, start)
        self.readers[id] = consumer

    def take(self, id, count):
        records, deadline = [], time.monotonic() + PATIENCE
        while len(records) < count:
            for batch in self.readers[id].poll(500, max_records=count - len(records)).values():
                records += [[record.offset, record.value.decode()] for record in batch]
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(records)} of {count} records")
        return {"records": records}

    def poll(self, id):
        batches = self.readers[id].poll(500, max_records=1).values()
        return {"records": [[r.offset, r.value.decode()] for batch in batches for r in batch]}

    def close(self, id):
        self.readers.pop(id).close()

    def digest(self, topic, partitions, count):
        consumer = self._consumer()
        consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
        consumer.seek_to_beginning()
        digest, deadline = Digest(), time.monotonic() + PATIENCE
        while digest.count < count and time.monotonic() < deadline:
            for at, batch in consumer.poll(500).items():
                for record in batch:
                    digest.add(at.partition, record.offset, record.value)
        consumer.close()
        return digest.reply()

    def join(self, id, group, topic, instance, protocol):
        if protocol != "classic":
            raise Cannot("no consumer-group protocol")
        consumer = self._consumer(
            group_id=group,
            group_instance_id=instance,
            auto_offset_reset="earliest",
            session_timeout_ms=180000,
            heartbeat_interval_ms=500,
        )
        self.members[id] = Member(consumer, topic)

    def member(self, id):
        return self.members[id].progress.reply()

    def commit(self, id):
        self.members[id].commit()

    def leave(self, id):
        self.members.pop(id).leave()

    def committed(self, group, topic, partition):
        consumer = self._consumer(group_id=group)
        offset = consumer.committed(TopicPartition(topic, partition))
        consumer.close()
        return {"offset": -1 if offset is None else offset}

    def describe(self, topic, key):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self.admin.describe_configs([resource], config_filter="all")
        return {"value": next(iter(found.values()))[topic][key]["value"]}

    def alter(self, topic, key, value):
        done = self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})])
        result = next(iter(done.values()))[topic]
        if isinstance(result, Exception) or (isinstance(result, type) and issubclass(result, Exception)):
            raise result
        if result not in (None, "OK"):
            raise RuntimeError(str(result))

    def delete_records(self, topic, partition, before):
        self.admin.delete_records({TopicPartition(topic, partition): before})


class Member(ConsumerRebalanceListener):
    """A consumer in a thread of its own, which is the only one to touch it."""

    def __init__(self, consumer, topic):
        self.consumer, self.topic, self.progress = consumer, topic, Progress()
        self.work, self.done, self.running = None, threading.Event(), True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def on_partitions_assigned(self, assigned):
        self.progress.assigned(p.partition for p in self.consumer.assignment())

    def on_partitions_revoked(self, revoked):
        gone = {p.partition for p in revoked}
        self.progress.partitions = [p for p in self.progress.partitions if p not in gone]

    def _run(self):
        self.consumer.subscribe([self.topic], listener=self)
        while self.running:
            try:
                for at, batch in self.consumer.poll(50).items():
                    for record in batch:
                        self.progress.record(at.partition, record.offset)
            except Exception as error:
                self.progress.error = error
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
                self.consumer.commit({TopicPartition(self.topic, p): OffsetAndMetadata(o, "", -1) for p, o in own})
            except Exception as error:
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
