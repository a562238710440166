//! Real cases of kinds A, B, C, D, E and F that one partition can show; what needs a whole engine is tested there.
use std::sync::Arc;

use tidemark::log::batch;
use tidemark::log::error::AppendError;
use tidemark::log::faults::{Effect, Fault, FaultyFiles, Operation};
use tidemark::log::files::DiskFiles;
use tidemark::log::partition::Phase;
use tidemark::log::read::{Isolation, ReadError};
use tidemark::retention::{FutureTime, Reason, Rules};

use crate::bench::*;

const MINUTE: i64 = 60_000;

/// A log whose segments hold as many batches as the tests ask for; rolled by hand.
fn roomy(settings: &[(&str, &str)]) -> Bench {
    let mut all = vec![("internal.segment.bytes", "1000000")];
    all.extend_from_slice(settings);
    Bench::new(&all)
}

#[test]
fn a1_an_idle_topic_keeps_its_promise() {
    let bench = roomy(&[("retention.ms", "3600000"), ("segment.ms", "604800000")]);
    bench.batches(10, NOW - 3 * HOUR);
    let planned = bench.log().plan(NOW, &Rules::from(bench.resolved().as_ref()));
    assert_eq!(bench.after_run(), (10, vec![10], 1));
    assert_eq!(planned.new_log_start, 10, "the plan said what the pass did");
    assert!(out_of_range(bench.fetch(0)));
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 10);
}

#[test]
fn a2_a_segment_goes_with_its_newest_record() {
    let bench = roomy(&[("retention.ms", "3600000")]);
    let first = NOW - 110 * MINUTE;
    bench
        .batches(1, first)
        .batches(1, first + 50 * MINUTE)
        .roll()
        .batches(1, first + 105 * MINUTE);
    assert_eq!(bench.after_run(), (0, vec![0, 2], 0));
    bench.clock.advance_ms(1);
    assert_eq!(bench.after_run(), (2, vec![2], 1));
}

#[test]
fn a4_microseconds_block_and_are_named_and_a_bound_refuses_them() {
    let bench = roomy(&[
        ("retention.ms", "172800000"),
        ("message.timestamp.after.max.ms", "9223372036854775807"),
    ]);
    bench.batches(100, NOW * 1000).roll().batches(100, NOW);
    let outcome = bench.run();
    assert_eq!(bench.log().log_start(), 0);
    let blocked = outcome.blocked.unwrap();
    assert_eq!(
        (blocked.base_offset, blocked.time),
        (0, FutureTime::RecordTimestamp(NOW * 1000))
    );
    let bounded = roomy(&[]);
    let refused = bounded.append(&one(NOW * 1000));
    assert!(
        matches!(refused, Err(AppendError::InvalidTimestamp { .. })),
        "{refused:?}"
    );
}

/// Three ways to come by the same log: as it was written, after a clean stop, and read anew after a crash.
fn each_way(bench: &mut Bench, way: usize, modified_ms: i64) {
    if way > 0 {
        bench.log().close().unwrap();
        bench.touch("00000000000000000000.log", modified_ms);
        bench.open(way == 1, 0).unwrap();
    }
}

const IGNORE_AHEAD: &str = "tidemark.ignore.timestamps.ahead.ms";
const FIVE_YEARS: i64 = 5 * 365 * DAY;

fn future_proof() -> Bench {
    roomy(&[
        ("retention.ms", "604800000"),
        ("segment.ms", "3153600000000"),
        ("message.timestamp.after.max.ms", "9223372036854775807"),
    ])
}

