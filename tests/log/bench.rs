//! A partition on a temporary directory, with a clock that stands still and batches of a known size.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tempfile::TempDir;
use tidemark::log::append::{Appended, Origin};
use tidemark::log::batch::{self, BatchHeader};
use tidemark::log::compression::Codec;
use tidemark::log::error::{AppendError, LogError};
use tidemark::log::files::{DiskFiles, Files};
use tidemark::log::handles::HandleCache;
use tidemark::log::partition::{Durability, LogStarts, OpenLog, PartitionLog};
use tidemark::log::read::{Isolation, ReadError};
use tidemark::log::records::RecordWriter;
use tidemark::log::retain::RetentionOutcome;
use tidemark::resource::settings::{Overrides, TopicSettings};
use tidemark::telemetry::clock::{Clock, ManualClock};

/// "Now" in most scenarios, ms.
pub const NOW: i64 = 1_700_000_000_000;

/// Milliseconds.
pub const HOUR: i64 = 3_600_000;
pub const DAY: i64 = 24 * HOUR;

/// Bytes of one batch unless said otherwise.
pub const BATCH: i64 = 100;

/// Where log starts are kept; a test can look and can take them away.
#[derive(Debug, Default)]
pub struct Starts(pub Mutex<BTreeMap<(String, i32), i64>>);

impl LogStarts for Starts {
    fn persist(&self, topic: &str, partition: i32, log_start: i64) -> Result<(), LogError> {
        self.0.lock().insert((topic.to_owned(), partition), log_start);
        Ok(())
    }
}

/// A partition under test.
pub struct Bench {
    pub directory: TempDir,
    pub clock: Arc<ManualClock>,
    pub starts: Arc<Starts>,
    pub handles: Arc<HandleCache>,
    pub files: Arc<dyn Files>,
    pub settings: Overrides,
    pub durability: Durability,
    log: Option<PartitionLog>,
}

impl Bench {
    /// A fresh log with five batches of 100 bytes to a segment, and these settings besides.
    pub fn new(settings: &[(&str, &str)]) -> Self {
        Self::with(Arc::new(DiskFiles), settings)
    }

    /// A log whose high watermark follows only when told to ([`PartitionLog::commit`]).
    pub fn lagging(settings: &[(&str, &str)]) -> Self {
        let mut bench = Self::unopened(Arc::new(DiskFiles), settings);
        bench.durability = Durability::Ack;
        bench.open(true, 0).unwrap();
        bench
    }

    /// As [`Bench::new`], on another file system.
    pub fn with(files: Arc<dyn Files>, settings: &[(&str, &str)]) -> Self {
        let mut bench = Self::unopened(files, settings);
        bench.open(true, 0).unwrap();
        bench
    }

    /// A directory in which nothing is open yet.
    pub fn unopened(files: Arc<dyn Files>, settings: &[(&str, &str)]) -> Self {
        let mut bench = Self {
            directory: scratch(),
            clock: Arc::new(ManualClock::at(NOW)),
            starts: Arc::new(Starts::default()),
            handles: HandleCache::new(64),
            files,
            settings: Overrides::from([("internal.segment.bytes".to_owned(), "500".to_owned())]),
            durability: Durability::PageCache,
            log: None,
        };
        for (key, value) in settings {
            bench.settings.insert((*key).to_owned(), (*value).to_owned());
        }
        bench
    }

    /// Puts a `.log` file in place, batches as given.
    pub fn put_log(&self, base_offset: i64, batches: &[Vec<u8>]) {
        std::fs::write(self.file(&format!("{base_offset:020}.log")), batches.concat()).unwrap();
    }

    /// Sets the modification time of a file, ms.
    pub fn touch(&self, name: &str, modified_ms: i64) {
        let file = std::fs::File::options()
            .write(true)
            .open(self.file(name))
            .unwrap();
        let since = std::time::Duration::from_millis(modified_ms as u64);
        file.set_modified(std::time::UNIX_EPOCH + since).unwrap();
    }

    /// Appends batches of 100 bytes that stay above the high watermark of a lagging log.
    pub fn hidden(&self, count: i64, timestamp: i64) -> &Self {
        for _ in 0..count {
            self.log()
                .append_buffered(&one(timestamp), 0, Origin::Client)
                .unwrap();
        }
        self
    }

