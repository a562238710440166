//! Offsets that are missing where nothing looks damaged: a power loss took whole batches, or compaction did; and offsets that are further
//! apart than an index can say.
use std::sync::Arc;

use tidemark::log::checkpoints::{self, Offsets};
use tidemark::log::files::{DiskFiles, Files};
use tidemark::log::names::CLEANER_CHECKPOINT;
use tidemark::log::partition::{OpenLog, PartitionLog};
use tidemark::log::read::{Isolation, ReadError};

use crate::bench::*;

/// Fifteen batches in the segments 0, 5 and 10, of which the second lost its last two in a power loss.
fn cut_short() -> Bench {
    let bench = Bench::new(&[]);
    for stamp in 0..15 {
        bench.append(&one(NOW + stamp)).unwrap();
    }
    shorten(&bench, 5, 3);
    bench
}

/// Leaves only so many batches of a segment.
fn shorten(bench: &Bench, base: i64, batches: i64) {
    let path = bench.file(&format!("{base:020}.log"));
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len((batches * BATCH) as u64).unwrap();
}

fn damage(log: &PartitionLog) -> Vec<(i64, i64, i64)> {
    log.damage()
        .iter()
        .map(|range| (range.base_offset, range.from_offset, range.to_offset))
        .collect()
}

fn is_damaged(read: Result<Vec<i64>, ReadError>, range: (i64, i64)) -> bool {
    matches!(read, Err(ReadError::Damaged { from, to }) if (from, to) == range)
}

#[test]
fn a_closed_segment_that_ends_too_early_is_damaged_there_and_served_around() {
    let mut bench = cut_short();
    bench.crash();
    for _ in 0..2 {
        assert_eq!(damage(bench.log()), [(5, 8, 10)]);
        assert_eq!(bench.bases(), [0, 5, 10]);
        assert_eq!((bench.log().log_start(), bench.log().log_end()), (0, 15));
        assert_eq!(bench.fetch(7).unwrap(), [7]);
        for lost in [8, 9] {
            assert!(is_damaged(bench.fetch(lost), (8, 10)));
        }
        assert_eq!(bench.fetch(10).unwrap(), [10, 11, 12, 13, 14]);
        let found = bench
            .log()
            .offset_for_timestamp(NOW + 7, Isolation::ReadUncommitted)
            .unwrap();
        assert_eq!(found.map(|found| found.offset), Some(7));
        // A clean start reads no segment and still knows.
        bench.restart();
    }
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 15);
    bench.crash();
    assert_eq!(damage(bench.log()), [(5, 8, 10)]);
}

#[test]
fn a_closed_segment_that_lost_everything_and_one_that_is_not_there_are_damage() {
    let mut bench = cut_short();
    shorten(&bench, 5, 0);
    bench.crash();
    assert_eq!(damage(bench.log()), [(5, 5, 10)]);

    let mut bench = cut_short();
    for file in ["log", "index", "timeindex"] {
        std::fs::remove_file(bench.file(&format!("00000000000000000005.{file}"))).unwrap();
    }
    bench.crash();
    assert_eq!(damage(bench.log()), [(0, 5, 10)]);
    assert!(is_damaged(bench.fetch(5), (5, 10)));
    assert_eq!(bench.fetch(10).unwrap()[0], 10);
}

#[test]
fn what_lies_below_the_recovery_point_is_not_called_damage() {
    for (recovery_point, expected) in [(8, vec![(5, 8, 10)]), (9, vec![(5, 9, 10)]), (10, vec![])] {
        let mut bench = cut_short();
        bench.open(false, recovery_point).unwrap();
        assert_eq!(damage(bench.log()), expected, "recovery point {recovery_point}");
        assert_eq!(bench.fetch(10).unwrap()[0], 10);
    }
}

#[test]
fn a_gap_that_compaction_may_have_left_is_read_over() {
    // The topic is compacted.
    let mut bench = cut_short();
    bench
        .settings
        .insert("cleanup.policy".to_owned(), "compact,delete".to_owned());
    bench.crash();
    assert_eq!(damage(bench.log()), []);
    assert_eq!(bench.fetch(8).unwrap()[0], 10);

    // It was once: offsets are missing between the batches, or within one.
    let record = |offset: i64| {
        let maker = Maker {
            base_offset: offset,
            ..Maker::default()
        };
        maker.record(NOW, Some(b"k"), Some(b"v"))
    };
    let mut spanning = record(0).record(NOW, Some(b"l"), Some(b"w")).build();
    spanning[57..61].copy_from_slice(&1_i32.to_be_bytes());
    tidemark::log::batch::set_crc(&mut spanning);
    for first in [vec![record(0).build(), record(3).build()], vec![spanning]] {
        let mut bench = Bench::unopened(DiskFiles::shared(), &[]);
        bench.put_log(0, &first);
        bench.put_log(10, &[record(10).build()]);
        bench.crash();
        assert_eq!(damage(bench.log()), []);
        assert_eq!(bench.fetch(5).unwrap(), [10]);
    }
}

