//! Desired state in: whose it is, what of it is applied, and what a restart makes of it.
use tidemark::operator::storage::Storage;
use tidemark::resource::contract::{DeleteTopic, DeletionPolicy, OnLoss, Outcome};

use crate::scene::{DAY, Desired, HOUR, MINUTE, Scene, T, owner};

fn code(error: &tidemark::operator::storage::StorageError) -> &str {
    error.code().unwrap_or("none")
}

/// The plan is the pass, and planning changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_what_the_pass_then_does() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.ten_days("t", 0).await;
    let lower = Desired::new()
        .set("retention.ms", 4 * DAY + DAY / 2)
        .readers(|readers| readers.headroom_ms = Some(0));
    let planned = scene.control.plan("t", &lower.0).await.unwrap();
    assert_eq!(scene.in_force("t", "retention.ms").await, "-1");
    assert_eq!(scene.pass().await.segments_deleted, 0);
    let applied = scene.apply("t", &lower).await;
    assert_eq!(applied.partitions, planned.partitions);
    let report = scene.pass().await;
    assert_eq!(
        report.partitions[0].log_start,
        planned.partitions[0].would_be_start
    );
    assert_eq!(
        report.partitions[0].bytes_freed,
        planned.partitions[0].bytes_freed
    );
    let plan = scene.control.plan("nowhere", &Desired::new().0).await.unwrap();
    assert!(!plan.created && plan.topic_id.is_empty());
    assert!(scene.engine.observe("nowhere").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_has_one_owner_until_it_is_released_or_handed_over() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.segment("t", 0, 10, T).await;
    let id = scene.observe("t").await.id;
    let other = Desired::new().change(|desired| desired.owner = Some(owner("uid-2")));
    let error = scene.try_apply("t", &other).await.unwrap_err();
    assert_eq!(code(&error), "conflict");
    let nobody = Desired::new().change(|desired| desired.owner = None);
    assert_eq!(
        code(&scene.try_apply("t", &nobody).await.unwrap_err()),
        "conflict"
    );
    let request = |uid: &str| DeleteTopic {
        owner: uid.to_owned(),
        policy: Some(DeletionPolicy::Retain),
        request_id: uid.to_owned(),
    };
    let error = scene.control.delete("t", &request("uid-2")).await.unwrap_err();
    assert_eq!(code(&error), "conflict");
    // H4: the first goes, the second takes over, and nothing of the data changes.
    let released = scene.control.delete("t", &request("uid-1")).await.unwrap();
    assert_eq!(released.verdict, Outcome::Applied);
    assert_eq!(scene.observe("t").await.owner, None);
    let again = scene.control.delete("t", &request("uid-1")).await.unwrap();
    assert_eq!(again.verdict, Outcome::Unchanged);
    scene.apply("t", &other).await;
    let observed = scene.observe("t").await;
    assert_eq!((observed.owner, observed.id), (Some(owner("uid-2")), id));
    assert_eq!(observed.partitions[0].log_end, 10);
    let third = Desired::new().change(|desired| {
        desired.owner = Some(owner("uid-3"));
        desired.takes_over = Some("uid-2".to_owned());
    });
    scene.apply("t", &third).await;
    assert_eq!(scene.observe("t").await.owner, Some(owner("uid-3")));
    let gone = scene.control.delete("nowhere", &request("uid-1")).await.unwrap();
    assert_eq!(gone.verdict, Outcome::Unchanged);
}

/// Deletion with `Delete` is a lowering to the end: it waits for readers, over a restart too, and then happens.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_waits_for_its_readers_over_a_restart() {
    let mut scene = Scene::new().await;
    scene
        .apply("t", &Desired::new().set("file.delete.delay.ms", 0))
        .await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("g", "t", 0, 40).await.unwrap();
    let request = DeleteTopic {
        owner: "uid-1".to_owned(),
        policy: Some(DeletionPolicy::Delete),
        request_id: "d".to_owned(),
    };
    let verdict = scene.control.delete("t", &request).await.unwrap();
    assert_eq!((verdict.verdict, verdict.pending), (Outcome::Refused, true));
    assert_eq!(verdict.readers_at_risk[0].records_at_risk, 60);
    scene.restart(|_| {}).await;
    assert!(scene.observe("t").await.pending.is_some());
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    let logs = scene.config.data.join("logs");
    crate::scene::eventually("the directory to be gone", async || {
        let left: Vec<String> = std::fs::read_dir(&logs)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("t-"))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(" "))
        }
    })
    .await;
    assert!(scene.engine.observe("t").is_err());
}

