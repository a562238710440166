//! Public bug reports, questions and posts, cut down to the smallest form this product could meet. What is decided by
//! planning and judging alone is here; the rest is with the engine, the wire and the operator.
use tidemark::resource::contract::{IgnoredReader, ReadersPolicy, WhenNone};
use tidemark::retention::{
    Cause, Decision, FutureTime, Known, Outlook, Position, Proposed, Reader, Reason, Rules, Standing,
    Unknown, judge,
};

use crate::log::{DAY, HOUR, Log, MINUTE, T, WEEK, at, at_risk, keep_bytes, keep_ms};

/// Ten closed segments or nine and an active one: 100 offsets each, segment `k` as old as `10 - k` days.
fn ten_days() -> Log {
    let segments: Vec<_> = (0..10).map(|k| (k * 100, 100, T - (10 - k) * DAY)).collect();
    Log::of(1000, &segments)
}

/// Takes 0 to 599 of [`ten_days`].
fn four_and_a_half_days() -> Rules {
    keep_ms(4 * DAY + DAY / 2)
}

#[test]
fn a1_an_idle_topic_whose_only_segment_is_active_expires() {
    let mut log = Log::of(10, &[(0, 1_000, T - 3 * HOUR)]);
    let planned = log.plan(T, &keep_ms(HOUR));
    log.pass(T, &keep_ms(HOUR));
    assert_eq!((log.start(), log.naive.end, planned.new_log_start), (10, 10, 10));
    let judged = Log::of(10, &[(0, 1_000, T - 3 * HOUR)]).judge(keep_ms(WEEK), keep_ms(HOUR), &[at("g", 0)]);
    assert_eq!(
        judged.partitions[0].would_be_start, planned.new_log_start,
        "the guard foresees what the pass does"
    );
}

#[test]
fn a2_a_segment_lives_as_long_as_its_youngest_record() {
    let t0 = T;
    let mut log = Log::of(3, &[(0, 200, t0 + 50 * MINUTE), (2, 100, t0 + 105 * MINUTE)]);
    log.pass(t0 + 110 * MINUTE, &keep_ms(HOUR));
    assert_eq!(log.start(), 0, "an hour is not more than an hour");
    log.pass(t0 + 110 * MINUTE + 1, &keep_ms(HOUR));
    assert_eq!(log.start(), 2);
}

#[test]
fn a4_microseconds_block_and_are_named() {
    let mut log = Log::of(200, &[(0, 1_000, T * 1_000), (100, 1_000, T)]).modified(&[T - 5 * DAY, T]);
    let blocked = log.plan(T, &keep_ms(2 * DAY)).blocked.unwrap();
    assert_eq!(
        (blocked.base_offset, blocked.time),
        (0, FutureTime::RecordTimestamp(1_700_000_000_000_000))
    );
    log.pass(T, &keep_ms(2 * DAY));
    assert_eq!(log.start(), 0);
}

#[test]
fn a9_one_second_acts_on_the_first_pass() {
    let mut log = Log::of(50, &[(0, 5_000, T - HOUR)]);
    log.pass(T, &keep_ms(1_000));
    assert_eq!(log.start(), 50);
}

#[test]
fn b1_seconds_are_january_1970_and_the_deletion_says_so() {
    let log = Log::of(100, &[(0, 1_000, 1_700_000_000), (100, 0, -1)]);
    let plan = log.plan(T, &keep_ms(WEEK));
    let deletion = plan.deletions(&log.profile()).next().unwrap();
    assert_eq!((plan.new_log_start, deletion.reason), (100, Reason::Time));
    assert_eq!(
        deletion.segment.largest_timestamp, 1_700_000_000,
        "20 January 1970"
    );
    let judged = log.judge(keep_ms(-1), keep_ms(WEEK), &[at("g", 0)]);
    assert_eq!(
        (judged.decision, at_risk(&judged)),
        (Decision::Refuse, vec![("g", 100)])
    );
}

#[test]
fn b3_late_events_are_counted_before_they_go() {
    let log = Log::of(10, &[(0, 1_000, T - 10 * DAY), (10, 0, -1)]);
    let judged = log.judge(keep_ms(30 * DAY), keep_ms(WEEK), &[at("sink", 0)]);
    assert_eq!(judged.partitions[0].would_be_start, 10);
    assert_eq!(
        (judged.cause, at_risk(&judged)),
        (Cause::SlowReader, vec![("sink", 10)])
    );
    assert_eq!(log.plan(T, &keep_ms(WEEK)).new_log_start, 10);
}

