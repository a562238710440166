use std::path::Path;

use super::indexes::IndexState;
use super::plan::{PlanReport, about_duration};
use super::*;
use crate::log::batch::{BatchHeader, attributes, encode};
use crate::log::compression::Codec;
use crate::log::faults::{FaultyFiles, Operation};
use crate::log::files::DiskFiles;
use crate::log::records::RecordWriter;
use crate::resource::settings::{Overrides, TopicSettings};

const HOUR: i64 = 3_600_000;
const NOW: i64 = 1_700_000_000_000;

fn batch(base_offset: i64, timestamps: &[i64]) -> Vec<u8> {
    let mut writer = RecordWriter::default();
    for timestamp in timestamps {
        writer.push(timestamp - timestamps[0], None, Some(b"v"), 0, &[]);
    }
    let count = writer.count();
    let header = BatchHeader {
        base_offset,
        size: 0,
        leader_epoch: 3,
        magic: 2,
        crc: 0,
        attributes: attributes(Codec::None, false, false, false),
        last_offset_delta: count - 1,
        base_timestamp: timestamps[0],
        max_timestamp: *timestamps.iter().max().unwrap(),
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: count,
    };
    encode(&header, &writer.into_bytes())
}

/// A partition of segments, each of one batch a timestamp, with indexes of every batch but the first.
fn partition(segments: &[(i64, &[i64])]) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("orders-3");
    std::fs::create_dir(&dir).unwrap();
    for (base, timestamps) in segments {
        let (mut log, mut index, mut time_index) = (Vec::new(), Vec::new(), Vec::new());
        let (mut largest, mut largest_at) = (-1, 0_i32);
        for (relative, timestamp) in (0_i32..).zip(*timestamps) {
            if *timestamp > largest {
                (largest, largest_at) = (*timestamp, relative);
            }
            if relative > 0 {
                index.extend(relative.to_be_bytes());
                index.extend((log.len() as u32).to_be_bytes());
            }
            log.extend(batch(base + i64::from(relative), &[*timestamp]));
        }
        if largest >= 0 {
            time_index.extend(largest.to_be_bytes());
            time_index.extend(largest_at.to_be_bytes());
        }
        for (file, bytes) in [
            (SegmentFile::Log, log),
            (SegmentFile::OffsetIndex, index),
            (SegmentFile::TimeIndex, time_index),
        ] {
            std::fs::write(SegmentFileName::live(*base, file).path(&dir), bytes).unwrap();
        }
    }
    (root, dir)
}

fn look(dir: &Path) -> PartitionReport {
    let depth = Depth {
        batches: true,
        verify: true,
        ..Depth::default()
    };
    let mut report = inspect(&DiskFiles, dir, depth).unwrap();
    assert_eq!(report.partitions.len(), 1);
    report.partitions.remove(0)
}

fn plan(report: &PartitionReport, set: &[(&str, &str)]) -> PlanReport {
    let set: Overrides = set
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    report.planned(&TopicSettings::resolve(&[&set]).unwrap(), NOW)
}

