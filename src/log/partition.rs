//! One partition's log: what the rest of the engine holds on to.
//!
//! # Invariants
//! * `log start <= last stable offset <= high watermark <= log end`, and `recovery point <= log end`. The log start and the
//!   log end never go back while the log is open.
//! * Base offsets of segments rise strictly; there is always at least one segment, the last one is active, and only it
//!   is written to. `base(first segment) <= log start`.
//! * The high watermark is the log end, except under [`Durability::Ack`]: there it is what has been fsynced, so that no
//!   reader sees a record that a power loss could take back.
//! * Everything below the recovery point has been fsynced, and only a flush moves it. After a crash everything from the
//!   segment that holds it is read again.
//! * A log start is published before the files below it are renamed, and a log start set by DeleteRecords is durable
//!   before it is acknowledged.
//! * After a failed fsync, or a failed write that could not be undone, the log is *poisoned*: it is read and trimmed, and
//!   takes no more writes until it is opened anew, because nobody knows what the disk holds.
//!
//! # Locks
//! Taken in this order: `maintenance` (one retention pass, deletion or close at a time), `writer` (one append or roll at a time),
//! `flushing` (one fsync at a time; those who wait find their bytes flushed), `view` (what readers and planners look at; held for a few
//! instructions, and for a page of index now and then). Readers take `view` alone and do their file access outside of it, so neither a
//! slow write nor a pass holds them up. An append lets go of `writer` before it waits for an fsync, so that others append meanwhile and
//! share the next one.
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::log::damage::{Damage, DamagedRange};
use crate::log::due::DueUnlinks;
use crate::log::error::LogError;
use crate::log::files::{FileHandle, Files, OpenMode};
use crate::log::handles::{HandleCache, HandleKey};
use crate::log::leader_epochs::LeaderEpochs;
use crate::log::names::{SegmentFile, segment_path};
use crate::log::producer_state::ProducerStates;
use crate::log::segment::ActiveSegment;
use crate::log::waiters::{Registration, Waiters};
use crate::resource::settings::TopicSettings;
use crate::retention::{Plan, Rules, SegmentFacts, SegmentProfile, plan};
use crate::telemetry::clock::Clock;

/// When an append counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is in the page cache, as in Kafka: a killed process loses nothing, a power loss what was not yet written.
    #[default]
    PageCache,
    /// As `PageCache`, and the housekeeping flushes at this interval (ms).
    IntervalMs(i64),
    /// When it has been fsynced. Appends of several threads share one fsync.
    Ack,
}

/// Keeps log start offsets that no file name implies, so that they survive a crash.
pub trait LogStarts: fmt::Debug + Send + Sync {
    /// Makes `log_start` durable before it returns.
    ///
    /// # Errors
    /// The write failed; the caller must not acknowledge anything.
    fn persist(&self, topic: &str, partition: i32, log_start: i64) -> Result<(), LogError>;
}

/// What it takes to open a partition's log.
#[derive(Debug, Clone)]
pub struct OpenLog {
    /// The file system.
    pub files: Arc<dyn Files>,
    /// The partition's directory; it must exist.
    pub directory: PathBuf,
    /// Topic name.
    pub topic: String,
    /// Partition number.
    pub partition: i32,
    /// Settings in force.
    pub settings: Arc<TopicSettings>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Open files of all partitions.
    pub handles: Arc<HandleCache>,
    /// When an append counts as done.
    pub durability: Durability,
    /// Where log starts are kept.
    pub log_starts: Arc<dyn LogStarts>,
    /// The log was closed cleanly: nothing needs to be read again.
    pub clean: bool,
    /// Recovery point of the last checkpoint, 0 if there is none.
    pub recovery_point: i64,
    /// Log start of the last checkpoint, 0 if there is none.
    pub log_start: i64,
    /// How long a producer's state is kept after its last append (`producer.id.expiration.ms`).
    pub producer_expiration_ms: i64,
}

/// What opening a log found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// Segments that were read from end to end.
    pub recovered_segments: usize,
    /// Bytes cut off the end of the active segment.
    pub truncated_bytes: i64,
    /// Segments whose indexes were made anew.
    pub rebuilt_indexes: usize,
    /// Leftover files that were removed or put in place.
    pub tidied_files: usize,
    /// Stretches that cannot be read.
    pub damage: Vec<DamagedRange>,
}

