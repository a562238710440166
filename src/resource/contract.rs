//! What goes over the control API: desired state in, verdicts and observations out.
//!
//! These are plain data, the same for the embedded reconcile loop, an operator in a cluster and a person with `curl`.
//! Field names on the wire are camelCase; offsets, sizes and times are integers (bytes, milliseconds since 1970). A reader of
//! these types ignores fields it does not know; a writer of [`DesiredTopic`] is refused on one, because a misspelt limit that
//! is silently dropped is how data gets lost.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::settings::{EffectiveValue, ValueSource};

/// The most readers at risk that a verdict lists; the rest is a count.
pub const MOST_READERS_LISTED: usize = 10;

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
}

/// Query of `DELETE /v1/topics/{topic}`. The policy is that of the resource as it stood when it was deleted: `Retain` only
/// takes the owner off the topic, `Delete` removes the topic, past the guard. A topic that is not there is success
/// ([`Outcome::Unchanged`]).
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
    /// `Applied`, `NoReadersKnown`, `SlowReader`, `ReaderUnknown`, `Clamped`, `LossAccepted`, `Unchanged`; or the reason a
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
    /// The topic keys asked for.
    pub config: BTreeMap<String, String>,
    /// The partition overrides asked for.
    #[serde(default)]
    pub partition_config: Vec<PartitionConfig>,
    /// The last verdict on it.
    pub verdict: Verdict,
}

/// One partition as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedPartition {
    /// The partition.
    pub partition: i32,
    /// Log start offset.
    pub log_start: i64,
    /// High watermark.
    pub high_watermark: i64,
    /// Log end offset.
    pub log_end: i64,
    /// Bytes of its live segments.
    pub size_bytes: i64,
    /// How many live segments it has.
    pub segments: i32,
    /// Largest timestamp of its oldest segment, ms; -1 where there is none.
    #[serde(default)]
    pub oldest_segment_ms: i64,
    /// Why a pass would leave something that is past its limit, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_blocked: Option<String>,
    /// Reason from `StorageHealthy` if the partition does not serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<Health>,
}

/// The slowest reader of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowestReader {
    /// Where it is known from.
    pub kind: ReaderKind,
    /// Group id, or client id and address.
    pub name: String,
    /// Records between its positions and the high watermarks, all partitions together.
    pub lag: i64,
}

/// Who reads a topic, in short.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadersSummary {
    /// How many readers count.
    pub checked: u32,
    /// The one with the largest lag.
    pub slowest: Option<SlowestReader>,
}

/// Whether storage serves, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `Healthy`, or `DiskFull`, `ReadOnly`, `IdentityMismatch`, `LockUnsupported`, `Corrupt`, `Recovering`.
    pub reason: String,
    /// The sentence.
    pub message: String,
}

impl Health {
    /// Storage serves.
    pub fn healthy() -> Self {
        Self {
            reason: "Healthy".to_owned(),
            message: String::new(),
        }
    }

    /// Whether storage serves.
    pub fn is_healthy(&self) -> bool {
        self.reason == "Healthy"
    }
}

/// The size of the volume the data directory is on, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Size of the file system, as the file system says, not as a claim asks.
    pub total_bytes: i64,
    /// Bytes free to us.
    pub free_bytes: i64,
}

/// A topic as it is: `GET /v1/topics/{topic}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedTopic {
    /// The name.
    pub name: String,
    /// The id, 22 characters of URL-safe base64.
    pub id: String,
    /// The resource it belongs to.
    pub owner: Option<Owner>,
    /// The guard's settings.
    #[serde(default)]
    pub readers_policy: ReadersPolicy,
    /// What becomes of the data when the resource is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// What is in force.
    pub in_force: InForce,
    /// The change that waits, if one does.
    pub pending: Option<PendingChange>,
    /// The partitions.
    pub partitions: Vec<ObservedPartition>,
    /// Who reads it.
    pub readers: ReadersSummary,
    /// Whether its storage serves.
    pub health: Health,
    /// The volume it is on.
    #[serde(default)]
    pub volume: Volume,
    /// When settings last came into force, ms; -1 if never since it was created.
    #[serde(default)]
    pub last_applied_ms: i64,
    /// When the next retention pass is due, ms.
    #[serde(default)]
    pub next_pass_ms: i64,
}

/// Body of `GET /v1/topics`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList {
    /// Every topic, by name.
    pub topics: Vec<ObservedTopic>,
}

/// One reader on one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReaderPosition {
    /// The partition.
    pub partition: i32,
    /// The next offset it will read; `None` where that is not known.
    pub position: Option<i64>,
    /// Records between it and the high watermark; `None` where the position is not known.
    pub lag: Option<i64>,
    /// How long it may stop before it loses a record under the settings in force, ms; `None` = for ever.
    pub headroom_ms: Option<i64>,
    /// How many bytes may arrive before the size rule takes a record of it; `None` = any number.
    pub headroom_bytes: Option<i64>,
    /// Records below the log start that it has not read.
    #[serde(default)]
    pub already_lost: i64,
    /// When the position was last committed or fetched, ms; -1 where unknown.
    #[serde(default)]
    pub updated_ms: i64,
}

