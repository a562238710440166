//! Making the log durable: flush, group commit, close.
//!
//! A flush never holds up appends: it notes what has been appended, fsyncs the files without any lock but its own, and then
//! moves the recovery point. Whoever wants to flush meanwhile waits for that lock and mostly finds the work done, which is
//! the whole group commit: one fsync for everyone who appended while the last one ran.
//!
//! An fsync error is final. The kernel may have dropped the dirty pages and will report success the next time, so
//! trying again proves nothing: the log is poisoned, and what is really on disk is found out by opening it anew.
use crate::log::error::{LogError, PathContext};
use crate::log::names::{LEADER_EPOCH_CHECKPOINT, SegmentFile};
use crate::log::partition::{Durability, PartitionLog, Phase};
use crate::log::snapshot;

/// How much of the active segment a flush covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Closed segments only: what a roll left to be done off the append path.
    Closed,
    /// Everything appended so far.
    All,
}

impl PartitionLog {
    /// Fsyncs everything appended so far and moves the recovery point there.
    ///
    /// # Errors
    /// The storage refused; the log is poisoned then.
    pub fn flush(&self) -> Result<(), LogError> {
        self.flush_extent(Extent::All, i64::MAX)
    }

    /// Fsyncs closed segments that no flush has covered yet, as Kafka does in the background after a roll. Touches no file where
    /// there is none.
    ///
    /// # Errors
    /// As [`PartitionLog::flush`].
    pub fn flush_closed(&self) -> Result<(), LogError> {
        {
            let view = self.view.lock();
            if view.recovery_point >= view.active.base_offset || view.phase != Phase::Open {
                return Ok(());
            }
        }
        self.flush_extent(Extent::Closed, i64::MAX)
    }

    /// Waits until everything below `offset` is durable, sharing the fsync with everyone who waits at the same time. Under
    /// [`Durability::Ack`] this is what lets readers see the records.
    ///
    /// # Errors
    /// As [`PartitionLog::flush`].
    pub fn commit(&self, offset: i64) -> Result<(), LogError> {
        self.flush_extent(Extent::All, offset)
    }

    /// Whether `flush.ms` asks for a flush at wall time `now_ms`.
    pub fn flush_is_due(&self, now_ms: i64) -> bool {
        let flush_ms = self.settings.load().flush_ms;
        let view = self.view.lock();
        view.phase == Phase::Open
            && view.recovery_point < view.log_end
            && now_ms.saturating_sub(view.last_flush_ms) >= flush_ms
    }

    /// Whether `flush.messages` asks for a flush before the last append is acknowledged.
    pub fn flush_is_wanted(&self) -> bool {
        let most = self.settings.load().flush_messages;
        // By far the most topics have none: they are spared the lock.
        if most == i64::MAX {
            return false;
        }
        let view = self.view.lock();
        view.phase == Phase::Open && view.log_end.saturating_sub(view.recovery_point) >= most
    }

    fn flush_extent(&self, extent: Extent, wanted: i64) -> Result<(), LogError> {
        let flushing = self.flushing.lock();
        let (bases, through, directory_dirty) = {
            let mut view = self.view.lock();
            if view.recovery_point >= wanted.min(view.log_end) && !view.directory_dirty {
                return Ok(());
            }
            self.check_writable(&view)?;
            let from = view.segments.position_of(view.recovery_point).unwrap_or(0);
            let active = view.segments.len().saturating_sub(1);
            let to = if extent == Extent::All { active + 1 } else { active };
            let bases: Vec<(i64, bool)> = (from..to)
                .filter_map(|index| view.segments.get(index))
                .map(|segment| {
                    (
                        segment.base_offset,
                        segment.base_offset == view.active.base_offset,
                    )
                })
                .collect();
            let through = match extent {
                Extent::All => view.log_end,
                Extent::Closed => view.active.base_offset,
            };
            let dirty = std::mem::take(&mut view.directory_dirty);
            (bases, through, dirty)
        };
        let synced = self.sync_segments(&bases).and_then(|()| {
            if directory_dirty {
                self.files.sync_dir(&self.directory).at("fsync", &self.directory)
            } else {
                Ok(())
            }
        });
        if let Err(error) = synced {
            drop(flushing);
            // A partition deleted meanwhile has nothing left to lose.
            if self.phase() == Phase::Deleted {
                return Ok(());
            }
            self.poison(&error);
            return Err(error);
        }
        {
            let mut view = self.view.lock();
            view.recovery_point = view.recovery_point.max(through);
            view.last_flush_ms = self.clock.wall_ms();
            if self.durability == Durability::Ack {
                view.high_watermark = view.high_watermark.max(through);
            }
        }
        drop(flushing);
        if self.durability == Durability::Ack {
            self.waiters.wake();
        }
        Ok(())
    }

