//! The lowest settings between those in force and those asked for that lose nothing now.
use std::ops::Range;

use super::guard::LastData;
use super::outlook::{PartitionView, Proposed, last_append_kept_apart, taken};
use super::plan::plan;
use super::rules::Rules;

/// As much of a change as loses nothing on one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clamped {
    /// The settings to apply. No limit in them is below what was asked for, nor looser than both that and the one in force.
    pub rules: Rules,
    /// The position that every reader must reach before a lower step is possible.
    pub steps_at: i64,
}

/// Finds them for one partition of [`Judgement::held`](super::Judgement::held). `slowest` is the first offset that the slowest
/// reader has not read. `None` where what is asked for is not a matter of settings.
///
/// Each of `retention.ms` and `retention.bytes` is the least that is safe given the other, to the millisecond and the
/// byte: the size limit is found first, with the loosest age limit allowed, then the age limit beside it.
///
/// Once they are in force, the change is to be judged again: what it still waits for is told from these settings, and
/// where nothing of it is left that a reader would lose, the rest goes in at once.
pub fn clamp(
    view: &PartitionView<'_>,
    slowest: i64,
    now_ms: i64,
    headroom_ms: i64,
    last_data: &mut LastData<'_>,
) -> Option<Clamped> {
    let Proposed::Rules(asked) = view.proposed else {
        return None;
    };
    let later_ms = now_ms.saturating_add(headroom_ms.max(0));
    let mut asked_before: Vec<(Range<i64>, bool)> = Vec::new();
    let mut loses = |rules: Rules, last_data: &mut LastData<'_>| {
        let view = PartitionView {
            proposed: Proposed::Rules(rules),
            ..*view
        };
        taken(&view, now_ms, later_ms).into_iter().any(|taken| {
            let unread = slowest.max(taken.start)..taken.end;
            if unread.is_empty() {
                return false;
            }
            if let Some((_, holds_data)) = asked_before.iter().find(|(range, _)| *range == unread) {
                return *holds_data;
            }
            let holds_data = last_data(view.partition, unread.clone()).is_some();
            asked_before.push((unread, holds_data));
            holds_data
        })
    };

    let in_force = &view.in_force;
    let loosest_ms = looser(asked.retention_ms, in_force.age_limit_ms());
    let loosest_bytes = looser(asked.retention_bytes, in_force.size_limit_bytes());
    let mut rules = Rules {
        retention_ms: loosest_ms,
        retention_bytes: loosest_bytes,
        ..asked
    };
    if rules.ignore_ahead_ms != in_force.ignore_ahead_ms && loses(rules, last_data) {
        rules.ignore_ahead_ms = looser(asked.ignore_ahead_ms, in_force.ignored_ahead_ms());
    }
    if loses(rules, last_data) {
        // Even the limits in force lose something when the active segment is closed this early.
        let gentle = gentler_segments(view, &rules, now_ms, later_ms);
        rules = if loses(gentle, last_data) {
            Rules {
                segment_ms: asked.segment_ms.max(in_force.segment_ms),
                segment_bytes: asked.segment_bytes.max(in_force.segment_bytes),
                ..rules
            }
        } else {
            gentle
        };
    }
    rules.retention_bytes = least(asked.retention_bytes, loosest_bytes, |retention_bytes| {
        !loses(
            Rules {
                retention_bytes,
                ..rules
            },
            last_data,
        )
    });
    rules.retention_ms = least(asked.retention_ms, loosest_ms, |retention_ms| {
        !loses(
            Rules {
                retention_ms,
                ..rules
            },
            last_data,
        )
    });
    let first_taken = taken(view, now_ms, later_ms)
        .first()
        .map_or(slowest, |taken| taken.start);
    let steps_at = next_step(view, slowest.max(first_taken), last_data);
    Some(Clamped { rules, steps_at })
}

