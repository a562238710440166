//! Reading a whole segment: what recovery and index repair have in common.
//!
//! One walk gathers everything that can be told from the batches: index entries, largest timestamp, end, damage. Where a batch is
//! bad the walk looks for the next good one byte by byte; a candidate is believed only if its checksum is right, so
//! that what looks like a header inside a record cannot fool it.
use std::io;

use crate::log::batch::{BatchError, BatchHeader, HEADER_LEN, MIN_LEN};
use crate::log::batch_file::{self, BatchInFile, FileBatches, WalkError};
use crate::log::damage::DamagedRange;
use crate::log::files::FileHandle;
use crate::log::index::OffsetPosition;
use crate::log::time_index::TimestampOffset;

/// Bytes looked at in one go while searching for the next good batch.
const SEARCH_WINDOW: usize = 256 * 1024;

/// Where a segment lies and what its batches may say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Base offset; no batch may begin below it.
    pub base_offset: i64,
    /// Base offset of the next segment; no batch may reach it. `i64::MAX` for the last segment.
    pub next_base: i64,
    /// Bytes of the file.
    pub size: i64,
}

impl Extent {
    fn end(&self) -> u64 {
        u64::try_from(self.size).unwrap_or(0)
    }

    /// Whether an offset may lie in the segment that an index cannot say.
    pub(crate) fn may_outgrow_indexes(&self) -> bool {
        outgrows_indexes(self.base_offset, self.next_base)
    }
}

/// What a segment holds.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// Position after the last good batch.
    pub end: i64,
    /// Offset after the last good batch; the base offset if there is none.
    pub next_offset: i64,
    /// Largest batch timestamp and where it was first seen.
    pub largest: TimestampOffset,
    /// Timestamp of the first batch, if there is one.
    pub first_timestamp: Option<i64>,
    /// What the offset index has to hold.
    pub offset_entries: Vec<OffsetPosition>,
    /// What the time index has to hold, without the closing entry.
    pub time_entries: Vec<TimestampOffset>,
    /// Offsets are missing between or within batches, as compaction leaves it; what is missing to damage does not count.
    pub sparse: bool,
    /// Bad stretches that have a good batch behind them.
    pub damage: Vec<DamagedRange>,
    /// Why the walk ended before the end of the file, if it did.
    pub tail: Option<BatchError>,
}

/// Walks over a whole segment. `checked`: look at every checksum, which reads every byte. `on_batch` sees each good batch.
///
/// # Errors
/// The file cannot be read, or `on_batch` fails.
pub(crate) fn segment<E: From<io::Error>>(
    file: &dyn FileHandle,
    extent: Extent,
    index_interval_bytes: i64,
    checked: bool,
    mut on_batch: impl FnMut(&BatchInFile) -> Result<(), E>,
) -> Result<Scanned, E> {
    let mut scanned = Scanned {
        end: 0,
        next_offset: extent.base_offset,
        largest: TimestampOffset::none(extent.base_offset),
        first_timestamp: None,
        offset_entries: Vec::new(),
        time_entries: Vec::new(),
        sparse: false,
        damage: Vec::new(),
        tail: None,
    };
    let mut bytes_since_entry = 0_i64;
    let mut position = 0_u64;
    loop {
        let mut walk = walk(file, position, extent.end(), checked);
        let stopped = loop {
            let batch = match walk.next() {
                Some(Ok(batch)) => batch,
                Some(Err(WalkError::Io(error))) => return Err(error.into()),
                Some(Err(WalkError::Damaged { source, .. })) => break Some(source),
                None => break None,
            };
            if let Err(what) = fits(&batch.header, scanned.next_offset, extent.next_base) {
                break Some(BatchError::BadHeader(what));
            }
            on_batch(&batch)?;
            scanned.take(&batch, &mut bytes_since_entry, index_interval_bytes);
        };
        let end = u64::try_from(scanned.end).unwrap_or(0);
        if end == extent.end() {
            return Ok(scanned);
        }
        let reason = stopped.unwrap_or(BatchError::Torn {
            have: extent.end() - end,
            need: HEADER_LEN as u64,
        });
        let Some(next) = next_good(file, end + 1, extent, scanned.next_offset)? else {
            scanned.tail = Some(reason);
            return Ok(scanned);
        };
        scanned.damage.push(DamagedRange {
            base_offset: extent.base_offset,
            from_offset: scanned.next_offset,
            to_offset: next.header.base_offset,
            from_position: scanned.end,
            to_position: as_i64(next.position),
        });
        scanned.next_offset = next.header.base_offset;
        position = next.position;
    }
}

