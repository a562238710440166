//! What a retention pass did.
use serde::{Deserialize, Serialize};

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