/// One reader of a topic: an element of `GET /v1/topics/{topic}/readers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedReader {
    /// Where it is known from.
    pub kind: ReaderKind,
    /// Group id, or client id and address.
    pub name: String,
    /// Whether it is behind what a pass under the pending or in-force settings would take.
    pub at_risk: bool,
    /// Whether the topic's resource leaves it out, and the reason given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
    /// Its partitions.
    pub positions: Vec<ReaderPosition>,
}

/// Body of `GET /v1/topics/{topic}/readers`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReaderList {
    /// Every reader, by kind and name.
    pub readers: Vec<ObservedReader>,
}

/// One segment: an element of `GET /v1/topics/{topic}/partitions/{n}/segments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedSegment {
    /// Base offset.
    pub base_offset: i64,
    /// Bytes of its log file.
    pub size_bytes: i64,
    /// Timestamp of its first record, ms; -1 where there is none.
    pub first_timestamp: i64,
    /// Largest timestamp, ms; -1 where there is none.
    pub largest_timestamp: i64,
    /// Whether it is the one that is written to.
    pub active: bool,
    /// When the time rule lets it go, ms; `None` = never.
    pub expires_ms: Option<i64>,
    /// `time`, `size`, `start`: what would take it in a pass now; `None` = it would stay.
    pub deletable: Option<String>,
}

/// Body of `GET /v1/topics/{topic}/partitions/{n}/segments`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SegmentList {
    /// The segments, oldest first.
    pub segments: Vec<ObservedSegment>,
}

/// What a pass did to one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionPass {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Whether the active segment was rolled.
    pub rolled: bool,
    /// Log start before.
    pub log_start_before: i64,
    /// Log start after.
    pub log_start: i64,
    /// Segments deleted because they were below the log start.
    pub deleted_by_start: i32,
    /// Segments deleted by `retention.bytes`.
    pub deleted_by_size: i32,
    /// Segments deleted by `retention.ms`.
    pub deleted_by_time: i32,
    /// Bytes freed.
    pub bytes_freed: i64,
    /// Why something past its limit was left, if so: `future_timestamp`, `clock_jump`, `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Answer of `POST /v1/retention/pass`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PassReport {
    /// When the pass ran, ms.
    pub at_ms: i64,
    /// How many partitions it looked at.
    pub partitions_checked: u32,
    /// Segments deleted in all.
    pub segments_deleted: u32,
    /// Records deleted in all.
    pub records_deleted: i64,
    /// Why nothing was deleted at all, if so: `clock_jump`.
    pub held: Option<String>,
    /// Every partition where something was rolled, deleted or left although past its limit.
    pub partitions: Vec<PartitionPass>,
}

/// What happened to a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// A topic was created.
    TopicCreated,
    /// A topic was deleted.
    TopicDeleted,
    /// A topic's owner, partitions or settings changed.
    TopicChanged,
    /// A change was applied.
    Applied,
    /// A change is held back.
    Refused,
    /// A change that was held back was applied.
    Resumed,
    /// A lower step of a clamped change was applied.
    Clamped,
    /// Records were given up with `onLoss: Allow`.
    LossAccepted,
    /// A deletion took data behind a reader.
    DeletedBehindReader,
    /// A reader has little time left before it loses records.
    HeadroomLow,
    /// Ordinary retention took records that a reader had not read.
    RecordsLost,
    /// Storage changed between serving and not.
    StorageChanged,
    /// A pass held back by the clock guard.
    RetentionBlocked,
}

impl EventKind {
    /// Whether a person should look at it.
    pub fn is_warning(self) -> bool {
        matches!(
            self,
            Self::Refused
                | Self::LossAccepted
                | Self::DeletedBehindReader
                | Self::HeadroomLow
                | Self::RecordsLost
                | Self::RetentionBlocked
        )
    }
}

/// One event of `GET /v1/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineEvent {
    /// Grows by one with each event of one run of the engine.
    pub sequence: u64,
    /// When, ms.
    pub at_ms: i64,
    /// What.
    pub kind: EventKind,
    /// The topic, or empty for the whole engine.
    pub topic: String,
    /// The topic's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The sentence.
    pub message: String,
}

/// An `application/problem+json` document (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// `about:blank`, because `code` is the stable name.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The sentence.
    pub detail: String,
    /// A stable code: `topicNotFound`, `invalid`, `conflict`, `nameCollision`, `partitionDecrease`, `storage`,
    /// `identityMismatch`, `lockUnsupported`, `unauthorized`, `notReady`.
    pub code: String,
    /// The field that is wrong, where one is: `config.retention.ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Who has the topic, on `conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}
