//! Random pairs of a directory and settings: a script that builds a partition's directory with our log, and the settings that a retention
//! pass is then judged under.
//!
//! Ages lie at least five minutes from every limit, before a time that is a little ahead, so that the time a run takes decides nothing. Sizes are
//! exact to the byte.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tidemark::log::append::Origin;
use tidemark::log::batch::{BatchHeader, attributes, encode};
use tidemark::log::compression::{Codec, compress};
use tidemark::log::files::{DiskFiles, Files, OpenMode};
use tidemark::log::inspect::PartitionReport;
use tidemark::log::names::{FileState, SegmentFile, SegmentFileName};
use tidemark::log::partition::PartitionLog;
use tidemark::log::records::RecordWriter;
use tidemark::resource::settings::{Overrides, TopicSettings};
use tidemark::telemetry::clock::{Clock, ManualClock};

use crate::directory::{LastStop, Seen, hex, open_after};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// A generator of numbers that anyone can repeat (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// One of `choices`.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Minutes before now, an odd multiple of five; negative ones lie ahead, by less than the hour that is allowed.
    fn age(&mut self) -> i64 {
        if self.below(40) == 0 {
            return -15 - 10 * self.below(4) as i64;
        }
        5 + 10 * self.below(self.0 % 300 + 1) as i64
    }
}

/// A step of a script.
#[derive(Debug, Clone)]
pub enum Step {
    /// One batch of records, all of this age in minutes (`None`: without a timestamp).
    Append {
        age: Option<i64>,
        records: u64,
        bytes: u64,
        codec: Codec,
        producer: Option<i64>,
    },
    /// DeleteRecords at so many hundredths of what there is.
    DeleteRecords { percent: i64 },
    /// A retention pass with this `retention.bytes`.
    Pass { bytes: i64 },
    /// The active segment is closed because it is idle.
    IdleRoll,
    /// Stop and start, in order or not.
    Reopen { clean: bool },
}

/// What `retention.bytes` is set to, once the sizes of the segments are known.
#[derive(Debug, Clone, Copy)]
pub enum SizeRule {
    /// -1.
    Off,
    /// The size of this many of the youngest segments, and so many bytes more.
    Youngest(usize, i64),
}

/// A directory and settings.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Settings while the directory is built.
    pub build: Overrides,
    /// What is done to build it.
    pub steps: Vec<Step>,
    /// Age of each `.log` file in minutes, in turn; it decides where no record has a timestamp.
    pub modified: Vec<i64>,
    /// `retention.ms` in minutes, negative for none.
    pub retention_minutes: i64,
    /// `retention.bytes`.
    pub size: SizeRule,
    /// Whether the broker appends a record before its pass.
    pub append_on: bool,
}

impl Pair {
    pub fn random(random: &mut Random) -> Self {
        let stamped = random.below(5) > 0;
        let set = |key: &str, value: u64| (key.to_owned(), value.to_string());
        let mut build = Overrides::from([
            set("internal.segment.bytes", 1500 + random.below(3000)),
            set("index.interval.bytes", random.below(1000)),
            set("retention.ms", u64::MAX / 4),
        ]);
        if random.below(6) == 0 {
            build.insert("message.timestamp.type".to_owned(), "LogAppendTime".to_owned());
        }
        let steps = (0..3 + random.below(35))
            .map(|_| Self::step(random, stamped))
            .collect();
        Self {
            build,
            steps,
            modified: (0..1 + random.below(4)).map(|_| random.age().abs()).collect(),
            retention_minutes: random.of(&[-1, 60, 180, 600, 1440]),
            size: match random.below(3) {
                0 => SizeRule::Off,
                _ => SizeRule::Youngest(random.below(6) as usize, random.of(&[-1, 0, 0, 1, 200])),
            },
            append_on: random.below(3) == 0,
        }
    }

    fn step(random: &mut Random, stamped: bool) -> Step {
        match random.below(40) {
            0 => Step::DeleteRecords {
                percent: random.below(101) as i64,
            },
            1 => Step::Pass {
                bytes: random.below(6000) as i64,
            },
            2 => Step::IdleRoll,
            3 => Step::Reopen {
                clean: random.below(2) == 0,
            },
            _ => Step::Append {
                age: (stamped && random.below(8) > 0).then(|| random.age()),
                records: 1 + random.below(4),
                bytes: random.below(300),
                codec: random.of(&Codec::ALL),
                producer: (random.below(3) == 0).then(|| random.below(3) as i64),
            },
        }
    }

    /// The same without a half of its steps, a quarter, or one of them; at least one stays.
    pub fn reductions(&self) -> Vec<Self> {
        let steps = self.steps.len();
        let mut reductions = Vec::new();
        for size in [steps / 2, steps / 4, 1] {
            for at in (0..steps)
                .step_by(size.max(1))
                .filter(|_| size > 0 && size < steps)
            {
                let mut pair = self.clone();
                pair.steps.drain(at..(at + size).min(steps));
                reductions.push(pair);
            }
        }
        reductions
    }

    /// The settings of the pass, for a directory of these segments.
    pub fn settings(&self, report: &PartitionReport) -> BTreeMap<String, String> {
        let bytes = match self.size {
            SizeRule::Off => -1,
            SizeRule::Youngest(count, more) => {
                let young = report.segments.iter().rev().take(count);
                let sum: u64 = young.map(|segment| segment.size_bytes).sum();
                (sum as i64 + more).max(0)
            }
        };
        let minutes = self.retention_minutes;
        let retention = if minutes < 0 { -1 } else { minutes * MINUTE };
        BTreeMap::from([
            ("retention.ms".to_owned(), retention.to_string()),
            ("retention.bytes".to_owned(), bytes.to_string()),
        ])
    }
}