#[test]
fn a_gap_that_a_log_cleaner_has_been_over_is_read_over() {
    let bench = cut_short();
    bench.log().close().unwrap();
    let logs = scratch();
    let directory = logs.path().join("t-0");
    std::fs::create_dir(&directory).unwrap();
    for name in bench.names() {
        std::fs::copy(bench.file(&name), directory.join(&name)).unwrap();
    }
    for (first_dirty, expected) in [(10, vec![]), (8, vec![(5, 8, 10)])] {
        let cleaned = Offsets::from([(("t".to_owned(), 0), first_dirty)]);
        checkpoints::write_offsets(&DiskFiles, &logs.path().join(CLEANER_CHECKPOINT), &cleaned).unwrap();
        let log = PartitionLog::open(OpenLog {
            directory: directory.clone(),
            ..bench.open_log(false, 0)
        });
        assert_eq!(damage(&log.unwrap()), expected, "cleaned up to {first_dirty}");
    }
}

/// The first offset that no index entry of a segment at 0 can say.
const WIDE: i64 = 1 << 31;

/// One record at the base, and one that is further above it than an index can say; forty days between them.
fn wide_segment() -> Vec<Vec<u8>> {
    let at = |base_offset: i64, timestamp: i64| {
        let maker = Maker {
            base_offset,
            ..Maker::default()
        };
        maker.record(timestamp, None, Some(&[7; 40])).build()
    };
    vec![
        at(0, NOW - 40 * DAY),
        at(1, NOW - 40 * DAY + 1),
        at(WIDE + 10, NOW),
    ]
}

fn holds_wide_offsets(bench: &Bench, more: &[i64]) {
    let mut expected = vec![0, 1, WIDE + 10];
    expected.extend(more);
    assert_eq!(bench.all_offsets(), expected);
    assert_eq!(bench.fetch(2).unwrap()[0], WIDE + 10);
    assert_eq!(bench.log().segments()[0].largest_timestamp, NOW);
    let by_time = |timestamp| {
        bench
            .log()
            .offset_for_timestamp(timestamp, Isolation::ReadUncommitted)
            .unwrap()
            .map(|found| (found.offset, found.timestamp))
    };
    assert_eq!(by_time(NOW - DAY), Some((WIDE + 10, NOW)));
    assert_eq!(by_time(NOW - 40 * DAY + 1), Some((1, NOW - 40 * DAY + 1)));
    // Seven days are the limit: by the first two records alone the segment would go.
    assert_eq!(bench.run().deleted, []);
}

#[test]
fn a_closed_segment_with_offsets_beyond_31_bits_is_served_whatever_its_indexes_say() {
    let next = WIDE + 100;
    let last = Maker {
        base_offset: next,
        ..Maker::default()
    };
    // What brokers of that time wrote: the offset's low 32 bits, which are negative.
    let wrapped = ((WIDE + 10) as i32).to_be_bytes();
    let mut time_entry = NOW.to_be_bytes().to_vec();
    time_entry.extend(wrapped);
    let mut offset_entry = wrapped.to_vec();
    offset_entry.extend(200_i32.to_be_bytes());
    for (offsets, times) in [(vec![], vec![]), (offset_entry, time_entry)] {
        for clean in [true, false] {
            let mut bench = Bench::unopened(DiskFiles::shared(), &[("index.interval.bytes", "0")]);
            bench.put_log(0, &wide_segment());
            bench.put_log(next, &[last.clone().record(NOW, None, None).build()]);
            std::fs::write(bench.file("00000000000000000000.index"), &offsets).unwrap();
            std::fs::write(bench.file("00000000000000000000.timeindex"), &times).unwrap();
            bench.open(clean, next).unwrap();
            for _ in 0..2 {
                holds_wide_offsets(&bench, &[next]);
                bench.restart();
            }
        }
    }
}

#[test]
fn an_active_segment_with_offsets_beyond_31_bits_is_served_and_closed_by_the_next_append() {
    for clean in [true, false] {
        let mut bench = Bench::unopened(DiskFiles::shared(), &[("index.interval.bytes", "0")]);
        bench.put_log(0, &wide_segment());
        bench.open(clean, 0).unwrap();
        holds_wide_offsets(&bench, &[]);
        bench.restart();
        holds_wide_offsets(&bench, &[]);
        assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, WIDE + 11);
        assert_eq!(bench.bases(), [0, WIDE + 11]);
        for _ in 0..2 {
            holds_wide_offsets(&bench, &[WIDE + 11]);
            bench.restart();
        }
        bench.crash();
        holds_wide_offsets(&bench, &[WIDE + 11]);
    }
}

#[test]
fn a_lookup_by_time_opens_the_files_of_one_segment() {
    use tidemark::log::faults::{FaultyFiles, Operation};
    let lookups = |segments: i64| {
        let files = FaultyFiles::new(DiskFiles::shared());
        let mut bench = Bench::with(Arc::new(files.clone()) as Arc<dyn Files>, &[]);
        for stamp in 0..segments * 5 {
            bench.append(&one(NOW + stamp)).unwrap();
        }
        bench.restart();
        let before = (files.count(Operation::Open), files.count(Operation::Read));
        let isolation = Isolation::ReadUncommitted;
        let (middle, last) = (segments * 5 / 2, segments * 5 - 1);
        let found = bench.log().offset_for_timestamp(NOW + middle, isolation).unwrap();
        assert_eq!(found.map(|found| found.offset), Some(middle));
        let found = bench.log().max_timestamp(isolation).unwrap();
        assert_eq!(
            found.map(|found| (found.offset, found.timestamp)),
            Some((last, NOW + last))
        );
        let none = bench.log().offset_for_timestamp(NOW + last + 1, isolation);
        assert_eq!(none.unwrap(), None);
        (
            files.count(Operation::Open) - before.0,
            files.count(Operation::Read) - before.1,
        )
    };
    assert_eq!(lookups(100), lookups(3));
}
