//! What goes over the control API: desired state in, verdicts and observations out.
//!
//! These are plain data, the same for the embedded reconcile loop, an operator in a cluster and a person with `curl`.
//! Field names on the wire are camelCase; offsets, sizes and times are integers (bytes, milliseconds since 1970). A reader of
//! these types ignores fields it does not know; a writer of [`DesiredTopic`] is refused on one.
mod desired;
mod events;
mod observed;
mod pass;
mod problem;
mod verdict;

pub use self::desired::{
    DeleteTopic, DeletionPolicy, DesiredTopic, IgnoredReader, OnLoss, Owner, PartitionConfig, ReadersPolicy,
    WhenNone,
};
pub use self::events::{EngineEvent, EventKind};
pub use self::observed::{
    Health, ObservedPartition, ObservedReader, ObservedSegment, ObservedTopic, ReaderList, ReaderPosition,
    ReadersSummary, SegmentList, SlowestReader, TopicList, Volume,
};
pub use self::pass::{PartitionPass, PassReport};
pub use self::problem::Problem;
pub use self::verdict::{
    EffectiveConfig, InForce, MOST_READERS_LISTED, NotApplied, Outcome, PartitionInForce, PartitionVerdict,
    PendingChange, ReaderAtRisk, ReaderKind, Verdict,
};
pub use super::settings::{EffectiveValue, ValueSource};
