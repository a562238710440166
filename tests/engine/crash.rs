//! The process dies at named points of a change. Whatever the point: at the next start a topic is whole or not there, settings
//! are the old or the new ones entirely, and nothing beyond the rule in force is gone.
use serde_json::{Value, json};
use tidemark::wire::client::{Client, ClientRecord};

use crate::scene::run;
use crate::support::temp::TempDir;
use crate::support::tidemark::{Tidemark, request};
use crate::support::wait::{PATIENCE, eventually};

const DAY: i64 = 86_400_000;

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn start(name: &str) -> (TempDir, Tidemark) {
    let home = TempDir::new(name);
    let engine = Tidemark::engine(home.path(), &["--check-interval", "1h"]);
    (home, engine)
}

fn arm(engine: &Tidemark, point: &str, hits: u32) {
    let reply = engine.http("POST", &format!("/v1/failpoints/{point}/{hits}"), None);
    assert_eq!(reply.status, 204, "{point}: {}", reply.body);
}

/// Asks for something that the process does not live to answer, or answers before it dies.
fn ask_and_die(engine: &mut Tidemark, method: &str, path: &str, body: Option<&Value>) {
    let text = body.map(Value::to_string);
    let _ = request(engine.control(), method, path, None, text.as_deref());
    engine.process().wait(PATIENCE);
    engine.kill();
}

fn desired(partitions: i32, retention_ms: i64) -> Value {
    json!({
        "owner": {"uid": "u", "namespace": "n", "name": "t"},
        "partitions": partitions,
        "config": {
            "retention.ms": retention_ms.to_string(),
            "internal.segment.bytes": "6000",
            "file.delete.delay.ms": "0",
        },
        "readers": {"headroomMs": 0},
    })
}

/// Ten segments of ten records, one a day old each more than the next.
fn fill(engine: &Tidemark, topic: &str) {
    run(async {
        let mut client = Client::connect(engine.bootstrap(), "crash").await.unwrap();
        for age in (1..=10).rev() {
            let record = ClientRecord::new(now_ms() - age * DAY, vec![b'v'; 300]);
            client.produce(topic, 0, &vec![record; 10]).await.unwrap();
        }
    });
}

fn commit(engine: &Tidemark, offset: i64) {
    run(async {
        let mut client = Client::connect(engine.bootstrap(), "crash").await.unwrap();
        client.commit("g", "t", 0, offset).await.unwrap();
    });
}

fn directories(engine: &Tidemark, topic: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(engine.data().join("logs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(&format!("{topic}-")))
        .collect();
    names.sort();
    names
}

#[test]
fn a_topic_whose_creation_is_cut_short_is_whole_or_not_there() {
    let (_home, mut engine) = start("crash-create");
    for (number, (point, hits)) in [
        ("store::before-commit", 1),
        ("store::after-commit", 1),
        ("topics::recorded", 1),
        ("topics::one-directory-made", 1),
        ("topics::one-directory-made", 2),
        ("topics::one-directory-made", 3),
        ("store::before-commit", 2),
        ("store::after-commit", 2),
        ("topics::directories-made", 1),
    ]
    .into_iter()
    .enumerate()
    {
        let topic = format!("t{number}");
        let path = format!("/v1/topics/{topic}");
        arm(&engine, point, hits);
        ask_and_die(&mut engine, "PUT", &path, Some(&desired(3, DAY)));
        engine.start_again();
        let reply = engine.http("GET", &path, None);
        let found = directories(&engine, &topic);
        match reply.status {
            404 => assert_eq!(found, [""; 0], "{point} {hits}"),
            200 => {
                let observed = reply.json(200);
                assert_eq!(
                    observed["partitions"].as_array().unwrap().len(),
                    3,
                    "{point} {hits}"
                );
                assert_eq!(
                    observed["health"]["reason"], "Healthy",
                    "{point} {hits}: {observed}"
                );
                assert_eq!(found.len(), 3, "{point} {hits}: {found:?}");
            }
            other => panic!("{point} {hits}: {other} {}", reply.body),
        }
        let again = engine
            .http("PUT", &path, Some(&desired(3, DAY).to_string()))
            .json(200);
        assert_ne!(again["verdict"], "Refused", "{point} {hits}");
        fill(&engine, &topic);
        assert_eq!(engine.get(&path)["partitions"][0]["logEnd"], 100);
    }
}

/// E11, at every step of a deletion.
#[test]
fn a_topic_whose_deletion_is_cut_short_is_whole_or_gone() {
    let (_home, mut engine) = start("crash-delete");
    engine
        .http("PUT", "/v1/topics/bystander", Some(&desired(1, -1).to_string()))
        .json(200);
    fill(&engine, "bystander");
    for (number, (point, hits)) in [
        ("store::before-commit", 1),
        ("store::after-commit", 1),
        ("topics::deletion-recorded", 1),
        ("topics::one-directory-marked", 1),
        ("topics::one-directory-marked", 2),
        ("topics::one-directory-marked", 3),
    ]
    .into_iter()
    .enumerate()
    {
        let topic = format!("t{number}");
        let path = format!("/v1/topics/{topic}");
        engine
            .http("PUT", &path, Some(&desired(3, -1).to_string()))
            .json(200);
        fill(&engine, &topic);
        let id = engine.get(&path)["id"].clone();
        arm(&engine, point, hits);
        ask_and_die(
            &mut engine,
            "DELETE",
            &format!("{path}?owner=u&policy=Delete"),
            None,
        );
        engine.start_again();
        let reply = engine.http("GET", &path, None);
        if reply.status == 200 {
            assert_eq!(point, "store::before-commit");
            let observed = reply.json(200);
            assert_eq!(
                (&observed["id"], &observed["partitions"][0]["logEnd"]),
                (&id, &json!(100))
            );
            continue;
        }
        assert_eq!(reply.status, 404, "{point} {hits}");
        eventually("the directories to be gone", PATIENCE, || {
            let left = directories(&engine, &topic);
            if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(" "))
            }
        });
        let anew = engine
            .http("PUT", &path, Some(&desired(1, -1).to_string()))
            .json(200);
        assert_ne!(anew["topicId"], id, "{point} {hits}");
        assert_eq!(engine.get(&path)["partitions"][0]["logEnd"], 0);
    }
    assert_eq!(engine.get("/v1/topics/bystander")["partitions"][0]["logEnd"], 100);
}

