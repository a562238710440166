//! Scenarios 83 to 95: reading, lookups by time.
use tidemark::log::batch;
use tidemark::log::compression::Codec;
use tidemark::log::files::DiskFiles;
use tidemark::log::lookup::FoundOffset;
use tidemark::log::read::Isolation;

use crate::bench::*;

const ALL: Isolation = Isolation::ReadUncommitted;

/// A directory with these batches in one segment, opened as after a crash.
fn opened(base_offset: i64, batches: &[Vec<u8>]) -> Bench {
    let mut bench = Bench::unopened(DiskFiles::shared(), &[("internal.segment.bytes", "1000000")]);
    bench.put_log(base_offset, batches);
    bench.open(false, 0).unwrap();
    bench
}

fn at(base_offset: i64, timestamps: &[i64]) -> Vec<u8> {
    Maker {
        base_offset,
        ..Maker::default().stamps(timestamps)
    }
    .build()
}

#[test]
fn s083_the_end_is_empty_and_what_lies_outside_is_refused() {
    let bench = opened(1024, &[at(1024, &[NOW])]);
    assert_eq!(bench.fetch(1025).unwrap(), Vec::<i64>::new());
    assert!(out_of_range(bench.fetch(0)));
    assert!(out_of_range(bench.fetch(1026)));
    assert_eq!(bench.fetch(1024).unwrap(), [1024]);
}

#[test]
fn s084_an_offset_in_a_gap_finds_the_next_batch() {
    let batches: Vec<Vec<u8>> = (0..20).map(|n| at(50 + 7 * n, &[NOW])).collect();
    let bench = opened(50, &batches);
    assert_eq!(bench.fetch(51).unwrap()[0], 57);
    assert_eq!(bench.fetch(57).unwrap()[0], 57);
    assert_eq!(bench.fetch(58).unwrap()[0], 64);
}

#[test]
fn s085_a_gap_at_the_end_of_a_segment_leads_to_the_next_one() {
    let mut bench = Bench::unopened(DiskFiles::shared(), &[]);
    bench.put_log(0, &[at(0, &[NOW])]);
    bench.put_log(10, &[at(12, &[NOW])]);
    bench.open(true, 0).unwrap();
    for offset in 1..=12 {
        assert_eq!(bench.fetch(offset).unwrap(), [12], "offset {offset}");
    }
}

#[test]
fn s086_a_compressed_batch_is_returned_whole() {
    let bench = Bench::new(&[]);
    for _ in 0..2 {
        let batch = Maker {
            codec: Codec::Gzip,
            ..Maker::default().stamps(&[NOW, NOW])
        };
        bench.append(&batch.build()).unwrap();
    }
    assert_eq!(bench.fetch(1).unwrap(), [0, 1, 2, 3]);
    assert_eq!(bench.fetch(3).unwrap(), [2, 3]);
}

#[test]
fn s087_a_read_says_the_base_offset_of_its_first_batch() {
    let bench = opened(50, &[at(50, &[NOW; 4])]);
    assert_eq!(bench.log().read(52, 1000, true, ALL).unwrap().base_offset, 50);
}

#[test]
fn s088_at_least_one_batch_or_nothing() {
    let bench = Bench::new(&[]);
    bench.batches(3, NOW);
    let read = |max_bytes, at_least_one| bench.log().read(0, max_bytes, at_least_one, ALL).unwrap();
    assert_eq!(offsets_in(&read(1, true).to_vec().unwrap()), [0]);
    assert_eq!(offsets_in(&read(0, true).to_vec().unwrap()), [0]);
    let nothing = read(1, false);
    assert_eq!((nothing.len, nothing.file.is_none()), (0, true));
    // A range may end inside a batch; the reader drops what is torn.
    let torn = read(250, true);
    assert_eq!((torn.len, offsets_in(&torn.to_vec().unwrap())), (250, vec![0, 1]));
}

