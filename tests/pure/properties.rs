//! The plan against the walk, and the guard's figures against the pass they speak of, on random logs.
use tidemark::retention::{Proposed, Rules, clamp, expires_at_ms, headroom};

use crate::log::{Log, T, profile_of};
use crate::naive::{Naive, Segment};
use crate::oracle;
use crate::random::{Random, rounds};

fn random_log(random: &mut Random) -> Log {
    let count = if random.one_in(20) {
        random.between(50, 300)
    } else {
        random.between(1, 8)
    };
    let mut base = random.pick(&[0, 0, 1_000]);
    let mut segments = Vec::new();
    for _ in 0..count {
        let timestamp = match random.between(0, 12) {
            0 => -1,
            1 => 0,
            2 => T + random.between(1, 500),
            3 => T.saturating_mul(1_000_000),
            _ => T - random.between(0, 1_000),
        };
        let size = if random.one_in(8) {
            0
        } else {
            random.between(1, 200)
        };
        segments.push(Segment {
            base,
            size,
            timestamp,
            modified: T - random.between(-50, 1_000),
        });
        base += random.between(1, 10);
    }
    let first = segments[0].base;
    let last = segments[segments.len() - 1];
    let end = if last.size == 0 { last.base } else { base };
    let high_watermark = if random.one_in(3) {
        random.between(first, end + 1)
    } else {
        end
    };
    let start = if random.one_in(3) {
        random.between(first, high_watermark + 1)
    } else {
        first
    };
    Log {
        naive: Naive {
            segments,
            start,
            high_watermark,
            end,
        },
    }
}

pub fn random_rules(random: &mut Random) -> Rules {
    Rules {
        delete: !random.one_in(12),
        retention_ms: random.pick(&[-1, 0, 1, 300, 900]) + random.pick(&[0, 0, 7]),
        retention_bytes: random.pick(&[-1, -1, 0, 100, 400, 700]) + random.pick(&[0, 0, 3]),
        ..Rules::default()
    }
}

#[test]
fn a_plan_is_what_the_walk_does_and_a_second_one_at_the_same_time_is_empty() {
    for seed in rounds(20_000, 1_000_000) {
        let mut random = Random::seeded(seed);
        let mut log = random_log(&mut random);
        let rules = random_rules(&mut random);
        let now = T + random.between(-200, 1_500);
        log.pass(now, &rules);
        let again = log.plan(now, &rules);
        assert!(
            again.is_empty(),
            "seed {seed}: {log:?} under {rules:?} at {now} plans {again:?} a second time"
        );
        assert_eq!(log.pass(now, &rules), 0, "seed {seed}");
    }
}

#[test]
fn a_looser_limit_never_takes_more() {
    for seed in rounds(10_000, 500_000) {
        let mut random = Random::seeded(seed);
        let log = random_log(&mut random);
        let rules = random_rules(&mut random);
        let looser = Rules {
            retention_ms: if rules.retention_ms < 0 {
                -1
            } else {
                rules.retention_ms + random.between(0, 500)
            },
            ..rules
        };
        let (tight, loose) = (log.plan(T, &rules), log.plan(T, &looser));
        assert!(
            loose.new_log_start <= tight.new_log_start,
            "seed {seed}: {log:?} {rules:?} {looser:?}"
        );
        let raise = log.judge(rules, looser, &[crate::log::at("g", 0)]);
        assert!(
            !raise.lowering,
            "seed {seed}: {log:?} from {rules:?} to {looser:?} is a raise"
        );
    }
}

