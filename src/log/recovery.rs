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
//!   the range is reported, later batches and segments are kept. Kafka cuts here and drops every later segment.
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::log::batch::BatchError;
use crate::log::batch_file::{self, BatchInFile};
use crate::log::damage::{Damage, DamagedRange};
use crate::log::due::DueUnlinks;
use crate::log::error::{LogError, PathContext};
use crate::log::files::{FileHandle, OpenMode};
use crate::log::index::{self, OffsetIndex, OffsetPosition};
use crate::log::index_file;
use crate::log::leader_epochs::LeaderEpochs;
use crate::log::leftovers::{self, LiveFiles};
use crate::log::names::{LEADER_EPOCH_CHECKPOINT, SegmentFile, segment_path};
use crate::log::partition::{Durability, OpenLog, PartitionLog, Phase, View, Writer};
use crate::log::replay;
use crate::log::scan::{self, Extent, Scanned, as_i64};
use crate::log::segment::{ActiveSegment, FirstTimestamp, SegmentLimits};
use crate::log::time_index::{self, TimeIndex, TimestampOffset};
use crate::log::waiters::Waiters;
use crate::retention::{SegmentFacts, SegmentProfile};

/// Largest size of a segment: positions are 31 bits.
const MAX_SEGMENT_BYTES: i64 = i32::MAX as i64;

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
            tracing::error!(
                topic = open.topic,
                partition = open.partition,
                base_offset = range.base_offset,
                from_offset = range.from_offset,
                to_offset = range.to_offset,
                "damaged batches: these offsets cannot be read, everything around them can"
            );
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
        };
        let extent = Extent {
            base_offset,
            next_base: next_base.unwrap_or(i64::MAX),
            size,
        };
        let indexed = self.live.has(SegmentFile::OffsetIndex, base_offset);
        if next_base.is_some() {
            let trusted = if recover || !indexed {
                None
            } else {
                self.closed_largest(extent)?
            };
            facts.largest_timestamp = match trusted {
                Some(largest) => largest.timestamp,
                None => self.recover_closed(extent, recover)?,
            };
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
        self.write_indexes(extent.base_offset, &scanned, !above_recovery_point);
        Ok(scanned.largest.timestamp)
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
        let offsets = index::encode_all(base_offset, &scanned.offset_entries);
        let times = time_index::encode_all(base_offset, &scanned.closed_time_entries());
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

    /// Takes up the active segment where a clean stop left it: from its last index entry to its end. `None` if indexes or tail are not
    /// what a clean stop leaves.
    fn resume_active(
        &self,
        extent: Extent,
        modified_ms: i64,
    ) -> Result<Option<(ActiveSegment, i64)>, LogError> {
        let base_offset = extent.base_offset;
        let path = self.path(base_offset, SegmentFile::OffsetIndex);
        let offsets = self.open.files.open(&path, OpenMode::Read).at("open", &path)?;
        let Some((offset_count, last_offset)) =
            index::resume(offsets.as_ref(), base_offset).at("read", &path)?
        else {
            return Ok(None);
        };
        let (time_count, last_time) = if self.live.has(SegmentFile::TimeIndex, base_offset) {
            let path = self.path(base_offset, SegmentFile::TimeIndex);
            let times = self.open.files.open(&path, OpenMode::Read).at("open", &path)?;
            match time_index::resume(times.as_ref(), base_offset).at("read", &path)? {
                Some(resumed) => resumed,
                None => return Ok(None),
            }
        } else {
            (0, TimestampOffset::none(base_offset))
        };
        let from = last_offset.map_or(0, |last| last.position);
        let Some((next_offset, largest)) = self.tail(extent, from, last_offset, last_time)? else {
            return Ok(None);
        };
        let limits = self.limits();
        let mut active = self.active_segment(extent, modified_ms, limits);
        active.largest = largest;
        active.offset_index =
            OffsetIndex::resumed(base_offset, limits.index_bytes, offset_count, last_offset);
        active.time_index = TimeIndex::resumed(base_offset, limits.index_bytes, time_count, last_time);
        Ok(Some((active, next_offset)))
    }

    /// Offset after the last batch, and the largest timestamp, from the batches behind the last index entry.
    fn tail(
        &self,
        extent: Extent,
        from: i64,
        last_entry: Option<OffsetPosition>,
        largest: TimestampOffset,
    ) -> Result<Option<(i64, TimestampOffset)>, LogError> {
        let path = self.path(extent.base_offset, SegmentFile::Log);
        let file = self.open.files.open(&path, OpenMode::Read).at("open", &path)?;
        let end = u64::try_from(extent.size).unwrap_or(0);
        let start = u64::try_from(from).unwrap_or(0);
        let (mut next_offset, mut largest, mut reached) = (extent.base_offset, largest, start);
        for batch in batch_file::batches_in(file.as_ref(), start, end) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(batch_file::WalkError::Io(error)) => return Err(error).at("read", &path),
                Err(batch_file::WalkError::Damaged { .. }) => return Ok(None),
            };
            let indexed = last_entry.filter(|_| reached == start);
            let expected = indexed.is_none_or(|entry| entry.offset == batch.header.last_offset());
            if !expected || batch.header.last_offset() < next_offset {
                return Ok(None);
            }
            next_offset = batch.header.next_offset();
            reached = batch.end();
            if batch.header.max_timestamp > largest.timestamp {
                largest = TimestampOffset {
                    timestamp: batch.header.max_timestamp,
                    offset: batch.header.last_offset(),
                };
            }
        }
        Ok((reached == end).then_some((next_offset, largest)))
    }

    /// Reads the active segment, cuts what is bad at its end, and gathers its index entries anew.
    fn recover_active(
        &mut self,
        extent: Extent,
        modified_ms: i64,
        recover: bool,
    ) -> Result<(ActiveSegment, i64), LogError> {
        let path = self.path(extent.base_offset, SegmentFile::Log);
        let mode = if recover {
            OpenMode::ReadWrite
        } else {
            OpenMode::Read
        };
        let file = self.open.files.open(&path, mode).at("open", &path)?;
        let mut scanned = self.scan(file.as_ref(), &path, extent)?;
        let trusted = if self.open.clean {
            i64::MAX
        } else {
            self.open.recovery_point
        };
        let cut = scanned
            .damage
            .iter()
            .find(|range| range.from_offset >= trusted)
            .copied();
        if let Some(cut) = cut {
            let shorter = Extent {
                size: cut.from_position,
                ..extent
            };
            scanned = self.scan(file.as_ref(), &path, shorter)?;
            scanned.tail = Some(BatchError::BadHeader(
                "a batch was never flushed and is damaged".to_owned(),
            ));
        }
        for range in &scanned.damage {
            self.damage.add(*range);
        }
        if let Some(reason) = &scanned.tail {
            let bytes = extent.size.saturating_sub(scanned.end);
            tracing::warn!(path = %path.display(), position = scanned.end, bytes, %reason, "the end of the log is cut off");
            let file = self
                .open
                .files
                .open(&path, OpenMode::ReadWrite)
                .at("open", &path)?;
            file.set_len(u64::try_from(scanned.end).unwrap_or(0))
                .at("truncate", &path)?;
            self.report.truncated_bytes = bytes;
        }
        self.report.rebuilt_indexes += 1;
        let extent = Extent {
            size: scanned.end,
            ..extent
        };
        let limits = self.limits();
        let mut active = self.active_segment(extent, modified_ms, limits);
        active.largest = scanned.largest;
        if let Some(first) = scanned.first_timestamp {
            active.first_timestamp = FirstTimestamp::Known(first);
        }
        for entry in &scanned.offset_entries {
            active.offset_index.append(*entry);
        }
        for entry in &scanned.time_entries {
            active.time_index.offer(*entry, false);
        }
        self.clear_indexes(extent.base_offset);
        Ok((active, scanned.next_offset))
    }

    /// Empties the active segment's indexes; their entries are in memory and are written again as they fill pages. An index that cannot be
    /// emptied is written over, and cut to its entries when the segment is closed.
    fn clear_indexes(&self, base_offset: i64) {
        for file in [SegmentFile::OffsetIndex, SegmentFile::TimeIndex] {
            let path = self.path(base_offset, file);
            if let Err(error) = index_file::write(self.open.files.as_ref(), &path, &[], false) {
                tracing::warn!(path = %path.display(), %error, "cannot empty an index");
            }
        }
    }

    fn active_segment(&self, extent: Extent, modified_ms: i64, limits: SegmentLimits) -> ActiveSegment {
        let now_ms = self.open.clock.wall_ms();
        let mut active = ActiveSegment::new(extent.base_offset, now_ms, limits);
        active.size = extent.size;
        active.modified_ms = modified_ms;
        if extent.size > 0 {
            active.first_timestamp = FirstTimestamp::Unread;
            // Its first batch came at some time before its last one.
            active.first_append_ms = Some(modified_ms);
        }
        active
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
