//! The guard's scenes: a change under which a reader would lose records, and what becomes of it.
use tidemark::resource::contract::{OnLoss, Outcome, ReaderKind, ReaderList, WhenNone};
use tidemark::wire::client::ClientRecord;

use crate::scene::{DAY, Desired, HOUR, MINUTE, Scene, T, eventually};

/// D1: refused with the numbers, nothing deleted, in by itself once the reader has caught up, deleted to exactly there.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_holds_a_lowering_back_until_it_has_caught_up() {
    let base = Desired::new().set("retention.ms", 30 * DAY);
    let mut scene = Scene::read_to("billing", 25, &base).await;

    let lower = base.set("retention.ms", 4 * DAY + DAY / 2);
    let verdict = scene.judged("t", &lower, Outcome::Refused, "SlowReader").await;
    assert!(verdict.pending);
    assert_eq!(verdict.readers_checked, 1);
    let risk = &verdict.readers_at_risk[0];
    assert_eq!(
        (
            risk.kind,
            risk.name.as_str(),
            risk.partition,
            risk.position,
            risk.records_at_risk
        ),
        (ReaderKind::Group, "billing", 0, Some(25), 35)
    );
    assert_eq!(
        risk.behind_ms,
        Some(8 * DAY),
        "its next record is in segment 20-29"
    );
    let partition = &verdict.partitions[0];
    assert_eq!(
        (
            partition.log_start,
            partition.would_be_start_in_force,
            partition.would_be_start
        ),
        (0, 0, 60)
    );
    for part in ["billing", "partition 0", "25", "60", "35"] {
        assert!(
            verdict.message.contains(part),
            "{part} not in {:?}",
            verdict.message
        );
    }
    assert_eq!(scene.in_force("t", "retention.ms").await, (30 * DAY).to_string());
    for _ in 0..3 {
        let report = scene.pass().await;
        assert_eq!((report.segments_deleted, report.partitions.len()), (0, 0));
    }
    assert_eq!(scene.log_start("t", 0).await, 0);

    // Half-way is not enough, and changes nothing.
    scene.kafka.commit("billing", "t", 0, 59).await.unwrap();
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 0);
    assert!(scene.observe("t").await.pending.is_some());

    scene.kafka.commit("billing", "t", 0, 60).await.unwrap();
    scene.resumed("t").await;
    assert_eq!(
        scene.in_force("t", "retention.ms").await,
        (4 * DAY + DAY / 2).to_string()
    );
    let report = scene.pass().await;
    assert_eq!((report.segments_deleted, report.records_deleted), (6, 60));
    assert_eq!(report.partitions[0].deleted_by_time, 6);
    assert_eq!(scene.log_start("t", 0).await, 60);
    assert_eq!(scene.pass().await.segments_deleted, 0);
}

/// D17: only the slow one is named. With more than ten, the message stays short and says how many more.
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_lose_nothing_are_not_named() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.ten_days("t", 0).await;
    for (group, position) in [("a", 90), ("b", 25), ("c", 60)] {
        scene.kafka.commit(group, "t", 0, position).await.unwrap();
    }
    let lower = Desired::new().set("retention.ms", 4 * DAY + DAY / 2);
    let verdict = scene.apply("t", &lower).await;
    assert_eq!(verdict.readers_checked, 3);
    let named: Vec<_> = verdict
        .readers_at_risk
        .iter()
        .map(|risk| risk.name.as_str())
        .collect();
    assert_eq!((named, verdict.more_readers_at_risk), (vec!["b"], 0));
    for number in 0..14 {
        scene
            .kafka
            .commit(&format!("slow-{number}"), "t", 0, number)
            .await
            .unwrap();
    }
    let verdict = scene.apply("t", &lower).await;
    assert_eq!(
        (verdict.readers_at_risk.len(), verdict.more_readers_at_risk),
        (10, 5)
    );
    assert_eq!(verdict.readers_at_risk[0].name, "slow-0");
    assert!(verdict.message.contains("5 more"), "{}", verdict.message);
    let listed: ReaderList = scene.control.get("/v1/topics/t/readers").await.unwrap();
    let at_risk = listed.readers.iter().filter(|reader| reader.at_risk);
    assert_eq!(at_risk.count(), 15, "{listed:?}");
}

