//! Every door passes the guard: admin requests of Kafka clients on a topic that a resource owns.
use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource as IncrementalResource, AlterableConfig as IncrementalConfig,
};
use kafka_protocol::messages::{
    AlterConfigsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, FetchRequest, IncrementalAlterConfigsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use tidemark::resource::contract::OnLoss;

use crate::scene::{DAY, Desired, Scene, T};

const POLICY_VIOLATION: i16 = 44;
const TOPIC: i8 = 2;

fn text(of: &str) -> StrBytes {
    StrBytes::from_string(of.to_owned())
}

/// One setting, by `IncrementalAlterConfigs`; answers code and message.
pub async fn set(scene: &mut Scene, topic: &str, key: &str, value: &str) -> (i16, String) {
    let config = IncrementalConfig::default()
        .with_name(text(key))
        .with_config_operation(0)
        .with_value(Some(text(value)));
    let resource = IncrementalResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(topic))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let response = scene.kafka.call(1, &request).await.unwrap();
    let answer = &response.responses[0];
    (
        answer.error_code,
        answer.error_message.as_deref().unwrap_or_default().to_owned(),
    )
}

async fn replace(scene: &mut Scene, topic: &str, configs: &[(&str, &str)]) -> (i16, String) {
    let configs = configs
        .iter()
        .map(|(key, value)| {
            AlterableConfig::default()
                .with_name(text(key))
                .with_value(Some(text(value)))
        })
        .collect();
    let resource = AlterConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(topic))
        .with_configs(configs);
    let request = AlterConfigsRequest::default().with_resources(vec![resource]);
    let response = scene.kafka.call(2, &request).await.unwrap();
    let answer = &response.responses[0];
    (
        answer.error_code,
        answer.error_message.as_deref().unwrap_or_default().to_owned(),
    )
}

async fn delete_records(scene: &mut Scene, topic: &str, offset: i64) -> (i16, i64) {
    let partition = DeleteRecordsPartition::default()
        .with_partition_index(0)
        .with_offset(offset);
    let topic = DeleteRecordsTopic::default()
        .with_name(TopicName(text(topic)))
        .with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    let response = scene.kafka.call(2, &request).await.unwrap();
    let answer = &response.topics[0].partitions[0];
    (answer.error_code, answer.low_watermark)
}

async fn delete_topic(scene: &mut Scene, topic: &str) -> (i16, String) {
    let request = DeleteTopicsRequest::default()
        .with_topic_names(vec![TopicName(text(topic))])
        .with_timeout_ms(30_000);
    let response = scene.kafka.call(5, &request).await.unwrap();
    let answer = &response.responses[0];
    (
        answer.error_code,
        answer.error_message.as_deref().unwrap_or_default().to_owned(),
    )
}

async fn create_topic(scene: &mut Scene, topic: &str, configs: &[(&str, &str)]) -> (i16, String) {
    let configs = configs
        .iter()
        .map(|(key, value)| {
            CreatableTopicConfig::default()
                .with_name(text(key))
                .with_value(Some(text(value)))
        })
        .collect();
    let topic = CreatableTopic::default()
        .with_name(TopicName(text(topic)))
        .with_num_partitions(1)
        .with_replication_factor(1)
        .with_configs(configs);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    let response = scene.kafka.call(5, &request).await.unwrap();
    let answer = &response.topics[0];
    (
        answer.error_code,
        answer.error_message.as_deref().unwrap_or_default().to_owned(),
    )
}

/// Value, source and synonyms as `name=value/source`.
async fn describe(scene: &mut Scene, topic: &str, key: &str) -> (String, i8, Vec<String>) {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(topic))
        .with_configuration_keys(Some(vec![text(key)]));
    let request = DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true);
    let response = scene.kafka.call(4, &request).await.unwrap();
    let found = &response.results[0].configs[0];
    let synonyms = found
        .synonyms
        .iter()
        .map(|synonym| {
            format!(
                "{}={}/{}",
                &*synonym.name,
                synonym.value.as_deref().unwrap_or("-"),
                synonym.source
            )
        })
        .collect();
    (
        found.value.as_deref().unwrap_or("-").to_owned(),
        found.config_source,
        synonyms,
    )
}

