//! What a random script does to its topic. Scripts know nothing of the brokers: the same one is run on both.
//!
//! Ages are in minutes before the run's base time, odd multiples of five, and every limit is a multiple of ten. The base lies a little ahead of
//! the begin, so that the time a run takes decides nothing for nine minutes. Times that the brokers take themselves are shown as `now`.
use tidemark::log::batch::{BatchHeader, attributes, encode};
use tidemark::log::compression::{Codec, compress};
use tidemark::log::records::RecordWriter;

use crate::pair::Random;

pub const MINUTE: i64 = 60_000;
/// How far the base time of a run lies ahead of its begin: no age comes to a limit until it is as long past and five minutes more.
pub const AHEAD: i64 = 4 * MINUTE;
/// Settings with their values.
pub type Settings = Vec<(&'static str, &'static str)>;

/// An offset by its place between log start and log end in hundredths, and so many more.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    Percent(i64, i64),
    Exactly(i64),
}

/// What is wrong with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    Checksum,
    BaseOffset,
    Twice,
    Empty,
    Torn,
    Count,
    AppendTimeBit,
    Control,
    NoSequence,
}

/// A batch; a record for each age, `None` without a timestamp.
#[derive(Debug, Clone)]
pub struct Batch {
    pub codec: Codec,
    pub ages: Vec<Option<i64>>,
    pub bytes: usize,
    /// Id, epoch and first sequence.
    pub producer: Option<(i64, i16, i32)>,
    pub flaw: Option<Flaw>,
}

impl Batch {
    pub fn encode(&self, base: i64) -> Vec<u8> {
        let stamps: Vec<i64> = self
            .ages
            .iter()
            .map(|age| age.map_or(-1, |age| base - age * MINUTE))
            .collect();
        let mut writer = RecordWriter::default();
        for (nth, stamp) in stamps.iter().enumerate() {
            let value = vec![nth as u8; self.bytes];
            let key = (nth % 2 == 0).then_some(&b"key"[..]);
            writer.push(stamp - stamps[0], key, Some(&value), 0, &[]);
        }
        let count = writer.count();
        let (id, epoch, sequence) = self.producer.unwrap_or((-1, -1, -1));
        let flawed = |flaw| self.flaw == Some(flaw);
        let header = BatchHeader {
            base_offset: if flawed(Flaw::BaseOffset) { 3 } else { 0 },
            size: 0,
            leader_epoch: -1,
            magic: 2,
            crc: 0,
            attributes: attributes(
                self.codec,
                flawed(Flaw::AppendTimeBit),
                false,
                flawed(Flaw::Control),
            ),
            last_offset_delta: count - 1,
            base_timestamp: stamps[0],
            max_timestamp: stamps.iter().copied().max().unwrap_or(-1),
            producer_id: if flawed(Flaw::NoSequence) { 9_009 } else { id },
            producer_epoch: if flawed(Flaw::NoSequence) { 0 } else { epoch },
            base_sequence: sequence,
            record_count: if flawed(Flaw::Count) { count + 1 } else { count },
        };
        let payload = compress(self.codec, &writer.into_bytes(), None).expect("compressed records");
        let mut bytes = encode(&header, &payload);
        match self.flaw {
            Some(Flaw::Checksum) => bytes[18] ^= 1,
            Some(Flaw::Twice) => bytes.extend_from_within(..),
            Some(Flaw::Empty) => bytes.clear(),
            Some(Flaw::Torn) => bytes.truncate(bytes.len() - 1),
            _ => {}
        }
        bytes
    }
}

/// Which leader epoch a request names.
#[derive(Debug, Clone, Copy)]
pub enum Epoch {
    None,
    Current,
    Ahead,
}

#[derive(Debug, Clone, Copy)]
pub enum Time {
    Special(i64),
    Age(i64),
}

/// A request.
#[derive(Debug, Clone)]
pub enum Step {
    Produce {
        version: i16,
        acks: i16,
        partition: i32,
        batch: Batch,
    },
    ListOffsets {
        version: i16,
        partition: i32,
        time: Time,
        committed: bool,
        epoch: Epoch,
    },
    EndOfEpoch {
        version: i16,
        partition: i32,
        epoch: Epoch,
        current: Epoch,
    },
    Fetch {
        version: i16,
        partition: i32,
        from: Place,
        bytes: i32,
    },
    DescribeConfigs {
        version: i16,
        synonyms: bool,
        keys: Option<Vec<&'static str>>,
    },
    /// Validated only.
    Create {
        version: i16,
        name: &'static str,
        partitions: i32,
        replicas: i16,
        settings: Settings,
    },
    /// Of the topic itself, validated only.
    AddPartitions {
        version: i16,
        count: i32,
    },
    DeleteRecords {
        version: i16,
        partition: i32,
        to: Place,
    },
    /// Operation (0 set, 1 delete, 2 append, 3 subtract), key and value.
    Alter {
        version: i16,
        dry: bool,
        operations: Vec<(i8, &'static str, Option<&'static str>)>,
    },
    /// The legacy way: everything else falls back to its default.
    Replace {
        version: i16,
        dry: bool,
        settings: Settings,
    },
    /// A request about a topic that is not there; its kind by number.
    Nowhere(u64),
}

