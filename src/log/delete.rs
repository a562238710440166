//! DeleteRecords, and the end of a whole partition.
use crate::log::error::LogError;
use crate::log::partition::{PartitionLog, Phase};

/// Why DeleteRecords was refused. The wire room maps each variant to one Kafka error code.
#[derive(Debug, thiserror::Error)]
pub enum DeleteRecordsError {
    /// OFFSET_OUT_OF_RANGE.
    #[error("offset {offset} is out of range: -1, or 0 up to the high watermark {high_watermark}")]
    OffsetOutOfRange {
        /// What was asked for.
        offset: i64,
        /// The bound.
        high_watermark: i64,
    },
    /// POLICY_VIOLATION: the topic is compacted and nothing else.
    #[error("records of a topic with cleanup.policy=compact cannot be deleted")]
    CompactOnly,
    /// KAFKA_STORAGE_ERROR.
    #[error(transparent)]
    Storage(#[from] LogError),
}

/// "Up to the high watermark" in a DeleteRecords request.
pub const HIGH_WATERMARK: i64 = -1;

impl PartitionLog {
    /// Moves the log start to `offset` (-1: to the high watermark) and answers the log start then. No file is touched until the
    /// next retention pass, but the new start is durable when this returns: it survives a killed process and a power loss.
    /// An offset at or below the log start succeeds and changes nothing.
    ///
    /// # Errors
    /// See [`DeleteRecordsError`]; the log start is unchanged then.
    pub fn delete_records(&self, offset: i64) -> Result<i64, DeleteRecordsError> {
        let policy = self.settings.load().cleanup_policy;
        if policy.compact && !policy.delete {
            return Err(DeleteRecordsError::CompactOnly);
        }
        let target = {
            let view = self.view.lock();
            self.check_readable(&view.phase)?;
            let target = if offset == HIGH_WATERMARK {
                view.high_watermark
            } else {
                offset
            };
            if target < 0 || target > view.high_watermark {
                return Err(DeleteRecordsError::OffsetOutOfRange {
                    offset,
                    high_watermark: view.high_watermark,
                });
            }
            // Where retention has been further already, a power loss could still take its renames back.
            if target <= view.log_start && target <= view.kept_log_start {
                return Ok(view.log_start);
            }
            target
        };
        self.log_starts.persist(&self.topic, self.partition, target)?;
        Ok(self.raise_log_start(target))
    }

    /// Moves the log start in memory, never back and never past the high watermark; answers where it is then.
    fn raise_log_start(&self, target: i64) -> i64 {
        let mut writer = self.writer.lock();
        let log_start = {
            let mut view = self.view.lock();
            view.log_start = view.log_start.max(target.min(view.high_watermark));
            view.kept_log_start = view.kept_log_start.max(target);
            view.recovery_point = view.recovery_point.max(view.log_start);
            writer.producers.on_log_start(view.log_start);
            view.first_unstable = writer.producers.first_unstable_offset();
            view.log_start
        };
        writer.epochs.truncate_from_start(log_start);
        drop(writer);
        self.waiters.wake();
        log_start
    }

    /// The log start that a checkpoint of log starts has to hold: Kafka writes an entry only where the start lies inside the first
    /// segment or beyond it, because file names imply the others. `kept` is what is durable already. It stays where a record deletion
    /// is about to move the start there, and goes only once a power loss can no longer take back the renames that imply it.
    pub fn log_start_to_checkpoint(&self, kept: Option<i64>) -> Option<i64> {
        let (first, start) = {
            let view = self.view.lock();
            let first = view.segments.get(0).map_or(0, |segment| segment.base_offset);
            (first, view.log_start)
        };
        if start > first || kept.is_some_and(|kept| kept > start) {
            return kept.max(Some(start));
        }
        kept.filter(|_| {
            // What a pass has dropped from memory it renames before it lets go of this.
            let _renamed = self.maintenance.lock();
            self.files.sync_dir(&self.directory).is_err()
        })
    }

    /// Ends all use of the log because the partition is deleted: waits for the append and the pass that are running, then
    /// refuses everything. Readers that hold a range go on with it. The files are the caller's business.
    pub fn retire(&self) {
        let maintenance = self.maintenance.lock();
        let writer = self.writer.lock();
        self.view.lock().phase = Phase::Deleted;
        self.handles.forget_owner(self.owner);
        drop(writer);
        drop(maintenance);
        self.waiters.wake();
    }

    /// Refuses reads once the log is closed or deleted.
    pub(crate) fn check_readable(&self, phase: &Phase) -> Result<(), LogError> {
        let what = match phase {
            Phase::Open | Phase::Poisoned(_) => return Ok(()),
            Phase::Closed => "the log is closed",
            Phase::Deleted => "the partition is deleted",
        };
        Err(LogError::Poisoned {
            path: self.directory.clone(),
            what: what.to_owned(),
        })
    }
}