#[test]
fn a_sound_partition() {
    let (root, dir) = partition(&[(0, &[NOW - 5, NOW - 9, NOW - 1]), (3, &[NOW, NOW + 1]), (5, &[])]);
    std::fs::write(dir.join("leader-epoch-checkpoint"), "0\n1\n3 0\n").unwrap();
    std::fs::write(
        dir.join("partition.metadata"),
        "version: 0\ntopic_id: ASNFZ4mrze8BI0VniavN7w",
    )
    .unwrap();
    std::fs::write(
        root.path().join("log-start-offset-checkpoint"),
        "0\n2\norders 3 2\norders 30 9\n",
    )
    .unwrap();
    std::fs::write(
        root.path().join("recovery-point-offset-checkpoint"),
        "0\n1\norders 3 5\n",
    )
    .unwrap();
    std::fs::write(root.path().join(".kafka_cleanshutdown"), "").unwrap();
    let report = look(&dir);
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(
        (report.topic.as_deref(), report.partition),
        (Some("orders"), Some(3))
    );
    assert_eq!(report.topic_id.as_deref(), Some("ASNFZ4mrze8BI0VniavN7w"));
    assert_eq!(
        (report.log_start, report.log_end, report.recovery_point),
        (2, 5, Some(5))
    );
    assert!(report.clean_shutdown);
    let figures: Vec<_> = report
        .segments
        .iter()
        .map(|s| {
            (
                s.base_offset,
                s.next_offset,
                s.batch_count,
                s.record_count,
                s.first_timestamp,
                s.largest_timestamp,
                s.active,
            )
        })
        .collect();
    assert_eq!(
        figures,
        [
            (0, 3, 3, 3, NOW - 5, NOW - 1, false),
            (3, 5, 2, 2, NOW, NOW + 1, false),
            (5, 5, 0, 0, -1, -1, true)
        ]
    );
    assert!(
        report
            .segments
            .iter()
            .all(|s| s.offset_index.state == IndexState::Sound && s.time_index.state == IndexState::Sound)
    );
    let batches = report.segments[0].batches.as_ref().unwrap();
    assert_eq!(
        batches.iter().map(|batch| batch.base_offset).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert_eq!(batches[1].position, u64::from(batches[0].size_bytes));
}

#[test]
fn nothing_is_opened_for_writing() {
    let (root, _dir) = partition(&[(0, &[NOW]), (1, &[NOW])]);
    let files = FaultyFiles::new(DiskFiles::shared());
    files.set_read_only(true);
    inspect(
        &files,
        root.path(),
        Depth {
            batches: true,
            verify: true,
            ..Depth::default()
        },
    )
    .unwrap();
    let changes = Operation::ALL.into_iter().filter(|operation| operation.changes());
    assert_eq!(changes.map(|operation| files.count(operation)).sum::<u64>(), 0);
    assert!(files.count(Operation::Open) > 0);
}

#[test]
fn log_and_data_directories() {
    let (root, _dir) = partition(&[(0, &[NOW])]);
    let logs = root.path();
    for name in [
        "orders-10",
        "a.b-0",
        "lost+found",
        "__cluster_metadata-0",
        "gone-0.0123456789abcdef0123456789abcdef-delete",
    ] {
        std::fs::create_dir(logs.join(name)).unwrap();
    }
    std::fs::write(logs.join("a.b-0/00000000000000000007.log"), "").unwrap();
    std::fs::write(logs.join("orders-10/00000000000000000000.log"), "").unwrap();
    let data = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(logs, data.path().join("elsewhere")).unwrap();
    std::fs::rename(logs, data.path().join("logs")).unwrap();
    for directory in [data.path().join("logs"), data.path().to_owned()] {
        let report = inspect(&DiskFiles, &directory, Depth::default()).unwrap();
        let names: Vec<_> = report
            .partitions
            .iter()
            .map(|p| (p.topic.clone().unwrap(), p.partition.unwrap(), p.log_start))
            .collect();
        assert_eq!(
            names,
            [
                ("a.b".to_owned(), 0, 7),
                ("orders".to_owned(), 3, 0),
                ("orders".to_owned(), 10, 0)
            ]
        );
        assert_eq!(report.marked, ["gone-0.0123456789abcdef0123456789abcdef-delete"]);
    }
    let empty = tempfile::tempdir().unwrap();
    let error = inspect(&DiskFiles, empty.path(), Depth::default()).unwrap_err();
    assert!(error.to_string().contains("no partition directory"), "{error}");
}

#[test]
fn damage_is_named_with_its_place_and_what_follows_is_still_read() {
    let (_root, dir) = partition(&[(0, &[NOW, NOW, NOW]), (3, &[NOW, NOW])]);
    let log = dir.join("00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let size = bytes.len() / 3;
    bytes[size + 65] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let report = look(&dir);
    let problems = report.segments[0].problems.join("; ");
    assert!(
        problems.contains(&format!("damaged batch at position {size}: checksum")),
        "{problems}"
    );
    assert_eq!(
        (report.segments[0].batch_count, report.segments[0].next_offset),
        (2, 3)
    );
    assert!(!report.is_sound());
    // Without reading everything it goes unnoticed.
    assert!(inspect(&DiskFiles, &dir, Depth::default()).unwrap().is_sound());

    let torn = dir.join("00000000000000000003.log");
    let bytes = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &bytes[..bytes.len() - 5]).unwrap();
    let problems = look(&dir).segments[1].problems.join("; ");
    assert!(
        problems.contains(&format!("{} bytes of a torn batch at position {size}", size - 5)),
        "{problems}"
    );
    assert!(
        problems.contains("offset index: the last 1 entries name no batch"),
        "{problems}"
    );
}

#[test]
fn index_health() {
    let (_root, dir) = partition(&[(10, &[NOW, NOW + 1, NOW + 2])]);
    let index = dir.join("00000000000000000010.index");
    let time_index = dir.join("00000000000000000010.timeindex");
    let (good, good_time) = (
        std::fs::read(&index).unwrap(),
        std::fs::read(&time_index).unwrap(),
    );
    let states = || {
        let report = look(&dir);
        let segment = &report.segments[0];
        (
            segment.offset_index.state,
            segment.time_index.state,
            report.is_sound(),
        )
    };
    assert_eq!(states(), (IndexState::Sound, IndexState::Sound, true));
    std::fs::write(&index, [&good[..], &[0; 80]].concat()).unwrap();
    std::fs::write(&time_index, [&good_time[..], &[0; 120]].concat()).unwrap();
    assert_eq!(states(), (IndexState::Untrimmed, IndexState::Untrimmed, true));
    std::fs::write(&index, [0; 4096]).unwrap();
    std::fs::write(&time_index, []).unwrap();
    assert_eq!(states(), (IndexState::Untrimmed, IndexState::Sound, true));
    std::fs::remove_file(&index).unwrap();
    std::fs::remove_file(&time_index).unwrap();
    assert_eq!(states(), (IndexState::Missing, IndexState::Missing, true));
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&index, &bytes).unwrap();
        assert_eq!(states().0, IndexState::Damaged, "byte {at} of the offset index");
    }
    std::fs::write(&index, &good).unwrap();
    for at in 0..good_time.len() {
        let mut bytes = good_time.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&time_index, &bytes).unwrap();
        assert_eq!(states().1, IndexState::Damaged, "byte {at} of the time index");
    }
}

