//! The guard's scenes with a real client: kcat reads a part, retention is lowered, nothing goes, kcat reads on, and the change goes
//! in by itself. That it does so at the commit is awaited as the engine's own event; no pass runs by itself meanwhile.
mod scene;

use serde_json::{Value, json};
use tidemark::wire::client::{Client, ClientRecord};

use self::scene::{DAY, HOUR, MINUTE, Reader, Scene, billing, now_ms, run};
use crate::support::kcat::kcat;
use crate::support::wait::{PATIENCE, eventually};

/// Keeps the six youngest of the ten days.
const FOUR_AND_A_HALF_DAYS: i64 = 4 * DAY + DAY / 2;

fn config(key: &str, value: i64) -> Value {
    json!({"config": {key: value.to_string()}})
}

fn both(ms: i64, bytes: i64) -> Value {
    json!({"config": {"retention.ms": ms.to_string(), "retention.bytes": bytes.to_string()}})
}

#[test]
fn a_lowered_time_limit_waits_for_a_slow_reader() {
    let mut scene = Scene::with_billing_at(25, config("retention.ms", 30 * DAY));
    let lower = config("retention.ms", FOUR_AND_A_HALF_DAYS);
    let start = scene.refused(lower, "SlowReader", &billing(25, 35));
    assert_eq!(start, 60);
    // Not far enough yet: it is the next commit that lets it in.
    scene.read("billing", 34);
    assert_ne!(scene.observe()["pending"], Value::Null);
    assert_eq!(scene.read("billing", 1), ["0:59"]);
    scene.goes_in_and_deletes(0, 60);
    assert_eq!(
        scene.in_force()["config"]["retention.ms"]["value"],
        FOUR_AND_A_HALF_DAYS.to_string()
    );
    assert_eq!(scene.read("billing", 40).first().unwrap(), "0:60");
}

#[test]
fn a_first_limit_after_none_waits_for_a_slow_reader() {
    let mut scene = Scene::with_billing_at(5, json!({}));
    let limit = config("retention.ms", FOUR_AND_A_HALF_DAYS);
    let start = scene.refused(limit, "SlowReader", &billing(5, 55));
    scene.read("billing", 55);
    scene.goes_in_and_deletes(0, start);
}

#[test]
fn a_lowered_size_limit_waits_for_a_slow_reader() {
    let mut scene = Scene::with_billing_at(25, json!({}));
    let segment = scene.observe()["partitions"][0]["sizeBytes"].as_i64().unwrap() / 10;
    let lower = config("retention.bytes", 3 * segment);
    let start = scene.refused(lower, "SlowReader", &billing(25, 45));
    assert_eq!(start, 70);
    scene.read("billing", 45);
    scene.goes_in_and_deletes(0, 70);
}

/// One limit up, the other down.
#[test]
fn two_limits_in_one_edit_wait_together_for_a_slow_reader() {
    let mut scene = Scene::with_billing_at(40, both(20 * DAY, -1));
    let segment = scene.observe()["partitions"][0]["sizeBytes"].as_i64().unwrap() / 10;
    let edit = both(30 * DAY, 3 * segment);
    let start = scene.refused(edit, "SlowReader", &billing(40, 30));
    scene.read("billing", 30);
    scene.goes_in_and_deletes(0, start);
    let in_force = scene.in_force();
    assert_eq!(
        (
            &in_force["config"]["retention.ms"]["value"],
            &in_force["config"]["retention.bytes"]["value"]
        ),
        (&json!((30 * DAY).to_string()), &json!((3 * segment).to_string()))
    );
}

#[test]
fn an_override_of_one_partition_waits_for_its_slow_reader() {
    let mut scene = Scene::new();
    scene.apply(json!({"partitions": 2}));
    scene.ten_days(1);
    scene.read("billing", 25);
    let lower = json!({
        "partitions": 2,
        "partitionConfig": [{"partition": 1, "config": {"retention.ms": FOUR_AND_A_HALF_DAYS.to_string()}}],
    });
    let reader = Reader {
        partition: 1,
        ..billing(25, 35)
    };
    let start = scene.refused(lower, "SlowReader", &reader);
    scene.read("billing", 35);
    scene.goes_in_and_deletes(1, start);
}

