//! A partition as most tests of the guard have it.
use super::{SegmentFacts, SegmentProfile};

pub const NOW: i64 = 1_700_000_000_000;
pub const DAY: i64 = 86_400_000;

/// Ten segments of 100 offsets and 100 bytes, the oldest ten days old, the active one a day.
pub fn ten_days() -> SegmentProfile {
    (0..10)
        .map(|k| SegmentFacts {
            base_offset: k * 100,
            size_bytes: 100,
            largest_timestamp: NOW - (10 - k) * DAY,
            modified_ms: NOW,
            without_future: None,
        })
        .collect()
}
