//! One segment, looked at without changing it.
use std::path::Path;

use serde::Serialize;

use crate::log::batch::BatchHeader;
use crate::log::batch_file::{BatchInFile, WalkError, batches_in, checked_batches_in};
use crate::log::error::{LogError, PathContext};
use crate::log::files::{FileHandle, Files, OpenMode};
use crate::log::inspect::Depth;
use crate::log::inspect::indexes::{self, IndexReport, IndexState};
use crate::log::names::{SegmentFile, segment_path};
use crate::log::time_index;
use crate::log::txn_index;
use crate::retention::{CLOCK_TOLERANCE_MS, WithoutFuture};

/// What lies in a segment. Offsets, bytes, and ms since the epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentReport {
    /// The number in its name; a lower bound of its offsets.
    pub base_offset: i64,
    /// The offset after its last record; the base offset if it holds none.
    pub next_offset: i64,
    /// The one that is appended to.
    pub active: bool,
    /// Length of the `.log` file.
    pub size_bytes: u64,
    /// Batches in it.
    pub batch_count: u64,
    /// Records in it, transaction markers included; messages of old formats count one each, compressed or not.
    pub record_count: i64,
    /// Largest timestamp of its first batch, from which `segment.ms` counts; -1 if it has none.
    pub first_timestamp: i64,
    /// Largest timestamp of any of its batches, from which `retention.ms` counts; -1 if there is none.
    pub largest_timestamp: i64,
    /// Modification time of the `.log` file, which stands in where there is no timestamp.
    pub modified_ms: i64,
    /// What its age counts from where timestamps of the future are ignored, if it holds any.
    #[serde(skip)]
    pub without_future: Option<WithoutFuture>,
    /// The `.index`.
    pub offset_index: IndexReport,
    /// The `.timeindex`.
    pub time_index: IndexReport,
    /// Aborted transactions in the `.txnindex`.
    pub aborted_transactions: usize,
    /// Whether a producer snapshot stands at its base.
    pub has_snapshot: bool,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Every batch, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batches: Option<Vec<BatchReport>>,
}

/// One batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchReport {
    /// Byte position in the `.log` file.
    pub position: u64,
    /// Its size in bytes.
    pub size_bytes: u32,
    /// Offset of its first record.
    pub base_offset: i64,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Records in it; -1 where the format does not say.
    pub record_count: i32,
    /// Leader epoch, -1 if unknown.
    pub leader_epoch: i32,
    /// Format: 0, 1 or 2.
    pub magic: i8,
    /// Codec, as in `compression.type`.
    pub compression: String,
    /// `CreateTime` or `LogAppendTime`.
    pub timestamp_type: &'static str,
    /// Timestamp of its first record.
    pub base_timestamp: i64,
    /// Its largest timestamp.
    pub max_timestamp: i64,
    /// Producer, -1 if none.
    pub producer_id: i64,
    /// Producer's epoch, -1 if none.
    pub producer_epoch: i16,
    /// Sequence of its first record, -1 if none.
    pub base_sequence: i32,
    /// Part of a transaction.
    pub transactional: bool,
    /// Holds transaction markers.
    pub control: bool,
    /// Stored checksum, hexadecimal.
    pub crc: String,
}

impl From<&BatchInFile> for BatchReport {
    fn from(batch: &BatchInFile) -> Self {
        let header = &batch.header;
        Self {
            position: batch.position,
            size_bytes: header.size,
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            record_count: header.record_count,
            leader_epoch: header.leader_epoch,
            magic: header.magic,
            compression: match header.codec() {
                Ok(codec) => codec.name().to_owned(),
                Err(id) => format!("unknown ({id})"),
            },
            timestamp_type: if header.is_log_append_time() {
                "LogAppendTime"
            } else {
                "CreateTime"
            },
            base_timestamp: header.base_timestamp,
            max_timestamp: header.max_timestamp,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            transactional: header.is_transactional(),
            control: header.is_control(),
            crc: format!("{:08x}", header.crc),
        }
    }
}