#[test]
fn a6_timestamps_of_the_future_can_be_ignored() {
    let future = NOW + FIVE_YEARS;
    for way in 0..3 {
        let mut mixed = future_proof();
        mixed.batches(99, NOW - 9 * DAY).batches(1, future).roll();
        let mut all = future_proof();
        all.clock.step_wall_ms(-8 * DAY);
        all.batches(100, future).roll();
        all.clock.step_wall_ms(8 * DAY);
        for (bench, written_ms) in [(&mut mixed, NOW - 9 * DAY), (&mut all, NOW - 8 * DAY)] {
            bench.batches(10, NOW);
            each_way(bench, way, written_ms);
            let off = bench.run();
            assert_eq!((bench.shape(), off.deleted.len()), ((0, vec![0, 100]), 0));
            let blocked = off.blocked.map(|blocked| blocked.time);
            assert_eq!(blocked, Some(FutureTime::RecordTimestamp(future)));
            // The file decides where nothing else does: a week and a millisecond must have passed.
            bench.set(IGNORE_AHEAD, "60000");
            let rules = Rules::from(bench.resolved().as_ref());
            let gone = |at_ms| bench.log().plan(at_ms, &rules).new_log_start;
            let expires = written_ms + 7 * DAY + 1;
            assert_eq!((gone(expires - 1), gone(expires)), (0, 100), "way {way}");
            assert_eq!(bench.after_run(), (100, vec![100], 1), "way {way}");
            assert!(bench.run().blocked.is_none());
        }
    }
}

/// The time index does not tell what came behind a timestamp of the future; what came there must not go with what came before.
#[test]
fn a6_what_was_written_behind_a_timestamp_of_the_future_is_kept() {
    for way in 0..3 {
        let mut bench = future_proof();
        bench.set(IGNORE_AHEAD, "60000");
        let hour_ago = NOW - HOUR;
        bench
            .batches(99, NOW - 9 * DAY)
            .batches(1, NOW + FIVE_YEARS)
            .batches(100, hour_ago);
        bench.roll().batches(10, NOW);
        each_way(&mut bench, way, hour_ago);
        assert_eq!(bench.after_run(), (0, vec![0, 200], 0), "way {way}");
        bench.clock.step_wall_ms(7 * DAY - HOUR);
        assert_eq!(bench.after_run(), (0, vec![0, 200], 0), "way {way}");
        bench.clock.step_wall_ms(1);
        assert_eq!(bench.after_run(), (200, vec![200], 1), "way {way}");
    }
}

/// A clock that is half an hour ahead is no reason to ignore what it stamps, however narrow the bound.
#[test]
fn a6_clocks_that_differ_by_minutes_count() {
    let mut bench = future_proof();
    bench.set(IGNORE_AHEAD, "0");
    let ahead = NOW + HOUR / 2;
    bench
        .batches(9, NOW - 9 * DAY)
        .batches(1, ahead)
        .batches(1, NOW + FIVE_YEARS)
        .roll();
    assert_eq!(bench.after_run(), (0, vec![0, 11], 0));
    bench.clock.step_wall_ms(7 * DAY + HOUR / 2);
    assert_eq!(bench.after_run(), (0, vec![0, 11], 0));
    bench.clock.step_wall_ms(1);
    assert_eq!(bench.after_run(), (11, vec![11], 1));
}

#[test]
fn a9_a_very_short_limit_is_honoured() {
    let bench = roomy(&[("retention.ms", "1000")]);
    bench.batches(50, NOW - HOUR);
    assert_eq!(bench.after_run(), (50, vec![50], 1));
}

#[test]
fn b1_seconds_are_taken_for_1970_and_the_reason_is_told() {
    let bench = roomy(&[]);
    bench.batches(100, 1_700_000_000).roll();
    let outcome = bench.run();
    assert_eq!(bench.log().log_start(), 100);
    let told = (
        outcome.deleted[0].reason,
        outcome.deleted[0].segment.largest_timestamp,
    );
    assert_eq!(told, (Reason::Time, 1_700_000_000));
}

#[test]
fn b3_event_time_older_than_the_limit() {
    let bench = roomy(&[]);
    bench.batches(10, NOW - 10 * DAY).roll();
    let rules = |retention_ms| Rules {
        retention_ms,
        ..Rules::from(bench.resolved().as_ref())
    };
    assert_eq!(bench.log().plan(NOW, &rules(30 * DAY)).new_log_start, 0);
    assert_eq!(bench.log().plan(NOW, &rules(7 * DAY)).new_log_start, 10);
    assert_eq!(bench.run().records(), 10);
}