/// What comes after `now`, settings that an earlier clamp towards the same change put in force. `found` is what a clamp finds for
/// this moment.
///
/// They stay as long as they are safe and a lower step would free nothing. Where time or appends have made them unsafe they are
/// raised, by `longer_ms` more than the headroom at once, so that a reader that stands still does not have them raised at
/// every look.
pub fn step(
    view: &PartitionView<'_>,
    now: &Rules,
    found: Clamped,
    look: Look,
    longer_ms: i64,
    last_data: &mut LastData<'_>,
) -> Clamped {
    let Proposed::Rules(asked) = view.proposed else {
        return found;
    };
    let Look {
        slowest,
        now_ms,
        headroom_ms,
    } = look;
    if !lies_above(now, &asked, &found.rules) || loses_now(view, now, slowest, now_ms, last_data) {
        let longer_ms = headroom_ms.max(0).saturating_add(longer_ms);
        return clamp(view, slowest, now_ms, longer_ms, last_data).unwrap_or(found);
    }
    let later_ms = now_ms.saturating_add(headroom_ms.max(0));
    let start = |rules: &Rules| {
        plan(
            view.profile,
            view.log_start,
            view.high_watermark,
            view.log_end,
            later_ms,
            rules,
        )
        .new_log_start
    };
    if start(&found.rules) > start(now) {
        found
    } else {
        Clamped { rules: *now, ..found }
    }
}

/// When and for whom one looks.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The first offset that the slowest reader has not read.
    pub slowest: i64,
    /// The time, ms.
    pub now_ms: i64,
    /// How far ahead, ms.
    pub headroom_ms: i64,
}

/// Whether a pass under `rules` takes something unread now that the settings in force keep.
fn loses_now(
    view: &PartitionView<'_>,
    rules: &Rules,
    slowest: i64,
    now_ms: i64,
    last_data: &mut LastData<'_>,
) -> bool {
    let view = PartitionView {
        proposed: Proposed::Rules(*rules),
        ..*view
    };
    taken(&view, now_ms, now_ms).into_iter().any(|taken| {
        let unread = slowest.max(taken.start)..taken.end;
        !unread.is_empty() && last_data(view.partition, unread).is_some()
    })
}

/// Whether no limit in `rules` is below what was `asked` for, and they close segments as `found` does.
fn lies_above(rules: &Rules, asked: &Rules, found: &Rules) -> bool {
    let above = |limit: i64, asked: i64| limit < 0 || (asked >= 0 && limit >= asked);
    above(rules.retention_ms, asked.retention_ms)
        && above(rules.retention_bytes, asked.retention_bytes)
        && Rules {
            retention_ms: found.retention_ms,
            retention_bytes: found.retention_bytes,
            ..*rules
        } == *found
}

/// The looser of a limit as asked for and one in force; negative is no limit.
fn looser(asked: i64, in_force: Option<i64>) -> i64 {
    match in_force {
        Some(limit) if asked >= 0 => asked.max(limit),
        _ => -1,
    }
}

/// The least limit from `low` to `high` that is `safe`, given that every looser one is. `high` is taken to be safe.
fn least(low: i64, high: i64, mut safe: impl FnMut(i64) -> bool) -> i64 {
    if low < 0 || low == high {
        return low;
    }
    let (mut low, mut top) = (low, if high < 0 { i64::MAX } else { high });
    while low < top {
        let middle = low + (top - low) / 2;
        if safe(middle) {
            top = middle;
        } else {
            low = middle + 1;
        }
    }
    if low == i64::MAX { high } else { low }
}

/// The smallest segment settings that do not close the active segment sooner than those in force.
fn gentler_segments(view: &PartitionView<'_>, rules: &Rules, now_ms: i64, later_ms: i64) -> Rules {
    let in_force = &view.in_force;
    if last_append_kept_apart(view, rules, now_ms, later_ms).is_none() {
        return *rules;
    }
    let age_ms = view
        .active_since_ms
        .map_or(i64::MIN, |since| later_ms.saturating_sub(since));
    let size = view.profile.active().map_or(0, |active| active.size_bytes);
    Rules {
        segment_ms: rules.segment_ms.max(age_ms.min(in_force.segment_ms)),
        segment_bytes: rules
            .segment_bytes
            .max(size.saturating_add(1).min(in_force.segment_bytes)),
        ..*rules
    }
}

/// The offset after the last data record of the segment that a reader at `from` has yet to finish.
fn next_step(view: &PartitionView<'_>, from: i64, last_data: &mut LastData<'_>) -> i64 {
    let from = from.max(view.log_start);
    let mut index = view.profile.position_of(from).unwrap_or_default();
    while let Some(next) = view.profile.get(index + 1) {
        let end = next.base_offset;
        if let Some(last) = (from < end)
            .then(|| last_data(view.partition, from..end))
            .flatten()
        {
            return last.saturating_add(1);
        }
        index += 1;
    }
    (from < view.log_end)
        .then(|| last_data(view.partition, from..view.log_end))
        .flatten()
        .map_or(view.log_end, |last| last.saturating_add(1))
}

#[cfg(test)]
#[path = "clamp_tests.rs"]
mod tests;
