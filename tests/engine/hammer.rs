//! Commits, passes and edits at the same time, and the process dies between check, persist and apply, again and again.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use serde_json::{Value, json};
use tidemark::wire::client::{Client, ClientRecord};

use crate::kill_load::{Random, committed, now_ms};
use crate::support::temp::TempDir;
use crate::support::tidemark::{Tidemark, request};
use crate::support::wait::PATIENCE;

const HOUR: i64 = 3_600_000;
const SEGMENTS: i64 = 60;
const ROUNDS: u32 = 25;

/// Two keys that belong together, so that half of an edit can be told from a whole one.
fn desired(hours: i64) -> Value {
    json!({
        "owner": {"uid": "u", "namespace": "n", "name": "t"},
        "config": {
            "retention.ms": (hours * HOUR).to_string(),
            "retention.bytes": (1_000_000_000 + hours).to_string(),
            "internal.segment.bytes": "6000",
            "file.delete.delay.ms": "0",
        },
        "readers": {"headroomMs": 0},
    })
}

#[test]
fn no_reader_loses_a_record_whatever_happens_at_the_same_time() {
    let seed = now_ms().unsigned_abs();
    println!("seed {seed}");
    let mut random = Random(seed);
    let home = TempDir::new("hammer");
    let mut engine = Tidemark::engine(home.path(), &["--check-interval", "20ms"]);
    let first = desired(10_000).to_string();
    engine.http("PUT", "/v1/topics/t", Some(&first)).json(200);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let bootstrap = engine.bootstrap().to_owned();
    runtime.block_on(async {
        let mut client = Client::connect(&bootstrap, "filler").await.unwrap();
        for age in (1..=SEGMENTS).rev() {
            let record = ClientRecord::new(now_ms() - age * HOUR - HOUR / 2, vec![b'v'; 300]);
            client.produce("t", 0, &vec![record; 10]).await.unwrap();
        }
        client.commit("g", "t", 0, 0).await.unwrap();
    });
    let sent = Arc::new(AtomicI64::new(0));
    let mut died = 0;
    for round in 0..ROUNDS {
        let point = [
            "guarded::checked",
            "guarded::persisted",
            "guarded::applied",
            "store::before-commit",
            "store::after-commit",
        ][usize::try_from(random.below(5)).unwrap()];
        let hits = 1 + random.below(if point.starts_with("store") { 30 } else { 4 });
        engine.http("POST", &format!("/v1/failpoints/{point}/{hits}"), None);
        let stopping = Arc::new(AtomicBool::new(false));
        let committing = runtime.spawn({
            let (bootstrap, stopping, sent) = (bootstrap.clone(), Arc::clone(&stopping), Arc::clone(&sent));
            async move {
                let Ok(mut client) = Client::connect(&bootstrap, "committer").await else {
                    return;
                };
                while !stopping.load(Ordering::SeqCst) {
                    let next = (sent.load(Ordering::SeqCst) + 1).min(SEGMENTS * 10);
                    sent.store(next, Ordering::SeqCst);
                    if client.commit("g", "t", 0, next).await.is_err() {
                        return;
                    }
                }
            }
        });
        let passing = runtime.spawn_blocking({
            let (control, stopping) = (engine.control().to_owned(), Arc::clone(&stopping));
            move || {
                while !stopping.load(Ordering::SeqCst)
                    && request(&control, "POST", "/v1/retention/pass", None, None).is_ok()
                {}
            }
        });
        // Edits up and down, by two at a time, until the process has died or enough was asked.
        let editors: Vec<_> = (0..2)
            .map(|_| {
                let control = engine.control().to_owned();
                let mut random = Random(random.below(u64::MAX >> 33));
                runtime.spawn_blocking(move || {
                    for _ in 0..20 {
                        let hours = 1 + i64::try_from(random.below(70)).unwrap();
                        let body = desired(hours).to_string();
                        match request(&control, "PUT", "/v1/topics/t", None, Some(&body)) {
                            Ok(reply) => {
                                assert!(reply.status == 200 || reply.status == 503, "{}", reply.body)
                            }
                            Err(_) => return,
                        }
                    }
                })
            })
            .collect();
        runtime.block_on(async {
            for editor in editors {
                editor.await.unwrap();
            }
        });
        stopping.store(true, Ordering::SeqCst);
        runtime.block_on(async {
            let _ = committing.await;
            let _ = passing.await;
        });
        died += u32::from(!engine.process().is_running());
        if engine.process().is_running() {
            engine.kill();
        } else {
            engine.process().wait(PATIENCE);
            engine.kill();
        }
        engine.start_again();
        let observed = engine.get("/v1/topics/t");
        let value = |key: &str| -> i64 {
            observed["inForce"]["config"][key]["value"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap()
        };
        let hours = value("retention.ms") / HOUR;
        assert_eq!(
            value("retention.bytes"),
            1_000_000_000 + hours,
            "seed {seed}, round {round}: half of an edit is in force after {point}"
        );
        let log_start = observed["partitions"][0]["logStart"].as_i64().unwrap();
        let position = runtime.block_on(async {
            let mut client = Client::connect(&bootstrap, "checker").await.unwrap();
            committed(&mut client).await
        });
        assert!(
            log_start <= position,
            "seed {seed}, round {round}: the log starts at {log_start}, the reader stands at {position}"
        );
        sent.store(position, Ordering::SeqCst);
        // What the settings in force keep is readable: a segment of n hours is half an hour older than that.
        let kept = (hours - 1).min(SEGMENTS);
        let must_keep = (SEGMENTS - kept) * 10;
        assert!(
            log_start <= must_keep.max(position),
            "seed {seed}, round {round}: {hours} hours are kept, but the log starts at {log_start}"
        );
    }
    assert!(died > 0, "seed {seed}: no armed point was ever reached");
    // Nothing stays behind: the reader reads to the end and the last edit goes in.
    let last = desired(5).to_string();
    engine.http("PUT", "/v1/topics/t", Some(&last)).json(200);
    runtime.block_on(async {
        let mut client = Client::connect(&bootstrap, "reader").await.unwrap();
        client.commit("g", "t", 0, SEGMENTS * 10).await.unwrap();
    });
    crate::support::wait::eventually("the last edit to be in force", PATIENCE, || {
        let observed = engine.get("/v1/topics/t");
        let start = observed["partitions"][0]["logStart"].as_i64().unwrap();
        if observed["pending"].is_null() && start == (SEGMENTS - 4) * 10 {
            Ok(())
        } else {
            Err(observed.to_string())
        }
    });
}