/// A directory that was built, and what a consumer must see in it.
#[derive(Debug)]
pub struct Built {
    pub log_start: i64,
    pub log_end: i64,
    /// Log start for the checkpoint, where no file name implies it.
    pub checkpointed_start: Option<i64>,
    pub seen: Vec<Seen>,
}

/// Builds the directory `<logs>/<topic>-0`; it must be there and hold nothing of a log. `now` is wall time in ms.
pub fn build(pair: &Pair, logs: &Path, topic: &str, now: i64) -> Built {
    let settings = TopicSettings::resolve(&[&pair.build]).expect("settings");
    let clock = Arc::new(ManualClock::at(now));
    let shared: Arc<dyn Clock> = clock.clone();
    let mut builder = Builder {
        log: open_after(&LastStop::default(), logs, topic, &settings, &shared),
        clock,
        now,
        sequences: [0; 3],
        seen: Vec::new(),
    };
    for step in &pair.steps {
        match step {
            Step::Reopen { clean } => {
                if *clean {
                    builder.log.close().expect("a clean close");
                }
                let last = LastStop {
                    clean: *clean,
                    recovery_point: builder.log.recovery_point(),
                    log_start: builder.log.log_start(),
                };
                builder.log = open_after(&last, logs, topic, &settings, &shared);
            }
            step => builder.step(step, &settings),
        }
    }
    let log = builder.log;
    log.close().expect("a clean close");
    let built = Built {
        log_start: log.log_start(),
        log_end: log.log_end(),
        checkpointed_start: log.log_start_to_checkpoint(None),
        seen: builder
            .seen
            .into_iter()
            .filter(|seen| seen.offset >= log.log_start())
            .collect(),
    };
    let ages = pair.modified.iter().cycle();
    for (segment, age) in log.segments().iter().zip(ages) {
        let name = SegmentFileName {
            offset: segment.base_offset,
            file: SegmentFile::Log,
            state: FileState::Live,
        };
        let path = name.path(&logs.join(format!("{topic}-0")));
        let file = DiskFiles.open(&path, OpenMode::ReadWrite).expect("a segment");
        file.set_modified(now - age * MINUTE)
            .expect("a modification time");
    }
    built
}

struct Builder {
    log: PartitionLog,
    clock: Arc<ManualClock>,
    now: i64,
    sequences: [i32; 3],
    seen: Vec<Seen>,
}

impl Builder {
    fn step(&mut self, step: &Step, settings: &TopicSettings) {
        let (start, end) = (self.log.log_start(), self.log.log_end());
        match step {
            Step::Append {
                age,
                records,
                bytes,
                codec,
                producer,
            } => self.append(*age, *records, *bytes, *codec, *producer),
            Step::DeleteRecords { percent } => {
                self.log
                    .delete_records(start + (end - start) * percent / 100)
                    .expect("an offset in range");
            }
            Step::Pass { bytes } => {
                let limited = TopicSettings {
                    retention_bytes: *bytes,
                    ..settings.clone()
                };
                self.log.set_settings(Arc::new(limited));
                self.log.retain(self.now).expect("a pass");
                self.log.set_settings(Arc::new(settings.clone()));
            }
            Step::IdleRoll => {
                self.log.idle_roll(self.now + 30 * DAY).expect("a roll");
            }
            Step::Reopen { .. } => {}
        }
    }

    fn append(&mut self, age: Option<i64>, records: u64, bytes: u64, codec: Codec, producer: Option<i64>) {
        let timestamp = age.map_or(-1, |age| self.now - age * MINUTE);
        // The broker's time of append is this age too, where the topic wants it.
        let append_time = self.log.settings().message_timestamp_type
            == tidemark::resource::settings::TimestampType::LogAppendTime;
        let at = if append_time {
            self.now - age.unwrap_or(5) * MINUTE
        } else {
            self.now
        };
        self.clock.step_wall_ms(at - self.clock.wall_ms());
        let end = self.log.log_end();
        let mut writer = RecordWriter::default();
        for nth in 0..records {
            let (key, value) = record_of(end + nth as i64, bytes);
            writer.push(0, key.as_deref(), value.as_deref(), 0, &[]);
            self.seen.push(Seen {
                offset: end + nth as i64,
                timestamp: if append_time { at } else { timestamp },
                log_append_time: append_time,
                key: key.as_deref().map(hex),
                value: value.as_deref().map(hex),
                headers: Vec::new(),
            });
        }
        let count = writer.count();
        let mut base_sequence = -1;
        if let Some(producer) = producer {
            base_sequence = self.sequences[producer as usize];
            self.sequences[producer as usize] += count;
        }
        let header = BatchHeader {
            base_offset: 0,
            size: 0,
            leader_epoch: -1,
            magic: 2,
            crc: 0,
            attributes: attributes(codec, false, false, false),
            last_offset_delta: count - 1,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: producer.map_or(-1, |producer| 9_000 + producer),
            producer_epoch: producer.map_or(-1, |_| 0),
            base_sequence,
            record_count: count,
        };
        let payload = compress(codec, &writer.into_bytes(), None).expect("compressed records");
        let appended = self
            .log
            .append(&encode(&header, &payload), 0, Origin::Client)
            .expect("an append");
        assert_eq!(appended.base_offset, end);
    }
}

/// Key and value of the record at `offset`; nulls are among them.
fn record_of(offset: i64, bytes: u64) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let key = (offset % 3 != 0).then(|| format!("key-{offset}").into_bytes());
    let value = (offset % 11 != 0).then(|| vec![offset as u8; bytes as usize]);
    (key, value)
}
