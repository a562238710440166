//! Who counts as a reader, and what is known of each.
use tidemark::resource::contract::{IgnoredReader, Outcome, ReaderKind, ReaderList};

use crate::scene::{DAY, Desired, HOUR, Scene, T};

async fn readers(scene: &Scene, topic: &str) -> ReaderList {
    scene
        .control
        .get(&format!("/v1/topics/{topic}/readers"))
        .await
        .unwrap()
}

/// A consumer without a group counts by its last fetch, for ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_without_a_group_holds_a_lowering_back() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.ten_days("t", 0).await;
    scene.kafka.fetch("t", 0, 20, 0).await.unwrap();
    let lower = Desired::new().set("retention.ms", 4 * DAY + DAY / 2);
    let verdict = scene.apply("t", &lower).await;
    assert_eq!(verdict.reason, "SlowReader");
    let risk = &verdict.readers_at_risk[0];
    assert_eq!(
        (risk.kind, risk.position, risk.records_at_risk),
        (ReaderKind::Fetcher, Some(20), 40)
    );
    scene.kafka.fetch("t", 0, 60, 0).await.unwrap();
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
}

/// D5: a commit on an earlier topic of the same name says nothing about this one.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_on_an_earlier_topic_is_an_unknown_position() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.segment("t", 0, 10, T - 9 * DAY).await;
    scene.kafka.commit("g", "t", 0, 10).await.unwrap();
    let first_id = scene.observe("t").await.id;
    let delete = tidemark::resource::contract::DeleteTopic {
        owner: "uid-1".to_owned(),
        policy: Some(tidemark::resource::contract::DeletionPolicy::Delete),
        request_id: "d".to_owned(),
    };
    use tidemark::operator::storage::Storage;
    let verdict = scene.control.delete("t", &delete).await.unwrap();
    assert_eq!(verdict.verdict, Outcome::Applied, "{}", verdict.message);
    scene.apply("t", &Desired::new()).await;
    assert_ne!(scene.observe("t").await.id, first_id);
    scene.segment("t", 0, 5, T - 9 * DAY).await;
    let verdict = scene
        .judged(
            "t",
            &Desired::new().set("retention.ms", DAY),
            Outcome::Refused,
            "ReaderUnknown",
        )
        .await;
    let risk = &verdict.readers_at_risk[0];
    assert_eq!((risk.position, risk.records_at_risk), (None, 5));
    let reader = &readers(&scene, "t").await.readers[0];
    assert!(
        reader
            .positions
            .iter()
            .all(|position| position.lag.is_none_or(|lag| lag >= 0))
    );
    scene.kafka.commit("g", "t", 0, 5).await.unwrap();
    scene.resumed("t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_group_without_a_commit_is_unknown_and_an_ignored_one_is_left_out_by_name() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("scratch-7", "t", 0, 10).await.unwrap();
    let lower = Desired::new().set("retention.ms", 4 * DAY + DAY / 2);
    let strict = lower.clone().readers(|readers| {
        readers.required = vec!["billing".to_owned()];
        readers.ignored = vec![IgnoredReader {
            group: "scratch-*".to_owned(),
            reason: "ad hoc".to_owned(),
        }];
    });
    let verdict = scene.apply("t", &strict).await;
    assert_eq!(verdict.reason, "ReaderUnknown");
    assert_eq!(verdict.readers_at_risk[0].name, "billing");
    assert_eq!(verdict.readers_at_risk[0].kind, ReaderKind::Required);
    assert_eq!(verdict.ignored.len(), 1);
    assert_eq!(verdict.ignored[0].reason, "ad hoc");
    let listed = readers(&scene, "t").await.readers;
    let scratch = listed.iter().find(|reader| reader.name == "scratch-7").unwrap();
    assert_eq!(scratch.ignored.as_deref(), Some("ad hoc"));
    assert!(
        listed
            .iter()
            .any(|reader| reader.kind == ReaderKind::Required && reader.at_risk)
    );
    scene.kafka.commit("billing", "t", 0, 60).await.unwrap();
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
}

