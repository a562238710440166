//! kill -9 under load, over and over: what was acknowledged is there afterwards, once, and nothing that was trimmed comes back.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use bytes::BytesMut;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    DeleteRecordsRequest, GroupId, InitProducerIdRequest, OffsetFetchRequest, ProduceRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use tidemark::wire::client::Client;

use crate::scene::eventually;
use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;

const KILLS: u32 = 100;
/// Records in each batch.
const BATCH: i32 = 5;

fn topic() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// An idempotent producer that numbers its records and sends a batch again until it is acknowledged.
struct Producer {
    id: i64,
    epoch: i16,
    /// Sequence, and value, of the next record.
    next: i32,
}

impl Producer {
    async fn new(client: &mut Client) -> Self {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(60_000);
        let reply = client.call(4, &request).await.unwrap();
        assert_eq!(reply.error_code, 0);
        Self {
            id: reply.producer_id.0,
            epoch: reply.producer_epoch,
            next: 0,
        }
    }

    /// Sends the next batch; moves on only when it is acknowledged.
    async fn send(&mut self, client: &mut Client) -> Result<(), String> {
        let records: Vec<Record> = (0..BATCH)
            .map(|index| Record {
                transactional: false,
                control: false,
                delete_horizon: false,
                partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
                producer_id: self.id,
                producer_epoch: self.epoch,
                timestamp_type: TimestampType::Creation,
                offset: i64::from(index),
                sequence: self.next + index,
                // Recent: as in Kafka a producer is forgotten at a start by the time of its last records.
                timestamp: now_ms(),
                key: None,
                value: Some((self.next + index).to_string().into()),
                headers: IndexMap::new(),
            })
            .collect();
        let mut encoded = BytesMut::new();
        let options = RecordEncodeOptions {
            version: 2,
            compression: Compression::None,
        };
        RecordBatchEncoder::encode(&mut encoded, &records, &options).unwrap();
        let data = PartitionProduceData::default().with_records(Some(encoded.freeze()));
        let data = TopicProduceData::default()
            .with_name(topic())
            .with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![data]);
        let reply = client
            .call(9, &request)
            .await
            .map_err(|error| error.to_string())?;
        let answer = &reply.responses[0].partition_responses[0];
        match answer.error_code {
            0 => {
                self.next += BATCH;
                Ok(())
            }
            code => panic!(
                "batch {} of producer {} was refused with {code}",
                self.next, self.id
            ),
        }
    }
}

pub async fn committed(client: &mut Client) -> i64 {
    let wanted = OffsetFetchRequestTopic::default()
        .with_name(topic())
        .with_partition_indexes(vec![0]);
    let request = OffsetFetchRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str("g")))
        .with_topics(Some(vec![wanted]));
    let reply = client.call(5, &request).await.unwrap();
    reply.topics[0].partitions[0].committed_offset
}

async fn delete_records(client: &mut Client, offset: i64) -> Result<(), String> {
    let partition = DeleteRecordsPartition::default().with_offset(offset);
    let wanted = DeleteRecordsTopic::default()
        .with_name(topic())
        .with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default()
        .with_topics(vec![wanted])
        .with_timeout_ms(30_000);
    let reply = client
        .call(2, &request)
        .await
        .map_err(|error| error.to_string())?;
    match reply.topics[0].partitions[0].error_code {
        0 => Ok(()),
        code => panic!("deleting up to {offset} was refused with {code}"),
    }
}

/// What has been acknowledged so far.
#[derive(Default)]
struct Acknowledged {
    batches: AtomicU64,
    committed: AtomicI64,
    log_start: AtomicI64,
}