    /// Begins a new segment, as the idle roll does after `segment.ms`.
    pub fn roll(&self) -> &Self {
        assert!(
            self.log().idle_roll(i64::MAX).unwrap(),
            "the active segment is empty"
        );
        self
    }

    pub fn resolved(&self) -> Arc<TopicSettings> {
        Arc::new(TopicSettings::resolve(&[&self.settings]).unwrap())
    }

    pub fn set(&mut self, key: &str, value: &str) {
        self.settings.insert(key.to_owned(), value.to_owned());
        self.log().set_settings(self.resolved());
    }

    pub fn open_log(&self, clean: bool, recovery_point: i64) -> OpenLog {
        let starts = self.starts.0.lock();
        OpenLog {
            files: Arc::clone(&self.files),
            directory: self.path().to_owned(),
            topic: "t".to_owned(),
            partition: 0,
            settings: self.resolved(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            handles: Arc::clone(&self.handles),
            durability: self.durability,
            log_starts: Arc::clone(&self.starts) as Arc<dyn LogStarts>,
            clean,
            recovery_point,
            log_start: starts.get(&("t".to_owned(), 0)).copied().unwrap_or(0),
            producer_expiration_ms: DAY,
        }
    }

    /// Opens the directory anew, without closing what is open: as after a killed process unless `clean`.
    pub fn open(&mut self, clean: bool, recovery_point: i64) -> Result<(), LogError> {
        self.log = None;
        self.log = Some(PartitionLog::open(self.open_log(clean, recovery_point))?);
        Ok(())
    }

    /// Drops the log as a killed process does and opens it again from recovery point 0.
    pub fn crash(&mut self) -> &PartitionLog {
        self.open(false, 0).unwrap();
        self.log()
    }

    /// Closes in order and opens again.
    pub fn restart(&mut self) -> &PartitionLog {
        self.log().close().unwrap();
        self.open(true, 0).unwrap();
        self.log()
    }

    pub fn log(&self) -> &PartitionLog {
        self.log.as_ref().unwrap()
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn exists(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// Names in the partition directory, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn append(&self, bytes: &[u8]) -> Result<Appended, AppendError> {
        self.log().append(bytes, 0, Origin::Client)
    }

    /// Appends `count` batches of 100 bytes with one record each, all with this timestamp.
    pub fn batches(&self, count: i64, timestamp: i64) -> &Self {
        for _ in 0..count {
            self.append(&one(timestamp)).unwrap();
        }
        self
    }

    /// Runs a pass at the clock's time.
    pub fn run(&self) -> RetentionOutcome {
        self.log().retain(self.clock.wall_ms()).unwrap()
    }

    pub fn bases(&self) -> Vec<i64> {
        self.log()
            .segments()
            .iter()
            .map(|segment| segment.base_offset)
            .collect()
    }

    /// Log start and segment bases.
    pub fn shape(&self) -> (i64, Vec<i64>) {
        (self.log().log_start(), self.bases())
    }

    /// Runs a pass and gives log start, segment bases and number of deleted segments.
    pub fn after_run(&self) -> (i64, Vec<i64>, usize) {
        let outcome = self.run();
        (self.log().log_start(), self.bases(), outcome.deleted.len())
    }

    /// Offsets of every record that can be read from the log start to the end.
    pub fn all_offsets(&self) -> Vec<i64> {
        self.all_offsets_or_error().unwrap()
    }

    pub fn fetch(&self, offset: i64) -> Result<Vec<i64>, ReadError> {
        fetch(self.log(), offset)
    }

    /// As [`Bench::all_offsets`], or the first error.
    pub fn all_offsets_or_error(&self) -> Result<Vec<i64>, ReadError> {
        let mut offsets = Vec::new();
        let mut next = self.log().log_start();
        loop {
            let fetched = self.fetch(next)?;
            let Some(last) = fetched.last().copied() else {
                return Ok(offsets);
            };
            offsets.extend(fetched.into_iter().filter(|offset| *offset >= next));
            next = last + 1;
        }
    }
}

/// A temporary directory, in memory where the system has such a place: most tests here fsync a lot and prove nothing about it.
pub fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Offsets of the records in one read.
pub fn fetch(log: &PartitionLog, offset: i64) -> Result<Vec<i64>, ReadError> {
    let slice = log.read(offset, 1 << 20, true, Isolation::ReadUncommitted)?;
    let bytes = slice.to_vec().map_err(|source| LogError::Io {
        action: "read",
        path: log.directory().to_owned(),
        source,
    })?;
    Ok(offsets_in(&bytes))
}

/// Offsets of the records in whole batches.
pub fn offsets_in(bytes: &[u8]) -> Vec<i64> {
    let mut offsets = Vec::new();
    for batch in batch::batches(bytes) {
        let batch = batch.unwrap();
        batch.header.check_crc(batch.bytes).unwrap();
        offsets.extend(batch.header.base_offset..=batch.header.last_offset());
    }
    offsets
}

/// Whether a read was refused as out of range.
pub fn out_of_range<T>(read: Result<T, ReadError>) -> bool {
    matches!(read, Err(ReadError::OffsetOutOfRange { .. }))
}

/// Timestamp, key, value.
type MakerRecord = (i64, Option<Vec<u8>>, Option<Vec<u8>>);

/// What a batch is made of.
#[derive(Debug, Clone)]
pub struct Maker {
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub producer: (i64, i16, i32),
    pub codec: Codec,
    pub log_append_time: bool,
    pub transactional: bool,
    pub control: bool,
    /// Timestamp, key, value.
    pub records: Vec<MakerRecord>,
}

impl Default for Maker {
    fn default() -> Self {
        Self {
            base_offset: 0,
            leader_epoch: -1,
            producer: (-1, -1, -1),
            codec: Codec::None,
            log_append_time: false,
            transactional: false,
            control: false,
            records: Vec::new(),
        }
    }
}

impl Maker {
    pub fn record(mut self, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> Self {
        self.records
            .push((timestamp, key.map(<[u8]>::to_vec), value.map(<[u8]>::to_vec)));
        self
    }

    pub fn stamps(mut self, timestamps: &[i64]) -> Self {
        for timestamp in timestamps {
            self = self.record(*timestamp, None, Some(b"value"));
        }
        self
    }

    pub fn producer(mut self, id: i64, epoch: i16, sequence: i32) -> Self {
        self.producer = (id, epoch, sequence);
        self
    }

    pub fn build(&self) -> Vec<u8> {
        let base_timestamp = self.records.first().map_or(-1, |record| record.0);
        let max_timestamp = self.records.iter().map(|record| record.0).max().unwrap_or(-1);
        let mut writer = RecordWriter::default();
        for (timestamp, key, value) in &self.records {
            let delta = timestamp.wrapping_sub(base_timestamp);
            writer.push(delta, key.as_deref(), value.as_deref(), 0, &[]);
        }
        let count = writer.count();
        let records = writer.into_bytes();
        let records = match self.codec {
            Codec::None => records,
            codec => tidemark::log::compression::compress(codec, &records, None).unwrap(),
        };
        let (producer_id, producer_epoch, base_sequence) = self.producer;
        let header = BatchHeader {
            base_offset: self.base_offset,
            size: 0,
            leader_epoch: self.leader_epoch,
            magic: 2,
            crc: 0,
            attributes: batch::attributes(self.codec, self.log_append_time, self.transactional, self.control),
            last_offset_delta: count - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count: count,
        };
        batch::encode(&header, &records)
    }
}

/// A batch of exactly 100 bytes with one record.
pub fn one(timestamp: i64) -> Vec<u8> {
    let batch = sized(timestamp, BATCH as usize);
    assert_eq!(batch.len(), BATCH as usize);
    batch
}

/// A batch of exactly `size` bytes with one record.
pub fn sized(timestamp: i64, size: usize) -> Vec<u8> {
    for value_len in (0..size).rev() {
        let batch = Maker::default()
            .record(timestamp, None, Some(&vec![b'v'; value_len]))
            .build();
        if batch.len() == size {
            return batch;
        }
        assert!(batch.len() > size, "no value makes a batch of {size} bytes");
    }
    panic!("no value makes a batch of {size} bytes");
}
