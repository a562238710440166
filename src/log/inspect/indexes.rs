//! Holding a segment's indexes against its batches.
//!
//! An index is only a hint to where a search starts; one that lies makes reads fail or retention misjudge. Each entry is
//! checked against the batch that it names, in one merged walk.
use std::path::Path;

use serde::Serialize;

use crate::log::batch_file::BatchInFile;
use crate::log::error::LogError;
use crate::log::files::{self, Files};

const OFFSET_ENTRY: usize = 8;
const TIME_ENTRY: usize = 12;
/// Longest index that is read, bytes; `segment.index.bytes` is 10 MiB unless set.
const LIMIT: u64 = 512 * 1024 * 1024;

/// The state of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum IndexState {
    /// Every entry agrees with the batches.
    Sound,
    /// There is no file; it is rebuilt when the partition is opened.
    Missing,
    /// Sound, followed by preallocated zeros: the segment is in use, or its process was killed.
    Untrimmed,
    /// Entries contradict the batches.
    Damaged,
}

/// One index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexReport {
    /// Its state.
    pub state: IndexState,
    /// Entries, preallocated zeros not counted.
    pub entries: usize,
    /// Length of the file in bytes.
    pub size_bytes: u64,
    /// The first contradiction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// An index being checked.
#[derive(Debug)]
pub struct IndexCheck<E> {
    entries: Vec<E>,
    next: usize,
    padded: bool,
    missing: bool,
    size_bytes: u64,
    problem: Option<String>,
}

/// Offset and position.
pub type OffsetEntry = (i64, u64);
/// Timestamp and offset.
pub type TimeEntry = (i64, i64);

/// Reads the offset index of the segment at `base_offset`.
pub fn offset_index(
    files: &dyn Files,
    path: &Path,
    base_offset: i64,
) -> Result<IndexCheck<OffsetEntry>, LogError> {
    load::<OFFSET_ENTRY, _>(files, path, |[o0, o1, o2, o3, p0, p1, p2, p3]| {
        let relative = i32::from_be_bytes([o0, o1, o2, o3]);
        let position = u32::from_be_bytes([p0, p1, p2, p3]);
        (
            base_offset.saturating_add(i64::from(relative)),
            u64::from(position),
        )
    })
}

/// Reads the time index of the segment at `base_offset`.
pub fn time_index(
    files: &dyn Files,
    path: &Path,
    base_offset: i64,
) -> Result<IndexCheck<TimeEntry>, LogError> {
    load::<TIME_ENTRY, _>(files, path, |[t0, t1, t2, t3, t4, t5, t6, t7, o0, o1, o2, o3]| {
        let timestamp = i64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
        let relative = i32::from_be_bytes([o0, o1, o2, o3]);
        (timestamp, base_offset.saturating_add(i64::from(relative)))
    })
}

fn load<const N: usize, E>(
    files: &dyn Files,
    path: &Path,
    decode: impl Fn([u8; N]) -> E,
) -> Result<IndexCheck<E>, LogError> {
    let mut problem = None;
    let content = match files::read_small(files, path, LIMIT) {
        Ok(content) => content,
        Err(LogError::Malformed { what, .. }) => {
            problem = Some(what);
            Some(Vec::new())
        }
        Err(error) => return Err(error),
    };
    let missing = content.is_none();
    let bytes = content.unwrap_or_default();
    let (entries, rest) = bytes.as_chunks::<N>();
    // A lone zero entry is a real one in a time index whose records are of 1970; more of them are preallocated space.
    let used = entries
        .iter()
        .rposition(|entry| *entry != [0; N])
        .map_or(0, |last| last + 1);
    let padding = entries.len() - used;
    let used = if padding == 1 && N == TIME_ENTRY {
        entries.len()
    } else {
        used
    };
    if !rest.is_empty() && problem.is_none() && used == entries.len() {
        problem = Some(format!("{} bytes of a partial entry at the end", rest.len()));
    }
    Ok(IndexCheck {
        entries: entries.iter().take(used).copied().map(decode).collect(),
        next: 0,
        padded: used < entries.len(),
        missing,
        size_bytes: bytes.len() as u64,
        problem,
    })
}

impl<E: Copy> IndexCheck<E> {
    fn peek(&self) -> Option<E> {
        self.entries
            .get(self.next)
            .copied()
            .filter(|_| self.problem.is_none())
    }

    /// What came of it; to be called after the last batch.
    pub fn finish(self) -> IndexReport {
        let unseen = self.entries.len() - self.next;
        let problem = self.problem.or_else(|| {
            (unseen > 0).then(|| format!("the last {unseen} entries name no batch of the segment"))
        });
        let state = match (&problem, self.missing, self.padded) {
            (_, true, _) => IndexState::Missing,
            (Some(_), ..) => IndexState::Damaged,
            (None, _, true) => IndexState::Untrimmed,
            (None, _, false) => IndexState::Sound,
        };
        IndexReport {
            state,
            entries: self.entries.len(),
            size_bytes: self.size_bytes,
            problem,
        }
    }
}

impl IndexCheck<OffsetEntry> {
    /// Takes in the next batch of the segment.
    pub fn batch(&mut self, batch: &BatchInFile) {
        while let Some((offset, position)) = self.peek().filter(|entry| entry.1 <= batch.position) {
            let last = batch.header.last_offset();
            if position < batch.position {
                self.problem = Some(format!(
                    "offset {offset} names position {position}, where no batch starts"
                ));
            } else if offset != last {
                self.problem = Some(format!(
                    "offset {offset} names position {position}, whose batch ends at {last}"
                ));
            }
            self.next += 1;
        }
    }
}

impl IndexCheck<TimeEntry> {
    /// Takes in the next batch of the segment; `largest` is the largest timestamp up to and with it.
    pub fn batch(&mut self, batch: &BatchInFile, largest: i64) {
        while let Some((timestamp, offset)) =
            self.peek().filter(|entry| entry.1 <= batch.header.last_offset())
        {
            if timestamp != largest {
                self.problem = Some(format!(
                    "timestamp {timestamp} at offset {offset}, where the largest so far is {largest}"
                ));
            }
            self.next += 1;
        }
    }
}
