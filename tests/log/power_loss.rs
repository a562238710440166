//! Power losses at random moments of random histories: what was acknowledged under the promised durability is there, byte for byte; nothing
//! was made up; an acknowledged DeleteRecords holds.
//!
//! Under `Durability::Ack` every acknowledged append is promised, under `Durability::PageCache` what an acknowledged flush covers.
//! `TIDEMARK_HISTORIES` sets how many histories run (150). A failure prints the seed of its history: `TIDEMARK_HISTORIES=1 TIDEMARK_SEED=…` runs
//! that one alone.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemark::log::append::Origin;
use tidemark::log::batch::{self, CRC_FROM};
use tidemark::log::checkpoints::{self, Offsets};
use tidemark::log::error::LogError;
use tidemark::log::faults::{Effect, Fault, FaultyFiles};
use tidemark::log::files::Files;
use tidemark::log::handles::HandleCache;
use tidemark::log::names;
use tidemark::log::partition::{Durability, LogStarts, OpenLog, PartitionLog};
use tidemark::log::read::{Isolation, ReadError};
use tidemark::resource::settings::{Overrides, TopicSettings};
use tidemark::telemetry::clock::{Clock, ManualClock};

use crate::bench::{DAY, Maker, NOW};
use crate::kill::Random;
use crate::volatile::VolatileFiles;

const TOPIC: &str = "t";

/// Log starts in a checkpoint on the same disk, written through.
#[derive(Debug)]
struct Starts(Arc<dyn Files>);

fn root() -> PathBuf {
    PathBuf::from("/data")
}

fn set_offset(files: &dyn Files, file: &str, offset: i64) -> Result<(), LogError> {
    let offsets = Offsets::from([((TOPIC.to_owned(), 0), offset)]);
    checkpoints::write_offsets(files, &root().join(file), &offsets)
}

fn offset(files: &dyn Files, file: &str) -> i64 {
    let offsets = checkpoints::read_offsets(files, &root().join(file))
        .expect("a checkpoint is old or new, never broken");
    offsets.get(&(TOPIC.to_owned(), 0)).copied().unwrap_or(0)
}

impl LogStarts for Starts {
    fn persist(&self, _topic: &str, _partition: i32, log_start: i64) -> Result<(), LogError> {
        set_offset(self.0.as_ref(), names::LOG_START_CHECKPOINT, log_start)
    }
}