/// C5: one limit up, the other down, in one edit. Neither goes in; then both.
#[tokio::test(flavor = "multi_thread")]
async fn two_limits_in_one_edit_go_in_together_or_not_at_all() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", 20 * DAY);
    scene.apply("t", &base).await;
    scene.ten_days("t", 0).await;
    let size = scene.observe("t").await.partitions[0].size_bytes / 10;
    scene.kafka.commit("g", "t", 0, 40).await.unwrap();
    let edit = base
        .set("retention.ms", 30 * DAY)
        .set("retention.bytes", 3 * size);
    let verdict = scene.apply("t", &edit).await;
    assert_eq!(verdict.reason, "SlowReader");
    assert_eq!(verdict.readers_at_risk[0].records_at_risk, 30);
    assert_eq!(scene.in_force("t", "retention.ms").await, (20 * DAY).to_string());
    assert_eq!(scene.in_force("t", "retention.bytes").await, "-1");
    scene.kafka.commit("g", "t", 0, 70).await.unwrap();
    scene.resumed("t").await;
    assert_eq!(scene.in_force("t", "retention.ms").await, (30 * DAY).to_string());
    let report = scene.pass().await;
    assert_eq!(
        (
            report.partitions[0].deleted_by_size,
            report.partitions[0].deleted_by_time
        ),
        (7, 0)
    );
    assert_eq!(scene.log_start("t", 0).await, 70);
}

