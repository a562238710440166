//! A real process killed with SIGKILL at random points, again and again on the same directory.
//!
//! The child is this test binary, run for its [`child`] alone: it appends, rolls, deletes, flushes, checkpoints, closes and opens, and writes a
//! line before and after each step. A line that was written after a step is an acknowledgement: whatever the moment of the kill, the
//! parent must find it kept. What was begun and not acknowledged may have happened or not, but nothing in between, and nothing else may
//! have changed.
//!
//! `TIDEMARK_KILLS` sets the number of kills (200), `TIDEMARK_SEED` the seed that a failure prints.
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tidemark::log::append::Origin;
use tidemark::log::batch::{self, BatchHeader};
use tidemark::log::checkpoints::{self, Offsets};
use tidemark::log::compression::Codec;
use tidemark::log::error::LogError;
use tidemark::log::files::{DiskFiles, Files};
use tidemark::log::handles::HandleCache;
use tidemark::log::inspect::{self, Depth};
use tidemark::log::names;
use tidemark::log::partition::{Durability, LogStarts, OpenLog, PartitionLog};
use tidemark::log::read::Isolation;
use tidemark::resource::settings::{Overrides, TopicSettings};
use tidemark::retention::Rules;
use tidemark::telemetry::clock::{Clock, SystemClock};

use crate::bench::{DAY, Maker};

const TOPIC: &str = "t";
const CHILD: &str = "TIDEMARK_KILL_CHILD";

/// A small generator of numbers that anyone can repeat (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to and without `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Log starts in Kafka's checkpoint, written through.
#[derive(Debug)]
struct DiskStarts(PathBuf);

impl LogStarts for DiskStarts {
    fn persist(&self, topic: &str, partition: i32, log_start: i64) -> Result<(), LogError> {
        let path = self.0.join(names::LOG_START_CHECKPOINT);
        let mut starts = checkpoints::read_offsets(&DiskFiles, &path)?;
        starts.insert((topic.to_owned(), partition), log_start);
        checkpoints::write_offsets(&DiskFiles, &path, &starts)
    }
}

fn partition(root: &Path) -> PathBuf {
    root.join("t-0")
}

fn checkpointed(root: &Path, file: &str) -> i64 {
    let offsets = checkpoints::read_offsets(&DiskFiles, &root.join(file)).unwrap();
    offsets.get(&(TOPIC.to_owned(), 0)).copied().unwrap_or(0)
}

/// Opens the log as an engine does at its start; says whether the last stop was clean.
fn open(root: &Path, durability: Durability) -> PartitionLog {
    let settings: Overrides = [
        ("internal.segment.bytes", "2000"),
        ("index.interval.bytes", "200"),
        ("retention.bytes", "12000"),
        ("file.delete.delay.ms", "0"),
    ]
    .iter()
    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
    .collect();
    let clean = checkpoints::take_clean_shutdown(&DiskFiles, &root.join(names::CLEAN_SHUTDOWN)).unwrap();
    PartitionLog::open(OpenLog {
        files: DiskFiles::shared(),
        directory: partition(root),
        topic: TOPIC.to_owned(),
        partition: 0,
        settings: Arc::new(TopicSettings::resolve(&[&settings]).unwrap()),
        clock: Arc::new(SystemClock::new()),
        handles: HandleCache::new(16),
        durability,
        log_starts: Arc::new(DiskStarts(root.to_owned())),
        clean,
        recovery_point: checkpointed(root, names::RECOVERY_POINT_CHECKPOINT),
        log_start: checkpointed(root, names::LOG_START_CHECKPOINT),
        producer_expiration_ms: DAY,
    })
    .unwrap()
}

fn checkpoint(root: &Path, log: &PartitionLog) {
    let recovery = Offsets::from([((TOPIC.to_owned(), 0), log.recovery_point())]);
    checkpoints::write_offsets(
        &DiskFiles,
        &root.join(names::RECOVERY_POINT_CHECKPOINT),
        &recovery,
    )
    .unwrap();
    let start = log.log_start_to_checkpoint(None);
    let starts: Offsets = start
        .map(|start| ((TOPIC.to_owned(), 0), start))
        .into_iter()
        .collect();
    checkpoints::write_offsets(&DiskFiles, &root.join(names::LOG_START_CHECKPOINT), &starts).unwrap();
}

fn close(root: &Path, log: &PartitionLog) {
    log.close().unwrap();
    checkpoint(root, log);
    checkpoints::mark_clean_shutdown(&DiskFiles, &root.join(names::CLEAN_SHUTDOWN)).unwrap();
}

