//! Opening a partition's log.
//!
//! After a clean stop no batch is read except the last few of the active segment (from its last index entry on, which is how its end
//! is known): the cost is a look at each segment's size and the last entry of its time index. After a crash everything from the
//! segment that holds the recovery point is read, checked, and indexed anew; what lies below was fsynced and is trusted.
//!
//! What is bad and where decides what happens:
//! * at the end of the active segment (torn write, zeros, bad checksum): cut off, as in Kafka. Nothing intact is behind it;
//! * in the active segment above the recovery point, with good batches behind it: cut off there, as in Kafka: what was never
//!   fsynced may have reached the disk in any order;
//! * in the active segment below the recovery point, or in a closed segment: these bytes were whole once, so this is damage. They stay,
//!   the range is reported, later batches and segments are kept. Kafka cuts here and drops every later segment;
//! * a closed segment above the recovery point that ends before the next one begins, on the border of a batch: a power loss took whole
//!   batches, or a whole segment, which is damage as well. Compaction leaves such gaps too, and these are none.
//!
//! Segments of old brokers may hold offsets that are more than 31 bits above their base (KAFKA-6264), which no index entry can say.
//! Kafka splits them; here they are read from end to end at every start and served as they are.
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::log::batch_file::BatchInFile;
use crate::log::checkpoints;
use crate::log::damage::{Damage, DamagedRange};
use crate::log::due::DueUnlinks;
use crate::log::error::{LogError, PathContext};
use crate::log::files::{FileHandle, OpenMode};
use crate::log::index_file;
use crate::log::leader_epochs::LeaderEpochs;
use crate::log::leftovers::{self, LiveFiles};
use crate::log::names::{CLEANER_CHECKPOINT, LEADER_EPOCH_CHECKPOINT, SegmentFile, segment_path};
use crate::log::partition::{Durability, LoadReport, OpenLog, PartitionLog, Phase, View, Writer};
use crate::log::replay;
use crate::log::scan::{self, Extent, Scanned, as_i64};
use crate::log::segment::{ActiveSegment, SegmentLimits};
use crate::log::time_index::{self, TimestampOffset};
use crate::log::waiters::Waiters;
use crate::retention::{CLOCK_TOLERANCE_MS, SegmentFacts, SegmentProfile, WithoutFuture};

mod active;

/// Largest size of a segment: positions are 31 bits.
const MAX_SEGMENT_BYTES: i64 = i32::MAX as i64;

/// The segments as they are found, before producers and epochs.
struct Segments<'a> {
    open: &'a OpenLog,
    live: LiveFiles,
    profile: SegmentProfile,
    active: Option<ActiveSegment>,
    log_end: i64,
    damage: Damage,
    epochs: LeaderEpochs,
    /// Segments that were read from end to end.
    recovered: Vec<i64>,
    report: LoadReport,
}

impl PartitionLog {
    /// Opens the log in a directory that exists; an empty one becomes an empty log at the checkpointed log start.
    ///
    /// # Errors
    /// The storage refused, or a `.log` file is none or larger than 2 GiB. Damage is no error, see [`LoadReport`].
    pub fn open(open: OpenLog) -> Result<Self, LogError> {
        let owner = open.handles.new_owner();
        let settings = Arc::clone(&open.settings);
        let now_ms = open.clock.wall_ms();
        let live = leftovers::tidy(open.files.as_ref(), &open.directory)?;
        let mut found = Segments::new(&open, live);
        found.load()?;
        found.recall_damage();
        let first_base = found.profile.get(0).map_or(0, |first| first.base_offset);
        let log_start = open.log_start.max(first_base);
        if found.log_end < log_start {
            // The log start is durable and the records are not there any more: nothing below it may come back.
            found.start_over(log_start, now_ms)?;
        }
        let log_end = found.log_end;
        found.epochs.truncate_from_end(log_end);
        found.epochs.truncate_from_start(log_start);
        let recovered = found.recovered.first().copied();
        let replayed = replay::producers(
            &open,
            &found.live,
            &found.profile,
            log_start,
            log_end,
            recovered,
            now_ms,
        )?;
        let recovery_point = if open.clean {
            log_end
        } else {
            open.recovery_point.min(log_end)
        }
        .max(log_start);
        let Segments {
            profile,
            active,
            damage,
            epochs,
            mut report,
            ..
        } = found;
        let active = match active {
            Some(active) => active,
            None => ActiveSegment::new(log_end, now_ms, SegmentLimits::drawn(&settings)),
        };
        report.damage = damage.ranges().to_vec();
        for range in damage.ranges() {
            range.report(&open.topic, open.partition);
        }
        let clean = open.clean;
        let log = Self {
            topic: open.topic,
            partition: open.partition,
            directory: open.directory,
            files: open.files,
            clock: open.clock,
            handles: open.handles,
            owner,
            durability: open.durability,
            log_starts: open.log_starts,
            settings: ArcSwap::new(settings),
            waiters: Arc::new(Waiters::default()),
            report,
            rebuilt_later: std::sync::atomic::AtomicUsize::new(0),
            maintenance: Mutex::new(DueUnlinks::default()),
            flushing: Mutex::new(()),
            view: Mutex::new(View {
                segments: profile,
                active,
                log_start,
                kept_log_start: open.log_start,
                high_watermark: log_end,
                log_end,
                recovery_point,
                first_unstable: replayed.producers.first_unstable_offset(),
                damage,
                txn_indexes: replayed.txn_indexes,
                phase: Phase::Open,
                directory_dirty: !clean,
                last_flush_ms: now_ms,
            }),
            writer: Mutex::new(Writer {
                producers: replayed.producers,
                epochs,
            }),
        };
        if log.durability == Durability::Ack && !clean {
            // What a killed process left in the page cache is shown to readers, so it must not be lost any more.
            log.flush()?;
        }
        Ok(log)
    }

