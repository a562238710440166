//! What a change would do to one partition, before any reader is looked at.
//!
//! A record is lost to a change if the new settings take it at some moment between now and the end of the headroom at
//! which the settings in force would still keep it. Those records are one contiguous span of offsets. Comparing whole
//! moments, not only the last one, is what keeps a reader from losing a record some minutes early that it would
//! have read in time; and it makes a raise safe by definition, since it takes nothing any sooner.
//!
//! One thing besides the rules can differ between the two futures: smaller segments. Under the settings in force a
//! record that comes in may keep the active segment alive; where the new `segment.ms` or `segment.bytes` would
//! close it first, the records in it age without that help.
use std::ops::Range;

use super::plan::{Reach, plan, reach, start_after};
use super::profile::SegmentProfile;
use super::rules::Rules;

/// What is asked for on one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proposed {
    /// These settings.
    Rules(Rules),
    /// `DeleteRecords` up to, not including, this offset; a negative one is the high watermark.
    DeleteRecords(i64),
    /// The partition is deleted.
    DeleteTopic,
}

/// One partition's log as the guard sees it.
#[derive(Debug, Clone, Copy)]
pub struct PartitionView<'a> {
    /// Partition number.
    pub partition: i32,
    /// Its segments.
    pub profile: &'a SegmentProfile,
    /// Log start offset.
    pub log_start: i64,
    /// High watermark.
    pub high_watermark: i64,
    /// Log end offset.
    pub log_end: i64,
    /// Last stable offset: the first offset of the oldest open transaction, or the high watermark.
    pub last_stable_offset: i64,
    /// Since when `segment.ms` counts for the active segment, in milliseconds; `None` where it is empty.
    pub active_since_ms: Option<i64>,
    /// Settings in force.
    pub in_force: Rules,
    /// What is asked for.
    pub proposed: Proposed,
}

/// What a change would do to one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// Partition number.
    pub partition: i32,
    /// Log start offset now.
    pub log_start: i64,
    /// High watermark.
    pub high_watermark: i64,
    /// Log end offset.
    pub log_end: i64,
    /// Last stable offset.
    pub last_stable_offset: i64,
    /// Log start offset that a pass at the end of the headroom would leave under the settings in force.
    pub start_in_force: i64,
    /// The same under what is asked for.
    pub start_proposed: i64,
    /// Bytes that such a pass would free.
    pub bytes_freed: i64,
    /// The offsets that are taken sooner than under the settings in force. The change is a lowering where there are any.
    pub taken: Option<Range<i64>>,
    /// When the settings in force will have taken all of that too, in milliseconds; `None` for never.
    pub settles_at_ms: Option<i64>,
    /// Whether [`clamp`](super::clamp()) can find settings between; a deletion has none.
    pub can_clamp: bool,
    /// Whether the new `retention.ms` is a thousandth of the old one: seconds in a field of milliseconds.
    pub looks_like_seconds: bool,
}

impl Outlook {
    /// Looks ahead from `now_ms` over `headroom_ms` milliseconds.
    pub fn of(view: &PartitionView<'_>, now_ms: i64, headroom_ms: i64) -> Self {
        let PartitionView {
            profile,
            log_start,
            high_watermark,
            log_end,
            in_force,
            ..
        } = *view;
        let later_ms = now_ms.saturating_add(headroom_ms.max(0));
        let pass = |rules: &Rules| plan(profile, log_start, high_watermark, log_end, later_ms, rules);
        let kept = pass(&in_force);
        let (start_proposed, bytes_freed) = match view.proposed {
            Proposed::Rules(rules) => {
                let plan = pass(&rules);
                (plan.new_log_start, plan.bytes_freed(profile))
            }
            Proposed::DeleteRecords(offset) => {
                let start = records_end(offset, log_start, high_watermark);
                (start, profile.bytes_in_first(profile.closed_ending_by(start)))
            }
            Proposed::DeleteTopic => (log_end, profile.total_bytes()),
        };
        let taken = taken(view, now_ms, later_ms);
        Self {
            partition: view.partition,
            log_start,
            high_watermark,
            log_end,
            last_stable_offset: view.last_stable_offset,
            start_in_force: kept.new_log_start,
            start_proposed,
            bytes_freed,
            settles_at_ms: taken.as_ref().and_then(|taken| {
                let last = profile.position_of(taken.end.saturating_sub(1))?;
                let reach = reach(profile, log_start, high_watermark, log_end, &in_force);
                let at_ms = Fate {
                    profile,
                    reach,
                    rules: in_force,
                }
                .goes_at(last);
                (at_ms < i64::MAX).then_some(at_ms)
            }),
            taken,
            can_clamp: matches!(view.proposed, Proposed::Rules(_)),
            looks_like_seconds: match view.proposed {
                Proposed::Rules(rules) => rules
                    .age_limit_ms()
                    .zip(in_force.age_limit_ms())
                    .is_some_and(|(new, old)| new > 0 && new.checked_mul(1000) == Some(old)),
                _ => false,
            },
        }
    }