/// The active segment closes early and then ages without the help of a later record.
#[test]
fn a_smaller_segment_ms_waits_for_a_slow_reader() {
    let mut scene = Scene::new();
    let large = |segment_ms: i64, retention_ms: i64| {
        json!({
            "config": {
                "internal.segment.bytes": "1000000",
                "retention.ms": retention_ms.to_string(),
                "segment.ms": segment_ms.to_string(),
            },
            "readers": {"headroomMs": 30 * MINUTE},
        })
    };
    scene.apply(large(7 * DAY, HOUR));
    // Too old within the headroom, and not before the scene is over.
    scene.segments(0, &[(HOUR - 15 * MINUTE, 10)]);
    scene.read("billing", 4);
    let verdict = scene.apply(large(1, HOUR));
    assert_eq!(verdict["reason"], "SlowReader", "{verdict:#}");
    assert_eq!(verdict["readersAtRisk"][0]["position"], 4);
    assert_eq!(verdict["readersAtRisk"][0]["recordsAtRisk"], 6);
    assert_eq!(
        scene.in_force()["config"]["segment.ms"]["value"],
        (7 * DAY).to_string()
    );
    scene.events.next("Refused", "t");
    scene.read("billing", 6);
    scene.events.next("Resumed", "t");
    assert_eq!(scene.in_force()["config"]["segment.ms"]["value"], "1");
    let pass = scene.engine.pass();
    assert_eq!(pass["partitions"][0]["rolled"], true, "{pass:#}");
    assert_eq!(scene.log_start(0), 0);
    // Nobody waits for the time to pass: with half the limit they are too old now.
    let verdict = scene.apply(large(1, HOUR / 2));
    assert_eq!(verdict["verdict"], "Applied", "{verdict:#}");
    assert_eq!(scene.engine.pass()["recordsDeleted"], 10);
    assert_eq!(scene.log_start(0), 10);
}