    /// What opening the log found and did.
    pub fn load_report(&self) -> &LoadReport {
        &self.report
    }
}

impl<'a> Segments<'a> {
    fn new(open: &'a OpenLog, live: LiveFiles) -> Self {
        let report = LoadReport {
            tidied_files: live.tidied,
            ..LoadReport::default()
        };
        Self {
            open,
            live,
            profile: SegmentProfile::new(),
            active: None,
            log_end: 0,
            damage: Damage::default(),
            epochs: LeaderEpochs::default(),
            recovered: Vec::new(),
            report,
        }
    }

    fn path(&self, base_offset: i64, file: SegmentFile) -> std::path::PathBuf {
        segment_path(&self.open.directory, base_offset, file)
    }

    fn limits(&self) -> SegmentLimits {
        SegmentLimits::drawn(&self.open.settings)
    }

    fn load(&mut self) -> Result<(), LogError> {
        self.load_epochs()?;
        let bases = self.live.of(SegmentFile::Log);
        if bases.is_empty() {
            return self.begin(self.open.log_start.max(0));
        }
        let recover_from = if self.open.clean {
            i64::MAX
        } else {
            let below = bases.partition_point(|base| *base <= self.open.recovery_point);
            below
                .checked_sub(1)
                .and_then(|index| bases.get(index))
                .copied()
                .unwrap_or(i64::MIN)
        };
        for (index, base_offset) in bases.iter().enumerate() {
            let next_base = bases.get(index + 1).copied();
            self.load_segment(*base_offset, next_base, *base_offset >= recover_from)?;
        }
        Ok(())
    }

    /// Adds what is known of segments that were not read again, and keeps the whole.
    fn recall_damage(&mut self) {
        let files = self.open.files.as_ref();
        let known = Damage::load(files, &self.open.directory);
        let mut damage = known.clone();
        damage.keep_within(&self.profile);
        for base_offset in &self.recovered {
            damage.forget_segment(*base_offset);
        }
        for range in self.damage.ranges() {
            damage.add(*range);
        }
        if damage != known {
            damage.store(files, &self.open.directory);
        }
        self.damage = damage;
    }

