//! Commits forwards and backwards, appends, passes and edits at the same time, and the process dies between check, persist and
//! apply, again and again.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tidemark::wire::client::{Client, ClientRecord};
use tokio::runtime::{Handle, Runtime};

use crate::kill_load::{Random, now_ms};
use crate::members;
use crate::support::temp::TempDir;
use crate::support::tidemark::{Tidemark, request};
use crate::support::wait::PATIENCE;

const HOUR: i64 = 3_600_000;
/// Of ten records each; the last one is an hour and a half old, each before it an hour older.
const SEGMENTS: i64 = 60;
const OLD_RECORDS: i64 = SEGMENTS * 10;
/// At least so many; as many more, up to [`MOST_ROUNDS`], until everything was seen that can be.
const ROUNDS: u32 = 25;
const MOST_ROUNDS: u32 = 150;

/// Two keys that belong together, so that half of an edit can be told from a whole one.
fn desired(topic: &str, hours: i64) -> String {
    json!({
        "owner": {"uid": "u", "namespace": "n", "name": topic},
        "config": {
            "retention.ms": (hours * HOUR).to_string(),
            "retention.bytes": (1_000_000_000 + hours).to_string(),
            "internal.segment.bytes": "6000",
            "file.delete.delay.ms": "0",
        },
        "readers": {"headroomMs": 0},
    })
    .to_string()
}

/// The first offset that so many hours keep.
fn kept_from(hours: i64) -> i64 {
    (SEGMENTS - (hours - 1).min(SEGMENTS)) * 10
}

/// Hours in force and log start, as observed.
fn look(observed: &Value) -> (i64, i64) {
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
        "half of an edit is in force"
    );
    (hours, observed["partitions"][0]["logStart"].as_i64().unwrap())
}

/// What the reader has done so far.
#[derive(Debug, Clone, Copy, Default)]
struct Stand {
    /// The last position acknowledged, and the last one asked for.
    acked: i64,
    asked: i64,
    /// Whether the log must not start beyond the position: the settings in force kept it once it was acknowledged. A reader that
    /// goes back to what is expired already loses it by its own doing.
    guarded: bool,
    /// Steps back after which it was.
    guarded_steps_back: u32,
    /// The end of the records that were appended and acknowledged.
    log_end: i64,
}

/// What one of them does until it is told to stop or the process has died.
type Work = Box<dyn FnOnce(&Hammer, &Handle) + Send>;

/// One topic and everybody who works on it.
struct Hammer {
    topic: String,
    control: String,
    bootstrap: String,
    stand: Mutex<Stand>,
    stopping: AtomicBool,
}

impl Hammer {
    fn path(&self) -> String {
        format!("/v1/topics/{}", self.topic)
    }

    fn observe(&self) -> Option<(i64, i64)> {
        let reply = request(&self.control, "GET", &self.path(), None, None).ok()?;
        (reply.status == 200).then(|| look(&reply.json(200)))
    }

    fn goes_on(&self) -> bool {
        !self.stopping.load(Ordering::SeqCst)
    }

    /// Mostly on, now and then back; what is guarded is looked at again after a pass.
    fn commit(&self, runtime: &Handle, mut random: Random) {
        let Ok(mut client) = runtime.block_on(Client::connect(&self.bootstrap, "committer")) else {
            return;
        };
        while self.goes_on() {
            let before = *self.stand.lock();
            let back = random.below(6) == 0;
            let next = if back {
                let Some((hours, log_start)) = self.observe() else {
                    return;
                };
                let least = kept_from(hours).max(log_start).min(before.acked);
                least + i64::try_from(random.below((before.acked - least + 1).unsigned_abs())).unwrap()
            } else {
                (before.acked + 1 + i64::try_from(random.below(12)).unwrap()).min(OLD_RECORDS)
            };
            {
                let mut stand = self.stand.lock();
                stand.asked = next;
                stand.guarded &= !back;
            }
            if runtime
                .block_on(client.commit("g", &self.topic, 0, next))
                .is_err()
            {
                return;
            }
            self.stand.lock().acked = next;
            if before.guarded && !back {
                continue;
            }
            let Some((hours, log_start)) = self.observe() else {
                return;
            };
            if kept_from(hours) > next || log_start > next {
                continue;
            }
            {
                let mut stand = self.stand.lock();
                stand.guarded = true;
                stand.guarded_steps_back += u32::from(back && next < before.acked);
            }
            if request(&self.control, "POST", "/v1/retention/pass", None, None).is_err() {
                return;
            }
            if let Some((_, log_start)) = self.observe() {
                assert!(
                    log_start <= next,
                    "the log starts at {log_start}, the reader went back to {next}"
                );
            }
        }
    }

    fn append(&self, runtime: &Handle) {
        let Ok(mut client) = runtime.block_on(Client::connect(&self.bootstrap, "appender")) else {
            return;
        };
        while self.goes_on() {
            let records = vec![ClientRecord::new(now_ms(), vec![b'n'; 300]); 10];
            match runtime.block_on(client.produce(&self.topic, 0, &records)) {
                Ok(base) => self.stand.lock().log_end = base + 10,
                Err(_) => return,
            }
        }
    }

    fn pass(&self) {
        while self.goes_on() && request(&self.control, "POST", "/v1/retention/pass", None, None).is_ok() {}
    }

    /// Up and down, until the process has died or enough was asked.
    fn edit(&self, mut random: Random) {
        for _ in 0..20 {
            let hours = 1 + i64::try_from(random.below(70)).unwrap();
            let body = desired(&self.topic, hours);
            match request(&self.control, "PUT", &self.path(), None, Some(&body)) {
                Ok(reply) => assert!(reply.status == 200 || reply.status == 503, "{}", reply.body),
                Err(_) => return,
            }
        }
    }