/// D9: a group that moved on blocks until somebody leaves it out by name, never by its age.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_commit_counts_until_it_is_ignored_by_name() {
    let mut scene = Scene::with(|config| {
        config.offsets_retention = std::time::Duration::from_secs(365 * 24 * 3600);
    })
    .await;
    scene.apply("t", &Desired::new()).await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("old", "t", 0, 10).await.unwrap();
    scene.clock.advance_ms(60 * DAY);
    scene.kafka.commit("live", "t", 0, 95).await.unwrap();
    let lower = Desired::new().set("retention.ms", 64 * DAY + DAY / 2);
    let verdict = scene.apply("t", &lower).await;
    assert_eq!(verdict.readers_at_risk.len(), 1);
    assert_eq!(verdict.readers_at_risk[0].name, "old");
    let ignoring = lower.readers(|readers| {
        readers.ignored = vec![IgnoredReader {
            group: "old".to_owned(),
            reason: "moved to another topic".to_owned(),
        }];
    });
    let verdict = scene.apply("t", &ignoring).await;
    assert_eq!(verdict.verdict, Outcome::Applied, "{}", verdict.message);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
}

/// D20: positions are the committed ones. Somebody who still reads below what its own group has committed holds nothing back, and is
/// seen in a metric when that goes wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_below_its_own_commit_holds_nothing_back_and_shows() {
    let mut scene = Scene::read_to("g", 60, &Desired::new()).await;
    assert_eq!(scene.kafka.fetch("t", 0, 55, 0).await.unwrap()[0].offset, 55);
    let lower = Desired::new().set("retention.ms", 4 * DAY + DAY / 2);
    let verdict = scene.apply("t", &lower).await;
    assert_eq!(verdict.verdict, Outcome::Applied, "{}", verdict.message);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
    assert_eq!(crate::scene::code(scene.kafka.fetch("t", 0, 55, 0).await).0, 1);
    let metrics = scene.metrics().await;
    let line = "fetches_below_log_start_total{topic=\"t\",reader=\"scene\"} 1";
    assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
}

/// Headroom in time and bytes, and the warning before the loss.
#[tokio::test(flavor = "multi_thread")]
async fn headroom_is_told_and_warned_of_before_the_loss() {
    let mut scene = Scene::new().await;
    let size = {
        scene
            .apply("t", &Desired::new().set("retention.ms", 10 * DAY + 2 * HOUR))
            .await;
        scene.ten_days("t", 0).await;
        scene.observe("t").await.partitions[0].size_bytes
    };
    scene.kafka.commit("g", "t", 0, 5).await.unwrap();
    let position = readers(&scene, "t").await.readers[0].positions[0].clone();
    assert_eq!((position.position, position.lag), (Some(5), Some(95)));
    assert_eq!(position.headroom_ms, Some(2 * HOUR + 1));
    assert_eq!(position.headroom_bytes, None);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 0);
    scene.clock.advance_ms(HOUR + HOUR / 2);
    scene.pass().await;
    let events = scene.engine.recent_events(0);
    let warning = events
        .iter()
        .find(|event| event.message.contains("about to lose"))
        .unwrap();
    assert!(warning.message.contains('g') && warning.topic == "t");
    let metrics = scene.metrics().await;
    assert!(metrics.contains("readers_low_headroom 1"), "{metrics}");
    assert!(
        metrics.contains("reader_headroom_seconds{group=\"g\",topic=\"t\",partition=\"0\"} 1800.0"),
        "{metrics}"
    );
    scene.clock.advance_ms(HOUR);
    let metrics = scene.metrics().await;
    assert!(
        metrics.contains("reader_at_risk_records{group=\"g\",topic=\"t\",partition=\"0\"} 5"),
        "{metrics}"
    );
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 10);
    let metrics = scene.metrics().await;
    assert!(
        metrics.contains("reader_lost_records_total{topic=\"t\",reader=\"g\"} 5"),
        "{metrics}"
    );
    assert!(
        metrics.contains("log_start_offset{topic=\"t\",partition=\"0\"} 10"),
        "{metrics}"
    );
    assert!(size > 0);
}
