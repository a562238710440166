//! Every record exactly once, across many small segments, several partitions in one fetch, and whatever the limits of the fetch are.
//!
//! A fetch never crosses a segment boundary and may end inside a batch; both must go unnoticed.
use std::collections::BTreeMap;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{CreateTopicsRequest, FetchRequest, FetchResponse, ProduceRequest};
use tidemark::log::batch;
use tidemark::log::records::OpenBatch;
use tidemark::wire::apis::{text, topic_name};
use tidemark::wire::client::{Client, ClientRecord, encode_batch};

use crate::scene::{Scene, T};

const PARTITIONS: i32 = 6;
/// Batches per partition, of one to four records.
const BATCHES: i64 = 300;

async fn fill(kafka: &mut Client) -> BTreeMap<i32, i64> {
    let config = |name: &str, value: &str| {
        CreatableTopicConfig::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
    };
    let topic = CreatableTopic::default()
        .with_name(topic_name("events"))
        .with_num_partitions(PARTITIONS)
        .with_replication_factor(1)
        .with_configs(vec![
            config("internal.segment.bytes", "3000"),
            config("index.interval.bytes", "500"),
        ]);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    assert_eq!(kafka.call(5, &request).await.unwrap().topics[0].error_code, 0);
    let mut ends = BTreeMap::new();
    for round in 0..BATCHES {
        let mut data = Vec::new();
        for partition in 0..PARTITIONS {
            let end = ends.entry(partition).or_insert(0_i64);
            let count = 1 + (round + i64::from(partition)) % 4;
            let records: Vec<ClientRecord> = (0..count)
                .map(|at| ClientRecord::new(T, value(partition, *end + at)))
                .collect();
            *end += count;
            let records = Some(encode_batch(&records).unwrap());
            data.push(
                PartitionProduceData::default()
                    .with_index(partition)
                    .with_records(records),
            );
        }
        let topic = TopicProduceData::default()
            .with_name(topic_name("events"))
            .with_partition_data(data);
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![topic]);
        let response = kafka.call(9, &request).await.unwrap();
        assert!(
            response.responses[0]
                .partition_responses
                .iter()
                .all(|partition| partition.error_code == 0)
        );
    }
    ends
}

/// What the record at `offset` holds: of a length of its own, up to some hundred bytes.
fn value(partition: i32, offset: i64) -> String {
    let filler = "x".repeat(usize::try_from(offset * 37 % 400).unwrap());
    format!("{partition}/{offset}/{filler}")
}

/// Takes the records at and behind `next` out of one answer, as a client does, and moves `next` on.
fn take(partition: i32, records: &[u8], next: &mut i64) {
    for batch in batch::batches(records) {
        // The last one may be cut off.
        let Ok(batch) = batch else { break };
        let open = OpenBatch::open(&batch, 1 << 20).unwrap();
        for record in open.records() {
            let record = record.unwrap();
            if record.offset < *next {
                continue;
            }
            assert_eq!(record.offset, *next, "partition {partition} skips records");
            assert_eq!(record.value, Some(value(partition, record.offset).as_bytes()));
            *next += 1;
        }
    }
}

fn asked(next: &BTreeMap<i32, i64>, only: Option<&[i32]>, partition_bytes: i32) -> Vec<FetchTopic> {
    let wanted = next
        .iter()
        .filter(|(partition, _)| only.is_none_or(|only| only.contains(partition)));
    let partitions = wanted.map(|(partition, offset)| {
        FetchPartition::default()
            .with_partition(*partition)
            .with_fetch_offset(*offset)
            .with_partition_max_bytes(partition_bytes)
    });
    vec![
        FetchTopic::default()
            .with_topic(topic_name("events"))
            .with_partitions(partitions.collect()),
    ]
}

fn absorb(response: &FetchResponse, next: &mut BTreeMap<i32, i64>) -> Vec<i32> {
    assert_eq!(response.error_code, 0);
    let mut moved = Vec::new();
    for partition in response.responses.iter().flat_map(|topic| &topic.partitions) {
        assert_eq!(partition.error_code, 0, "partition {}", partition.partition_index);
        let at = next.get_mut(&partition.partition_index).unwrap();
        let before = *at;
        take(partition.partition_index, partition.records.as_ref().unwrap(), at);
        if *at > before {
            moved.push(partition.partition_index);
        }
    }
    moved
}

#[tokio::test]
async fn every_record_is_read_once_whatever_the_limits() {
    let mut scene = Scene::new().await;
    let ends = fill(&mut scene.kafka).await;
    for (version, max_bytes, partition_bytes) in [
        (4, i32::MAX, i32::MAX),
        (11, 1 << 20, 1 << 20),
        (12, 20_000, 3_000),
        (12, 20_000, 700),
        (11, 1, 1),
    ] {
        let mut next: BTreeMap<i32, i64> = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
        let mut fetches = 0;
        while next != ends {
            let request = FetchRequest::default()
                .with_replica_id((-1).into())
                .with_max_wait_ms(0)
                .with_min_bytes(1)
                .with_max_bytes(max_bytes)
                .with_session_epoch(-1)
                .with_topics(asked(&next, None, partition_bytes));
            let response = scene.kafka.call(version, &request).await.unwrap();
            let moved = absorb(&response, &mut next);
            assert!(
                !moved.is_empty(),
                "v{version}, {max_bytes} and {partition_bytes} bytes: stuck at {next:?}"
            );
            fetches += 1;
        }
        assert!(
            fetches > 30,
            "{fetches} fetches cannot have crossed the segments one by one"
        );
    }
}

#[tokio::test]
async fn a_session_reads_every_record_once_and_lets_no_partition_starve() {
    let mut scene = Scene::new().await;
    let ends = fill(&mut scene.kafka).await;
    let mut next: BTreeMap<i32, i64> = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
    let (mut session, mut epoch) = (0, 0);
    let mut changed: Vec<i32> = next.keys().copied().collect();
    let mut rounds = 0;
    let mut first_half_done = None;
    while next != ends {
        let request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(0)
            .with_min_bytes(1)
            .with_max_bytes(2_000)
            .with_session_id(session)
            .with_session_epoch(epoch)
            .with_topics(asked(&next, Some(&changed), 2_000));
        let response = scene.kafka.call(12, &request).await.unwrap();
        session = response.session_id;
        assert_ne!(session, 0);
        epoch += 1;
        changed = absorb(&response, &mut next);
        assert!(!changed.is_empty(), "stuck at {next:?}");
        rounds += 1;
        if first_half_done.is_none() && next.iter().any(|(partition, at)| *at * 2 > ends[partition]) {
            // No one is half through while another has hardly begun.
            let slowest = next
                .iter()
                .map(|(partition, at)| *at * 100 / ends[partition])
                .min();
            first_half_done = slowest;
        }
    }
    assert!(rounds > 100, "{rounds}");
    assert!(
        first_half_done.unwrap() > 20,
        "one is half through, another at {first_half_done:?} percent"
    );
}
