//! What happens in the engine, as `GET /v1/events` tells it.
use serde::{Deserialize, Serialize};

use super::desired::Owner;

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
    /// What was kept of a change that waits cannot be read; the settings from before it are in force.
    ChangeDropped,
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
                | Self::ChangeDropped
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