/// Other parts of the desired state go in whatever the guard says, and say where they do not.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_retention_setting_goes_in_while_the_rest_waits() {
    let mut scene = Scene::read_to("g", 0, &Desired::new()).await;
    let edit = Desired::new()
        .set("retention.ms", DAY)
        .set("max.message.bytes", 2_000_000)
        .partitions(3);
    let verdict = scene.apply("t", &edit).await;
    assert_eq!((verdict.verdict, verdict.partition_count), (Outcome::Refused, 3));
    let observed = scene.observe("t").await;
    assert_eq!(observed.in_force.config["max.message.bytes"].value, "2000000");
    assert_eq!(observed.in_force.config["retention.ms"].value, "-1");
    assert_eq!(observed.partitions.len(), 3);
    let fewer = scene.apply("t", &Desired::new().partitions(2)).await;
    assert_eq!(fewer.not_applied[0].reason, "PartitionDecrease");
    assert_eq!(scene.observe("t").await.partitions.len(), 3);
    for wrong in [
        Desired::new().set("retention.ms", "-2"),
        Desired::new().set("log.retention.ms", 1),
        Desired::new().partition(7, "retention.ms", 1),
        Desired::new().partition(-1, "retention.ms", 1),
        Desired::new()
            .partition(1, "retention.ms", 1)
            .partition(1, "retention.ms", 2),
    ] {
        let error = scene.try_apply("t", &wrong).await.unwrap_err();
        assert_eq!(code(&error), "invalid", "{error}");
    }
    assert_eq!(scene.in_force("t", "retention.ms").await, "-1");
}

/// A request whose answer was lost is repeated; one that is overtaken by a newer one does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_does_nothing_twice_and_a_late_one_does_nothing() {
    let mut scene = Scene::new().await;
    let of = |id: &str, days: i64| {
        Desired::new()
            .set("retention.ms", days * DAY)
            .change(|desired| desired.request_id = id.to_owned())
    };
    scene.apply("t", &of("a", 30)).await;
    let first = scene.apply("t", &of("b", 20)).await;
    assert_eq!(first.verdict, Outcome::Applied);
    assert_eq!(scene.apply("t", &of("b", 20)).await.verdict, Outcome::Unchanged);
    scene.apply("t", &of("c", 40)).await;
    let late = scene.apply("t", &of("b", 20)).await;
    assert_eq!(late, first);
    assert_eq!(scene.in_force("t", "retention.ms").await, (40 * DAY).to_string());
}

/// A lowered engine default passes the guard on topics that have an owner; the others take it as in Kafka.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_engine_default_waits_for_readers_of_owned_topics() {
    let mut scene = Scene::with(|config| {
        config
            .defaults
            .insert("retention.ms".to_owned(), (30 * DAY).to_string());
    })
    .await;
    let inheriting = Desired::new().unset("retention.ms");
    scene.apply("owned", &inheriting).await;
    let free = inheriting.clone().change(|desired| desired.owner = None);
    scene.apply("free", &free).await;
    for topic in ["owned", "free"] {
        scene.ten_days(topic, 0).await;
        scene.kafka.commit("g", topic, 0, 25).await.unwrap();
    }
    let lower = (4 * DAY + DAY / 2).to_string();
    let lowered = lower.clone();
    scene
        .restart(move |config| {
            config.defaults.insert("retention.ms".to_owned(), lowered);
        })
        .await;
    assert_eq!(
        scene.in_force("owned", "retention.ms").await,
        (30 * DAY).to_string()
    );
    assert_eq!(scene.in_force("free", "retention.ms").await, lower);
    let pending = scene.observe("owned").await.pending.unwrap();
    assert_eq!(pending.verdict.readers_at_risk[0].records_at_risk, 35);
    scene.pass().await;
    assert_eq!(
        (
            scene.log_start("owned", 0).await,
            scene.log_start("free", 0).await
        ),
        (0, 60)
    );
    // The operator asks for the same as ever: that must not slip the default in.
    let verdict = scene.apply("owned", &inheriting).await;
    assert_eq!(verdict.verdict, Outcome::Refused, "{}", verdict.message);
    scene.kafka.commit("g", "owned", 0, 60).await.unwrap();
    scene.resumed("owned").await;
    assert_eq!(scene.in_force("owned", "retention.ms").await, lower);
    scene.pass().await;
    assert_eq!(scene.log_start("owned", 0).await, 60);
}

