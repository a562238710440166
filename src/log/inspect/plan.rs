//! What a retention pass over an inspected partition would do, segment by segment.
//!
//! The decision is that of [`crate::retention::plan`], the same function that a running pass executes; here it is put into words.
//! The high watermark is taken to be the log end, as it is on a partition without other replicas.
use std::ops::Range;

use serde::Serialize;

use crate::log::inspect::segment::SegmentReport;
use crate::resource::settings::TopicSettings;
use crate::resource::units;
use crate::retention::{Plan, Reason, Rules, SegmentFacts, SegmentProfile, plan};

/// What a pass would do to one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// Wall time that the pass is planned for, ms since the epoch.
    pub now_ms: i64,
    /// Log start offset before it.
    pub log_start: i64,
    /// Log start offset after it.
    pub new_log_start: i64,
    /// How many segments go.
    pub segments_deleted: usize,
    /// Bytes of their `.log` files.
    pub bytes_freed: i64,
    /// Whether the active segment goes too, an empty one taking its place.
    pub rolls_active: bool,
    /// The segment whose time in the future keeps the time rule from going on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_by_future_timestamp: Option<i64>,
    /// Every segment, oldest first.
    pub segments: Vec<SegmentPlan>,
}

/// What happens to one segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentPlan {
    /// Its base offset.
    pub base_offset: i64,
    /// Whether it goes.
    pub deleted: bool,
    /// The rule that takes it, or that keeps it: `Start`, `Size`, `Time`, `NotExpired`, `Unlimited`, `Behind`, `FutureTimestamp`, `Empty`.
    pub reason: &'static str,
    /// The same in words, with the figures.
    pub why: String,
    /// When the time rule alone would take it at the earliest, ms since the epoch; absent without a time rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<i64>,
}

/// Plans a pass at `now_ms` over a partition with these segments and these offsets, from the log start to the log end.
pub fn plan_report(
    segments: &[SegmentReport],
    offsets: Range<i64>,
    settings: &TopicSettings,
    now_ms: i64,
) -> PlanReport {
    let rules = Rules::from(settings);
    let profile: SegmentProfile = segments.iter().map(facts).collect();
    let Range { start, end } = offsets;
    let plan = plan(&profile, start, end, end, now_ms, &rules);
    let reasons: Vec<Reason> = plan.deletions(&profile).map(|deletion| deletion.reason).collect();
    let mut planned = Vec::with_capacity(segments.len());
    let mut latest = i64::MIN;
    for (index, segment) in segments.iter().enumerate() {
        let time = facts(segment).time_at_ms(now_ms, &rules);
        latest = latest.max(time);
        let (deleted, (reason, why)) = match reasons.get(index) {
            Some(reason) => (
                true,
                deleted_because(*reason, segment, segments, start, &rules, now_ms),
            ),
            None => (
                false,
                kept_because(index, segment, segments, &plan, &rules, now_ms),
            ),
        };
        let empty = segment.active && segment.size_bytes == 0;
        planned.push(SegmentPlan {
            base_offset: segment.base_offset,
            deleted,
            reason,
            why,
            expires_at_ms: rules
                .age_limit_ms()
                .filter(|_| !empty)
                .map(|limit| latest.saturating_add(limit).saturating_add(1)),
        });
    }
    PlanReport {
        now_ms,
        log_start: start,
        new_log_start: plan.new_log_start,
        segments_deleted: plan.deleted(),
        bytes_freed: plan.bytes_freed(&profile),
        rolls_active: plan.rolls_active,
        blocked_by_future_timestamp: plan.blocked.map(|blocked| blocked.base_offset),
        segments: planned,
    }
}

/// A segment as the retention rules see it.
pub fn facts(segment: &SegmentReport) -> SegmentFacts {
    SegmentFacts {
        base_offset: segment.base_offset,
        size_bytes: i64::try_from(segment.size_bytes).unwrap_or(i64::MAX),
        largest_timestamp: segment.largest_timestamp,
        modified_ms: segment.modified_ms,
        without_future: segment.without_future,
    }
}

