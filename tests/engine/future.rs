//! A6: timestamps of the future keep segments from expiring, and a setting lets retention pass over them. Turning it on takes records, so
//! the guard stands at every door through which it can come.
use tidemark::resource::contract::{OnLoss, Outcome, Verdict};
use tidemark::wire::client::ClientRecord;

use crate::doors::set;
use crate::scene::{DAY, Desired, Scene, T};

const IGNORE_AHEAD: &str = "tidemark.ignore.timestamps.ahead.ms";
const FUTURE: i64 = T + 8 * DAY + 5 * 365 * DAY;
const POLICY_VIOLATION: i16 = 44;

fn seven_days() -> Desired {
    Desired::new()
        .partitions(2)
        .set("retention.ms", 7 * DAY)
        .set("segment.ms", i64::MAX)
        .set("message.timestamp.after.max.ms", i64::MAX)
}

async fn write(scene: &mut Scene, topic: &str, partition: i32, count: usize, timestamp_ms: i64) {
    let records: Vec<ClientRecord> = (0..count)
        .map(|_| ClientRecord::new(timestamp_ms, vec![b'v'; 40]))
        .collect();
    scene.kafka.produce(topic, partition, &records).await.unwrap();
}

/// Partition 0 holds 50 records that are nine days old and 50 that are five years ahead, partition 1 a hundred of the latter in a file that is
/// eight days old; both a fresh active segment at 100. A reader stands at 40 of partition 0.
async fn stuck(scene: &mut Scene, topic: &str, desired: &Desired) {
    scene.apply(topic, desired).await;
    write(scene, topic, 1, 100, FUTURE).await;
    scene.clock.advance_ms(8 * DAY);
    let now = T + 8 * DAY;
    write(scene, topic, 0, 50, now - 9 * DAY).await;
    write(scene, topic, 0, 50, FUTURE).await;
    for partition in [0, 1] {
        scene.segment(topic, partition, 1, now).await;
    }
    let segments: Vec<i32> = scene
        .observe(topic)
        .await
        .partitions
        .iter()
        .map(|partition| partition.segments)
        .collect();
    assert_eq!(segments, [2, 2]);
    scene.kafka.commit("billing", topic, 0, 40).await.unwrap();
    scene.kafka.commit("billing", topic, 1, 100).await.unwrap();
}

async fn starts(scene: &Scene, topic: &str) -> (i64, i64) {
    (scene.log_start(topic, 0).await, scene.log_start(topic, 1).await)
}

async fn shown(scene: &Scene, topic: &str) -> Option<String> {
    let observed = scene.observe(topic).await;
    observed
        .in_force
        .config
        .get(IGNORE_AHEAD)
        .map(|value| value.value.clone())
}

