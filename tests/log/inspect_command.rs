//! `tidemark inspect` as people run it: the binary, on a directory whose every byte is known. What it prints is compared whole.
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use serde_json::{Value, json};
use tidemark::log::files::DiskFiles;
use tidemark::log::partition::{OpenLog, PartitionLog};

use crate::bench::*;

/// `orders-3` in a log directory, stopped cleanly: three batches in two segments, and an empty active one. Their newest records are three days and an
/// hour, 23 hours and no time old.
fn orders() -> Bench {
    let mut bench = Bench::unopened(DiskFiles::shared(), &[("internal.segment.bytes", "1000000")]);
    let directory = bench.file("orders-3");
    std::fs::create_dir(&directory).unwrap();
    let log = PartitionLog::open(OpenLog {
        directory: directory.clone(),
        ..bench.open_log(true, 0)
    })
    .unwrap();
    let append = |maker: Maker| {
        let sent = tidemark::log::append::Origin::Client;
        log.append(&maker.build(), 4, sent).unwrap();
    };
    append(Maker::default().stamps(&[NOW - 4 * DAY, NOW - 3 * DAY - HOUR]));
    append(
        Maker::default()
            .stamps(&[NOW - 3 * DAY - 2 * HOUR])
            .producer(7, 0, 0),
    );
    assert!(log.idle_roll(i64::MAX).unwrap());
    append(Maker {
        codec: tidemark::log::compression::Codec::Gzip,
        ..Maker::default().stamps(&[NOW - 23 * HOUR])
    });
    assert!(log.idle_roll(i64::MAX).unwrap());
    log.close().unwrap();
    let put = |name: &str, text: &str| std::fs::write(bench.file(name), text).unwrap();
    put(".kafka_cleanshutdown", "{\"version\":0,\"brokerEpoch\":-1}");
    put("recovery-point-offset-checkpoint", "0\n1\norders 3 4\n");
    put("log-start-offset-checkpoint", "0\n1\norders 3 1\n");
    put(
        "orders-3/partition.metadata",
        "version: 0\ntopic_id: ASNFZ4mrze8BI0VniavN7w",
    );
    put("orders-3/notes.txt", "not ours");
    for base in [0, 3, 4] {
        bench.touch(&format!("orders-3/{base:020}.log"), NOW - HOUR);
    }
    bench.settings.clear();
    bench
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command.arg("inspect").args(arguments).current_dir(directory);
    command.output().unwrap()
}

