//! What can happen to a topic, and what it led to.
use tidemark::resource::contract::ReadersPolicy;
use tidemark::retention::{Judgement, Proposed, Rules};

use crate::partition::Partition;

/// One thing that happens. Numbers are taken modulo what there is, so that any sequence means something.
#[derive(Debug, Clone)]
pub enum Action {
    Append {
        partition: usize,
        count: usize,
        timestamp: Stamp,
        size: i64,
        marker: bool,
    },
    Commit {
        client: usize,
        partition: usize,
        to: To,
    },
    Join {
        client: usize,
        partition: usize,
    },
    Leave {
        client: usize,
    },
    /// Commits that are `after` old or older expire, but for groups with members.
    Expire {
        after: i64,
    },
    Edit {
        rules: Vec<Rules>,
        policy: Option<ReadersPolicy>,
        headroom: i64,
        crash: Crash,
    },
    /// A pass; killed after that many segments, if it is.
    Pass {
        killed_after: Option<usize>,
    },
    IdleRoll,
    Advance {
        ms: i64,
    },
    StepClock {
        ms: i64,
    },
    DeleteRecords {
        partition: usize,
        offset: i64,
    },
    Restart,
    Recreate,
}

#[derive(Debug, Clone, Copy)]
pub enum Stamp {
    Now(i64),
    At(i64),
}

#[derive(Debug, Clone, Copy)]
pub enum To {
    /// So many offsets on from where it is, or back.
    By(i64),
    /// So far from the log end; negative is beyond.
    End(i64),
    At(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    No,
    BeforePersist,
    AfterPersist,
}

/// What an action led to.
#[derive(Debug, Clone)]
pub enum Event {
    /// The guard spoke. `in_force` is what was before; `in_part` says that a part of the change was in force besides.
    Judged {
        in_force: Vec<Rules>,
        in_part: bool,
        asked: Vec<Proposed>,
        judgement: Box<Judgement>,
        after: Vec<Rules>,
    },
    /// A pass changed a partition.
    Deleted {
        partition: usize,
        before: Box<Partition>,
        by: Rules,
        /// The settings before a change that was in force in part.
        granted: Option<Rules>,
    },
    /// Readers can be elsewhere, or the log can be another, than when a change was judged.
    Upset,
}