/// A change that is applied: at every point the settings after the restart are the old or the new ones, and a pass takes what
/// they say and no more.
#[test]
fn settings_are_the_old_or_the_new_ones_entirely() {
    for point in [
        "guarded::checked",
        "store::before-commit",
        "store::after-commit",
        "guarded::persisted",
        "guarded::applied",
    ] {
        let (_home, mut engine) = start("crash-apply");
        let old = desired(1, 30 * DAY);
        engine
            .http("PUT", "/v1/topics/t", Some(&old.to_string()))
            .json(200);
        fill(&engine, "t");
        commit(&engine, 60);
        let mut new = desired(1, 4 * DAY + DAY / 2);
        new["config"]["retention.bytes"] = json!("100000000");
        arm(&engine, point, 1);
        ask_and_die(&mut engine, "PUT", "/v1/topics/t", Some(&new));
        engine.start_again();
        let in_force = engine.get("/v1/topics/t")["inForce"]["config"].clone();
        let values = (
            in_force["retention.ms"]["value"].as_str().unwrap(),
            in_force["retention.bytes"]["value"].as_str().unwrap(),
        );
        let is_new = match values {
            ("2592000000", "-1") => false,
            ("388800000", "100000000") => true,
            other => panic!("{point}: half of a change is in force: {other:?}"),
        };
        assert_eq!(
            is_new,
            !matches!(point, "guarded::checked" | "store::before-commit"),
            "{point}"
        );
        engine.pass();
        let log_start = engine.get("/v1/topics/t")["partitions"][0]["logStart"].clone();
        assert_eq!(log_start, if is_new { 60 } else { 0 }, "{point}");
        engine
            .http("PUT", "/v1/topics/t", Some(&new.to_string()))
            .json(200);
        engine.pass();
        assert_eq!(
            engine.get("/v1/topics/t")["partitions"][0]["logStart"],
            60,
            "{point}"
        );
    }
}

