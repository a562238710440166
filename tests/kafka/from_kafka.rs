//! Directories that a real broker wrote, opened here: the same records, offsets, timestamps and log starts, whatever wrote them and however it
//! stopped.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tidemark::log::append::Origin;
use tidemark::log::batch::{BatchHeader, attributes, encode};
use tidemark::log::compression::Codec;
use tidemark::log::files::DiskFiles;
use tidemark::log::inspect::{self, Depth};
use tidemark::log::partition::PartitionLog;
use tidemark::log::read::Isolation;
use tidemark::log::records::RecordWriter;
use tidemark::resource::settings::TopicSettings;
use tidemark::telemetry::clock::{Clock, SystemClock};

use crate::directory::{AllSeen, Client, copy, dump, dump_tool_finds_no_error, hex, open, seen_in};
use crate::support::kafka::Kafka;
use crate::support::temp::TempDir;
use crate::support::tidemark::tidemark;
use crate::support::wait::{PATIENCE, eventually};

const HOUR: i64 = 3_600_000;

/// Topics, and what is special about each.
const TOPICS: [(&str, &[(&str, &str)]); 14] = [
    ("plain", &[]),
    ("gzip", &[]),
    ("snappy", &[]),
    ("lz4", &[]),
    ("zstd", &[]),
    ("recompressed", &[("compression.type", "zstd")]),
    ("idempotent", &[("internal.segment.bytes", "3000")]),
    ("transactional", &[("internal.segment.bytes", "3000")]),
    ("append-time", &[("message.timestamp.type", "LogAppendTime")]),
    (
        "many-segments",
        &[
            ("internal.segment.bytes", "1500"),
            ("index.interval.bytes", "200"),
        ],
    ),
    ("deleted-prefix", &[("internal.segment.bytes", "1500")]),
    (
        "deleted-segments",
        &[
            ("internal.segment.bytes", "1500"),
            ("retention.bytes", "4000"),
            ("file.delete.delay.ms", "600000"),
        ],
    ),
    ("keyed", &[("cleanup.policy", "compact")]),
    ("never-written", &[]),
];

fn names() -> Vec<&'static str> {
    TOPICS.iter().map(|(name, _)| *name).collect()
}

/// A batch of `count` records to one topic; `at` numbers it.
fn batch(topic: &str, at: i64, count: i64, now: i64) -> Value {
    let records: Vec<Value> = (0..count)
        .map(|nth| {
            let serial = at * 10 + nth;
            json!({
                "timestamp": now - (serial * 7919) % (48 * HOUR),
                "key": if serial % 3 == 0 && topic != "keyed" { Value::Null } else { json!(hex(format!("key-{}", serial % 5).as_bytes())) },
                "value": if serial % 7 == 0 { Value::Null } else { json!(hex("value ".repeat(1 + (serial as usize % 9) * 4).as_bytes())) },
                "headers": if serial % 4 == 0 { json!([["trace", hex(b"1")], ["trace", Value::Null], ["", hex(b"")]]) } else { json!([]) },
            })
        })
        .collect();
    let codec = ["gzip", "snappy", "lz4", "zstd"]
        .into_iter()
        .find(|codec| *codec == topic)
        .unwrap_or("none");
    json!({ "topic": topic, "records": records, "codec": codec, "idempotent": topic == "idempotent" })
}

/// Fills every topic; `round` keeps transactions and records of two calls apart.
fn fill(client: &Client<'_>, round: i64, now: i64) {
    let mut lines = Vec::new();
    for (topic, _) in TOPICS
        .iter()
        .filter(|(topic, _)| !["never-written", "transactional"].contains(topic))
    {
        for at in 0..20 {
            lines.push(batch(topic, round * 100 + at, 1 + at % 5, now));
        }
    }
    let in_txn = |id: &str, at: i64| {
        let mut line = batch("transactional", round * 100 + at, 3, now);
        line["transaction"] = json!(format!("{id}-{round}"));
        line
    };
    let end = |how: &str, id: &str| json!({ how: format!("{id}-{round}") });
    for at in 0..6 {
        lines.extend([
            end("begin", "a"),
            in_txn("a", at),
            end("begin", "b"),
            in_txn("b", at + 10),
            in_txn("a", at + 20),
        ]);
        lines.push(end(if at % 2 == 0 { "commit" } else { "abort" }, "a"));
        lines.push(end(if at % 3 == 0 { "commit" } else { "abort" }, "b"));
    }
    // One is left open: what follows it is not stable.
    lines.extend([
        end("begin", "open"),
        in_txn("open", 50),
        batch("transactional", round * 100 + 60, 2, now),
    ]);
    client.write(&lines);
}