/// Whether a segment whose records end before `next_offset` holds offsets that are more than 31 bits above its base.
pub(crate) fn outgrows_indexes(base_offset: i64, next_offset: i64) -> bool {
    next_offset.saturating_sub(1).saturating_sub(base_offset) > i64::from(i32::MAX)
}

fn walk(file: &dyn FileHandle, position: u64, end: u64, checked: bool) -> FileBatches<'_> {
    if checked {
        batch_file::checked_batches_in(file, position, end)
    } else {
        batch_file::batches_in(file, position, end)
    }
}

impl Scanned {
    fn take(&mut self, batch: &BatchInFile, bytes_since_entry: &mut i64, index_interval_bytes: i64) {
        let last_offset = batch.header.last_offset();
        self.sparse |= batch.header.base_offset != self.next_offset || batch.header.lacks_records();
        if batch.header.max_timestamp > self.largest.timestamp {
            self.largest = TimestampOffset {
                timestamp: batch.header.max_timestamp,
                offset: last_offset,
            };
        }
        if *bytes_since_entry > index_interval_bytes {
            self.offset_entries.push(OffsetPosition {
                offset: last_offset,
                position: as_i64(batch.position),
            });
            let rises = self
                .time_entries
                .last()
                .is_none_or(|last| self.largest.timestamp > last.timestamp);
            if rises && self.largest.timestamp >= 0 {
                self.time_entries.push(self.largest);
            }
            *bytes_since_entry = 0;
        }
        self.first_timestamp.get_or_insert(batch.header.max_timestamp);
        *bytes_since_entry = bytes_since_entry.saturating_add(i64::from(batch.header.size));
        self.end = as_i64(batch.end());
        self.next_offset = batch.header.next_offset();
    }

    /// The time index as a closed segment has it: with the closing entry.
    pub(crate) fn closed_time_entries(&self) -> Vec<TimestampOffset> {
        let mut entries = self.time_entries.clone();
        let rises = entries
            .last()
            .is_none_or(|last| self.largest.timestamp > last.timestamp);
        if rises && self.largest.timestamp >= 0 {
            entries.push(self.largest);
        }
        entries
    }
}

/// Whether a batch can stand where it was found.
fn fits(header: &BatchHeader, next_offset: i64, next_base: i64) -> Result<(), String> {
    if header.base_offset < next_offset && header.magic >= 2 {
        return Err(format!(
            "base offset {} is below {next_offset}, which must come next",
            header.base_offset
        ));
    }
    if header.last_offset() < next_offset || header.last_offset() >= next_base {
        return Err(format!(
            "last offset {} is not within {next_offset} and {next_base}",
            header.last_offset()
        ));
    }
    Ok(())
}

/// The first batch from `from` on that is whole, has a right checksum and offsets in `min_offset..extent.next_base`.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn next_good(
    file: &dyn FileHandle,
    from: u64,
    extent: Extent,
    min_offset: i64,
) -> io::Result<Option<BatchInFile>> {
    let mut window = vec![0; SEARCH_WINDOW];
    let mut window_at = from;
    // A magic 0 message may be as short as 26 bytes; what is too short for a v2 header at the end is not looked for.
    while window_at.saturating_add(MIN_LEN as u64) <= extent.end() {
        let want = usize::try_from(extent.end() - window_at)
            .unwrap_or(usize::MAX)
            .min(SEARCH_WINDOW);
        let Some(target) = window.get_mut(..want) else {
            break;
        };
        let read = file.read_full_at(target, window_at)?;
        let bytes = window.get(..read).unwrap_or(&[]);
        let last_window = window_at + read as u64 >= extent.end() || read < want;
        let candidates = if last_window {
            read
        } else {
            read.saturating_sub(HEADER_LEN)
        };
        for skip in 0..candidates {
            let Some(rest) = bytes.get(skip..) else { break };
            if rest.get(16).is_none_or(|magic| *magic > 2) {
                continue;
            }
            let Ok(header) = BatchHeader::parse(rest) else {
                continue;
            };
            if fits(&header, min_offset, extent.next_base).is_err() {
                continue;
            }
            let position = window_at + skip as u64;
            match batch_file::checked_batches_in(file, position, extent.end()).next() {
                Some(Ok(batch)) => return Ok(Some(batch)),
                Some(Err(WalkError::Io(error))) => return Err(error),
                Some(Err(WalkError::Damaged { .. })) | None => {}
            }
        }
        if last_window {
            break;
        }
        window_at += candidates as u64;
    }
    Ok(None)
}

pub(crate) fn as_i64(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}