/// State of the log as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Reads and writes.
    Open,
    /// Reads only, until opened anew; the text is the first failure.
    Poisoned(String),
    /// Closed in order.
    Closed,
    /// The partition is deleted.
    Deleted,
}

/// What readers and planners look at.
#[derive(Debug)]
pub(crate) struct View {
    pub segments: SegmentProfile,
    pub active: ActiveSegment,
    pub log_start: i64,
    /// Up to where the log start is kept by [`LogStarts`]. Retention moves the log start by renaming files, which a power loss may undo.
    pub kept_log_start: i64,
    pub high_watermark: i64,
    pub log_end: i64,
    pub recovery_point: i64,
    /// First offset of the oldest transaction that is not decided.
    pub first_unstable: Option<i64>,
    pub damage: Damage,
    /// Base offsets of segments that have a transaction index, rising.
    pub txn_indexes: Vec<i64>,
    pub phase: Phase,
    /// A file was made since the directory was last fsynced.
    pub directory_dirty: bool,
    /// Wall time of the last flush, ms.
    pub last_flush_ms: i64,
}

impl View {
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.first_unstable
            .map_or(self.high_watermark, |first| first.min(self.high_watermark))
            .max(self.log_start)
    }

    pub(crate) fn bounds(&self) -> OffsetBounds {
        OffsetBounds {
            log_start: self.log_start,
            last_stable_offset: self.last_stable_offset(),
            high_watermark: self.high_watermark,
            log_end: self.log_end,
        }
    }

    /// The offset after the segment at `index`: the next one's base, or the log end.
    pub(crate) fn end_of(&self, index: usize) -> i64 {
        self.segments
            .get(index.saturating_add(1))
            .map_or(self.log_end, |next| next.base_offset)
    }
}

/// What only the one who appends looks at.
#[derive(Debug)]
pub(crate) struct Writer {
    pub producers: ProducerStates,
    pub epochs: LeaderEpochs,
}

/// The four offsets of a partition, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetBounds {
    /// First offset that may be read.
    pub log_start: i64,
    /// First offset of an undecided transaction, else the high watermark.
    pub last_stable_offset: i64,
    /// First offset that may not be read yet.
    pub high_watermark: i64,
    /// The next record's offset.
    pub log_end: i64,
}

/// A partition's log. Shared as `Arc<PartitionLog>`; all methods may be called from any thread and may block on the disk.
pub struct PartitionLog {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) directory: PathBuf,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) handles: Arc<HandleCache>,
    pub(crate) owner: u64,
    pub(crate) durability: Durability,
    pub(crate) log_starts: Arc<dyn LogStarts>,
    pub(crate) settings: ArcSwap<TopicSettings>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) report: LoadReport,
    /// Indexes made anew because a read found them wrong.
    pub(crate) rebuilt_later: AtomicUsize,
    pub(crate) maintenance: Mutex<DueUnlinks>,
    pub(crate) flushing: Mutex<()>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) view: Mutex<View>,
}

impl fmt::Debug for PartitionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionLog")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("bounds", &self.view.lock().bounds())
            .finish_non_exhaustive()
    }
}

impl PartitionLog {
    /// Topic name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Partition number.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The partition's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// First offset that may be read.
    pub fn log_start(&self) -> i64 {
        self.view.lock().log_start
    }

    /// First offset that may not be read yet.
    pub fn high_watermark(&self) -> i64 {
        self.view.lock().high_watermark
    }

    /// First offset of the oldest undecided transaction, else the high watermark.
    pub fn last_stable_offset(&self) -> i64 {
        self.view.lock().last_stable_offset()
    }

    /// The next record's offset.
    pub fn log_end(&self) -> i64 {
        self.view.lock().log_end
    }

    /// Everything below it has been fsynced.
    pub fn recovery_point(&self) -> i64 {
        self.view.lock().recovery_point
    }

    /// All four offsets at one moment.
    pub fn bounds(&self) -> OffsetBounds {
        self.view.lock().bounds()
    }

    /// Bytes of all `.log` files, as `retention.bytes` counts them.
    pub fn size_bytes(&self) -> i64 {
        self.view.lock().segments.total_bytes()
    }

    /// All segments, oldest first; the last one is active.
    pub fn segments(&self) -> Vec<SegmentFacts> {
        self.view.lock().segments.iter().copied().collect()
    }