struct Expected {
    offsets: BTreeMap<String, (i64, i64)>,
    uncommitted: AllSeen,
    committed: AllSeen,
}

fn expected(client: &Client<'_>) -> Expected {
    Expected {
        offsets: client.offsets(&names()),
        uncommitted: client.dump(&names(), Isolation::ReadUncommitted),
        committed: client.dump(&names(), Isolation::ReadCommitted),
    }
}

/// Opens a copy of `logs` and holds every topic against what the broker's own consumers saw.
fn compare(logs: &Path, expected: &Expected) {
    let scratch = TempDir::new("from-kafka");
    copy(logs, scratch.path());
    let report = inspect::inspect(
        &DiskFiles,
        scratch.path(),
        Depth {
            batches: true,
            verify: true,
            ..Depth::default()
        },
    )
    .expect("a report");
    assert!(report.is_sound(), "{report:#?}");
    the_command_says_the_same(scratch.path(), expected);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    for topic in names() {
        let log = open(scratch.path(), topic, &TopicSettings::default(), &clock);
        assert_eq!(
            (log.log_start(), log.log_end()),
            expected.offsets[topic],
            "{topic}"
        );
        assert_eq!(
            seen_in(&log, Isolation::ReadUncommitted),
            expected.uncommitted[topic],
            "{topic}"
        );
        assert_eq!(
            seen_in(&log, Isolation::ReadCommitted),
            expected.committed[topic],
            "{topic}, committed"
        );
        let report = &report
            .partitions
            .iter()
            .find(|p| p.topic.as_deref() == Some(topic))
            .expect("its report");
        assert!(report.topic_id.is_some());
        assert_eq!(
            (report.log_start, report.log_end),
            (log.log_start(), log.log_end()),
            "{topic} inspected"
        );
        let damage = log.damage();
        assert!(damage.is_empty(), "{topic}: {damage:?}");
        it_goes_on(&log, topic);
        log.close().expect("a clean close");
    }
    // What we appended and closed is still Kafka's format.
    let directories: Vec<_> = names()
        .iter()
        .map(|topic| scratch.join(format!("{topic}-0")))
        .collect();
    dump_tool_finds_no_error(&directories);
}

/// `tidemark inspect` on the whole log directory, as a user runs it.
fn the_command_says_the_same(logs: &Path, expected: &Expected) {
    let inspect = |flags: &[&str]| {
        tidemark(["inspect", "--verify"])
            .args(flags.iter().copied())
            .arg(logs)
            .run()
    };
    let report: Value = serde_json::from_str(&inspect(&["-o", "json"])).expect("JSON");
    let text = inspect(&["--plan", "--set", "retention.ms=-1"]);
    for topic in names() {
        let partitions = report["partitions"].as_array().expect("partitions");
        let partition = partitions
            .iter()
            .find(|partition| partition["topic"] == topic)
            .unwrap_or_else(|| panic!("{topic} is not in the report"));
        let (start, end) = expected.offsets[topic];
        assert_eq!(
            (&partition["logStart"], &partition["logEnd"]),
            (&json!(start), &json!(end)),
            "{topic}"
        );
        let (_, told) = text
            .split_once(&format!("/{topic}-0\n"))
            .unwrap_or_else(|| panic!("{topic} is not in the text"));
        assert!(
            told.starts_with(&format!("  log start {start}, log end {end}, ")),
            "{topic}: {told}"
        );
    }
}

/// The next record gets the next offset, and an idempotent producer's last batch is known.
fn it_goes_on(log: &PartitionLog, topic: &str) {
    let end = log.log_end();
    if topic == "idempotent" {
        let mut start = end - 1;
        let bytes = loop {
            let slice = log
                .read(start, 1, true, Isolation::ReadUncommitted)
                .expect("the last batch");
            let bytes = slice.to_vec().expect("its bytes");
            let header = BatchHeader::parse(&bytes).expect("its header");
            start = header.base_offset;
            if header.next_offset() == end {
                break bytes;
            }
        };
        let header = BatchHeader::parse(&bytes).expect("its header");
        assert!(header.producer_id >= 0 && header.base_sequence >= 0);
        let mut again = bytes[..header.size as usize].to_vec();
        tidemark::log::batch::set_base_offset(&mut again, 0);
        let appended = log
            .append(&again, header.leader_epoch, Origin::Client)
            .expect("a duplicate");
        assert!(
            appended.duplicate,
            "{topic}: the producer's last batch is not recognised"
        );
        assert_eq!(
            (appended.base_offset, appended.last_offset),
            (header.base_offset, header.last_offset())
        );
    }
    let mut writer = RecordWriter::default();
    writer.push(0, Some(b"k"), Some(b"one more"), 0, &[]);
    let now = SystemClock::new().wall_ms();
    let header = BatchHeader {
        base_offset: 0,
        size: 0,
        leader_epoch: -1,
        magic: 2,
        crc: 0,
        attributes: attributes(Codec::None, false, false, false),
        last_offset_delta: 0,
        base_timestamp: now,
        max_timestamp: now,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: 1,
    };
    let batch = encode(&header, &writer.into_bytes());
    let appended = log
        .append(&batch, log.latest_epoch().max(0), Origin::Client)
        .expect("an append");
    assert_eq!(appended.base_offset, end, "{topic}");
}

