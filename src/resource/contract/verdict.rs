//! What came of it: the guard's verdict, what is in force after it, and what waits.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::desired::{IgnoredReader, PartitionConfig};
use crate::resource::settings::EffectiveValue;

/// The most readers at risk that a verdict lists; the rest is a count.
pub const MOST_READERS_LISTED: usize = 10;

/// The outcome of an apply, a plan or a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// In force as asked.
    Applied,
    /// Was in force already.
    Unchanged,
    /// Held back; nothing of it is in force.
    Refused,
    /// The lowest settings that lose nothing are in force instead.
    Clamped,
}

/// What one partition would come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionVerdict {
    /// The partition.
    pub partition: i32,
    /// Its log start offset now.
    pub log_start: i64,
    /// Its log start offset after a pass under the settings in force.
    pub would_be_start_in_force: i64,
    /// Its log start offset after a pass under the settings asked for.
    pub would_be_start: i64,
    /// Bytes that such a pass would free.
    pub bytes_freed: i64,
}

/// Where a reader is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ReaderKind {
    /// A consumer group with a committed offset or an assignment.
    Group,
    /// A group that the resource requires and that has no position.
    Required,
    /// A consumer without a group, by its last fetch.
    Fetcher,
}

/// A reader that would lose records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReaderAtRisk {
    /// Where it is known from.
    pub kind: ReaderKind,
    /// Group id, or client id and address.
    pub name: String,
    /// The partition.
    pub partition: i32,
    /// The next offset it will read; `None` where that is not known.
    pub position: Option<i64>,
    /// Records it would not have read, an upper bound; zero is exact.
    pub records_at_risk: i64,
    /// How old the first record is that it has not read, ms, by the record's own timestamp; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_ms: Option<i64>,
    /// Why it is at risk, in words, where the figures do not say it: `committed on an earlier topic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Values in force by Kafka topic key.
pub type EffectiveConfig = BTreeMap<String, EffectiveValue>;

/// Values in force on a partition that has overrides of its own: only those keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionInForce {
    /// The partition.
    pub partition: i32,
    /// The overridden keys.
    pub config: EffectiveConfig,
}

/// What is in force on a topic, read back from the engine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InForce {
    /// The overridden keys and the retention keys; every other key has Kafka's default.
    pub config: EffectiveConfig,
    /// Partitions with values of their own.
    pub partition_config: Vec<PartitionInForce>,
}

/// The answer to an apply, a plan or a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// What came of it.
    pub verdict: Outcome,
    /// `Applied`, `NoReadersKnown`, `SlowReader`, `ReaderUnknown`, `Clamped`, `LossAccepted`, `Unchanged`, `Paused`; or the reason a
    /// part other than the retention settings was not applied: `PartitionDecrease`.
    pub reason: String,
    /// The same in a sentence with the figures.
    pub message: String,
    /// How many readers were looked at.
    pub readers_checked: u32,
    /// Every partition whose log start would move, or that a reader at risk is on.
    #[serde(default)]
    pub partitions: Vec<PartitionVerdict>,
    /// The readers at risk, those with most to lose first, at most [`MOST_READERS_LISTED`].
    #[serde(default)]
    pub readers_at_risk: Vec<ReaderAtRisk>,
    /// How many more there are.
    #[serde(default)]
    pub more_readers_at_risk: u32,
    /// Readers left out by name, with the reason given for it.
    #[serde(default)]
    pub ignored: Vec<IgnoredReader>,
    /// What is in force after this call.
    #[serde(default)]
    pub in_force: InForce,
    /// Whether a change waits for a reader.
    #[serde(default)]
    pub pending: bool,
    /// Whether this call created the topic.
    #[serde(default)]
    pub created: bool,
    /// The topic's id, 22 characters of URL-safe base64; empty where a plan names a topic that does not exist.
    #[serde(default)]
    pub topic_id: String,
    /// How many partitions the topic has.
    #[serde(default)]
    pub partition_count: i32,
    /// Parts that were not applied for a reason of their own: reason and sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_applied: Vec<NotApplied>,
}

/// A part of the desired state that was not applied, apart from the guard's verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotApplied {
    /// `PartitionDecrease`, `Invalid`, …
    pub reason: String,
    /// The sentence.
    pub message: String,
}

/// A change that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingChange {
    /// The request that asked for it.
    pub request_id: String,
    /// Since when, ms.
    pub since_ms: i64,
    /// Whether it is the deletion of the topic; then nothing else is asked for.
    #[serde(default)]
    pub deletion: bool,
    /// The topic keys asked for.
    pub config: BTreeMap<String, String>,
    /// The partition overrides asked for.
    #[serde(default)]
    pub partition_config: Vec<PartitionConfig>,
    /// The last verdict on it.
    pub verdict: Verdict,
}