/// What waits survives a restart, and goes in after it.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_and_what_is_in_force_survive_a_restart() {
    let base = Desired::new().set("retention.ms", 30 * DAY);
    let mut scene = Scene::read_to("g", 25, &base).await;
    scene
        .apply("t", &base.set("retention.ms", 4 * DAY + DAY / 2))
        .await;
    let before = scene.observe("t").await;
    scene.restart(|_| {}).await;
    let after = scene.observe("t").await;
    assert_eq!(
        (&after.id, &after.owner, &after.in_force),
        (&before.id, &before.owner, &before.in_force)
    );
    assert_eq!(after.partitions[0].log_end, 100);
    let pending = after.pending.unwrap();
    assert_eq!(pending.verdict.readers_at_risk[0].position, Some(25));
    assert_eq!(pending.since_ms, before.pending.unwrap().since_ms);
    scene.kafka.commit("g", "t", 0, 60).await.unwrap();
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
}

/// A4: a timestamp in microseconds keeps its segment for ever, and that is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_timestamp_in_the_future_is_reported_with_partition_segment_and_value() {
    let mut scene = Scene::new().await;
    let desired = Desired::new()
        .set("retention.ms", 2 * DAY)
        .set("message.timestamp.after.max.ms", i64::MAX);
    scene.apply("t", &desired).await;
    scene.segment("t", 0, 10, T * 1000).await;
    scene.segment("t", 0, 10, T).await;
    let report = scene.pass().await;
    let left = &report.partitions[0];
    assert_eq!(left.left.as_deref(), Some("future_timestamp"));
    let message = left.message.as_deref().unwrap();
    assert!(
        message.contains("segment 0 ") && message.contains(&(T * 1000).to_string()),
        "{message}"
    );
    let metrics = scene.metrics().await;
    let raised = "retention_blocked{reason=\"future_timestamp\",topic=\"t\",partition=\"0\"} 1";
    assert!(metrics.contains(raised), "{metrics}");
    assert_eq!(scene.log_start("t", 0).await, 0);
}

/// A1: a quiet topic keeps its promise.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_segment_is_rolled_and_expires_without_another_record() {
    let mut scene = Scene::new().await;
    let desired = Desired::new().set("retention.ms", DAY).set("segment.ms", HOUR);
    scene.apply("t", &desired).await;
    scene.segment("t", 0, 10, T).await;
    scene.clock.advance_ms(HOUR + MINUTE);
    let report = scene.pass().await;
    assert!(report.partitions[0].rolled);
    assert_eq!(scene.observe("t").await.partitions[0].segments, 2);
    scene.clock.advance_ms(DAY);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 10);
}

/// B14: purge by lowering, then the key removed: the default is in force again.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_override_brings_the_default_back() {
    let mut scene = Scene::new().await;
    scene
        .apply(
            "t",
            &Desired::new()
                .set("retention.ms", 1000)
                .readers(|readers| readers.on_loss = OnLoss::Refuse),
        )
        .await;
    scene.ten_days("t", 0).await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 100);
    let verdict = scene.apply("t", &Desired::new().unset("retention.ms")).await;
    assert_eq!(verdict.verdict, Outcome::Applied);
    assert_eq!(scene.in_force("t", "retention.ms").await, "604800000");
}
