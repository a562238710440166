//! Producers' state on disk (`<offset>.snapshot`).
//!
//! Kafka's `ProducerStateManager` and its `ProducerSnapshot` schema, version 1: a snapshot holds every producer as of just before the
//! offset in its name, with its last batch only. A damaged one is never fatal: the next older is taken and more of the log replayed.
use std::path::Path;
use std::sync::Arc;

use crate::log::error::{LogError, PathContext};
use crate::log::files::{self, FileHandle, Files, OpenMode};
use crate::log::names::{FileState, SegmentFile, SegmentFileName, segment_path};
use crate::log::producer_state::{ProducedBatch, ProducerEntry, ProducerStates};

const VERSION: i16 = 1;
const HEADER_LEN: usize = 10;
/// First byte that the checksum covers.
const CRC_FROM: usize = 6;
const ENTRY_LEN: usize = 46;
/// Longest snapshot that is read, bytes: nearly six million producers.
const LIMIT: u64 = 256 * 1024 * 1024;

/// The bytes of a snapshot; producers are sorted by id, so equal states give equal bytes.
pub fn encode(states: &ProducerStates) -> Vec<u8> {
    let mut producers: Vec<_> = states.producers().iter().collect();
    producers.sort_by_key(|(producer_id, _)| **producer_id);
    let mut bytes = Vec::with_capacity(HEADER_LEN + producers.len() * ENTRY_LEN);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    let count = i32::try_from(producers.len()).unwrap_or(i32::MAX);
    bytes.extend_from_slice(&count.to_be_bytes());
    for (producer_id, entry) in producers {
        let last = entry.batches().last();
        bytes.extend_from_slice(&producer_id.to_be_bytes());
        bytes.extend_from_slice(&entry.epoch.to_be_bytes());
        bytes.extend_from_slice(&entry.last_sequence().to_be_bytes());
        bytes.extend_from_slice(&last.map_or(-1, |batch| batch.last_offset).to_be_bytes());
        bytes.extend_from_slice(&last.map_or(0, |batch| batch.offset_delta).to_be_bytes());
        bytes.extend_from_slice(&entry.last_timestamp.to_be_bytes());
        bytes.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
        bytes.extend_from_slice(&entry.open_txn_from.unwrap_or(-1).to_be_bytes());
    }
    let crc = crc32c::crc32c(bytes.get(CRC_FROM..).unwrap_or(&[]));
    if let Some(field) = bytes.get_mut(2..CRC_FROM) {
        field.copy_from_slice(&crc.to_be_bytes());
    }
    bytes
}

/// Reads the bytes of a snapshot: every producer in it, in order.
pub fn decode(bytes: &[u8]) -> Result<Vec<(i64, ProducerEntry)>, String> {
    let Some((header, entries)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(format!("{} bytes are no snapshot", bytes.len()));
    };
    let [v0, v1, c0, c1, c2, c3, n0, n1, n2, n3] = *header;
    let version = i16::from_be_bytes([v0, v1]);
    if version != VERSION {
        return Err(format!("version {version} is unknown, only {VERSION} is"));
    }
    let stored = u32::from_be_bytes([c0, c1, c2, c3]);
    let computed = crc32c::crc32c(bytes.get(CRC_FROM..).unwrap_or(&[]));
    if stored != computed {
        return Err(format!(
            "checksum {stored:#010x} is stored, {computed:#010x} computed"
        ));
    }
    let count = i32::from_be_bytes([n0, n1, n2, n3]);
    let (entries, rest) = entries.as_chunks::<ENTRY_LEN>();
    if usize::try_from(count) != Ok(entries.len()) || !rest.is_empty() {
        return Err(format!("{count} producers do not fit {} bytes", bytes.len()));
    }
    Ok(entries.iter().map(decode_entry).collect())
}