fn refused_for_sixty(verdict: &Verdict) {
    assert_eq!(
        (verdict.verdict, verdict.reason.as_str()),
        (Outcome::Refused, "SlowReader"),
        "{}",
        verdict.message
    );
    let risks: Vec<_> = verdict
        .readers_at_risk
        .iter()
        .map(|risk| {
            (
                risk.name.as_str(),
                risk.partition,
                risk.position,
                risk.records_at_risk,
            )
        })
        .collect();
    assert_eq!(risks, [("billing", 0, Some(40), 60)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ignoring_the_future_waits_for_a_reader_and_then_frees_what_was_stuck() {
    let mut scene = Scene::new().await;
    stuck(&mut scene, "t", &seven_days()).await;
    let report = scene.pass().await;
    assert_eq!((report.segments_deleted, starts(&scene, "t").await), (0, (0, 0)));
    let partition = &scene.observe("t").await.partitions[0];
    let blocked = partition.retention_blocked.clone().unwrap();
    for part in ["partition 0", "segment 0", &FUTURE.to_string(), IGNORE_AHEAD] {
        assert!(blocked.contains(part), "{part} not in {blocked:?}");
    }

    let ignoring = seven_days().set(IGNORE_AHEAD, 60_000);
    let verdict = scene.apply("t", &ignoring).await;
    refused_for_sixty(&verdict);
    let would_be: Vec<_> = verdict
        .partitions
        .iter()
        .map(|partition| (partition.would_be_start_in_force, partition.would_be_start))
        .collect();
    assert_eq!(would_be, [(0, 100), (0, 100)]);
    scene.pass().await;
    assert_eq!(starts(&scene, "t").await, (0, 0));
    assert_eq!(shown(&scene, "t").await, None, "off as long as it is refused");

    scene.kafka.commit("billing", "t", 0, 100).await.unwrap();
    scene.resumed("t").await;
    assert_eq!(shown(&scene, "t").await.as_deref(), Some("60000"));
    let report = scene.pass().await;
    assert_eq!(
        (report.segments_deleted, starts(&scene, "t").await),
        (2, (100, 100))
    );
    assert_eq!(scene.observe("t").await.partitions[0].retention_blocked, None);
    assert_eq!(scene.pass().await.segments_deleted, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_turn_it_on_over_a_readers_head() {
    let mut scene = Scene::new().await;
    stuck(&mut scene, "t", &seven_days()).await;
    let (code, message) = set(&mut scene, "t", IGNORE_AHEAD, "60000").await;
    assert_eq!(code, POLICY_VIOLATION, "{message}");
    for part in ["billing", "partition 0", "40", "100", "60"] {
        assert!(message.contains(part), "{part} not in {message:?}");
    }
    scene.pass().await;
    assert_eq!(
        (starts(&scene, "t").await, shown(&scene, "t").await),
        ((0, 0), None)
    );
    // A bound that no timestamp here is beyond takes nothing. What is none of its values is refused by name.
    assert_eq!(
        set(&mut scene, "t", IGNORE_AHEAD, &(6 * 365 * DAY).to_string())
            .await
            .0,
        0
    );
    let (code, message) = set(&mut scene, "t", IGNORE_AHEAD, "-2").await;
    assert_eq!(code, 40);
    assert!(
        message.contains(IGNORE_AHEAD) && message.contains("-1"),
        "{message}"
    );
    scene.kafka.commit("billing", "t", 0, 100).await.unwrap();
    assert_eq!(set(&mut scene, "t", IGNORE_AHEAD, "60000").await.0, 0);
    scene.pass().await;
    assert_eq!(starts(&scene, "t").await, (100, 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partitions_override_and_a_clamp_pass_the_guard_too() {
    let mut scene = Scene::new().await;
    stuck(&mut scene, "t", &seven_days()).await;
    refused_for_sixty(
        &scene
            .apply("t", &seven_days().partition(0, IGNORE_AHEAD, 60_000))
            .await,
    );
    // As much of it as loses nothing: it is on where the reader is through, and off where it is not.
    let clamping = seven_days()
        .set(IGNORE_AHEAD, 60_000)
        .readers(|readers| readers.on_loss = OnLoss::Clamp);
    let verdict = scene.apply("t", &clamping).await;
    assert_eq!(verdict.verdict, Outcome::Clamped, "{}", verdict.message);
    scene.pass().await;
    assert_eq!(starts(&scene, "t").await, (0, 100));
    scene.kafka.commit("billing", "t", 0, 100).await.unwrap();
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(starts(&scene, "t").await, (100, 100));
}

/// The files carry the machine's time, not the scene's: they get the scene's while the engine is down.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_default_that_turns_it_on_waits_for_readers() {
    let mut scene = Scene::new().await;
    stuck(&mut scene, "t", &seven_days()).await;
    let logs = scene.config.data.join("logs");
    scene
        .restart(move |config| {
            for (partition, written_ms) in [(0, T - DAY), (1, T)] {
                let log = logs.join(format!("t-{partition}/00000000000000000000.log"));
                let file = std::fs::File::options().write(true).open(log).unwrap();
                let since = std::time::Duration::from_millis(written_ms as u64);
                file.set_modified(std::time::UNIX_EPOCH + since).unwrap();
            }
            config
                .defaults
                .insert(IGNORE_AHEAD.to_owned(), "60000".to_owned());
        })
        .await;
    let pending = scene.observe("t").await.pending.unwrap();
    refused_for_sixty(&pending.verdict);
    scene.pass().await;
    assert_eq!(starts(&scene, "t").await, (0, 0));
    scene.kafka.commit("billing", "t", 0, 100).await.unwrap();
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(starts(&scene, "t").await, (100, 100));
}