    /// Whether the change takes anything sooner than the settings in force.
    pub fn is_lowering(&self) -> bool {
        self.taken.is_some()
    }
}

/// Where the log starts after `DeleteRecords`: between the log start and the high watermark.
fn records_end(offset: i64, log_start: i64, high_watermark: i64) -> i64 {
    let end = if offset < 0 {
        high_watermark
    } else {
        offset.min(high_watermark)
    };
    end.max(log_start)
}

/// The offsets that what is proposed takes sooner than the settings in force do.
pub(super) fn taken(view: &PartitionView<'_>, now_ms: i64, later_ms: i64) -> Option<Range<i64>> {
    let PartitionView {
        profile,
        log_start,
        high_watermark,
        log_end,
        in_force,
        ..
    } = *view;
    let start = |deleted| start_after(profile, deleted, log_start, log_end);
    let gone =
        |rules: &Rules, at_ms| plan(profile, log_start, high_watermark, log_end, at_ms, rules).deleted();
    let span = |from: i64, to: i64| (from < to).then_some(from..to);
    let proposed = match view.proposed {
        Proposed::Rules(rules) if rules == in_force => return None,
        Proposed::Rules(rules) => rules,
        Proposed::DeleteRecords(offset) => {
            return span(
                start(gone(&in_force, now_ms)),
                records_end(offset, log_start, high_watermark),
            );
        }
        Proposed::DeleteTopic => return span(start(gone(&in_force, now_ms)), log_end),
    };

    let fate = |rules: Rules| Fate {
        profile,
        reach: reach(profile, log_start, high_watermark, log_end, &rules),
        rules,
    };
    let (old, new) = (fate(in_force), fate(proposed));
    let active = profile.len().saturating_sub(1);
    let closes_sooner = closes_sooner(view, &proposed, now_ms, later_ms);

    let mut first = gone(&in_force, now_ms);
    let mut end = gone(&proposed, later_ms);
    if closes_sooner && old.reach.by_size <= active {
        first = first.min(active);
    }
    if first >= end {
        return None;
    }
    let sooner = |index: usize| {
        let kept_until = if closes_sooner && index == active && old.reach.by_size <= active {
            i64::MAX
        } else {
            old.goes_at(index)
        };
        new.goes_at(index) < kept_until
    };
    // Both sides' times rise with the segments, so what is taken sooner is a suffix of the candidates; or a prefix,
    // where the size rule takes a young segment out of the way under the new settings only.
    if new.reach.by_size <= old.reach.by_size {
        first = partition_point(first, end, |index| !sooner(index));
    } else if !(closes_sooner && end == profile.len()) {
        end = partition_point(first, end, sooner);
    }
    if first >= end {
        None
    } else {
        span(start(first), start(end))
    }
}

/// Whether the new settings close the active segment before its next record where those in force would not.
pub(super) fn closes_sooner(view: &PartitionView<'_>, proposed: &Rules, now_ms: i64, later_ms: i64) -> bool {
    let in_force = &view.in_force;
    if proposed.segment_ms >= in_force.segment_ms && proposed.segment_bytes >= in_force.segment_bytes {
        return false;
    }
    let Some(active) = view.profile.active().filter(|active| active.size_bytes > 0) else {
        return false;
    };
    let closes = |rules: &Rules, at_ms: i64| {
        active.size_bytes >= rules.segment_bytes
            || view
                .active_since_ms
                .is_some_and(|since| at_ms.saturating_sub(since) > rules.segment_ms)
    };
    closes(proposed, later_ms) && !closes(in_force, now_ms)
}

/// When each segment goes under some rules, as far as time alone decides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fate<'a> {
    pub profile: &'a SegmentProfile,
    pub reach: Reach,
    pub rules: Rules,
}

impl Fate<'_> {
    /// The first moment, in milliseconds, at which a pass takes the segment: `i64::MIN` where size or the log start
    /// already do, `i64::MAX` for never.
    pub fn goes_at(&self, index: usize) -> i64 {
        if index < self.reach.by_size {
            return i64::MIN;
        }
        let (Some(limit_ms), true) = (self.rules.age_limit_ms(), index < self.reach.limit) else {
            return i64::MAX;
        };
        let newest_ms = self
            .profile
            .latest_time_ms(self.reach.by_size, index)
            .unwrap_or(i64::MAX);
        newest_ms.saturating_add(limit_ms).saturating_add(1)
    }
}

/// The first index in `from..to` for which `holds` is false, given that it is false for all after it.
fn partition_point(from: usize, to: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
