//! Scenarios 108 to 122: starting after a clean and after an unclean stop.
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tidemark::log::faults::{FaultyFiles, Operation};
use tidemark::log::files::DiskFiles;
use tidemark::log::read::ReadError;

use crate::bench::*;

fn hundred() -> Bench {
    let bench = Bench::new(&[]);
    bench.batches(100, NOW);
    bench
}

fn append_bytes(bench: &Bench, name: &str, bytes: &[u8]) {
    let path = bench.file(name);
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, file.metadata().unwrap().len()).unwrap();
}

/// Flips a byte in the middle of the given batch of a segment.
fn flip(bench: &Bench, base: i64, batch: u64) {
    let file = File::options()
        .read(true)
        .write(true)
        .open(bench.file(&format!("{base:020}.log")))
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, batch * 100 + 80).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], batch * 100 + 80).unwrap();
}

/// Offsets from the log start on, with those that answer an explicit error left out and counted.
fn readable(bench: &Bench) -> (Vec<i64>, Vec<(i64, i64)>) {
    let (mut offsets, mut damaged) = (Vec::new(), Vec::new());
    let mut next = bench.log().log_start();
    while next < bench.log().log_end() {
        match bench.fetch(next) {
            Ok(fetched) => {
                let Some(last) = fetched.last().copied() else {
                    break;
                };
                offsets.extend(fetched.into_iter().filter(|offset| *offset >= next));
                next = last + 1;
            }
            Err(ReadError::Damaged { from, to }) => {
                damaged.push((from, to));
                next = to;
            }
            Err(error) => panic!("{error}"),
        }
    }
    (offsets, damaged)
}

#[test]
fn s108_a_clean_start_reads_no_segment_from_end_to_end() {
    let mut bench = hundred();
    bench.log().close().unwrap();
    let files = FaultyFiles::new(DiskFiles::shared());
    bench.files = Arc::new(files.clone());
    bench.open(true, 0).unwrap();
    assert_eq!((bench.log().log_end(), bench.log().recovery_point()), (100, 100));
    assert_eq!(bench.log().load_report().recovered_segments, 0);
    // One look and one time index entry for each of twenty segments, the tail of the last, the checkpoints: and no more with more
    // bytes in the segments.
    let small = files.total();
    let mut larger = Bench::new(&[
        ("internal.segment.bytes", "50000"),
        ("index.interval.bytes", "4096"),
    ]);
    larger.batches(10_000, NOW);
    larger.log().close().unwrap();
    let files = FaultyFiles::new(DiskFiles::shared());
    larger.files = Arc::new(files.clone());
    larger.open(true, 0).unwrap();
    assert_eq!((larger.bases().len(), larger.log().log_end()), (20, 10_000));
    assert!(
        files.total() <= small + 5,
        "{} calls for small segments, {} for large ones",
        small,
        files.total()
    );
    assert!(
        files.count(Operation::Read) <= 30,
        "{} reads",
        files.count(Operation::Read)
    );
}

#[test]
fn s109_recovery_never_moves_the_recovery_point_and_a_flush_does() {
    let mut bench = hundred();
    let before = bench.all_offsets();
    bench.open(false, 10).unwrap();
    assert_eq!(bench.log().recovery_point(), 10);
    assert_eq!(bench.log().load_report().recovered_segments, 18);
    assert_eq!(bench.all_offsets(), before);
    bench.log().flush().unwrap();
    assert_eq!(bench.log().recovery_point(), 100);
}

#[test]
fn s110_garbage_behind_the_last_batch_is_cut() {
    for garbage in [
        &[0xa5; 7][..],
        &[0xa5; 500],
        &[0; 4096],
        &one(NOW)[..60],
        &one(NOW)[..99],
    ] {
        let mut bench = hundred();
        append_bytes(&bench, "00000000000000000095.log", garbage);
        append_bytes(&bench, "00000000000000000095.index", &[0xff; 40]);
        bench.crash();
        assert_eq!(bench.all_offsets(), (0..100).collect::<Vec<_>>());
        assert_eq!(bench.log().load_report().truncated_bytes, garbage.len() as i64);
        assert_eq!(
            std::fs::metadata(bench.file("00000000000000000095.log"))
                .unwrap()
                .len(),
            500
        );
        assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 100);
    }
}