fn decode_entry(bytes: &[u8; ENTRY_LEN]) -> (i64, ProducerEntry) {
    fn field<const N: usize>(bytes: &[u8; ENTRY_LEN], at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&bytes[at..at + N]);
        field
    }
    let last_timestamp = i64::from_be_bytes(field(bytes, 26));
    let last = ProducedBatch {
        last_sequence: i32::from_be_bytes(field(bytes, 10)),
        last_offset: i64::from_be_bytes(field(bytes, 14)),
        offset_delta: i32::from_be_bytes(field(bytes, 22)),
        timestamp: last_timestamp,
    };
    let open_txn_from = i64::from_be_bytes(field(bytes, 38));
    let entry = ProducerEntry::restored(
        i16::from_be_bytes(field(bytes, 8)),
        i32::from_be_bytes(field(bytes, 34)),
        last_timestamp,
        (open_txn_from >= 0).then_some(open_txn_from),
        (last.last_offset >= 0).then_some(last),
    );
    (i64::from_be_bytes(field(bytes, 0)), entry)
}

/// Writes the snapshot as of just before `offset` and gives the handle, for an fsync off the append path.
pub fn write(
    files: &dyn Files,
    directory: &Path,
    offset: i64,
    states: &ProducerStates,
) -> Result<Arc<dyn FileHandle>, LogError> {
    let path = segment_path(directory, offset, SegmentFile::Snapshot);
    let file = files.open(&path, OpenMode::Truncate).at("create", &path)?;
    file.write_all_at(&encode(states), 0).at("write", &path)?;
    Ok(file)
}

/// The offsets of all live snapshots in the directory, ascending.
pub fn list(files: &dyn Files, directory: &Path) -> Result<Vec<i64>, LogError> {
    let entries = files.list(directory).at("list", directory)?;
    let snapshot =
        |name: SegmentFileName| name.file == SegmentFile::Snapshot && name.state == FileState::Live;
    let names = entries
        .iter()
        .filter_map(|entry| SegmentFileName::parse(&entry.name));
    Ok(names
        .filter(|name| snapshot(*name))
        .map(|name| name.offset)
        .collect())
}

/// Which of the snapshots at `offsets` (ascending) belong to no segment and go at start: those at no segment's base,
/// except the largest of them if it lies above every base.
pub fn strays(offsets: &[i64], segment_bases: &[i64]) -> Vec<i64> {
    let mut strays: Vec<i64> = offsets
        .iter()
        .copied()
        .filter(|offset| !segment_bases.contains(offset))
        .collect();
    let last_base = segment_bases.iter().max();
    let keep = strays
        .last()
        .is_some_and(|largest| last_base.is_none_or(|base| largest > base));
    if keep {
        strays.pop();
    }
    strays
}

/// Reads one snapshot; `None` if it is not there.
///
/// # Errors
/// [`LogError::Malformed`] if it is damaged.
pub fn load(files: &dyn Files, path: &Path) -> Result<Option<ProducerStates>, LogError> {
    let Some(bytes) = files::read_small(files, path, LIMIT)? else {
        return Ok(None);
    };
    let producers = decode(&bytes).map_err(|what| LogError::malformed(path, what))?;
    let mut states = ProducerStates::default();
    for (producer_id, entry) in producers {
        states.restore(producer_id, entry);
    }
    Ok(Some(states))
}

/// Reads the newest valid snapshot in `above < offset <= up_to` and gives its offset and the producers not expired at `now_ms`.
/// Damaged ones on the way are removed. `None` if there is none.
pub fn load_newest(
    files: &dyn Files,
    directory: &Path,
    above: i64,
    up_to: i64,
    now_ms: i64,
    expiration_ms: i64,
) -> Result<Option<(i64, ProducerStates)>, LogError> {
    let mut offsets = list(files, directory)?;
    offsets.retain(|offset| *offset > above && *offset <= up_to);
    while let Some(offset) = offsets.pop() {
        let path = segment_path(directory, offset, SegmentFile::Snapshot);
        let bytes = match files::read_small(files, &path, LIMIT) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => continue,
            Err(LogError::Malformed { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        match decode(&bytes) {
            Ok(producers) => {
                let mut states = ProducerStates::default();
                for (producer_id, entry) in producers {
                    states.restore(producer_id, entry);
                }
                states.expire(now_ms, expiration_ms);
                return Ok(Some((offset, states)));
            }
            Err(what) => {
                tracing::warn!(path = %path.display(), %what, "a damaged producer snapshot is removed");
                // On a file system that takes no changes it stays, and is passed over again next time.
                if let Err(error) = files::unlink_if_present(files, &path) {
                    tracing::warn!(%error, "it could not be removed");
                }
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
