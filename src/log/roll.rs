//! When the active segment is closed and a new one begun, and how.
//!
//! The order and the comparisons are Kafka's (`LogSegment.shouldRoll`): exact fill is allowed, age is strictly greater,
//! age counts from the first batch's timestamp to that of the incoming batches, and the wall clock plays a part only
//! where there is no timestamp. The idle roll is ours: Kafka never looks at an idle partition again.
use std::path::Path;

use crate::log::error::{LogError, PathContext};
use crate::log::files::{self, OpenMode};
use crate::log::names::SegmentFile;
use crate::log::partition::{PartitionLog, View, Writer};
use crate::log::segment::{ActiveSegment, FirstTimestamp, SegmentLimits};
use crate::log::snapshot;
use crate::resource::settings::TopicSettings;

/// What is about to be appended, as far as rolling cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incoming {
    /// Bytes of all batches together.
    pub size: i64,
    /// Largest timestamp of all batches in ms, -1 if there is none.
    pub max_timestamp: i64,
    /// Last offset of the last batch.
    pub last_offset: i64,
}

/// Settings that apply to the active segment as they are now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollLimits {
    /// `segment.bytes`.
    pub segment_bytes: i64,
    /// `segment.ms`, for compacted topics no more than `max.compaction.lag.ms`.
    pub segment_ms: i64,
}

/// Why a segment is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollReason {
    /// The batches would not fit into `segment.bytes`.
    Size,
    /// Older than `segment.ms`.
    Age,
    /// The offset index is full.
    OffsetIndexFull,
    /// The time index is full.
    TimeIndexFull,
    /// The last offset is more than 31 bits above the base.
    OffsetRange,
}

/// Whether the active segment must be closed before `incoming` is appended.
///
/// `now_ms` is wall time. The first timestamp must have been read if the segment has any batch;
/// [`FirstTimestamp::Unread`] counts as none.
pub fn before_append(
    active: &ActiveSegment,
    incoming: &Incoming,
    limits: &RollLimits,
    now_ms: i64,
) -> Option<RollReason> {
    if active.size > limits.segment_bytes.saturating_sub(incoming.size) {
        return Some(RollReason::Size);
    }
    if active.size > 0 && waited(active, incoming, now_ms) > age_limit(active, limits) {
        return Some(RollReason::Age);
    }
    if active.offset_index.is_full() {
        return Some(RollReason::OffsetIndexFull);
    }
    if active.time_index.is_full() {
        return Some(RollReason::TimeIndexFull);
    }
    let relative = incoming.last_offset.checked_sub(active.base_offset);
    let fits = relative.is_some_and(|relative| (0..=i64::from(i32::MAX)).contains(&relative));
    (!fits).then_some(RollReason::OffsetRange)
}

/// Whether a segment to which nothing is appended should be closed: its first batch came more than `segment.ms` ago.
pub fn when_idle(active: &ActiveSegment, limits: &RollLimits, now_ms: i64) -> bool {
    active.size > 0
        && active
            .first_append_ms
            .is_some_and(|first| now_ms.saturating_sub(first) > age_limit(active, limits))
}

fn age_limit(active: &ActiveSegment, limits: &RollLimits) -> i64 {
    limits.segment_ms.saturating_sub(active.limits.jitter_ms)
}

fn waited(active: &ActiveSegment, incoming: &Incoming, now_ms: i64) -> i64 {
    match active.first_timestamp {
        FirstTimestamp::Known(first) if first >= 0 => incoming.max_timestamp.saturating_sub(first),
        _ => now_ms.saturating_sub(active.created_ms),
    }
}

impl From<&TopicSettings> for RollLimits {
    fn from(settings: &TopicSettings) -> Self {
        Self {
            segment_bytes: settings.segment_bytes,
            segment_ms: settings.effective_segment_ms(),
        }
    }
}

impl SegmentLimits {
    /// What a segment made now takes from the settings; draws its jitter.
    pub fn drawn(settings: &TopicSettings) -> Self {
        let bound = settings.segment_jitter_ms.min(settings.segment_ms);
        let drawn = match u64::try_from(bound) {
            Ok(bound) if bound > 0 => uuid::Uuid::new_v4().as_u64_pair().1 % bound,
            _ => 0,
        };
        Self {
            index_bytes: settings.segment_index_bytes,
            index_interval_bytes: settings.index_interval_bytes,
            jitter_ms: i64::try_from(drawn).unwrap_or(0),
        }
    }
}

impl PartitionLog {
    /// Closes the active segment if `incoming` asks for it.
    pub(crate) fn roll_before_append(
        &self,
        writer: &mut Writer,
        incoming: &Incoming,
        now_ms: i64,
    ) -> Result<(), LogError> {
        self.read_first_timestamp()?;
        let limits = RollLimits::from(self.settings.load().as_ref());
        let reason = before_append(&self.view.lock().active, incoming, &limits, now_ms);
        match reason {
            Some(_) => self.roll(writer, now_ms),
            None => Ok(()),
        }
    }

