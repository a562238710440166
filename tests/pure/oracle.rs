//! Who would lose what, found by trying: the walk runs under both settings at every moment that could matter.
//!
//! This is the promise itself, written without the planner: a record is lost to a change if, at some moment between now
//! and the end of the headroom, a pass under the new settings takes it and one under the old settings would not.
use std::ops::Range;

use tidemark::retention::Rules;

use crate::naive::{Naive, Segment};

/// The ranges of offsets that `new` takes sooner than `old`, one for each moment and future tried; they overlap.
///
/// `active_since` is the time from which the age of the active segment counts, where it holds a record.
pub fn taken_sooner(
    log: &Naive,
    active_since: Option<i64>,
    old: &Rules,
    new: &Rules,
    now: i64,
    headroom: i64,
) -> Vec<Range<i64>> {
    let later = now.saturating_add(headroom);
    if old == new {
        return Vec::new();
    }
    let moments = moments(log, new, now, later);
    let mut ranges = Vec::new();
    let mut compare = |with_old: &Naive, with_new: &Naive, moment: i64| {
        let (mut kept, mut taken) = (with_old.clone(), with_new.clone());
        kept.pass(moment, old);
        taken.pass(moment, new);
        if taken.start > kept.start {
            ranges.push(kept.start..taken.start.min(log.end));
        }
    };
    for moment in &moments {
        compare(log, log, *moment);
    }
    // A record may come in that only the old settings put into the segment that is active now.
    let closes = |rules: &Rules, at: i64| {
        log.segments.last().is_some_and(|active| {
            active.size > 0
                && (active.size >= rules.segment_bytes
                    || active_since.is_some_and(|since| {
                        i128::from(at) - i128::from(since) > i128::from(rules.segment_ms)
                    }))
        })
    };
    if old.segment_ms != new.segment_ms || old.segment_bytes != new.segment_bytes {
        let ends = [old, new].map(|rules| active_since.unwrap_or(now).saturating_add(rules.segment_ms));
        let arrivals = moments
            .iter()
            .copied()
            .chain([later])
            .chain(ends.iter().flat_map(|end| [*end, end.saturating_add(1)]));
        for arrival in arrivals
            .filter(|arrival| (now..=later).contains(arrival))
            .collect::<Vec<_>>()
        {
            if closes(old, arrival) || !closes(new, arrival) {
                continue;
            }
            let (with_old, with_new) = (appended(log, arrival, false), appended(log, arrival, true));
            for moment in moments
                .iter()
                .copied()
                .filter(|moment| *moment >= arrival)
                .chain([arrival])
            {
                compare(&with_old, &with_new, moment);
            }
        }
    }
    ranges
}

/// The log after one record without size that is stamped `time`, in a segment of its own or in the active one.
fn appended(log: &Naive, time: i64, closes: bool) -> Naive {
    let mut log = log.clone();
    if log.high_watermark >= log.end {
        log.high_watermark = log.end + 1;
    }
    if closes {
        log.segments.push(Segment {
            base: log.end,
            size: 0,
            timestamp: time,
            modified: time,
        });
    } else if let Some(active) = log.segments.last_mut() {
        active.timestamp = active.timestamp.max(time);
        active.modified = active.modified.max(time);
    }
    log.end += 1;
    log
}

/// The moments between `now` and `later` at which `rules` take a segment for the first time, if at all; and `now`.
fn moments(log: &Naive, rules: &Rules, now: i64, later: i64) -> Vec<i64> {
    let mut moments = vec![now];
    if rules.delete && rules.retention_ms >= 0 {
        for segment in &log.segments {
            let time = if segment.timestamp >= 0 {
                segment.timestamp
            } else {
                segment.modified
            };
            moments.push(time.saturating_add(rules.retention_ms).saturating_add(1));
        }
    }
    moments.retain(|moment| (now..=later).contains(moment));
    moments.sort_unstable();
    moments.dedup();
    moments
}

/// The same for `DeleteRecords` up to `offset` under settings that stay.
pub fn taken_by_delete_records(
    log: &Naive,
    offset: i64,
    rules: &Rules,
    now: i64,
    headroom: i64,
) -> Vec<Range<i64>> {
    let mut raised = log.clone();
    raised.start = raised.start.max(if offset < 0 { log.end } else { offset });
    let mut ranges = Vec::new();
    for moment in moments(log, rules, now, now.saturating_add(headroom)) {
        let (mut kept, mut taken) = (log.clone(), raised.clone());
        kept.pass(moment, rules);
        taken.pass(moment, rules);
        ranges.push(kept.start..taken.start);
    }
    ranges
}