/// B10 and a removed key: from no limit to one is a lowering, the other way never is.
#[tokio::test(flavor = "multi_thread")]
async fn from_no_limit_to_a_number_is_a_lowering_and_raising_goes_in_at_once() {
    let mut scene = Scene::read_to("g", 5, &Desired::new()).await;
    let verdict = scene.apply("t", &Desired::new().unset("retention.ms")).await;
    assert_eq!(
        verdict.reason, "SlowReader",
        "seven days by default: {}",
        verdict.message
    );
    assert_eq!(scene.in_force("t", "retention.ms").await, "-1");
    let verdict = scene
        .apply("t", &Desired::new().set("retention.ms", 30 * DAY))
        .await;
    assert_eq!(verdict.verdict, Outcome::Applied);
    let verdict = scene.apply("t", &Desired::new()).await;
    assert_eq!(verdict.verdict, Outcome::Applied);
    assert!(scene.observe("t").await.pending.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_for_what_is_in_force_drops_what_waits() {
    let base = Desired::new().set("retention.ms", 30 * DAY);
    let mut scene = Scene::read_to("g", 0, &base).await;
    scene.apply("t", &base.clone().set("retention.ms", DAY)).await;
    assert!(scene.observe("t").await.pending.is_some());
    let verdict = scene.apply("t", &base).await;
    assert_eq!((verdict.verdict, verdict.pending), (Outcome::Unchanged, false));
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    scene.restart(|_| {}).await;
    assert!(scene.observe("t").await.pending.is_none());
    assert_eq!(scene.in_force("t", "retention.ms").await, (30 * DAY).to_string());
    assert_eq!(scene.pass().await.segments_deleted, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_of_one_partition_is_judged_there_and_dropping_it_too() {
    let mut scene = Scene::new().await;
    let base = Desired::new().partitions(2).set("retention.ms", 30 * DAY);
    scene.apply("t", &base).await;
    scene.ten_days("t", 0).await;
    scene.ten_days("t", 1).await;
    scene.kafka.commit("g", "t", 0, 5).await.unwrap();
    scene.kafka.commit("g", "t", 1, 70).await.unwrap();
    let one = base.clone().partition(1, "retention.ms", 4 * DAY + DAY / 2);
    let verdict = scene.apply("t", &one).await;
    assert_eq!(verdict.verdict, Outcome::Applied, "{}", verdict.message);
    let observed = scene.observe("t").await;
    assert_eq!(observed.in_force.partition_config[0].partition, 1);
    scene.pass().await;
    assert_eq!(
        (scene.log_start("t", 0).await, scene.log_start("t", 1).await),
        (0, 60)
    );
    let other = base.clone().partition(0, "retention.ms", 4 * DAY + DAY / 2);
    let verdict = scene.apply("t", &other).await;
    assert_eq!(verdict.reason, "SlowReader");
    assert_eq!(verdict.readers_at_risk[0].partition, 0);
    // All or nothing: the override of partition 1 is still there too.
    assert_eq!(scene.observe("t").await.in_force.partition_config[0].partition, 1);
}

/// A smaller `segment.ms` makes the active segment close, and then expire without the help of a later record.
#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_segment_ms_is_a_lowering_where_the_would_be_start_moves() {
    let mut scene = Scene::new().await;
    let base = Desired::new()
        .unset("internal.segment.bytes")
        .set("retention.ms", HOUR)
        .set("segment.ms", 7 * DAY);
    scene.apply("t", &base).await;
    scene.kafka.commit("g", "t", 0, 0).await.unwrap();
    scene.segment("t", 0, 10, T).await;
    scene.clock.advance_ms(50 * MINUTE);
    let lower = base
        .set("segment.ms", 40 * MINUTE)
        .readers(|readers| readers.headroom_ms = Some(30 * MINUTE));
    let verdict = scene.apply("t", &lower).await;
    assert_eq!(verdict.reason, "SlowReader", "{}", verdict.message);
    scene.kafka.commit("g", "t", 0, 10).await.unwrap();
    scene.resumed("t").await;
    let report = scene.pass().await;
    assert!(report.partitions[0].rolled, "{report:?}");
}

/// The change is judged for the whole headroom, not for this moment.
#[tokio::test(flavor = "multi_thread")]
async fn headroom_looks_ahead() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", 30 * DAY);
    scene.apply("t", &base).await;
    scene.ten_days("t", 0).await;
    // Segment 30-39 is 7 days old, 40-49 is 6.
    scene.kafka.commit("g", "t", 0, 40).await.unwrap();
    let lower = base.set("retention.ms", 6 * DAY + DAY / 2);
    let day_ahead = lower.clone().readers(|readers| readers.headroom_ms = Some(DAY));
    let verdict = scene.apply("t", &day_ahead).await;
    assert_eq!(
        verdict.readers_at_risk[0].records_at_risk, 10,
        "{}",
        verdict.message
    );
    let now = lower.readers(|readers| readers.headroom_ms = Some(0));
    let verdict = scene.apply("t", &now).await;
    assert_eq!(verdict.verdict, Outcome::Applied);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 40);
}

/// Nothing but time lets this one go: the settings in force take the records before the reader does.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_ends_when_the_settings_in_force_have_taken_the_records_anyway() {
    let mut scene = Scene::new().await;
    let base = Desired::new()
        .set("retention.ms", 9 * DAY + DAY / 2)
        .readers(|readers| readers.headroom_ms = Some(0));
    scene.apply("t", &base).await;
    for age in [10, 9, 1] {
        scene.segment("t", 0, 10, T - age * DAY).await;
    }
    scene.kafka.commit("g", "t", 0, 10).await.unwrap();
    let lower = base.set("retention.ms", 8 * DAY + DAY / 2);
    let verdict = scene.apply("t", &lower).await;
    assert_eq!(
        verdict.readers_at_risk[0].records_at_risk, 10,
        "{}",
        verdict.message
    );
    scene.clock.advance_ms(DAY);
    scene.resumed("t").await;
    let verdict = scene.apply("t", &lower).await;
    assert_eq!(verdict.verdict, Outcome::Unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn clamp_goes_as_low_as_is_safe_and_steps_down_with_the_reader() {
    let base = Desired::new().set("retention.ms", 30 * DAY).readers(|readers| {
        readers.on_loss = OnLoss::Clamp;
        readers.headroom_ms = Some(0);
    });
    let mut scene = Scene::read_to("g", 25, &base).await;
    let lower = base.set("retention.ms", 4 * DAY + DAY / 2);
    let verdict = scene.judged("t", &lower, Outcome::Clamped, "Clamped").await;
    assert!(verdict.pending);
    // The reader is in segment 20-29, which is 8 days old: that is the least that keeps it.
    let clamped = |observed: &tidemark::resource::contract::ObservedTopic| {
        observed.in_force.partition_config[0].config["retention.ms"]
            .value
            .clone()
    };
    assert_eq!(clamped(&scene.observe("t").await), (8 * DAY).to_string());
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 20);
    scene.kafka.commit("g", "t", 0, 40).await.unwrap();
    crate::scene::eventually("a step down", async || {
        let found = clamped(&scene.observe("t").await);
        if found == (6 * DAY).to_string() {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 40);
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    scene.resumed("t").await;
    assert!(scene.observe("t").await.in_force.partition_config.is_empty());
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
}

/// A limit that is as low as is safe now is too low a moment later: it gives way, but never beyond what was before.
#[tokio::test(flavor = "multi_thread")]
async fn a_clamp_takes_nothing_from_a_reader_that_stands_still() {
    let base = Desired::new().set("retention.ms", 30 * DAY).readers(|readers| {
        readers.on_loss = OnLoss::Clamp;
        readers.headroom_ms = Some(0);
    });
    let mut scene = Scene::read_to("g", 25, &base).await;
    let lower = base.clone().set("retention.ms", 4 * DAY + DAY / 2);
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Clamped);
    for _ in 0..5 {
        scene.pass().await;
        assert_eq!(scene.log_start("t", 0).await, 20);
        scene.clock.advance_ms(DAY);
    }
    scene.restart(|_| {}).await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 20);
    // Asked for again, it is the same change.
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Clamped);
    scene.clock.advance_ms(HOUR);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 20);
    scene.kafka.commit("g", "t", 0, 40).await.unwrap();
    crate::scene::eventually("a step down", async || {
        scene.pass().await;
        let start = scene.log_start("t", 0).await;
        if start == 40 { Ok(()) } else { Err(start) }
    })
    .await;
    // The settings from before take 40 to 59 by now.
    scene.clock.advance_ms(20 * DAY);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    scene.resumed("t").await;
    assert!(scene.observe("t").await.in_force.partition_config.is_empty());
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clamped_size_gives_way_to_what_is_appended() {
    let base = Desired::new().readers(|readers| readers.on_loss = OnLoss::Clamp);
    let mut scene = Scene::read_to("g", 45, &base).await;
    let size = scene.observe("t").await.partitions[0].size_bytes / 10;
    let lower = base.clone().set("retention.bytes", 3 * size);
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Clamped);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 40);
    for _ in 0..3 {
        scene.segment("t", 0, 10, T).await;
        scene.pass().await;
        assert_eq!(scene.log_start("t", 0).await, 40);
    }
    // Taken back, or refused from here on, nothing of it stays in force.
    let refusing = lower.clone().readers(|readers| readers.on_loss = OnLoss::Refuse);
    assert_eq!(scene.apply("t", &refusing).await.verdict, Outcome::Refused);
    assert!(scene.observe("t").await.in_force.partition_config.is_empty());
    assert_eq!(scene.in_force("t", "retention.bytes").await, "-1");
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Clamped);
    assert_eq!(scene.apply("t", &base).await.verdict, Outcome::Applied);
    assert!(scene.observe("t").await.in_force.partition_config.is_empty());
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Clamped);
    scene.kafka.commit("g", "t", 0, 130).await.unwrap();
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn allow_applies_and_tells_and_counts_what_is_given_up() {
    let base = Desired::new().set("retention.ms", 30 * DAY);
    let mut scene = Scene::read_to("g", 25, &base).await;
    let lower = base
        .set("retention.ms", 4 * DAY + DAY / 2)
        .readers(|readers| readers.on_loss = OnLoss::Allow);
    scene.judged("t", &lower, Outcome::Applied, "LossAccepted").await;
    // A repeated request finds everything done and gives nothing up a second time.
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Unchanged);
    let metrics = scene.metrics().await;
    let counted = "loss_accepted_records_total{topic=\"t\",reader=\"g\"} 35";
    assert!(metrics.contains(counted), "{metrics}");
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
    let metrics = scene.metrics().await;
    assert!(
        metrics.contains("reader_lost_records_total{topic=\"t\",reader=\"g\"} 35"),
        "{metrics}"
    );
    assert!(
        metrics.contains("retention_deleted_records_total{reason=\"time\"} 60"),
        "{metrics}"
    );
    // What was given up stays counted over a restart, and the next loss is added to it.
    scene.restart(|_| {}).await;
    let metrics = scene.metrics().await;
    assert!(metrics.contains(counted), "{metrics}");
    let verdict = scene
        .apply("t", &lower.set("retention.ms", 3 * DAY + DAY / 2))
        .await;
    assert_eq!(verdict.reason, "LossAccepted");
    scene.restart(|_| {}).await;
    let metrics = scene.metrics().await;
    let more = "loss_accepted_records_total{topic=\"t\",reader=\"g\"} 45";
    assert!(metrics.contains(more), "{metrics}");
}

