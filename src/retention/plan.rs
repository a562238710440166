//! Kafka's retention routine as a function: which segments go, why, and where the log starts then.
//!
//! The rules are those of `UnifiedLog.deleteOldSegments` in Apache Kafka 4.4: three passes (start offset, size, time),
//! each taking whole segments from the front and stopping at the first that it may not take, none going past the
//! high watermark. Invariants: the new start is never below the old one and never above the high watermark; applying
//! a plan and planning again at the same time deletes nothing.
use super::profile::{SegmentFacts, SegmentProfile};
use super::rules::Rules;

/// What one pass over one partition deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The log start offset after the pass.
    pub new_log_start: i64,
    /// Oldest segments deleted because they lie wholly below the log start offset.
    pub by_start: usize,
    /// Segments after those, deleted because `retention.bytes` is exceeded.
    pub by_size: usize,
    /// Segments after those, deleted because `retention.ms` is exceeded.
    pub by_time: usize,
    /// Whether the active segment is among them: an empty one is to be rolled at the log end first.
    pub rolls_active: bool,
    /// The segment that stops the time rule because its time lies in the future.
    pub blocked: Option<Blocked>,
}

/// Why a segment is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It lies wholly below the log start offset, after a `DeleteRecords`.
    Start,
    /// `retention.bytes` is exceeded by at least its size.
    Size,
    /// Its newest record is older than `retention.ms`.
    Time,
}

impl Reason {
    /// The reason as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Size => "size",
            Self::Time => "time",
        }
    }
}

/// A segment that a pass deletes, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// The segment.
    pub segment: SegmentFacts,
    /// The rule that takes it.
    pub reason: Reason,
}

/// A segment whose time lies in the future, so that neither it nor any segment after it can expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// Base offset of the segment.
    pub base_offset: i64,
    /// The time that lies ahead.
    pub time: FutureTime,
    /// How far ahead it is, in milliseconds; at least 1.
    pub ahead_ms: i64,
}

/// Where a time in the future comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FutureTime {
    /// The largest timestamp of the segment's records, in milliseconds.
    RecordTimestamp(i64),
    /// The file's modification time, in milliseconds: no record has a timestamp.
    ModifiedTime(i64),
}

impl Plan {
    /// How many segments go, from the oldest on.
    pub fn deleted(&self) -> usize {
        self.by_start + self.by_size + self.by_time
    }

    /// Whether the pass leaves everything as it is.
    pub fn is_empty(&self) -> bool {
        self.deleted() == 0
    }

    /// The segments that go, oldest first, each with its reason. `profile` is the one that was planned on.
    pub fn deletions<'a>(&self, profile: &'a SegmentProfile) -> impl Iterator<Item = Deletion> + 'a {
        let reasons = std::iter::repeat_n(Reason::Start, self.by_start)
            .chain(std::iter::repeat_n(Reason::Size, self.by_size))
            .chain(std::iter::repeat_n(Reason::Time, self.by_time));
        profile.iter().zip(reasons).map(|(segment, reason)| Deletion {
            segment: *segment,
            reason,
        })
    }

    /// Bytes of the segments that go. `profile` is the one that was planned on.
    pub fn bytes_freed(&self, profile: &SegmentProfile) -> i64 {
        profile.bytes_in_first(self.deleted())
    }
}

/// Plans one pass over one partition.
///
/// `log_start`, `high_watermark` and `log_end` are offsets, `now_ms` is wall time in milliseconds. The cost is
/// logarithmic in the number of segments.
pub fn plan(
    profile: &SegmentProfile,
    log_start: i64,
    high_watermark: i64,
    log_end: i64,
    now_ms: i64,
    rules: &Rules,
) -> Plan {
    let reach = reach(profile, log_start, high_watermark, log_end, rules);
    let expired = match rules.age_limit_ms() {
        Some(_) => first_not_expired(profile, reach.by_size, reach.limit, now_ms, rules),
        None => reach.by_size,
    };
    let blocked = profile
        .get(expired)
        .map(|stop| (stop, stop.time_at_ms(now_ms, rules)))
        .filter(|(_, time_ms)| rules.age_limit_ms().is_some() && expired < reach.limit && *time_ms > now_ms)
        .map(|(stop, time_ms)| Blocked {
            base_offset: stop.base_offset,
            time: if time_ms == stop.modified_ms && time_ms != stop.largest_timestamp {
                FutureTime::ModifiedTime(time_ms)
            } else {
                FutureTime::RecordTimestamp(time_ms)
            },
            ahead_ms: time_ms.saturating_sub(now_ms),
        });
    Plan {
        new_log_start: start_after(profile, expired, log_start, log_end),
        by_start: reach.by_start,
        by_size: reach.by_size - reach.by_start,
        by_time: expired - reach.by_size,
        rolls_active: expired > 0 && expired == profile.len(),
        blocked,
    }
}

/// The first segment from `from` on, not going past `limit`, that the time rule keeps; `limit` where it takes all.
fn first_not_expired(
    profile: &SegmentProfile,
    from: usize,
    limit: usize,
    now_ms: i64,
    rules: &Rules,
) -> usize {
    let mut index = from;
    loop {
        index = profile.first_time(index, limit, |time_ms| !rules.is_expired(time_ms, now_ms));
        // What stays by its largest timestamp may go where that one is ignored.
        let goes = index < limit
            && profile
                .get(index)
                .is_some_and(|stop| rules.is_expired(stop.time_at_ms(now_ms, rules), now_ms));
        if !goes {
            return index;
        }
        index += 1;
    }
}

/// How far each rule that does not depend on time reaches, as numbers of segments from the oldest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// Segments that any rule may take: the high watermark covers them, and an empty active one is none of them.
    pub limit: usize,
    /// Segments wholly below the log start offset.
    pub by_start: usize,
    /// Those and the ones the size rule takes.
    pub by_size: usize,
}

pub(super) fn reach(
    profile: &SegmentProfile,
    log_start: i64,
    high_watermark: i64,
    log_end: i64,
    rules: &Rules,
) -> Reach {
    let closed = profile.closed_ending_by(high_watermark);
    let active_may_go = closed + 1 == profile.len()
        && high_watermark >= log_end
        && profile.active().is_some_and(|active| active.size_bytes > 0);
    let limit = if active_may_go { closed + 1 } else { closed };

    let by_start = profile.closed_ending_by(log_start).min(closed);
    let left = profile
        .total_bytes()
        .saturating_sub(profile.bytes_in_first(by_start));
    let by_size = match rules.size_limit_bytes() {
        Some(size_limit) if left >= size_limit => {
            profile.run_within_bytes(by_start, limit, left.saturating_sub(size_limit))
        }
        _ => by_start,
    };
    Reach {
        limit,
        by_start,
        by_size,
    }
}

/// The log start once the `deleted` oldest segments are gone.
pub(super) fn start_after(profile: &SegmentProfile, deleted: usize, log_start: i64, log_end: i64) -> i64 {
    match profile.get(deleted) {
        Some(first) if deleted > 0 => log_start.max(first.base_offset),
        None if deleted > 0 => log_start.max(log_end),
        _ => log_start,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
