//! The `Topic` resource: what people write, and what they get told.
//!
//! The descriptions of the fields are what `kubectl explain` shows. The types keep a manifest as it was written (an
//! integer stays an integer, `7d` stays `7d`), because nothing here may ever rewrite a spec.
use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::contract::{DeletionPolicy, OnLoss, WhenNone};
use super::schema;
pub use super::status::TopicStatus;
pub use super::value::ConfigValue;

/// API group of the resource.
pub const GROUP: &str = "tidemark.dev";
/// Version of the resource.
pub const VERSION: &str = "v1alpha1";
/// Kind of the resource.
pub const KIND: &str = "Topic";
/// `GROUP/VERSION`.
pub const API_VERSION: &str = "tidemark.dev/v1alpha1";
/// Annotation that, set to `"true"`, keeps the operator's hands off a Topic.
pub const PAUSED_ANNOTATION: &str = "tidemark.dev/paused";
/// The finalizer that a Topic with `deletionPolicy: Delete` carries.
pub const FINALIZER: &str = "tidemark.dev/topic-data";

/// A Kafka topic, and how long and how much each of its partitions keeps.
#[derive(CustomResource, KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "tidemark.dev",
    version = "v1alpha1",
    kind = "Topic",
    plural = "topics",
    singular = "topic",
    namespaced,
    doc = "Topic is a Kafka topic. Before any of its limits takes a record that a reader has not read, the change is held back and `status` says who would lose what.",
    status = "TopicStatus",
    shortname = "tpc",
    category = "tidemark",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.topicName",
    printcolumn(name = "Partitions", type_ = "integer", json_path = ".status.partitions", description = "Partitions that the topic has"),
    printcolumn(name = "Retention", type_ = "string", json_path = ".status.retention", description = "Age limit in force"),
    printcolumn(name = "Size", type_ = "string", json_path = ".status.retentionSize", description = "Size limit of each partition in force"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status", description = "Whether everything declared is in force"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason", description = "Why, or why not"),
    printcolumn(name = "Slowest reader", type_ = "string", json_path = ".status.readers.slowest", description = "The reader that is furthest behind"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Topic", type_ = "string", json_path = ".status.topicName", description = "Name that Kafka clients use", priority = 1),
    printcolumn(name = "Rolls after", type_ = "string", json_path = ".status.segment", description = "Age at which a segment is closed and the next begun, in force", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].message", priority = 1),
    validation = Rule::new("(has(self.spec.topicName) ? self.spec.topicName : self.metadata.name) == (has(oldSelf.spec.topicName) ? oldSelf.spec.topicName : oldSelf.metadata.name)")
        .message("spec.topicName is immutable (absent, it is metadata.name): a topic is not renamed, create another one"),
    validation = Rule::new("has(self.spec.topicName) || self.metadata.name.size() <= 249")
        .message("metadata.name is the topic's name and longer than the 249 characters that Kafka allows: set spec.topicName")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.partitions) || !has(self.partitionConfig) || self.partitionConfig.all(p, p.partition < self.partitions)")
        .message("spec.partitionConfig names a partition that is not below spec.partitions; partitions are counted from 0")
)]
pub struct TopicSpec {
    /// Name that Kafka clients use. Absent, it is metadata.name. Up to 249 ASCII letters, digits, '.', '_' and '-';
    /// a name that differs from another topic's only in '.' and '_' is refused. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::topic_name")]
    pub topic_name: Option<String>,

    /// Number of partitions. It can grow, never shrink. Absent, an existing topic keeps its count and a new one gets 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::partitions")]
    pub partitions: Option<i32>,

    /// Settings of the topic by Kafka's own names. A number is written as an integer or, where it counts milliseconds or
    /// bytes, as a string with one unit: 7d, 36h, 90s, 500ms; 2Gi, 256Mi, 1G. -1 is no limit. A key that is absent has
    /// the engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::config")]
    pub config: Option<BTreeMap<String, ConfigValue>>,

    /// Settings of single partitions, over those of the topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::partition_config")]
    pub partition_config: Option<Vec<PartitionOverrides>>,

    /// The guard: which readers count, and what happens to a change by which one of them would lose records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readers: Option<Readers>,

    /// What becomes of the data when this resource is deleted. Retain (the default) keeps the topic and its data in the
    /// engine; Delete removes both, once no reader is behind or readers.onLoss is Allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
}

/// Settings of one partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionOverrides {
    /// The partition, counted from 0.
    pub partition: i32,
    /// Settings by Kafka's names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, ConfigValue>>,
}

/// The guard: which readers count, and what happens to a change by which one of them would lose records.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Readers {
    /// What happens to a change by which a reader would lose records. Refuse (the default) holds it back until no reader
    /// loses by it; Clamp applies the lowest settings that lose nothing and steps down as readers advance; Allow applies
    /// it and reports what was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_loss: Option<OnLoss>,

    /// How long a reader must survive an outage after the change, in milliseconds or with a unit: 10m. The default is the
    /// engine's check interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::headroom")]
    pub headroom: Option<ConfigValue>,

    /// What happens to a lowering when no reader is known at all: Allow (the default) or Refuse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_none: Option<WhenNone>,

    /// Consumer groups that must have a known position on every partition that holds data; while one has none, no
    /// lowering goes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::required_readers")]
    pub required: Option<Vec<String>>,

    /// Consumer groups that do not count, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ignored_readers")]
    pub ignored: Option<Vec<IgnoredGroup>>,
}

/// Groups that do not count.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IgnoredGroup {
    /// Name of a consumer group; * stands for any characters.
    pub group: String,
    /// Why, for those who read it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Topic {
    /// The name that Kafka clients use.
    pub fn topic_name(&self) -> &str {
        self.spec
            .topic_name
            .as_deref()
            .or(self.metadata.name.as_deref())
            .unwrap_or_default()
    }

    /// Whether the pause annotation is set.
    pub fn is_paused(&self) -> bool {
        let annotation = self
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(PAUSED_ANNOTATION));
        annotation.is_some_and(|value| value == "true")
    }

    /// What becomes of the data when the resource is deleted.
    pub fn deletion_policy(&self) -> DeletionPolicy {
        self.spec.deletion_policy.unwrap_or_default()
    }
}