#[test]
fn b5_nothing_newer_goes_before_something_older_that_stays() {
    let bench = roomy(&[]);
    bench
        .batches(100, NOW - DAY)
        .roll()
        .batches(100, NOW - 30 * DAY)
        .roll()
        .batches(100, NOW);
    assert_eq!(bench.after_run(), (0, vec![0, 100, 200], 0));
    assert_eq!(bench.all_offsets(), (0..300).collect::<Vec<_>>());
}

#[test]
fn b10_minus_one_is_no_limit() {
    let bench = roomy(&[("retention.ms", "-1"), ("retention.bytes", "-1")]);
    bench.batches(100, NOW - 3650 * DAY).roll();
    assert_eq!(bench.after_run(), (0, vec![0, 100], 0));
}

#[test]
fn b12_seconds_in_a_field_of_milliseconds() {
    let bench = roomy(&[]);
    for day in (1..=10).rev() {
        bench.batches(100, NOW - day * DAY).roll();
    }
    bench.batches(10, NOW - 20 * MINUTE);
    let rules = Rules {
        retention_ms: 604_800,
        ..Rules::from(bench.resolved().as_ref())
    };
    assert_eq!(bench.log().plan(NOW, &rules).new_log_start, 1010);
}

#[test]
fn b14_a_purge_and_back() {
    let mut bench = roomy(&[]);
    bench.batches(300, NOW - HOUR).roll().batches(200, NOW - HOUR);
    bench.set("retention.ms", "1000");
    assert_eq!(bench.after_run(), (500, vec![500], 2));
    bench.set("retention.ms", "604800000");
    bench.batches(10, NOW - HOUR);
    assert_eq!(bench.after_run(), (500, vec![500], 0));
}

#[test]
fn c1_the_size_limit_is_one_partition_s() {
    let settings = [("internal.segment.bytes", "4000"), ("retention.bytes", "12000")];
    let (grown, full) = (Bench::new(&settings), Bench::new(&settings));
    for bench in [&grown, &full] {
        bench.batches(120, NOW);
        assert_eq!((bench.bases().len(), bench.log().size_bytes()), (3, 12_000));
        assert_eq!(bench.run().deleted.len(), 0);
    }
    grown.batches(40, NOW);
    assert_eq!(grown.after_run(), (40, vec![40, 80, 120], 1));
    assert_eq!(full.after_run(), (0, vec![0, 40, 80], 0));
}

#[test]
fn c8_an_idle_segment_is_rolled_by_the_timer() {
    let bench = roomy(&[("segment.ms", "3600000"), ("retention.ms", "86400000")]);
    bench.clock.step_wall_ms(-2 * HOUR);
    bench.batches(9, NOW - 2 * HOUR);
    bench.clock.step_wall_ms(30 * MINUTE);
    bench.batches(1, NOW - 90 * MINUTE);
    bench.clock.step_wall_ms(90 * MINUTE);
    assert!(bench.log().idle_roll(NOW).unwrap());
    assert_eq!(bench.bases(), [0, 10]);
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 10);
    assert_eq!(bench.bases(), [0, 10]);
}

#[test]
fn d12_a_read_below_the_start_is_an_error_that_names_the_start() {
    let bench = roomy(&[]);
    bench.batches(1000, NOW);
    bench.log().delete_records(600).unwrap();
    let read = bench.log().read(250, 1000, true, Isolation::ReadUncommitted);
    assert!(
        matches!(read, Err(ReadError::OffsetOutOfRange { log_start: 600, .. })),
        "{read:?}"
    );
}

#[test]
fn d15_a_read_straight_after_the_deletion_is_out_of_range_and_no_file_error() {
    let bench = roomy(&[("file.delete.delay.ms", "0")]);
    bench.batches(100, NOW - 8 * DAY).roll().batches(10, NOW);
    assert_eq!(bench.log().log_start(), 0);
    bench.run();
    assert!(!bench.exists("00000000000000000000.log"));
    let read = bench.log().read(0, 1000, true, Isolation::ReadUncommitted);
    assert!(
        matches!(read, Err(ReadError::OffsetOutOfRange { log_start: 100, .. })),
        "{read:?}"
    );
    assert_eq!(bench.log().phase(), Phase::Open);
}