/// B12: seconds typed into a field of milliseconds, with and without a reader.
#[tokio::test(flavor = "multi_thread")]
async fn without_any_reader_a_lowering_goes_in_and_says_so() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", 604_800_000);
    scene.apply("t", &base).await;
    scene.ten_days("t", 0).await;
    let lower = base.set("retention.ms", 604_800);
    let careful = lower
        .clone()
        .readers(|readers| readers.when_none = WhenNone::Refuse);
    scene
        .judged("t", &careful, Outcome::Refused, "NoReadersKnown")
        .await;
    let verdict = scene
        .judged("t", &lower, Outcome::Applied, "NoReadersKnown")
        .await;
    assert_eq!(verdict.readers_checked, 0);
    assert!(verdict.message.contains("seconds"), "{}", verdict.message);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 100);
}

/// A change refused for want of readers goes in when a reader shows that it loses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_reader_can_let_a_change_go_in() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.ten_days("t", 0).await;
    let lower = Desired::new()
        .set("retention.ms", 4 * DAY)
        .readers(|readers| readers.when_none = WhenNone::Refuse);
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Refused);
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    scene.resumed("t").await;
}

/// A record that comes in keeps the active segment, so that the change takes nothing of it any more.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_ends_a_refusal_whose_reason_was_the_active_segment() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", 30 * DAY);
    scene.apply("t", &base).await;
    scene.segment("t", 0, 10, T - 2 * DAY).await;
    scene.kafka.commit("g", "t", 0, 4).await.unwrap();
    let verdict = scene.apply("t", &base.set("retention.ms", DAY)).await;
    assert_eq!(
        verdict.readers_at_risk[0].records_at_risk, 6,
        "{}",
        verdict.message
    );
    let record = ClientRecord::new(T, vec![b'v'; 8]);
    scene.kafka.produce("t", 0, &[record]).await.unwrap();
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 0);
}

/// What is told of a reader that moves without being out of the way is where it is now, and the reason is that of now.
#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_that_waits_follows_the_reader() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("g", "t", 0, 20).await.unwrap();
    let lower = Desired::new().set("retention.ms", 4 * DAY + DAY / 2);
    assert_eq!(scene.apply("t", &lower).await.reason, "SlowReader");
    for (commit, position, reason) in [
        (30, Some(30), "SlowReader"),
        (5, Some(5), "SlowReader"),
        (1_000, None, "ReaderUnknown"),
        (40, Some(40), "SlowReader"),
    ] {
        scene.kafka.commit("g", "t", 0, commit).await.unwrap();
        eventually("the verdict to follow", async || {
            let verdict = scene.observe("t").await.pending.unwrap().verdict;
            let found = (verdict.readers_at_risk[0].position, verdict.reason.as_str());
            if found == (position, reason) {
                Ok(())
            } else {
                Err(verdict.message)
            }
        })
        .await;
    }
}
