use super::*;
use crate::resource::contract::{OnLoss, ReadersPolicy};
use crate::retention::{Known, Outlook, Reader, Rules, judge};

/// Two partitions of which offsets 0 to 599 would go.
fn outlooks() -> [Outlook; 2] {
    [0, 1].map(|partition| Outlook {
        partition,
        log_start: 0,
        high_watermark: 1000,
        log_end: 1000,
        last_stable_offset: 1000,
        start_in_force: 0,
        start_proposed: 600,
        bytes_freed: 600,
        taken: std::iter::once(0..600).collect(),
        eases: Eases {
            at_ms: (partition == 1).then_some(77),
            at_bytes: Some(2_000),
            on_append: partition == 1,
        },
        can_clamp: true,
        looks_like_seconds: false,
    })
}

fn judged(readers: &[Reader], on_loss: OnLoss) -> Judgement {
    let policy = ReadersPolicy {
        on_loss,
        required: vec!["batch".into()],
        ..ReadersPolicy::default()
    };
    judge(&outlooks(), readers, &policy, &mut |_, range| Some(range.end - 1))
}

fn readers() -> Vec<Reader> {
    vec![
        Reader::group("slow", [Known::At(10), Known::At(20)]),
        Reader::fetcher("slow", [Known::At(30)]),
        Reader::group("fast", [Known::At(900), Known::At(900)]),
        Reader::group("batch", [Known::At(900)]),
    ]
}

#[test]
fn a_refusal_is_judged_again_when_the_last_reader_is_past_what_it_would_lose() {
    let mut watch = Watch::until_safe(&judged(&readers(), OnLoss::Refuse));
    let (group, fetcher) = (ReaderKind::Group, ReaderKind::Fetcher);
    assert!(!watch.moved(group, "fast", 0, 950), "it was never in the way");
    assert!(!watch.moved(group, "slow", 0, 599));
    assert!(!watch.moved(group, "slow", 0, 600));
    assert!(!watch.moved(group, "slow", 0, 700), "told twice counts once");
    assert!(
        !watch.moved(fetcher, "slow", 0, 600),
        "the group of the same name is another reader"
    );
    assert!(!watch.moved(group, "slow", 1, 1000));
    assert!(!watch.moved(group, "slow", 0, 5), "it went back");
    assert!(
        !watch.moved(group, "batch", 1, 600),
        "the required group commits for the first time"
    );
    assert!(watch.moved(group, "slow", 0, 600));
}

#[test]
fn a_clamped_change_is_judged_again_as_soon_as_one_partition_can_step_down() {
    let judgement = judged(&readers(), OnLoss::Clamp);
    let step = |steps_at| Clamped {
        rules: Rules::default(),
        steps_at,
    };
    let mut watch = Watch::until_step(&judgement, &[(0, step(100)), (1, step(100))]);
    assert!(
        !watch.moved(ReaderKind::Group, "slow", 0, 100),
        "the fetcher is still before it"
    );
    assert!(watch.moved(ReaderKind::Fetcher, "slow", 0, 100));
    assert!(
        !watch.moved(ReaderKind::Group, "slow", 1, 100),
        "the required group has no position"
    );
    assert!(watch.moved(ReaderKind::Group, "batch", 1, 100));
}

#[test]
fn time_wakes_it_where_the_settings_in_force_take_the_same_records() {
    let watch = Watch::until_safe(&judged(&readers(), OnLoss::Refuse));
    assert_eq!(watch.wake_at_ms(), Some(77));
    assert_eq!(Watch::default().wake_at_ms(), None);
}

#[test]
fn departures_matter_only_for_readers_in_the_way() {
    let watch = Watch::until_safe(&judged(&readers(), OnLoss::Refuse));
    assert!(watch.waits_for(ReaderKind::Group, "slow") && watch.waits_for(ReaderKind::Fetcher, "slow"));
    assert!(
        watch.waits_for(ReaderKind::Group, "batch"),
        "also as a required group without a position"
    );
    assert!(!watch.waits_for(ReaderKind::Group, "fast"));
}

#[test]
fn an_append_matters_where_it_makes_the_active_segment_younger_or_the_size_rule_in_force_due() {
    let watch = Watch::until_safe(&judged(&readers(), OnLoss::Refuse));
    assert!(!watch.appended(0, 1_999, 1_001) && watch.appended(0, 2_000, 1_001));
    assert!(watch.appended(1, 1, 1_001));
    assert!(
        !watch.appended(2, i64::MAX, i64::MAX),
        "nothing waits for that partition"
    );
}

#[test]
fn an_append_matters_where_the_log_end_reaches_a_position_that_was_beyond_it() {
    let readers = [Reader::group("odd", [Known::At(1_002)])];
    let watch = Watch::until_safe(&judged(&readers, OnLoss::Refuse));
    assert!(!watch.appended(0, 0, 1_001) && watch.appended(0, 0, 1_002));
}