#[test]
fn e1_deleted_files_found_at_start_are_gone_after_it() {
    let mut bench = roomy(&[]);
    bench.batches(100, NOW).roll().batches(100, NOW);
    bench.log().close().unwrap();
    let sizes = std::fs::metadata(bench.file("00000000000000000100.log"))
        .unwrap()
        .len();
    for kind in ["log", "index", "timeindex"] {
        let name = bench.file(&format!("00000000000000000000.{kind}"));
        std::fs::rename(&name, name.with_extension(format!("{kind}.deleted"))).unwrap();
    }
    bench.open(true, 0).unwrap();
    assert!(!bench.names().iter().any(|name| name.ends_with(".deleted")));
    assert_eq!(
        (bench.log().log_start(), bench.log().size_bytes()),
        (100, sizes as i64)
    );
}

#[test]
fn e3_an_index_of_zeros_is_made_anew() {
    for clean in [false, true] {
        let mut bench = Bench::unopened(DiskFiles::shared(), &[("internal.segment.bytes", "1000000")]);
        let batches: Vec<Vec<u8>> = (2076..2176)
            .map(|base_offset| {
                Maker {
                    base_offset,
                    ..Maker::default().stamps(&[NOW])
                }
                .build()
            })
            .collect();
        bench.put_log(2076, &batches);
        for kind in ["index", "timeindex"] {
            let file = std::fs::File::create(bench.file(&format!("00000000000000002076.{kind}"))).unwrap();
            file.set_len(10_485_760).unwrap();
        }
        bench.open(clean, 0).unwrap();
        assert_eq!(bench.log().log_end(), 2176);
        assert_eq!(bench.fetch(2100).unwrap()[0], 2100);
        assert_eq!(bench.log().rebuilt_indexes(), 1);
    }
}

#[test]
fn e3_an_index_of_zeros_of_a_closed_segment_is_found_out_by_the_first_read() {
    let mut bench = Bench::new(&[("internal.segment.bytes", "20000")]);
    bench.batches(300, NOW);
    bench.log().close().unwrap();
    let index = std::fs::File::options()
        .write(true)
        .open(bench.file("00000000000000000000.index"))
        .unwrap();
    index.set_len(0).unwrap();
    index.set_len(10_485_760).unwrap();
    bench.open(true, 0).unwrap();
    assert_eq!(bench.fetch(150).unwrap()[0], 150);
    assert_eq!(bench.log().rebuilt_indexes(), 1);
    assert_eq!(bench.fetch(151).unwrap()[0], 151);
    assert_eq!(bench.log().rebuilt_indexes(), 1);
}

#[test]
fn one_fsync_serves_everyone_who_appended_before_it() {
    let files = FaultyFiles::new(DiskFiles::shared());
    let mut bench = Bench::unopened(Arc::new(files.clone()), &[("internal.segment.bytes", "100000")]);
    bench.durability = tidemark::log::partition::Durability::Ack;
    bench.open(true, 0).unwrap();
    bench.hidden(10, NOW);
    assert_eq!(bench.log().high_watermark(), 0);
    let before = files.count(Operation::Sync);
    for offset in (1..=10).rev() {
        bench.log().commit(offset).unwrap();
    }
    assert_eq!(files.count(Operation::Sync), before + 1);
    assert_eq!(bench.log().high_watermark(), 10);
}

#[test]
fn e5_zeros_behind_the_last_batch_are_cut_and_a_checksum_of_zero_is_one() {
    let mut bench = roomy(&[]);
    bench.batches(3, NOW);
    let path = bench.file("00000000000000000000.log");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&[0; 4096]);
    std::fs::write(&path, bytes).unwrap();
    bench.crash();
    assert_eq!(
        (bench.log().log_end(), std::fs::metadata(&path).unwrap().len()),
        (3, 300)
    );
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 3);

    let mut bench = Bench::unopened(DiskFiles::shared(), &[("internal.segment.bytes", "1000000")]);
    let batches = [at(0, one(NOW)), checksum_zero(1), at(2, one(NOW))];
    assert_eq!(batch::BatchHeader::parse(&batches[1]).unwrap().crc, 0);
    bench.put_log(0, &batches);
    bench.open(false, 0).unwrap();
    assert_eq!(bench.all_offsets(), [0, 1, 2]);
}

