//! Files that were renamed `.deleted` and are unlinked later.
//!
//! The delay lets readers that found the file by name go on reading; counting it on the monotonic clock keeps a step of
//! the wall clock from cutting it short. What is still pending when the process ends is unlinked at the next start.
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

/// What is to be done with one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pending {
    /// The file has its `.deleted` name: unlink it.
    Unlink(PathBuf),
    /// Renaming it failed, so it still has its live name: unlink that.
    UnlinkLive(PathBuf),
}

impl Pending {
    pub(crate) fn path(&self) -> &PathBuf {
        match self {
            Self::Unlink(path) | Self::UnlinkLive(path) => path,
        }
    }
}

/// The files of one partition that wait to be unlinked.
#[derive(Debug, Default)]
pub(crate) struct DueUnlinks {
    waiting: VecDeque<(Duration, Pending)>,
}

impl DueUnlinks {
    /// Puts a file on the list, to be unlinked at `due` on the monotonic clock.
    pub(crate) fn push(&mut self, due: Duration, pending: Pending) {
        let index = self.waiting.partition_point(|(other, _)| *other <= due);
        self.waiting.insert(index, (due, pending));
    }

    /// Takes everything that is due at `now` off the list.
    pub(crate) fn take_due(&mut self, now: Duration) -> Vec<Pending> {
        let count = self.waiting.partition_point(|(due, _)| *due <= now);
        self.waiting.drain(..count).map(|(_, pending)| pending).collect()
    }

    /// Files that still wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the next one is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.waiting.front().map(|(due, _)| *due)
    }
}