#[test]
fn s111_damage_in_a_closed_segment_costs_nothing_but_itself() {
    // Kafka cuts segment 5 at the damage and drops segment 10, intact as it is.
    let mut bench = Bench::new(&[]);
    bench.batches(15, NOW);
    flip(&bench, 5, 2);
    bench.crash();
    assert_eq!(bench.bases(), [0, 5, 10]);
    assert_eq!(
        readable(&bench),
        (
            [(0..7).collect::<Vec<_>>(), (8..15).collect()].concat(),
            vec![(7, 8)]
        )
    );
    let damage = &bench.log().load_report().damage;
    assert_eq!(
        (damage.len(), damage[0].from_offset, damage[0].to_offset),
        (1, 7, 8)
    );
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 15);
}

#[test]
fn s111_damage_at_the_end_of_a_closed_segment_reaches_to_the_next_one() {
    let mut bench = Bench::new(&[]);
    bench.batches(15, NOW);
    flip(&bench, 5, 4);
    let file = File::options()
        .write(true)
        .open(bench.file("00000000000000000000.log"))
        .unwrap();
    file.set_len(333).unwrap();
    bench.crash();
    assert_eq!(readable(&bench).1, [(3, 5), (9, 10)]);
    assert_eq!(readable(&bench).0, [0, 1, 2, 5, 6, 7, 8, 10, 11, 12, 13, 14]);
}

#[test]
fn damage_is_known_again_after_a_clean_restart_and_forgotten_with_its_segment() {
    let mut bench = Bench::new(&[("file.delete.delay.ms", "0")]);
    bench.batches(15, NOW);
    flip(&bench, 5, 2);
    bench.crash();
    for _ in 0..2 {
        bench.restart();
        assert_eq!(readable(&bench).1, [(7, 8)]);
        assert_eq!(bench.log().load_report().damage.len(), 1);
    }
    bench.log().delete_records(10).unwrap();
    bench.run();
    assert_eq!(bench.log().damage(), []);
    bench.restart();
    assert_eq!(bench.log().load_report().damage, []);
    assert_eq!(bench.all_offsets(), [10, 11, 12, 13, 14]);
    assert!(!bench.exists("damaged-ranges"));
}

#[test]
fn s112_below_the_recovery_point_nothing_is_read_again() {
    let mut bench = Bench::new(&[]);
    bench.batches(15, NOW);
    flip(&bench, 5, 2);
    bench.open(false, 10).unwrap();
    assert_eq!(bench.log().load_report().recovered_segments, 1);
    assert_eq!(
        (bench.bases(), bench.log().load_report().damage.len()),
        (vec![0, 5, 10], 0)
    );
}

#[test]
fn s113_after_a_clean_stop_neither() {
    let mut bench = Bench::new(&[]);
    bench.batches(15, NOW);
    bench.log().close().unwrap();
    flip(&bench, 5, 2);
    bench.open(true, 0).unwrap();
    assert_eq!(
        (bench.bases(), bench.log().load_report().recovered_segments),
        (vec![0, 5, 10], 0)
    );
}

#[test]
fn a_broken_header_met_while_reading_is_reported_and_read_around() {
    let mut bench = Bench::new(&[]);
    bench.batches(15, NOW);
    bench.log().close().unwrap();
    let file = File::options()
        .write(true)
        .open(bench.file("00000000000000000005.log"))
        .unwrap();
    file.write_all_at(&[0xff; 40], 200).unwrap();
    bench.open(true, 0).unwrap();
    // Nobody knows of it yet; the first read that gets there finds it, and from then on ranges end before it.
    let found = bench.fetch(7);
    assert!(
        matches!(found, Err(ReadError::Damaged { from: 7, to: 8 })),
        "{found:?}"
    );
    assert_eq!(bench.log().damage().len(), 1);
    assert_eq!(readable(&bench).1, [(7, 8)]);
    assert_eq!(
        readable(&bench).0,
        [(0..7).collect::<Vec<_>>(), (8..15).collect()].concat()
    );
}