/// The process that is killed. Runs only when the parent says where; it never ends by itself.
#[test]
#[ignore = "run by its parent, as the process that is killed"]
fn child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let (seed, root) = task.split_once(' ').unwrap();
    let root = PathBuf::from(root);
    let mut random = Random(seed.parse().unwrap());
    let clock = SystemClock::new();
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "@{line}").unwrap();
        out.flush().unwrap();
    };
    let durability = if random.below(8) == 0 {
        Durability::Ack
    } else {
        Durability::PageCache
    };
    let mut log = open(&root, durability);
    say("opened".to_owned());
    let producer = (random.next() >> 1) as i64;
    let mut sequence = 0;
    loop {
        match random.below(100) {
            0..72 => {
                let records = 1 + random.below(4);
                let mut maker = Maker {
                    codec: Codec::ALL[random.below(5) as usize],
                    ..Maker::default()
                };
                let idempotent = random.below(2) == 0;
                if idempotent {
                    maker = maker.producer(producer, 0, sequence);
                    sequence += records as i32;
                }
                for _ in 0..records {
                    let value = vec![random.next() as u8; random.below(200) as usize];
                    maker = maker.record(clock.wall_ms(), None, Some(&value));
                }
                let bytes = maker.build();
                let crc = BatchHeader::parse(&bytes).unwrap().crc;
                say(format!("append {records} {crc}"));
                let epoch = i32::try_from(log.log_end() / 50).unwrap();
                let appended = log.append(&bytes, epoch, Origin::Client).unwrap();
                assert!(!appended.duplicate);
                say(format!(
                    "appended {} {} {crc}",
                    appended.base_offset, appended.last_offset
                ));
            }
            72..82 => {
                let planned = log.plan(clock.wall_ms(), &Rules::from(log.settings().as_ref()));
                say(format!("start {}", planned.new_log_start));
                let outcome = log.retain(clock.wall_ms()).unwrap();
                say(format!("started {}", outcome.new_log_start));
            }
            82..85 => {
                let (from, to) = (log.log_start(), log.log_end());
                let offset = from + random.below((to - from + 1) as u64 / 4 + 1) as i64;
                say(format!("start {offset}"));
                let start = log.delete_records(offset).unwrap();
                say(format!("started {start}"));
            }
            85..90 => {
                log.unlink_due();
            }
            90..93 => {
                log.flush().unwrap();
                checkpoint(&root, &log);
            }
            93..95 => {
                log.flush_closed().unwrap();
            }
            95..97 => checkpoint(&root, &log),
            97 => {
                close(&root, &log);
                log = open(&root, durability);
            }
            _ => {
                // Opened again without a close, as after a crash, in the same process.
                log = open(&root, durability);
            }
        }
    }
}

/// What the parent knows must be true.
#[derive(Debug, Default)]
struct Known {
    /// Acknowledged batches: base offset to last offset and checksum.
    batches: BTreeMap<i64, (i64, u32)>,
    log_start: i64,
    log_end: i64,
    /// What was begun and not acknowledged: records and checksum of an append, or where the log start was to go.
    begun_append: Option<(i64, u32)>,
    begun_start: Option<i64>,
}

impl Known {
    /// Takes in a line of the child; false for the one that it is up.
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<i64>().unwrap();
        match words[0] {
            "opened" => {}
            "append" => self.begun_append = Some((number(1), number(2) as u32)),
            "appended" => {
                assert_eq!(number(1), self.log_end, "an offset was given twice, or left out");
                self.batches.insert(number(1), (number(2), number(3) as u32));
                self.log_end = number(2) + 1;
                self.begun_append = None;
            }
            "start" => self.begun_start = Some(number(1)),
            "started" => {
                assert!(number(1) >= self.log_start, "the log start went back");
                self.log_start = number(1);
                self.begun_start = None;
            }
            other => panic!("the child says {other}"),
        }
    }

    /// Holds what lies on disk against what was acknowledged, and goes on from there.
    fn settle(&mut self, log: &PartitionLog) {
        let (start, end) = (log.log_start(), log.log_end());
        let furthest = self
            .begun_start
            .take()
            .map_or(self.log_start, |begun| begun.max(self.log_start));
        assert!(
            (self.log_start..=furthest).contains(&start),
            "log start {start}, acknowledged was {}, begun {furthest}",
            self.log_start
        );
        let mut found = BTreeMap::new();
        let mut next = start;
        while next < end {
            let slice = log.read(next, 1, true, Isolation::ReadUncommitted).unwrap();
            let bytes = slice.to_vec().unwrap();
            let batch = batch::batches(&bytes)
                .next()
                .expect("data up to the log end")
                .unwrap();
            batch.header.check_crc(batch.bytes).unwrap();
            assert!(
                batch.header.base_offset == next || next == start,
                "a gap before {next}"
            );
            found.insert(
                batch.header.base_offset,
                (batch.header.last_offset(), batch.header.crc),
            );
            next = batch.header.next_offset();
        }
        if let Some((records, crc)) = self.begun_append.take()
            && end != self.log_end
        {
            let (base, last) = (self.log_end, self.log_end + records - 1);
            assert_eq!(
                found.get(&base),
                Some(&(last, crc)),
                "the append that was under way is whole or not there"
            );
            self.batches.insert(base, (last, crc));
            self.log_end = last + 1;
        }
        assert_eq!(
            end, self.log_end,
            "the log end is where the last acknowledged record ends"
        );
        self.batches.retain(|_, (last, _)| *last >= start);
        assert_eq!(
            found, self.batches,
            "acknowledged records are there and nothing else is"
        );
        self.log_start = start;
    }
}

