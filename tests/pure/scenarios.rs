//! Retention as Kafka's own tests and a running broker show it, one test a scenario. Batches are 100 bytes with one
//! record, five to a segment; `now` is [`T`].
use tidemark::retention::{FutureTime, Rules};

use crate::log::{HOUR, Log, T, WEEK, keep_bytes, keep_ms};

fn old(_: i64) -> i64 {
    T - 20_000
}

/// What a pass left: log start, segment bases, segments deleted.
fn run(log: &mut Log, now: i64, rules: &Rules) -> (i64, Vec<i64>, usize) {
    let deleted = log.pass(now, rules);
    (log.start(), log.bases(), deleted)
}

#[test]
fn s001_a_log_that_is_wholly_expired_goes_with_its_active_segment() {
    let mut log = Log::batches(15, old);
    assert_eq!(run(&mut log, T, &keep_ms(10_000)), (15, vec![15], 3));
    assert_eq!(log.naive.end, 15, "the next append gets offset 15");
}

#[test]
fn s002_age_has_to_be_greater_than_the_limit() {
    let mut log = Log::batches(5, |_| T - 10_000);
    assert_eq!(log.pass(T, &keep_ms(10_000)), 0);
    assert_eq!(log.pass(T + 1, &keep_ms(10_000)), 1);
}

#[test]
fn s003_one_young_record_keeps_its_segment() {
    let mut log = Log::batches(15, |offset| if offset == 14 { T } else { old(offset) });
    assert_eq!(run(&mut log, T, &keep_ms(10_000)), (10, vec![10], 2));
}

#[test]
fn s004_an_old_segment_behind_a_young_one_stays() {
    let mut log = Log::batches(
        15,
        |offset| if (5..10).contains(&offset) { old(offset) } else { T },
    );
    assert_eq!(run(&mut log, T, &keep_ms(10_000)), (0, vec![0, 5, 10], 0));
}

#[test]
fn s005_a_future_timestamp_holds_everything_and_is_named() {
    let mut log = Log::batches(15, |offset| if offset == 2 { T + HOUR } else { old(offset) });
    let blocked = log.plan(T, &keep_ms(10_000)).blocked.unwrap();
    assert_eq!(
        (blocked.base_offset, blocked.time),
        (0, FutureTime::RecordTimestamp(T + HOUR))
    );
    assert_eq!(blocked.ahead_ms, HOUR);
    assert_eq!(run(&mut log, T, &keep_ms(10_000)), (0, vec![0, 5, 10], 0));
}

#[test]
fn s006_without_timestamps_the_file_time_counts() {
    let mut log = Log::batches(15, |_| -1).modified(&[T - 20_000, T - 5_000, T]);
    assert_eq!(run(&mut log, T, &keep_ms(10_000)), (5, vec![5, 10], 1));
}

#[test]
fn s007_a_timestamp_of_zero_is_a_time_in_1970() {
    let mut log = Log::batches(15, |_| 0);
    assert_eq!(run(&mut log, T, &keep_ms(WEEK)), (15, vec![15], 3));
}

#[test]
fn s008_a_limit_of_zero_is_a_limit() {
    let mut log = Log::batches(25, |_| T - 10);
    assert_eq!(run(&mut log, T, &keep_ms(0)), (25, vec![25], 5));
    assert_eq!(log.pass(T, &keep_ms(0)), 0);
    assert_eq!(log.naive.end, 25);
}

#[test]
fn s009_minus_one_is_no_limit() {
    let mut log = Log::batches(25, |_| T - 10);
    assert_eq!(log.pass(T, &Rules::unlimited()), 0);
}

#[test]
fn s010_an_empty_active_segment_is_never_taken() {
    let mut log = Log::batches(0, old).modified(&[0]);
    for pass in 0..3 {
        assert_eq!(run(&mut log, T + pass, &keep_ms(0)), (0, vec![0], 0));
    }
    assert_eq!(run(&mut log, T, &keep_bytes(0)), (0, vec![0], 0));
}

#[test]
fn s011_one_expired_batch_leaves_an_empty_segment_behind_it() {
    let mut log = Log::batches(1, old);
    assert_eq!(run(&mut log, T, &keep_ms(10_000)), (1, vec![1], 1));
}

#[test]
fn s012_an_empty_active_segment_is_enough_to_go_on_with() {
    let mut log = Log::of(
        15,
        &[
            (0, 500, old(0)),
            (5, 500, old(5)),
            (10, 500, old(10)),
            (15, 0, -1),
        ],
    );
    assert!(!log.plan(T, &keep_ms(10_000)).rolls_active);
    assert_eq!(run(&mut log, T, &keep_ms(10_000)), (15, vec![15], 3));
}

#[test]
fn s013_one_pass_does_what_two_would() {
    let a = T;
    let mut log = Log::of(3, &[(0, 100, a + 100), (1, 100, a), (2, 100, a + 100)]).starting_at(1);
    assert_eq!(log.pass(a + 901, &keep_ms(900)), 2);
    assert_eq!(log.pass(a + 901, &keep_ms(900)), 0);
}

#[test]
fn s014_the_timestamp_of_a_transaction_marker_counts() {
    // The segment's largest timestamp is the marker's.
    let mut log = Log::of(10, &[(0, 500, T), (5, 500, T)]);
    assert_eq!(log.pass(T, &keep_ms(10_000)), 0);
}

#[test]
fn s016_back_dated_records_go_at_the_next_pass() {
    let mut log = Log::batches(3, |_| T - 30 * 24 * HOUR);
    assert_eq!(run(&mut log, T, &keep_ms(WEEK)), (3, vec![3], 1));
}