    /// A checkpoint that cannot be read is put together again from the batches, as far as they are read.
    fn load_epochs(&mut self) -> Result<(), LogError> {
        let path = self.open.directory.join(LEADER_EPOCH_CHECKPOINT);
        match LeaderEpochs::load(self.open.files.as_ref(), &path) {
            Ok(epochs) => self.epochs = epochs,
            Err(LogError::Malformed { path, what }) => {
                tracing::warn!(path = %path.display(), %what, "the leader epochs are read from the batches instead");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn load_segment(
        &mut self,
        base_offset: i64,
        next_base: Option<i64>,
        recover: bool,
    ) -> Result<(), LogError> {
        let path = self.path(base_offset, SegmentFile::Log);
        let info = self.open.files.metadata(&path).at("look at", &path)?;
        let size = as_i64(info.len);
        if size > MAX_SEGMENT_BYTES {
            let what = format!("it is {size} bytes long, a segment has at most {MAX_SEGMENT_BYTES}");
            return Err(LogError::malformed(&path, what));
        }
        let mut facts = SegmentFacts {
            base_offset,
            size_bytes: size,
            largest_timestamp: -1,
            modified_ms: info.modified_ms,
            without_future: None,
        };
        let extent = Extent {
            base_offset,
            next_base: next_base.unwrap_or(i64::MAX),
            size,
        };
        let indexed = self.live.has(SegmentFile::OffsetIndex, base_offset);
        if next_base.is_some() {
            let trusted = if recover || !indexed || extent.may_outgrow_indexes() {
                None
            } else {
                self.closed_largest(extent)?
            };
            facts.largest_timestamp = match trusted {
                Some(largest) => largest.timestamp,
                None => self.recover_closed(extent, recover)?,
            };
            facts.without_future = self.without_future(&facts)?;
            self.profile.push(facts);
            return Ok(());
        }
        let resumed = if recover || !indexed {
            None
        } else {
            self.resume_active(extent, facts.modified_ms)?
        };
        let (active, log_end) = match resumed {
            Some(resumed) => resumed,
            None => self.recover_active(extent, facts.modified_ms, recover)?,
        };
        self.profile.push(active.facts());
        self.active = Some(active);
        self.log_end = log_end;
        Ok(())
    }

    /// The closing entry of a closed segment's time index. `None` if what is there cannot be trusted. A missing index means what it means
    /// in Kafka: no timestamps are known, and the file's modification time stands in.
    fn closed_largest(&self, extent: Extent) -> Result<Option<TimestampOffset>, LogError> {
        let base_offset = extent.base_offset;
        if !self.live.has(SegmentFile::TimeIndex, base_offset) {
            return Ok(Some(TimestampOffset::none(base_offset)));
        }
        let path = self.path(base_offset, SegmentFile::TimeIndex);
        let handle = self.open.files.open(&path, OpenMode::Read).at("open", &path)?;
        let resumed = time_index::resume(handle.as_ref(), base_offset).at("read", &path)?;
        Ok(resumed
            .map(|(_, last)| last)
            .filter(|last| last.timestamp < 0 || last.offset < extent.next_base))
    }

    /// What the time index of a closed segment says beside its timestamps of the future, where it has any.
    fn without_future(&self, facts: &SegmentFacts) -> Result<Option<WithoutFuture>, LogError> {
        let largest = facts.largest_timestamp;
        let tolerated_ms = self.tolerated_ms();
        if largest <= tolerated_ms {
            return Ok(None);
        }
        let path = self.path(facts.base_offset, SegmentFile::TimeIndex);
        let around = match self.open.files.open(&path, OpenMode::Read) {
            Ok(times) => time_index::around(times.as_ref(), tolerated_ms).at("read", &path)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (None, None),
            Err(error) => return Err(error).at("open", &path),
        };
        Ok(Some(WithoutFuture::from_index(
            around.0.unwrap_or(-1),
            around.1.unwrap_or(largest),
            facts.modified_ms,
        )))
    }

    /// Up to where a timestamp is none of the future.
    fn tolerated_ms(&self) -> i64 {
        self.open.clock.wall_ms().saturating_add(CLOCK_TOLERANCE_MS)
    }

    /// Reads a closed segment, makes its indexes anew, and gives its largest timestamp.
    fn recover_closed(&mut self, extent: Extent, above_recovery_point: bool) -> Result<i64, LogError> {
        let path = self.path(extent.base_offset, SegmentFile::Log);
        let file = self.open.files.open(&path, OpenMode::Read).at("open", &path)?;
        let scanned = self.scan(file.as_ref(), &path, extent)?;
        for range in &scanned.damage {
            self.damage.add(*range);
        }
        if let Some(reason) = &scanned.tail {
            tracing::error!(path = %path.display(), position = scanned.end, %reason, "a closed segment is damaged at its end");
            self.damage.add(DamagedRange {
                base_offset: extent.base_offset,
                from_offset: scanned.next_offset,
                to_offset: extent.next_base,
                from_position: scanned.end,
                to_position: extent.size,
            });
        }
        if above_recovery_point && let Some(range) = self.missing_end(extent, &scanned) {
            tracing::error!(path = %path.display(), from_offset = range.from_offset, to_offset = range.to_offset,
                "a closed segment ends before the next one begins");
            self.damage.add(range);
        }
        self.write_indexes(extent.base_offset, &scanned, !above_recovery_point);
        Ok(scanned.largest.timestamp)
    }

    /// The offsets that were in a closed segment above the recovery point, or in a segment behind it, and are not there any more. A log that
    /// was ever compacted may lack any offset, and what was fsynced lacks none that it had.
    fn missing_end(&self, extent: Extent, scanned: &Scanned) -> Option<DamagedRange> {
        let from_offset = scanned.next_offset.max(self.open.recovery_point);
        let missing = scanned.tail.is_none() && from_offset < extent.next_base;
        let compacted = || {
            self.open.settings.cleanup_policy.compact
                || scanned.sparse
                || self.was_cleaned_beyond(from_offset)
        };
        (missing && !compacted()).then_some(DamagedRange {
            base_offset: extent.base_offset,
            from_offset,
            to_offset: extent.next_base,
            from_position: scanned.end,
            to_position: extent.size,
        })
    }

    /// Whether a broker's log cleaner has been past `offset`, by its checkpoint. The topic's policy may have changed since.
    fn was_cleaned_beyond(&self, offset: i64) -> bool {
        let Some(logs) = self.open.directory.parent() else {
            return false;
        };
        let path = logs.join(CLEANER_CHECKPOINT);
        let cleaned = checkpoints::read_offsets(self.open.files.as_ref(), &path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "what was compacted cannot be read");
            checkpoints::Offsets::new()
        });
        cleaned
            .get(&(self.open.topic.clone(), self.open.partition))
            .is_some_and(|first_dirty| *first_dirty > offset)
    }

    fn scan(&mut self, file: &dyn FileHandle, path: &Path, extent: Extent) -> Result<Scanned, LogError> {
        let interval = self.open.settings.index_interval_bytes;
        let epochs = &mut self.epochs;
        let scanned = scan::segment(file, extent, interval, true, |batch: &BatchInFile| {
            let header = &batch.header;
            if epochs
                .latest()
                .is_none_or(|latest| header.leader_epoch > latest.epoch)
            {
                epochs.assign(header.leader_epoch, header.base_offset);
            }
            Ok::<(), std::io::Error>(())
        });
        self.recovered.push(extent.base_offset);
        self.report.recovered_segments += 1;
        scanned.at("read", path)
    }

    /// Writes the indexes of a closed segment. On a full or read-only disk that fails; then there is none, the segment is read from
    /// its start, and the next start tries again.
    fn write_indexes(&mut self, base_offset: i64, scanned: &Scanned, durable: bool) {
        self.report.rebuilt_indexes += 1;
        let offsets = index_file::encode_all(base_offset, &scanned.offset_entries);
        let times = index_file::encode_all(base_offset, &scanned.closed_time_entries());
        for (file, content) in [
            (SegmentFile::OffsetIndex, offsets),
            (SegmentFile::TimeIndex, times),
        ] {
            let path = self.path(base_offset, file);
            if let Err(error) = index_file::write(self.open.files.as_ref(), &path, &content, durable) {
                tracing::warn!(path = %path.display(), %error, "cannot write an index; the segment is read from its start");
                let _ = self.open.files.unlink(&path);
            }
        }
    }

    /// Makes the first, empty segment.
    fn begin(&mut self, base_offset: i64) -> Result<(), LogError> {
        for file in [SegmentFile::OffsetIndex, SegmentFile::TimeIndex, SegmentFile::Log] {
            let path = self.path(base_offset, file);
            let mode = OpenMode::Truncate;
            let handle = self.open.files.open(&path, mode).at("create", &path)?;
            if file == SegmentFile::Log && self.open.settings.preallocate {
                let len = u64::try_from(self.open.settings.segment_bytes).unwrap_or(0);
                handle.set_len(len).at("preallocate", &path)?;
            }
        }
        let mut active = ActiveSegment::new(base_offset, self.open.clock.wall_ms(), self.limits());
        active.trim_needed = self.open.settings.preallocate;
        self.profile.push(active.facts());
        self.active = Some(active);
        self.log_end = base_offset;
        Ok(())
    }

    /// Puts every file aside and begins at `log_start`.
    fn start_over(&mut self, log_start: i64, now_ms: i64) -> Result<(), LogError> {
        tracing::warn!(
            topic = self.open.topic,
            partition = self.open.partition,
            log_start,
            log_end = self.log_end,
            now_ms,
            "the log ends below its start; it begins anew there"
        );
        for file in SegmentFile::ALL {
            for offset in self.live.of(file) {
                let path = self.path(offset, file);
                self.open.files.unlink(&path).at("remove", &path)?;
                self.live.forget(file, offset);
            }
        }
        self.profile = SegmentProfile::new();
        self.damage = Damage::default();
        self.epochs = LeaderEpochs::default();
        self.recovered.clear();
        self.begin(log_start)
    }
}
