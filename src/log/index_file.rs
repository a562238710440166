//! What the offset and the time index share: fixed-size sorted entries, gathered in memory and searched in the file.
//!
//! Indexes are not mapped into memory (a mapped file that is cut short by someone else kills the process) and not
//! loaded either: a closed segment's index is searched with a handful of small reads, so start-up cost and memory do
//! not grow with the number of segments.
//!
//! Rule: an index is a hint. Its file has no checksum, and a hard stop can leave zeros that look like entries, so
//! whatever is found in one is checked against the log before it is believed.
//!
//! Invariants of a [`GrowingIndex`]: `stored` entries are in the file and `pending` ones follow them in memory, at most [`PENDING_ENTRIES`]
//! before they are due to be written; together they never exceed the capacity. After [`GrowingIndex::store`] and [`GrowingIndex::trim`]
//! the file holds exactly the entries.
use std::fmt::Debug;
use std::io;
use std::path::Path;

use crate::log::error::{LogError, PathContext};
use crate::log::files::{self, FileHandle, Files, OpenMode};

/// Entries kept in memory before they are written: one page of an offset index.
pub const PENDING_ENTRIES: usize = 512;

/// One entry of an index, `N` bytes in the file. Both kinds hold offsets relative to the segment's base.
pub trait Entry<const N: usize>: Copy + Debug {
    /// What the entries are sorted by.
    fn key(&self) -> i64;

    /// Reads one entry of an index with this base offset.
    fn decode(base_offset: i64, bytes: &[u8; N]) -> Self;

    /// The entry's bytes; `None` if something in it does not fit into its 31 bits.
    fn encode(self, base_offset: i64) -> Option<[u8; N]>;
}

/// Where a search of the growing index of the active segment has to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Searched<E> {
    /// Found in memory.
    Here(E),
    /// The answer is among the first so many entries of the file.
    InFile(u32),
}

/// The index of the active segment, growing.
#[derive(Debug)]
pub struct GrowingIndex<E, const N: usize> {
    base_offset: i64,
    capacity: u32,
    stored: u32,
    pending: Vec<E>,
    last: Option<E>,
}

impl<E: Entry<N>, const N: usize> GrowingIndex<E, N> {
    /// An empty index of at most `max_bytes` (`segment.index.bytes`).
    pub fn new(base_offset: i64, max_bytes: i64) -> Self {
        let capacity = max_bytes.max(0) / N as i64;
        Self {
            base_offset,
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            stored: 0,
            pending: Vec::new(),
            last: None,
        }
    }

    /// An index whose `stored` entries are already in the file, the last of them being `last`.
    pub fn resumed(base_offset: i64, max_bytes: i64, stored: u32, last: Option<E>) -> Self {
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

    /// Entries that still fit.
    pub(crate) fn room(&self) -> u32 {
        self.capacity.saturating_sub(self.len())
    }

    pub(crate) fn base_offset(&self) -> i64 {
        self.base_offset
    }

    pub(crate) fn last_entry(&self) -> Option<E> {
        self.last
    }

    /// Adds an entry that comes after the last one. What cannot be said in an entry is left out: the index is sparse anyway.
    pub(crate) fn push(&mut self, entry: E) {
        if entry.encode(self.base_offset).is_some() {
            self.pending.push(entry);
            self.last = Some(entry);
        }
    }

    /// Whether enough has gathered for [`GrowingIndex::store`].
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
        let bytes = encode_all(self.base_offset, &self.pending);
        handle.write_all_at(&bytes, u64::from(self.stored) * N as u64)?;
        self.stored = self.len();
        self.pending.clear();
        Ok(())
    }

    /// Cuts the file to the stored entries if it is longer.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub fn trim(&self, handle: &dyn FileHandle) -> io::Result<()> {
        let len = u64::from(self.stored) * N as u64;
        if handle.info()?.len != len {
            handle.set_len(len)?;
        }
        Ok(())
    }

    /// The first entry in memory that `before` does not hold for, and how many entries of the file have to be searched first.
    pub fn first_beyond(&self, before: impl Fn(&E) -> bool) -> (Option<E>, u32) {
        let index = self.pending.partition_point(before);
        let stored = if index == 0 { self.stored } else { 0 };
        (self.pending.get(index).copied(), stored)
    }

    /// Looks for the last entry whose key is at most `key` in memory, or says where in the file to look.
    pub fn search(&self, key: i64) -> Searched<E> {
        let within = self.pending.partition_point(|entry| entry.key() <= key);
        match within.checked_sub(1).and_then(|last| self.pending.get(last)) {
            Some(entry) => Searched::Here(*entry),
            None => Searched::InFile(self.stored),
        }
    }
}