/// Known by its fetches only.
#[test]
fn a_consumer_without_a_group_is_waited_for() {
    let mut scene = Scene::new();
    scene.apply(json!({}));
    scene.ten_days(0);
    let read = |from: &str, count: &str| {
        let args = [
            "-C",
            "-q",
            "-t",
            "t",
            "-p",
            "0",
            "-o",
            from,
            "-c",
            count,
            "-f",
            "%o\n",
            // One segment's batch a fetch, so that it does not read ahead of what it shows.
            "-X",
            "fetch.message.max.bytes=3000",
            "-X",
            "queued.min.messages=1",
        ];
        let read = kcat(scene.engine.bootstrap(), args).run();
        read.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(read("beginning", "15"), "14");
    let lower = config("retention.ms", FOUR_AND_A_HALF_DAYS);
    let body = lower.clone();
    let verdict = scene.apply(body);
    assert_eq!(
        (&verdict["verdict"], &verdict["reason"]),
        (&json!("Refused"), &json!("SlowReader")),
        "{verdict:#}"
    );
    let risk = &verdict["readersAtRisk"][0];
    let position = risk["position"].as_i64().unwrap();
    assert_eq!(risk["kind"], "Fetcher");
    assert!((10..60).contains(&position), "{verdict:#}");
    assert_eq!(risk["recordsAtRisk"], 60 - position);
    let message = verdict["message"].as_str().unwrap();
    assert!(message.contains("consumer without a group"), "{message}");
    assert_eq!(scene.engine.pass()["recordsDeleted"], 0);
    scene.events.next("Refused", "t");
    let args = [
        "-C",
        "-q",
        "-e",
        "-t",
        "t",
        "-p",
        "0",
        "-o",
        &position.to_string(),
    ];
    kcat(scene.engine.bootstrap(), args).run();
    scene.goes_in_and_deletes(0, 60);
}

/// A commit on an earlier topic of the name says nothing about this one.
#[test]
fn a_group_on_a_topic_that_was_made_anew_is_waited_for() {
    let mut scene = Scene::with_billing_at(100, json!({}));
    let gone = scene
        .engine
        .http(
            "DELETE",
            "/v1/topics/t?owner=uid-1&policy=Delete&requestId=d",
            None,
        )
        .json(200);
    assert_eq!(gone["verdict"], "Applied", "{gone:#}");
    scene.apply(json!({}));
    scene.segments(0, &[(9 * DAY, 5), (DAY, 1)]);
    let unknown = Reader {
        position: None,
        ..billing(0, 5)
    };
    let start = scene.refused(config("retention.ms", 2 * DAY), "ReaderUnknown", &unknown);
    assert_eq!(start, 5);
    assert_eq!(scene.read("billing", 5)[0], "0:0");
    scene.goes_in_and_deletes(0, 5);
}

#[test]
fn a_required_group_that_never_committed_is_waited_for() {
    let mut scene = Scene::new();
    scene.apply(json!({}));
    scene.ten_days(0);
    let strict = json!({
        "config": {"retention.ms": FOUR_AND_A_HALF_DAYS.to_string()},
        "readers": {"required": ["audit"]},
    });
    let audit = Reader {
        name: "audit",
        partition: 0,
        position: None,
        at_risk: 60,
    };
    let start = scene.refused(strict, "ReaderUnknown", &audit);
    scene.read("audit", 60);
    scene.goes_in_and_deletes(0, start);
}

/// The reader must be able to stop for a day; what would go within it counts too.
#[test]
fn a_reader_inside_the_headroom_is_waited_for() {
    let mut scene = Scene::with_billing_at(60, config("retention.ms", 30 * DAY));
    let with_headroom = |headroom_ms: i64| {
        json!({
            "config": {"retention.ms": FOUR_AND_A_HALF_DAYS.to_string()},
            "readers": {"headroomMs": headroom_ms},
        })
    };
    let start = scene.refused(with_headroom(DAY), "SlowReader", &billing(60, 10));
    assert_eq!(start, 70);
    scene.read("billing", 10);
    // What goes now is less than what may go within the headroom.
    scene.goes_in_and_deletes(0, 60);
}

#[test]
fn a_clamped_change_steps_down_as_the_reader_reads_on() {
    let mut scene = Scene::with_billing_at(25, config("retention.ms", 30 * DAY));
    let verdict = scene.apply(json!({
        "config": {"retention.ms": FOUR_AND_A_HALF_DAYS.to_string()},
        "readers": {"onLoss": "Clamp"},
    }));
    assert_eq!(
        (&verdict["verdict"], &verdict["reason"], &verdict["pending"]),
        (&json!("Clamped"), &json!("Clamped"), &json!(true)),
        "{verdict:#}"
    );
    scene.events.next("Clamped", "t");
    scene.engine.pass();
    assert_eq!(scene.log_start(0), 20, "the segment that the reader is in");
    scene.read("billing", 15);
    while !scene.events.next("Clamped", "t")["message"]
        .as_str()
        .unwrap()
        .contains("at offset 40")
    {}
    scene.engine.pass();
    assert_eq!(scene.log_start(0), 40);
    assert_eq!(scene.read("billing", 20).first().unwrap(), "0:40");
    scene.events.next("Resumed", "t");
    assert_eq!(scene.observe()["pending"], Value::Null);
    scene.engine.pass();
    assert_eq!(scene.log_start(0), 60);
}

#[test]
fn an_allowed_loss_is_told_and_counted_over_a_restart_too() {
    let mut scene = Scene::with_billing_at(25, config("retention.ms", 30 * DAY));
    let verdict = scene.apply(json!({
        "config": {"retention.ms": FOUR_AND_A_HALF_DAYS.to_string()},
        "readers": {"onLoss": "Allow"},
    }));
    assert_eq!(
        (&verdict["verdict"], &verdict["reason"]),
        (&json!("Applied"), &json!("LossAccepted")),
        "{verdict:#}"
    );
    let told = scene.events.next("LossAccepted", "t");
    let message = told["message"].as_str().unwrap();
    for part in ["group billing, partition 0", "at offset 25", "35 records"] {
        assert!(message.contains(part), "{part:?} not in {message:?}");
    }
    assert_eq!(scene.engine.pass()["recordsDeleted"], 60);
    let told = scene.events.next("RecordsLost", "t");
    assert!(told["message"].as_str().unwrap().contains("billing"), "{told}");
    let counted = "loss_accepted_records_total{topic=\"t\",reader=\"billing\"} 35";
    let metrics = |scene: &Scene| scene.engine.http("GET", "/metrics", None).body;
    assert!(metrics(&scene).contains(counted), "{}", metrics(&scene));
    let lost = "reader_lost_records_total{topic=\"t\",reader=\"billing\"} 35";
    assert!(metrics(&scene).contains(lost), "{}", metrics(&scene));
    scene.engine.kill();
    scene.engine.start_again();
    assert!(metrics(&scene).contains(counted), "{}", metrics(&scene));
    // The reader finds its position gone and goes on where the log starts now.
    assert_eq!(scene.read("billing", 40).first().unwrap(), "0:60");
}

/// The commit that a deletion waited for is a consumer's last act but one: it must find its way out.
#[test]
fn a_deletion_that_waited_for_a_consumer_does_not_keep_it_for_ever() {
    let scene = Scene::new();
    let topics: Vec<String> = (0..12).map(|number| format!("doomed-{number}")).collect();
    for topic in &topics {
        let path = format!("/v1/topics/{topic}");
        let body = json!({
            "owner": {"uid": "uid-1", "namespace": "shop", "name": topic},
            "config": {"retention.ms": "-1"},
            "deletionPolicy": "Delete",
        });
        scene.engine.http("PUT", &path, Some(&body.to_string())).json(200);
        run(async {
            let mut client = Client::connect(scene.engine.bootstrap(), "filler").await.unwrap();
            let records = vec![ClientRecord::new(now_ms(), "record"); 100];
            client.produce(topic, 0, &records).await.unwrap();
            client.commit(topic, topic, 0, 0).await.unwrap();
        });
        let path = format!("{path}?owner=uid-1&requestId=d");
        let verdict = scene.engine.http("DELETE", &path, None).json(200);
        assert_eq!(verdict["pending"], true, "{verdict:#}");
    }
    std::thread::scope(|scope| {
        for topic in &topics {
            scope.spawn(|| {
                let args = ["-G", topic, "-q", "-c", "100", "-f", "%o\n"];
                let read = kcat(scene.engine.bootstrap(), args)
                    .args(["-X", "auto.offset.reset=earliest", topic])
                    .run();
                assert_eq!(read.lines().count(), 100);
            });
        }
    });
    for topic in &topics {
        let path = format!("/v1/topics/{topic}");
        eventually("the topic to be gone", PATIENCE, || {
            let status = scene.engine.http("GET", &path, None).status;
            if status == 404 { Ok(()) } else { Err(status) }
        });
    }
}
