//! Every file operation of a life failing once, in every way.
//!
//! A script appends, rolls, deletes, flushes, closes and opens again. It runs once to count the calls, and then once for each call and each
//! kind of failure. Afterwards, whatever failed: the log opens, everything acknowledged above the log start is there byte for byte, the
//! acknowledged log start holds, nothing was made up, and appending goes on.
use std::collections::BTreeMap;
use std::sync::Arc;

use tidemark::log::batch;
use tidemark::log::faults::{Effect, Fault, FaultyFiles};
use tidemark::log::files::DiskFiles;
use tidemark::log::partition::Durability;
use tidemark::log::read::Isolation;

use crate::bench::*;

/// What the script knows to be acknowledged.
#[derive(Default)]
struct Acknowledged {
    /// By offset, the part of the batch that its checksum covers.
    batches: BTreeMap<i64, Vec<u8>>,
    log_start: i64,
    /// Every value ever sent.
    sent: Vec<Vec<u8>>,
}

struct Script {
    bench: Bench,
    files: FaultyFiles,
    known: Acknowledged,
    next: u32,
}

fn covered(batch: &[u8]) -> Vec<u8> {
    batch[batch::CRC_FROM..].to_vec()
}

impl Script {
    fn new(durability: Durability) -> Self {
        let files = FaultyFiles::new(DiskFiles::shared());
        let settings = [
            ("retention.ms", "10000"),
            ("index.interval.bytes", "0"),
            ("file.delete.delay.ms", "1000"),
        ];
        let mut bench = Bench::unopened(Arc::new(files.clone()), &settings);
        bench.durability = durability;
        Self {
            bench,
            files,
            known: Acknowledged::default(),
            next: 0,
        }
    }

    /// Opens; if that fails under the fault, opens again without it.
    fn open(&mut self, clean: bool, recovery_point: i64) {
        if self.bench.open(clean, recovery_point).is_err() {
            self.files.heal();
            self.bench.open(false, recovery_point).unwrap();
        }
    }

    fn append(&mut self, count: i64, timestamp: i64) {
        for _ in 0..count {
            let value = format!("value {:04} of this run, padded to some length", self.next);
            let batch = Maker::default()
                .record(timestamp, None, Some(value.as_bytes()))
                .build();
            self.next += 1;
            self.known.sent.push(covered(&batch));
            if let Ok(appended) = self.bench.append(&batch) {
                self.known.batches.insert(appended.base_offset, covered(&batch));
            }
        }
    }

    fn delete_records(&mut self, offset: i64) {
        if let Ok(log_start) = self.bench.log().delete_records(offset) {
            self.known.log_start = log_start;
        }
    }

    fn live(&mut self) {
        self.open(true, 0);
        self.append(12, NOW - 20_000);
        self.append(6, NOW);
        self.delete_records(3);
        let _ = self.bench.log().flush();
        let _ = self.bench.log().retain(NOW);
        let recovery_point = self.bench.log().recovery_point();
        self.append(4, NOW);
        self.delete_records(11);
        self.open(false, recovery_point);
        self.append(4, NOW);
        self.bench.clock.advance_ms(1_000);
        self.bench.log().unlink_due();
        let _ = self.bench.log().idle_roll(i64::MAX);
        self.append(3, NOW);
        let clean = self.bench.log().close().is_ok();
        self.open(clean, recovery_point);
        let _ = self.bench.all_offsets_or_error();
        self.append(3, NOW);
        let _ = self.bench.log().retain(NOW);
    }

    /// Everything that must hold afterwards.
    fn check(&mut self, what: &str) {
        self.files.heal();
        let recovery_point = self.bench.log().recovery_point();
        self.bench.open(false, recovery_point).unwrap();
        let log = self.bench.log();
        assert!(
            log.log_start() >= self.known.log_start,
            "{what}: the log start went back"
        );
        let end = self
            .known
            .batches
            .last_key_value()
            .map_or(0, |(offset, _)| offset + 1);
        assert!(
            log.log_end() >= end,
            "{what}: the log ends at {}, acknowledged is {end}",
            log.log_end()
        );
        assert_eq!(log.damage(), [], "{what}");
        let mut found = BTreeMap::new();
        let mut next = log.log_start();
        while next < log.log_end() {
            let slice = log.read(next, 1, true, Isolation::ReadUncommitted).unwrap();
            let bytes = slice.to_vec().unwrap();
            assert!(!bytes.is_empty(), "{what}: nothing at {next}");
            for batch in batch::batches(&bytes) {
                let batch = batch.unwrap();
                batch.header.check_crc(batch.bytes).unwrap();
                found.insert(batch.header.base_offset, covered(batch.bytes));
                next = batch.header.next_offset();
            }
        }
        for (offset, expected) in self.known.batches.range(log.log_start()..) {
            assert_eq!(found.get(offset), Some(expected), "{what}: record {offset}");
        }
        for (offset, bytes) in &found {
            assert!(
                self.known.sent.contains(bytes),
                "{what}: record {offset} was never sent"
            );
        }
        let log_end = log.log_end();
        assert_eq!(
            self.bench.append(&one(NOW)).unwrap().base_offset,
            log_end,
            "{what}"
        );
        self.bench.log().close().unwrap();
        self.bench.open(true, 0).unwrap();
        assert_eq!(self.bench.log().log_end(), log_end + 1, "{what}");
    }
}