#[test]
fn b5_a_newer_segment_never_goes_before_an_older_one() {
    let mut log = Log::of(
        300,
        &[(0, 1_000, T - DAY), (100, 1_000, T - 30 * DAY), (200, 1_000, T)],
    );
    log.pass(T, &keep_ms(WEEK));
    assert_eq!((log.start(), log.bases()), (0, vec![0, 100, 200]));
}

#[test]
fn b10_minus_one_is_for_ever_and_a_number_after_it_is_a_lowering() {
    let mut log = Log::of(100, &[(0, 1_000, T - 3_650 * DAY), (100, 0, -1)]);
    log.pass(T, &Rules::unlimited());
    assert_eq!(log.start(), 0);
    let reader = [at("g", 0)];
    assert_eq!(
        log.judge(Rules::unlimited(), keep_ms(WEEK), &reader).decision,
        Decision::Refuse
    );
    let raise = log.judge(keep_ms(WEEK), Rules::unlimited(), &reader);
    assert_eq!((raise.decision, raise.lowering), (Decision::Apply, false));
}

#[test]
fn b12_seconds_typed_into_milliseconds_are_refused_and_pointed_out() {
    let mut segments: Vec<_> = (0..10).map(|k| (k * 100, 100, T - (10 - k) * DAY)).collect();
    segments.push((1000, 100, T - 20 * MINUTE));
    let log = Log::of(1010, &segments);
    let judged = log.judge(keep_ms(604_800_000), keep_ms(604_800), &[at("g", 950)]);
    assert_eq!(judged.partitions[0].would_be_start, 1010);
    assert_eq!(
        (judged.cause, at_risk(&judged)),
        (Cause::SlowReader, vec![("g", 60)])
    );
    let nobody = log.judge(keep_ms(604_800_000), keep_ms(604_800), &[]);
    assert_eq!(
        (nobody.decision, nobody.cause),
        (Decision::Apply, Cause::NoReadersKnown)
    );
    assert!(nobody.looks_like_seconds && nobody.message().contains("a thousandth of the value in force"));
}

#[test]
fn b14_a_purge_with_readers_at_the_end_is_no_loss() {
    let mut log = Log::of(
        500,
        &[(0, 100, T - HOUR), (250, 100, T - HOUR), (400, 100, T - MINUTE)],
    );
    let purge = log.judge(keep_ms(WEEK), keep_ms(1_000), &[at("a", 500), at("b", 500)]);
    assert_eq!(
        (purge.decision, purge.cause, purge.lowering),
        (Decision::Apply, Cause::Applied, true)
    );
    log.pass(T, &keep_ms(1_000));
    assert_eq!(log.start(), 500);
    let back = log.judge(keep_ms(1_000), keep_ms(WEEK), &[at("a", 0)]);
    assert_eq!(
        (back.decision, back.lowering),
        (Decision::Apply, false),
        "removing the key is a raise"
    );
}

#[test]
fn c1_the_size_limit_is_for_each_partition() {
    let mib = 1_i64 << 20;
    let full = [(0, 4 * mib, T), (10, 4 * mib, T), (20, 4 * mib, T)];
    let mut same = Log::of(30, &full);
    same.pass(T, &keep_bytes(12 * mib));
    assert_eq!(same.start(), 0);
    let mut grown = Log::of(40, &[&full[..], &[(30, 4 * mib, T)]].concat());
    grown.pass(T, &keep_bytes(12 * mib));
    assert_eq!(grown.start(), 10);
}

#[test]
fn c5_one_limit_up_and_one_down_is_judged_by_where_the_log_starts() {
    let segments: Vec<_> = (0..10).map(|k| (k * 10, 100, T)).collect();
    let log = Log::of(100, &segments);
    let in_force = keep_ms(DAY);
    let edit = Rules {
        retention_ms: WEEK,
        retention_bytes: 300,
        ..in_force
    };
    let judged = log.judge(in_force, edit, &[at("g", 40)]);
    assert_eq!(judged.partitions[0].would_be_start, 70);
    assert_eq!(
        (judged.decision, at_risk(&judged)),
        (Decision::Refuse, vec![("g", 30)])
    );
}

#[test]
fn c8_an_early_close_of_the_active_segment_is_a_lowering_where_it_takes_what_growth_would_keep() {
    let log = Log::of(100, &[(0, 1_000, T - 30 * MINUTE)]);
    let profile = log.profile();
    let in_force = keep_ms(HOUR);
    let hourly = Rules {
        segment_ms: HOUR,
        ..in_force
    };
    let outcome = |headroom_ms| {
        let view = tidemark::retention::PartitionView {
            active_since_ms: Some(T - 3 * HOUR),
            ..log.view(&profile, in_force, Proposed::Rules(hourly))
        };
        let outlook = Outlook::of(&view, T, headroom_ms);
        let policy = ReadersPolicy::default();
        let judged = judge(&[outlook], &[at("g", 0)], &policy, &mut |_, range| {
            Some(range.end - 1)
        });
        (judged.decision, judged.at_risk.first().map(|risk| risk.records()))
    };
    assert_eq!(
        outcome(5 * MINUTE),
        (Decision::Apply, None),
        "half an hour is left"
    );
    assert_eq!(outcome(35 * MINUTE), (Decision::Refuse, Some(100)));
}

