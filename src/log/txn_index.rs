//! Aborted transactions of a segment (`.txnindex`).
//!
//! Kafka's `TransactionIndex`: 34-byte entries in the segment that holds the abort marker, the markers' offsets strictly
//! growing. The file is made when the first transaction aborts; no file means none did.
use std::path::Path;

use crate::log::error::{LogError, PathContext};
use crate::log::files::{self, FileHandle, Files};

/// Bytes of one entry.
pub const ENTRY_LEN: usize = 34;
/// Longest file that is read, bytes: nearly eight million aborts in one segment.
const LIMIT: u64 = 256 * 1024 * 1024;

/// A transaction that was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTxn {
    /// Its producer.
    pub producer_id: i64,
    /// Offset of its first record.
    pub first_offset: i64,
    /// Offset of the abort marker.
    pub last_offset: i64,
    /// The last stable offset when the marker was written.
    pub last_stable_offset: i64,
}

impl AbortedTxn {
    /// The entry's bytes.
    pub fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        let fields = [
            self.producer_id,
            self.first_offset,
            self.last_offset,
            self.last_stable_offset,
        ];
        for (target, field) in bytes[2..].chunks_exact_mut(8).zip(fields) {
            target.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    /// Reads an entry.
    pub fn decode(bytes: &[u8; ENTRY_LEN]) -> Result<Self, String> {
        let version = i16::from_be_bytes([bytes[0], bytes[1]]);
        if version != 0 {
            return Err(format!("version {version} of an entry is unknown, only 0 is"));
        }
        let mut fields = [0; 4];
        for (field, bytes) in fields.iter_mut().zip(bytes[2..].as_chunks::<8>().0) {
            *field = i64::from_be_bytes(*bytes);
        }
        let [producer_id, first_offset, last_offset, last_stable_offset] = fields;
        Ok(Self {
            producer_id,
            first_offset,
            last_offset,
            last_stable_offset,
        })
    }
}

/// Reads all entries of a `.txnindex`, in order.
///
/// # Errors
/// A partial entry, an unknown version, a marker below `base_offset` or not after the one before: the segment must then be
/// recovered.
pub fn parse(bytes: &[u8], base_offset: i64) -> Result<Vec<AbortedTxn>, String> {
    let (entries, rest) = bytes.as_chunks::<ENTRY_LEN>();
    if !rest.is_empty() {
        return Err(format!("{} bytes of a partial entry at the end", rest.len()));
    }
    let mut aborted: Vec<AbortedTxn> = Vec::with_capacity(entries.len());
    for entry in entries {
        let entry = AbortedTxn::decode(entry)?;
        let lowest = aborted
            .last()
            .map_or(base_offset, |last| last.last_offset.saturating_add(1));
        if entry.last_offset < lowest {
            return Err(format!("marker offset {} is below {lowest}", entry.last_offset));
        }
        aborted.push(entry);
    }
    Ok(aborted)
}

/// Reads a `.txnindex`; a missing file holds nothing.
pub fn load(files: &dyn Files, path: &Path, base_offset: i64) -> Result<Vec<AbortedTxn>, LogError> {
    match files::read_small(files, path, LIMIT)? {
        Some(bytes) => parse(&bytes, base_offset).map_err(|what| LogError::malformed(path, what)),
        None => Ok(Vec::new()),
    }
}

/// Appends an entry to an open `.txnindex` that holds `count` entries.
pub fn append(
    file: &dyn FileHandle,
    path: &Path,
    count: usize,
    aborted: &AbortedTxn,
) -> Result<(), LogError> {
    let position = (count as u64).saturating_mul(ENTRY_LEN as u64);
    file.write_all_at(&aborted.encode(), position)
        .at("append to", path)
}

/// The transactions among one segment's `entries` that a read of `fetch_offset..upper_bound` must know as aborted, and whether the
/// search is complete (true) or must go on in the next segment's index.
pub fn overlapping(
    entries: &[AbortedTxn],
    fetch_offset: i64,
    upper_bound: i64,
    found: &mut Vec<AbortedTxn>,
) -> bool {
    for entry in entries {
        if entry.last_offset >= fetch_offset && entry.first_offset < upper_bound {
            found.push(*entry);
        }
        if entry.last_stable_offset >= upper_bound {
            return true;
        }
    }
    false
}

#[cfg(test)]
#[path = "txn_index_tests.rs"]
mod tests;