/// Several codecs, idempotent and transactional producers, a deleted prefix, deleted segments; a clean stop, then a kill -9.
#[test]
fn directories_of_a_broker_that_stopped_or_was_killed() {
    // Periodic checkpoints would make what a kill leaves a matter of chance.
    let hour = "3600000";
    let mut kafka = Kafka::start(&[
        ("log.index.size.max.bytes", "65536"),
        ("log.flush.offset.checkpoint.interval.ms", hour),
        ("log.flush.start.offset.checkpoint.interval.ms", hour),
        ("log.cleaner.enable", "false"),
    ]);
    let bootstrap = kafka.bootstrap().to_owned();
    let client = Client(&bootstrap);
    client.create(TOPICS);
    let now = SystemClock::new().wall_ms();
    fill(&client, 0, now);
    client.delete_records("deleted-prefix", 17);
    let deleted = settled(&kafka, &client);
    assert!(deleted > 0, "the retention pass deleted segments");

    let clean = expected(&client);
    kafka.stop();
    the_dump_tool_complains_of_its_own_brokers_segments(kafka.logs());
    compare(kafka.logs(), &clean);

    kafka.start_again();
    fill(&client, 1, now);
    client.delete_records("plain", 5);
    settled(&kafka, &client);
    kafka.kill();
    let killed = TempDir::new("killed-kafka");
    copy(kafka.logs(), killed.path());
    // What such a directory holds is what its own broker makes of it: Kafka may lose an acknowledged DeleteRecords, for one.
    kafka.start_again();
    let unclean = expected(&client);
    assert_ne!(unclean.offsets, clean.offsets);
    compare(killed.path(), &unclean);
}

/// What [`dump_tool_finds_no_error`] passes over is said of files that no other than the broker has touched.
fn the_dump_tool_complains_of_its_own_brokers_segments(logs: &Path) {
    let directory = logs.join("many-segments-0");
    let bases: Vec<i64> = segments(&directory).into_keys().collect();
    let files: Vec<String> = bases
        .iter()
        .map(|base| directory.join(format!("{base:020}.log")).display().to_string())
        .collect();
    let text = dump(&files);
    let mut complaints: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("-1 is followed by "))
        .collect();
    let mut later: Vec<String> = bases
        .iter()
        .filter(|base| **base > 0)
        .map(i64::to_string)
        .collect();
    complaints.sort_unstable();
    later.sort_unstable();
    assert!(later.len() > 2, "{bases:?}");
    assert_eq!(complaints, later);
}

/// Waits until no retention pass has anything left to delete in `deleted-segments`, and answers its log start.
fn settled(kafka: &Kafka, client: &Client<'_>) -> i64 {
    let limit: u64 = 4000;
    eventually("the retention pass", PATIENCE, || {
        let segments = segments(&kafka.partition("deleted-segments", 0));
        // Kafka deletes the oldest segment as long as what is beyond the limit is no smaller than it.
        let beyond = segments.values().sum::<u64>().saturating_sub(limit);
        let start = client.offsets(&["deleted-segments"])["deleted-segments"].0;
        let (base, oldest) = segments.first_key_value().expect("a segment");
        if beyond < *oldest && start == *base {
            Ok(start)
        } else {
            Err(format!("log start {start}, segments {segments:?}"))
        }
    })
}

/// The base offsets of a partition's segments and their sizes in bytes, without those that wait for their unlink.
fn segments(directory: &Path) -> BTreeMap<i64, u64> {
    std::fs::read_dir(directory)
        .expect("the broker's directory")
        .filter_map(|entry| {
            let entry = entry.expect("an entry");
            let base = entry.file_name().to_str()?.strip_suffix(".log")?.parse().ok()?;
            // What was renamed for its deletion meanwhile does not count.
            Some((base, entry.metadata().ok()?.len()))
        })
        .collect()
}
