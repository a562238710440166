//! A topic that is paused: nothing comes into force, whatever its readers do.
use tidemark::operator::storage::Storage as _;
use tidemark::resource::contract::{DeleteTopic, DeletionPolicy, OnLoss, Outcome};

use crate::scene::{DAY, Desired, Scene, eventually};

/// Waits until what waits on `t` says this.
async fn waits_for(scene: &Scene, reason: &str) {
    eventually("the reason to be told", async || {
        let pending = scene.observe("t").await.pending;
        match pending.map(|pending| pending.verdict.reason) {
            Some(found) if found == reason => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
    .await;
}

fn paused(desired: &Desired) -> Desired {
    desired.clone().change(|desired| desired.paused = true)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_stays_waiting_over_a_restart_and_goes_in_when_the_pause_ends() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", 30 * DAY);
    scene.apply("t", &base).await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("g", "t", 0, 25).await.unwrap();
    let lower = base.set("retention.ms", 4 * DAY + DAY / 2);
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Refused);
    let since = scene.observe("t").await.pending.unwrap().since_ms;
    scene.clock.advance_ms(1);
    let held = scene.apply("t", &paused(&lower)).await;
    assert_eq!(
        (held.verdict, held.reason.as_str(), held.pending),
        (Outcome::Refused, "SlowReader", true)
    );
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    waits_for(&scene, "Paused").await;
    scene.pass().await;
    scene.restart(|_| {}).await;
    waits_for(&scene, "Paused").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 0);
    let observed = scene.observe("t").await;
    assert!(observed.paused);
    assert_eq!(observed.pending.unwrap().since_ms, since, "the same change");
    assert_eq!(scene.in_force("t", "retention.ms").await, (30 * DAY).to_string());
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Applied);
    assert!(!scene.observe("t").await.paused);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
}

/// Raising, a key that the guard has nothing to do with, and a loss that is allowed: all wait, and are judged when it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_for_under_pause_waits() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", 30 * DAY);
    scene.apply("t", &base).await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("g", "t", 0, 25).await.unwrap();
    assert_eq!(scene.apply("t", &paused(&base)).await.verdict, Outcome::Unchanged);
    let raised = base.clone().set("retention.ms", 40 * DAY).set("flush.ms", 7_000);
    let allowed = base
        .clone()
        .set("retention.ms", DAY)
        .readers(|readers| readers.on_loss = OnLoss::Allow);
    for asked in [&raised, &allowed] {
        let held = scene.apply("t", &paused(asked)).await;
        assert_eq!(
            (held.verdict, held.reason.as_str(), held.pending),
            (Outcome::Refused, "Paused", true)
        );
        scene.kafka.commit("g", "t", 0, 25).await.unwrap();
        scene.pass().await;
        let in_force = scene.observe("t").await.in_force.config;
        assert_eq!(in_force["retention.ms"].value, (30 * DAY).to_string());
        assert!(!in_force.contains_key("flush.ms"));
        assert_eq!(scene.log_start("t", 0).await, 0);
    }
    let metrics = scene.metrics().await;
    assert!(!metrics.contains("loss_accepted_records_total{"), "{metrics}");
    assert_eq!(scene.apply("t", &raised).await.verdict, Outcome::Applied);
    assert_eq!(scene.in_force("t", "flush.ms").await, "7000");
    assert!(scene.observe("t").await.pending.is_none());
}

/// What is in force in part goes no further down, and gives way as ever where it has become too low for a reader.
#[tokio::test(flavor = "multi_thread")]
async fn a_clamp_stands_still_under_pause_and_takes_nothing_from_its_reader() {
    let mut scene = Scene::new().await;
    let base = Desired::new().set("retention.ms", 30 * DAY).readers(|readers| {
        readers.on_loss = OnLoss::Clamp;
        readers.headroom_ms = Some(0);
    });
    scene.apply("t", &base).await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("g", "t", 0, 25).await.unwrap();
    let lower = base.set("retention.ms", 4 * DAY + DAY / 2);
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Clamped);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 20);
    let clamped = scene.observe("t").await.in_force.partition_config;
    let held = scene.apply("t", &paused(&lower)).await;
    assert_eq!((held.verdict, held.pending), (Outcome::Clamped, true));
    assert_eq!(scene.observe("t").await.in_force.partition_config, clamped);

    // The reader stands still: the limit gives way before anything of it goes.
    for _ in 0..5 {
        scene.clock.advance_ms(DAY);
        scene.pass().await;
        assert_eq!(scene.log_start("t", 0).await, 20);
    }
    // It reads on: no step down, over a restart too.
    let in_force = scene.observe("t").await.in_force;
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    waits_for(&scene, "Paused").await;
    scene.restart(|_| {}).await;
    waits_for(&scene, "Paused").await;
    assert_eq!(scene.observe("t").await.in_force, in_force);
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Applied);
    assert!(scene.observe("t").await.in_force.partition_config.is_empty());
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 100);
}

/// A deletion that waits is dropped by asking for what is in force, as any other change, and does not come back by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_waited_before_the_pause_does_not_happen_in_it() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("g", "t", 0, 40).await.unwrap();
    let request = |id: &str| DeleteTopic {
        owner: "uid-1".to_owned(),
        policy: Some(DeletionPolicy::Delete),
        request_id: id.to_owned(),
    };
    let waits = scene.control.delete("t", &request("d1")).await.unwrap();
    assert_eq!((waits.verdict, waits.pending), (Outcome::Refused, true));
    assert!(scene.observe("t").await.pending.unwrap().deletion);
    let held = scene.apply("t", &paused(&Desired::new())).await;
    assert_eq!((held.verdict, held.pending), (Outcome::Unchanged, false));
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    scene.restart(|_| {}).await;
    scene.pass().await;
    assert_eq!(scene.observe("t").await.partitions[0].log_end, 100);
    let gone = scene.control.delete("t", &request("d2")).await.unwrap();
    assert_eq!(gone.verdict, Outcome::Applied);
}
