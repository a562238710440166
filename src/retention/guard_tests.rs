use super::*;
use crate::retention::readers::Known;
use crate::retention::test_profile::{DAY, NOW, ten_days};
use crate::retention::{PartitionView, Proposed, Rules};

fn outlook(partition: i32, proposed: Proposed) -> Outlook {
    let profile = ten_days();
    let view = PartitionView {
        partition,
        profile: &profile,
        log_start: 0,
        high_watermark: 1000,
        log_end: 1000,
        last_stable_offset: 1000,
        active_since_ms: Some(NOW - DAY),
        in_force: by_days(30),
        proposed,
    };
    Outlook::of(&view, NOW, 0)
}

fn by_days(days: i64) -> Rules {
    Rules {
        retention_ms: days * DAY,
        ..Rules::default()
    }
}

/// Takes offsets 0 to 599.
fn lowering() -> Proposed {
    Proposed::Rules(Rules {
        retention_ms: 4 * DAY + DAY / 2,
        ..Rules::default()
    })
}

fn all_data(_: i32, range: Range<i64>) -> Option<i64> {
    Some(range.end - 1)
}

fn on_loss(on_loss: OnLoss) -> ReadersPolicy {
    ReadersPolicy {
        on_loss,
        ..ReadersPolicy::default()
    }
}

#[test]
fn the_message_names_reader_partition_position_start_and_records() {
    let slow = Reader::group("billing", [Known::Absent, Known::At(250)]);
    let outlooks = [outlook(0, Proposed::Rules(by_days(30))), outlook(1, lowering())];
    let judgement = judge(&outlooks, &[slow], &ReadersPolicy::default(), &mut all_data);
    assert_eq!(
        judgement.message(),
        "Not applied, nothing deleted: group billing, partition 1: at offset 250, the log would start at 600, \
         350 records would go unread (250 to 599)."
    );
    let verdict = judgement.verdict();
    assert_eq!(
        (verdict.verdict, verdict.reason.as_str()),
        (Outcome::Refused, "SlowReader")
    );
    assert_eq!(verdict.readers_at_risk[0].position, Some(250));
    assert_eq!(verdict.readers_at_risk[0].records_at_risk, 350);
    assert_eq!(
        verdict.partitions,
        [PartitionVerdict {
            partition: 1,
            log_start: 0,
            would_be_start_in_force: 0,
            would_be_start: 600,
            bytes_freed: 600
        }]
    );
}

#[test]
fn the_log_is_asked_only_for_a_range_that_is_not_empty_and_once_for_a_partition() {
    let readers = [
        Reader::group("a", [Known::At(600)]),
        Reader::group("b", [Known::At(599), Known::At(300)]),
    ];
    let mut asked = Vec::new();
    let outlooks = [
        outlook(0, lowering()),
        outlook(1, lowering()),
        outlook(2, lowering()),
    ];
    let judgement = judge(
        &outlooks,
        &readers,
        &ReadersPolicy::default(),
        &mut |partition, range| {
            asked.push((partition, range.clone()));
            (partition == 1).then_some(450)
        },
    );
    assert_eq!(asked, [(0, 599..600), (1, 300..600)]);
    let at_risk: Vec<_> = judgement
        .at_risk
        .iter()
        .map(|risk| (risk.partition, risk.records()))
        .collect();
    assert_eq!(at_risk, [(1, 300)], "599 is a marker");
    assert_eq!(
        judgement.held[0].safe_at, 451,
        "from there on only markers would go"
    );
}

#[test]
fn markers_alone_are_no_loss_to_any_reader() {
    let readers = [Reader::group("a", [Known::At(500)])];
    let judgement = judge(
        &[outlook(0, lowering())],
        &readers,
        &ReadersPolicy::default(),
        &mut |_, _| None,
    );
    assert_eq!(
        (judgement.decision, judgement.cause),
        (Decision::Apply, Cause::Applied)
    );
    assert!(judgement.lowering);
}

#[test]
fn an_unknown_position_is_the_reason_shown_even_beside_a_slow_reader() {
    let readers = [
        Reader::group("slow", [Known::At(0)]),
        Reader::group("lost", [Known::At(1001)]),
    ];
    let judgement = judge(
        &[outlook(0, lowering())],
        &readers,
        &ReadersPolicy::default(),
        &mut all_data,
    );
    assert_eq!(
        (judgement.decision, judgement.cause),
        (Decision::Refuse, Cause::ReaderUnknown)
    );
    assert!(judgement.message().contains(
        "group lost, partition 0: position unknown (committed offset 1001 is beyond the log end), the log would \
         start at 600, 600 records would go unread (0 to 599)"
    ));
}

#[test]
fn an_unknown_position_refuses_only_what_takes_data() {
    let readers = [Reader::group("lost", [Known::EarlierTopic(3)])];
    let raise = Proposed::Rules(by_days(60));
    let judgement = judge(
        &[outlook(0, raise)],
        &readers,
        &ReadersPolicy::default(),
        &mut all_data,
    );
    assert_eq!(
        (judgement.decision, judgement.cause),
        (Decision::Apply, Cause::Applied)
    );
}

