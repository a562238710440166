//! Everything at once: appends from several threads, readers at their heels, passes, rolls, flushes and DeleteRecords.
//!
//! What must come out whatever the order: every acknowledged record that was not deleted is there once, each producer's records in the
//! order it sent them; a reader that follows sees every record above the log start, or is told that it is out of range.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidemark::log::append::Origin;
use tidemark::log::batch;
use tidemark::log::partition::{Durability, PartitionLog};
use tidemark::log::read::{Isolation, ReadError};

use crate::bench::*;

const WRITERS: i64 = 4;
const EACH: i32 = 500;

fn follow(log: &PartitionLog, until: i64) -> usize {
    let deadline = Instant::now() + Duration::from_secs(600);
    let (mut next, mut seen) = (0, 0);
    let mut sequences = vec![-1; WRITERS as usize];
    while next < until {
        assert!(Instant::now() < deadline, "the reader is stuck at {next}");
        match log.read(next, 2_000, true, Isolation::ReadUncommitted) {
            Ok(slice) if slice.len == 0 => std::thread::yield_now(),
            Ok(slice) => {
                let bytes = slice.to_vec().unwrap();
                for batch in batch::batches(&bytes) {
                    let batch = batch.unwrap();
                    batch.header.check_crc(batch.bytes).unwrap();
                    if batch.header.base_offset < next {
                        continue;
                    }
                    assert_eq!(batch.header.base_offset, next, "an offset was skipped");
                    let last = &mut sequences[batch.header.producer_id as usize];
                    assert!(batch.header.base_sequence > *last, "out of order");
                    *last = batch.header.base_sequence;
                    next = batch.header.next_offset();
                    seen += 1;
                }
            }
            Err(ReadError::OffsetOutOfRange { log_start, .. }) => {
                assert!(log_start > next);
                next = log_start;
            }
            Err(error) => panic!("{error}"),
        }
    }
    seen
}

fn stress(durability: Durability, retention_bytes: &str) {
    let mut bench = Bench::unopened(
        tidemark::log::files::DiskFiles::shared(),
        &[
            ("retention.bytes", retention_bytes),
            ("index.interval.bytes", "150"),
            ("file.delete.delay.ms", "0"),
        ],
    );
    bench.durability = durability;
    bench.open(true, 0).unwrap();
    let log = bench.log();
    let total = WRITERS * i64::from(EACH);
    let done = AtomicBool::new(false);
    let seen: Vec<usize> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| follow(log, total))).collect();
        scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                log.retain(NOW).unwrap();
                log.flush_closed().unwrap();
                if round % 7 == 0 {
                    log.idle_roll(i64::MAX).unwrap();
                }
                if round % 11 == 0 && retention_bytes != "-1" {
                    log.delete_records(log.log_start().midpoint(log.high_watermark()))
                        .unwrap();
                }
                round += 1;
                std::thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|producer| {
                scope.spawn(move || {
                    for sequence in 0..EACH {
                        let batch = Maker::default()
                            .producer(producer, 0, sequence)
                            .stamps(&[NOW])
                            .build();
                        let appended = log.append(&batch, 0, Origin::Client).unwrap();
                        assert!(!appended.duplicate);
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        let seen = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        seen
    });
    assert_eq!(log.log_end(), total);
    if retention_bytes == "-1" {
        assert_eq!(seen, [total as usize; 2]);
    }
    let (start, bases) = (log.log_start(), bench.bases());
    bench.crash();
    assert_eq!((bench.log().log_start(), bench.bases()), (start, bases));
    assert_eq!(bench.all_offsets(), (start..total).collect::<Vec<_>>());
}

#[test]
fn readers_see_every_record_while_others_append_roll_and_flush() {
    stress(Durability::PageCache, "-1");
}

#[test]
fn the_same_with_acknowledgement_after_fsync() {
    stress(Durability::Ack, "-1");
}

#[test]
fn and_with_a_tight_size_limit_and_deletions() {
    stress(Durability::PageCache, "2000");
}
