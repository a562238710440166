use super::*;

const NOW: i64 = 1_700_000_000_000;

fn segments(facts: &[(i64, i64, i64)]) -> SegmentProfile {
    facts
        .iter()
        .map(|&(base_offset, size_bytes, largest_timestamp)| SegmentFacts {
            base_offset,
            size_bytes,
            largest_timestamp,
            modified_ms: NOW,
            without_future: None,
        })
        .collect()
}

fn by_age(retention_ms: i64) -> Rules {
    Rules {
        retention_ms,
        ..Rules::unlimited()
    }
}

#[test]
fn deletions_name_each_segment_with_its_reason() {
    let profile = segments(&[
        (0, 100, NOW),
        (5, 100, NOW),
        (10, 100, NOW - 9),
        (15, 100, NOW),
        (20, 0, -1),
    ]);
    let rules = Rules {
        retention_bytes: 150,
        retention_ms: 5,
        ..Rules::default()
    };
    let plan = plan(&profile, 7, 20, 20, NOW, &rules);
    let named: Vec<_> = plan
        .deletions(&profile)
        .map(|d| (d.segment.base_offset, d.reason))
        .collect();
    assert_eq!(named, [(0, Reason::Start), (5, Reason::Size), (10, Reason::Time)]);
    assert_eq!(
        (plan.new_log_start, plan.rolls_active, plan.bytes_freed(&profile)),
        (15, false, 300)
    );
}

#[test]
fn a_future_timestamp_is_reported_only_where_it_stops_the_time_rule() {
    let future = NOW + 3_600_000;
    let profile = segments(&[(0, 1, NOW - 100), (5, 1, future), (10, 1, NOW - 100)]);
    let stopped = plan(&profile, 0, 11, 11, NOW, &by_age(50));
    let expected = Blocked {
        base_offset: 5,
        time: FutureTime::RecordTimestamp(future),
        ahead_ms: 3_600_000,
    };
    assert_eq!((stopped.new_log_start, stopped.blocked), (5, Some(expected)));
    assert_eq!(
        plan(&profile, 0, 11, 11, NOW, &by_age(200)).blocked,
        None,
        "an earlier segment stops it"
    );
    assert_eq!(
        plan(&profile, 0, 11, 11, NOW, &by_age(-1)).blocked,
        None,
        "there is no time rule"
    );
    assert_eq!(
        plan(&profile, 0, 7, 11, NOW, &by_age(50)).blocked,
        None,
        "the high watermark stops it first"
    );
}

#[test]
fn extreme_times_and_limits_neither_overflow_nor_delete_too_much() {
    for (timestamp, now, limit, deleted) in [
        (i64::MAX, i64::MIN, 0, false),
        (0, i64::MAX, i64::MAX, false),
        (0, i64::MAX, i64::MAX - 1, true),
        (NOW * 1_000, NOW, 0, false),
        (0, 1, 0, true),
        (0, 0, 0, false),
    ] {
        let profile = segments(&[(0, 1, timestamp)]);
        let plan = plan(&profile, 0, 1, 1, now, &by_age(limit));
        assert_eq!(
            plan.rolls_active, deleted,
            "timestamp {timestamp} now {now} limit {limit}"
        );
    }
    let profile = segments(&[(0, i64::MAX, NOW), (1, i64::MAX, NOW), (2, 0, NOW)]);
    let rules = Rules {
        retention_bytes: i64::MAX,
        ..Rules::unlimited()
    };
    assert!(plan(&profile, 0, 2, 2, NOW, &rules).new_log_start <= 2);
}

#[test]
fn no_segments_means_nothing_to_do() {
    let plan = plan(&SegmentProfile::new(), 3, 3, 3, NOW, &by_age(0));
    assert_eq!(
        (plan.new_log_start, plan.deleted(), plan.rolls_active),
        (3, 0, false)
    );
}
