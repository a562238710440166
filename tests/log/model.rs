//! The log against a model that does everything the plain way: vectors, loops, no files.
//!
//! Random appends, rolls, passes, deletions, reads, lookups, changes of settings, clean restarts and crashes; after each step both must agree on
//! log start, log end, segments, every readable record and every lookup by time. What must always hold is checked too: a second pass
//! with the same clock deletes nothing, the log start never goes back, never passes the high watermark, and cuts through a segment
//! only where DeleteRecords put it.
use proptest::prelude::*;
use tidemark::log::batch;
use tidemark::log::read::Isolation;
use tidemark::log::records::OpenBatch;
use tidemark::telemetry::clock::Clock;

use crate::bench::*;

#[derive(Debug, Clone)]
enum Step {
    /// Timestamps relative to the clock; `None` is no timestamp. One batch.
    Append(Vec<Option<i64>>),
    IdleRoll,
    Pass,
    /// Per mille of the way from log start to log end.
    DeleteRecords(i64),
    Wait(i64),
    RetentionMs(i64),
    RetentionBytes(i64),
    SegmentMs(i64),
    Restart,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let stamp = prop_oneof![
        8 => (-3_000..1_000_i64).prop_map(Some),
        2 => (-60_000..0_i64).prop_map(Some),
        1 => Just(None),
    ];
    prop_oneof![
        12 => prop::collection::vec(stamp, 1..4).prop_map(Step::Append),
        2 => Just(Step::IdleRoll),
        4 => Just(Step::Pass),
        2 => (0..1_000_i64).prop_map(Step::DeleteRecords),
        3 => (0..4_000_i64).prop_map(Step::Wait),
        1 => prop_oneof![Just(-1), Just(0), 0..10_000_i64].prop_map(Step::RetentionMs),
        1 => prop_oneof![Just(-1), Just(0), 0..3_000_i64].prop_map(Step::RetentionBytes),
        1 => (1..5_000_i64).prop_map(Step::SegmentMs),
        1 => Just(Step::Restart),
        1 => Just(Step::Crash),
    ]
}

#[derive(Debug, Clone, PartialEq)]
struct ModelBatch {
    base_offset: i64,
    stamps: Vec<i64>,
    size: i64,
}

impl ModelBatch {
    fn last_offset(&self) -> i64 {
        self.base_offset + self.stamps.len() as i64 - 1
    }

    fn largest(&self) -> i64 {
        self.stamps.iter().copied().max().unwrap_or(-1)
    }
}

#[derive(Debug, Clone)]
struct ModelSegment {
    base_offset: i64,
    batches: Vec<ModelBatch>,
    created_ms: i64,
    first_append_ms: i64,
    modified_ms: i64,
}

impl ModelSegment {
    fn new(base_offset: i64, now_ms: i64) -> Self {
        Self {
            base_offset,
            batches: Vec::new(),
            created_ms: now_ms,
            first_append_ms: 0,
            modified_ms: now_ms,
        }
    }

    fn size(&self) -> i64 {
        self.batches.iter().map(|batch| batch.size).sum()
    }

    fn time(&self) -> i64 {
        let largest = self.batches.iter().map(ModelBatch::largest).max().unwrap_or(-1);
        if largest >= 0 { largest } else { self.modified_ms }
    }
}

struct Model {
    segments: Vec<ModelSegment>,
    log_start: i64,
    log_end: i64,
    retention_ms: i64,
    retention_bytes: i64,
    segment_ms: i64,
}

const SEGMENT_BYTES: i64 = 500;

impl Model {
    fn active(&mut self) -> &mut ModelSegment {
        self.segments.last_mut().unwrap()
    }

    fn append(&mut self, stamps: Vec<i64>, size: i64, now_ms: i64) {
        let batch = ModelBatch {
            base_offset: self.log_end,
            stamps,
            size,
        };
        let (segment_ms, log_end) = (self.segment_ms, self.log_end);
        let active = self.active();
        let waited = match active.batches.first().map(ModelBatch::largest) {
            Some(first) if first >= 0 => batch.largest() - first,
            _ => now_ms - active.created_ms,
        };
        let aged = !active.batches.is_empty() && waited > segment_ms;
        if active.size() + size > SEGMENT_BYTES || aged {
            self.segments.push(ModelSegment::new(log_end, now_ms));
        }
        let active = self.active();
        if active.batches.is_empty() {
            active.first_append_ms = now_ms;
        }
        active.modified_ms = now_ms;
        self.log_end = batch.last_offset() + 1;
        self.active().batches.push(batch);
    }

