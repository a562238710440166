//! A partition as the protocol holds it: a log, or the reason why there is none.
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::log::partition::PartitionLog;
use crate::wire::error_code::ErrorCode;

/// A partition of a topic.
#[derive(Debug)]
pub struct Partition {
    index: i32,
    leader_epoch: AtomicI32,
    log: Result<Arc<PartitionLog>, String>,
}

impl Partition {
    /// A partition that is served, led under `leader_epoch`.
    pub fn online(index: i32, leader_epoch: i32, log: Arc<PartitionLog>) -> Arc<Self> {
        Arc::new(Self {
            index,
            leader_epoch: AtomicI32::new(leader_epoch),
            log: Ok(log),
        })
    }

    /// A partition that cannot be served, and why.
    pub fn offline(index: i32, leader_epoch: i32, reason: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            index,
            leader_epoch: AtomicI32::new(leader_epoch),
            log: Err(reason.into()),
        })
    }

    /// Its number within the topic.
    pub fn index(&self) -> i32 {
        self.index
    }

    /// The epoch under which it is led; never goes back, because clients ignore older metadata.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch.load(Ordering::Relaxed)
    }

    /// Raises the leader epoch; a lower one is ignored.
    pub fn raise_leader_epoch(&self, epoch: i32) {
        self.leader_epoch.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Its log, unless it is offline.
    pub fn log(&self) -> Option<&Arc<PartitionLog>> {
        self.log.as_ref().ok()
    }

    /// Why it is offline.
    pub fn offline_reason(&self) -> Option<&str> {
        self.log.as_ref().err().map(String::as_str)
    }

    /// Compares the epoch a client believes in with ours; a negative one is not compared (KIP-320).
    pub fn check_leader_epoch(&self, current: i32) -> Result<(), ErrorCode> {
        let ours = self.leader_epoch();
        if current < 0 || current == ours {
            Ok(())
        } else if current < ours {
            Err(ErrorCode::FencedLeaderEpoch)
        } else {
            Err(ErrorCode::UnknownLeaderEpoch)
        }
    }
}
