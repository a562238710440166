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
    /// The offsets that are taken sooner than under the settings in force, in order: none where the change is no
    /// lowering here, nearly always one range, at most two.
    pub taken: Vec<Range<i64>>,
    /// What besides a reader can make that less, where there is any.
    pub eases: Eases,
    /// Whether [`clamp`](super::clamp()) can find settings between; a deletion has none.
    pub can_clamp: bool,
    /// Whether the new `retention.ms` is a thousandth of the old one: seconds in a field of milliseconds.
    pub looks_like_seconds: bool,
}

/// What besides a reader can make less of what a change takes sooner than the settings in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Eases {
    /// The next moment, in milliseconds, at which time alone does: the settings in force take the oldest part of it too.
    pub at_ms: Option<i64>,
    /// The size of the log at which the settings in force take the oldest part of it.
    pub at_bytes: Option<i64>,
    /// Whether any record that comes in may: the active segment is part of it and gets younger.
    pub on_append: bool,
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
                let plan = plan(profile, start, high_watermark, log_end, later_ms, &in_force);
                (plan.new_log_start, plan.bytes_freed(profile))
            }
            Proposed::DeleteTopic => (log_end, profile.total_bytes()),
        };
        let (taken, eases) = taken_and_eases(view, now_ms, later_ms);
        Self {
            partition: view.partition,
            log_start,
            high_watermark,
            log_end,
            last_stable_offset: view.last_stable_offset,
            start_in_force: kept.new_log_start,
            start_proposed,
            bytes_freed,
            taken,
            eases,
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
        !self.taken.is_empty()
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
pub(super) fn taken(view: &PartitionView<'_>, now_ms: i64, later_ms: i64) -> Vec<Range<i64>> {
    taken_and_eases(view, now_ms, later_ms).0
}

fn taken_and_eases(view: &PartitionView<'_>, now_ms: i64, later_ms: i64) -> (Vec<Range<i64>>, Eases) {
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
    let fate = |rules: Rules| Fate {
        profile,
        now_ms,
        reach: reach(profile, log_start, high_watermark, log_end, &rules),
        rules,
    };
    let old = fate(in_force);
    let all = |first: usize, ranges: [Range<i64>; 2], last_append_ms: Option<i64>| {
        let taken: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        let takes_active = taken.last().is_some_and(|last| last.end == log_end);
        let eases = if taken.is_empty() {
            Eases::default()
        } else {
            old.eases(first, takes_active, last_append_ms)
        };
        (taken, eases)
    };
    let mut first = gone(&in_force, now_ms);
    let proposed = match view.proposed {
        Proposed::Rules(rules) if rules == in_force => return Default::default(),
        Proposed::Rules(rules) => rules,
        Proposed::DeleteRecords(offset) => {
            // The pass after it starts further on, and may go on past a segment that has been in its way.
            let deleted_to = records_end(offset, log_start, high_watermark);
            let reach = reach(profile, deleted_to, high_watermark, log_end, &in_force);
            let new = Fate { reach, ..old };
            let end = plan(profile, deleted_to, high_watermark, log_end, later_ms, &in_force).deleted();
            let end = partition_point(first, end, |index| new.goes_at(index) < old.goes_at(index));
            let range = start(first)..start(end).max(deleted_to);
            return all(first, [range, 0..0], None);
        }
        Proposed::DeleteTopic => return all(first, [start(first)..log_end, 0..0], None),
    };

    let new = fate(proposed);
    let active = profile.len().saturating_sub(1);
    let mut end = gone(&proposed, later_ms);
    let last_append_ms = last_append_kept_apart(view, &proposed, now_ms, later_ms);
    // Where the size rule in force takes the active segment, no record that comes in saves it.
    let saved_ms = last_append_ms
        .filter(|_| old.reach.by_size <= active)
        .map(|append_ms| {
            old.rules
                .age_limit_ms()
                .map_or(i64::MAX, |limit| plus(append_ms, limit))
        });
    if saved_ms.is_some() {
        first = first.min(active);
    }
    if in_force.ignored_ahead_ms().is_some() || proposed.ignored_ahead_ms().is_some() {
        // A timestamp that is ignored now and counts later breaks the order that is made use of below: a segment may go in a while and not
        // any more at the end of it. What is taken sooner lies between the first and the last such segment.
        let (goes, stays) = (new.timeline(), old.timeline());
        let sooner: Vec<usize> = (first..new.reach.limit)
            .filter(|index| {
                let kept_until = saved_ms.filter(|_| *index == active).unwrap_or(i64::MIN);
                goes[*index] <= later_ms && goes[*index] < stays[*index].max(kept_until)
            })
            .collect();
        let (Some(first), Some(last)) = (sooner.first(), sooner.last()) else {
            return Default::default();
        };
        return all(*first, [start(*first)..start(last + 1), 0..0], last_append_ms);
    }
    if first >= end {
        return Default::default();
    }
    let sooner = |index: usize| {
        let kept_until = saved_ms.filter(|_| index == active).unwrap_or(i64::MIN);
        new.goes_at(index) < old.goes_at(index).max(kept_until)
    };
    // Both sides' times rise with the segments, so what is taken sooner is a suffix of the candidates; or a prefix,
    // where the size rule takes a young segment out of the way under the new settings only. Beside such a prefix, the
    // active segment may be taken sooner on its own account.
    let candidates_end = end;
    let mut apart = end;
    if new.reach.by_size <= old.reach.by_size {
        first = partition_point(first, end, |index| !sooner(index));
    } else if saved_ms.is_some() && end == profile.len() && sooner(active) {
        let prefix = partition_point(first, active, sooner);
        if prefix < active {
            (end, apart) = (prefix, active);
        }
    } else {
        end = partition_point(first, end, sooner);
    }
    let ranges = [start(first)..start(end), start(apart)..start(candidates_end)];
    let first = if first < end { first } else { apart };
    all(first, ranges, last_append_ms)
}

/// Where the new settings close the active segment before a record that those in force would still add to it: the last
/// moment, up to `later_ms`, at which such a record may come.
pub(super) fn last_append_kept_apart(
    view: &PartitionView<'_>,
    proposed: &Rules,
    now_ms: i64,
    later_ms: i64,
) -> Option<i64> {
    let active = view.profile.active().filter(|active| active.size_bytes > 0)?;
    let closes_at = |rules: &Rules| {
        if active.size_bytes >= rules.segment_bytes {
            return i64::MIN;
        }
        view.active_since_ms
            .map_or(i64::MAX, |since| plus(since, rules.segment_ms))
    };
    let (old, new) = (closes_at(&view.in_force), closes_at(proposed).max(now_ms));
    (new <= later_ms && new < old).then(|| old.saturating_sub(1).min(later_ms))
}

/// The first moment that is more than `limit_ms` after `time_ms`.
fn plus(time_ms: i64, limit_ms: i64) -> i64 {
    time_ms.saturating_add(limit_ms).saturating_add(1)
}

/// When each segment goes under some rules, as far as time alone decides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fate<'a> {
    pub profile: &'a SegmentProfile,
    /// From when on there are passes: a timestamp may be ignored now and not any more when its segment would have expired.
    pub now_ms: i64,
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
        if self.rules.ignored_ahead_ms().is_some() {
            return self.timeline().get(index).copied().unwrap_or(i64::MAX);
        }
        let newest_ms = self
            .profile
            .latest_time_ms(self.reach.by_size, index)
            .unwrap_or(i64::MAX);
        plus(newest_ms, limit_ms)
    }

    /// [`Fate::goes_at`] of every segment.
    fn timeline(&self) -> Vec<i64> {
        let mut at_ms = i64::MIN;
        let goes = self.profile.iter().enumerate().map(|(index, segment)| {
            if index < self.reach.by_size {
                return i64::MIN;
            }
            let (Some(limit_ms), true) = (self.rules.age_limit_ms(), index < self.reach.limit) else {
                return i64::MAX;
            };
            let ignoring = segment.without_future.and_then(|without| {
                let first_ms = at_ms.max(plus(without.time_ms, limit_ms));
                let ignored = self.rules.ignores(without.future_ms, first_ms.max(self.now_ms));
                ignored.then_some(first_ms)
            });
            at_ms = ignoring.unwrap_or_else(|| at_ms.max(plus(segment.time_ms(), limit_ms)));
            at_ms
        });
        goes.collect()
    }

    /// What eases a change that takes segments from `first` on sooner than these rules do.
    fn eases(&self, first: usize, takes_active: bool, last_append_ms: Option<i64>) -> Eases {
        let time_takes = Some(self.goes_at(first)).filter(|at_ms| *at_ms < i64::MAX);
        Eases {
            // After the last append that could have been kept apart, the change closes the segment no sooner.
            at_ms: time_takes
                .into_iter()
                .chain(last_append_ms.map(|at_ms| at_ms.saturating_add(1)))
                .min(),
            at_bytes: self
                .rules
                .size_limit_bytes()
                .map(|limit| limit.saturating_add(self.profile.bytes_in_first(first + 1)))
                .filter(|_| first < self.reach.limit),
            on_append: takes_active,
        }
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
