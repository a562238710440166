use super::*;
use crate::retention::{SegmentFacts, plan};

const NOW: i64 = 1_700_000_000_000;

fn profile() -> SegmentProfile {
    [(0, 500, NOW - 100), (5, 300, NOW - 300), (8, 200, NOW - 10)]
        .into_iter()
        .map(|(base_offset, size_bytes, largest_timestamp)| SegmentFacts {
            base_offset,
            size_bytes,
            largest_timestamp,
            modified_ms: NOW,
            without_future: None,
        })
        .collect()
}

fn at(rules: &Rules, position: i64) -> (Option<i64>, Option<i64>) {
    let headroom = headroom(&profile(), 0, 10, NOW, rules, position);
    (headroom.ms, headroom.bytes)
}

#[test]
fn time_counts_to_the_first_millisecond_at_which_a_pass_takes_the_segment() {
    let rules = Rules {
        retention_ms: 150,
        ..Rules::unlimited()
    };
    for (position, ms) in [(0, 51), (4, 51), (5, 51), (8, 141)] {
        assert_eq!(at(&rules, position), (Some(ms), None), "position {position}");
        let start = |now| plan(&profile(), 0, 10, 10, now, &rules).new_log_start;
        assert!(start(NOW + ms - 1) <= position && start(NOW + ms) > position);
    }
}

#[test]
fn bytes_count_to_the_first_that_lets_the_size_rule_take_the_segment() {
    let rules = Rules {
        retention_bytes: 900,
        ..Rules::unlimited()
    };
    for (position, bytes) in [(0, 400), (5, 700), (8, 900)] {
        assert_eq!(at(&rules, position), (None, Some(bytes)), "position {position}");
        let start = |arrived: i64| {
            let mut grown = profile();
            grown.push(SegmentFacts {
                base_offset: 10,
                size_bytes: arrived,
                largest_timestamp: NOW,
                modified_ms: NOW,
                without_future: None,
            });
            plan(&grown, 0, 11, 11, NOW, &rules).new_log_start
        };
        assert!(start(bytes - 1) <= position && start(bytes) > position);
    }
}

#[test]
fn a_caught_up_reader_has_no_time_to_lose_and_an_overtaken_one_counts_from_the_start() {
    let rules = Rules {
        retention_ms: 150,
        retention_bytes: 900,
        ..Rules::default()
    };
    assert_eq!(at(&rules, 10), (None, Some(900)));
    assert_eq!(
        headroom(&profile(), 5, 10, NOW, &rules, 0).ms,
        Some(0),
        "the segment under the start is due"
    );
    assert_eq!(at(&Rules::unlimited(), 0), (None, None));
    assert_eq!(
        at(
            &Rules {
                retention_ms: 50,
                ..Rules::unlimited()
            },
            0
        ),
        (Some(0), None),
        "overdue"
    );
}

#[test]
fn expiry_of_a_segment_waits_for_the_youngest_before_it() {
    let rules = Rules {
        retention_ms: 150,
        retention_bytes: 0,
        ..Rules::default()
    };
    let expires = |index| expires_at_ms(&profile(), 0, 10, NOW, &rules, index);
    assert_eq!(
        [expires(0), expires(1), expires(2)],
        [Some(NOW + 51), Some(NOW + 51), Some(NOW + 141)]
    );
    assert_eq!(
        expires_at_ms(&profile(), 5, 10, NOW, &rules, 1),
        Some(NOW - 149),
        "the first is below the start"
    );
    let never = Rules {
        retention_ms: i64::MAX,
        ..Rules::default()
    };
    assert_eq!(expires_at_ms(&profile(), 0, 10, NOW, &never, 0), None);
}
