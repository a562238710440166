//! Carrying out a retention pass.
//!
//! What goes is decided by [`crate::retention::plan`]; here it goes. Order: roll if everything goes, publish the new log start,
//! drop the segments from memory, rename their files, unlink them after `file.delete.delay.ms`. So a reader either
//! finds the old start and intact files, or the new start. A crash in between leaves old segments (the next pass takes them
//! again) or `.deleted` files (the next start finishes them).
//!
//! A pass must work on a full disk: the only thing it may have to create is the empty segment after the last one, and where
//! that fails everything but the active segment still goes.
use std::io;
use std::time::Duration;

use crate::log::due::{DueUnlinks, Pending};
use crate::log::error::LogError;
use crate::log::files::with_suffix;
use crate::log::names::{FileState, SegmentFile};
use crate::log::partition::{PartitionLog, Phase, Writer};
use crate::retention::{Blocked, Deletion};

/// What one pass over one partition did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionOutcome {
    /// Deleted segments, oldest first, with the reason of each.
    pub deleted: Vec<Deletion>,
    /// Log start before the pass.
    pub old_log_start: i64,
    /// Log start after it.
    pub new_log_start: i64,
    /// Everything had to go, and an empty segment was begun first.
    pub rolled: bool,
    /// What stops the time rule although it lies in the future.
    pub blocked: Option<Blocked>,
    /// Segments whose `.log` was gone already; they count as deleted.
    pub missing: usize,
}

impl RetentionOutcome {
    /// Offsets that can no longer be read because of this pass.
    pub fn records(&self) -> i64 {
        self.new_log_start.saturating_sub(self.old_log_start)
    }

    /// Bytes of the deleted segments; they come free after `file.delete.delay.ms`.
    pub fn bytes(&self) -> i64 {
        self.deleted
            .iter()
            .fold(0, |sum, deletion| sum.saturating_add(deletion.segment.size_bytes))
    }
}

impl PartitionLog {
    /// Runs one retention pass at wall time `now_ms` under the settings in force. Where nothing is to be deleted no file is
    /// touched.
    ///
    /// # Errors
    /// The log is closed or deleted. Files that cannot be renamed are no error: they are reported once and tried again.
    pub fn retain(&self, now_ms: i64) -> Result<RetentionOutcome, LogError> {
        let rules = self.rules();
        let first_look = self.plan(now_ms, &rules);
        if first_look.is_empty() {
            let log_start = self.log_start();
            return Ok(RetentionOutcome {
                old_log_start: log_start,
                new_log_start: log_start,
                blocked: first_look.blocked,
                ..RetentionOutcome::default()
            });
        }
        let mut due = self.maintenance.lock();
        let mut outcome = {
            let mut writer = self.writer.lock();
            self.retain_locked(&mut writer, now_ms)?
        };
        self.waiters.wake();
        let delay = self.settings.load().file_delete_delay_ms;
        for deletion in &outcome.deleted {
            if self.rename_segment(deletion.segment.base_offset, delay, &mut due) {
                outcome.missing += 1;
            }
        }
        if outcome.missing > 0 {
            tracing::warn!(
                topic = self.topic,
                partition = self.partition,
                missing = outcome.missing,
                "log files were gone before retention came to delete them; they count as deleted"
            );
        }
        if delay == 0 {
            self.unlink_until(&mut due, self.clock.monotonic());
        }
        Ok(outcome)
    }

    /// Decides and publishes; the files come later, without the writer's lock.
    fn retain_locked(&self, writer: &mut Writer, now_ms: i64) -> Result<RetentionOutcome, LogError> {
        let plan = self.plan(now_ms, &self.rules());
        let mut deleted: Vec<Deletion> = {
            let view = self.view.lock();
            if matches!(view.phase, Phase::Closed | Phase::Deleted) {
                self.check_writable(&view)?;
            }
            plan.deletions(&view.segments).collect()
        };
        let mut rolled = false;
        if plan.rolls_active {
            let writable = self.check_writable(&self.view.lock());
            match writable.and_then(|()| self.roll(writer, now_ms)) {
                Ok(()) => rolled = true,
                Err(error) => {
                    tracing::warn!(topic = self.topic, partition = self.partition, %error,
                        "cannot begin a new segment; the active one stays for now");
                    deleted.pop();
                }
            }
        }
        let mut view = self.view.lock();
        let old_log_start = view.log_start;
        let first_left = view
            .segments
            .get(deleted.len())
            .map(|segment| segment.base_offset);
        if let (Some(base_offset), false) = (first_left, deleted.is_empty()) {
            view.log_start = view.log_start.max(base_offset);
            view.segments.pop_front(deleted.len());
            view.damage.forget_below(base_offset);
            view.txn_indexes.retain(|base| *base >= base_offset);
        }
        let log_start = view.log_start;
        view.recovery_point = view.recovery_point.max(log_start);
        writer.producers.on_log_start(log_start);
        view.first_unstable = writer.producers.first_unstable_offset();
        drop(view);
        // The epochs file may go on naming what is gone: loading cuts it at the log start again.
        writer.epochs.truncate_from_start(log_start);
        Ok(RetentionOutcome {
            deleted,
            old_log_start,
            new_log_start: log_start,
            rolled,
            blocked: plan.blocked,
            missing: 0,
        })
    }

    /// Gives the files of a segment their `.deleted` names; true if its log was gone already.
    fn rename_segment(&self, base_offset: i64, delay_ms: i64, due: &mut DueUnlinks) -> bool {
        self.handles.forget(self.owner, base_offset);
        let delay = Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0));
        let when = self.clock.monotonic().saturating_add(delay);
        let mut log_missing = false;
        for file in SegmentFile::ALL {
            let path = self.segment_path(base_offset, file);
            let gone = with_suffix(&path, FileState::Deleted.suffix());
            match self.files.rename(&path, &gone) {
                Ok(()) => due.push(when, Pending::Unlink(gone)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    log_missing |= file == SegmentFile::Log;
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot rename the file of a deleted segment");
                    due.push(when, Pending::UnlinkLive(path));
                }
            }
        }
        log_missing
    }

    /// Unlinks the files whose `file.delete.delay.ms` is over on the monotonic clock; says how many went. What cannot be
    /// unlinked is tried again at the next call.
    pub fn unlink_due(&self) -> usize {
        let now = self.clock.monotonic();
        self.unlink_until(&mut self.maintenance.lock(), now)
    }

    /// As [`PartitionLog::unlink_due`], without waiting for any delay: for a disk that is full. Readers that have a file open
    /// go on with it.
    pub fn unlink_now(&self) -> usize {
        self.unlink_until(&mut self.maintenance.lock(), Duration::MAX)
    }

    fn unlink_until(&self, due: &mut DueUnlinks, until: Duration) -> usize {
        let now = self.clock.monotonic();
        let mut unlinked = 0;
        for pending in due.take_due(until) {
            match self.files.unlink(pending.path()) {
                Ok(()) => unlinked += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(path = %pending.path().display(), %error, "cannot unlink the file of a deleted segment");
                    due.push(now.saturating_add(RETRY_AFTER), pending);
                }
            }
        }
        unlinked
    }

    /// Files that wait to be unlinked, and in how long the first is due.
    pub fn pending_unlinks(&self) -> (usize, Option<Duration>) {
        let due = self.maintenance.lock();
        let next = due
            .next_due()
            .map(|next| next.saturating_sub(self.clock.monotonic()));
        (due.len(), next)
    }
}

/// When a failed unlink is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