#[test]
fn d1_the_plain_case() {
    let mut log = ten_days();
    let (in_force, proposed) = (keep_ms(30 * DAY), four_and_a_half_days());
    let judged = log.judge(in_force, proposed, &[at("g", 250)]);
    assert_eq!(
        (judged.decision, judged.cause),
        (Decision::Refuse, Cause::SlowReader)
    );
    assert_eq!(judged.partitions[0].would_be_start, 600);
    assert_eq!(at_risk(&judged), [("g", 350)]);
    let message = judged.message();
    for figure in [
        "group g",
        "partition 0",
        "offset 250",
        "start at 600",
        "350 records",
    ] {
        assert!(message.contains(figure), "{figure} in {message}");
    }
    for _ in 0..3 {
        log.pass(T, &in_force);
    }
    assert_eq!(log.start(), 0);
    assert_eq!(
        log.judge(in_force, proposed, &[at("g", 599)]).decision,
        Decision::Refuse
    );
    assert_eq!(
        log.judge(in_force, proposed, &[at("g", 600)]).decision,
        Decision::Apply
    );
    log.pass(T, &proposed);
    assert_eq!(log.start(), 600);
}

#[test]
fn d4_lag_is_not_the_test_and_an_open_transaction_is_named() {
    let log = Log::of(1663, &[(0, 200_000, T - 10 * DAY), (200, 1_000_000, T - HOUR)]);
    let profile = log.profile();
    let judged = |proposed| {
        let view = tidemark::retention::PartitionView {
            last_stable_offset: 200,
            ..log.view(&profile, keep_ms(30 * DAY), Proposed::Rules(proposed))
        };
        let outlook = Outlook::of(&view, T, 0);
        judge(
            &[outlook],
            &[at("g", 200)],
            &ReadersPolicy::default(),
            &mut |_, range| Some(range.end - 1),
        )
    };
    let week = judged(keep_ms(WEEK));
    assert_eq!(
        (week.decision, week.partitions[0].would_be_start),
        (Decision::Apply, 200)
    );
    let minutes = judged(keep_ms(30 * MINUTE));
    assert_eq!(
        (minutes.decision, at_risk(&minutes)),
        (Decision::Refuse, vec![("g", 1463)])
    );
    assert_eq!(minutes.partitions[0].would_be_start, 1663);
    assert!(
        minutes
            .message()
            .contains("an open transaction holds it at offset 200")
    );
}

#[test]
fn d5_a_commit_from_before_the_topic_was_made_anew_is_unknown() {
    let log = Log::of(5, &[(0, 500, T - DAY)]);
    for known in [
        Known::EarlierTopic(10),
        Known::At(10),
        Known::EarlierTopic(5),
        Known::At(-7),
    ] {
        let reader = Reader::group("g", [known]);
        let judged = log.judge(keep_ms(WEEK), keep_ms(HOUR), &[reader]);
        assert_eq!(
            (judged.decision, judged.cause),
            (Decision::Refuse, Cause::ReaderUnknown),
            "{known:?}"
        );
        assert_eq!(at_risk(&judged), [("g", 5)], "{known:?}");
        assert_eq!(
            judged.verdict().readers_at_risk[0].position,
            None,
            "no made-up figure for {known:?}"
        );
    }
}

#[test]
fn d7_a_required_reader_whose_position_expired_refuses_and_an_undeclared_one_cannot_be_known() {
    let policy = ReadersPolicy {
        required: vec!["batch".into()],
        ..ReadersPolicy::default()
    };
    let expired = [Reader::group("batch", [Known::Expired(Some(300))])];
    let proposed = Proposed::Rules(four_and_a_half_days());
    let judged = ten_days().judge_with(keep_ms(30 * DAY), proposed, &expired, &policy, 0);
    assert_eq!(
        (judged.decision, judged.cause),
        (Decision::Refuse, Cause::ReaderUnknown)
    );
    assert!(judged.message().contains("last known at offset 300"));
    let forgotten = ten_days().judge_with(keep_ms(30 * DAY), proposed, &[], &policy, 0);
    assert_eq!(
        (forgotten.decision, forgotten.cause),
        (Decision::Refuse, Cause::ReaderUnknown)
    );
    assert_eq!(
        forgotten.at_risk[0].standing,
        Standing::Unknown(Unknown::NeverCommitted)
    );
    let undeclared = ten_days().judge(keep_ms(30 * DAY), four_and_a_half_days(), &[]);
    assert_eq!(
        (undeclared.cause, undeclared.readers_checked),
        (Cause::NoReadersKnown, 0)
    );
}