#[test]
fn s089_above_the_high_watermark_a_read_is_empty() {
    let bench = Bench::lagging(&[("internal.segment.bytes", "100000")]);
    bench.hidden(4, NOW);
    bench.log().commit(4).unwrap();
    bench.hidden(2, NOW);
    assert_eq!(bench.fetch(5).unwrap(), Vec::<i64>::new());
    assert_eq!(
        bench.fetch(0).unwrap(),
        [0, 1, 2, 3],
        "not a byte above the high watermark"
    );
    assert_eq!(
        bench.log().read(0, 10_000, true, Isolation::LogEnd).unwrap().len,
        600
    );
    assert!(out_of_range(bench.fetch(7)));
}

fn max_timestamp(bench: &Bench) -> Option<(i64, i64)> {
    let found = bench.log().max_timestamp(ALL).unwrap();
    found.map(|found| (found.offset, found.timestamp))
}

#[test]
fn s090_s091_the_largest_timestamp_is_found_and_nothing_in_an_empty_log() {
    for settings in [&[][..], &[("internal.segment.bytes", "200")][..]] {
        let bench = Bench::new(settings);
        assert_eq!(max_timestamp(&bench), None);
        for timestamp in [0, 1, 2, 3, 4, 6, 5] {
            bench.batches(1, timestamp);
        }
        assert_eq!(max_timestamp(&bench), Some((5, 6)));
    }
}

#[test]
fn s090_the_record_inside_a_batch_is_named_and_the_first_one_on_ties() {
    let bench = Bench::new(&[]);
    for codec in [Codec::None, Codec::Zstd] {
        let batch = Maker {
            codec,
            ..Maker::default().stamps(&[NOW, NOW + 7, NOW + 7, NOW])
        };
        bench.append(&batch.build()).unwrap();
    }
    assert_eq!(max_timestamp(&bench), Some((1, NOW + 7)));
}

#[test]
fn unstamped_records_alone_give_the_first_segment_s_base() {
    let bench = Bench::new(&[]);
    bench.batches(7, -1);
    assert_eq!(max_timestamp(&bench), Some((0, -1)));
}

#[test]
fn s092_earliest_and_latest() {
    let bench = Bench::new(&[]);
    bench.batches(20, NOW);
    bench.log().delete_records(3).unwrap();
    let bounds = bench.log().bounds();
    assert_eq!((bounds.high_watermark, bounds.log_start), (20, 3));
}

fn lookup(bench: &Bench, timestamp: i64) -> Option<(i64, i64)> {
    let found: Option<FoundOffset> = bench.log().offset_for_timestamp(timestamp, ALL).unwrap();
    found.map(|found| (found.offset, found.timestamp))
}

#[test]
fn s093_by_timestamp() {
    let timestamps: Vec<i64> = (40..50).map(|offset| 10 * offset).collect();
    for batches in [
        vec![at(40, &timestamps)],
        timestamps
            .iter()
            .enumerate()
            .map(|(n, t)| at(40 + n as i64, &[*t]))
            .collect(),
    ] {
        let bench = opened(40, &batches);
        assert_eq!(lookup(&bench, 420), Some((42, 420)));
        assert_eq!(lookup(&bench, 421), Some((43, 430)));
        assert_eq!(lookup(&bench, 431), Some((44, 440)));
        assert_eq!(lookup(&bench, 491), None);
        assert_eq!(lookup(&bench, 399), Some((40, 400)));
    }
}

#[test]
fn by_timestamp_across_many_segments_and_restarts() {
    let mut bench = Bench::new(&[("index.interval.bytes", "0"), ("internal.segment.bytes", "4000")]);
    for n in 0..500 {
        bench.batches(1, NOW - DAY + 10 * n);
    }
    for restarted in [false, true] {
        for n in (0..500).step_by(13) {
            assert_eq!(
                lookup(&bench, NOW - DAY + 10 * n - 3),
                Some((n, NOW - DAY + 10 * n)),
                "{n} {restarted}"
            );
        }
        bench.restart();
    }
}