#[test]
fn what_is_below_the_log_start_is_reported_apart_and_refuses_nothing() {
    let profile = ten_days();
    let view = PartitionView {
        partition: 0,
        profile: &profile,
        log_start: 600,
        high_watermark: 1000,
        log_end: 1000,
        last_stable_offset: 1000,
        active_since_ms: None,
        in_force: by_days(30),
        proposed: lowering(),
    };
    let readers = [Reader::group("late", [Known::At(250)])];
    let judgement = judge(
        &[Outlook::of(&view, NOW, 0)],
        &readers,
        &ReadersPolicy::default(),
        &mut all_data,
    );
    assert_eq!(judgement.decision, Decision::Apply);
    assert_eq!(
        (
            judgement.already_lost[0].position,
            judgement.already_lost[0].records
        ),
        (250, 350)
    );
    assert!(
        judgement
            .message()
            .contains("350 records below the log start had gone unread before")
    );
}

#[test]
fn at_most_ten_readers_are_listed_with_most_to_lose_first() {
    let readers: Vec<Reader> = (0..15)
        .map(|k| Reader::group(&format!("g{k:02}"), [Known::At(k * 10)]))
        .collect();
    let judgement = judge(
        &[outlook(0, lowering())],
        &readers,
        &ReadersPolicy::default(),
        &mut all_data,
    );
    let verdict = judgement.verdict();
    assert_eq!(
        (verdict.readers_at_risk.len(), verdict.more_readers_at_risk),
        (10, 5)
    );
    assert_eq!(verdict.readers_at_risk[0].name, "g00");
    assert_eq!(judgement.losses.len(), 15, "the watch needs all of them");
    let message = judgement.message();
    assert!(message.contains("g09") && !message.contains("g10") && message.ends_with("; and 5 more."));
}

#[test]
fn a_policy_decides_what_a_loss_comes_to() {
    let slow = [Reader::group("slow", [Known::At(1)])];
    let outcome = |policy, proposed| {
        let judgement = judge(&[outlook(0, proposed)], &slow, &policy, &mut all_data);
        (judgement.decision, judgement.cause)
    };
    assert_eq!(
        outcome(on_loss(OnLoss::Refuse), lowering()),
        (Decision::Refuse, Cause::SlowReader)
    );
    assert_eq!(
        outcome(on_loss(OnLoss::Clamp), lowering()),
        (Decision::Clamp, Cause::Clamped)
    );
    assert_eq!(
        outcome(on_loss(OnLoss::Allow), lowering()),
        (Decision::Apply, Cause::LossAccepted)
    );
    for deletion in [Proposed::DeleteRecords(5), Proposed::DeleteTopic] {
        assert_eq!(
            outcome(on_loss(OnLoss::Clamp), deletion),
            (Decision::Refuse, Cause::SlowReader)
        );
    }
}

#[test]
fn without_any_reader_a_lowering_is_applied_by_name_or_refused_on_demand() {
    let policy = |when_none| ReadersPolicy {
        when_none,
        ..ReadersPolicy::default()
    };
    let outcome = |policy: &ReadersPolicy, proposed| {
        let judgement = judge(&[outlook(0, proposed)], &[], policy, &mut all_data);
        (judgement.decision, judgement.cause, judgement.readers_checked)
    };
    let (allow, refuse) = (policy(WhenNone::Allow), policy(WhenNone::Refuse));
    assert_eq!(
        outcome(&allow, lowering()),
        (Decision::Apply, Cause::NoReadersKnown, 0)
    );
    assert_eq!(
        outcome(&refuse, lowering()),
        (Decision::Refuse, Cause::NoReadersKnown, 0)
    );
    let raise = Proposed::Rules(by_days(60));
    assert_eq!(outcome(&refuse, raise), (Decision::Apply, Cause::Applied, 0));
}

#[test]
fn deleting_records_and_topics_is_judged_by_where_the_log_would_start() {
    let at = |position, proposed| {
        let readers = [Reader::group("g", [Known::At(position)])];
        let judgement = judge(
            &[outlook(0, proposed)],
            &readers,
            &ReadersPolicy::default(),
            &mut all_data,
        );
        judgement.at_risk.first().map(|risk| (risk.start, risk.records()))
    };
    assert_eq!(at(250, Proposed::DeleteRecords(251)), Some((251, 1)));
    assert_eq!(at(250, Proposed::DeleteRecords(250)), None);
    assert_eq!(
        at(250, Proposed::DeleteRecords(-1)),
        Some((1000, 750)),
        "-1 is the high watermark"
    );
    assert_eq!(at(999, Proposed::DeleteTopic), Some((1000, 1)));
    assert_eq!(at(1000, Proposed::DeleteTopic), None);
}
