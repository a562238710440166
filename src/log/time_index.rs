//! The time index: up to which offset nothing is newer than a timestamp.
//!
//! Format (Kafka `TimeIndex`): entries of 12 bytes, big-endian: int64 timestamp, int32 offset minus the segment's base.
//! An entry says: up to and including that offset, the largest timestamp is this one. Timestamps strictly increase.
//! The last entry of a closed segment holds its largest timestamp, which is what time retention goes by.
//!
//! One slot of the capacity is kept for the closing entry, so a full index can still be closed.
use std::io;
use std::sync::Arc;

use crate::log::files::FileHandle;
use crate::log::index_file::{self, Entry, GrowingIndex, entry_at, entry_count};

/// Bytes of one entry.
pub const ENTRY_LEN: usize = 12;

/// A timestamp and the offset it was first seen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    /// ms since the epoch; -1 if no record has one.
    pub timestamp: i64,
    /// Last offset of the batch that holds it.
    pub offset: i64,
}

impl TimestampOffset {
    /// "No timestamp yet", as Kafka writes it for an empty index.
    pub const fn none(base_offset: i64) -> Self {
        Self {
            timestamp: -1,
            offset: base_offset,
        }
    }
}

impl Entry<ENTRY_LEN> for TimestampOffset {
    fn key(&self) -> i64 {
        self.timestamp
    }

    fn decode(base_offset: i64, entry: &[u8; ENTRY_LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *entry;
        Self {
            timestamp: i64::from_be_bytes([a, b, c, d, e, f, g, h]),
            offset: base_offset.saturating_add(i64::from(i32::from_be_bytes([i, j, k, l]))),
        }
    }

    fn encode(self, base_offset: i64) -> Option<[u8; ENTRY_LEN]> {
        let relative = i32::try_from(self.offset.checked_sub(base_offset)?).ok()?;
        if relative < 0 {
            return None;
        }
        let [a, b, c, d, e, f, g, h] = self.timestamp.to_be_bytes();
        let [i, j, k, l] = relative.to_be_bytes();
        Some([a, b, c, d, e, f, g, h, i, j, k, l])
    }
}

/// The index of the active segment, growing.
pub type TimeIndex = GrowingIndex<TimestampOffset, ENTRY_LEN>;

impl TimeIndex {
    /// Whether only the slot of the closing entry is left.
    pub fn is_full(&self) -> bool {
        self.room() <= 1
    }

    /// The last entry; `(-1, base)` if there is none.
    pub fn last(&self) -> TimestampOffset {
        self.last_entry()
            .unwrap_or(TimestampOffset::none(self.base_offset()))
    }

    /// Offers an entry; it is taken only if its timestamp is above the last one's and there is room. `closing` may use
    /// the last slot.
    pub fn offer(&mut self, entry: TimestampOffset, closing: bool) {
        let fits = closing || !self.is_full();
        let last = self.last();
        if fits && entry.timestamp > last.timestamp && entry.offset >= last.offset {
            self.push(entry);
        }
    }
}

/// The last entry at or below `timestamp` among the first `count` entries of the file (all of them if `None`); if there
/// is none, `(-1, base)`.
///
/// # Errors
/// What reading fails with.
pub fn lookup(
    handle: &Arc<dyn FileHandle>,
    base_offset: i64,
    count: Option<u32>,
    timestamp: i64,
) -> io::Result<TimestampOffset> {
    let found = index_file::last_up_to(handle.as_ref(), base_offset, count, timestamp)?;
    Ok(found.unwrap_or(TimestampOffset::none(base_offset)))
}

/// The timestamps of the last entry at or below `timestamp` and of the first above it.
///
/// # Errors
/// What reading fails with.
pub fn around(handle: &dyn FileHandle, timestamp: i64) -> io::Result<(Option<i64>, Option<i64>)> {
    let count = entry_count::<ENTRY_LEN>(handle)?;
    let at =
        |index| -> io::Result<i64> { Ok(TimestampOffset::decode(0, &entry_at(handle, index)?).timestamp) };
    let (mut low, mut high) = (0, count);
    let (mut below, mut above) = (None, None);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = at(middle)?;
        if found <= timestamp {
            (low, below) = (middle + 1, Some(found));
        } else {
            (high, above) = (middle, Some(found));
        }
    }
    Ok((below, above))
}

/// Number of entries of an index that was closed cleanly, and the last one, `(-1, base)` if there is none. `None` if
/// what is there cannot be one: among several entries the last one is at the base itself, as the zeros of an untrimmed
/// file are, or has no timestamp.
///
/// # Errors
/// What reading fails with.
pub fn resume(handle: &dyn FileHandle, base_offset: i64) -> io::Result<Option<(u32, TimestampOffset)>> {
    let (count, last) = index_file::count_and_last::<TimestampOffset, ENTRY_LEN>(handle, base_offset)?;
    let Some(last) = last else {
        return Ok(Some((0, TimestampOffset::none(base_offset))));
    };
    let possible =
        last.timestamp >= 0 && last.offset >= base_offset && (count == 1 || last.offset > base_offset);
    Ok(possible.then_some((count, last)))
}

#[cfg(test)]
#[path = "time_index_tests.rs"]
mod tests;
