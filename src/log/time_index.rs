//! The time index: up to which offset nothing is newer than a timestamp.
//!
//! Format (Kafka `TimeIndex`): entries of 12 bytes, big-endian: int64 timestamp, int32 offset minus the segment's base.
//! An entry says: up to and including that offset, the largest timestamp is this one. Timestamps strictly increase.
//! The last entry of a closed segment holds its largest timestamp, which is what time retention goes by.
//!
//! Invariants: as for the offset index, entries are partly in the file and partly pending. One slot of the capacity is
//! kept for the closing entry, so a full index can still be closed.
use std::io;
use std::sync::Arc;

use crate::log::files::FileHandle;
use crate::log::index_file::{entry_at, entry_count, last_at_most};

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

    /// Reads one entry of an index with this base offset.
    pub fn decode(base_offset: i64, entry: &[u8; ENTRY_LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *entry;
        Self {
            timestamp: i64::from_be_bytes([a, b, c, d, e, f, g, h]),
            offset: base_offset.saturating_add(i64::from(i32::from_be_bytes([i, j, k, l]))),
        }
    }

    /// The entry's bytes; `None` if the offset is not within 31 bits of the base.
    pub fn encode(self, base_offset: i64) -> Option<[u8; ENTRY_LEN]> {
        let relative = i32::try_from(self.offset.checked_sub(base_offset)?).ok()?;
        if relative < 0 {
            return None;
        }
        let [a, b, c, d, e, f, g, h] = self.timestamp.to_be_bytes();
        let [i, j, k, l] = relative.to_be_bytes();
        Some([a, b, c, d, e, f, g, h, i, j, k, l])
    }
}

/// Where a search of the growing index of the active segment has to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Searched {
    /// Found in memory.
    Here(TimestampOffset),
    /// The answer is among the first so many entries of the file.
    InFile(u32),
}

/// The index of the active segment, growing.
#[derive(Debug)]
pub struct TimeIndex {
    base_offset: i64,
    capacity: u32,
    stored: u32,
    pending: Vec<TimestampOffset>,
    last: TimestampOffset,
}

impl TimeIndex {
    /// An empty index of at most `max_bytes` (`segment.index.bytes`).
    pub fn new(base_offset: i64, max_bytes: i64) -> Self {
        let capacity = max_bytes.max(0) / ENTRY_LEN as i64;
        Self {
            base_offset,
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            stored: 0,
            pending: Vec::new(),
            last: TimestampOffset::none(base_offset),
        }
    }

    /// An index whose `stored` entries are already in the file, the last of them being `last`.
    pub fn resumed(base_offset: i64, max_bytes: i64, stored: u32, last: TimestampOffset) -> Self {
        Self {
            stored,
            last,
            ..Self::new(base_offset, max_bytes)
        }
    }

    /// Entries so far.
    pub fn len(&self) -> u32 {
        self.stored
            .saturating_add(u32::try_from(self.pending.len()).unwrap_or(u32::MAX))
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether only the slot of the closing entry is left.
    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity.saturating_sub(1)
    }

    /// The last entry; `(-1, base)` if there is none.
    pub fn last(&self) -> TimestampOffset {
        self.last
    }

    /// Offers an entry; it is taken only if its timestamp is above the last one's and there is room. `closing` may use
    /// the last slot.
    pub fn offer(&mut self, entry: TimestampOffset, closing: bool) {
        let fits = closing || !self.is_full();
        let rises = entry.timestamp > self.last.timestamp && entry.offset >= self.last.offset;
        if fits && rises && entry.encode(self.base_offset).is_some() {
            self.pending.push(entry);
            self.last = entry;
        }
    }

    /// Writes the pending entries. After an error they are still pending.
    ///
    /// # Errors
    /// What the write fails with.
    pub fn store(&mut self, handle: &dyn FileHandle) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let bytes = encode_all(self.base_offset, &self.pending);
        handle.write_all_at(&bytes, u64::from(self.stored) * ENTRY_LEN as u64)?;
        self.stored = self.len();
        self.pending.clear();
        Ok(())
    }

    /// Cuts the file to the stored entries if it is longer.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn trim(&self, handle: &dyn FileHandle) -> io::Result<()> {
        let len = u64::from(self.stored) * ENTRY_LEN as u64;
        if handle.info()?.len != len {
            handle.set_len(len)?;
        }
        Ok(())
    }

    /// Looks for the last entry at or below `timestamp` in memory, or says where in the file to look.
    pub fn search(&self, timestamp: i64) -> Searched {
        let within = self.pending.partition_point(|entry| entry.timestamp <= timestamp);
        match within.checked_sub(1).and_then(|last| self.pending.get(last)) {
            Some(entry) => Searched::Here(*entry),
            None => Searched::InFile(self.stored),
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
    let handle: &dyn FileHandle = handle.as_ref();
    let held = entry_count::<ENTRY_LEN>(handle)?;
    let count = count.unwrap_or(held).min(held);
    let found = last_at_most(handle, count, |entry| {
        TimestampOffset::decode(base_offset, entry).timestamp <= timestamp
    })?;
    Ok(found.map_or(TimestampOffset::none(base_offset), |entry| {
        TimestampOffset::decode(base_offset, &entry)
    }))
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
    let count = entry_count::<ENTRY_LEN>(handle)?;
    let Some(index) = count.checked_sub(1) else {
        return Ok(Some((0, TimestampOffset::none(base_offset))));
    };
    let last = TimestampOffset::decode(base_offset, &entry_at(handle, index)?);
    let possible =
        last.timestamp >= 0 && last.offset >= base_offset && (count == 1 || last.offset > base_offset);
    Ok(possible.then_some((count, last)))
}

/// The bytes of a whole index.
pub fn encode_all(base_offset: i64, entries: &[TimestampOffset]) -> Vec<u8> {
    entries
        .iter()
        .filter_map(|entry| entry.encode(base_offset))
        .flatten()
        .collect()
}

#[cfg(test)]
#[path = "time_index_tests.rs"]
mod tests;
