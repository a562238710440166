//! Which leader epoch began at which offset (`leader-epoch-checkpoint`).
//!
//! Kafka's `LeaderEpochFileCache`. Epochs and start offsets both grow strictly along the list. The list in memory is the
//! truth; the file may lag behind after a crash, but only by holding entries that the loader's two truncations remove
//! again, never by missing one that was assigned.
use std::path::Path;

use crate::log::checkpoints::{self, CHECKPOINT_LIMIT};
use crate::log::error::LogError;
use crate::log::files::{self, Files};

/// An epoch and the offset of its first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStart {
    /// Leader epoch, never negative.
    pub epoch: i32,
    /// Offset of the first record of that epoch.
    pub start_offset: i64,
}

/// The epochs of one partition, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    entries: Vec<EpochStart>,
}

impl LeaderEpochs {
    /// The epochs, oldest first.
    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    /// The newest epoch.
    pub fn latest(&self) -> Option<EpochStart> {
        self.entries.last().copied()
    }

    /// Notes that records from `start_offset` on are of `epoch`. True if the list changed and must be written before the
    /// records are acknowledged.
    ///
    /// A repetition of the newest epoch changes nothing; anything else first removes what it contradicts from the end
    /// (entries of the same or a later epoch, or starting at or after it).
    pub fn assign(&mut self, epoch: i32, start_offset: i64) -> bool {
        if epoch < 0 || start_offset < 0 {
            return false;
        }
        let known = |latest: EpochStart| latest.epoch == epoch && start_offset >= latest.start_offset;
        if self.latest().is_some_and(known) {
            return false;
        }
        while self
            .latest()
            .is_some_and(|latest| latest.epoch >= epoch || latest.start_offset >= start_offset)
        {
            self.entries.pop();
        }
        self.entries.push(EpochStart { epoch, start_offset });
        true
    }

    /// Removes the entries that start at or after `end_offset`. True if any was.
    pub fn truncate_from_end(&mut self, end_offset: i64) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.start_offset < end_offset);
        self.entries.len() != before
    }

    /// Forgets what lies below `start_offset`; the epoch that reaches across it then starts there. True if the list changed.
    pub fn truncate_from_start(&mut self, start_offset: i64) -> bool {
        let below = self
            .entries
            .partition_point(|entry| entry.start_offset <= start_offset);
        let Some(across) = below.checked_sub(1) else {
            return false;
        };
        let old = self.entries.get(across).map(|entry| entry.start_offset);
        self.entries.drain(..across);
        if let Some(first) = self.entries.first_mut() {
            first.start_offset = start_offset;
        }
        across > 0 || old != Some(start_offset)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The epoch of the record at `offset`, if known.
    pub fn epoch_of(&self, offset: i64) -> Option<i32> {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        Some(entry.epoch)
    }

    /// Where `epoch` ends: the largest known epoch at or below it and the offset after its last record.
    ///
    /// As a running Kafka answers OffsetForLeaderEpoch: the newest epoch ends at the log end; one older than all known
    /// gives itself and the start of the oldest; `(-1, -1)` for a negative epoch, one newer than all known, or when
    /// nothing is known.
    pub fn end_offset_for(&self, epoch: i32, log_end: i64) -> (i32, i64) {
        const UNDEFINED: (i32, i64) = (-1, -1);
        let (Some(latest), true) = (self.latest(), epoch >= 0) else {
            return UNDEFINED;
        };
        if epoch == latest.epoch {
            return (epoch, log_end);
        }
        let higher = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let Some(end) = self.entries.get(higher).map(|entry| entry.start_offset) else {
            return UNDEFINED;
        };
        let floor = higher.checked_sub(1).and_then(|at| self.entries.get(at));
        (floor.map_or(epoch, |entry| entry.epoch), end)
    }

    /// Reads the checkpoint's text; see [`checkpoints::parse_lines`] for what is tolerated.
    ///
    /// Entries that contradict earlier ones (an epoch or offset that does not grow) drop those, as an assignment would.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut epochs = Self::default();
        for line in checkpoints::parse_lines(text, 2)? {
            let [epoch, start] = line.as_slice() else {
                return Err("an entry is not two numbers".to_owned());
            };
            let epoch: i32 = checkpoints::number("epoch", epoch)?;
            let start: i64 = checkpoints::number("start offset", start)?;
            if epoch < 0 || start < 0 {
                return Err(format!(
                    "epoch {epoch} and start offset {start} must not be negative"
                ));
            }
            epochs.assign(epoch, start);
        }
        Ok(epochs)
    }

    /// The checkpoint's text.
    pub fn to_text(&self) -> String {
        let lines = self
            .entries
            .iter()
            .map(|entry| format!("{} {}", entry.epoch, entry.start_offset));
        checkpoints::format_lines(lines)
    }

    /// Reads the checkpoint file; a missing one is empty.
    pub fn load(files: &dyn Files, path: &Path) -> Result<Self, LogError> {
        match checkpoints::read_text(files, path, CHECKPOINT_LIMIT)? {
            Some(text) => Self::parse(&text).map_err(|what| LogError::malformed(path, what)),
            None => Ok(Self::default()),
        }
    }

    /// Replaces the checkpoint file, crash-safe.
    pub fn store(&self, files: &dyn Files, path: &Path) -> Result<(), LogError> {
        files::replace(files, path, self.to_text().as_bytes())
    }
}

#[cfg(test)]
#[path = "leader_epochs_tests.rs"]
mod tests;