/// An idempotent producer that did not hear the last acknowledgement sends again: its batch is recognised.
fn send_last_again(log: &PartitionLog, known: &Known) -> bool {
    let Some((&base, &(last, _))) = known.batches.last_key_value() else {
        return false;
    };
    let slice = log.read(base, 1, true, Isolation::ReadUncommitted).unwrap();
    let mut bytes = slice.to_vec().unwrap();
    let header = BatchHeader::parse(&bytes).unwrap();
    if header.producer_id < 0 {
        return false;
    }
    batch::set_base_offset(&mut bytes, 0);
    bytes.truncate(header.size as usize);
    let again = log.append(&bytes, header.leader_epoch, Origin::Client).unwrap();
    assert_eq!(
        (again.duplicate, again.base_offset, again.last_offset),
        (true, base, last)
    );
    true
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

#[test]
fn acknowledged_records_survive_being_killed_at_any_moment() {
    let kills = number("TIDEMARK_KILLS", 200);
    let seed = number("TIDEMARK_SEED", 20_261_130);
    eprintln!("TIDEMARK_SEED={seed}");
    let mut random = Random(seed);
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(partition(root.path())).unwrap();
    let mut known = Known::default();
    let (mut repeated, mut killed_while_appending, mut killed_while_deleting) = (0, 0, 0);
    // At least so many kills; as many more until they have fallen everywhere that they should.
    let everywhere = |repeated, appending, deleting| repeated > 5 && appending > 5 && deleting > 0;
    for kill in 0..10 * kills {
        let enough = kills < 100 || everywhere(repeated, killed_while_appending, killed_while_deleting);
        if kill >= kills && enough {
            break;
        }
        run_until_killed(root.path(), &mut random, &mut known);
        killed_while_appending += u32::from(known.begun_append.is_some());
        killed_while_deleting += u32::from(known.begun_start.is_some());

        let log = open(root.path(), Durability::PageCache);
        known.settle(&log);
        repeated += u32::from(send_last_again(&log, &known));
        let report = inspect::inspect(
            &DiskFiles,
            &partition(root.path()),
            Depth {
                batches: false,
                verify: true,
                ..Depth::default()
            },
        )
        .unwrap();
        assert!(report.is_sound(), "after kill {kill}: {report:#?}");
        let report = &report.partitions[0];
        assert_eq!(report.log_end, known.log_end, "after kill {kill}");
        // A half-written checkpoint is overwritten by the next one.
        let leftovers = report.leftovers.iter().filter(|name| !name.ends_with(".tmp"));
        assert_eq!(leftovers.count(), 0, "after kill {kill}: {:?}", report.leftovers);
        if random.below(4) == 0 {
            close(root.path(), &log);
        }
    }
    assert!(known.log_end > 0 && known.log_start > 0, "{known:?}");
    assert!(
        kills < 100 || everywhere(repeated, killed_while_appending, killed_while_deleting),
        "{repeated} batches were repeated, {killed_while_appending} appends and {killed_while_deleting} deletions cut short"
    );
    assert!(
        DiskFiles.list(&partition(root.path())).unwrap().len() < 100,
        "files pile up"
    );
}

/// Lets a child work until it has written some number of lines, kills it there, and takes in all that it said.
fn run_until_killed(root: &Path, random: &mut Random, known: &mut Known) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::child",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, format!("{} {}", random.next(), root.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = random.below(120);
    let mut text = String::new();
    while lines > 0 {
        text.clear();
        if out.read_line(&mut text).unwrap() == 0 {
            break;
        }
        lines -= 1;
        if let Some(line) = text.trim_end().strip_prefix('@') {
            known.line(line);
        }
    }
    // Somewhere into the next step.
    for _ in 0..random.below(200_000) {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let whole = rest.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .filter_map(|line| line.strip_prefix('@'))
        .for_each(|line| known.line(line));
    if std::os::unix::process::ExitStatusExt::signal(&status).is_none() {
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        panic!("the child ended by itself ({status}):\n{error}");
    }
}
