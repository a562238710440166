//! Scenarios 70 to 82: rolling.
use tidemark::log::append::Origin;
use tidemark::log::error::AppendError;

use crate::bench::*;

/// Segments that never fill up by bytes.
const LARGE: (&str, &str) = ("internal.segment.bytes", "1000000");

#[test]
fn s070_an_exact_fill_is_allowed() {
    let bench = Bench::new(&[]);
    bench.batches(5, NOW);
    assert_eq!((bench.bases(), bench.log().size_bytes()), (vec![0], 500));
    bench.batches(1, NOW);
    assert_eq!(bench.bases(), [0, 5]);
}

#[test]
fn s071_a_batch_larger_than_a_segment_is_refused_and_an_equal_one_taken() {
    let bench = Bench::new(&[]);
    let refused = bench.append(&sized(NOW, 501));
    assert!(
        matches!(
            refused,
            Err(AppendError::RecordListTooLarge { size: 501, max: 500 })
        ),
        "{refused:?}"
    );
    assert_eq!(bench.log().log_end(), 0);
    bench.append(&sized(NOW, 500)).unwrap();
    assert_eq!(bench.log().log_end(), 1);
}

#[test]
fn s072_without_timestamps_the_age_of_the_open_segment_counts() {
    let bench = Bench::new(&[LARGE, ("segment.ms", "3600000")]);
    bench.clock.advance_ms(HOUR + 1);
    bench.batches(1, -1);
    assert_eq!(bench.bases(), [0]);
    bench.batches(1, -1);
    assert_eq!(bench.bases(), [0, 1]);
}

#[test]
fn s073_with_timestamps_the_clock_plays_no_part() {
    let bench = Bench::new(&[LARGE, ("segment.ms", "3600000")]);
    bench.batches(1, NOW);
    bench.clock.advance_ms(5 * HOUR);
    bench.batches(1, NOW);
    assert_eq!(bench.bases(), [0]);
}

#[test]
fn s074_the_incoming_timestamp_is_compared_with_the_first_strictly() {
    let bench = Bench::new(&[LARGE, ("segment.ms", "3600000")]);
    bench.clock.advance_ms(5 * HOUR);
    bench.batches(1, NOW).batches(1, NOW + HOUR);
    assert_eq!(bench.bases(), [0]);
    bench.batches(1, NOW + HOUR + 1);
    assert_eq!(bench.bases(), [0, 2]);
}

#[test]
fn s074_the_first_timestamp_is_read_again_after_a_restart() {
    let mut bench = Bench::new(&[LARGE, ("segment.ms", "3600000")]);
    bench.batches(1, NOW).batches(1, NOW - 10 * HOUR);
    bench.restart();
    bench.batches(1, NOW + HOUR);
    assert_eq!(bench.bases(), [0]);
    bench.clock.advance_ms(HOUR);
    bench.batches(1, NOW + HOUR + 1);
    assert_eq!(bench.bases(), [0, 3]);
}

#[test]
fn s075_a_first_batch_without_timestamp_leaves_it_to_the_clock() {
    let bench = Bench::new(&[
        LARGE,
        ("segment.ms", "3600000"),
        ("message.timestamp.after.max.ms", "86400000"),
    ]);
    bench.batches(1, -1).batches(1, NOW + 10 * HOUR);
    assert_eq!(bench.bases(), [0]);
}

#[test]
fn s076_an_empty_record_set_is_refused_and_rolls_nothing() {
    let bench = Bench::new(&[LARGE, ("segment.ms", "1")]);
    bench.batches(1, -1);
    bench.clock.advance_ms(DAY);
    assert!(matches!(
        bench.append(&[]),
        Err(AppendError::InvalidRecord { .. })
    ));
    assert_eq!(bench.bases(), [0]);
}

#[test]
fn s077_jitter_is_taken_off_the_age() {
    let bench = Bench::new(&[LARGE, ("segment.ms", "3600000"), ("segment.jitter.ms", "1200000")]);
    let jitter = bench.log().segment_jitter_ms();
    assert!((0..1_200_000).contains(&jitter), "{jitter}");
    bench.clock.advance_ms(HOUR);
    bench
        .batches(1, NOW)
        .batches(1, NOW + HOUR - 1_200_000)
        .batches(1, NOW + HOUR - jitter);
    assert_eq!(bench.bases(), [0]);
    bench.batches(1, NOW + HOUR - jitter + 1);
    assert_eq!(bench.bases(), [0, 3]);
}