/// What was given up and that it was are one write.
#[test]
fn a_loss_that_was_accepted_is_counted_whatever_comes_after_it() {
    for (point, delete) in [("guarded::persisted", false), ("topics::deletion-recorded", true)] {
        let (_home, mut engine) = start("crash-accepted");
        let mut asked = desired(1, 30 * DAY);
        asked["readers"]["onLoss"] = json!("Allow");
        engine
            .http("PUT", "/v1/topics/t", Some(&asked.to_string()))
            .json(200);
        fill(&engine, "t");
        commit(&engine, 25);
        arm(&engine, point, 1);
        let lost = if delete {
            let path = "/v1/topics/t?owner=u&policy=Delete&requestId=d";
            ask_and_die(&mut engine, "DELETE", path, None);
            75
        } else {
            asked["config"]["retention.ms"] = json!((4 * DAY + DAY / 2).to_string());
            ask_and_die(&mut engine, "PUT", "/v1/topics/t", Some(&asked));
            35
        };
        engine.start_again();
        let metrics = engine.http("GET", "/metrics", None).body;
        let counted = format!("loss_accepted_records_total{{topic=\"t\",reader=\"g\"}} {lost}");
        assert!(metrics.contains(&counted), "{point}: {metrics}");
    }
}

/// A disk may take a write and fail all the same: then nobody is told that a topic takes records which the next start removes.
#[test]
fn a_deletion_whose_write_fails_late_leaves_no_topic_that_takes_records() {
    for failures in [1, 2] {
        let (_home, mut engine) = start("fails-late");
        engine
            .http("PUT", "/v1/topics/t", Some(&desired(1, DAY).to_string()))
            .json(200);
        let fails = format!("/v1/failpoints/store::after-commit/{failures}");
        assert_eq!(engine.http("PUT", &fails, None).status, 204);
        let path = "/v1/topics/t?owner=u&policy=Delete&requestId=d";
        let answer = engine.http("DELETE", path, None);
        let taken = run(async {
            let mut client = Client::connect(engine.bootstrap(), "late").await.unwrap();
            let record = ClientRecord::new(now_ms(), "v");
            client.produce("t", 0, &[record]).await.is_ok()
        });
        engine.kill();
        engine.start_again();
        let is_there = engine.http("GET", "/v1/topics/t", None).status == 200;
        assert!(
            is_there || !taken,
            "acknowledged and gone; the deletion was answered {}",
            answer.body
        );
        assert_eq!((answer.status, is_there), (200, false), "{}", answer.body);
    }
}

/// A change that waits: whatever the point at which the process dies, while it is held back or while it goes in, the reader
/// loses nothing, and once it has caught up the change is in force.
#[test]
fn a_change_that_waits_is_neither_lost_nor_let_through() {
    for (point, hits) in [
        ("guarded::checked", 1),
        ("store::before-commit", 1),
        ("store::after-commit", 1),
        ("guarded::persisted", 1),
        ("guarded::applied", 1),
    ] {
        let (_home, mut engine) = start("crash-wait");
        engine
            .http("PUT", "/v1/topics/t", Some(&desired(1, 30 * DAY).to_string()))
            .json(200);
        fill(&engine, "t");
        commit(&engine, 25);
        let new = desired(1, 4 * DAY + DAY / 2);
        arm(&engine, point, hits);
        ask_and_die(&mut engine, "PUT", "/v1/topics/t", Some(&new));
        engine.start_again();
        engine.pass();
        let observed = engine.get("/v1/topics/t");
        assert_eq!(observed["partitions"][0]["logStart"], 0, "{point}");
        assert_eq!(
            observed["inForce"]["config"]["retention.ms"]["value"], "2592000000",
            "{point}"
        );
        // Asked again, as the operator does; then the process dies while the change goes in by itself.
        let verdict = engine
            .http("PUT", "/v1/topics/t", Some(&new.to_string()))
            .json(200);
        assert_eq!(verdict["verdict"], "Refused", "{point}");
        // A commit writes to the store itself, so the points of the store are armed behind it.
        let behind = if point.starts_with("store::") {
            hits + 1
        } else {
            hits
        };
        arm(&engine, point, behind);
        run(async {
            let mut client = Client::connect(engine.bootstrap(), "crash").await.unwrap();
            let _ = client.commit("g", "t", 0, 60).await;
        });
        engine.process().wait(PATIENCE);
        engine.kill();
        engine.start_again();
        eventually("the change to go in", PATIENCE, || {
            let observed = engine.get("/v1/topics/t");
            if observed["pending"].is_null() {
                Ok(())
            } else {
                Err(observed["pending"].to_string())
            }
        });
        engine.pass();
        let observed = engine.get("/v1/topics/t");
        assert_eq!(observed["partitions"][0]["logStart"], 60, "{point}");
        assert_eq!(
            observed["inForce"]["config"]["retention.ms"]["value"], "388800000",
            "{point}"
        );
    }
}
