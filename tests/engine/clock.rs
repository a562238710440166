//! The clock guard: a wall clock that cannot be believed deletes nothing, and no lowering slips in beside it.
use std::time::Duration;

use tidemark::resource::contract::{OnLoss, Outcome, PassReport, ReaderList};

use crate::scene::{DAY, Desired, HOUR, MINUTE, Scene, T, eventually};

const HELD: &str = "retention_blocked{reason=\"clock_jump\"} 1";

/// A hundred records in ten segments that are a day old, under `desired`, with a reader at 5.
async fn day_old(scene: &mut Scene, desired: &Desired) {
    scene.apply("t", desired).await;
    for _ in 0..10 {
        scene.segment("t", 0, 10, T - DAY).await;
    }
    scene.kafka.commit("g", "t", 0, 5).await.unwrap();
}

/// The machine is off while the wall clock moves by `by_ms`.
async fn off_while_the_clock_moves(scene: &mut Scene, by_ms: i64) {
    let clock = scene.clock.clone();
    let off = move |_: &mut _| {
        clock.reboot();
        clock.step_wall_ms(by_ms);
    };
    scene.restart(off).await;
}

async fn confirm(scene: &Scene) -> PassReport {
    scene
        .control
        .post("/v1/retention/clock", None::<&()>)
        .await
        .unwrap()
}

/// Lets ten minutes go by and waits until the engine's loop has been through everything that is due then.
async fn ten_minutes(scene: &Scene) {
    for _ in 0..2 {
        let due = scene.observe("t").await.next_pass_ms;
        scene.clock.advance_ms(5 * MINUTE + 1_000);
        eventually("the loop to come round", async || {
            let next = scene.observe("t").await.next_pass_ms;
            if next > due { Ok(()) } else { Err(next) }
        })
        .await;
    }
}

/// B9: the wall clock jumps by 400 days; nothing goes until somebody confirms it.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_jump_holds_deletion_and_is_no_way_around_the_guard() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", 7 * DAY);
    day_old(&mut scene, &base).await;
    scene.pass().await;
    scene.clock.advance_ms(MINUTE);
    scene.clock.step_wall_ms(400 * DAY);
    let report = scene.pass().await;
    assert_eq!(
        (report.held.as_deref(), report.segments_deleted),
        (Some("clock_jump"), 0)
    );
    let metrics = scene.metrics().await;
    assert!(metrics.contains(HELD), "{metrics}");
    assert_eq!(
        scene.observe("t").await.partitions[0]
            .retention_blocked
            .as_deref(),
        Some("clock_jump")
    );
    // By the jumped clock everything is expired already, so that nothing would seem to be lost.
    let verdict = scene.apply("t", &base.clone().set("retention.ms", HOUR)).await;
    assert_eq!(verdict.reason, "SlowReader", "{}", verdict.message);
    scene.apply("t", &base).await;
    let confirmed = confirm(&scene).await;
    assert_eq!(confirmed.held, None);
    assert_eq!(scene.log_start("t", 0).await, 100);
    let metrics = scene.metrics().await;
    assert!(!metrics.contains(HELD), "{metrics}");
}

/// B9 at start: a node that boots with a wrong clock deletes nothing and forgets no reader.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_starts_far_in_the_future_deletes_nothing_until_an_operator_confirms() {
    let mut scene = Scene::with(|config| config.check_interval = Duration::from_secs(300)).await;
    let base = Desired::new().set("retention.ms", 7 * DAY);
    day_old(&mut scene, &base).await;
    off_while_the_clock_moves(&mut scene, 400 * DAY).await;
    let report = scene.pass().await;
    assert_eq!(
        (report.held.as_deref(), report.segments_deleted),
        (Some("clock_jump"), 0)
    );
    assert!(scene.metrics().await.contains(HELD));
    let told = scene.engine.recent_events(0);
    assert!(
        told.iter()
            .any(|event| event.message.contains("the wall clock says")),
        "{told:?}"
    );
    ten_minutes(&scene).await;
    let known: ReaderList = scene.control.get("/v1/topics/t/readers").await.unwrap();
    assert_eq!(
        known.readers[0].positions[0].position,
        Some(5),
        "a commit expired by a clock that nobody believes: {known:?}"
    );
    let verdict = scene.apply("t", &base.clone().set("retention.ms", HOUR)).await;
    assert_eq!(verdict.reason, "SlowReader", "{}", verdict.message);
    scene.apply("t", &base).await;
    // A second start is no way around it.
    off_while_the_clock_moves(&mut scene, 0).await;
    assert_eq!(scene.pass().await.held.as_deref(), Some("clock_jump"));
    assert_eq!(scene.log_start("t", 0).await, 0);

    assert_eq!(confirm(&scene).await.held, None);
    assert_eq!(scene.log_start("t", 0).await, 100);
    off_while_the_clock_moves(&mut scene, 0).await;
    assert_eq!(scene.pass().await.held, None, "what was confirmed is confirmed");
}