#[test]
fn headroom_is_the_time_and_the_bytes_after_which_a_pass_takes_the_reader() {
    for seed in rounds(3_000, 300_000) {
        let mut random = Random::seeded(seed);
        let mut log = random_log(&mut random);
        log.naive.high_watermark = log.naive.end;
        let rules = random_rules(&mut random);
        if log.naive.start >= log.naive.end {
            continue;
        }
        let position = random.between(log.naive.start, log.naive.end);
        let start_after = |ms: i64, bytes: i64| {
            let mut naive = log.naive.clone();
            if bytes > 0 {
                naive.segments.push(Segment {
                    base: naive.end,
                    size: bytes,
                    timestamp: i64::MAX,
                    modified: T,
                });
                naive.end += 1;
                naive.high_watermark += 1;
            }
            naive.pass(T.saturating_add(ms), &rules);
            naive.start
        };
        let found = headroom(
            &log.profile(),
            log.naive.start,
            log.naive.end,
            T,
            &rules,
            position,
        );
        let context = || format!("seed {seed}: {found:?} for {position} in {log:?} under {rules:?}");
        match found.ms {
            Some(ms) => {
                assert!(start_after(ms, 0) > position, "{}", context());
                assert!(ms == 0 || start_after(ms - 1, 0) <= position, "{}", context());
            }
            None => assert!(start_after(1 << 40, 0) <= position, "{}", context()),
        }
        let sizes_only = Rules {
            retention_ms: -1,
            ..rules
        };
        let by_size = headroom(
            &log.profile(),
            log.naive.start,
            log.naive.end,
            T,
            &sizes_only,
            position,
        );
        let last = log.naive.segments[log.naive.segments.len() - 1];
        if let Some(bytes) = by_size.bytes.filter(|bytes| *bytes > 0 && position < last.base) {
            let start = |bytes| {
                let mut naive = log.naive.clone();
                let active = naive.segments.len() - 1;
                naive.segments[active].size += bytes;
                naive.pass(T, &sizes_only);
                naive.start
            };
            assert!(
                start(bytes) > position && start(bytes - 1) <= position,
                "{}",
                context()
            );
        }
        for (index, segment) in log.naive.segments.iter().enumerate() {
            let by_time = Rules {
                retention_bytes: -1,
                ..rules
            };
            let expires = expires_at_ms(&log.profile(), log.naive.start, log.naive.end, T, &by_time, index);
            let gone_at = |at| {
                let mut naive = log.naive.clone();
                naive.pass(at, &by_time);
                naive.segments[0].base > segment.base
            };
            match expires {
                Some(i64::MIN) => assert!(gone_at(T - 10_000), "{}", context()),
                Some(at) => assert!(gone_at(at) && !gone_at(at - 1), "{index}: {}", context()),
                None => assert!(!gone_at(T + (1 << 40)), "{index}: {}", context()),
            }
        }
    }
}

#[test]
fn a_clamp_is_safe_and_one_less_of_either_limit_is_not() {
    let (mut clamped_ms, mut clamped_bytes) = (0, 0);
    for seed in rounds(10_000, 500_000) {
        let mut random = Random::seeded(seed);
        let log = random_log(&mut random);
        let (in_force, asked) = (random_rules(&mut random), random_rules(&mut random));
        let headroom_ms = random.pick(&[0, 0, 100]);
        let reader = random.between(log.naive.start, log.naive.end + 1);
        let profile = profile_of(&log.naive);
        let view = log.view(&profile, in_force, Proposed::Rules(asked));
        let clamped = clamp(&view, reader, T, headroom_ms, &mut |_, range| Some(range.end - 1))
            .expect("settings")
            .rules;
        let loses = |rules: &Rules| {
            let sooner = oracle::taken_sooner(&log.naive, None, &in_force, rules, T, headroom_ms);
            sooner.iter().any(|range| range.end > reader.max(range.start))
        };
        let context =
            || format!("seed {seed}: {log:?} reader {reader}, {in_force:?} to {asked:?} gives {clamped:?}");
        assert!(!loses(&clamped), "{}", context());
        let less = |limit: i64| if limit < 0 { 1 << 50 } else { limit - 1 };
        if clamped.retention_ms != asked.retention_ms {
            clamped_ms += 1;
            assert!(
                loses(&Rules {
                    retention_ms: less(clamped.retention_ms),
                    ..clamped
                }),
                "{}",
                context()
            );
        }
        if clamped.retention_bytes != asked.retention_bytes {
            clamped_bytes += 1;
            assert!(
                loses(&Rules {
                    retention_bytes: less(clamped.retention_bytes),
                    ..clamped
                }),
                "{}",
                context()
            );
        }
        let bound = |limit: i64| if limit < 0 { i64::MAX } else { limit };
        let floor = |in_force: Option<i64>, asked: i64| bound(in_force.unwrap_or(-1)).max(bound(asked));
        assert!(
            bound(clamped.retention_ms) >= bound(asked.retention_ms),
            "{}",
            context()
        );
        assert!(
            bound(clamped.retention_ms) <= floor(in_force.age_limit_ms(), asked.retention_ms),
            "{}",
            context()
        );
        assert!(
            bound(clamped.retention_bytes) >= bound(asked.retention_bytes),
            "{}",
            context()
        );
        assert!(
            bound(clamped.retention_bytes) <= floor(in_force.size_limit_bytes(), asked.retention_bytes),
            "{}",
            context()
        );
    }
    assert!(
        clamped_ms > 100 && clamped_bytes > 100,
        "only {clamped_ms} and {clamped_bytes} were clamped"
    );
}