/// A small generator, so that a failing run can be repeated from its seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn what_was_acknowledged_survives_a_hundred_kills_under_load() {
    let seed = now_ms().unsigned_abs();
    println!("seed {seed}");
    let mut random = Random(seed);
    let home = TempDir::new("kill-loop");
    let mut engine = Tidemark::engine(home.path(), &["--check-interval", "1h"]);
    let body = r#"{"partitions": 1, "config": {"retention.ms": "-1", "internal.segment.bytes": "2000", "file.delete.delay.ms": "0"}}"#;
    engine.http("PUT", "/v1/topics/t", Some(body)).json(200);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let bootstrap = engine.bootstrap().to_owned();
    let acknowledged = Arc::new(Acknowledged::default());
    let mut producer = runtime.block_on(async {
        let mut client = Client::connect(&bootstrap, "kill").await.unwrap();
        Producer::new(&mut client).await
    });
    let mut other = Vec::new();
    for kill in 0..KILLS {
        let stopping = Arc::new(AtomicBool::new(false));
        let producing = runtime.spawn({
            let (bootstrap, stopping) = (bootstrap.clone(), Arc::clone(&stopping));
            let acknowledged = Arc::clone(&acknowledged);
            async move {
                let Ok(mut client) = Client::connect(&bootstrap, "producer").await else {
                    return producer;
                };
                while !stopping.load(Ordering::SeqCst) && producer.send(&mut client).await.is_ok() {
                    acknowledged.batches.fetch_add(1, Ordering::SeqCst);
                }
                producer
            }
        });
        let committing = runtime.spawn({
            let (bootstrap, stopping) = (bootstrap.clone(), Arc::clone(&stopping));
            let acknowledged = Arc::clone(&acknowledged);
            async move {
                let Ok(mut client) = Client::connect(&bootstrap, "committer").await else {
                    return;
                };
                while !stopping.load(Ordering::SeqCst) {
                    let next = acknowledged.committed.load(Ordering::SeqCst) + 1;
                    if client.commit("g", "t", 0, next).await.is_err() {
                        return;
                    }
                    acknowledged.committed.store(next, Ordering::SeqCst);
                }
            }
        });
        let trims = random.below(4) == 0;
        // The moment of the death: after so many more batches, whatever they take.
        let more = random.below(30);
        let before = acknowledged.batches.load(Ordering::SeqCst);
        runtime.block_on(async {
            eventually("batches to be acknowledged", async || {
                let come = acknowledged.batches.load(Ordering::SeqCst) - before;
                if come >= more { Ok(()) } else { Err(come) }
            })
            .await;
            if trims && let Ok(mut client) = Client::connect(&bootstrap, "trimmer").await {
                let start = acknowledged.log_start.load(Ordering::SeqCst);
                let observed = client.fetch("t", 0, start, 0).await;
                if let Ok(records) = observed
                    && let Some(middle) = records.get(records.len() / 2)
                    && delete_records(&mut client, middle.offset).await.is_ok()
                {
                    acknowledged.log_start.store(middle.offset, Ordering::SeqCst);
                }
            }
        });
        engine.kill();
        stopping.store(true, Ordering::SeqCst);
        producer = runtime.block_on(async {
            let _ = committing.await;
            producing.await.unwrap()
        });
        engine.start_again();
        runtime.block_on(async {
            let mut client = Client::connect(&bootstrap, "checker").await.unwrap();
            let kept = committed(&mut client).await;
            let wanted = acknowledged.committed.load(Ordering::SeqCst);
            // A commit that was sent and not answered may have got through.
            assert!(
                kept == wanted || kept == wanted + 1 || (wanted == 0 && kept == -1),
                "kill {kill}: {wanted} was committed, {kept} is kept"
            );
            acknowledged.committed.store(kept.max(wanted), Ordering::SeqCst);
        });
        if random.below(10) == 0 {
            engine.pass();
        }
        let observed = engine.get("/v1/topics/t");
        let log_start = observed["partitions"][0]["logStart"].as_i64().unwrap();
        let wanted = acknowledged.log_start.load(Ordering::SeqCst);
        // A trim that was sent and not answered may have got through; one that was answered never comes undone.
        assert!(
            log_start >= wanted,
            "kill {kill}: trimmed to {wanted}, starts at {log_start}"
        );
        acknowledged.log_start.store(log_start, Ordering::SeqCst);
        if kill % 10 == 9 {
            // Another producer beside it, whose ids must be its own.
            other.push(runtime.block_on(async {
                let mut client = Client::connect(&bootstrap, "other").await.unwrap();
                Producer::new(&mut client).await.id
            }));
        }
    }
    runtime.block_on(async {
        let mut client = Client::connect(&bootstrap, "reader").await.unwrap();
        // The batch that was under way at the last kill.
        producer.send(&mut client).await.unwrap();
        let mut offset = acknowledged.log_start.load(Ordering::SeqCst);
        let mut expected = i32::try_from(offset).unwrap();
        loop {
            let records = client.fetch("t", 0, offset, 0).await.unwrap();
            let Some(last) = records.last() else {
                break;
            };
            for record in &records {
                let value: i32 = std::str::from_utf8(record.value.as_ref().unwrap())
                    .unwrap()
                    .parse()
                    .unwrap();
                assert_eq!(
                    (record.offset, value),
                    (i64::from(expected), expected),
                    "seed {seed}"
                );
                expected += 1;
            }
            offset = last.offset + 1;
        }
        assert_eq!(
            expected, producer.next,
            "seed {seed}: every acknowledged record, once"
        );
        assert!(
            expected > 500,
            "too little was produced to show anything: {expected}"
        );
    });
    let mut ids = other.clone();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(
        ids.len(),
        other.len(),
        "a producer id was handed out twice: {other:?}"
    );
}