impl Step {
    /// Whether the newest record is asked for.
    pub fn is_newest(&self) -> bool {
        matches!(
            self,
            Self::ListOffsets {
                time: Time::Special(-3),
                ..
            }
        )
    }
}

/// Actions of one phase: those in which nothing is deleted, those that make things to delete, and the limits of the pass that follows.
#[derive(Debug, Clone)]
pub struct Phase {
    pub steps: Vec<Step>,
    pub changes: Vec<Step>,
    pub limits: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone)]
pub struct Script {
    pub partitions: i32,
    pub settings: Settings,
    pub phases: Vec<Phase>,
}

/// Values that neither make a pass delete anything nor let chance decide.
const VALID: &[(&str, &[&str])] = &[
    ("retention.ms", &["-1", "9223372036854775807", "100000000000"]),
    ("retention.bytes", &["-1", "-7", "1000000000"]),
    ("segment.ms", &["600000", "1200000", "3600000", "604800000"]),
    ("internal.segment.bytes", &["500", "1500", "4000"]),
    ("segment.bytes", &["1048576", "2000000"]),
    ("max.message.bytes", &["100", "700", "1048588", " 7000 "]),
    ("message.timestamp.type", &["CreateTime", "LogAppendTime"]),
    (
        "message.timestamp.before.max.ms",
        &["600000", "6000000", "9223372036854775807"],
    ),
    ("message.timestamp.after.max.ms", &["0", "1200000", "864000000"]),
    ("index.interval.bytes", &["0", "100", "007000"]),
    ("compression.type", &["producer", "uncompressed"]),
    ("compression.gzip.level", &["9", "-1"]),
    ("file.delete.delay.ms", &["60000", "+7000"]),
    ("delete.retention.ms", &["0", "86400000"]),
    ("min.insync.replicas", &["1", "2"]),
    ("preallocate", &["FALSE"]),
    ("unclean.leader.election.enable", &["true", "False"]),
    ("min.cleanable.dirty.ratio", &["0", "0.75", "1"]),
    ("cleanup.policy", &["delete", "delete,delete", ""]),
    ("leader.replication.throttled.replicas", &["*", "0:1", ""]),
    ("flush.messages", &["1", "9223372036854775807"]),
    ("flush.ms", &["0", "1000"]),
    ("local.retention.ms", &["-2", "5"]),
    ("max.compaction.lag.ms", &["1", "9223372036854775807"]),
];

const INVALID: &[(&str, &str)] = &[
    ("retention.ms", "-2"),
    ("retention.ms", "x"),
    ("retention.ms", ""),
    ("retention.ms", "9223372036854775808"),
    ("retention.ms", "1.5"),
    ("segment.bytes", "100"),
    ("segment.ms", "0"),
    ("segment.index.bytes", "3"),
    ("message.timestamp.type", "createtime"),
    ("message.timestamp.after.max.ms", "-1"),
    ("cleanup.policy", "delete,"),
    ("cleanup.policy", "nonsense"),
    ("nonsense", "1"),
    ("log.retention.ms", "1"),
    ("max.message.bytes", "-1"),
    ("max.message.bytes", "2147483648"),
    ("preallocate", "maybe"),
    ("min.cleanable.dirty.ratio", "1.1"),
    ("min.compaction.lag.ms", "-1"),
    ("compression.type", "brotli"),
    ("compression.gzip.level", "0"),
    ("compression.lz4.level", "18"),
    ("remote.storage.enable", "true"),
    ("file.delete.delay.ms", "-1"),
    ("unclean.leader.election.enable", "yes"),
    ("flush.messages", "0"),
    ("local.retention.ms", "-3"),
    ("min.insync.replicas", "0"),
    ("leader.replication.throttled.replicas", "0-1"),
];

/// `None` as a value means that the key alone is named.
fn setting(random: &mut Random, wrong: u64) -> (&'static str, &'static str) {
    if random.below(100) < wrong {
        return random.of(INVALID);
    }
    let (key, values) = random.of(VALID);
    (key, random.of(values))
}

fn settings(random: &mut Random, most: u64, wrong: u64) -> Settings {
    let mut settings: Settings = (0..random.below(most + 1))
        .map(|_| setting(random, wrong))
        .collect();
    settings.sort_by_key(|(key, _)| *key);
    settings.dedup_by_key(|(key, _)| *key);
    settings
}