    fn idle_roll(&mut self, now_ms: i64) {
        let (segment_ms, log_end) = (self.segment_ms, self.log_end);
        let active = self.active();
        if !active.batches.is_empty() && now_ms - active.first_append_ms > segment_ms {
            self.segments.push(ModelSegment::new(log_end, now_ms));
        }
    }

    fn take_front(&mut self, now_ms: i64, mut goes: impl FnMut(&ModelSegment, Option<i64>) -> bool) -> usize {
        let mut count = 0;
        for (index, segment) in self.segments.iter().enumerate() {
            let next = self.segments.get(index + 1).map(|next| next.base_offset);
            let empty_active = next.is_none() && segment.size() == 0;
            if empty_active || !goes(segment, next) {
                break;
            }
            count += 1;
        }
        if count == 0 {
            return 0;
        }
        if count == self.segments.len() {
            self.segments.push(ModelSegment::new(self.log_end, now_ms));
        }
        self.segments.drain(..count);
        self.log_start = self.log_start.max(self.segments[0].base_offset);
        count
    }

    fn pass(&mut self, now_ms: i64) -> usize {
        let log_start = self.log_start;
        let by_start = self.take_front(now_ms, |_, next| next.is_some_and(|next| next <= log_start));
        let total: i64 = self.segments.iter().map(ModelSegment::size).sum();
        let mut over = total - self.retention_bytes;
        let limited = self.retention_bytes >= 0 && over >= 0;
        let by_size = self.take_front(now_ms, |segment, _| {
            over -= segment.size();
            limited && over >= 0
        });
        let retention_ms = self.retention_ms;
        let by_time = self.take_front(now_ms, |segment, _| {
            retention_ms >= 0 && now_ms - segment.time() > retention_ms
        });
        by_start + by_size + by_time
    }

    fn reopened(&mut self, now_ms: i64) {
        let active = self.active();
        active.created_ms = now_ms;
        active.first_append_ms = active.modified_ms;
    }

    fn readable(&self) -> Vec<(i64, i64)> {
        let batches = self.segments.iter().flat_map(|segment| &segment.batches);
        let records = batches.flat_map(|batch| {
            batch
                .stamps
                .iter()
                .enumerate()
                .map(|(n, stamp)| (batch.base_offset + n as i64, *stamp))
        });
        records.filter(|(offset, _)| *offset >= self.log_start).collect()
    }

    fn lookup(&self, timestamp: i64) -> Option<(i64, i64)> {
        let segment = self.segments.iter().find(|segment| segment.time() >= timestamp)?;
        let records = segment.batches.iter().flat_map(|batch| {
            batch
                .stamps
                .iter()
                .enumerate()
                .map(|(n, stamp)| (batch.base_offset + n as i64, *stamp))
        });
        let mut records = records.filter(|(offset, _)| *offset >= self.log_start);
        records.find(|(_, stamp)| *stamp >= timestamp)
    }
}

/// Every record from the log start on, as a reader with this fetch size gets them.
fn read_all(bench: &Bench, max_bytes: i64) -> Vec<(i64, i64)> {
    let log = bench.log();
    let (mut records, mut next) = (Vec::new(), log.log_start());
    loop {
        let slice = log
            .read(next, max_bytes, true, Isolation::ReadUncommitted)
            .unwrap();
        let bytes = slice.to_vec().unwrap();
        let before = next;
        for batch in batch::batches(&bytes) {
            let batch = batch.unwrap();
            batch.header.check_crc(batch.bytes).unwrap();
            for record in OpenBatch::open(&batch, 1 << 20).unwrap().records() {
                let record = record.unwrap();
                if record.offset >= next {
                    records.push((record.offset, record.timestamp));
                    next = record.offset + 1;
                }
            }
        }
        if next == before {
            return records;
        }
    }
}

/// The file system stamps with the machine's clock; give the files the time that the test's clock showed.
fn touch_all(bench: &Bench, model: &Model) {
    for segment in &model.segments {
        bench.touch(&format!("{:020}.log", segment.base_offset), segment.modified_ms);
    }
}

