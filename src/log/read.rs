//! Reading by offset: which bytes of which file to send.
//!
//! Nothing is read that is going to be sent; a read ends in a file range ([`FetchedSlice`]) that the network layer hands to the
//! kernel. Finding it costs one index search and the headers of at most one index interval. As in Kafka a range begins with the batch that
//! holds the offset, lies within one segment, and may end inside a batch.
//!
//! The partition's lock is held only to look at memory. A segment can therefore be deleted between finding it and opening its file;
//! the log start has moved by then, and looking again gives the right answer instead of a missing file.
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::log::batch_file::{self, BatchInFile, WalkError};
use crate::log::damage::DamagedRange;
use crate::log::error::{LogError, PathContext};
use crate::log::files::FileHandle;
use crate::log::index::{self, OffsetPosition};
use crate::log::index_file::{self, Searched};
use crate::log::names::SegmentFile;
use crate::log::partition::{OffsetBounds, PartitionLog, View};
use crate::log::scan::{self, as_i64};
use crate::log::txn_index::{self, AbortedTxn};

/// Up to where a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Up to the high watermark.
    ReadUncommitted,
    /// Up to the last stable offset; aborted transactions are named.
    ReadCommitted,
    /// Up to the log end, as a replica sees it.
    LogEnd,
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// OFFSET_OUT_OF_RANGE.
    #[error("offset {offset} is out of range {log_start}..={log_end}")]
    OffsetOutOfRange {
        /// What was asked for.
        offset: i64,
        /// First offset that may be read.
        log_start: i64,
        /// Log end; reading there gives nothing and is no error.
        log_end: i64,
    },
    /// The offset lies in a stretch that is damaged on disk; reading goes on at `to`.
    #[error("offsets {from} to {to} (exclusive) are damaged on disk")]
    Damaged {
        /// First damaged offset.
        from: i64,
        /// First offset behind the damage.
        to: i64,
    },
    /// KAFKA_STORAGE_ERROR.
    #[error(transparent)]
    Storage(#[from] LogError),
}

/// A range of a segment file to be sent, or nothing.
#[derive(Debug, Clone)]
pub struct FetchedSlice {
    /// The partition's offsets at that moment.
    pub bounds: OffsetBounds,
    /// Base offset of the batch that the range begins with; the offset asked for if there is no data.
    pub base_offset: i64,
    /// The file; `None` if there is no data. Holding it keeps the bytes readable, also after deletion.
    pub file: Option<Arc<dyn FileHandle>>,
    /// First byte.
    pub position: u64,
    /// Number of bytes, 0 if there is no data.
    pub len: usize,
    /// Transactions that a committed read must skip; empty for other reads.
    pub aborted: Vec<AbortedTxn>,
}

impl FetchedSlice {
    fn empty(bounds: OffsetBounds, offset: i64) -> Self {
        Self {
            bounds,
            base_offset: offset,
            file: None,
            position: 0,
            len: 0,
            aborted: Vec::new(),
        }
    }

    /// Reads the range into memory, for transports that cannot send a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn to_vec(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len];
        if let Some(file) = &self.file {
            file.read_exact_at(&mut bytes, self.position)?;
        }
        Ok(bytes)
    }
}

/// What a search needs to know of one segment, copied out of the lock.
#[derive(Debug)]
pub(crate) struct SegmentView {
    pub base_offset: i64,
    pub end_offset: i64,
    pub size: i64,
    pub active: bool,
    pub searched: Option<Searched<OffsetPosition>>,
    pub damage: Vec<DamagedRange>,
}

impl SegmentView {
    pub(crate) fn of(view: &View, index: usize, offset: i64) -> Option<Self> {
        let segment = view.segments.get(index)?;
        let active = segment.base_offset == view.active.base_offset;
        Some(Self {
            base_offset: segment.base_offset,
            end_offset: view.end_of(index),
            size: segment.size_bytes,
            active,
            searched: active.then(|| view.active.offset_index.search(offset)),
            damage: view.damage.of_segment(segment.base_offset).copied().collect(),
        })
    }