fn between(random: &mut Random, least: i16, most: i16) -> i16 {
    least + random.below((most - least + 1) as u64) as i16
}

fn age(random: &mut Random) -> i64 {
    match random.below(20) {
        0 => -15 - 10 * random.below(4) as i64,
        1 => -4_325,
        2 => 5 + 10 * random.below(20_000) as i64,
        _ => 5 + 10 * random.below(60) as i64,
    }
}

fn place(random: &mut Random) -> Place {
    match random.below(12) {
        0 => Place::Exactly(random.of(&[-1, -2, 0, 1_000_000])),
        1 => Place::Percent(0, -1),
        2 => Place::Percent(100, 1),
        _ => Place::Percent(random.of(&[0, 5, 30, 50, 80, 99, 100]), 0),
    }
}

fn epoch(random: &mut Random) -> Epoch {
    match random.below(8) {
        0 => Epoch::Ahead,
        1..=4 => Epoch::Current,
        _ => Epoch::None,
    }
}

struct Writer<'a> {
    random: &'a mut Random,
    partitions: i32,
    /// The next sequence of each producer on each partition.
    sequences: [[i32; 2]; 3],
    last: Vec<(i32, Batch)>,
    /// Whether the log start may have been moved. A segment below it goes with Kafka's next pass once it is no longer active, and what
    /// is found by time depends on that.
    moved: bool,
}

impl Writer<'_> {
    fn partition(&mut self) -> i32 {
        if self.random.below(40) == 0 {
            return self.random.of(&[-1, 7]);
        }
        self.random.below(self.partitions as u64) as i32
    }

    fn produce(&mut self) -> Step {
        let random = &mut *self.random;
        let (version, acks) = (
            between(random, 3, 12),
            random.of(&[-1, -1, 1, 1, 1, -1, -1, 1, 1, 2]),
        );
        if random.below(15) == 0
            && let Some((partition, batch)) = self.last.last().cloned()
        {
            return Step::Produce {
                version,
                acks,
                partition,
                batch,
            };
        }
        let stamped = random.below(8) > 0;
        let same = (random.below(2) == 0).then(|| age(random));
        let count = 1 + random.below(4);
        let ages: Vec<Option<i64>> = (0..count)
            .map(|_| stamped.then(|| same.unwrap_or_else(|| age(random))))
            .collect();
        let mut batch = Batch {
            codec: random.of(&Codec::ALL),
            ages,
            bytes: random.below(300) as usize,
            producer: None,
            flaw: None,
        };
        if random.below(20) == 0 {
            batch.flaw = Some(random.of(&[
                Flaw::Checksum,
                Flaw::BaseOffset,
                Flaw::Twice,
                Flaw::Empty,
                Flaw::Torn,
                Flaw::Count,
                Flaw::AppendTimeBit,
                Flaw::Control,
                Flaw::NoSequence,
            ]));
        }
        let partition = self.partition();
        let random = &mut *self.random;
        if random.below(3) == 0 && batch.flaw.is_none() && (0..2).contains(&partition) {
            let id = random.below(3) as usize;
            let next = &mut self.sequences[id][partition as usize];
            let shift = match random.below(12) {
                0 => -1,
                1 => 1,
                _ => 0,
            };
            let epoch = random.of(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            batch.producer = Some((9_000 + id as i64, epoch, (*next + shift).max(0)));
            *next += count as i32;
        }
        self.last.push((partition, batch.clone()));
        Step::Produce {
            version,
            acks,
            partition,
            batch,
        }
    }

    fn step(&mut self) -> Step {
        let partition = self.partition();
        match self.random.below(30) {
            0..=17 => self.produce(),
            18..=20 => Step::ListOffsets {
                version: between(self.random, 1, 10),
                partition,
                time: match self.random.below(if self.moved { 1 } else { 2 }) {
                    0 if self.moved => Time::Special(self.random.of(&[-1, -2, -4])),
                    0 => Time::Special(self.random.of(&[-1, -2, -3, -4, -5, -6, -7, 0, 1])),
                    _ => Time::Age(age(self.random)),
                },
                committed: self.random.below(4) == 0,
                epoch: epoch(self.random),
            },
            21..=22 => Step::EndOfEpoch {
                version: between(self.random, 2, 4),
                partition,
                epoch: epoch(self.random),
                current: epoch(self.random),
            },
            23..=24 => Step::Fetch {
                version: between(self.random, 4, 12),
                partition,
                from: place(self.random),
                bytes: self.random.of(&[0, 100, 1_000, 1 << 20]),
            },
            25 => Step::Create {
                version: between(self.random, 2, 7),
                name: self.random.of(&[
                    "new", "new", "new", "a.b", "..", "", "sp ace", "SCRIPT-0", "script-0",
                ]),
                partitions: self.random.of(&[1, 1, 1, -1, 0, -2, 5]),
                replicas: self.random.of(&[1, 1, 1, -1, 0, 2]),
                settings: settings(self.random, 5, 15),
            },
            26 => Step::AddPartitions {
                version: between(self.random, 0, 3),
                count: self.random.of(&[-1, 0, 1, 2, 3, 10]),
            },
            27 => Step::Nowhere(self.random.below(8)),
            _ => Step::DescribeConfigs {
                version: between(self.random, 1, 4),
                synonyms: self.random.below(2) == 0,
                keys: self
                    .random
                    .of(&[
                        None,
                        Some(&[][..]),
                        Some(&["retention.ms", "nonsense", "segment.bytes"]),
                    ])
                    .map(<[&str]>::to_vec),
            },
        }
    }

    fn change(&mut self) -> Step {
        let partition = self.partition();
        let random = &mut *self.random;
        match random.below(6) {
            0 | 1 => Step::DeleteRecords {
                version: between(random, 0, 2),
                partition,
                to: place(random),
            },
            2 => Step::Replace {
                version: between(random, 0, 2),
                dry: random.below(4) == 0,
                settings: settings(random, 5, 8),
            },
            _ => {
                let mut operations: Vec<_> = (0..1 + random.below(3))
                    .map(|_| {
                        let (key, value) = setting(random, 12);
                        let operation = random.of(&[0, 0, 0, 0, 0, 1, 1, 2, 3]);
                        let named = operation != 1 || random.below(2) == 0;
                        (operation, key, (named && random.below(40) > 0).then_some(value))
                    })
                    .collect();
                operations.sort_by_key(|(_, key, _)| *key);
                // One time in ten the same key twice.
                if random.below(10) > 0 {
                    operations.dedup_by_key(|(_, key, _)| *key);
                }
                Step::Alter {
                    version: between(random, 0, 1),
                    dry: random.below(6) == 0,
                    operations,
                }
            }
        }
    }
}