#[test]
fn s078_an_offset_too_far_from_the_base_begins_a_new_segment() {
    let mut bench = Bench::unopened(tidemark::log::files::DiskFiles::shared(), &[]);
    let last_possible = i64::from(i32::MAX);
    let far = Maker {
        base_offset: last_possible,
        ..Maker::default().stamps(&[NOW])
    };
    bench.put_log(0, &[one(NOW), far.build()]);
    bench.open(false, 0).unwrap();
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 2_147_483_648);
    assert_eq!(bench.bases(), [0, 2_147_483_648]);
    assert!(bench.exists("00000000002147483648.snapshot"));
}

#[test]
fn s081_a_closed_log_takes_no_append() {
    let bench = Bench::new(&[]);
    bench.batches(1, NOW);
    bench.log().close().unwrap();
    assert!(matches!(bench.append(&one(NOW)), Err(AppendError::Storage(_))));
}

#[test]
fn changed_limits_apply_to_the_open_segment_from_the_next_append_on() {
    let mut bench = Bench::new(&[LARGE]);
    bench.batches(5, NOW);
    bench.set("internal.segment.bytes", "500");
    bench.batches(1, NOW);
    assert_eq!(bench.bases(), [0, 5]);
}

#[test]
fn a_full_offset_index_begins_a_new_segment() {
    // Room for four entries of the time index and six of the offset index; equal timestamps fill the offset index only.
    let bench = Bench::new(&[
        LARGE,
        ("segment.index.bytes", "48"),
        ("index.interval.bytes", "0"),
    ]);
    bench.batches(8, NOW);
    assert_eq!(bench.bases(), [0, 7]);
}

#[test]
fn a_full_time_index_begins_a_new_segment() {
    let bench = Bench::new(&[
        LARGE,
        ("segment.index.bytes", "48"),
        ("index.interval.bytes", "0"),
    ]);
    for n in 0..5 {
        bench.batches(1, NOW + n);
    }
    // The second to the fourth batch have entries; the last slot is kept for the closing one.
    assert_eq!(bench.bases(), [0, 4]);
}

#[test]
fn an_idle_segment_is_rolled_once_its_first_append_is_older_than_segment_ms() {
    let bench = Bench::new(&[LARGE, ("segment.ms", "3600000")]);
    assert!(
        !bench.log().idle_roll(NOW + DAY).unwrap(),
        "an empty segment stays"
    );
    bench.batches(3, NOW - 2 * DAY);
    assert!(!bench.log().idle_roll(NOW + HOUR).unwrap());
    assert!(bench.log().idle_roll(NOW + HOUR + 1).unwrap());
    assert_eq!(bench.bases(), [0, 3]);
    assert!(!bench.log().idle_roll(NOW + DAY).unwrap());
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 3);
}

#[test]
fn a_duplicate_can_leave_an_empty_segment_behind_as_in_kafka() {
    let bench = Bench::new(&[]);
    let batch = Maker::default()
        .producer(1, 0, 0)
        .record(NOW, None, Some(&[b'v'; 100]))
        .build();
    bench.append(&batch).unwrap();
    bench.append(&sized(NOW, 300)).unwrap();
    let duplicate = bench.log().append(&batch, 0, Origin::Client).unwrap();
    assert_eq!((duplicate.duplicate, duplicate.base_offset), (true, 0));
    assert_eq!((bench.bases(), bench.log().log_end()), (vec![0, 2], 2));
}

/// C9: a second is a second, not the minute that others make of it.
#[test]
fn c9_a_very_short_segment_ms_is_honoured_and_not_clamped() {
    let bench = Bench::new(&[LARGE, ("segment.ms", "1000")]);
    assert_eq!(bench.log().settings().segment_ms, 1_000);
    bench.batches(1, NOW).batches(1, NOW + 1_000);
    assert_eq!(bench.bases(), [0]);
    bench.batches(1, NOW + 1_001);
    assert_eq!(bench.bases(), [0, 2]);
    assert!(!bench.log().idle_roll(NOW + 1_000).unwrap());
    assert!(bench.log().idle_roll(NOW + 1_001).unwrap());
    assert_eq!(bench.bases(), [0, 2, 3]);
}