    pub(crate) fn extent(&self) -> scan::Extent {
        scan::Extent {
            base_offset: self.base_offset,
            next_base: if self.active { i64::MAX } else { self.end_offset },
            size: self.size,
        }
    }

    /// The known damage that a position lies in.
    fn damaged_at(&self, position: u64) -> Option<&DamagedRange> {
        let position = as_i64(position);
        self.damage
            .iter()
            .find(|range| (range.from_position..range.to_position).contains(&position))
    }

    /// Whether a batch can stand where it was found: behind `expected`, within the segment, not in known damage. A damaged header can
    /// look like one with any offset.
    fn can_hold(&self, batch: &BatchInFile, expected: i64) -> bool {
        let header = &batch.header;
        let rises = header.magic < 2 || header.base_offset >= expected;
        let within = (expected..self.end_offset).contains(&header.last_offset());
        rises && within && self.damaged_at(batch.position).is_none()
    }

    /// Where the good bytes that begin at `position` end.
    fn good_until(&self, position: i64) -> i64 {
        let starts = self.damage.iter().map(|range| range.from_position);
        starts.filter(|from| *from > position).min().unwrap_or(self.size)
    }
}

/// What a search in one segment found.
pub(crate) enum Located {
    /// The batch that holds the offset, or the first one after it.
    Batch(BatchInFile, Arc<dyn FileHandle>),
    /// No batch from the offset on.
    Beyond,
    /// The segment was deleted meanwhile.
    Gone,
}

impl PartitionLog {
    /// Finds the bytes from `offset` on: at most `max_bytes` of one segment, beginning with the batch that holds the offset. With
    /// `at_least_one` the first batch comes whole whatever its size; without it a first batch larger than `max_bytes` gives no
    /// data.
    ///
    /// # Errors
    /// See [`ReadError`]. Reading at the end of what may be seen is no error and gives no data.
    pub fn read(
        &self,
        offset: i64,
        max_bytes: i64,
        at_least_one: bool,
        isolation: Isolation,
    ) -> Result<FetchedSlice, ReadError> {
        let mut skip_below = None;
        loop {
            let (bounds, segment, visible_end) = {
                let view = self.view.lock();
                self.check_readable(&view.phase)?;
                let bounds = view.bounds();
                if offset < bounds.log_start || offset > bounds.log_end {
                    return Err(ReadError::OffsetOutOfRange {
                        offset,
                        log_start: bounds.log_start,
                        log_end: bounds.log_end,
                    });
                }
                let visible_end = match isolation {
                    Isolation::ReadUncommitted => bounds.high_watermark,
                    Isolation::ReadCommitted => bounds.last_stable_offset,
                    Isolation::LogEnd => bounds.log_end,
                };
                if offset >= visible_end {
                    return Ok(FetchedSlice::empty(bounds, offset));
                }
                if let Some(range) = view.damage.containing(offset) {
                    return Err(ReadError::Damaged {
                        from: range.from_offset,
                        to: range.to_offset,
                    });
                }
                let found = view
                    .segments
                    .position_of(skip_below.unwrap_or(offset))
                    .and_then(|index| SegmentView::of(&view, index, offset));
                let Some(segment) = found else {
                    return Ok(FetchedSlice::empty(bounds, offset));
                };
                (bounds, segment, visible_end)
            };
            match self.locate(&segment, offset)? {
                Located::Gone => {}
                Located::Beyond if segment.end_offset >= visible_end || segment.active => {
                    return Ok(FetchedSlice::empty(bounds, offset));
                }
                // A gap at the end of the segment, as compaction leaves it: the next one has the data.
                Located::Beyond => skip_below = Some(segment.end_offset),
                Located::Batch(batch, _) if batch.header.base_offset >= visible_end => {
                    return Ok(FetchedSlice::empty(bounds, offset));
                }
                Located::Batch(batch, file) => {
                    let end = self.visible_until(&segment, &batch, visible_end)?;
                    let mut slice = cut(bounds, &batch, file, end, max_bytes, at_least_one);
                    if isolation == Isolation::ReadCommitted {
                        slice.aborted = self.aborted_in(offset, &segment, &slice, visible_end)?;
                    }
                    return Ok(slice);
                }
            }
        }
    }

