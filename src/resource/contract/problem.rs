//! Why something was not answered, as `application/problem+json` (RFC 9457).
use serde::{Deserialize, Serialize};

use super::desired::Owner;

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
    /// Why storage does not serve, as in the condition `StorageHealthy`: `DiskFull`, `ReadOnly`, `Corrupt`, `IdentityMismatch`,
    /// `LockUnsupported`, `Recovering`. With `storage`, `identityMismatch`, `lockUnsupported` and `notReady` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The field that is wrong, where one is: `config.retention.ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Who has the topic, on `conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}