fn at(base_offset: i64, mut bytes: Vec<u8>) -> Vec<u8> {
    batch::set_base_offset(&mut bytes, base_offset);
    bytes
}

/// A valid batch whose checksum is 0. A CRC is linear over bits: flipping some bits of the value changes it by the sum of what each of
/// them changes, so four bytes can be solved for.
fn checksum_zero(base_offset: i64) -> Vec<u8> {
    let mut bytes = at(base_offset, one(NOW));
    let place = bytes.len() - 8;
    let crc = |bytes: &[u8]| crc32c::crc32c(&bytes[batch::CRC_FROM..]);
    bytes[place..place + 4].fill(0);
    let zero = crc(&bytes);
    // Gaussian elimination over the 32 bits of the four bytes.
    let mut basis: Vec<(u32, u32)> = Vec::new();
    for bit in 0..32 {
        let mut flipped = bytes.clone();
        flipped[place + bit / 8] ^= 1 << (bit % 8);
        let (mut effect, mut bits) = (crc(&flipped) ^ zero, 1_u32 << bit);
        for (lead, used) in &basis {
            if effect & (1 << lead.ilog2()) != 0 {
                (effect, bits) = (effect ^ lead, bits ^ used);
            }
        }
        assert_ne!(effect, 0, "the four bytes determine the checksum");
        basis.push((effect, bits));
    }
    let (mut wanted, mut solution) = (zero, 0_u32);
    while wanted != 0 {
        let (lead, bits) = basis
            .iter()
            .find(|(lead, _)| lead.ilog2() == wanted.ilog2())
            .unwrap();
        (wanted, solution) = (wanted ^ lead, solution ^ bits);
    }
    for bit in 0..32 {
        if solution & (1 << bit) != 0 {
            bytes[place + bit / 8] ^= 1 << (bit % 8);
        }
    }
    batch::set_crc(&mut bytes);
    bytes
}

#[test]
fn e8_trimmed_records_do_not_come_back() {
    let mut bench = roomy(&[]);
    bench.batches(500, NOW);
    assert_eq!(bench.log().delete_records(250).unwrap(), 250);
    bench.crash();
    assert_eq!(bench.log().log_start(), 250);
    assert!(out_of_range(bench.fetch(249)));
}

#[test]
fn e9_a_file_that_is_gone_counts_as_deleted() {
    let bench = roomy(&[]);
    bench
        .batches(100, NOW - 8 * DAY)
        .roll()
        .batches(100, NOW - 8 * DAY)
        .roll();
    std::fs::remove_file(bench.file("00000000000000000000.log")).unwrap();
    let outcome = bench.run();
    assert_eq!((outcome.deleted.len(), outcome.missing), (2, 1));
    assert_eq!((bench.log().log_start(), bench.log().phase()), (200, Phase::Open));
    bench.batches(1, NOW);
    bench.log().flush().unwrap();
}

#[test]
fn f1_what_is_not_ours_is_neither_read_nor_removed() {
    let mut bench = roomy(&[]);
    bench.batches(3, NOW);
    bench.log().close().unwrap();
    std::fs::create_dir(bench.file("lost+found")).unwrap();
    std::fs::write(bench.file("notes.txt"), "mine").unwrap();
    std::fs::write(bench.file("5.log"), "not twenty digits").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", bench.file("00000000000000000007.index")).unwrap();
    bench.open(true, 0).unwrap();
    assert_eq!(
        (bench.all_offsets(), bench.log().size_bytes()),
        (vec![0, 1, 2], 300)
    );
    for name in ["lost+found", "notes.txt", "5.log"] {
        assert!(bench.exists(name), "{name}");
    }
    assert!(bench.file("00000000000000000007.index").is_symlink());
}

#[test]
fn a_log_that_is_a_link_is_refused() {
    let mut bench = Bench::unopened(DiskFiles::shared(), &[]);
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(elsewhere.path(), one(NOW)).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), bench.file("00000000000000000000.log")).unwrap();
    assert!(bench.open(false, 0).is_err());
    assert_eq!(std::fs::read(elsewhere.path()).unwrap(), one(NOW));
}