#[test]
fn damage_below_the_recovery_point_of_the_active_segment_is_kept_and_above_it_cut() {
    for (recovery_point, offsets, damaged) in [
        (0, vec![0, 1], vec![]),
        (2, vec![0, 1], vec![]),
        (3, vec![0, 1, 3, 4], vec![(2, 3)]),
        (5, vec![0, 1, 3, 4], vec![(2, 3)]),
    ] {
        let mut bench = Bench::new(&[]);
        bench.batches(5, NOW);
        flip(&bench, 0, 2);
        bench.open(false, recovery_point).unwrap();
        assert_eq!(
            readable(&bench),
            (offsets, damaged),
            "recovery point {recovery_point}"
        );
    }
}

#[test]
fn s114_missing_indexes_are_made_anew_for_every_segment() {
    for clean in [true, false] {
        let mut bench = Bench::new(&[("index.interval.bytes", "0")]);
        for n in 0..40 {
            bench.batches(1, NOW + n);
        }
        bench.log().close().unwrap();
        let indexes = |bench: &Bench| -> Vec<(String, Vec<u8>)> {
            let names = bench.names().into_iter().filter(|name| name.ends_with("index"));
            names
                .map(|name| (name.clone(), std::fs::read(bench.file(&name)).unwrap()))
                .collect()
        };
        let before = indexes(&bench);
        for (name, _) in &before {
            std::fs::remove_file(bench.file(name)).unwrap();
        }
        bench.open(clean, 0).unwrap();
        assert_eq!(bench.log().load_report().rebuilt_indexes, 8);
        assert_eq!(bench.all_offsets(), (0..40).collect::<Vec<_>>());
        bench.log().close().unwrap();
        assert_eq!(indexes(&bench), before, "the same bytes as before");
    }
}

#[test]
fn s115_indexes_full_of_blanks_are_made_anew() {
    let mut bench = Bench::new(&[("index.interval.bytes", "0")]);
    bench.batches(40, NOW);
    bench.log().close().unwrap();
    for name in bench.names().into_iter().filter(|name| name.ends_with("index")) {
        std::fs::write(bench.file(&name), [b' '; 4800]).unwrap();
    }
    bench.crash();
    assert_eq!(bench.all_offsets(), (0..40).collect::<Vec<_>>());
    assert_eq!(bench.log().segments()[0].largest_timestamp, NOW);
}

#[test]
fn wrong_indexes_are_found_out_by_reading_and_mended() {
    let mut bench = Bench::new(&[("index.interval.bytes", "0"), ("internal.segment.bytes", "2000")]);
    bench.batches(60, NOW);
    bench.log().close().unwrap();
    for base in [0, 20] {
        let name = format!("{base:020}.index");
        let mut bytes = std::fs::read(bench.file(&name)).unwrap();
        for entry in bytes.chunks_exact_mut(8) {
            entry[7] = entry[7].wrapping_add(13);
        }
        std::fs::write(bench.file(&name), bytes).unwrap();
    }
    bench.open(true, 0).unwrap();
    for offset in (0..60).rev() {
        assert_eq!(bench.fetch(offset).unwrap()[0], offset);
    }
    assert_eq!(bench.log().rebuilt_indexes(), 2);
    assert_eq!(bench.log().damage(), []);
}

#[test]
fn s116_a_damaged_early_segment_takes_nothing_of_the_later_ones_with_it() {
    // Kafka deletes everything here and starts empty at 4.
    let mut bench = Bench::new(&[("internal.segment.bytes", "100")]);
    bench.batches(10, NOW);
    bench.log().delete_records(4).unwrap();
    let file = File::options()
        .write(true)
        .open(bench.file("00000000000000000001.log"))
        .unwrap();
    file.write_all_at(&[0xff; 30], 0).unwrap();
    bench.crash();
    assert_eq!((bench.log().log_start(), bench.log().log_end()), (4, 10));
    assert_eq!(readable(&bench), ((4..10).collect(), vec![]));
}

#[test]
fn s117_unfinished_replacements_are_removed() {
    let mut bench = Bench::new(&[]);
    bench.batches(15, NOW);
    bench.log().close().unwrap();
    for kind in ["log", "index", "timeindex"] {
        std::fs::write(
            bench.file(&format!("00000000000000000005.{kind}.cleaned")),
            b"half",
        )
        .unwrap();
    }
    bench.open(true, 0).unwrap();
    assert!(!bench.names().iter().any(|name| name.ends_with(".cleaned")));
    assert_eq!(bench.all_offsets(), (0..15).collect::<Vec<_>>());
}