#[test]
fn by_timestamp_not_below_the_log_start() {
    let bench = Bench::new(&[]);
    bench.batches(4, NOW).batches(1, NOW + 5);
    bench.log().delete_records(2).unwrap();
    assert_eq!(lookup(&bench, NOW), Some((2, NOW)));
    bench.log().delete_records(5).unwrap();
    assert_eq!(lookup(&bench, NOW), None);
}

#[test]
fn s094_what_lies_above_the_high_watermark_is_not_found() {
    let bench = Bench::lagging(&[]);
    bench.hidden(15, NOW);
    bench.log().commit(15).unwrap();
    bench.hidden(2, NOW).hidden(3, NOW + 1);
    assert_eq!(lookup(&bench, NOW + 1), None);
    bench.log().commit(20).unwrap();
    assert_eq!(lookup(&bench, NOW + 1), Some((17, NOW + 1)));
}

#[test]
fn every_offset_is_readable_through_many_small_segments_whatever_the_fetch_size() {
    let mut bench = Bench::new(&[("index.interval.bytes", "150")]);
    bench.batches(203, NOW);
    for round in 0..2 {
        for max_bytes in [1, 99, 100, 101, 250, 499, 500, 501, 100_000] {
            let mut next = 0;
            while next < 203 {
                let slice = bench.log().read(next, max_bytes, true, ALL).unwrap();
                assert_eq!(slice.base_offset, next, "round {round}, {max_bytes} bytes");
                let offsets = offsets_in(&slice.to_vec().unwrap());
                assert_eq!(offsets.first(), Some(&next));
                next += offsets.len() as i64;
            }
            assert_eq!(next, 203);
        }
        bench.restart();
    }
}

#[test]
fn a_range_being_sent_outlives_the_deletion_of_its_segment() {
    let bench = Bench::new(&[("retention.ms", "10000"), ("file.delete.delay.ms", "0")]);
    bench.batches(5, NOW - 20_000);
    let slice = bench.log().read(0, 1000, true, ALL).unwrap();
    bench.run();
    assert!(!bench.exists("00000000000000000000.log"));
    assert_eq!(offsets_in(&slice.to_vec().unwrap()), [0, 1, 2, 3, 4]);
    assert!(out_of_range(bench.fetch(0)));
}

#[test]
fn leader_epochs_end_where_the_next_begins() {
    let bench = Bench::new(&[]);
    for (epoch, count) in [(1, 3), (2, 4), (5, 2)] {
        for _ in 0..count {
            bench
                .log()
                .append(&one(NOW), epoch, tidemark::log::append::Origin::Client)
                .unwrap();
        }
    }
    assert_eq!(bench.log().end_offset_for_epoch(1), (1, 3));
    assert_eq!(bench.log().end_offset_for_epoch(3), (2, 7));
    assert_eq!(bench.log().end_offset_for_epoch(5), (5, 9));
    assert_eq!(bench.log().end_offset_for_epoch(6), (-1, -1));
    // A leader's own epoch begins when it is elected, not with its first record.
    assert_eq!(bench.log().end_offset_as_leader(6, 7), (5, 9));
    assert_eq!(bench.log().end_offset_as_leader(7, 7), (7, 9));
    assert_eq!(bench.log().end_offset_as_leader(8, 7), (-1, -1));
    let empty = Bench::new(&[]);
    assert_eq!(empty.log().end_offset_as_leader(0, 0), (0, 0));
    assert_eq!(empty.log().epoch_at_log_start(0), Some(0));
    let bytes = std::fs::read(bench.file("00000000000000000000.log")).unwrap();
    let epochs: Vec<i32> = batch::batches(&bytes)
        .map(|batch| batch.unwrap().header.leader_epoch)
        .collect();
    assert_eq!(epochs, [1, 1, 1, 2, 2]);
}