#[test]
fn d9_a_group_that_moved_on_refuses_until_it_is_ignored_by_name() {
    let mut old = at("old", 10);
    old.positions[0] = Position {
        known: Known::At(10),
        updated_ms: T - 60 * DAY,
    };
    let readers = [old, at("live", 950)];
    let judged = ten_days().judge(keep_ms(30 * DAY), four_and_a_half_days(), &readers);
    assert_eq!(at_risk(&judged), [("old", 590)]);
    assert!(
        judged
            .message()
            .contains("group old, partition 0: at offset 10 since 2023-09-15T22:13:20Z")
    );
    let ignored = vec![IgnoredReader {
        group: "old".into(),
        reason: "moved to another topic".into(),
    }];
    let policy = ReadersPolicy {
        ignored: ignored.clone(),
        ..ReadersPolicy::default()
    };
    let proposed = Proposed::Rules(four_and_a_half_days());
    let judged = ten_days().judge_with(keep_ms(30 * DAY), proposed, &readers, &policy, 0);
    assert_eq!(
        (judged.decision, judged.cause, judged.readers_checked),
        (Decision::Apply, Cause::Applied, 1)
    );
    assert_eq!(judged.ignored, ignored);
}

#[test]
fn d10_no_reader_known_is_said_or_refused() {
    let proposed = Proposed::Rules(four_and_a_half_days());
    let judged = |policy| ten_days().judge_with(keep_ms(30 * DAY), proposed, &[], &policy, 0);
    let allowed = judged(ReadersPolicy::default());
    assert_eq!(
        (allowed.decision, allowed.cause),
        (Decision::Apply, Cause::NoReadersKnown)
    );
    assert!(allowed.message().contains("0 readers are known"));
    let refused = judged(ReadersPolicy {
        when_none: WhenNone::Refuse,
        ..ReadersPolicy::default()
    });
    assert_eq!(
        (refused.decision, refused.cause),
        (Decision::Refuse, Cause::NoReadersKnown)
    );
    let external = Reader::fetcher("flink@10.0.0.7", [Known::At(250)]);
    assert_eq!(
        at_risk(&ten_days().judge(keep_ms(30 * DAY), four_and_a_half_days(), &[external])).len(),
        1
    );
}

#[test]
fn d17_of_several_groups_only_the_slow_one_is_named_and_many_are_counted() {
    let readers = [at("A", 900), at("B", 250), at("C", 600)];
    let judged = ten_days().judge(keep_ms(30 * DAY), four_and_a_half_days(), &readers);
    assert_eq!(at_risk(&judged), [("B", 350)]);
    let message = judged.message();
    assert!(!message.contains("group A") && !message.contains("group C"));
    let many: Vec<_> = (0..500).map(|k| at(&format!("g{k}"), 250)).collect();
    let message = ten_days()
        .judge(keep_ms(30 * DAY), four_and_a_half_days(), &many)
        .message();
    assert!(
        message.contains("and 490 more") && message.len() < 2_000,
        "{message}"
    );
}

#[test]
fn d20_a_group_counts_by_its_commits_not_by_its_fetches() {
    let judged = ten_days().judge(keep_ms(30 * DAY), four_and_a_half_days(), &[at("druid", 600)]);
    assert_eq!(judged.decision, Decision::Apply);
}

#[test]
fn deleting_a_young_segment_out_of_the_way_counts_what_the_next_pass_takes_behind_it() {
    let log = Log::of(300, &[(0, 100, T), (100, 100, T - 10 * DAY), (200, 100, T)]);
    let judged = |position, offset| {
        let proposed = Proposed::DeleteRecords(offset);
        let judged = log.judge_with(
            keep_ms(WEEK),
            proposed,
            &[at("g", position)],
            &ReadersPolicy::default(),
            0,
        );
        (
            judged.partitions[0].would_be_start,
            judged.at_risk.first().map(|risk| risk.records()),
        )
    };
    assert_eq!(judged(50, 60), (60, Some(10)));
    assert_eq!(judged(100, 99), (99, None));
    assert_eq!(
        judged(100, 100),
        (200, Some(100)),
        "the old records behind it had been safe"
    );
}
