//! What the operator tells about a Topic.
//!
//! Bounded in size whatever the number of partitions and readers, and free of live figures: those are metrics. Every
//! list that could grow has a count of what it leaves out.
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// The most readers, partitions and overrides that a status lists.
pub const MOST_LISTED: usize = 10;

/// What the engine has in force and what is held back. Read back from the engine, never assumed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {"observedGeneration": -1}))]
pub struct TopicStatus {
    /// Generation of the resource that this status is about; -1 before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name of the topic in the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<String>,
    /// Id of the topic; another id is another topic, even under the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<String>,
    /// Number of partitions that the topic has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i32>,
    /// retention.ms in force, for people: 7d, or unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<String>,
    /// retention.bytes in force of each partition, for people: 2Gi, or unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_size: Option<String>,
    /// segment.ms in force, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<String>,
    /// Settings in force and where each comes from: those that do not have Kafka's default, and the retention settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<StatusInForce>,
    /// The change that is held back, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<StatusPlan>,
    /// What is known of the readers. Refreshed with other changes; live figures are metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readers: Option<StatusReaders>,
    /// The most that the topic can come to hold, against the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<StatusCapacity>,
    /// When settings last came into force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub last_applied_time: Option<String>,
    /// Conditions: Ready, RetentionApplied, StorageHealthy, CapacityOk, and, only while True, Reconciling, Stalled and
    /// Paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Option<Vec<Condition>>,
}

/// Settings in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusInForce {
    /// Of the topic, by Kafka's names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, StatusValue>,
    /// Of partitions that differ from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub partitions: Vec<StatusPartitionValues>,
    /// How many more partitions differ.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partitions_omitted: i32,
}

/// A value in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusValue {
    /// As Kafka's tools show it.
    pub value: String,
    /// Default, EngineDefault, Topic or Partition.
    pub source: String,
}

/// Settings of a partition that differs from its topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusPartitionValues {
    /// The partition.
    pub partition: i32,
    /// What differs.
    pub config: BTreeMap<String, String>,
}

/// A change that is held back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusPlan {
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub since: Option<String>,
    /// What would change: the settings that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub changes: Vec<StatusChange>,
    /// How many more settings would change.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changes_omitted: i32,
    /// Where each log would start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub partitions: Vec<StatusPlanPartition>,
    /// How many more partitions the change would move.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partitions_omitted: i32,
    /// Who would lose records, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub readers_at_risk: Vec<StatusReaderAtRisk>,
    /// How many more readers would lose records.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub readers_at_risk_omitted: i32,
}

/// One setting that would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusChange {
    /// Kafka's name.
    pub key: String,
    /// The partition, where it is an override of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// In force now.
    pub from: String,
    /// Asked for.
    pub to: String,
}

/// Where a partition's log would start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusPlanPartition {
    /// The partition.
    pub partition: i32,
    /// First offset now.
    pub log_start: i64,
    /// First offset under the settings asked for.
    pub would_be_start: i64,
    /// Bytes that would go.
    pub bytes_freed: i64,
}

/// A reader that would lose records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusReaderAtRisk {
    /// Group, Required or Fetcher.
    pub kind: String,
    /// Name of the group, or of the client that reads without one.
    pub name: String,
    /// The partition.
    pub partition: i32,
    /// Offset that it reads next; absent if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<i64>,
    /// Records that it would lose, at most.
    pub records_at_risk: i64,
    /// Why the position does not count, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Readers in short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusReaders {
    /// How many readers count.
    pub checked: i32,
    /// The one that is furthest behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<String>,
}

/// The most that the topic can come to hold, against the volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusCapacity {
    /// Sum over partitions of retention.bytes + segment.bytes; absent where a partition has no size limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_case_bytes: Option<i64>,
    /// Size of the file system, as it says itself.
    pub volume_bytes: i64,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// Generation of the resource that it is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// When the status last changed.
    pub last_transition_time: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default)]
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_zero(value: &i32) -> bool {
    *value == 0
}

impl TopicStatus {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .flatten()
            .find(|condition| condition.kind == kind)
    }
}