#[test]
fn leftovers_and_foreign_files_are_told_apart() {
    let (_root, dir) = partition(&[(0, &[NOW])]);
    for name in [
        "00000000000000000000.log.deleted",
        "00000000000000000009.index",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint.tmp",
        "notes.txt",
        "core",
    ] {
        std::fs::write(dir.join(name), "").unwrap();
    }
    let report = look(&dir);
    assert_eq!(
        report.leftovers,
        [
            "00000000000000000000.log.deleted",
            "leader-epoch-checkpoint.tmp",
            "00000000000000000009.index"
        ]
    );
    assert_eq!(report.foreign, ["core", "notes.txt"]);
}

#[test]
fn bad_side_files_are_problems_not_failures() {
    let (root, dir) = partition(&[(0, &[NOW])]);
    std::fs::write(dir.join("leader-epoch-checkpoint"), "7\n").unwrap();
    std::fs::write(dir.join("partition.metadata"), "nonsense").unwrap();
    std::fs::write(dir.join("00000000000000000000.txnindex"), "x").unwrap();
    std::fs::write(
        root.path().join("log-start-offset-checkpoint"),
        "0\n1\norders 3 99\n",
    )
    .unwrap();
    let report = look(&dir);
    let problems = [report.problems.join("; "), report.segments[0].problems.join("; ")].join("; ");
    for what in [
        "version 7",
        "colon",
        "partial entry",
        "log start 99 of the checkpoint lies above the log end 1",
    ] {
        assert!(problems.contains(what), "{what} in {problems}");
    }
}

