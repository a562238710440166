//! A topic goes while a member reads it: what commit, heartbeat, fetch, metadata and leaving are answered then must be what
//! Apache Kafka answers, or a client that is about to close waits for something that never comes.
use std::time::Instant;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{DeleteTopicsRequest, FetchRequest, MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use tidemark::wire::client::{Client, ClientRecord};
use uuid::Uuid;

use crate::group_side::Side;
use crate::groups::{Step, Who};
use crate::support::kafka::Kafka;
use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;
use crate::support::wait::PATIENCE;

fn name() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

/// Error codes of topic and partitions.
async fn metadata(client: &mut Client, id: Option<Uuid>) -> String {
    let topic = match id {
        Some(id) => MetadataRequestTopic::default().with_name(None).with_topic_id(id),
        None => MetadataRequestTopic::default().with_name(Some(name())),
    };
    let version = if id.is_some() { 12 } else { 4 };
    let request = MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(false);
    let reply = client.call(version, &request).await.unwrap();
    let topic = &reply.topics[0];
    format!("{} with {} partitions", topic.error_code, topic.partitions.len())
}

/// Waits at the end of the log, if there is one; answers the error codes.
async fn fetch(mut client: Client, version: i16, id: Uuid, max_wait_ms: i32) -> String {
    let partition = FetchPartition::default()
        .with_partition(0)
        .with_current_leader_epoch(-1)
        .with_fetch_offset(1)
        .with_partition_max_bytes(1 << 20);
    let mut topic = FetchTopic::default().with_partitions(vec![partition]);
    if version >= 13 {
        topic.topic_id = id;
    } else {
        topic.topic = name();
    }
    let request = FetchRequest::default()
        .with_replica_id((-1).into())
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic]);
    let reply = client.call(version, &request).await.unwrap();
    let codes: Vec<i16> = reply
        .responses
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|partition| partition.error_code)
        .collect();
    format!("{} {codes:?}", reply.error_code)
}

/// What a member sees of the end of its topic, line by line.
async fn the_end(bootstrap: &str) -> Vec<String> {
    let mut side = Side::new(bootstrap).await;
    side.classic("fixed", None).await;
    let mut client = Client::connect(bootstrap, "reader").await.unwrap();
    client
        .produce("t", 0, &[ClientRecord::new(1, "v")])
        .await
        .unwrap();
    let commit = |version: i16| Step::Commit {
        version,
        group: "fixed",
        who: Who::Member("fixed", 0),
        instance: None,
        topic: "t",
        partition: 0,
        offset: 1,
        note: None,
    };
    let heartbeat = Step::Heartbeat {
        version: 4,
        group: "fixed",
        who: Who::Member("fixed", 0),
        instance: None,
    };
    let positions = Step::Fetch {
        version: 7,
        group: "fixed",
        who: None,
        all: true,
    };
    let mut seen = Vec::new();
    for step in [commit(7), heartbeat.clone()] {
        seen.push(format!("before: {step:?}: {}", side.run(&step).await));
    }
    let id = client
        .call(12, &MetadataRequest::default().with_topics(None))
        .await
        .unwrap()
        .topics
        .iter()
        .find(|topic| topic.name == Some(name()))
        .unwrap()
        .topic_id;
    // Parked: sent before the deletion is, on connections of their own.
    let mut parked = Vec::new();
    for version in [11, 13, 16] {
        let connection = Client::connect(bootstrap, "parked").await.unwrap();
        let waiting = tokio::spawn(fetch(connection, version, id, 600_000));
        parked.push((version, waiting));
    }
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let request = DeleteTopicsRequest::default()
        .with_topic_names(vec![name()])
        .with_timeout_ms(30_000);
    let reply = client.call(5, &request).await.unwrap();
    seen.push(format!("deleted: {}", reply.responses[0].error_code));
    for (version, waiting) in parked {
        seen.push(format!("parked fetch {version}: {}", waiting.await.unwrap()));
    }
    while !metadata(&mut client, None).await.starts_with("3 ") {}
    seen.push(format!("metadata by name: {}", metadata(&mut client, None).await));
    seen.push(format!(
        "metadata by id: {}",
        metadata(&mut client, Some(id)).await
    ));
    for version in [11, 13, 16] {
        let connection = Client::connect(bootstrap, "late").await.unwrap();
        seen.push(format!(
            "late fetch {version}: {}",
            fetch(connection, version, id, 0).await
        ));
    }
    for version in [7, 8, 9] {
        let step = commit(version);
        seen.push(format!("after: {step:?}: {}", side.run(&step).await));
    }
    let leave = |version: i16| Step::Leave {
        version,
        group: "fixed",
        who: Who::Member("fixed", 0),
        instance: None,
    };
    for step in [heartbeat, leave(1), leave(4)] {
        let mut answer = side.run(&step).await;
        if let Some(at) = answer.find("scripted-") {
            answer.replace_range(at + 9..at + 9 + 36, "<uuid>");
        }
        seen.push(format!("after: {step:?}: {answer}"));
    }
    // Both drop the positions in their own time.
    let deadline = Instant::now() + PATIENCE;
    let mut left = side.run(&positions).await;
    while left.contains("t [") && Instant::now() < deadline {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        left = side.run(&positions).await;
    }
    seen.push(format!("positions: {left}"));
    seen
}

/// The same on a topic whose fetches were parked when it went. One that came too late is told so by its answer, that the topic's id is not
/// known, and everything is done once more.
async fn the_end_of_parked_fetches(bootstrap: &str) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen = the_end(bootstrap).await;
        let parked = seen.iter().filter(|line| line.starts_with("parked fetch"));
        if parked.clone().all(|line| !line.ends_with("[100]")) {
            break;
        }
    }
    seen
}

#[test]
fn a_member_is_told_of_the_end_of_its_topic_as_by_kafka() {
    let kafka = Kafka::start(&[]);
    let home = TempDir::new("deleted-topic");
    let engine = Tidemark::engine(home.path(), &[]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let theirs = runtime.block_on(the_end_of_parked_fetches(kafka.bootstrap()));
    let ours = runtime.block_on(the_end_of_parked_fetches(engine.bootstrap()));
    assert_eq!(ours.join("\n"), theirs.join("\n"));
}
