//! What an input to the coordinator brings forth.
use std::collections::BTreeSet;
use std::sync::Arc;

use super::messages::{JoinReply, SyncReply};
use super::record::Record;

/// Names a request whose answer may come later. The driver chooses them; each is used once.
pub type Token = u64;

/// The time an input arrives at, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Never goes back; sessions and rebalances run by it.
    pub monotonic_ms: i64,
    /// Wall clock; commits are stamped and expire by it.
    pub wall_ms: i64,
}

/// An answer that waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To JoinGroup.
    Join(JoinReply),
    /// To SyncGroup.
    Sync(SyncReply),
}

/// Everything that follows from one input.
#[derive(Debug, Default)]
pub struct Output {
    /// Answers by request. They may be sent once `records` are durable; if they cannot be made durable they are
    /// sent all the same, since a group whose members were lost in a crash only has to be joined again.
    pub replies: Vec<(Token, Reply)>,
    /// To be kept, in this order, after those of earlier outputs.
    pub records: Vec<Record>,
    /// Topic and group where members, assignments or the existence of the group may have changed. Commits are not in it:
    /// they take effect when their record is durable.
    pub changed: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Output {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
}
