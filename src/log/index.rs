//! The offset index: which position in the `.log` an offset is near.
//!
//! Format (Kafka `OffsetIndex`): entries of 8 bytes, big-endian: int32 last offset of a batch minus the segment's base,
//! int32 position of that same batch; offsets strictly increase. Sparse: one entry per `index.interval.bytes`.
use std::io;
use std::sync::Arc;

use crate::log::files::FileHandle;
use crate::log::index_file::{self, Entry, GrowingIndex};

/// Bytes of one entry.
pub const ENTRY_LEN: usize = 8;

/// An offset and where its batch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetPosition {
    /// Last offset of the batch.
    pub offset: i64,
    /// Byte position of the batch in the `.log`.
    pub position: i64,
}

impl Entry<ENTRY_LEN> for OffsetPosition {
    fn key(&self) -> i64 {
        self.offset
    }

    fn decode(base_offset: i64, entry: &[u8; ENTRY_LEN]) -> Self {
        let [a, b, c, d, e, f, g, h] = *entry;
        Self {
            offset: base_offset.saturating_add(i64::from(i32::from_be_bytes([a, b, c, d]))),
            position: i64::from(i32::from_be_bytes([e, f, g, h])),
        }
    }

    fn encode(self, base_offset: i64) -> Option<[u8; ENTRY_LEN]> {
        let relative = u32::try_from(self.offset.checked_sub(base_offset)?).ok()?;
        let position = u32::try_from(self.position).ok()?;
        if relative > i32::MAX.unsigned_abs() || position > i32::MAX.unsigned_abs() {
            return None;
        }
        let bytes = (u64::from(relative) << 32) | u64::from(position);
        Some(bytes.to_be_bytes())
    }
}

/// The index of the active segment, growing.
pub type OffsetIndex = GrowingIndex<OffsetPosition, ENTRY_LEN>;

impl OffsetIndex {
    /// Whether no entry fits any more.
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// The last entry.
    pub fn last(&self) -> Option<OffsetPosition> {
        self.last_entry()
    }

    /// Adds an entry; one that does not fit, or does not come after the last, is left out.
    pub fn append(&mut self, entry: OffsetPosition) {
        let follows = self.last().is_none_or(|last| entry.offset > last.offset);
        if follows && !self.is_full() {
            self.push(entry);
        }
    }
}

/// The last entry at or before `offset` among the first `count` entries of the file (all of them if `None`); if there
/// is none, the start of the segment.
///
/// # Errors
/// What reading fails with; `InvalidData` if an entry is found that cannot be one, as the zeros of an untrimmed file are.
pub fn lookup(
    handle: &Arc<dyn FileHandle>,
    base_offset: i64,
    count: Option<u32>,
    offset: i64,
) -> io::Result<OffsetPosition> {
    match index_file::last_up_to::<OffsetPosition, ENTRY_LEN>(handle.as_ref(), base_offset, count, offset)? {
        None => Ok(OffsetPosition {
            offset: base_offset,
            position: 0,
        }),
        // The first batch is never indexed.
        Some(entry) if entry.position <= 0 => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("an entry at position {}", entry.position),
        )),
        Some(entry) => Ok(entry),
    }
}

/// Number of entries of an index that was closed cleanly, and the last one. `None` if what is there cannot be one:
/// a last entry at or below the first, as the zeros of an untrimmed file are.
///
/// # Errors
/// What reading fails with.
pub fn resume(
    handle: &dyn FileHandle,
    base_offset: i64,
) -> io::Result<Option<(u32, Option<OffsetPosition>)>> {
    let (count, last) = index_file::count_and_last::<OffsetPosition, ENTRY_LEN>(handle, base_offset)?;
    let Some(last) = last else {
        return Ok(Some((0, None)));
    };
    // The first batch of a segment is never indexed, so a real entry is never at position 0 and is the first only if
    // it is alone.
    let possible = last.position > 0 && last.offset > base_offset;
    Ok(possible.then_some((count, Some(last))))
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
