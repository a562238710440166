//! Finding offsets by time and by leader epoch (ListOffsets, OffsetForLeaderEpoch).
//!
//! Kafka's rules to the letter, also where they surprise: a time lookup searches only the first segment whose largest time
//! reaches the timestamp (modification time stands in for records without one), and the largest timestamp may belong to a
//! record that DeleteRecords has hidden already.
use std::io;

use crate::log::batch::BatchSlice;
use crate::log::batch_file::{self, BatchInFile, WalkError};
use crate::log::error::LogError;
use crate::log::index_file::Searched;
use crate::log::names::SegmentFile;
use crate::log::partition::PartitionLog;
use crate::log::read::{Isolation, Located, ReadError, SegmentView};
use crate::log::records;
use crate::log::time_index::{self, TimestampOffset};

/// A record found by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundOffset {
    /// Its offset.
    pub offset: i64,
    /// Its timestamp in ms, -1 if it has none.
    pub timestamp: i64,
    /// Leader epoch of its batch, -1 if unknown.
    pub leader_epoch: i32,
}

impl PartitionLog {
    /// The first record with a timestamp of at least `timestamp` ms that is not below the log start; `None` if there is none, or none
    /// that `isolation` lets a reader see.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn offset_for_timestamp(
        &self,
        timestamp: i64,
        isolation: Isolation,
    ) -> Result<Option<FoundOffset>, ReadError> {
        let (segment, in_memory, from_offset) = {
            let view = self.view.lock();
            self.check_readable(&view.phase)?;
            let found = view.segments.first_reaching(timestamp);
            let Some(segment) = found.and_then(|index| SegmentView::of(&view, index, view.log_start)) else {
                return Ok(None);
            };
            let in_memory = segment.active.then(|| view.active.time_index.search(timestamp));
            (segment, in_memory, view.log_start)
        };
        let near = self.near(&segment, in_memory, timestamp)?.max(from_offset);
        let found = self.first_batch(
            &segment,
            near,
            |batch| batch.max_timestamp >= timestamp,
            |batch| {
                let record =
                    records::first_at_or_after(batch, timestamp, from_offset, self.decompressed_cap());
                Ok(record?.map(|(offset, timestamp)| FoundOffset {
                    offset,
                    timestamp,
                    leader_epoch: batch.header.leader_epoch,
                }))
            },
        )?;
        Ok(found.filter(|found| found.offset < self.visible_end(isolation)))
    }

    /// The first record with the largest timestamp of all; `None` in an empty log. It may lie below the log start.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn max_timestamp(&self, isolation: Isolation) -> Result<Option<FoundOffset>, ReadError> {
        let (segment, in_memory, largest) = {
            let view = self.view.lock();
            self.check_readable(&view.phase)?;
            let best = view.segments.first_with_largest();
            let facts = best.and_then(|best| view.segments.get(best));
            let largest = facts.map_or(-1, |facts| facts.largest_timestamp);
            let Some(segment) = best.and_then(|best| SegmentView::of(&view, best, view.log_start)) else {
                return Ok(None);
            };
            let in_memory = segment.active.then(|| view.active.time_index.search(largest));
            (segment, in_memory, largest)
        };
        let near = self.near(&segment, in_memory, largest)?;
        let found = self.first_batch(
            &segment,
            near,
            |batch| batch.max_timestamp == largest,
            |batch| {
                let offset = if largest < 0 {
                    Some(batch.header.base_offset)
                } else {
                    records::first_with_timestamp(batch, largest, self.decompressed_cap())?
                };
                Ok(offset.map(|offset| FoundOffset {
                    offset,
                    timestamp: largest,
                    leader_epoch: batch.header.leader_epoch,
                }))
            },
        )?;
        Ok(found.filter(|found| found.offset < self.visible_end(isolation)))
    }

    /// The leader epoch at the log start, if the epochs are known that far back; the leader's own where no record has one.
    pub fn epoch_at_log_start(&self, leader_epoch: i32) -> Option<i32> {
        let writer = self.writer.lock();
        let (log_start, log_end) = {
            let view = self.view.lock();
            (view.log_start, view.log_end)
        };
        let Some(first) = writer.epochs.entries().first() else {
            return (log_start == log_end).then_some(leader_epoch);
        };
        (first.start_offset <= log_start).then_some(first.epoch)
    }

    /// The newest leader epoch that has records, -1 if there is none.
    pub fn latest_epoch(&self) -> i32 {
        self.writer
            .lock()
            .epochs
            .latest()
            .map_or(-1, |latest| latest.epoch)
    }

    /// Producers whose sequences are known, by id; rising.
    pub fn producer_ids(&self) -> Vec<i64> {
        let writer = self.writer.lock();
        let mut ids: Vec<i64> = writer.producers.producers().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Forgets producers that have been idle for `expiration_ms` at wall time `now_ms` and have no open transaction; says how many.
    pub fn expire_producers(&self, now_ms: i64, expiration_ms: i64) -> usize {
        self.writer.lock().producers.expire(now_ms, expiration_ms)
    }

    /// The newest epoch not above `epoch`, and where it ended, as OffsetForLeaderEpoch answers; `(-1, -1)` where nothing is known.
    pub fn end_offset_for_epoch(&self, epoch: i32) -> (i32, i64) {
        let writer = self.writer.lock();
        let log_end = self.view.lock().log_end;
        writer.epochs.end_offset_for(epoch, log_end)
    }

    /// [`PartitionLog::end_offset_for_epoch`] on the leader of `leader_epoch`: from its election on, that epoch begins at the log end, even
    /// before it has a record.
    pub fn end_offset_as_leader(&self, epoch: i32, leader_epoch: i32) -> (i32, i64) {
        let writer = self.writer.lock();
        let log_end = self.view.lock().log_end;
        if writer
            .epochs
            .latest()
            .is_some_and(|latest| latest.epoch >= leader_epoch)
        {
            return writer.epochs.end_offset_for(epoch, log_end);
        }
        let mut epochs = writer.epochs.clone();
        epochs.assign(leader_epoch, log_end);
        epochs.end_offset_for(epoch, log_end)
    }

    fn visible_end(&self, isolation: Isolation) -> i64 {
        let bounds = self.bounds();
        match isolation {
            Isolation::ReadUncommitted => bounds.high_watermark,
            Isolation::ReadCommitted => bounds.last_stable_offset,
            Isolation::LogEnd => bounds.log_end,
        }
    }

    fn decompressed_cap(&self) -> usize {
        let cap = self.settings.load().max_decompressed_message_bytes;
        usize::try_from(cap).unwrap_or(usize::MAX)
    }

    /// An offset up to which no batch of the segment is newer than `timestamp`.
    fn near(
        &self,
        segment: &SegmentView,
        in_memory: Option<Searched<TimestampOffset>>,
        timestamp: i64,
    ) -> Result<i64, ReadError> {
        let count = match in_memory {
            Some(Searched::Here(entry)) => return Ok(entry.offset),
            Some(Searched::InFile(0)) => return Ok(segment.base_offset),
            Some(Searched::InFile(count)) => Some(count),
            None => None,
        };
        let found = self
            .handle(segment.base_offset, SegmentFile::TimeIndex)
            .and_then(|handle| time_index::lookup(&handle, segment.base_offset, count, timestamp));
        match found {
            Ok(entry) => Ok(entry.offset.clamp(segment.base_offset, segment.end_offset)),
            // Without an index the segment is searched from its start.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
                ) =>
            {
                Ok(segment.base_offset)
            }
            Err(error) => {
                let path = self.segment_path(segment.base_offset, SegmentFile::TimeIndex);
                Err(ReadError::Storage(io_error(error, &path)))
            }
        }
    }

    /// What `look` finds in the first batch from `offset` on whose header is `wanted` and in which it finds anything. Damaged
    /// stretches are passed over.
    fn first_batch<T>(
        &self,
        segment: &SegmentView,
        offset: i64,
        wanted: impl Fn(&crate::log::batch::BatchHeader) -> bool,
        mut look: impl FnMut(&BatchSlice<'_>) -> Result<Option<T>, crate::log::batch::BatchError>,
    ) -> Result<Option<T>, ReadError> {
        let path = self.segment_path(segment.base_offset, SegmentFile::Log);
        let end = u64::try_from(segment.size).unwrap_or(0);
        let mut offset = offset;
        loop {
            let (first, file) = match self.locate(segment, offset) {
                Ok(Located::Batch(batch, file)) => (batch, file),
                Ok(Located::Beyond | Located::Gone) => return Ok(None),
                Err(ReadError::Damaged { to, .. }) if to > offset => {
                    offset = to;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut walk = batch_file::batches_in(file.as_ref(), first.position, end);
            loop {
                let batch: BatchInFile = match walk.next() {
                    Some(Ok(batch)) => batch,
                    None => return Ok(None),
                    Some(Err(WalkError::Io(error))) => {
                        return Err(ReadError::Storage(io_error(error, &path)));
                    }
                    Some(Err(WalkError::Damaged { .. })) => break,
                };
                offset = batch.header.next_offset();
                if !wanted(&batch.header) {
                    continue;
                }
                let damaged = |source| LogError::Damaged {
                    path: path.clone(),
                    position: batch.position,
                    source,
                };
                let bytes = match batch_file::read_batch(file.as_ref(), &batch, end) {
                    Ok(bytes) => bytes,
                    Err(WalkError::Io(error)) => return Err(ReadError::Storage(io_error(error, &path))),
                    Err(WalkError::Damaged { source, .. }) => {
                        return Err(ReadError::Storage(damaged(source)));
                    }
                };
                let slice = BatchSlice {
                    header: batch.header,
                    bytes: &bytes,
                    position: 0,
                };
                if let Some(found) = look(&slice).map_err(damaged)? {
                    return Ok(Some(found));
                }
            }
        }
    }
}

fn io_error(source: io::Error, path: &std::path::Path) -> LogError {
    LogError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    }
}
