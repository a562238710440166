//! The active segment: the only one that grows.
//!
//! Closed segments are nothing but a line in the partition's [`SegmentProfile`](crate::retention::SegmentProfile) and
//! files on disk; what has to be remembered while a segment grows is here. Everything is plain memory: the caller
//! writes the bytes and tells the segment about them afterwards, so a failed write leaves no trace here.
//!
//! Invariants: `size` is the position where the next batch goes, also when the file is longer (preallocated, or torn
//! by a failed write); `largest` is the largest batch timestamp with the last offset of the first batch that had it.
use crate::log::batch::BatchHeader;
use crate::log::index::{OffsetIndex, OffsetPosition};
use crate::log::time_index::{TimeIndex, TimestampOffset};
use crate::retention::{CLOCK_TOLERANCE_MS, SegmentFacts, WithoutFuture};

/// Age of the active segment as Kafka counts it: by the largest timestamp of its first batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstTimestamp {
    /// Nothing appended yet.
    Empty,
    /// The first batch is on disk and has not been looked at.
    Unread,
    /// Largest timestamp of the first batch; negative if its records have none.
    Known(i64),
}

/// What a segment takes from the topic's settings when it is made; later changes are for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentLimits {
    /// `segment.index.bytes`.
    pub index_bytes: i64,
    /// `index.interval.bytes`.
    pub index_interval_bytes: i64,
    /// Subtracted from `segment.ms`, so that partitions filled alike do not roll all at once.
    pub jitter_ms: i64,
}

/// What the log knows about its growing segment.
#[derive(Debug)]
pub struct ActiveSegment {
    /// Base offset.
    pub base_offset: i64,
    /// Bytes of batches.
    pub size: i64,
    /// Largest batch timestamp so far, and its offset.
    pub largest: TimestampOffset,
    /// Largest batch timestamp that is not of the future, negative if there is none.
    pub past_ms: i64,
    /// Smallest batch timestamp of the future: more than [`CLOCK_TOLERANCE_MS`] ahead of the clock when it came.
    pub future_ms: Option<i64>,
    /// Timestamp its age counts from.
    pub first_timestamp: FirstTimestamp,
    /// Wall time in ms since when it is open; stands in where the first batch has no timestamp.
    pub created_ms: i64,
    /// Wall time in ms when its first batch came, as far as that is known; none while it is empty.
    pub first_append_ms: Option<i64>,
    /// Wall time in ms of the last append.
    pub modified_ms: i64,
    /// The offset index.
    pub offset_index: OffsetIndex,
    /// The time index.
    pub time_index: TimeIndex,
    /// Settings as of its creation.
    pub limits: SegmentLimits,
    /// Bytes since the last index entry; as in Kafka not kept over a restart.
    pub bytes_since_entry: i64,
    /// The file may be longer than `size`: preallocated, or a write failed half-way.
    pub trim_needed: bool,
}

impl ActiveSegment {
    /// A new, empty segment.
    pub fn new(base_offset: i64, now_ms: i64, limits: SegmentLimits) -> Self {
        Self {
            base_offset,
            size: 0,
            largest: TimestampOffset::none(base_offset),
            past_ms: -1,
            future_ms: None,
            first_timestamp: FirstTimestamp::Empty,
            created_ms: now_ms,
            first_append_ms: None,
            modified_ms: now_ms,
            offset_index: OffsetIndex::new(base_offset, limits.index_bytes),
            time_index: TimeIndex::new(base_offset, limits.index_bytes),
            limits,
            bytes_since_entry: 0,
            trim_needed: false,
        }
    }

    /// Tells timestamps of the future from others in a segment that was just loaded with its `largest` one. `below` and `above` are the entries of
    /// its time index on both sides of `tolerated_ms`, up to where no timestamp is of the future.
    pub fn loaded(&mut self, tolerated_ms: i64, below: Option<i64>, above: Option<i64>) {
        let largest = self.largest.timestamp;
        if largest <= tolerated_ms {
            self.past_ms = largest;
            return;
        }
        let future_ms = above.unwrap_or(largest);
        let without = WithoutFuture::from_index(below.unwrap_or(-1), future_ms, self.modified_ms);
        self.past_ms = without.time_ms;
        self.future_ms = Some(future_ms);
    }

    /// Takes note of a batch that was written at the end, as Kafka's `LogSegment.append` does batch by batch.
    pub fn appended(&mut self, batch: &BatchHeader, now_ms: i64) {
        let last_offset = batch.last_offset();
        if batch.max_timestamp > self.largest.timestamp {
            self.largest = TimestampOffset {
                timestamp: batch.max_timestamp,
                offset: last_offset,
            };
        }
        if batch.max_timestamp > now_ms.saturating_add(CLOCK_TOLERANCE_MS) {
            let least = self.future_ms.unwrap_or(i64::MAX).min(batch.max_timestamp);
            self.future_ms = Some(least);
        } else {
            self.past_ms = self.past_ms.max(batch.max_timestamp);
        }
        if self.bytes_since_entry > self.limits.index_interval_bytes {
            self.offset_index.append(OffsetPosition {
                offset: last_offset,
                position: self.size,
            });
            self.time_index.offer(self.largest, false);
            self.bytes_since_entry = 0;
        }
        if self.size == 0 {
            self.first_timestamp = FirstTimestamp::Known(batch.max_timestamp);
            self.first_append_ms = Some(now_ms);
        }
        self.bytes_since_entry = self.bytes_since_entry.saturating_add(i64::from(batch.size));
        self.size = self.size.saturating_add(i64::from(batch.size));
        self.modified_ms = now_ms;
    }

    /// What retention needs to know of it.
    pub fn facts(&self) -> SegmentFacts {
        SegmentFacts {
            base_offset: self.base_offset,
            size_bytes: self.size,
            largest_timestamp: self.largest.timestamp,
            modified_ms: self.modified_ms,
            without_future: self.future_ms.map(|future_ms| WithoutFuture {
                time_ms: if self.past_ms >= 0 {
                    self.past_ms
                } else {
                    self.modified_ms
                },
                future_ms,
            }),
        }
    }
}
