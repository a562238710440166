//! Timestamps of the future, where the rules ignore them.
use super::*;

const NOW: i64 = 1_700_000_000_000;
const DAY: i64 = 86_400_000;
const FUTURE: i64 = NOW + 5 * 365 * DAY;

fn on(retention_ms: i64, ignore_ahead_ms: i64) -> Rules {
    Rules {
        retention_ms,
        ignore_ahead_ms,
        ..Rules::default()
    }
}

fn segment(base_offset: i64, largest: i64, without: Option<(i64, i64)>) -> SegmentFacts {
    SegmentFacts {
        base_offset,
        size_bytes: 100,
        largest_timestamp: largest,
        modified_ms: NOW,
        without_future: without.map(|(time_ms, future_ms)| WithoutFuture { time_ms, future_ms }),
    }
}

fn view(profile: &SegmentProfile, log_end: i64, in_force: Rules, proposed: Rules) -> PartitionView<'_> {
    PartitionView {
        partition: 0,
        profile,
        log_start: 0,
        high_watermark: log_end,
        log_end,
        last_stable_offset: log_end,
        active_since_ms: None,
        in_force,
        proposed: Proposed::Rules(proposed),
    }
}

/// One closed segment from which only its stamps of the future keep the time rule away.
fn stuck() -> SegmentProfile {
    [
        segment(0, FUTURE, Some((NOW - 9 * DAY, FUTURE))),
        segment(100, NOW, None),
    ]
    .into_iter()
    .collect()
}

#[test]
fn a_bound_on_the_future_lets_go_what_is_old_without_it() {
    let start = |rules: Rules| plan(&stuck(), 0, 110, 110, NOW, &rules);
    let off = start(on(7 * DAY, -1));
    assert_eq!(off.new_log_start, 0);
    assert_eq!(
        off.blocked.map(|blocked| blocked.time),
        Some(FutureTime::RecordTimestamp(FUTURE))
    );
    let on_ = start(on(7 * DAY, 60_000));
    assert_eq!(
        (on_.new_log_start, on_.by_time, on_.blocked, on_.rolls_active),
        (100, 1, None, false)
    );
    // Not old enough without it, or not that far ahead.
    assert_eq!(start(on(9 * DAY, 60_000)).new_log_start, 0);
    assert_eq!(start(on(7 * DAY, FUTURE - NOW)).new_log_start, 0);
    assert_eq!(start(on(7 * DAY, FUTURE - NOW - 1)).new_log_start, 100);
    // Where age is no limit there is nothing to ignore.
    assert_eq!(start(on(-1, 60_000)).new_log_start, 0);
    let at = |rules| expires_at_ms(&stuck(), 0, 110, NOW, &rules, 0);
    assert_eq!(at(on(30 * DAY, 60_000)), Some(NOW + 21 * DAY + 1));
    assert_eq!(at(on(30 * DAY, -1)), Some(FUTURE + 30 * DAY + 1));
}

#[test]
fn turning_it_on_is_a_lowering_and_turning_it_off_is_none() {
    let profile = stuck();
    let (off, on_) = (on(7 * DAY, -1), on(7 * DAY, 60_000));
    let outlook = |in_force, proposed| Outlook::of(&view(&profile, 110, in_force, proposed), NOW, 0);
    let turned_on = outlook(off, on_);
    let whole = Some(&(0..100));
    assert_eq!((turned_on.taken.first(), turned_on.taken.len()), (whole, 1));
    assert_eq!(turned_on.start_proposed, 100);
    assert!(!outlook(on_, off).is_lowering());
    // A higher limit beside it does not hide it.
    assert_eq!(outlook(off, on(8 * DAY, 60_000)).taken.first(), whole);
    assert!(!outlook(off, on(9 * DAY, 60_000)).is_lowering());
    // A reader in the way keeps it off; one behind the segment does not.
    let clamped = |slowest| {
        let view = view(&profile, 110, off, on_);
        clamp(&view, slowest, NOW, 0, &mut |_, range| Some(range.end - 1)).map(|clamped| clamped.rules)
    };
    assert_eq!(clamped(50), Some(off));
    assert_eq!(clamped(100), Some(on_));
}

/// What is told is held against passes that really run, at every moment from now to the end of the headroom.
#[test]
fn what_is_taken_sooner_is_what_passes_take_sooner() {
    let mut state = 11_u64;
    let mut below = move |bound: i64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((state >> 33) % u64::try_from(bound).unwrap()).unwrap()
    };
    let mut sooner_at_all = 0;
    for round in 0..20_000 {
        let segments = 1 + below(5);
        let profile: SegmentProfile = (0..segments)
            .map(|index| {
                let time = below(40);
                let future = (below(2) == 0).then(|| time.max(20) + 1 + below(30));
                let largest = future.map_or(time, |future| future + below(10));
                segment(index * 10, largest, future.map(|future| (time, future)))
            })
            .collect();
        let log_end = segments * 10;
        let mut rules = || on(below(30) - 1, [-1, -1, 0, 3, 10][below(5) as usize]);
        let (old, new) = (rules(), rules());
        let (now, headroom) = (20, below(30));
        let gone = |rules: &Rules| {
            let mut at = vec![i64::MAX; profile.len()];
            let (mut left, mut start) = (profile.clone(), 0);
            for moment in now..=now + headroom + 100 {
                let plan = plan(&left, start, log_end, log_end, moment, rules);
                let first = profile.len() - left.len();
                at[first..first + plan.deleted()].fill(moment);
                left.pop_front(plan.deleted());
                start = plan.new_log_start;
                if left.is_empty() {
                    break;
                }
            }
            at
        };
        let (goes, stays) = (gone(&new), gone(&old));
        let sooner: Vec<i64> = (0..segments)
            .filter(|index| {
                let index = *index as usize;
                goes[index] <= now + headroom && goes[index] < stays[index]
            })
            .collect();
        let told = Outlook::of(&view(&profile, log_end, old, new), now, headroom).taken;
        let expected: Vec<_> = sooner
            .first()
            .zip(sooner.last())
            .map(|(first, last)| first * 10..(last + 1) * 10)
            .into_iter()
            .collect();
        assert_eq!(told, expected, "round {round}: {old:?} to {new:?}, {profile:?}");
        sooner_at_all += usize::from(!sooner.is_empty());
    }
    assert!(sooner_at_all > 1_000, "{sooner_at_all}");
}
