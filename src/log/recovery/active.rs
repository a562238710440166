//! The active segment at start: taken up where a clean stop left it, or read and cut after a crash.
use super::Segments;
use crate::log::batch::BatchError;
use crate::log::batch_file;
use crate::log::error::{LogError, PathContext};
use crate::log::files::OpenMode;
use crate::log::index::{self, OffsetIndex, OffsetPosition};
use crate::log::index_file;
use crate::log::names::SegmentFile;
use crate::log::scan::{self, Extent};
use crate::log::segment::{ActiveSegment, FirstTimestamp, SegmentLimits};
use crate::log::time_index::{self, TimeIndex, TimestampOffset};

impl Segments<'_> {
    /// Takes up the active segment where a clean stop left it: from its last index entry to its end. `None` if indexes or tail are not
    /// what a clean stop leaves.
    pub(super) fn resume_active(
        &self,
        extent: Extent,
        modified_ms: i64,
    ) -> Result<Option<(ActiveSegment, i64)>, LogError> {
        let base_offset = extent.base_offset;
        let path = self.path(base_offset, SegmentFile::OffsetIndex);
        let offsets = self.open.files.open(&path, OpenMode::Read).at("open", &path)?;
        let Some((offset_count, last_offset)) =
            index::resume(offsets.as_ref(), base_offset).at("read", &path)?
        else {
            return Ok(None);
        };
        let tolerated_ms = self.tolerated_ms();
        let mut around = (None, None);
        let (time_count, last_time) = if self.live.has(SegmentFile::TimeIndex, base_offset) {
            let path = self.path(base_offset, SegmentFile::TimeIndex);
            let times = self.open.files.open(&path, OpenMode::Read).at("open", &path)?;
            let Some(resumed) = time_index::resume(times.as_ref(), base_offset).at("read", &path)? else {
                return Ok(None);
            };
            around = time_index::around(times.as_ref(), tolerated_ms).at("read", &path)?;
            resumed
        } else {
            (0, TimestampOffset::none(base_offset))
        };
        let from = last_offset.map_or(0, |last| last.position);
        let Some((next_offset, largest)) = self.tail(extent, from, last_offset, last_time)? else {
            return Ok(None);
        };
        if scan::outgrows_indexes(base_offset, next_offset) {
            return Ok(None);
        }
        let limits = self.limits();
        let mut active = self.active_segment(extent, modified_ms, limits);
        active.largest = largest;
        active.loaded(tolerated_ms, around.0, around.1);
        active.offset_index =
            OffsetIndex::resumed(base_offset, limits.index_bytes, offset_count, last_offset);
        let last_time = (time_count > 0).then_some(last_time);
        active.time_index = TimeIndex::resumed(base_offset, limits.index_bytes, time_count, last_time);
        Ok(Some((active, next_offset)))
    }

    /// Offset after the last batch, and the largest timestamp, from the batches behind the last index entry.
    fn tail(
        &self,
        extent: Extent,
        from: i64,
        last_entry: Option<OffsetPosition>,
        largest: TimestampOffset,
    ) -> Result<Option<(i64, TimestampOffset)>, LogError> {
        let path = self.path(extent.base_offset, SegmentFile::Log);
        let file = self.open.files.open(&path, OpenMode::Read).at("open", &path)?;
        let end = u64::try_from(extent.size).unwrap_or(0);
        let start = u64::try_from(from).unwrap_or(0);
        let (mut next_offset, mut largest, mut reached) = (extent.base_offset, largest, start);
        for batch in batch_file::batches_in(file.as_ref(), start, end) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(batch_file::WalkError::Io(error)) => return Err(error).at("read", &path),
                Err(batch_file::WalkError::Damaged { .. }) => return Ok(None),
            };
            let indexed = last_entry.filter(|_| reached == start);
            let expected = indexed.is_none_or(|entry| entry.offset == batch.header.last_offset());
            if !expected || batch.header.last_offset() < next_offset {
                return Ok(None);
            }
            next_offset = batch.header.next_offset();
            reached = batch.end();
            if batch.header.max_timestamp > largest.timestamp {
                largest = TimestampOffset {
                    timestamp: batch.header.max_timestamp,
                    offset: batch.header.last_offset(),
                };
            }
        }
        Ok((reached == end).then_some((next_offset, largest)))
    }

    /// Reads the active segment, cuts what is bad at its end, and gathers its index entries anew.
    pub(super) fn recover_active(
        &mut self,
        extent: Extent,
        modified_ms: i64,
        recover: bool,
    ) -> Result<(ActiveSegment, i64), LogError> {
        let path = self.path(extent.base_offset, SegmentFile::Log);
        let mode = if recover {
            OpenMode::ReadWrite
        } else {
            OpenMode::Read
        };
        let file = self.open.files.open(&path, mode).at("open", &path)?;
        let mut scanned = self.scan(file.as_ref(), &path, extent)?;
        let trusted = if self.open.clean {
            i64::MAX
        } else {
            self.open.recovery_point
        };
        let cut = scanned
            .damage
            .iter()
            .find(|range| range.from_offset >= trusted)
            .copied();
        if let Some(cut) = cut {
            let shorter = Extent {
                size: cut.from_position,
                ..extent
            };
            scanned = self.scan(file.as_ref(), &path, shorter)?;
            scanned.tail = Some(BatchError::BadHeader(
                "a batch was never flushed and is damaged".to_owned(),
            ));
        }
        for range in &scanned.damage {
            self.damage.add(*range);
        }
        if let Some(reason) = &scanned.tail {
            let bytes = extent.size.saturating_sub(scanned.end);
            tracing::warn!(path = %path.display(), position = scanned.end, bytes, %reason, "the end of the log is cut off");
            let file = self
                .open
                .files
                .open(&path, OpenMode::ReadWrite)
                .at("open", &path)?;
            file.set_len(u64::try_from(scanned.end).unwrap_or(0))
                .at("truncate", &path)?;
            // Else a power loss could bring back what was cut off, under offsets that have been given anew.
            file.sync_all().at("sync", &path)?;
            self.report.truncated_bytes = bytes;
        }
        self.report.rebuilt_indexes += 1;
        let extent = Extent {
            size: scanned.end,
            ..extent
        };
        let limits = self.limits();
        let mut active = self.active_segment(extent, modified_ms, limits);
        active.largest = scanned.largest;
        let tolerated_ms = self.tolerated_ms();
        let times = scanned.time_entries.iter().map(|entry| entry.timestamp);
        let below = times.clone().rfind(|timestamp| *timestamp <= tolerated_ms);
        let above = times.clone().find(|timestamp| *timestamp > tolerated_ms);
        active.loaded(tolerated_ms, below, above);
        if let Some(first) = scanned.first_timestamp {
            active.first_timestamp = FirstTimestamp::Known(first);
        }
        for entry in &scanned.offset_entries {
            active.offset_index.append(*entry);
        }
        for entry in &scanned.time_entries {
            active.time_index.offer(*entry, false);
        }
        self.clear_indexes(extent.base_offset);
        Ok((active, scanned.next_offset))
    }

    /// Empties the active segment's indexes; their entries are in memory and are written again as they fill pages. An index that cannot be
    /// emptied is written over, and cut to its entries when the segment is closed.
    fn clear_indexes(&self, base_offset: i64) {
        for file in [SegmentFile::OffsetIndex, SegmentFile::TimeIndex] {
            let path = self.path(base_offset, file);
            if let Err(error) = index_file::write(self.open.files.as_ref(), &path, &[], false) {
                tracing::warn!(path = %path.display(), %error, "cannot empty an index");
            }
        }
    }

    fn active_segment(&self, extent: Extent, modified_ms: i64, limits: SegmentLimits) -> ActiveSegment {
        let now_ms = self.open.clock.wall_ms();
        let mut active = ActiveSegment::new(extent.base_offset, now_ms, limits);
        active.size = extent.size;
        active.modified_ms = modified_ms;
        if extent.size > 0 {
            active.first_timestamp = FirstTimestamp::Unread;
            // Its first batch came at some time before its last one.
            active.first_append_ms = Some(modified_ms);
        }
        active
    }
}
