use super::*;
use crate::retention::test_profile::{DAY, NOW, ten_days};

fn clamped(in_force: Rules, asked: Rules, slowest: i64) -> Clamped {
    let profile = ten_days();
    let view = PartitionView {
        partition: 0,
        profile: &profile,
        log_start: 0,
        high_watermark: 1000,
        log_end: 1000,
        last_stable_offset: 1000,
        active_since_ms: Some(NOW - 2 * DAY),
        in_force,
        proposed: Proposed::Rules(asked),
    };
    clamp(&view, slowest, NOW, 0, &mut |_, range| Some(range.end - 1)).unwrap()
}

#[test]
fn each_limit_stops_at_the_last_value_that_keeps_the_readers_segment() {
    let in_force = Rules {
        retention_ms: 30 * DAY,
        ..Rules::default()
    };
    let asked = Rules {
        retention_ms: DAY / 2,
        retention_bytes: 150,
        ..in_force
    };
    let clamped = clamped(in_force, asked, 250);
    // The reader's segment, 200 to 299, is 8 days old, and 701 bytes must stay for it not to go.
    assert_eq!(
        (clamped.rules.retention_ms, clamped.rules.retention_bytes),
        (8 * DAY, 701)
    );
    assert_eq!(clamped.steps_at, 300);
}

#[test]
fn a_limit_that_rises_is_taken_as_asked() {
    let in_force = Rules {
        retention_ms: 20 * DAY,
        retention_bytes: 2_000,
        ..Rules::default()
    };
    let asked = Rules {
        retention_ms: DAY,
        retention_bytes: -1,
        ..in_force
    };
    let clamped = clamped(in_force, asked, 950);
    assert_eq!(
        (clamped.rules.retention_ms, clamped.rules.retention_bytes),
        (DAY, -1)
    );
}

#[test]
fn a_topic_without_the_delete_policy_had_no_limit() {
    let in_force = Rules {
        delete: false,
        retention_ms: DAY,
        ..Rules::default()
    };
    let asked = Rules {
        delete: true,
        ..in_force
    };
    assert_eq!(
        clamped(in_force, asked, 0).rules,
        Rules {
            retention_ms: 10 * DAY,
            ..asked
        }
    );
}

#[test]
fn no_settings_lie_between_keeping_a_topic_and_deleting_it() {
    let profile = ten_days();
    let view = PartitionView {
        partition: 0,
        profile: &profile,
        log_start: 0,
        high_watermark: 1000,
        log_end: 1000,
        last_stable_offset: 1000,
        active_since_ms: None,
        in_force: Rules::default(),
        proposed: Proposed::DeleteTopic,
    };
    assert_eq!(clamp(&view, 0, NOW, 0, &mut |_, _| None), None);
}

#[test]
fn the_next_step_is_past_the_last_data_record_of_the_segment_in_the_way() {
    let profile = ten_days();
    let view = PartitionView {
        partition: 0,
        profile: &profile,
        log_start: 150,
        high_watermark: 1000,
        log_end: 1000,
        last_stable_offset: 1000,
        active_since_ms: None,
        in_force: Rules::default(),
        proposed: Proposed::Rules(Rules::default()),
    };
    let mut odd = |_: i32, range: Range<i64>| {
        (range.start..range.end)
            .rev()
            .find(|o| *o == 180 || *o >= 330 && *o < 990)
    };
    assert_eq!(next_step(&view, 0, &mut odd), 181);
    assert_eq!(
        next_step(&view, 181, &mut odd),
        400,
        "200 to 299 holds markers only"
    );
    assert_eq!(next_step(&view, 960, &mut odd), 990);
    assert_eq!(next_step(&view, 995, &mut odd), 1000);
}

/// What a step from `now` comes to for a reader at `slowest`, an hour at once.
fn stepped(now: Rules, slowest: i64, now_ms: i64) -> Rules {
    let profile = ten_days();
    let in_force = Rules {
        retention_ms: 30 * DAY,
        ..Rules::default()
    };
    let view = PartitionView {
        partition: 0,
        profile: &profile,
        log_start: 200,
        high_watermark: 1000,
        log_end: 1000,
        last_stable_offset: 1000,
        active_since_ms: Some(NOW - 2 * DAY),
        in_force,
        proposed: Proposed::Rules(Rules {
            retention_ms: DAY / 2,
            ..in_force
        }),
    };
    let last_data = &mut |_: i32, range: Range<i64>| Some(range.end - 1);
    let look = Look {
        slowest,
        now_ms,
        headroom_ms: 0,
    };
    let found = clamp(&view, slowest, now_ms, 0, last_data).unwrap();
    step(&view, &now, found, look, DAY / 24, last_data).rules
}

#[test]
fn a_clamp_stays_while_it_is_safe_goes_down_where_that_frees_something_and_up_before_it_takes_anything() {
    let days = |days: i64, more: i64| Rules {
        retention_ms: days * DAY + more,
        ..Rules::default()
    };
    let hour = DAY / 24;
    // The reader's segment, 200 to 299, is 8 days old.
    assert_eq!(stepped(days(8, 0), 250, NOW), days(8, 0));
    assert_eq!(
        stepped(days(8, hour), 250, NOW),
        days(8, hour),
        "lower frees nothing"
    );
    assert_eq!(
        stepped(days(8, 0), 250, NOW + 1),
        days(8, 1 + hour),
        "too low by now"
    );
    assert_eq!(stepped(days(8, 1 + hour), 250, NOW + hour), days(8, 1 + hour));
    assert_eq!(stepped(days(8, 0), 300, NOW), days(7, 0));
    // Never looser than what was in force, nor lower than what was asked for.
    assert_eq!(stepped(days(29, 0), 250, NOW + 22 * DAY), days(30, 0));
    assert_eq!(stepped(days(0, 1), 1_000, NOW).retention_ms, DAY / 2);
}