    /// Closes an active segment that has been open for longer than `segment.ms` although nothing is appended; says whether it
    /// did. `now_ms` is wall time. Touches no file where nothing is to be done.
    ///
    /// # Errors
    /// The storage refused; the segment stays as it is.
    pub fn idle_roll(&self, now_ms: i64) -> Result<bool, LogError> {
        let limits = RollLimits::from(self.settings.load().as_ref());
        if !when_idle(&self.view.lock().active, &limits, now_ms) {
            return Ok(false);
        }
        let mut writer = self.writer.lock();
        {
            let view = self.view.lock();
            self.check_writable(&view)?;
            if !when_idle(&view.active, &limits, now_ms) {
                return Ok(false);
            }
        }
        self.roll(&mut writer, now_ms)?;
        Ok(true)
    }

    /// What was drawn for the active segment from `segment.jitter.ms`, ms.
    pub fn segment_jitter_ms(&self) -> i64 {
        self.view.lock().active.limits.jitter_ms
    }

    /// Closes the active segment and begins a new one at the log end. An empty active segment is begun anew in place.
    ///
    /// The new files come first: as long as one of them cannot be made the old segment stays the active one, complete.
    pub(crate) fn roll(&self, writer: &mut Writer, now_ms: i64) -> Result<(), LogError> {
        let settings = self.settings.load();
        let (old_base, old_size, new_base) = {
            let view = self.view.lock();
            (view.active.base_offset, view.active.size, view.log_end)
        };
        let mut fresh = ActiveSegment::new(new_base, now_ms, SegmentLimits::drawn(&settings));
        if old_base == new_base && old_size > 0 {
            // Cannot be: a segment with bytes has offsets. Refusing beats overwriting it.
            return Err(LogError::malformed(
                &self.directory,
                "the active segment has bytes and no offsets",
            ));
        }
        self.create_segment_files(new_base, &settings)?;
        fresh.trim_needed = settings.preallocate;
        if old_base == new_base {
            let mut view = self.view.lock();
            view.active = fresh;
            let facts = view.active.facts();
            view.segments.set_active(facts);
            return Ok(());
        }
        let closed = self.close_active(&mut self.view.lock());
        if let Err(error) = closed {
            self.remove_segment_files(new_base);
            return Err(error);
        }
        // Without its snapshot a restart only has to replay more of the log.
        let snapshot = snapshot::write(self.files.as_ref(), &self.directory, new_base, &writer.producers);
        if let Err(error) = snapshot {
            tracing::warn!(topic = self.topic, partition = self.partition, %error, "cannot write a producer snapshot");
        }
        let mut view = self.view.lock();
        let facts = view.active.facts();
        view.segments.set_active(facts);
        view.active = fresh;
        let facts = view.active.facts();
        view.segments.push(facts);
        view.directory_dirty = true;
        Ok(())
    }

    /// Makes the active segment's files what those of a closed one are: closing time index entry, no padding anywhere.
    pub(crate) fn close_active(&self, view: &mut View) -> Result<(), LogError> {
        let largest = view.active.largest;
        view.active.time_index.offer(largest, true);
        self.store_indexes(view)?;
        let base_offset = view.active.base_offset;
        let trimmed = |file: SegmentFile| {
            let path = self.segment_path(base_offset, file);
            self.writable(base_offset, file)
                .at("open", &path)
                .map(|handle| (handle, path))
        };
        let (handle, path) = trimmed(SegmentFile::OffsetIndex)?;
        view.active.offset_index.trim(handle.as_ref()).at("trim", &path)?;
        let (handle, path) = trimmed(SegmentFile::TimeIndex)?;
        view.active.time_index.trim(handle.as_ref()).at("trim", &path)?;
        if view.active.trim_needed {
            let (handle, path) = trimmed(SegmentFile::Log)?;
            let size = u64::try_from(view.active.size).unwrap_or(0);
            handle.set_len(size).at("trim", &path)?;
            view.active.trim_needed = false;
        }
        Ok(())
    }

    /// Makes the three files of an empty segment; what lies there under these names is a leftover and is emptied.
    fn create_segment_files(&self, base_offset: i64, settings: &TopicSettings) -> Result<(), LogError> {
        let create = |file: SegmentFile| {
            let path = self.segment_path(base_offset, file);
            let handle = self.files.open(&path, OpenMode::Truncate).at("create", &path)?;
            if file == SegmentFile::Log && settings.preallocate {
                let len = u64::try_from(settings.segment_bytes).unwrap_or(0);
                handle.set_len(len).at("preallocate", &path)?;
            }
            self.handles
                .insert(self.handle_key(base_offset, file), true, handle);
            Ok(())
        };
        let created = SEGMENT_FILES.into_iter().try_for_each(create);
        if created.is_err() {
            self.remove_segment_files(base_offset);
        }
        created
    }

    /// Takes back what [`PartitionLog::create_segment_files`] made; best effort, the next roll empties what is left.
    fn remove_segment_files(&self, base_offset: i64) {
        self.handles.forget(self.owner, base_offset);
        if self.view.lock().active.base_offset == base_offset {
            return;
        }
        for file in SEGMENT_FILES {
            let path = self.segment_path(base_offset, file);
            if let Err(error) = files::unlink_if_present(self.files.as_ref(), &path) {
                warn_leftover(&path, &error);
            }
        }
    }
}

/// The files every segment has.
const SEGMENT_FILES: [SegmentFile; 3] = [SegmentFile::OffsetIndex, SegmentFile::TimeIndex, SegmentFile::Log];

fn warn_leftover(path: &Path, error: &LogError) {
    tracing::warn!(path = %path.display(), %error, "cannot remove the file of a segment that was not begun");
}