fn run(steps: Vec<Step>, index_interval: i64) {
    let interval = index_interval.to_string();
    let mut bench = Bench::new(&[
        ("index.interval.bytes", interval.as_str()),
        ("retention.ms", "5000"),
        ("segment.ms", "2000"),
        ("file.delete.delay.ms", "0"),
        ("message.timestamp.after.max.ms", "3600000"),
    ]);
    let mut model = Model {
        segments: vec![ModelSegment::new(0, NOW)],
        log_start: 0,
        log_end: 0,
        retention_ms: 5_000,
        retention_bytes: -1,
        segment_ms: 2_000,
    };
    for step in steps {
        let now_ms = bench.clock.wall_ms();
        let start_before = bench.log().log_start();
        match step {
            Step::Append(stamps) => {
                let stamps: Vec<i64> = stamps
                    .into_iter()
                    .map(|stamp| stamp.map_or(-1, |by| now_ms + by))
                    .collect();
                let bytes = Maker::default().stamps(&stamps).build();
                let appended = bench.append(&bytes).unwrap();
                assert_eq!(appended.base_offset, model.log_end);
                model.append(stamps, bytes.len() as i64, now_ms);
            }
            Step::IdleRoll => {
                bench.log().idle_roll(now_ms).unwrap();
                model.idle_roll(now_ms);
            }
            Step::Pass => {
                let rules = tidemark::retention::Rules::from(bench.resolved().as_ref());
                let planned = bench.log().plan(now_ms, &rules);
                assert_eq!(bench.run().deleted.len(), model.pass(now_ms));
                assert_eq!(bench.log().log_start(), planned.new_log_start);
                let (start, bases) = bench.shape();
                assert!(
                    bases.contains(&start) || start == start_before,
                    "a pass split a segment"
                );
                assert_eq!(bench.run().deleted.len(), 0, "a second pass with the same clock");
            }
            Step::DeleteRecords(mille) => {
                let target = model.log_start + (model.log_end - model.log_start) * mille / 1_000;
                assert_eq!(bench.log().delete_records(target).unwrap(), target);
                model.log_start = target;
            }
            Step::Wait(ms) => bench.clock.advance_ms(ms),
            Step::RetentionMs(ms) => {
                bench.set("retention.ms", &ms.to_string());
                model.retention_ms = ms;
            }
            Step::RetentionBytes(bytes) => {
                bench.set("retention.bytes", &bytes.to_string());
                model.retention_bytes = bytes;
            }
            Step::SegmentMs(ms) => {
                bench.set("segment.ms", &ms.to_string());
                model.segment_ms = ms;
            }
            Step::Restart => {
                bench.log().close().unwrap();
                touch_all(&bench, &model);
                bench.open(true, 0).unwrap();
                model.reopened(now_ms);
            }
            Step::Crash => {
                touch_all(&bench, &model);
                bench.open(false, bench.log().recovery_point()).unwrap();
                model.reopened(now_ms);
            }
        }
        let log = bench.log();
        let bounds = log.bounds();
        assert!(bounds.log_start >= start_before && bounds.log_start <= bounds.high_watermark);
        assert_eq!(
            (bounds.log_start, bounds.log_end),
            (model.log_start, model.log_end)
        );
        let segments: Vec<(i64, i64, i64)> = log
            .segments()
            .iter()
            .map(|s| (s.base_offset, s.size_bytes, s.time_ms()))
            .collect();
        let expected: Vec<(i64, i64, i64)> = model
            .segments
            .iter()
            .map(|s| (s.base_offset, s.size(), s.time()))
            .collect();
        assert_eq!(segments, expected);
    }
    for max_bytes in [1, 200, 1_000_000] {
        assert_eq!(read_all(&bench, max_bytes), model.readable());
    }
    let now_ms = bench.clock.wall_ms();
    for timestamp in (now_ms - 20_000..now_ms + 2_000).step_by(501) {
        let found = bench
            .log()
            .offset_for_timestamp(timestamp, Isolation::ReadUncommitted)
            .unwrap();
        assert_eq!(
            found.map(|found| (found.offset, found.timestamp)),
            model.lookup(timestamp),
            "at {timestamp}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_does_what_the_model_does(
        steps in prop::collection::vec(step(), 1..80),
        index_interval in prop_oneof![Just(0), Just(150), Just(4096)],
    ) {
        run(steps, index_interval);
    }
}