    /// The position where what may be seen ends, for a range that begins with `batch`.
    fn visible_until(
        &self,
        segment: &SegmentView,
        batch: &BatchInFile,
        visible_end: i64,
    ) -> Result<i64, ReadError> {
        let good = segment.good_until(as_i64(batch.position));
        if visible_end >= segment.end_offset {
            return Ok(good);
        }
        let searched = {
            let view = self.view.lock();
            segment
                .active
                .then(|| view.active.offset_index.search(visible_end))
        };
        let bound = SegmentView {
            searched,
            damage: segment.damage.clone(),
            ..*segment
        };
        Ok(match self.locate(&bound, visible_end)? {
            Located::Batch(first_hidden, _) => good.min(as_i64(first_hidden.position)),
            Located::Beyond => good,
            Located::Gone => as_i64(batch.end()),
        })
    }

    /// Finds the first batch of a segment that reaches `offset`.
    pub(crate) fn locate(&self, segment: &SegmentView, offset: i64) -> Result<Located, ReadError> {
        let path = self.segment_path(segment.base_offset, SegmentFile::Log);
        let file = match self.handle(segment.base_offset, SegmentFile::Log) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.gone_or_missing(segment, error);
            }
            Err(error) => return Err(ReadError::from(log_io(error, "open", &path))),
        };
        let hint = self.hinted_position(segment, offset);
        match self.walk_to(segment, &file, hint, offset) {
            // The index led to something that is no batch. Believe the log: start over at its beginning, and mend the index.
            Err(ReadError::Damaged { .. } | ReadError::Storage(LogError::Damaged { .. })) if hint > 0 => {
                self.rebuild_indexes(segment);
                self.walk_to(segment, &file, 0, offset)
            }
            other => other,
        }
    }

    /// A file that is not there: deleted since we looked, or taken away by someone else.
    fn gone_or_missing(&self, segment: &SegmentView, error: io::Error) -> Result<Located, ReadError> {
        let view = self.view.lock();
        self.check_readable(&view.phase)?;
        let first = view.segments.get(0).map_or(i64::MAX, |first| first.base_offset);
        if segment.base_offset < first {
            return Ok(Located::Gone);
        }
        let path = self.segment_path(segment.base_offset, SegmentFile::Log);
        Err(ReadError::from(log_io(error, "open", &path)))
    }

    /// Where the index says that `offset` is near; the start of the segment if the index cannot be used.
    fn hinted_position(&self, segment: &SegmentView, offset: i64) -> i64 {
        let count = match segment.searched {
            Some(Searched::Here(entry)) => return entry.position,
            Some(Searched::InFile(0)) => return 0,
            Some(Searched::InFile(count)) => Some(count),
            None => None,
        };
        let found = self
            .handle(segment.base_offset, SegmentFile::OffsetIndex)
            .and_then(|handle| index::lookup(&handle, segment.base_offset, count, offset));
        match found {
            Ok(entry) if (0..segment.size).contains(&entry.position) => entry.position,
            Ok(_) => 0,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.rebuild_indexes(segment);
                0
            }
            Err(error) => {
                tracing::warn!(topic = self.topic, partition = self.partition, base_offset = segment.base_offset, %error,
                    "cannot use an offset index; the segment is read from its start");
                0
            }
        }
    }

    fn walk_to(
        &self,
        segment: &SegmentView,
        file: &Arc<dyn FileHandle>,
        from: i64,
        offset: i64,
    ) -> Result<Located, ReadError> {
        let path = self.segment_path(segment.base_offset, SegmentFile::Log);
        let end = u64::try_from(segment.size).unwrap_or(0);
        let mut position = u64::try_from(from).unwrap_or(0);
        let mut first = from > 0;
        let mut expected = segment.base_offset;
        loop {
            let mut walk = batch_file::batches_in(file.as_ref(), position, end);
            let bad = loop {
                match walk.next() {
                    Some(Ok(batch)) => {
                        if !segment.can_hold(&batch, expected) || (first && batch.header.base_offset > offset)
                        {
                            break batch.position;
                        }
                        first = false;
                        expected = batch.header.next_offset();
                        if batch.header.last_offset() >= offset {
                            return Ok(Located::Batch(batch, Arc::clone(file)));
                        }
                    }
                    Some(Err(WalkError::Io(error))) => return Err(log_io(error, "read", &path).into()),
                    Some(Err(WalkError::Damaged { position, .. })) => break position,
                    None if walk.position() < end => break walk.position(),
                    None => return Ok(Located::Beyond),
                }
            };
            if first {
                // The very first step failed, so it is the index that is wrong.
                return Err(ReadError::Damaged {
                    from: offset,
                    to: offset,
                });
            }
            let range = self.step_over(segment, file, bad, expected, offset)?;
            position = u64::try_from(range.to_position).unwrap_or(u64::MAX);
            expected = expected.max(range.to_offset);
        }
    }

    /// Finds the good batch behind a bad one, remembers the range between them, and refuses an `offset` within it. `from_offset` is the
    /// offset after the last good batch.
    fn step_over(
        &self,
        segment: &SegmentView,
        file: &Arc<dyn FileHandle>,
        bad: u64,
        from_offset: i64,
        offset: i64,
    ) -> Result<DamagedRange, ReadError> {
        if let Some(range) = segment.damaged_at(bad) {
            return Ok(*range);
        }
        let path = self.segment_path(segment.base_offset, SegmentFile::Log);
        let next = scan::next_good(
            file.as_ref(),
            bad.saturating_add(1),
            segment.extent(),
            from_offset,
        )
        .at("read", &path)?;
        let range = DamagedRange {
            base_offset: segment.base_offset,
            from_offset,
            to_offset: next.map_or(segment.end_offset, |batch| batch.header.base_offset),
            from_position: as_i64(bad),
            to_position: next.map_or(segment.size, |batch| as_i64(batch.position)),
        };
        self.report_damage(range);
        if offset < range.to_offset {
            return Err(ReadError::Damaged {
                from: range.from_offset,
                to: range.to_offset,
            });
        }
        Ok(range)
    }

    /// Makes the indexes of a closed segment anew, because a read found them wrong. Only reading gets slower if that fails.
    /// One at a time; whoever comes while another is at it goes without.
    fn rebuild_indexes(&self, segment: &SegmentView) {
        if segment.active {
            return;
        }
        let Some(_one_at_a_time) = self.maintenance.try_lock() else {
            return;
        };
        let interval = self.settings.load().index_interval_bytes;
        let rebuilt = self
            .handle(segment.base_offset, SegmentFile::Log)
            .and_then(|file| {
                scan::segment(file.as_ref(), segment.extent(), interval, false, |_| {
                    Ok::<(), io::Error>(())
                })
            });
        let path = self.segment_path(segment.base_offset, SegmentFile::OffsetIndex);
        let written = rebuilt.at("read", &path).and_then(|scanned| {
            let bytes = index_file::encode_all(segment.base_offset, &scanned.offset_entries);
            index_file::write(self.files.as_ref(), &path, &bytes, true)
        });
        self.handles.forget(self.owner, segment.base_offset);
        match written {
            Ok(()) => {
                self.rebuilt_later.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(path = %path.display(), "an offset index was wrong and has been made anew");
            }
            Err(error) => tracing::warn!(path = %path.display(), %error, "cannot make an offset index anew"),
        }
    }

    /// Indexes made anew since the log was opened, and while it was opened.
    pub fn rebuilt_indexes(&self) -> usize {
        self.report.rebuilt_indexes + self.rebuilt_later.load(Ordering::Relaxed)
    }

    /// Remembers a stretch that cannot be read and says so, once.
    pub(crate) fn report_damage(&self, range: DamagedRange) {
        range.report(&self.topic, self.partition);
        let damage = {
            let mut view = self.view.lock();
            view.damage.add(range);
            view.damage.clone()
        };
        damage.store(self.files.as_ref(), &self.directory);
    }

    /// Stretches that cannot be read, by offset.
    pub fn damage(&self) -> Vec<DamagedRange> {
        self.view.lock().damage.ranges().to_vec()
    }

    /// Aborted transactions that overlap a committed read of `slice` from `offset` on, from the transaction index of its segment and the
    /// following ones until they cannot overlap any more.
    fn aborted_in(
        &self,
        offset: i64,
        segment: &SegmentView,
        slice: &FetchedSlice,
        visible_end: i64,
    ) -> Result<Vec<AbortedTxn>, ReadError> {
        let bases: Vec<i64> = {
            let view = self.view.lock();
            let later = view
                .txn_indexes
                .iter()
                .filter(|base| **base >= segment.base_offset);
            later.copied().collect()
        };
        let Some(file) = slice.file.as_ref().filter(|_| !bases.is_empty()) else {
            return Ok(Vec::new());
        };
        let slice_end = as_i64(slice.position).saturating_add(i64::try_from(slice.len).unwrap_or(i64::MAX));
        let upper_bound = self
            .offset_beyond(offset, segment, file, slice_end)
            .unwrap_or(segment.end_offset)
            .min(visible_end);
        let mut aborted = Vec::new();
        for base_offset in bases {
            let path = self.segment_path(base_offset, SegmentFile::TxnIndex);
            let entries = txn_index::load(self.files.as_ref(), &path, base_offset)?;
            if txn_index::overlapping(&entries, offset, upper_bound, &mut aborted) {
                break;
            }
        }
        Ok(aborted)
    }

    /// An offset that lies behind every batch that begins below `position`, from the offset index. An index is a hint: what it says is held
    /// against the log. `None` where it does not help.
    fn offset_beyond(
        &self,
        offset: i64,
        segment: &SegmentView,
        file: &Arc<dyn FileHandle>,
        position: i64,
    ) -> Option<i64> {
        let (in_memory, count) = {
            let view = self.view.lock();
            if view.active.base_offset == segment.base_offset {
                let index = &view.active.offset_index;
                let (found, stored) = index.first_beyond(|entry| entry.position < position);
                (found, Some(stored))
            } else {
                (None, None)
            }
        };
        let in_file = match count {
            Some(0) => None,
            count => {
                let handle = self.handle(segment.base_offset, SegmentFile::OffsetIndex).ok()?;
                let before = |entry: OffsetPosition| entry.position < position;
                index_file::first_beyond(handle.as_ref(), segment.base_offset, count, before).ok()?
            }
        };
        let entry = in_file.or(in_memory)?;
        let start = u64::try_from(entry.position).ok()?;
        let end = u64::try_from(segment.size).ok()?;
        let batch = batch_file::batches_in(file.as_ref(), start, end).next()?.ok()?;
        let right = batch.header.last_offset() == entry.offset && segment.can_hold(&batch, offset);
        right.then_some(entry.offset)
    }
}

fn log_io(error: io::Error, action: &'static str, path: &std::path::Path) -> LogError {
    LogError::Io {
        action,
        path: path.to_owned(),
        source: error,
    }
}

fn cut(
    bounds: OffsetBounds,
    batch: &BatchInFile,
    file: Arc<dyn FileHandle>,
    end: i64,
    max_bytes: i64,
    at_least_one: bool,
) -> FetchedSlice {
    let position = as_i64(batch.position);
    let first = i64::from(batch.header.size);
    let mut limit = max_bytes.max(0);
    if limit < first {
        limit = if at_least_one { first } else { 0 };
    }
    let len = limit.min(end.saturating_sub(position)).max(0);
    FetchedSlice {
        bounds,
        base_offset: batch.header.base_offset,
        file: (len > 0).then_some(file),
        position: batch.position,
        len: usize::try_from(len).unwrap_or(0),
        aborted: Vec::new(),
    }
}
