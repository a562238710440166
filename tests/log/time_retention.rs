//! Scenarios 1 to 18: time retention.
use tidemark::log::batch::BatchHeader;
use tidemark::retention::{FutureTime, Reason};

use crate::bench::*;

const R: (&str, &str) = ("retention.ms", "10000");

#[test]
fn s001_everything_expired_rolls_and_deletes_the_active_segment_too() {
    let bench = Bench::new(&[R]);
    bench.batches(15, NOW - 20_000);
    assert_eq!(bench.bases(), [0, 5, 10]);
    assert_eq!(bench.after_run(), (15, vec![15], 3));
    assert_eq!(bench.log().log_end(), 15);
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 15);
}

#[test]
fn s002_an_age_equal_to_the_limit_stays_one_millisecond_more_goes() {
    let bench = Bench::new(&[R]);
    bench.batches(1, NOW - 10_000);
    assert_eq!(bench.after_run(), (0, vec![0], 0));
    bench.clock.advance_ms(1);
    assert_eq!(bench.after_run(), (1, vec![1], 1));
}

#[test]
fn s003_one_young_record_keeps_its_whole_segment() {
    let bench = Bench::new(&[R]);
    bench.batches(14, NOW - 20_000).batches(1, NOW);
    assert_eq!(bench.after_run(), (10, vec![10], 2));
}

#[test]
fn s004_a_young_first_segment_keeps_the_old_one_behind_it() {
    let bench = Bench::new(&[R]);
    bench.batches(5, NOW).batches(5, NOW - 20_000).batches(5, NOW);
    assert_eq!(bench.after_run(), (0, vec![0, 5, 10], 0));
    assert_eq!(bench.all_offsets(), (0..15).collect::<Vec<_>>());
}

#[test]
fn s005_a_future_timestamp_blocks_and_is_reported() {
    let bench = Bench::new(&[R]);
    bench.batches(5, NOW + HOUR).batches(10, NOW - 20_000);
    let outcome = bench.run();
    assert!(outcome.deleted.is_empty());
    let blocked = outcome.blocked.unwrap();
    assert_eq!((blocked.base_offset, blocked.ahead_ms), (0, HOUR));
    assert_eq!(blocked.time, FutureTime::RecordTimestamp(NOW + HOUR));
}

#[test]
fn s006_without_timestamps_the_modification_time_counts() {
    let bench = Bench::new(&[R]);
    for age in [20_000, 5_000, 0] {
        bench.clock.step_wall_ms(-age);
        bench.batches(5, -1);
        bench.clock.step_wall_ms(age);
    }
    assert_eq!(bench.after_run(), (5, vec![5, 10], 1));
}

#[test]
fn s006_the_modification_time_is_the_file_s_after_a_restart() {
    let mut bench = Bench::new(&[R]);
    bench.batches(15, -1);
    bench.log().close().unwrap();
    for (base, age) in [(0, 20_000), (5, 5_000), (10, 0)] {
        bench.touch(&format!("{base:020}.log"), NOW - age);
    }
    bench.open(true, 0).unwrap();
    assert_eq!(bench.after_run(), (5, vec![5, 10], 1));
}

#[test]
fn s007_zero_is_a_real_timestamp() {
    let bench = Bench::new(&[("retention.ms", "604800000")]);
    bench.batches(15, 0);
    assert_eq!(bench.after_run(), (15, vec![15], 3));
}

#[test]
fn s008_a_limit_of_zero_deletes_everything_and_a_second_run_nothing() {
    let bench = Bench::new(&[("retention.ms", "0")]);
    bench.batches(25, NOW - 10);
    assert_eq!(bench.after_run(), (25, vec![25], 5));
    assert_eq!(bench.after_run(), (25, vec![25], 0));
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 25);
}

#[test]
fn s009_minus_one_is_no_limit() {
    let bench = Bench::new(&[("retention.ms", "-1"), ("retention.bytes", "-1")]);
    bench.batches(25, NOW - 10);
    assert_eq!(bench.after_run(), (0, vec![0, 5, 10, 15, 20], 0));
}

#[test]
fn s010_an_empty_active_segment_is_never_taken() {
    let bench = Bench::new(&[("retention.ms", "0")]);
    for _ in 0..3 {
        bench.clock.advance_ms(DAY);
        assert_eq!(bench.after_run(), (0, vec![0], 0));
    }
    assert!(!bench.names().iter().any(|name| name.ends_with(".deleted")));
}

