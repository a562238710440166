//! The examples that people know from writings about retention, as tests.
use std::fs::File;
use std::os::unix::fs::FileExt;

use tidemark::log::batch;
use tidemark::log::files::DiskFiles;
use tidemark::log::index::OffsetPosition;
use tidemark::log::index_file::Entry as _;
use tidemark::log::read::Isolation;
use tidemark::log::time_index::TimestampOffset;
use tidemark::retention::Reason;

use crate::bench::*;

const MINUTE: i64 = 60_000;

#[test]
fn a_three_segments_and_a_limit_of_three_days() {
    let bench = Bench::new(&[("retention.ms", "259200000")]);
    bench.batches(5, NOW - 3 * DAY - HOUR);
    // The second segment begins with records older than the limit; its newest one keeps them all.
    bench.batches(2, NOW - 3 * DAY - HOUR).batches(3, NOW - 23 * HOUR);
    bench.batches(2, NOW - MINUTE);
    let outcome = bench.run();
    let deleted: Vec<(i64, Reason)> = outcome
        .deleted
        .iter()
        .map(|deletion| (deletion.segment.base_offset, deletion.reason))
        .collect();
    assert_eq!(deleted, [(0, Reason::Time)]);
    assert_eq!(bench.shape(), (5, vec![5, 10]));
    assert_eq!(bench.all_offsets(), (5..12).collect::<Vec<_>>());
}

/// A segment of this many bytes that takes no room on the disk: a hole, and one batch at its end that the index leads to.
fn sparse_segment(bench: &Bench, base_offset: i64, size: i64) {
    let name = |extension: &str| bench.file(&format!("{base_offset:020}.{extension}"));
    let last_offset = base_offset + 999;
    let mut last = one(NOW);
    batch::set_base_offset(&mut last, last_offset);
    let position = size - last.len() as i64;
    let log = File::create(name("log")).unwrap();
    log.set_len(size as u64).unwrap();
    log.write_all_at(&last, position as u64).unwrap();
    let entry = OffsetPosition {
        offset: last_offset,
        position,
    }
    .encode(base_offset)
    .unwrap();
    std::fs::write(name("index"), entry).unwrap();
    let entry = TimestampOffset {
        timestamp: NOW,
        offset: last_offset,
    }
    .encode(base_offset)
    .unwrap();
    std::fs::write(name("timeindex"), entry).unwrap();
}

#[test]
fn b_a_cap_of_two_gib_leaves_two_and_a_half() {
    const GIB: i64 = 1 << 30;
    let mut bench = Bench::unopened(DiskFiles::shared(), &[("retention.bytes", "2147483648")]);
    for (base_offset, size) in [(0, GIB), (1000, GIB), (2000, GIB), (3000, GIB / 2)] {
        sparse_segment(&bench, base_offset, size);
    }
    bench.open(true, 0).unwrap();
    assert_eq!(
        (bench.log().size_bytes(), bench.log().log_end()),
        (3 * GIB + GIB / 2, 4000)
    );
    assert_eq!(bench.after_run(), (1000, vec![1000, 2000, 3000], 1));
    assert_eq!(bench.log().size_bytes(), 2 * GIB + GIB / 2);
    assert_eq!(bench.after_run(), (1000, vec![1000, 2000, 3000], 0));
    assert_eq!(bench.log().size_bytes(), 2 * GIB + GIB / 2);
}

/// 1,200 records of about 2,000 bytes, sixteen to a batch, in segments of one mebibyte.
fn twelve_hundred(limit: (&str, &str)) -> Bench {
    let mut bench = Bench::unopened(DiskFiles::shared(), &[limit]);
    bench.settings.remove("internal.segment.bytes");
    bench
        .settings
        .insert("segment.bytes".to_owned(), "1048576".to_owned());
    bench.open(true, 0).unwrap();
    for first in (0..1200).step_by(16) {
        let batch = (first..first + 16).fold(Maker::default(), |batch, n: i32| {
            let value = format!("{n}{}", "x".repeat(2_000));
            batch.record(NOW, None, Some(value.as_bytes()))
        });
        bench.append(&batch.build()).unwrap();
    }
    assert_eq!((bench.bases(), bench.log().log_end()), (vec![0, 512, 1024], 1200));
    bench
}

