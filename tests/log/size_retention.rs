//! Scenarios 19 to 36: the high-watermark guard and size retention.
use tidemark::log::delete::DeleteRecordsError;

use crate::bench::*;

/// A hundred expired batches, the high watermark at `high_watermark`.
fn guarded(high_watermark: i64) -> Bench {
    let bench = Bench::lagging(&[("retention.ms", "10000")]);
    bench.hidden(high_watermark, NOW - 20_000);
    bench.log().commit(high_watermark).unwrap();
    bench.hidden(100 - high_watermark, NOW - 20_000);
    assert_eq!(
        (bench.log().high_watermark(), bench.log().log_end()),
        (high_watermark, 100)
    );
    bench
}

#[test]
fn s019_nothing_goes_before_the_high_watermark_is_known() {
    let bench = guarded(0);
    assert_eq!(bench.run().deleted.len(), 0);
    assert_eq!(bench.log().log_start(), 0);
}

#[test]
fn s020_segments_below_the_high_watermark_go() {
    let bench = guarded(25);
    let (start, bases, deleted) = bench.after_run();
    assert_eq!((start, bases.first().copied(), deleted), (25, Some(25), 5));
}

#[test]
fn s021_a_segment_that_the_high_watermark_cuts_through_stays() {
    let bench = guarded(27);
    let (start, bases, deleted) = bench.after_run();
    assert_eq!((start, bases.first().copied(), deleted), (25, Some(25), 5));
}

#[test]
fn s022_the_active_segment_stays_while_one_record_is_above() {
    assert_eq!(guarded(99).after_run(), (95, vec![95], 19));
}

#[test]
fn s023_everything_below_the_high_watermark_goes_the_active_segment_too() {
    assert_eq!(guarded(100).after_run(), (100, vec![100], 20));
}

#[test]
fn s024_the_start_cannot_be_raised_past_the_high_watermark() {
    let bench = guarded(25);
    let refused = bench.log().delete_records(26);
    assert!(
        matches!(refused, Err(DeleteRecordsError::OffsetOutOfRange { .. })),
        "{refused:?}"
    );
    assert_eq!(bench.log().log_start(), 0);
}

fn sized_log(limit: &str, batches: i64) -> Bench {
    let bench = Bench::new(&[("retention.bytes", limit)]);
    bench.batches(batches, NOW);
    bench
}

#[test]
fn s025_what_remains_may_equal_the_limit() {
    let bench = sized_log("1000", 15);
    assert_eq!(bench.after_run(), (5, vec![5, 10], 1));
    assert_eq!(bench.log().size_bytes(), 1000);
}

#[test]
fn s026_a_total_equal_to_the_limit_stays() {
    assert_eq!(sized_log("1500", 15).after_run(), (0, vec![0, 5, 10], 0));
}

#[test]
fn s027_a_total_below_the_limit_stays() {
    assert_eq!(sized_log("1501", 15).after_run(), (0, vec![0, 5, 10], 0));
}

#[test]
fn s028_one_byte_less_than_a_segment_keeps_that_segment() {
    let bench = sized_log("999", 15);
    assert_eq!(bench.after_run(), (5, vec![5, 10], 1));
    assert_eq!(bench.log().size_bytes(), 1000);
}

#[test]
fn s029_a_limit_of_one_byte_keeps_the_active_segment() {
    assert_eq!(sized_log("1", 15).after_run(), (10, vec![10], 2));
}

#[test]
fn s030_a_limit_of_zero_takes_the_active_segment_too() {
    assert_eq!(sized_log("0", 15).after_run(), (15, vec![15], 3));
}

#[test]
fn s031_after_the_delay_only_the_snapshot_of_the_empty_segment_remains() {
    let bench = Bench::new(&[("retention.bytes", "0"), ("file.delete.delay.ms", "1000")]);
    bench
        .batches(1, NOW)
        .roll()
        .batches(1, NOW)
        .roll()
        .batches(1, NOW)
        .roll();
    assert_eq!(bench.bases(), [0, 1, 2, 3]);
    assert_eq!(bench.after_run(), (3, vec![3], 3));
    bench.clock.advance_ms(1_000);
    assert!(bench.log().unlink_due() > 0);
    let snapshots: Vec<String> = bench
        .names()
        .into_iter()
        .filter(|name| name.contains("snapshot"))
        .collect();
    assert_eq!(snapshots, ["00000000000000000003.snapshot"]);
}

#[test]
fn s032_a_half_full_active_segment_counts_with_its_bytes() {
    let bench = sized_log("700", 12);
    assert_eq!(bench.after_run(), (5, vec![5, 10], 1));
    assert_eq!(bench.log().size_bytes(), 700);
}

#[test]
fn s033_two_hundred_batches_shrink_to_six_segments() {
    let bench = Bench::new(&[("internal.segment.bytes", "1000"), ("retention.bytes", "5010")]);
    bench.batches(200, NOW);
    bench.run();
    assert_eq!((bench.bases().len(), bench.log().size_bytes()), (6, 6000));
}

#[test]
fn s034_a_limit_below_the_segment_size_keeps_a_single_segment() {
    let bench = sized_log("300", 5);
    assert_eq!(bench.after_run(), (0, vec![0], 0));
    assert_eq!(bench.log().size_bytes(), 500);
}

#[test]
fn s035_the_size_pass_and_then_the_time_pass() {
    let bench = Bench::new(&[("retention.bytes", "1000"), ("retention.ms", "10000")]);
    bench.batches(5, NOW).batches(5, NOW - 20_000).batches(5, NOW);
    assert_eq!(bench.after_run(), (10, vec![10], 2));
}

#[test]
fn s036_three_full_segments_and_a_half_over_a_cap_of_two() {
    // One to a mebibyte, instead of one to a gibibyte: the arithmetic is the same and the planner's own test has the large one.
    let bench = Bench::new(&[
        ("internal.segment.bytes", "1048576"),
        ("retention.bytes", "2097152"),
    ]);
    let half = sized(NOW, 524_288);
    for _ in 0..7 {
        bench.append(&half).unwrap();
    }
    assert_eq!((bench.bases().len(), bench.log().size_bytes()), (4, 7 * 524_288));
    assert_eq!(bench.run().deleted.len(), 1);
    assert_eq!(bench.log().size_bytes(), 5 * 524_288);
    assert_eq!(bench.run().deleted.len(), 0);
}