#[test]
fn s118_a_replacement_behind_an_unfinished_one_is_void() {
    let mut bench = Bench::new(&[]);
    bench.batches(15, NOW);
    bench.log().close().unwrap();
    std::fs::write(bench.file("00000000000000000010.log.swap"), b"").unwrap();
    std::fs::write(bench.file("00000000000000000005.log.cleaned"), b"").unwrap();
    bench.open(true, 0).unwrap();
    assert!(
        !bench
            .names()
            .iter()
            .any(|name| name.ends_with(".swap") || name.ends_with(".cleaned"))
    );
    assert_eq!(bench.all_offsets(), (0..15).collect::<Vec<_>>());
}

#[test]
fn s119_a_complete_replacement_is_put_in_place() {
    let mut bench = Bench::new(&[]);
    bench.batches(15, NOW);
    bench.log().close().unwrap();
    // Segments 0 and 5, merged into one.
    let merged = [0, 5]
        .map(|base| std::fs::read(bench.file(&format!("{base:020}.log"))).unwrap())
        .concat();
    std::fs::write(bench.file("00000000000000000000.log.swap"), merged).unwrap();
    bench.open(true, 0).unwrap();
    assert_eq!(bench.bases(), [0, 10]);
    assert!(!bench.exists("00000000000000000005.log") && !bench.exists("00000000000000000005.snapshot"));
    assert_eq!(bench.all_offsets(), (0..15).collect::<Vec<_>>());
}

#[test]
fn s120_an_index_whose_log_is_in_place_already_follows_it() {
    let mut bench = Bench::new(&[("index.interval.bytes", "0")]);
    bench.batches(15, NOW);
    bench.log().close().unwrap();
    let index = bench.file("00000000000000000005.index");
    let bytes = std::fs::read(&index).unwrap();
    std::fs::rename(&index, bench.file("00000000000000000005.index.swap")).unwrap();
    bench.open(true, 0).unwrap();
    assert_eq!(std::fs::read(&index).unwrap(), bytes);
    assert_eq!(bench.log().load_report().rebuilt_indexes, 0);
}

#[test]
fn s121_leader_epochs_are_put_together_again_from_the_batches() {
    for checkpoint in ["0\n1\n1 0\n", "", "nonsense"] {
        let mut bench = Bench::unopened(DiskFiles::shared(), &[]);
        let stored = |base_offset, leader_epoch| {
            Maker {
                base_offset,
                leader_epoch,
                ..Maker::default().stamps(&[NOW])
            }
            .build()
        };
        bench.put_log(0, &[stored(0, 1), stored(1, 2), stored(2, 2), stored(3, 3)]);
        std::fs::write(bench.file("leader-epoch-checkpoint"), checkpoint).unwrap();
        bench.open(false, 0).unwrap();
        assert_eq!(bench.log().latest_epoch(), 3);
        assert_eq!(bench.log().end_offset_for_epoch(1), (1, 1));
        assert_eq!(bench.log().end_offset_for_epoch(2), (2, 3));
    }
}

#[test]
fn s122_a_preallocated_segment_is_trimmed_by_a_close_and_cut_after_a_crash() {
    let settings = [("preallocate", "true"), ("internal.segment.bytes", "10000")];
    let mut bench = Bench::new(&settings);
    bench.batches(3, NOW);
    let len = |bench: &Bench| {
        std::fs::metadata(bench.file("00000000000000000000.log"))
            .unwrap()
            .len()
    };
    assert_eq!(len(&bench), 10_000);
    bench.crash();
    assert_eq!((len(&bench), bench.log().log_end()), (300, 3));
    bench.restart();
    assert_eq!((len(&bench), bench.all_offsets()), (300, vec![0, 1, 2]));
    let bench = Bench::new(&settings);
    bench.batches(101, NOW);
    assert_eq!(bench.bases(), [0, 100]);
    assert_eq!(len(&bench), 10_000);
}

#[test]
fn a_clean_marker_that_lies_does_not_fool_the_active_segment() {
    let mut bench = hundred();
    bench.log().close().unwrap();
    append_bytes(&bench, "00000000000000000095.log", &[0; 50]);
    bench.open(true, 0).unwrap();
    assert_eq!(bench.all_offsets(), (0..100).collect::<Vec<_>>());
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 100);
    bench.crash();
    assert_eq!(bench.all_offsets(), (0..101).collect::<Vec<_>>());
}