/// A machine that was off for long looks like one whose clock is wrong: it goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_was_off_for_long_goes_on_after_a_while() {
    let mut scene = Scene::new().await;
    day_old(&mut scene, &Desired::new().set("retention.ms", 7 * DAY)).await;
    off_while_the_clock_moves(&mut scene, HOUR / 2).await;
    assert_eq!(scene.pass().await.held, None, "half an hour is no long time");
    off_while_the_clock_moves(&mut scene, 10 * DAY).await;
    assert_eq!(scene.pass().await.held.as_deref(), Some("clock_jump"));
    scene.clock.advance_ms(HOUR);
    let report = scene.pass().await;
    assert_eq!((report.held, report.records_deleted), (None, 100));
}

/// A process that is started anew knows how long it was off for as long as the machine is not booted anew: no error of the clock is too small
/// to be seen, and no absence too long.
#[tokio::test(flavor = "multi_thread")]
async fn within_one_boot_a_wrong_clock_is_seen_at_start_and_a_long_absence_is_none() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", DAY + 10 * MINUTE);
    day_old(&mut scene, &base).await;
    let clock = scene.clock.clone();
    scene.restart(move |_| clock.step_wall_ms(HOUR / 2)).await;
    let report = scene.pass().await;
    assert_eq!(
        (report.held.as_deref(), report.segments_deleted),
        (Some("clock_jump"), 0)
    );
    let clock = scene.clock.clone();
    let off = move |_: &mut _| {
        clock.step_wall_ms(-HOUR / 2);
        clock.advance_ms(3 * HOUR);
    };
    scene.restart(off).await;
    let report = scene.pass().await;
    assert_eq!((report.held, report.records_deleted), (None, 100));
}

/// Nobody knows which time is right, and a lowering that is harmless at the one takes unread records at the other.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_clock_is_in_doubt_a_lowering_has_to_be_safe_at_either_time() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", 30 * DAY);
    day_old(&mut scene, &base).await;
    off_while_the_clock_moves(&mut scene, 3 * DAY).await;
    // The records are one day old, or four.
    let lower = base
        .set("retention.ms", 2 * DAY)
        .readers(|readers| readers.on_loss = OnLoss::Clamp);
    let verdict = scene.judged("t", &lower, Outcome::Refused, "SlowReader").await;
    assert!(verdict.pending);
    assert_eq!(scene.in_force("t", "retention.ms").await, (30 * DAY).to_string());
    // Once it is known which, the change is judged again: the reader keeps what it has not read, and no more.
    scene.clock.advance_ms(HOUR);
    eventually("the clamp to go in", async || {
        let observed = scene.observe("t").await;
        match observed.in_force.partition_config.first() {
            Some(clamped) => {
                let kept: i64 = clamped.config["retention.ms"].value.parse().unwrap();
                assert!(kept >= 4 * DAY + HOUR, "{kept}");
                Ok(())
            }
            None => Err(format!("{:?}", observed.pending)),
        }
    })
    .await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 0);
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 100);
}

/// Without a battery a clock starts at the beginning of its era, until the time daemon has found its servers.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_starts_in_the_past_lets_no_lowering_in_that_the_present_would_refuse() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", 7 * DAY);
    day_old(&mut scene, &base).await;
    off_while_the_clock_moves(&mut scene, -T).await;
    // Everything is of the future, and nothing ever old enough to go.
    scene
        .judged(
            "t",
            &base.set("retention.ms", HOUR),
            Outcome::Refused,
            "SlowReader",
        )
        .await;
    scene.pass().await;
    scene.clock.advance_ms(MINUTE);
    scene.clock.step_wall_ms(T);
    assert_eq!(
        scene.pass().await.held,
        None,
        "the clock is back where it should be: that is no jump"
    );
    assert_eq!(scene.log_start("t", 0).await, 0);
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 100);
}

/// The reason for a refusal can be that a segment has just become too old: a clock that is set back makes it young again.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_has_what_waits_judged_again() {
    let mut scene = Scene::new().await;
    let base = Desired::new()
        .set("retention.ms", 30 * DAY)
        .readers(|readers| readers.headroom_ms = Some(0));
    scene.apply("t", &base).await;
    for _ in 0..2 {
        scene.segment("t", 0, 10, T - DAY - MINUTE).await;
    }
    scene.kafka.commit("g", "t", 0, 5).await.unwrap();
    let verdict = scene.apply("t", &base.set("retention.ms", DAY)).await;
    assert_eq!(verdict.reason, "SlowReader", "{}", verdict.message);
    // Less than what casts doubt on it.
    scene.clock.step_wall_ms(-5 * MINUTE);
    scene.resumed("t").await;
    assert_eq!(scene.in_force("t", "retention.ms").await, DAY.to_string());
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 0);
}
