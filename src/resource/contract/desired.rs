//! What is asked of a topic: body of `PUT /v1/topics/{topic}` and of `POST /v1/topics/{topic}/plan`, query of `DELETE`.
//!
//! A misspelt limit that is silently dropped is how data gets lost, so unknown fields are refused here.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The resource that a topic belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// `metadata.uid` of the resource.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Overrides for one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PartitionConfig {
    /// The partition.
    pub partition: i32,
    /// Kafka topic keys.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

/// What happens to a change under which a reader would lose records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub enum OnLoss {
    /// It is held back.
    #[default]
    Refuse,
    /// As much of it as loses nothing is applied, and more as readers advance.
    Clamp,
    /// It is applied; who lost how much is told and counted.
    Allow,
}

/// What happens to a lowering where no reader is known at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub enum WhenNone {
    /// It is applied with reason `NoReadersKnown`.
    #[default]
    Allow,
    /// It is held back.
    Refuse,
}

/// Groups that do not count as readers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IgnoredReader {
    /// A group name in which `*` stands for any characters.
    pub group: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

/// The guard's settings of one topic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ReadersPolicy {
    /// What happens to a change under which a reader would lose records.
    pub on_loss: OnLoss,
    /// A reader must survive an outage this long after the change, ms; `None` means the check interval.
    pub headroom_ms: Option<i64>,
    /// What happens to a lowering where no reader is known at all.
    pub when_none: WhenNone,
    /// Groups that must have a known position on every partition that holds data.
    pub required: Vec<String>,
    /// Groups that do not count.
    pub ignored: Vec<IgnoredReader>,
}

/// What becomes of the data when the resource is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub enum DeletionPolicy {
    /// The topic stays, without an owner.
    #[default]
    Retain,
    /// The topic goes, once no reader is behind.
    Delete,
}

/// The whole desired state of a topic: body of `PUT /v1/topics/{topic}` and of `POST /v1/topics/{topic}/plan`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DesiredTopic {
    /// The resource that asks; `None` for a topic that nobody owns.
    pub owner: Option<Owner>,
    /// The uid of an earlier owner that is known to be gone; lets `owner` take the topic over from it. A topic of any other
    /// owner stays where it is (`conflict`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes_over: Option<String>,
    /// Repeating a request with the same id answers the same and does nothing twice. Empty means none.
    pub request_id: String,
    /// The number of partitions; `None` keeps what is there, or creates the engine's default.
    pub partitions: Option<i32>,
    /// Kafka topic keys, canonical text. A key that is not here is not overridden.
    pub config: BTreeMap<String, String>,
    /// Overrides for single partitions.
    pub partition_config: Vec<PartitionConfig>,
    /// The guard's settings.
    pub readers: ReadersPolicy,
    /// What becomes of the data when the resource is deleted.
    pub deletion_policy: DeletionPolicy,
    /// Nothing comes into force: settings that are not in force wait, whatever their readers do, until an apply that does
    /// not say so.
    #[serde(skip_serializing_if = "is_false")]
    pub paused: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Query of `DELETE /v1/topics/{topic}`. The policy is that of the resource as it stood when it was deleted: `Retain` only
/// takes the owner off the topic, `Delete` removes the topic, past the guard. A topic that is not there is success
/// ([`Outcome::Unchanged`](super::Outcome::Unchanged)).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteTopic {
    /// Uid of the resource that is deleted; anybody else's topic is left alone (`conflict`).
    pub owner: String,
    /// What becomes of the data; absent is the policy of the last apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<DeletionPolicy>,
    /// Identifies this request.
    pub request_id: String,
}