    /// Two editors, a reader, a producer and one who asks for passes, until the editors are done.
    fn everybody(self: &Arc<Self>, runtime: &Runtime, random: &mut Random) {
        let handle = runtime.handle();
        let mut seed = || Random(random.below(u64::MAX >> 33));
        let work = |work: Work| {
            let (hammer, handle) = (Arc::clone(self), handle.clone());
            runtime.spawn_blocking(move || work(&hammer, &handle))
        };
        let (one, other, reader) = (seed(), seed(), seed());
        let editors =
            [one, other].map(|random| work(Box::new(move |hammer: &Self, _: &Handle| hammer.edit(random))));
        let others = [
            work(Box::new(move |hammer, handle| hammer.commit(handle, reader))),
            work(Box::new(|hammer, handle| hammer.append(handle))),
            work(Box::new(|hammer, _| hammer.pass())),
        ];
        runtime.block_on(async {
            for editor in editors {
                editor.await.unwrap();
            }
            self.stopping.store(true, Ordering::SeqCst);
            for other in others {
                other.await.unwrap();
            }
        });
    }
}

/// A topic of old records with a reader at the beginning.
async fn fill(bootstrap: &str, topic: &str) {
    let mut client = Client::connect(bootstrap, "filler").await.unwrap();
    for age in (1..=SEGMENTS).rev() {
        let record = ClientRecord::new(now_ms() - age * HOUR - HOUR / 2, vec![b'v'; 300]);
        client.produce(topic, 0, &vec![record; 10]).await.unwrap();
    }
    client.commit("g", topic, 0, 0).await.unwrap();
}

/// Where the reader stands, and whether the last record that was acknowledged is there.
async fn survivors(bootstrap: &str, topic: &str, log_end: i64) -> (i64, bool) {
    let mut client = Client::connect(bootstrap, "checker").await.unwrap();
    let (position, _, _) = members::committed(&mut client, "g", topic, 0).await;
    let last = client.fetch(topic, 0, log_end - 1, 0).await.unwrap();
    let there = last.iter().any(|record| record.offset == log_end - 1);
    (position, there)
}

#[test]
fn no_reader_loses_a_record_whatever_happens_at_the_same_time() {
    let seed = now_ms().unsigned_abs();
    println!("seed {seed}");
    let mut random = Random(seed);
    let home = TempDir::new("hammer");
    let mut engine = Tidemark::engine(home.path(), &["--check-interval", "20ms"]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let bootstrap = engine.bootstrap().to_owned();
    let (mut rounds, mut died, mut steps_back) = (0, 0, 0);
    for round in 0..MOST_ROUNDS {
        if round >= ROUNDS && died > 0 && steps_back > 0 {
            break;
        }
        rounds += 1;
        let topic = format!("t{round}");
        let path = format!("/v1/topics/{topic}");
        engine
            .http("PUT", &path, Some(&desired(&topic, 10_000)))
            .json(200);
        runtime.block_on(fill(&bootstrap, &topic));
        let point = [
            "guarded::checked",
            "guarded::persisted",
            "guarded::applied",
            "store::before-commit",
            "store::after-commit",
        ][usize::try_from(random.below(5)).unwrap()];
        let hits = 1 + random.below(if point.starts_with("store") { 60 } else { 12 });
        engine.http("POST", &format!("/v1/failpoints/{point}/{hits}"), None);
        let hammer = Arc::new(Hammer {
            topic: topic.clone(),
            control: engine.control().to_owned(),
            bootstrap: bootstrap.clone(),
            stand: Mutex::new(Stand {
                guarded: true,
                log_end: OLD_RECORDS,
                ..Stand::default()
            }),
            stopping: AtomicBool::new(false),
        });
        hammer.everybody(&runtime, &mut random);
        if !engine.process().is_running() {
            died += 1;
            engine.process().wait(PATIENCE);
        }
        engine.kill();
        engine.start_again();
        let context = format!("seed {seed}, round {round}, {point} at {hits}");
        let stand = *hammer.stand.lock();
        steps_back += stand.guarded_steps_back;
        let (_, log_start) = look(&engine.get(&path));
        let (position, there) = runtime.block_on(survivors(&bootstrap, &topic, stand.log_end));
        assert!(
            there,
            "{context}: {} was acknowledged and is not there",
            stand.log_end - 1
        );
        assert!(
            [stand.acked, stand.asked].contains(&position),
            "{context}: {stand:?} came back as {position}"
        );
        assert!(
            !stand.guarded || log_start <= position,
            "{context}: the log starts at {log_start}, the reader stands at {position} of {stand:?}"
        );
        // Nothing stays behind: the reader reads to the end and the last edit goes in.
        engine.http("PUT", &path, Some(&desired(&topic, 5))).json(200);
        runtime.block_on(async {
            let mut client = Client::connect(&bootstrap, "reader").await.unwrap();
            client.commit("g", &topic, 0, OLD_RECORDS).await.unwrap();
        });
        crate::support::wait::eventually("the last edit to be in force", PATIENCE, || {
            let observed = engine.get(&path);
            let start = observed["partitions"][0]["logStart"].as_i64().unwrap();
            // An edit to less hours may have been in force before it.
            if observed["pending"].is_null() && start >= kept_from(5) {
                Ok(())
            } else {
                Err(observed.to_string())
            }
        });
    }
    assert!(died > 0, "seed {seed}: no armed point was ever reached");
    assert!(
        steps_back > 0,
        "seed {seed}: no step back was ever guarded, so nothing was tested by them"
    );
    println!("died {died} times of {rounds}, {steps_back} guarded steps back");
}
