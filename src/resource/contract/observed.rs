//! What there is: topics, partitions, segments, readers, and the health of storage.
use serde::{Deserialize, Serialize};

use super::desired::{DeletionPolicy, Owner, ReadersPolicy};
use super::verdict::{InForce, PendingChange, ReaderKind};

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
    /// Whether what waits stays waiting, whatever its readers do.
    #[serde(default)]
    pub paused: bool,
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
