use super::*;
use crate::resource::contract::{DeletionPolicy, OnLoss};

fn owner() -> Owner {
    Owner {
        uid: "u".to_owned(),
        namespace: "n".to_owned(),
        name: "orders".to_owned(),
    }
}

fn topic(spec: &str) -> Topic {
    let yaml =
        format!("apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: orders}}\nspec: {spec}\n");
    serde_yaml::from_str(&yaml).expect("a Topic")
}

fn faults(spec: &str) -> Vec<String> {
    desired(&topic(spec), owner())
        .expect_err(spec)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn the_example_of_the_documentation() {
    let topic = topic(
        "{topicName: Orders.v1, partitions: 12, config: {retention.ms: 3d, retention.bytes: 2Gi, segment.bytes: 268435456},
          partitionConfig: [{partition: 3, config: {retention.ms: 1d}}, {partition: 1}],
          readers: {onLoss: Clamp, headroom: 10m, required: [billing], ignored: [{group: 'scratch-*', reason: ad hoc}]},
          deletionPolicy: Delete}",
    );
    let desired = desired(&topic, owner()).expect("valid");
    assert_eq!(topic.topic_name(), "Orders.v1");
    assert_eq!(
        desired.config.get("retention.ms").map(String::as_str),
        Some("259200000")
    );
    assert_eq!(
        desired.config.get("retention.bytes").map(String::as_str),
        Some("2147483648")
    );
    assert_eq!(
        desired.partition_config.len(),
        1,
        "an override without settings is none"
    );
    assert_eq!(desired.readers.headroom_ms, Some(600_000));
    assert_eq!(desired.readers.on_loss, OnLoss::Clamp);
    assert_eq!(desired.deletion_policy, DeletionPolicy::Delete);
}

#[test]
fn an_integer_and_its_string_are_the_same_state() {
    let plain = desired(&topic("{config: {retention.ms: 86400000}}"), owner());
    assert_eq!(
        plain,
        desired(&topic("{config: {retention.ms: '86400000'}}"), owner())
    );
    assert_eq!(plain, desired(&topic("{config: {retention.ms: 1d}}"), owner()));
}

#[test]
fn every_fault_is_named_with_field_value_and_bound() {
    assert_eq!(
        faults(
            "{partitions: 0, config: {retention.ms: 1.5d, segment.bytes: 1000, log.retention.ms: 1, preallocate: yep}}"
        ),
        [
            "spec.partitions: 0: must be from 1 to 100000",
            "spec.config.log.retention.ms: is not a topic setting: that is the broker's name, on a topic write retention.ms",
            "spec.config.preallocate: \"yep\": Expected value to be either true or false",
            "spec.config.retention.ms: \"1.5d\": has a fraction; write a whole number, with a smaller unit if need be",
            "spec.config.segment.bytes: 1000: must be at least 1048576",
        ]
    );
    assert_eq!(
        faults(
            "{partitions: 2, partitionConfig: [{partition: 2}, {partition: 1, config: {retention.ms: 6.048e+08}}, {partition: 1}]}"
        ),
        [
            "spec.partitionConfig[0].partition: 2: must be below spec.partitions, which is 2; partitions are counted from 0",
            "spec.partitionConfig[1].config.retention.ms: 604800000.0: is written with a point or an exponent; write the whole number, or one with a unit",
            "spec.partitionConfig[2].partition: 1: is listed twice",
        ]
    );
    // J1, where a template's number comes in quotes or not.
    for written in ["6.048e+08", "2.16e+07", "1.000000012e+09"] {
        let quoted = faults(&format!("{{config: {{retention.ms: '{written}'}}}}"));
        assert!(quoted[0].contains(written), "{quoted:?}");
        let bare = faults(&format!("{{config: {{retention.ms: {written}}}}}"));
        assert!(bare[0].contains("a point or an exponent"), "{bare:?}");
    }
    assert!(faults("{config: {retention.ms: 1.5}}")[0].contains("1.5: has a fraction"));
    assert_eq!(faults("{topicName: 'a b'}").len(), 1);
    assert_eq!(faults("{topicName: __consumer_offsets}").len(), 1);
    assert!(faults("{config: {retention.bytes: -5}}")[0].ends_with("must be at least -1"));
    assert!(faults("{readers: {headroom: -1}}")[0].contains("spec.readers.headroom: -1: must be at least 0"));
    assert!(
        faults("{config: {min.compaction.lag.ms: 2d, max.compaction.lag.ms: 1d}}")[0]
            .contains("min.compaction.lag.ms")
    );
    assert!(
        faults("{config: {retention.ms: 18446744073709551615}}")[0].contains("more than 9223372036854775807")
    );
}
