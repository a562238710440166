//! What planning and judging cost. `cargo bench --bench retention` prints the least, the median and the most of a number
//! of rounds, and the goal beside it.
use std::hint::black_box;
use std::time::{Duration, Instant};

use tidemark::resource::contract::{ReaderKind, ReadersPolicy};
use tidemark::retention::{
    Decision, Known, Outlook, PartitionView, Proposed, Reader, Rules, SegmentFacts, SegmentProfile, Watch,
    judge, plan,
};

const NOW: i64 = 1_700_000_000_000;
const HOUR: i64 = 3_600_000;

/// `count` segments, one an hour, the last one of this hour.
fn profile(count: i64) -> SegmentProfile {
    (0..count)
        .map(|k| SegmentFacts {
            base_offset: k * 1_000,
            size_bytes: 1 << 20,
            largest_timestamp: NOW - (count - 1 - k) * HOUR,
            modified_ms: NOW,
            without_future: None,
        })
        .collect()
}

fn keep_hours(hours: i64) -> Rules {
    Rules {
        retention_ms: hours * HOUR,
        ..Rules::default()
    }
}

fn measure(what: &str, goal: &str, rounds: usize, mut round: impl FnMut()) {
    round();
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed()
        })
        .collect();
    times.sort();
    println!(
        "{what:<64} min {:>10.3?}  median {:>10.3?}  max {:>10.3?}  goal {goal}",
        times[0],
        times[times.len() / 2],
        times[times.len() - 1]
    );
}

/// One whole verdict: an outlook for each partition, then all pairs of partition and reader.
fn verdict(partitions: usize, readers: usize, behind: bool, goal: &str) {
    let profile = profile(10);
    let position = if behind { 2_500 } else { 9_500 };
    let readers: Vec<Reader> = (0..readers)
        .map(|k| {
            Reader::group(
                &format!("group-{k}"),
                std::iter::repeat_n(Known::At(position), partitions),
            )
        })
        .collect();
    let policy = ReadersPolicy::default();
    let judged = || {
        let outlooks: Vec<Outlook> = (0..partitions)
            .map(|partition| {
                let view = PartitionView {
                    partition: i32::try_from(partition).unwrap_or(i32::MAX),
                    profile: &profile,
                    log_start: 0,
                    high_watermark: 10_000,
                    log_end: 10_000,
                    last_stable_offset: 10_000,
                    active_since_ms: Some(NOW),
                    in_force: keep_hours(168),
                    proposed: Proposed::Rules(keep_hours(4)),
                };
                Outlook::of(&view, NOW, 300_000)
            })
            .collect();
        judge(&outlooks, &readers, &policy, &mut |_, range| Some(range.end - 1))
    };
    let (expected, how) = if behind {
        (Decision::Refuse, "all behind")
    } else {
        (Decision::Apply, "all caught up")
    };
    assert_eq!(judged().decision, expected);
    let what = format!(
        "verdict, {partitions} partitions x {} readers, {how}",
        readers.len()
    );
    measure(&what, goal, 20, || {
        black_box(judged());
    });
    if behind {
        let mut watch = Watch::until_safe(&judged());
        measure(
            "  a million commits that change nothing, while it waits",
            "O(1) each",
            5,
            || {
                for offset in 0..1_000_000 {
                    black_box(watch.moved(ReaderKind::Group, "group-7", 11, black_box(offset % 2_000)));
                }
            },
        );
    }
}

fn main() {
    verdict(1_000, 50, false, "10 ms");
    verdict(1_000, 50, true, "10 ms");
    verdict(10_000, 100, false, "100 ms");
    verdict(10_000, 100, true, "100 ms");

    for (partitions, segments) in [(10_000, 10), (100, 10_000)] {
        let profiles: Vec<SegmentProfile> = (0..partitions).map(|_| profile(segments)).collect();
        let end = segments * 1_000;
        let rules = Rules {
            retention_bytes: 1 << 40,
            ..keep_hours(20_000)
        };
        let what = format!("a pass that deletes nothing, {partitions} partitions x {segments} segments");
        measure(&what, "50 ms", 20, || {
            for profile in &profiles {
                assert!(black_box(plan(profile, 0, end, end, NOW, &rules)).is_empty());
            }
        });
    }
}