fn state(bench: &Bench, base_offset: i64) -> (bool, bool) {
    let name = format!("{base_offset:020}.log");
    (bench.exists(&name), bench.exists(&format!("{name}.deleted")))
}

#[test]
fn c_everything_expires_the_active_segment_too() {
    let bench = twelve_hundred(("retention.ms", "20000"));
    bench.clock.advance_ms(20_000);
    assert_eq!(bench.run().deleted.len(), 0);
    bench.clock.advance_ms(1);
    let outcome = bench.run();
    assert_eq!(
        (outcome.deleted.len(), outcome.rolled, outcome.records()),
        (3, true, 1200)
    );
    for base_offset in [0, 512, 1024] {
        assert_eq!(
            state(&bench, base_offset),
            (false, true),
            "renamed in the same pass"
        );
    }
    assert_eq!(
        std::fs::metadata(bench.file("00000000000000001200.log"))
            .unwrap()
            .len(),
        0
    );
    let bounds = bench.log().bounds();
    assert_eq!(
        (bounds.log_start, bounds.high_watermark),
        (1200, 1200),
        "earliest and latest"
    );
    assert!(bench.exists("00000000000000001200.snapshot"));

    bench.clock.advance_ms(59_999);
    bench.log().unlink_due();
    assert_eq!(state(&bench, 0), (false, true), "not before the minute is over");
    bench.clock.advance_ms(1);
    bench.log().unlink_due();
    for base_offset in [0, 512, 1024] {
        assert_eq!(state(&bench, base_offset), (false, false));
    }
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 1200);
    assert_eq!(bench.fetch(1200).unwrap(), [1200]);
}

#[test]
fn c_by_size_the_active_segment_stays() {
    let bench = twelve_hundred(("retention.bytes", "1"));
    assert_eq!(bench.after_run(), (1024, vec![1024], 2));
    assert_eq!(bench.log().log_end(), 1200);
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 1200);
    assert_eq!(bench.bases(), [1024]);
}

#[test]
fn c_the_same_bytes_come_back_whole_before_the_pass() {
    let bench = twelve_hundred(("retention.ms", "20000"));
    let slice = bench
        .log()
        .read(600, 1, true, Isolation::ReadUncommitted)
        .unwrap();
    assert_eq!(
        offsets_in(&slice.to_vec().unwrap()),
        (592..608).collect::<Vec<_>>()
    );
    assert_eq!(bench.all_offsets(), (0..1200).collect::<Vec<_>>());
}

#[test]
fn d_size_and_time_together_each_takes_its_share() {
    // Size takes the first segment; time takes the second, which size would have kept; the third is young.
    let bench = Bench::new(&[("retention.bytes", "1500"), ("retention.ms", "10000")]);
    bench.batches(5, NOW).batches(5, NOW - 10_001).batches(10, NOW);
    let reasons: Vec<Reason> = bench
        .run()
        .deleted
        .iter()
        .map(|deletion| deletion.reason)
        .collect();
    assert_eq!(reasons, [Reason::Size, Reason::Time]);
    assert_eq!(bench.shape(), (10, vec![10, 15]));
}

#[test]
fn d_an_unexpired_segment_keeps_the_expired_one_behind_it() {
    let bench = Bench::new(&[("retention.ms", "10000")]);
    bench
        .batches(5, NOW - 20_000)
        .batches(5, NOW - 5_000)
        .batches(5, NOW - 20_000)
        .batches(1, NOW);
    assert_eq!(bench.after_run(), (5, vec![5, 10, 15], 1));
    bench.clock.advance_ms(5_000);
    assert_eq!(
        bench.after_run(),
        (5, vec![5, 10, 15], 0),
        "its age equals the limit"
    );
    bench.clock.advance_ms(1);
    assert_eq!(bench.after_run(), (15, vec![15], 2), "now both go together");
}

#[test]
fn d_a_remainder_equal_to_the_limit_is_reached_and_not_passed() {
    let bench = Bench::new(&[("retention.bytes", "1000"), ("retention.ms", "10000")]);
    bench.batches(15, NOW - 10_000);
    assert_eq!(bench.after_run(), (5, vec![5, 10], 1));
    assert_eq!(bench.after_run(), (5, vec![5, 10], 0));
    assert_eq!(bench.log().size_bytes(), 1000);
}
