//! A disk that takes its time with an fsync keeps those waiting who asked for one, and nobody else.
use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use tidemark::wire::apis::{text, topic_name};
use tidemark::wire::client::{Client, ClientRecord};
use tokio::task::JoinSet;

use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;
use crate::support::wait::PATIENCE;

const NOW: i64 = 1_700_000_000_000;
/// More than an engine has threads for its connections.
const PRODUCERS: i32 = 32;

async fn create(engine: &Tidemark, name: &str, settings: &[(&str, &str)]) {
    let configs = settings.iter().map(|(key, value)| {
        CreatableTopicConfig::default()
            .with_name(text(*key))
            .with_value(Some(text(*value)))
    });
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(PRODUCERS)
        .with_replication_factor(1)
        .with_configs(configs.collect());
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    let mut client = Client::connect(engine.bootstrap(), "tests").await.unwrap();
    assert_eq!(client.call(5, &request).await.unwrap().topics[0].error_code, 0);
}

#[tokio::test]
async fn a_flush_that_hangs_keeps_no_other_connection_waiting() {
    let home = TempDir::new("slow-disk");
    let engine = Tidemark::engine(home.path(), &["--check-interval", "1h"]);
    create(&engine, "flushed", &[("flush.messages", "1")]).await;
    create(&engine, "plain", &[]).await;
    let hold = engine.http("PUT", "/v1/failpoints/log::before-fsync", None);
    assert_eq!(hold.status, 204, "{}", hold.body);

    let mut producers = JoinSet::new();
    for partition in 0..PRODUCERS {
        let address = engine.bootstrap().to_owned();
        producers.spawn(async move {
            let mut client = Client::connect(&*address, "flushed").await.unwrap();
            let record = ClientRecord::new(NOW, "value");
            client.produce("flushed", partition, &[record]).await.unwrap()
        });
    }
    // Everybody is in the middle of it once each record is in its log.
    let all_wait = async {
        let mut client = Client::connect(engine.bootstrap(), "looks").await.unwrap();
        for partition in 0..PRODUCERS {
            while client
                .fetch("flushed", partition, 0, 100)
                .await
                .unwrap()
                .is_empty()
            {}
        }
        let mut other = Client::connect(engine.bootstrap(), "plain").await.unwrap();
        let record = ClientRecord::new(NOW, "value");
        other.produce("plain", 0, &[record]).await.unwrap();
        assert_eq!(other.fetch("plain", 0, 0, 100).await.unwrap().len(), 1);
    };
    tokio::time::timeout(PATIENCE, all_wait)
        .await
        .expect("other connections wait for a flush that is not theirs");
    // None of them was told that its record is there before it is on the disk.
    assert!(producers.try_join_next().is_none());
    let release = engine.http("DELETE", "/v1/failpoints/log::before-fsync", None);
    assert_eq!(release.status, 204, "{}", release.body);
    while let Some(offset) = producers.join_next().await {
        assert_eq!(offset.unwrap(), 0);
    }
}
