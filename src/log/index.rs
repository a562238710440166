//! The offset index: which position in the `.log` an offset is near.
//!
//! Format (Kafka `OffsetIndex`): entries of 8 bytes, big-endian: int32 last offset of a batch minus the segment's base,
//! int32 position of that same batch; offsets strictly increase. Sparse: one entry per `index.interval.bytes`.
//!
//! Invariants: `stored` entries are in the file and `pending` ones follow them in memory, at most
//! [`PENDING_ENTRIES`] before they are due to be written; together they never exceed the capacity. After
//! [`OffsetIndex::store`] and [`OffsetIndex::trim`] the file holds exactly the entries.
use std::io;
use std::sync::Arc;

use crate::log::files::FileHandle;
use crate::log::index_file::{entry_at, entry_count, last_at_most};

/// Bytes of one entry.
pub const ENTRY_LEN: usize = 8;

/// Entries kept in memory before they are written: one page of the file.
pub const PENDING_ENTRIES: usize = 512;

/// An offset and where its batch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetPosition {
    /// Last offset of the batch.
    pub offset: i64,
    /// Byte position of the batch in the `.log`.
    pub position: i64,
}

impl OffsetPosition {
    /// Reads one entry of an index with this base offset.
    pub fn decode(base_offset: i64, entry: &[u8; ENTRY_LEN]) -> Self {
        let [a, b, c, d, e, f, g, h] = *entry;
        Self {
            offset: base_offset.saturating_add(i64::from(i32::from_be_bytes([a, b, c, d]))),
            position: i64::from(i32::from_be_bytes([e, f, g, h])),
        }
    }

    /// The entry's bytes; `None` if the offset is not within 31 bits of the base or the position not within 31 bits.
    pub fn encode(self, base_offset: i64) -> Option<[u8; ENTRY_LEN]> {
        let relative = u32::try_from(self.offset.checked_sub(base_offset)?).ok()?;
        let position = u32::try_from(self.position).ok()?;
        if relative > i32::MAX.unsigned_abs() || position > i32::MAX.unsigned_abs() {
            return None;
        }
        let bytes = (u64::from(relative) << 32) | u64::from(position);
        Some(bytes.to_be_bytes())
    }
}

/// Where a search of the growing index of the active segment has to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Searched {
    /// Found in memory.
    Here(OffsetPosition),
    /// The answer is among the first so many entries of the file.
    InFile(u32),
}

/// The index of the active segment, growing.
#[derive(Debug)]
pub struct OffsetIndex {
    base_offset: i64,
    capacity: u32,
    stored: u32,
    pending: Vec<OffsetPosition>,
    last: Option<OffsetPosition>,
}

impl OffsetIndex {
    /// An empty index of at most `max_bytes` (`segment.index.bytes`).
    pub fn new(base_offset: i64, max_bytes: i64) -> Self {
        let capacity = max_bytes.max(0) / ENTRY_LEN as i64;
        Self {
            base_offset,
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            stored: 0,
            pending: Vec::new(),
            last: None,
        }
    }

    /// An index whose `stored` entries are already in the file, the last of them being `last`.
    pub fn resumed(base_offset: i64, max_bytes: i64, stored: u32, last: Option<OffsetPosition>) -> Self {
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

    /// Whether no entry fits any more.
    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// The last entry.
    pub fn last(&self) -> Option<OffsetPosition> {
        self.last
    }

    /// Adds an entry; one that does not fit, or does not come after the last, is left out: the index is sparse anyway.
    pub fn append(&mut self, entry: OffsetPosition) {
        let follows = self.last.is_none_or(|last| entry.offset > last.offset);
        if follows && !self.is_full() && entry.encode(self.base_offset).is_some() {
            self.pending.push(entry);
            self.last = Some(entry);
        }
    }

    /// Whether enough has gathered for [`OffsetIndex::store`].
    pub fn wants_storing(&self) -> bool {
        self.pending.len() >= PENDING_ENTRIES
    }

    /// Writes the pending entries. After an error they are still pending.
    ///
    /// # Errors
    /// What the write fails with.
    pub fn store(&mut self, handle: &dyn FileHandle) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(self.pending.len() * ENTRY_LEN);
        let encoded = self
            .pending
            .iter()
            .filter_map(|entry| entry.encode(self.base_offset));
        bytes.extend(encoded.flatten());
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

    /// Looks for the last entry at or before `offset` in memory, or says where in the file to look.
    pub fn search(&self, offset: i64) -> Searched {
        let within = self.pending.partition_point(|entry| entry.offset <= offset);
        match within.checked_sub(1).and_then(|last| self.pending.get(last)) {
            Some(entry) => Searched::Here(*entry),
            None => Searched::InFile(self.stored),
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
    let handle: &dyn FileHandle = handle.as_ref();
    let held = entry_count::<ENTRY_LEN>(handle)?;
    let count = count.unwrap_or(held).min(held);
    let found = last_at_most(handle, count, |entry| {
        OffsetPosition::decode(base_offset, entry).offset <= offset
    })?;
    match found.map(|entry| OffsetPosition::decode(base_offset, &entry)) {
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
    let count = entry_count::<ENTRY_LEN>(handle)?;
    let Some(index) = count.checked_sub(1) else {
        return Ok(Some((0, None)));
    };
    let last = OffsetPosition::decode(base_offset, &entry_at(handle, index)?);
    // The first batch of a segment is never indexed, so a real entry is never at position 0 and is the first only if
    // it is alone.
    let possible = last.position > 0 && last.offset > base_offset;
    Ok(possible.then_some((count, Some(last))))
}

/// The bytes of a whole index.
pub fn encode_all(base_offset: i64, entries: &[OffsetPosition]) -> Vec<u8> {
    entries
        .iter()
        .filter_map(|entry| entry.encode(base_offset))
        .flatten()
        .collect()
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