#[test]
fn s011_one_expired_batch_leaves_a_deleted_file_and_the_next_snapshot() {
    let bench = Bench::new(&[R]);
    bench.batches(1, NOW - 20_000);
    assert_eq!(bench.after_run(), (1, vec![1], 1));
    assert!(bench.exists("00000000000000000000.log.deleted"));
    assert!(!bench.exists("00000000000000000000.log"));
    assert!(bench.exists("00000000000000000001.snapshot"));
    assert!(bench.exists("00000000000000000001.log"));
}

#[test]
fn s012_an_empty_active_segment_is_not_rolled_again() {
    let bench = Bench::new(&[R]);
    bench.batches(15, NOW - 20_000).roll();
    assert_eq!(bench.bases(), [0, 5, 10, 15]);
    let outcome = bench.run();
    assert_eq!((outcome.deleted.len(), outcome.rolled), (3, false));
    assert_eq!(bench.shape(), (15, vec![15]));
}

#[test]
fn s013_the_start_offset_pass_comes_first_and_makes_a_second_run_empty() {
    let start = NOW - 901;
    let bench = Bench::new(&[("retention.ms", "900")]);
    bench
        .batches(1, start + 100)
        .roll()
        .batches(1, start)
        .roll()
        .batches(1, start + 100);
    bench.log().delete_records(1).unwrap();
    let outcome = bench.run();
    let reasons: Vec<Reason> = outcome.deleted.iter().map(|deletion| deletion.reason).collect();
    assert_eq!(reasons, [Reason::Start, Reason::Time]);
    assert_eq!(bench.after_run(), (2, vec![2], 0));
}

#[test]
fn s014_the_timestamp_of_a_transaction_marker_counts() {
    let mut bench = Bench::unopened(tidemark::log::files::DiskFiles::shared(), &[R]);
    let old = Maker {
        transactional: true,
        ..Maker::default().producer(9, 0, 0).stamps(&[NOW - 20_000; 4])
    };
    let marker = Maker {
        base_offset: 4,
        transactional: true,
        control: true,
        ..Maker::default()
            .producer(9, 0, -1)
            .record(NOW, Some(&[0, 0, 0, 1]), Some(&[0, 0, 0, 0, 0, 7]))
    };
    bench.put_log(0, &[old.build(), marker.build()]);
    bench.put_log(5, &[]);
    bench.open(false, 0).unwrap();
    assert_eq!(bench.after_run(), (0, vec![0, 5], 0));
    bench.clock.advance_ms(10_001);
    assert_eq!(bench.after_run(), (5, vec![5], 1));
}

#[test]
fn s015_log_append_time_overrules_what_the_producer_says() {
    let bench = Bench::new(&[("message.timestamp.type", "LogAppendTime")]);
    let appended = bench.append(&one(NOW - 30 * DAY)).unwrap();
    assert_eq!(appended.log_append_time_ms, NOW);
    assert_eq!(bench.after_run(), (0, vec![0], 0));
    let bytes = std::fs::read(bench.file("00000000000000000000.log")).unwrap();
    let header = BatchHeader::parse(&bytes).unwrap();
    header.check_crc(&bytes).unwrap();
    assert_eq!((header.max_timestamp, header.is_log_append_time()), (NOW, true));
}

#[test]
fn s016_back_dated_records_are_accepted_and_deleted_at_the_very_next_run() {
    let bench = Bench::new(&[]);
    bench.batches(3, NOW - 30 * DAY);
    assert_eq!(bench.after_run(), (3, vec![3], 1));
}

#[test]
fn s017_without_its_time_index_a_segment_ages_by_its_modification_time() {
    let mut bench = Bench::new(&[R]);
    bench.batches(5, NOW - 20_000).batches(1, NOW + 10_000);
    bench.log().close().unwrap();
    std::fs::remove_file(bench.file("00000000000000000000.timeindex")).unwrap();
    bench.touch("00000000000000000000.log", NOW - 1);
    bench.open(true, 0).unwrap();
    assert_eq!(bench.after_run(), (0, vec![0, 5], 0));
    bench.clock.advance_ms(10_000);
    assert_eq!(bench.after_run(), (5, vec![5], 1));
}

#[test]
fn s018_a_lowered_limit_takes_effect_at_the_next_run_and_not_before() {
    let mut bench = Bench::new(&[]);
    bench.batches(15, NOW - 2_000);
    assert_eq!(bench.after_run(), (0, vec![0, 5, 10], 0));
    bench.set("retention.ms", "1000");
    assert_eq!(bench.shape(), (0, vec![0, 5, 10]));
    assert_eq!(bench.after_run(), (15, vec![15], 3));
}