/// The first of the first `count` entries of the file (all of them if `None`) that `before` does not hold for; it must hold for a prefix
/// of them.
pub(crate) fn first_beyond<E: Entry<N>, const N: usize>(
    handle: &dyn FileHandle,
    base_offset: i64,
    count: Option<u32>,
    before: impl Fn(E) -> bool,
) -> io::Result<Option<E>> {
    let held = entry_count::<N>(handle)?;
    let (mut low, mut high) = (0_u32, count.unwrap_or(held).min(held));
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let entry = E::decode(base_offset, &entry_at::<N>(handle, middle)?);
        if before(entry) {
            low = middle + 1;
        } else {
            found = Some(entry);
            high = middle;
        }
    }
    Ok(found)
}

/// The bytes of a whole index.
pub fn encode_all<E: Entry<N>, const N: usize>(base_offset: i64, entries: &[E]) -> Vec<u8> {
    entries
        .iter()
        .filter_map(|entry| entry.encode(base_offset))
        .flatten()
        .collect()
}

/// The last entry whose key is at most `key` among the first `count` entries of the file (all of them if `None`).
pub(crate) fn last_up_to<E: Entry<N>, const N: usize>(
    handle: &dyn FileHandle,
    base_offset: i64,
    count: Option<u32>,
    key: i64,
) -> io::Result<Option<E>> {
    let held = entry_count::<N>(handle)?;
    let count = count.unwrap_or(held).min(held);
    let found = last_at_most(handle, count, |entry| E::decode(base_offset, entry).key() <= key)?;
    Ok(found.map(|entry| E::decode(base_offset, &entry)))
}

/// How many entries the file holds, and the last one.
pub(crate) fn count_and_last<E: Entry<N>, const N: usize>(
    handle: &dyn FileHandle,
    base_offset: i64,
) -> io::Result<(u32, Option<E>)> {
    let count = entry_count::<N>(handle)?;
    let last = count.checked_sub(1).map(|index| entry_at(handle, index));
    Ok((
        count,
        last.transpose()?.map(|entry| E::decode(base_offset, &entry)),
    ))
}

/// Below this many entries the rest of the search happens in one block read.
const BLOCK_ENTRIES: u32 = 256;

/// How many whole entries of `N` bytes the file holds.
pub(crate) fn entry_count<const N: usize>(handle: &dyn FileHandle) -> io::Result<u32> {
    let count = handle.info()?.len / N as u64;
    u32::try_from(count).map_err(|_| {
        let message = format!("an index of {count} entries cannot belong to one segment");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

/// Reads entry `index`.
pub(crate) fn entry_at<const N: usize>(handle: &dyn FileHandle, index: u32) -> io::Result<[u8; N]> {
    let mut entry = [0; N];
    handle.read_exact_at(&mut entry, u64::from(index) * N as u64)?;
    Ok(entry)
}

/// The last of the first `count` entries for which `at_most_target` holds, if any; the entries must be sorted so that
/// it holds for a prefix of them.
fn last_at_most<const N: usize>(
    handle: &dyn FileHandle,
    count: u32,
    at_most_target: impl Fn(&[u8; N]) -> bool,
) -> io::Result<Option<[u8; N]>> {
    // Invariant: the answer lies in [low - 1, high - 1).
    let (mut low, mut high) = (0_u32, count);
    let mut found = None;
    while high - low > BLOCK_ENTRIES {
        let middle = low + (high - low) / 2;
        let entry = entry_at::<N>(handle, middle)?;
        if at_most_target(&entry) {
            found = Some(entry);
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let mut block = vec![0; (high - low) as usize * N];
    handle.read_exact_at(&mut block, u64::from(low) * N as u64)?;
    let (entries, _) = block.as_chunks::<N>();
    let within = entries.partition_point(at_most_target);
    Ok(within
        .checked_sub(1)
        .and_then(|last| entries.get(last).copied())
        .or(found))
}

/// Replaces an index with `content`. `durable` is for the index of a segment that no later recovery will look at
/// again; one that is above the recovery point is rebuilt anyway if we crash here.
pub(crate) fn write(files: &dyn Files, path: &Path, content: &[u8], durable: bool) -> Result<(), LogError> {
    if durable {
        return files::replace(files, path, content);
    }
    let handle = files.open(path, OpenMode::Truncate).at("create", path)?;
    handle.write_all_at(content, 0).at("write", path)
}