struct History {
    disk: VolatileFiles,
    files: FaultyFiles,
    durability: Durability,
    clock: Arc<ManualClock>,
    random: Random,
    /// What was sent and may be there: base offset to last offset and the bytes that the checksum covers.
    sent: BTreeMap<i64, (i64, Vec<u8>)>,
    /// Everything below is promised.
    promised: i64,
    /// No read below may succeed again.
    deleted: i64,
    /// Offsets that were lost before they were promised, and stay lost.
    lost: BTreeSet<i64>,
    serial: u8,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let disk = VolatileFiles::with_directories(&[&root(), &root().join("t-0")]);
        Self {
            files: FaultyFiles::new(Arc::new(disk.clone())),
            disk,
            durability: if random.below(2) == 0 {
                Durability::Ack
            } else {
                Durability::PageCache
            },
            clock: Arc::new(ManualClock::at(NOW)),
            random,
            sent: BTreeMap::new(),
            promised: 0,
            deleted: 0,
            lost: BTreeSet::new(),
            serial: 0,
        }
    }

    fn open(&self) -> Result<PartitionLog, LogError> {
        let files: Arc<dyn Files> = Arc::new(self.files.clone());
        let settings: Overrides = [
            ("internal.segment.bytes", "600"),
            ("index.interval.bytes", "100"),
            ("retention.bytes", "3000"),
            ("file.delete.delay.ms", "0"),
        ]
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
        let clean = checkpoints::take_clean_shutdown(files.as_ref(), &root().join(names::CLEAN_SHUTDOWN))?;
        PartitionLog::open(OpenLog {
            directory: root().join("t-0"),
            topic: TOPIC.to_owned(),
            partition: 0,
            settings: Arc::new(TopicSettings::resolve(&[&settings]).unwrap()),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            handles: HandleCache::new(8),
            durability: self.durability,
            log_starts: Arc::new(Starts(Arc::clone(&files))),
            clean,
            recovery_point: offset(files.as_ref(), names::RECOVERY_POINT_CHECKPOINT),
            log_start: offset(files.as_ref(), names::LOG_START_CHECKPOINT),
            producer_expiration_ms: DAY,
            files,
        })
    }

    fn append(&mut self, log: &PartitionLog) -> Result<(), ()> {
        self.serial = self.serial.wrapping_add(1);
        let mut maker = Maker::default();
        for _ in 0..1 + self.random.below(3) {
            let value = vec![self.serial; self.random.below(120) as usize];
            maker = maker.record(self.clock.wall_ms(), None, Some(&value));
        }
        let bytes = maker.build();
        let (base, last) = (log.log_end(), log.log_end() + maker.records.len() as i64 - 1);
        // From now on it may be there, whatever comes of it.
        let earlier = self.sent.insert(base, (last, bytes[CRC_FROM..].to_vec()));
        assert!(
            earlier.is_none() || base >= self.promised,
            "a promised offset is given again"
        );
        let appended = log.append(&bytes, 0, Origin::Client).map_err(drop)?;
        assert_eq!((appended.base_offset, appended.last_offset), (base, last));
        if self.durability == Durability::Ack {
            self.promised = last + 1;
        }
        Ok(())
    }

    fn step(&mut self, log: &PartitionLog) -> Result<(), ()> {
        match self.random.below(40) {
            0..28 => self.append(log),
            28..31 => {
                log.flush().map_err(drop)?;
                self.promised = log.log_end();
                let point = log.recovery_point();
                set_offset(&self.files, names::RECOVERY_POINT_CHECKPOINT, point).map_err(drop)
            }
            31..33 => log.flush_closed().map_err(drop),
            33..36 => {
                log.retain(self.clock.wall_ms()).map_err(drop)?;
                log.unlink_due();
                Ok(())
            }
            36..38 => {
                let (start, end) = (log.log_start(), log.log_end());
                let target = start + self.random.below((end - start) as u64 / 3 + 1) as i64;
                self.deleted = self
                    .deleted
                    .max(log.delete_records(target).map_err(drop)?.min(target));
                Ok(())
            }
            38 => self.checkpoint_log_start(log).map_err(drop),
            _ => {
                self.clock.advance_ms(1000);
                Ok(())
            }
        }
    }

    /// As housekeeping does: an entry goes once file names imply it.
    fn checkpoint_log_start(&self, log: &PartitionLog) -> Result<(), LogError> {
        let path = root().join(names::LOG_START_CHECKPOINT);
        let key = (TOPIC.to_owned(), 0);
        let kept = checkpoints::read_offsets(&self.files, &path)?.get(&key).copied();
        let start = log.log_start_to_checkpoint(kept);
        let starts: Offsets = start.map(|start| (key, start)).into_iter().collect();
        checkpoints::write_offsets(&self.files, &path, &starts)
    }

    /// Works for a while, until the power goes in the middle of something.
    fn live_until_the_power_goes(&mut self) {
        let log = self.open().expect("a disk without faults");
        self.hold(&log);
        let last_call = self.random.below(400);
        self.files.inject(Fault::any(
            last_call,
            Effect::Crash(self.random.below(200) as usize),
        ));
        // Without an operation left to fail the history simply ends here.
        for _ in 0..150 {
            if self.step(&log).is_err() || self.files.is_crashed() {
                break;
            }
        }
        drop(log);
        self.disk.lose_power(&mut self.random);
        self.files.heal();
    }

    /// Bytes of a closed segment that no flush had covered may be lost in the middle of the log, and stay lost.
    fn lose(&mut self, from: i64, to: i64) {
        let broken = (from..to.min(self.promised)).find(|offset| !self.lost.contains(offset));
        assert_eq!(
            broken, None,
            "{from} to {to} is lost, below {} was promised",
            self.promised
        );
        self.lost.extend(from..to);
    }

    /// Holds what is there against what was promised, and goes on from what is there.
    fn hold(&mut self, log: &PartitionLog) {
        let (start, end) = (log.log_start(), log.log_end());
        assert!(
            start >= self.deleted,
            "log start {start}, DeleteRecords to {} was acknowledged",
            self.deleted
        );
        assert!(
            end >= self.promised,
            "log end {end}, everything below {} was promised",
            self.promised
        );
        let mut found = BTreeMap::new();
        let mut next = start;
        while next < end {
            let slice = match log.read(next, 1, true, Isolation::LogEnd) {
                Ok(slice) => slice,
                Err(ReadError::Damaged { from, to }) => {
                    self.lose(from, to);
                    assert!(to > next);
                    next = to;
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let bytes = slice.to_vec().unwrap();
            let batch = batch::batches(&bytes)
                .next()
                .unwrap_or_else(|| panic!("no batch at {next} although the log ends at {end}"))
                .unwrap();
            let whole = batch.header.check_crc(batch.bytes);
            assert_eq!(
                whole,
                Ok(()),
                "at {next} of {start}..{end}: {:#?} {:#?}",
                log.segments(),
                log.damage()
            );
            let base = batch.header.base_offset;
            if base > next && next != start {
                self.lose(next, base);
                let told = log
                    .damage()
                    .iter()
                    .any(|range| range.from_offset <= next && base <= range.to_offset);
                assert!(
                    told,
                    "nothing from {next} to {base}, and the log does not say so: {:?}",
                    log.damage()
                );
            }
            found.insert(
                base,
                (batch.header.last_offset(), batch.bytes[CRC_FROM..].to_vec()),
            );
            next = batch.header.next_offset();
        }
        for (base, batch) in &found {
            assert_eq!(
                self.sent.get(base),
                Some(batch),
                "what lies at {base} is not what was sent"
            );
        }
        for (base, (last, _)) in self.sent.range(..self.promised) {
            assert!(
                *last < start || found.contains_key(base),
                "the batch at {base} was promised and is gone"
            );
        }
        self.sent = found;
        self.promised = self.promised.max(start);
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

#[test]
fn what_was_promised_survives_a_power_loss() {
    let histories = number("TIDEMARK_HISTORIES", 150);
    let seed = number("TIDEMARK_SEED", 20_261_130);
    let mut seeds = Random(seed);
    let (mut promised, mut deleted) = (0, 0);
    for _ in 0..histories {
        let seed = if histories == 1 { seed } else { seeds.next() };
        eprintln!("TIDEMARK_SEED={seed}");
        let mut history = History::new(seed);
        for _ in 0..6 {
            history.live_until_the_power_goes();
        }
        let log = history.open().unwrap();
        history.hold(&log);
        promised += history.promised;
        deleted += history.deleted;
    }
    assert!(promised > 0 && deleted > 0);
}

#[test]
fn the_disk_of_these_tests_forgets_what_was_not_synced_and_nothing_else() {
    let path = root().join("a");
    let mut kept = [0; 2];
    for seed in 0..100 {
        let disk = VolatileFiles::with_directories(&[&root()]);
        let file = disk
            .open(&path, tidemark::log::files::OpenMode::CreateNew)
            .unwrap();
        file.write_all_at(b"synced", 0).unwrap();
        file.sync_all().unwrap();
        disk.sync_dir(&root()).unwrap();
        file.write_all_at(b" not synced", 6).unwrap();
        disk.rename(&path, Path::new("/data/b")).unwrap();
        disk.lose_power(&mut Random(seed));
        assert!(file.sync_all().is_err(), "a handle of the life before");
        let names: Vec<String> = disk
            .list(&root())
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert!(names == ["a"] || names == ["b"]);
        let content = tidemark::log::files::read_small(&disk, &root().join(&names[0]), 100)
            .unwrap()
            .unwrap();
        assert!(content.starts_with(b"synced"));
        kept[0] += usize::from(names == ["b"]);
        kept[1] += usize::from(content == b"synced not synced");
    }
    assert!(kept.iter().all(|kept| (10..90).contains(kept)), "{kept:?}");
}