    /// Fsyncs the files of segments. Of the active one only the log: its indexes are made anew after a crash anyway, because the
    /// segment that holds the recovery point is always read again.
    fn sync_segments(&self, segments: &[(i64, bool)]) -> Result<(), LogError> {
        fail::fail_point!("log::before-fsync");
        for (base_offset, active) in segments {
            let mut files = vec![SegmentFile::Log];
            if !active {
                files.extend([
                    SegmentFile::OffsetIndex,
                    SegmentFile::TimeIndex,
                    SegmentFile::Snapshot,
                ]);
                let has_aborts = self.view.lock().txn_indexes.binary_search(base_offset).is_ok();
                files.extend(has_aborts.then_some(SegmentFile::TxnIndex));
            }
            for file in files {
                self.sync_file(*base_offset, file)?;
            }
        }
        Ok(())
    }

    fn sync_file(&self, base_offset: i64, file: SegmentFile) -> Result<(), LogError> {
        let path = self.segment_path(base_offset, file);
        let handle = match self.handle(base_offset, file) {
            Ok(handle) => handle,
            // A retention pass took it, or there is no snapshot at this base: nothing is owed for it. A log that is gone
            // though it should be there will be found missing by its readers; failing here would not bring it back.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).at("open", &path),
        };
        handle.sync_data().at("fsync", &path)
    }

    /// Closes the log in order: everything fsynced, indexes trimmed, producers' state written. Afterwards it takes neither reads nor
    /// writes. A poisoned log is closed without touching its files and reports its poison, so that no marker of a clean stop
    /// is left for it.
    ///
    /// # Errors
    /// What was refused first; the directory must then be opened as after a crash.
    pub fn close(&self) -> Result<(), LogError> {
        let maintenance = self.maintenance.lock();
        let writer = self.writer.lock();
        match self.phase() {
            Phase::Closed | Phase::Deleted => return Ok(()),
            Phase::Open | Phase::Poisoned(_) => {}
        }
        let closed = self.close_files(&writer);
        self.view.lock().phase = Phase::Closed;
        self.handles.forget_owner(self.owner);
        drop(writer);
        drop(maintenance);
        self.waiters.wake();
        closed
    }

    fn close_files(&self, writer: &crate::log::partition::Writer) -> Result<(), LogError> {
        let (base_offset, log_end) = {
            let mut view = self.view.lock();
            self.check_writable(&view)?;
            self.close_active(&mut view)?;
            (view.active.base_offset, view.log_end)
        };
        self.flush()?;
        for file in [SegmentFile::OffsetIndex, SegmentFile::TimeIndex] {
            self.sync_file(base_offset, file)?;
        }
        if log_end > 0 {
            let snapshot = snapshot::write(self.files.as_ref(), &self.directory, log_end, &writer.producers)?;
            let path = self.segment_path(log_end, SegmentFile::Snapshot);
            snapshot.sync_all().at("fsync", &path)?;
        }
        let epochs = self.directory.join(LEADER_EPOCH_CHECKPOINT);
        writer.epochs.store(self.files.as_ref(), &epochs)?;
        self.files.sync_dir(&self.directory).at("fsync", &self.directory)
    }
}