#[test]
fn s017_a_lost_time_index_means_the_file_time() {
    let mut log = Log::batches(5, |_| -1).modified(&[T - 1]);
    assert_eq!(log.pass(T, &keep_ms(10_000)), 0);
    assert_eq!(log.pass(T + 9_999, &keep_ms(10_000)), 0);
    assert_eq!(log.pass(T + 10_000, &keep_ms(10_000)), 1);
}

#[test]
fn s018_a_lowered_limit_acts_at_the_next_pass() {
    let mut log = Log::batches(15, |_| T - 2_000);
    assert_eq!(log.pass(T, &keep_ms(WEEK)), 0);
    assert_eq!(log.pass(T, &keep_ms(1_000)), 3);
}

#[test]
fn s019_to_s023_no_segment_goes_past_the_high_watermark() {
    for (high_watermark, start, bases_from) in [
        (0, 0, 0),
        (25, 25, 25),
        (27, 25, 25),
        (99, 95, 95),
        (100, 100, 100),
    ] {
        let mut log = Log::batches(100, old).with_high_watermark(high_watermark);
        log.pass(T, &keep_ms(10_000));
        assert_eq!(
            (log.start(), log.bases()[0]),
            (start, bases_from),
            "high watermark {high_watermark}"
        );
    }
    let mut log = Log::batches(100, old).with_high_watermark(99);
    log.pass(T, &keep_ms(10_000));
    assert_eq!(
        log.bases(),
        [95],
        "the active segment waits for the high watermark to reach the end"
    );
}

#[test]
fn s025_to_s030_what_stays_is_at_least_the_size_limit() {
    for (limit, start, size) in [
        (1_000, 5, 1_000),
        (1_500, 0, 1_500),
        (1_501, 0, 1_500),
        (999, 5, 1_000),
        (1, 10, 500),
        (0, 15, 0),
    ] {
        let mut log = Log::batches(15, |_| T);
        log.pass(T, &keep_bytes(limit));
        assert_eq!((log.start(), log.size()), (start, size), "limit {limit}");
    }
}

#[test]
fn s031_a_size_limit_of_zero_spares_the_empty_active_segment() {
    let mut log = Log::of(3, &[(0, 100, T), (1, 100, T), (2, 100, T), (3, 0, -1)]);
    assert_eq!(run(&mut log, T, &keep_bytes(0)), (3, vec![3], 3));
}

#[test]
fn s032_a_short_active_segment_counts_with_the_bytes_it_has() {
    let mut log = Log::batches(12, |_| T);
    log.pass(T, &keep_bytes(700));
    assert_eq!((log.start(), log.size()), (5, 700));
}

#[test]
fn s033_six_segments_stay_of_twenty() {
    let segments: Vec<_> = (0..20).map(|k| (k * 10, 1_000, T)).collect();
    let mut log = Log::of(200, &segments);
    log.pass(T, &keep_bytes(5_010));
    assert_eq!((log.bases().len(), log.size()), (6, 6_000));
}

#[test]
fn s034_a_limit_below_the_segment_size_spares_the_only_segment() {
    let mut log = Log::batches(5, |_| T);
    log.pass(T, &keep_bytes(300));
    assert_eq!((log.start(), log.size()), (0, 500));
}

#[test]
fn s035_size_goes_first_then_time() {
    let mut log = Log::batches(15, |offset| if offset < 10 { old(offset) } else { T });
    let rules = Rules {
        retention_ms: 10_000,
        retention_bytes: 1_000,
        ..Rules::default()
    };
    let plan = log.plan(T, &rules);
    assert_eq!((plan.by_size, plan.by_time), (1, 1));
    assert_eq!(run(&mut log, T, &rules), (10, vec![10], 2));
}

#[test]
fn s036_gibibytes_as_published() {
    let gib = 1_i64 << 30;
    let mut log = Log::of(35, &[(0, gib, T), (10, gib, T), (20, gib, T), (30, gib / 2, T)]);
    assert_eq!(log.pass(T, &keep_bytes(2 * gib)), 1);
    assert_eq!(log.size(), 2 * gib + gib / 2);
}

#[test]
fn s037_to_s039_deleted_records_take_whole_segments_at_the_next_pass() {
    for (start, bases, deleted) in [(1, vec![0, 5, 10], 0), (6, vec![5, 10], 1), (15, vec![10], 2)] {
        let mut log = Log::batches(15, |_| T).starting_at(start);
        assert_eq!(run(&mut log, T, &keep_ms(WEEK)), (start, bases, deleted));
    }
}

#[test]
fn s044_and_s045_without_the_delete_policy_only_the_log_start_deletes() {
    let compact = Rules {
        delete: false,
        ..keep_ms(0)
    };
    let mut log = Log::batches(15, old).starting_at(5);
    assert_eq!(run(&mut log, T, &compact), (5, vec![5, 10], 1));
    assert_eq!(Log::batches(15, old).pass(T, &compact), 0);
}

#[test]
fn s046_a_topic_that_is_compacted_too_goes_by_size_then_by_time() {
    let mut log = Log::batches(15, old);
    let rules = Rules {
        retention_ms: 10_000,
        retention_bytes: 1_000,
        ..Rules::default()
    };
    let plan = log.plan(T, &rules);
    assert_eq!((plan.by_size, plan.by_time), (1, 2));
    assert_eq!(run(&mut log, T, &rules).1, [15]);
}

#[test]
fn s047_an_empty_policy_keeps_all_but_what_is_below_the_start() {
    let nothing = Rules {
        delete: false,
        ..keep_ms(0)
    };
    let mut log = Log::batches(15, old).starting_at(6);
    assert_eq!(run(&mut log, T, &nothing), (6, vec![5, 10], 1));
}
