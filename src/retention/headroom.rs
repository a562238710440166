//! How long a reader may stop, and how much may arrive, before it loses a record.
use super::outlook::Fate;
use super::plan::reach;
use super::profile::SegmentProfile;
use super::rules::Rules;

/// How far a reader is from losing a record under some settings, if nothing changes but the one thing named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headroom {
    /// Milliseconds until a pass takes the segment under its position, if no record comes; 0 for now, `None` for never.
    pub ms: Option<i64>,
    /// Bytes that may arrive before the size rule takes it; 0 for now, `None` for any number.
    pub bytes: Option<i64>,
}

/// The headroom of a reader that will next read `position`.
///
/// A reader at the log end has nothing unread that time could take, so only the bytes that may arrive are bounded.
pub fn headroom(
    profile: &SegmentProfile,
    log_start: i64,
    log_end: i64,
    now_ms: i64,
    rules: &Rules,
    position: i64,
) -> Headroom {
    let position = position.max(log_start);
    let size_limit = rules.size_limit_bytes();
    let Some(index) = profile.position_of(position).filter(|_| position < log_end) else {
        return Headroom {
            ms: None,
            bytes: size_limit,
        };
    };
    // The high watermark is on its way to the log end; what it forbids today says nothing about an outage.
    let reach = reach(profile, log_start, log_end, log_end, rules);
    let goes_at = Fate {
        profile,
        now_ms,
        reach,
        rules: *rules,
    }
    .goes_at(index);
    let after = profile
        .total_bytes()
        .saturating_sub(profile.bytes_in_first(index + 1));
    Headroom {
        ms: (goes_at < i64::MAX).then(|| goes_at.saturating_sub(now_ms).max(0)),
        bytes: size_limit.map(|limit| limit.saturating_sub(after).max(0)),
    }
}

/// When a pass from `now_ms` on takes the segment at `index` by age, in milliseconds, if no record comes: `None` for never, a moment
/// in the past where it only waits for the next pass.
pub fn expires_at_ms(
    profile: &SegmentProfile,
    log_start: i64,
    log_end: i64,
    now_ms: i64,
    rules: &Rules,
    index: usize,
) -> Option<i64> {
    let by_age = Rules {
        retention_bytes: -1,
        ..*rules
    };
    let reach = reach(profile, log_start, log_end, log_end, &by_age);
    let goes_at = Fate {
        profile,
        now_ms,
        reach,
        rules: by_age,
    }
    .goes_at(index);
    (goes_at < i64::MAX).then_some(goes_at)
}

#[cfg(test)]
#[path = "headroom_tests.rs"]
mod tests;
