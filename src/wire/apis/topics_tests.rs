//! Topics over the wire: created, described, found by name, id and time.
use std::sync::atomic::Ordering;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{CreateTopicsRequest, ListOffsetsRequest, MetadataRequest};

use super::*;
use crate::wire::client::{Client, ClientRecord, encode_batch};
use crate::wire::limits::Limits;
use crate::wire::test_broker::TestBroker;
use crate::wire::test_requests::produce;

#[tokio::test]
async fn topics_are_created_described_and_found_by_id() {
    let broker = TestBroker::new();
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    let config = CreatableTopicConfig::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("1000")));
    let topic = |name: &str, partitions, factor| {
        CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(factor)
    };
    let request = CreateTopicsRequest::default()
        .with_timeout_ms(1_000)
        .with_topics(vec![
            topic("one", 3, 1).with_configs(vec![config]),
            topic("three", 3, 3),
            topic("none", 0, 1),
            topic("twice", 1, 1),
            topic("twice", 1, 1),
        ]);
    let response = client.call(7, &request).await.unwrap();
    let told: Vec<_> = response
        .topics
        .iter()
        .map(|topic| (topic.name.to_string(), topic.error_code, topic.num_partitions))
        .collect();
    let expected = [
        ("one", 0, 3),
        ("three", 38, -1),
        ("none", 37, -1),
        ("twice", 42, -1),
    ];
    assert_eq!(
        told,
        expected.map(|(name, code, count)| (name.to_owned(), code, count))
    );
    // A name that is taken comes before the counts, and a count that cannot be before one that cannot be reached.
    let request_of = |topic| request.clone().with_topics(vec![topic]);
    for (wrong, code) in [
        (topic("one", 0, 3), 36),
        (topic("new", 0, 3), 37),
        (topic("new", 0, 0), 38),
        (topic("new", 1, 3), 38),
    ] {
        let response = client.call(7, &request_of(wrong.clone())).await.unwrap();
        assert_eq!(response.topics[0].error_code, code, "{wrong:?}");
    }
    for version in 2..=7 {
        let request = request.clone().with_validate_only(true);
        assert_eq!(
            client.call(version, &request).await.unwrap().topics[0].error_code,
            36,
            "v{version}"
        );
    }
    let id = broker.topic("one").unwrap().id;
    for version in 0..=13 {
        let all = MetadataRequest::default().with_topics(if version == 0 { Some(Vec::new()) } else { None });
        let response = client.call(version, &all).await.unwrap();
        assert_eq!(response.topics.len(), 1, "v{version}");
        assert_eq!(response.topics[0].partitions.len(), 3, "v{version}");
        assert_eq!(
            (&*response.brokers[0].host, response.brokers[0].port),
            ("broker.test", 9092)
        );
        if version >= 10 {
            assert_eq!(response.topics[0].topic_id, id, "v{version}");
        }
        if version >= 7 {
            assert_eq!(response.topics[0].partitions[0].leader_epoch, 5, "v{version}");
        }
    }
    let asked = |name: Option<&str>, id: uuid::Uuid| {
        kafka_protocol::messages::metadata_request::MetadataRequestTopic::default()
            .with_name(name.map(topic_name))
            .with_topic_id(id)
    };
    let nil = uuid::Uuid::nil();
    let request = MetadataRequest::default().with_topics(Some(vec![
        asked(None, id),
        asked(None, uuid::Uuid::from_u128(5)),
        asked(Some("missing"), nil),
        asked(Some("no/slash"), nil),
    ]));
    let response = client.call(12, &request).await.unwrap();
    let codes: Vec<_> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, 100, 3, 17]);
    assert!(broker.topic("missing").is_none());
    broker.auto_create.store(true, Ordering::SeqCst);
    let request = MetadataRequest::default().with_topics(Some(vec![asked(Some("missing"), nil)]));
    let refused = request.clone().with_allow_auto_topic_creation(false);
    assert_eq!(client.call(12, &refused).await.unwrap().topics[0].error_code, 3);
    assert_eq!(client.call(12, &request).await.unwrap().topics[0].error_code, 5);
    assert_eq!(client.call(12, &request).await.unwrap().topics[0].error_code, 0);
}

#[tokio::test]
async fn offsets_are_listed_by_name_and_by_time() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    for time in [10, 30, 20] {
        let batch = encode_batch(&[ClientRecord::new(time, "v")]).unwrap();
        produce(&mut client, &topic, 9, vec![(0, batch)]).await;
    }
    topic
        .partition(0)
        .unwrap()
        .log()
        .unwrap()
        .delete_records(1)
        .unwrap();
    let request = |timestamp: i64, isolation: i8| {
        let partition = ListOffsetsPartition::default()
            .with_timestamp(timestamp)
            .with_current_leader_epoch(-1);
        ListOffsetsRequest::default()
            .with_replica_id((-1).into())
            .with_isolation_level(isolation)
            .with_topics(vec![
                ListOffsetsTopic::default()
                    .with_name(topic_name("events"))
                    .with_partitions(vec![partition]),
            ])
    };
    for (version, timestamp, expected) in [
        (1, -1, (0, 3, -1)),
        (10, -1, (0, 3, -1)),
        (10, -2, (0, 1, -1)),
        (7, -3, (0, 1, 30)),
        (6, -3, (35, -1, -1)),
        (8, -4, (0, 1, -1)),
        (7, -4, (35, -1, -1)),
        (9, -5, (0, -1, -1)),
        (10, -6, (35, -1, -1)),
        (10, -7, (35, -1, -1)),
        (1, 5, (0, 1, 30)),
        (4, 20, (0, 1, 30)),
        (4, 31, (0, -1, -1)),
    ] {
        for isolation in [0, 1] {
            if isolation == 1 && version < 2 {
                continue;
            }
            let response = client
                .call(version, &request(timestamp, isolation))
                .await
                .unwrap();
            let partition = &response.topics[0].partitions[0];
            let found = (partition.error_code, partition.offset, partition.timestamp);
            assert_eq!(
                found, expected,
                "v{version} timestamp {timestamp} isolation {isolation}"
            );
        }
    }
    let latest = client.call(5, &request(-1, 0)).await.unwrap();
    assert_eq!(latest.topics[0].partitions[0].leader_epoch, 5);
    let mut twice = request(-1, 0);
    let again = twice.topics[0].partitions[0].clone();
    twice.topics[0].partitions.push(again);
    let response = client.call(5, &twice).await.unwrap();
    assert!(
        response.topics[0]
            .partitions
            .iter()
            .all(|partition| partition.error_code == 42)
    );
}