/// Worked example (a): the first segment goes, the second's old records stay with it.
#[test]
fn the_three_segment_table_as_a_plan() {
    let (_root, dir) = partition(&[
        (0, &[NOW - 80 * HOUR, NOW - 73 * HOUR]),
        (2, &[NOW - 72 * HOUR - 5, NOW - 23 * HOUR]),
        (4, &[NOW]),
    ]);
    let report = look(&dir);
    let plan = plan(&report, &[("retention.ms", "259200000")]);
    assert_eq!(
        (plan.log_start, plan.new_log_start, plan.segments_deleted),
        (0, 2, 1)
    );
    let rows: Vec<_> = plan
        .segments
        .iter()
        .map(|s| (s.base_offset, s.deleted, s.reason))
        .collect();
    assert_eq!(
        rows,
        [
            (0, true, "Time"),
            (2, false, "NotExpired"),
            (4, false, "NotExpired")
        ]
    );
    assert_eq!(
        plan.segments[0].why,
        "its newest record is 3d 1h old, older than retention.ms 3d"
    );
    assert_eq!(
        plan.segments[1].why,
        "its newest record is 23h old, retention.ms is 3d"
    );
    assert_eq!(plan.segments[1].expires_at_ms, Some(NOW + 49 * HOUR + 1));
    let mut report = report;
    report.plan = Some(plan);
    let text = text::render(
        &Report {
            directory: String::new(),
            partitions: vec![report],
            marked: vec![],
        },
        NOW,
    );
    assert!(
        text.contains("moves the log start from 0 to 2: 1 segment"),
        "{text}"
    );
    assert!(text.contains("keep"), "{text}");
}

#[test]
fn every_reason_of_a_plan() {
    let (_root, dir) = partition(&[
        (0, &[NOW - 10]),
        (1, &[NOW - 50 * HOUR]),
        (2, &[NOW + HOUR]),
        (3, &[NOW - 50 * HOUR]),
        (4, &[]),
    ]);
    let report = look(&dir);
    let reasons = |set: &[(&str, &str)]| {
        let plan = plan(&report, set);
        let reasons: Vec<_> = plan.segments.iter().map(|s| s.reason).collect();
        (plan.segments_deleted, reasons)
    };
    let day = ("retention.ms", "86400000");
    assert_eq!(
        reasons(&[day]),
        (
            0,
            vec!["NotExpired", "Behind", "FutureTimestamp", "Behind", "Empty"]
        )
    );
    let size = i64::try_from(report.size_bytes).unwrap();
    let two_less = (size / 2).to_string();
    assert_eq!(
        reasons(&[day, ("retention.bytes", &two_less)]),
        (2, vec!["Size", "Size", "FutureTimestamp", "Behind", "Empty"])
    );
    let off = ("retention.ms", "-1");
    assert_eq!(
        reasons(&[off]),
        (
            0,
            vec!["Unlimited", "Unlimited", "Unlimited", "Unlimited", "Empty"]
        )
    );
    assert_eq!(reasons(&[off, ("retention.bytes", "100000")]).1[0], "NotExpired");
    let mut started = report.clone();
    started.log_start = 1;
    let plan = started.planned(&TopicSettings::default(), NOW);
    assert_eq!((plan.segments[0].reason, plan.new_log_start), ("Start", 1));
}

#[test]
fn durations_for_people() {
    for (ms, text) in [
        (0, "0ms"),
        (999, "999ms"),
        (1_000, "1s"),
        (1_500, "1.500s"),
        (60_000, "1m"),
        (61_000, "1m 1s"),
        (3_600_000, "1h"),
        (90_000_000, "1d 1h"),
        (86_460_000, "1d"),
        (-1_500, "-1.500s"),
    ] {
        assert_eq!(about_duration(ms), text);
    }
}

#[test]
fn the_report_as_json_has_whole_numbers_and_camel_case() {
    let (_root, dir) = partition(&[(0, &[NOW])]);
    let report = look(&dir);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["logEnd"], 1);
    assert_eq!(json["segments"][0]["largestTimestamp"], NOW);
    assert_eq!(json["segments"][0]["offsetIndex"]["state"], "Sound");
    assert_eq!(json["segments"][0]["batches"][0]["timestampType"], "CreateTime");
    assert_eq!(json.get("plan"), None);
}
