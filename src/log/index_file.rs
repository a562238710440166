//! What the offset and the time index share: fixed-size sorted entries, searched in the file.
//!
//! Indexes are not mapped into memory (a mapped file that is cut short by someone else kills the process) and not
//! loaded either: a closed segment's index is searched with a handful of small reads, so start-up cost and memory do
//! not grow with the number of segments.
//!
//! Rule: an index is a hint. Its file has no checksum, and a hard stop can leave zeros that look like entries, so
//! whatever is found in one is checked against the log before it is believed.
use std::io;
use std::path::Path;

use crate::log::error::{LogError, PathContext};
use crate::log::files::{self, FileHandle, Files, OpenMode};

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
pub(crate) fn last_at_most<const N: usize>(
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