#[test]
fn f3_a_full_disk_at_an_unclean_start_can_be_freed() {
    let files = FaultyFiles::new(DiskFiles::shared());
    let shared = Arc::new(files.clone());
    let mut bench = Bench::with(
        shared,
        &[
            ("internal.segment.bytes", "1000000"),
            ("index.interval.bytes", "0"),
        ],
    );
    bench
        .batches(100, NOW - 8 * DAY)
        .roll()
        .batches(100, NOW - 8 * DAY)
        .roll()
        .batches(50, NOW);
    files.set_full(true);
    bench.crash();
    assert_eq!(bench.all_offsets(), (0..250).collect::<Vec<_>>(), "reads work");
    let refused = bench.append(&one(NOW));
    assert!(
        matches!(&refused, Err(AppendError::Storage(error)) if error.is_full_disk()),
        "{refused:?}"
    );
    assert_eq!(bench.after_run(), (200, vec![200], 2));
    bench.clock.advance_ms(MINUTE);
    assert!(bench.log().unlink_due() > 0);
    files.set_full(false);
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 250);
}

#[test]
fn f3_where_everything_has_to_go_a_full_disk_keeps_the_active_segment_only() {
    let files = FaultyFiles::new(DiskFiles::shared());
    let bench = Bench::with(Arc::new(files.clone()), &[("retention.ms", "1000")]);
    bench.batches(15, NOW - HOUR);
    files.set_full(true);
    assert_eq!(bench.after_run(), (10, vec![10], 2));
    files.set_full(false);
    assert_eq!(bench.after_run(), (15, vec![15], 1));
}

#[test]
fn f8_a_read_only_volume_refuses_appends_and_serves_reads() {
    let files = FaultyFiles::new(DiskFiles::shared());
    let mut bench = Bench::with(Arc::new(files.clone()), &[]);
    bench.batches(7, NOW);
    files.set_read_only(true);
    let refused = bench.append(&one(NOW));
    assert!(
        matches!(&refused, Err(AppendError::Storage(error)) if error.is_read_only()),
        "{refused:?}"
    );
    assert_eq!(bench.all_offsets(), (0..7).collect::<Vec<_>>());
    files.set_read_only(false);
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 7);
    bench.crash();
    assert_eq!(bench.log().log_end(), 8);
}

#[test]
fn a_failed_fsync_poisons_the_partition_and_is_not_tried_again() {
    let files = FaultyFiles::new(DiskFiles::shared());
    let mut bench = Bench::with(Arc::new(files.clone()), &[("retention.ms", "1000")]);
    bench.batches(15, NOW - HOUR);
    files.inject(Fault::nth(Operation::Sync, 0, Effect::Eio));
    assert!(bench.log().flush().is_err());
    let syncs = files.count(Operation::Sync);
    assert!(matches!(bench.log().phase(), Phase::Poisoned(_)));
    assert!(bench.log().flush().is_err());
    assert!(matches!(bench.append(&one(NOW)), Err(AppendError::Storage(_))));
    assert_eq!(files.count(Operation::Sync), syncs, "nothing was tried again");
    assert_eq!(bench.log().recovery_point(), 0);
    assert_eq!(
        bench.all_offsets(),
        (0..15).collect::<Vec<_>>(),
        "it is still read"
    );
    assert_eq!(
        bench.after_run(),
        (10, vec![10], 2),
        "and still trimmed, as far as that needs no new file"
    );
    assert!(bench.log().close().is_err(), "and leaves no clean stop behind");
    files.heal();
    bench.crash();
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 15);
}

#[test]
fn s082_a_failed_fsync_of_a_snapshot_leaves_the_recovery_point() {
    let files = FaultyFiles::new(DiskFiles::shared());
    let bench = Bench::with(Arc::new(files.clone()), &[]);
    bench.batches(11, NOW);
    files.inject(Fault {
        path_contains: ".snapshot".to_owned(),
        ..Fault::every(Operation::Sync, Effect::Eio)
    });
    assert!(bench.log().flush().is_err());
    assert_eq!(bench.log().recovery_point(), 0);
}