fn deleted_because(
    reason: Reason,
    segment: &SegmentReport,
    segments: &[SegmentReport],
    log_start: i64,
    rules: &Rules,
    now_ms: i64,
) -> (&'static str, String) {
    match reason {
        Reason::Start => ("Start", format!("it lies wholly below the log start {log_start}")),
        Reason::Size => {
            let limit = units::about_bytes(rules.retention_bytes);
            let left: u64 = left_after(segment, segments);
            let left = units::about_bytes(i64::try_from(left).unwrap_or(i64::MAX));
            (
                "Size",
                format!("without it {left} are left, not less than retention.bytes {limit}"),
            )
        }
        Reason::Time => {
            let limit = units::show_duration_ms(rules.retention_ms);
            (
                "Time",
                format!(
                    "{} is {} old, older than retention.ms {limit}",
                    whose_time(segment, rules, now_ms),
                    age(segment, rules, now_ms)
                ),
            )
        }
    }
}

fn kept_because(
    index: usize,
    segment: &SegmentReport,
    segments: &[SegmentReport],
    plan: &Plan,
    rules: &Rules,
    now_ms: i64,
) -> (&'static str, String) {
    if segment.active && segment.size_bytes == 0 {
        return ("Empty", "the active segment is empty".to_owned());
    }
    let time_ms = facts(segment).time_at_ms(now_ms, rules);
    let expired = rules.is_expired(time_ms, now_ms);
    if index > plan.deleted() && expired {
        let first = segments.get(plan.deleted()).map_or(0, |first| first.base_offset);
        return (
            "Behind",
            format!("segment {first} before it is kept, and segments go from the front only"),
        );
    }
    let ahead_ms = time_ms.saturating_sub(now_ms);
    if rules.age_limit_ms().is_some() && ahead_ms > 0 {
        let (whose, ahead) = (whose_time(segment, rules, now_ms), about_duration(ahead_ms));
        return (
            "FutureTimestamp",
            format!("{whose} is stamped {ahead} in the future"),
        );
    }
    match (rules.age_limit_ms(), rules.size_limit_bytes()) {
        (None, None) => ("Unlimited", "no rule deletes by age or size".to_owned()),
        (Some(limit), _) => {
            let limit = units::show_duration_ms(limit);
            (
                "NotExpired",
                format!(
                    "{} is {} old, retention.ms is {limit}",
                    whose_time(segment, rules, now_ms),
                    age(segment, rules, now_ms)
                ),
            )
        }
        (None, Some(limit)) => {
            let left = units::about_bytes(i64::try_from(left_after(segment, segments)).unwrap_or(i64::MAX));
            let limit = units::about_bytes(limit);
            (
                "NotExpired",
                format!("without it {left} would be left, less than retention.bytes {limit}"),
            )
        }
    }
}

/// Bytes left once this segment and all before it are gone.
fn left_after(segment: &SegmentReport, segments: &[SegmentReport]) -> u64 {
    let later = segments
        .iter()
        .filter(|other| other.base_offset > segment.base_offset);
    later.map(|other| other.size_bytes).sum()
}

fn whose_time(segment: &SegmentReport, rules: &Rules, now_ms: i64) -> &'static str {
    let facts = facts(segment);
    let time_ms = facts.time_at_ms(now_ms, rules);
    if time_ms != facts.time_ms() {
        if time_ms == facts.modified_ms {
            "its file (a timestamp of the future is ignored)"
        } else {
            "its newest record (one of the future is ignored)"
        }
    } else if segment.largest_timestamp >= 0 {
        "its newest record"
    } else {
        "its file (no record has a timestamp)"
    }
}

fn age(segment: &SegmentReport, rules: &Rules, now_ms: i64) -> String {
    about_duration(now_ms.saturating_sub(facts(segment).time_at_ms(now_ms, rules)))
}

/// A duration rounded down for people, at most two units: `3d 1h`, `23h`, `1.500s`. Negative ones get a minus.
pub fn about_duration(ms: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let sign = if ms < 0 { "-" } else { "" };
    let ms = i64::try_from(ms.unsigned_abs()).unwrap_or(i64::MAX);
    let Some(at) = UNITS.iter().position(|(factor, _)| ms >= *factor) else {
        return format!("{sign}{ms}ms");
    };
    let (factor, name) = UNITS[at];
    let rest = ms % factor;
    match UNITS.get(at + 1).filter(|(smaller, _)| rest >= *smaller) {
        Some((smaller, smaller_name)) => {
            format!("{sign}{}{name} {}{smaller_name}", ms / factor, rest / smaller)
        }
        None if name == "s" && rest > 0 => format!("{sign}{}.{rest:03}s", ms / factor),
        None => format!("{sign}{}{name}", ms / factor),
    }
}