#[test]
fn every_operation_failing_once_loses_nothing_that_was_acknowledged() {
    let mut script = Script::new(Durability::PageCache);
    script.live();
    let calls = script.files.total();
    script.check("no fault");
    assert!(calls > 200, "the script makes only {calls} calls");
    let effects = [
        Effect::Eio,
        Effect::Enospc,
        Effect::Eintr,
        Effect::Erofs,
        Effect::Short(1),
        Effect::Short(70),
        Effect::Torn(1),
        Effect::Torn(40),
        Effect::Torn(90),
    ];
    for effect in effects {
        for nth in 0..calls {
            let mut script = Script::new(Durability::PageCache);
            script.files.inject(Fault::any(nth, effect));
            script.live();
            script.check(&format!("{effect:?} at call {nth}"));
        }
    }
}

#[test]
fn everything_failing_from_some_call_on_loses_nothing_that_was_acknowledged() {
    let mut script = Script::new(Durability::PageCache);
    script.live();
    let calls = script.files.total();
    for bytes in [0, 30, 61, 100_000] {
        for nth in 0..calls {
            let mut script = Script::new(Durability::PageCache);
            script.files.inject(Fault::any(nth, Effect::Crash(bytes)));
            script.live();
            script.check(&format!("death after {bytes} bytes of call {nth}"));
        }
    }
}

#[test]
fn with_acknowledgement_after_fsync_a_failed_fsync_is_a_failed_append() {
    let mut script = Script::new(Durability::Ack);
    script.live();
    let calls = script.files.total();
    script.check("no fault");
    for nth in 0..calls {
        let mut script = Script::new(Durability::Ack);
        script.files.inject(Fault::any(nth, Effect::Eio));
        script.live();
        script.check(&format!("acknowledged after fsync, EIO at call {nth}"));
    }
}

#[test]
fn torn_and_flipped_bytes_at_every_position_of_the_last_batches() {
    let mut bench = Bench::new(&[]);
    bench.batches(3, NOW);
    let path = bench.file("00000000000000000000.log");
    let whole = std::fs::read(&path).unwrap();
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        bench.crash();
        assert_eq!(bench.log().log_end(), len as i64 / BATCH, "cut to {len} bytes");
        assert_eq!(
            std::fs::metadata(&path).unwrap().len() as i64,
            len as i64 / BATCH * BATCH
        );
    }
    for position in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[position] ^= 0x10;
        std::fs::write(&path, &flipped).unwrap();
        bench.crash();
        let in_batch = position as i64 % BATCH;
        // Leader epoch is the one field that neither checksum nor structure covers.
        let harmless = (12..16).contains(&in_batch);
        let expected = if harmless { 3 } else { position as i64 / BATCH };
        // A changed base offset that still rises is a gap, which is legal; it cannot be told from one.
        let moved = (0..8).contains(&in_batch);
        if !moved {
            assert_eq!(bench.log().log_end(), expected, "flipped byte {position}");
        }
        std::fs::remove_file(bench.file("leader-epoch-checkpoint")).unwrap_or_default();
    }
}

#[test]
fn missing_files_of_every_kind() {
    for kind in ["log", "index", "timeindex", "snapshot"] {
        for clean in [true, false] {
            let mut bench = Bench::new(&[]);
            bench.batches(15, NOW);
            bench.log().close().unwrap();
            std::fs::remove_file(bench.file(&format!("00000000000000000005.{kind}"))).unwrap();
            bench.open(clean, 0).unwrap();
            assert_eq!(bench.log().log_end(), 15, "{kind}");
            if kind == "log" && !clean {
                // What was never flushed and is gone is told.
                let damage = bench.log().damage();
                assert_eq!((damage[0].from_offset, damage[0].to_offset), (5, 10));
                assert_eq!(
                    (bench.fetch(4).unwrap(), bench.fetch(10).unwrap()[0]),
                    (vec![4], 10)
                );
                continue;
            }
            let expected: Vec<i64> = (0..15)
                .filter(|offset| kind != "log" || !(5..10).contains(offset))
                .collect();
            assert_eq!(bench.all_offsets(), expected, "{kind}");
        }
    }
}