    /// Whether the log takes writes, and why not.
    pub fn phase(&self) -> Phase {
        self.view.lock().phase.clone()
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<TopicSettings> {
        self.settings.load_full()
    }

    /// Replaces the settings. Limits on the active segment apply from the next append on; its jitter and index limits
    /// stay as they were.
    pub fn set_settings(&self, settings: Arc<TopicSettings>) {
        self.settings.store(settings);
    }

    /// What a pass at `now_ms` under `rules` would do. Nothing is changed and no file is touched.
    pub fn plan(&self, now_ms: i64, rules: &Rules) -> Plan {
        let view = self.view.lock();
        let bounds = view.bounds();
        plan(
            &view.segments,
            bounds.log_start,
            bounds.high_watermark,
            bounds.log_end,
            now_ms,
            rules,
        )
    }

    /// Shows the segments and offsets of one moment to `look`. Keep it short: appends wait.
    pub fn with_profile<T>(&self, look: impl FnOnce(&SegmentProfile, &OffsetBounds) -> T) -> T {
        let view = self.view.lock();
        look(&view.segments, &view.bounds())
    }

    /// Shows the producers whose state is kept to `look`. Keep it short: appends wait.
    pub fn with_producers<T>(&self, look: impl FnOnce(&ProducerStates) -> T) -> T {
        look(&self.writer.lock().producers)
    }

    /// Wakes `waiter` at every append and every change of the log start or the high watermark, and when the log closes,
    /// until the registration is dropped. Register first, look second, wait third: then no change is missed.
    pub fn wake_on_change(&self, waiter: &Arc<Notify>) -> Registration {
        self.waiters.register(waiter)
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules::from(self.settings.load().as_ref())
    }

    pub(crate) fn segment_path(&self, base_offset: i64, file: SegmentFile) -> PathBuf {
        segment_path(&self.directory, base_offset, file)
    }

    /// One file of a segment for reading, through the cache.
    pub(crate) fn handle(&self, base_offset: i64, file: SegmentFile) -> io::Result<Arc<dyn FileHandle>> {
        self.cached(base_offset, file, false, OpenMode::Read)
    }

    /// One file of the active segment for writing, through the cache.
    pub(crate) fn writable(&self, base_offset: i64, file: SegmentFile) -> io::Result<Arc<dyn FileHandle>> {
        self.cached(base_offset, file, true, OpenMode::ReadWrite)
    }

    /// As [`PartitionLog::writable`], for an index that may be missing: it can always be made anew.
    pub(crate) fn writable_index(
        &self,
        base_offset: i64,
        file: SegmentFile,
    ) -> io::Result<Arc<dyn FileHandle>> {
        self.cached(base_offset, file, true, OpenMode::OpenOrCreate)
    }

    fn cached(
        &self,
        base_offset: i64,
        file: SegmentFile,
        writable: bool,
        mode: OpenMode,
    ) -> io::Result<Arc<dyn FileHandle>> {
        let key = self.handle_key(base_offset, file);
        self.handles.get(key, writable, || {
            self.files.open(&self.segment_path(base_offset, file), mode)
        })
    }

    pub(crate) fn handle_key(&self, base_offset: i64, file: SegmentFile) -> HandleKey {
        HandleKey {
            owner: self.owner,
            base_offset,
            file,
        }
    }

    /// Refuses writes once the log is poisoned, closed or deleted.
    pub(crate) fn check_writable(&self, view: &View) -> Result<(), LogError> {
        let what = match &view.phase {
            Phase::Open => return Ok(()),
            Phase::Poisoned(what) => what.clone(),
            Phase::Closed => "the log is closed".to_owned(),
            Phase::Deleted => "the partition is deleted".to_owned(),
        };
        Err(LogError::Poisoned {
            path: self.directory.clone(),
            what,
        })
    }

    /// Stops all writes, for good, because of `error`. The first failure is the one that is remembered.
    pub(crate) fn poison(&self, error: &LogError) {
        let mut view = self.view.lock();
        if view.phase == Phase::Open {
            tracing::error!(topic = self.topic, partition = self.partition, %error,
                "storage failed; the partition takes no more writes until it is opened anew");
            view.phase = Phase::Poisoned(error.to_string());
        }
        drop(view);
        self.waiters.wake();
    }
}