fn printed(output: &Output) -> String {
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{:?}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The wall time of every run here, as an argument.
fn at() -> [String; 2] {
    ["--at".to_owned(), NOW.to_string()]
}

fn inspect(directory: &Path, arguments: &[&str]) -> Output {
    let at = at();
    let all: Vec<&str> = arguments
        .iter()
        .copied()
        .chain(at.iter().map(String::as_str))
        .collect();
    run(directory, &all)
}

#[test]
fn the_report_for_people() {
    let bench = orders();
    let plain = printed(&inspect(bench.path(), &["orders-3"]));
    assert_eq!(
        plain,
        "\
orders-3
  log start 1, log end 4, 254 B in 3 segments
  topic id ASNFZ4mrze8BI0VniavN7w
  leader epochs 4 from 0
  stopped cleanly, recovery point 4
    BASE  NEXT  SIZE  BATCHES  RECORDS  FIRST                     LARGEST TIMESTAMP                        INDEX      TIMEINDEX
    0     3     161   2        3        2023-11-11T21:13:20.000Z  2023-11-11T21:13:20.000Z (3d 1h ago)     0 entries  1 entry
    3     4     93    1        1        2023-11-13T23:13:20.000Z  2023-11-13T23:13:20.000Z (23h ago)       0 entries  1 entry
    4     4     0     0        0        -                         none, modified 2023-11-14T21:13:20.000Z  0 entries  0 entries  active
  foreign: notes.txt
"
    );
}

#[test]
fn the_plan_for_people() {
    let bench = orders();
    let set = [
        "--plan",
        "--set",
        "retention.ms=3d",
        "--set",
        "retention.bytes=2Gi",
    ];
    let text = printed(&inspect(bench.path(), &[&["orders-3"], &set[..]].concat()));
    let plan = text.split_once("  plan: ").unwrap().1;
    assert_eq!(
        plan,
        "\
a pass at 2023-11-14T22:13:20.000Z moves the log start from 1 to 3: 1 segment, 161 B
    0  delete  Time        its newest record is 3d 1h old, older than retention.ms 3d
    3  keep    NotExpired  its newest record is 23h old, retention.ms is 3d (expires 2023-11-16T23:13:20.001Z)
    4  keep    Empty       the active segment is empty
"
    );
}

#[test]
fn batches_for_people() {
    let bench = orders();
    let text = printed(&inspect(bench.path(), &["orders-3", "--batches"]));
    let batches = text.split_once("  batches of segment 0\n").unwrap().1;
    assert_eq!(
        batches,
        "    \
    POSITION  SIZE  OFFSETS  RECORDS  EPOCH  CODEC         TIMESTAMPS                               PRODUCER   CRC
    0         88    0..1     2        4      uncompressed  1699654400000..1699737200000 CreateTime  -          aeca2ca4
    88        73    2..2     1        4      uncompressed  1699733600000..1699733600000 CreateTime  7/0 seq 0  6891d335
  batches of segment 3
    POSITION  SIZE  OFFSETS  RECORDS  EPOCH  CODEC  TIMESTAMPS                               PRODUCER  CRC
    0         93    3..3     1        4      gzip   1699917200000..1699917200000 CreateTime  -         597894c9
  batches of segment 4
    POSITION  SIZE  OFFSETS  RECORDS  EPOCH  CODEC  TIMESTAMPS  PRODUCER  CRC
  foreign: notes.txt
"
    );
}

/// The plan follows the settings: by size, and past a timestamp of the future.
#[test]
fn a_plan_under_other_settings() {
    let bench = orders();
    let planned = |set: &[&str]| {
        let set = set.iter().flat_map(|set| ["--set", set]);
        let arguments: Vec<&str> = ["orders-3", "--plan"].into_iter().chain(set).collect();
        let text = printed(&inspect(bench.path(), &arguments));
        let rows = text.split_once("  plan: ").unwrap().1.lines().skip(1);
        rows.map(|row| row.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let kept = ["0 keep NotExpired", "3 keep NotExpired", "4 keep Empty"];
    assert_eq!(planned(&[]), kept);
    assert_eq!(
        planned(&["retention.ms=-1"]),
        ["0 keep Unlimited", "3 keep Unlimited", "4 keep Empty"]
    );
    assert_eq!(
        planned(&["retention.ms=-1", "retention.bytes=93"]),
        ["0 delete Size", "3 keep NotExpired", "4 keep Empty"]
    );
    assert_eq!(
        planned(&["retention.ms=1h"]),
        ["0 delete Time", "3 delete Time", "4 keep Empty"]
    );
    // A record a year ahead in the first segment, whose file is an hour old.
    let ahead = Maker {
        base_offset: 2,
        ..Maker::default().stamps(&[NOW + 365 * DAY])
    };
    let log = bench.file("orders-3/00000000000000000000.log");
    let first = std::fs::read(&log).unwrap()[..88].to_vec();
    std::fs::write(&log, [first, ahead.build()].concat()).unwrap();
    bench.touch("orders-3/00000000000000000000.log", NOW - HOUR - 1);
    assert_eq!(
        planned(&["retention.ms=1h"]),
        ["0 keep FutureTimestamp", "3 keep Behind", "4 keep Empty"]
    );
    let ignoring = "tidemark.ignore.timestamps.ahead.ms=60s";
    assert_eq!(
        planned(&["retention.ms=1h", ignoring]),
        ["0 delete Time", "3 delete Time", "4 keep Empty"]
    );
    bench.touch("orders-3/00000000000000000000.log", NOW - HOUR);
    assert_eq!(planned(&["retention.ms=1h", ignoring])[0], "0 keep NotExpired");
}

#[test]
fn the_report_as_json() {
    let bench = orders();
    let arguments = [
        "orders-3",
        "-o",
        "json",
        "--plan",
        "--set",
        "retention.ms=3d",
        "--verify",
    ];
    let report: Value = serde_json::from_str(&printed(&inspect(bench.path(), &arguments))).unwrap();
    let index = |entries: i64, size: i64| json!({"entries": entries, "sizeBytes": size, "state": "Sound"});
    let segment = |base: i64, next: i64, size: i64, batches: i64, records: i64, stamp: i64| {
        let stamped = i64::from(stamp >= 0);
        json!({
            "baseOffset": base, "nextOffset": next, "active": base == 4, "sizeBytes": size, "batchCount": batches,
            "recordCount": records, "firstTimestamp": stamp, "largestTimestamp": stamp, "modifiedMs": NOW - HOUR,
            "offsetIndex": index(0, 0), "timeIndex": index(stamped, stamped * 12), "abortedTransactions": 0,
            "hasSnapshot": base > 0,
        })
    };
    let newest = [NOW - 3 * DAY - HOUR, NOW - 23 * HOUR];
    let expected = json!({"directory": "orders-3", "partitions": [{
        "directory": "orders-3", "topic": "orders", "partition": 3, "topicId": "ASNFZ4mrze8BI0VniavN7w",
        "logStart": 1, "logEnd": 4, "recoveryPoint": 4, "cleanShutdown": true, "sizeBytes": 254,
        "leaderEpochs": [{"epoch": 4, "startOffset": 0}],
        "segments": [
            segment(0, 3, 161, 2, 3, newest[0]),
            segment(3, 4, 93, 1, 1, newest[1]),
            segment(4, 4, 0, 0, 0, -1),
        ],
        "foreign": ["notes.txt"],
        "plan": {
            "nowMs": NOW, "logStart": 1, "newLogStart": 3, "segmentsDeleted": 1, "bytesFreed": 161, "rollsActive": false,
            "segments": [
                {"baseOffset": 0, "deleted": true, "reason": "Time", "expiresAtMs": newest[0] + 3 * DAY + 1,
                 "why": "its newest record is 3d 1h old, older than retention.ms 3d"},
                {"baseOffset": 3, "deleted": false, "reason": "NotExpired", "expiresAtMs": newest[1] + 3 * DAY + 1,
                 "why": "its newest record is 23h old, retention.ms is 3d"},
                {"baseOffset": 4, "deleted": false, "reason": "Empty", "why": "the active segment is empty"},
            ],
        },
    }]});
    assert_eq!(report, expected, "{report:#}");
}

/// One partition, the log directory around it and a data directory around that are the same to it.
#[test]
fn any_directory_around_the_partition_will_do() {
    let bench = orders();
    let data = scratch();
    std::fs::rename(bench.path(), data.path().join("logs")).unwrap();
    let json = |directory: &str| -> Value {
        let output = inspect(data.path(), &[directory, "-o", "json"]);
        let mut report: Value = serde_json::from_str(&printed(&output)).unwrap();
        let partition = &mut report["partitions"][0];
        let directory = partition.as_object_mut().unwrap().remove("directory").unwrap();
        assert!(directory.as_str().unwrap().ends_with("orders-3"), "{directory}");
        report["partitions"].take()
    };
    let partition = json("logs/orders-3");
    assert_eq!(partition.as_array().unwrap().len(), 1);
    assert_eq!(json("logs"), partition);
    assert_eq!(json("."), partition);
    std::fs::rename(data.path().join("logs"), bench.path()).unwrap();
}

#[test]
fn damage_is_found_with_verify_and_told_by_the_exit_code() {
    let bench = orders();
    let path = bench.file("orders-3/00000000000000000000.log");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[80] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(inspect(bench.path(), &["orders-3"]).status.success());
    let output = inspect(bench.path(), &["orders-3", "--verify"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("PROBLEM in segment 0: damaged batch at position 0"),
        "{text}"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("the files are damaged"));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let bench = orders();
    for (arguments, told) in [
        (&["nowhere"][..], "nowhere"),
        (
            &["orders-3", "--plan", "--set", "retention.ms=1.5d"],
            "retention.ms",
        ),
        (
            &["orders-3", "--plan", "--set", "log.retention.ms=1"],
            "retention.ms",
        ),
        (&["orders-3", "--plan", "--set", "retention.ms"], "KEY=VALUE"),
        (
            &[
                "orders-3",
                "--plan",
                "--set",
                "tidemark.ignore.timestamps.ahead.ms=-2",
            ],
            "tidemark.ignore.timestamps.ahead.ms",
        ),
        (&["orders-3", "--set", "retention.ms=1d"], "--plan"),
    ] {
        let output = run(bench.path(), arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{arguments:?}"
        );
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}

/// Names of files that were made, changed, renamed, removed or only opened for writing since `init`.
fn written(watch: &rustix::fd::OwnedFd) -> Vec<String> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(watch, &mut buffer);
    let mut names = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => names.push(format!("{:?} {:?}", event.file_name(), event.events())),
            Err(rustix::io::Errno::WOULDBLOCK) => return names,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn nothing_is_opened_for_writing() {
    let bench = orders();
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let changes = WatchFlags::CLOSE_WRITE
        | WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO;
    for directory in [bench.path().to_owned(), bench.file("orders-3")] {
        inotify::add_watch(&watch, directory, changes).unwrap();
    }
    let all = [
        "--batches",
        "--verify",
        "--plan",
        "--set",
        "retention.ms=1",
        "-o",
        "json",
    ];
    printed(&inspect(bench.path(), &[&["."], &all[..]].concat()));
    assert_eq!(written(&watch), Vec::<String>::new());
    // The watch would have seen it.
    let log = bench.file("orders-3/00000000000000000000.log");
    drop(std::fs::File::options().append(true).open(log).unwrap());
    assert_eq!(written(&watch).len(), 1);
}