impl Script {
    pub fn random(random: &mut Random, phases: usize) -> Self {
        let partitions = 1 + random.below(2) as i32;
        let mut topic: Settings = settings(random, 5, 0);
        if random.below(8) > 0 {
            topic.retain(|(key, _)| *key != "internal.segment.bytes");
            topic.push((
                "internal.segment.bytes",
                random.of(&["1200", "1500", "2200", "4000"]),
            ));
        }
        let mut writer = Writer {
            random,
            partitions,
            sequences: [[0; 2]; 3],
            last: Vec::new(),
            moved: false,
        };
        let phases = (0..phases)
            .map(|_| {
                let steps = (0..10 + writer.random.below(12)).map(|_| writer.step()).collect();
                let mut changes: Vec<Step> = (0..writer.random.below(4)).map(|_| writer.change()).collect();
                // What DeleteRecords answers depends on settings that Kafka's broker learns of a little later.
                let moves = |step: &Step| matches!(step, Step::DeleteRecords { .. });
                writer.moved |= changes.iter().any(moves);
                changes.sort_by_key(|step| !moves(step));
                let mut limits = Vec::new();
                if writer.random.below(2) == 0 {
                    let minutes = 10 * (1 + writer.random.below(60)) as i64;
                    limits.push(("retention.ms", (minutes * MINUTE).to_string()));
                }
                if writer.random.below(2) == 0 {
                    limits.push(("retention.bytes", writer.random.below(9_000).to_string()));
                }
                Phase {
                    steps,
                    changes,
                    limits,
                }
            })
            .collect();
        Self {
            partitions,
            settings: topic,
            phases,
        }
    }

    /// Steps that look at everything there is.
    pub fn look(&self) -> Vec<Step> {
        let mut steps = vec![Step::DescribeConfigs {
            version: 4,
            synonyms: true,
            keys: None,
        }];
        for partition in 0..self.partitions {
            let specials = [-1, -2, -3].map(Time::Special);
            let ages = [-15, 5, 155, 305, 455, 605, 1_000_005].map(Time::Age);
            steps.extend(specials.into_iter().chain(ages).map(|time| Step::ListOffsets {
                version: 8,
                partition,
                time,
                committed: false,
                epoch: Epoch::None,
            }));
            steps.push(Step::EndOfEpoch {
                version: 4,
                partition,
                epoch: Epoch::Current,
                current: Epoch::Current,
            });
            steps.extend([0, 50].map(|percent| Step::Fetch {
                version: 12,
                partition,
                from: Place::Percent(percent, 0),
                bytes: 1 << 20,
            }));
        }
        steps
    }
}