/// A topic that a resource owns, 100 records, with a reader at 25.
async fn owned(scene: &mut Scene) {
    scene
        .apply("t", &Desired::new().set("retention.ms", 30 * DAY))
        .await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("billing", "t", 0, 25).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn altering_an_owned_topic_is_refused_with_reader_partition_and_numbers() {
    let mut scene = Scene::new().await;
    owned(&mut scene).await;
    let lower = (4 * DAY + DAY / 2).to_string();
    for (code, message) in [
        set(&mut scene, "t", "retention.ms", &lower).await,
        replace(
            &mut scene,
            "t",
            &[("retention.ms", &lower), ("internal.segment.bytes", "6000")],
        )
        .await,
    ] {
        assert_eq!(code, POLICY_VIOLATION, "{message}");
        for part in ["billing", "partition 0", "25", "60", "35"] {
            assert!(message.contains(part), "{part} not in {message:?}");
        }
    }
    assert_eq!(scene.in_force("t", "retention.ms").await, (30 * DAY).to_string());
    // A client's request does not wait: when the reader catches up nothing happens by itself.
    assert!(scene.observe("t").await.pending.is_none());
    scene.kafka.commit("billing", "t", 0, 100).await.unwrap();
    assert_eq!(set(&mut scene, "t", "retention.ms", &lower).await.0, 0);
    assert_eq!(scene.in_force("t", "retention.ms").await, lower);
}

/// A legacy AlterConfigs resets every key that it does not name, which is a lowering too.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_drops_an_override_is_judged_by_what_it_leaves() {
    let mut scene = Scene::new().await;
    owned(&mut scene).await;
    let (code, message) = replace(&mut scene, "t", &[("internal.segment.bytes", "6000")]).await;
    assert_eq!(code, POLICY_VIOLATION, "{message}");
    assert_eq!(scene.in_force("t", "retention.ms").await, (30 * DAY).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_records_of_an_owned_topic_is_refused_up_to_the_reader() {
    let mut scene = Scene::new().await;
    owned(&mut scene).await;
    assert_eq!(delete_records(&mut scene, "t", 26).await.0, POLICY_VIOLATION);
    assert_eq!(delete_records(&mut scene, "t", -1).await.0, POLICY_VIOLATION);
    assert_eq!(scene.log_start("t", 0).await, 0);
    assert_eq!(delete_records(&mut scene, "t", 25).await, (0, 25));
    assert_eq!(delete_records(&mut scene, "t", 101).await.0, 1);
    assert_eq!(scene.log_start("t", 0).await, 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_an_owned_topic_waits_for_its_readers_unless_loss_is_allowed() {
    let mut scene = Scene::new().await;
    owned(&mut scene).await;
    let (code, message) = delete_topic(&mut scene, "t").await;
    assert_eq!(code, POLICY_VIOLATION, "{message}");
    assert!(message.contains("billing"), "{message}");
    let allow = Desired::new()
        .set("retention.ms", 30 * DAY)
        .readers(|readers| readers.on_loss = OnLoss::Allow);
    scene.apply("t", &allow).await;
    assert_eq!(delete_topic(&mut scene, "t").await.0, 0);
    assert!(scene.engine.observe("t").is_err());
}

/// Nobody declared anything: what a client asks for is done, as in Kafka.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_without_an_owner_behaves_as_in_kafka() {
    let mut scene = Scene::new().await;
    let configs = [("internal.segment.bytes", "6000"), ("retention.ms", "-1")];
    assert_eq!(create_topic(&mut scene, "free", &configs).await.0, 0);
    assert_eq!(create_topic(&mut scene, "free", &configs).await.0, 36);
    scene.ten_days("free", 0).await;
    scene.kafka.commit("g", "free", 0, 0).await.unwrap();
    assert_eq!(delete_records(&mut scene, "free", 15).await, (0, 15));
    assert_eq!(
        set(&mut scene, "free", "retention.ms", &(4 * DAY).to_string())
            .await
            .0,
        0
    );
    scene.pass().await;
    assert_eq!(scene.log_start("free", 0).await, 60);
    let metrics = scene.metrics().await;
    let lost = "reader_lost_records_total{topic=\"free\",reader=\"g\"} 45";
    assert!(metrics.contains(lost), "{metrics}");
    assert_eq!(delete_topic(&mut scene, "free").await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_gets_kafkas_code_and_leaves_everything() {
    let mut scene = Scene::new().await;
    for (topic, configs, code) in [
        ("bad name", &[][..], 17),
        ("__consumer_offsets", &[], 17),
        ("a", &[("retention.ms", "x")], 40),
        ("a", &[("log.retention.ms", "1")], 40),
        ("a", &[("cleanup.policy", "compact")], 40),
        ("a", &[("segment.bytes", "100000")], 40),
    ] {
        let (found, message) = create_topic(&mut scene, topic, configs).await;
        assert_eq!(found, code, "{topic} {configs:?}: {message}");
    }
    assert_eq!(create_topic(&mut scene, "a.b_c", &[]).await.0, 0);
    let (code, message) = create_topic(&mut scene, "a_b.c", &[]).await;
    assert_eq!(code, 17);
    assert!(message.contains("a.b_c"), "{message}");
    assert_eq!(set(&mut scene, "nowhere", "retention.ms", "1").await.0, 3);
    assert_eq!(set(&mut scene, "a.b_c", "retention.ms", "-2").await.0, 40);
    assert_eq!(delete_topic(&mut scene, "nowhere").await.0, 3);
    let logs = scene.config.data.join("logs");
    let directories = std::fs::read_dir(logs)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().is_dir())
        .count();
    assert_eq!(directories, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn described_settings_carry_source_and_synonyms() {
    let mut scene = Scene::with(|config| {
        config.defaults.insert("segment.ms".to_owned(), "5000".to_owned());
    })
    .await;
    create_topic(&mut scene, "t", &[("retention.ms", " 7000 ")]).await;
    assert_eq!(
        describe(&mut scene, "t", "retention.ms").await,
        ("7000".to_owned(), 1, vec!["retention.ms=7000/1".to_owned()])
    );
    assert_eq!(
        describe(&mut scene, "t", "segment.ms").await,
        (
            "5000".to_owned(),
            4,
            vec!["log.roll.ms=5000/4".to_owned(), "log.roll.hours=168/5".to_owned()]
        )
    );
    assert_eq!(
        describe(&mut scene, "t", "segment.bytes").await,
        (
            "1073741824".to_owned(),
            5,
            vec!["log.segment.bytes=1073741824/5".to_owned()]
        )
    );
}

/// D12, D15: a fetch below the log start is told at once, with the log start; storage stays healthy.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_below_the_log_start_is_out_of_range_and_no_fault() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.ten_days("t", 0).await;
    scene
        .apply("t", &Desired::new().set("retention.ms", 4 * DAY + DAY / 2))
        .await;
    scene.pass().await;
    let refused = crate::scene::code(scene.kafka.fetch("t", 0, 25, 0).await);
    assert_eq!(refused.0, 1);
    let wanted = FetchPartition::default()
        .with_current_leader_epoch(-1)
        .with_fetch_offset(25)
        .with_partition_max_bytes(1 << 20);
    let asked = FetchTopic::default()
        .with_topic(TopicName(text("t")))
        .with_partitions(vec![wanted]);
    let request = FetchRequest::default()
        .with_replica_id((-1).into())
        .with_max_wait_ms(30_000)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![asked]);
    let reply = scene.kafka.call(11, &request).await.unwrap();
    let partition = &reply.responses[0].partitions[0];
    assert_eq!((partition.error_code, partition.log_start_offset), (1, 60));
    assert_eq!(scene.kafka.fetch("t", 0, 60, 0).await.unwrap()[0].offset, 60);
    assert!(scene.observe("t").await.health.is_healthy());
    assert_eq!(scene.segment("t", 0, 1, T).await, 100);
}