/// Looks at the segment at `base_offset`.
///
/// # Errors
/// Only if a file cannot be read; what is wrong with its content is in the report.
pub fn inspect(
    files: &dyn Files,
    directory: &Path,
    base_offset: i64,
    active: bool,
    depth: Depth,
) -> Result<SegmentReport, LogError> {
    let path = |file| segment_path(directory, base_offset, file);
    let log = path(SegmentFile::Log);
    let file = files.open(&log, OpenMode::Read).at("open", &log)?;
    let info = file.info().at("look at", &log)?;

    let mut offset_index = indexes::offset_index(files, &path(SegmentFile::OffsetIndex), base_offset)?;
    let mut time_index_check = indexes::time_index(files, &path(SegmentFile::TimeIndex), base_offset)?;
    let mut walk = Walk::new(base_offset, depth);
    walk.run(&*file, info.len, |batch, largest| {
        offset_index.batch(batch);
        time_index_check.batch(batch, largest);
    })
    .at("read", &log)?;

    let mut problems = walk.problems;
    let aborted = match txn_index::load(files, &path(SegmentFile::TxnIndex), base_offset) {
        Ok(aborted) => aborted.len(),
        Err(LogError::Malformed { what, .. }) => {
            problems.push(format!("transaction index: {what}"));
            0
        }
        Err(error) => return Err(error),
    };
    let (offset_index, time_report) = (offset_index.finish(), time_index_check.finish());
    for (name, index) in [("offset index", &offset_index), ("time index", &time_report)] {
        if index.state == IndexState::Damaged {
            problems.push(format!(
                "{name}: {}",
                index.problem.as_deref().unwrap_or("damaged")
            ));
        }
    }
    let tolerated_ms = depth.now_ms.saturating_add(CLOCK_TOLERANCE_MS);
    let without_future = if walk.largest_timestamp > tolerated_ms {
        let path = path(SegmentFile::TimeIndex);
        let (below, above) = match files.open(&path, OpenMode::Read) {
            Ok(times) => time_index::around(&*times, tolerated_ms).at("read", &path)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (None, None),
            Err(error) => return Err(error).at("open", &path),
        };
        let (past, future) = (below.unwrap_or(-1), above.unwrap_or(walk.largest_timestamp));
        Some(WithoutFuture::from_index(past, future, info.modified_ms))
    } else {
        None
    };
    Ok(SegmentReport {
        base_offset,
        next_offset: walk.next_offset,
        active,
        size_bytes: info.len,
        batch_count: walk.batch_count,
        record_count: walk.record_count,
        first_timestamp: walk.first_timestamp.unwrap_or(-1),
        largest_timestamp: walk.largest_timestamp,
        modified_ms: info.modified_ms,
        without_future,
        offset_index,
        time_index: time_report,
        aborted_transactions: aborted,
        has_snapshot: files.metadata(&path(SegmentFile::Snapshot)).is_ok(),
        problems,
        batches: walk.batches,
    })
}

/// How many problems of one segment are named.
const MAX_PROBLEMS: usize = 20;

struct Walk {
    depth: Depth,
    next_offset: i64,
    batch_count: u64,
    record_count: i64,
    first_timestamp: Option<i64>,
    largest_timestamp: i64,
    problems: Vec<String>,
    batches: Option<Vec<BatchReport>>,
}

impl Walk {
    fn new(base_offset: i64, depth: Depth) -> Self {
        Self {
            depth,
            next_offset: base_offset,
            batch_count: 0,
            record_count: 0,
            first_timestamp: None,
            largest_timestamp: -1,
            problems: Vec::new(),
            batches: depth.batches.then(Vec::new),
        }
    }

    fn run(
        &mut self,
        file: &dyn FileHandle,
        end: u64,
        mut each: impl FnMut(&BatchInFile, i64),
    ) -> std::io::Result<()> {
        let mut position = 0;
        while position < end {
            let mut walk = if self.depth.verify {
                checked_batches_in(file, position, end)
            } else {
                batches_in(file, position, end)
            };
            let mut stopped = None;
            for batch in walk.by_ref() {
                match batch {
                    Ok(batch) => {
                        self.batch(&batch);
                        each(&batch, self.largest_timestamp);
                    }
                    Err(WalkError::Io(error)) => return Err(error),
                    Err(error @ WalkError::Damaged { .. }) => stopped = Some(error),
                }
            }
            position = walk.position();
            match stopped {
                None if position < end => {
                    let left = end - position;
                    self.note(format!("{left} bytes of a torn batch at position {position}"));
                    break;
                }
                None => break,
                Some(error) => {
                    self.note(error.to_string());
                    // A batch whose header can be read but whose checksum fails is stepped over: what follows may be intact.
                    let Some(after) = self.step_over(file, position)? else {
                        break;
                    };
                    position = after;
                }
            }
        }
        Ok(())
    }

    fn step_over(&mut self, file: &dyn FileHandle, position: u64) -> std::io::Result<Option<u64>> {
        let mut bytes = [0; crate::log::batch::HEADER_LEN];
        let read = file.read_full_at(&mut bytes, position)?;
        let header = BatchHeader::parse(bytes.get(..read).unwrap_or(&[]));
        Ok(header
            .ok()
            .map(|header| position.saturating_add(u64::from(header.size))))
    }

    fn batch(&mut self, batch: &BatchInFile) {
        let header = &batch.header;
        if header.base_offset < self.next_offset && header.magic >= 2 {
            let (offset, expected, position) = (header.base_offset, self.next_offset, batch.position);
            self.note(format!(
                "batch at position {position} starts at offset {offset}, expected {expected} or more"
            ));
        }
        self.next_offset = self.next_offset.max(header.next_offset());
        self.batch_count += 1;
        self.record_count += i64::from(if header.magic >= 2 { header.record_count } else { 1 });
        self.first_timestamp.get_or_insert(header.max_timestamp);
        self.largest_timestamp = self.largest_timestamp.max(header.max_timestamp);
        if let Some(batches) = &mut self.batches {
            batches.push(batch.into());
        }
    }

    fn note(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }
}
