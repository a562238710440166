//! A control API that can be away, lie, refuse or lose replies: what a real engine does on demand only rarely.
//!
//! It keeps topics in memory and guards them by one rule: while a reader is set, lowering `retention.ms` waits. The scenes with
//! a real engine are in `scene.rs`.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use serde_json::{Value, json};
use tidemark::resource::contract::{DeleteTopic, DeletionPolicy, DesiredTopic, OnLoss};
use tokio::sync::broadcast;

/// What it holds and how it behaves.
#[derive(Debug, Default)]
pub struct Engine {
    /// Topics by name, as observed.
    pub topics: BTreeMap<String, Value>,
    /// Every change asked for: `PUT orders`.
    pub changes: Vec<String>,
    /// Every question of any kind.
    pub requests: usize,
    /// Every request is answered with 503 by somebody in front.
    pub away: bool,
    /// Changes are made and their replies lost: this many times.
    pub lose_replies: usize,
    /// Success is answered and nothing changed.
    pub lies: bool,
    /// Position of the reader `billing`, which a lowering must not pass.
    pub reader_at: Option<i64>,
    next_id: usize,
}

/// The running stub.
pub struct Stub {
    engine: Arc<Mutex<Engine>>,
    events: broadcast::Sender<String>,
    address: String,
    _runtime: tokio::runtime::Runtime,
}

type Shared = (Arc<Mutex<Engine>>, broadcast::Sender<String>);

impl Stub {
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let engine = Arc::new(Mutex::new(Engine::default()));
        let (events, _) = broadcast::channel(1_000);
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let router = Router::new()
            .route("/healthz", get(|| async { "ok" }))
            .route("/readyz", get(|| async { "ok" }))
            .route("/metrics", get(|| async { "# EOF\n" }))
            .route("/v1/events", get(listen))
            .route("/v1/topics", get(list))
            .route("/v1/topics/{topic}", put(apply).get(observe).delete(delete))
            .with_state((Arc::clone(&engine), events.clone()));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self {
            engine,
            events,
            address,
            _runtime: runtime,
        }
    }

    pub fn control(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().expect("no panic under the lock")
    }

    /// The reader reads on: what waits goes in, and the event stream tells.
    pub fn catch_up(&self) {
        let mut engine = self.engine();
        engine.reader_at = None;
        let mut resumed = Vec::new();
        for (name, topic) in &mut engine.topics {
            if topic["paused"] == true {
                continue;
            }
            let pending = topic["pending"].take();
            if !pending.is_null() {
                topic["inForce"] = in_force(&pending["config"], &pending["partitionConfig"]);
                resumed.push(name.clone());
            }
        }
        drop(engine);
        for topic in resumed {
            self.tell("Resumed", &topic);
        }
    }

    pub fn tell(&self, kind: &str, topic: &str) {
        let event = json!({"sequence": 1, "atMs": 1, "kind": kind, "topic": topic, "message": format!("{kind} {topic}")});
        // Nobody may be listening.
        let _ = self.events.send(event.to_string());
    }

    pub fn value(&self, topic: &str, key: &str) -> String {
        let engine = self.engine();
        engine.topics.get(topic).map_or_else(String::new, |topic| {
            topic["inForce"]["config"][key]["value"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
    }
}

fn in_force(config: &Value, partitions: &Value) -> Value {
    let mut values = json!({
        "retention.ms": {"value": "604800000", "source": "Default"},
        "retention.bytes": {"value": "-1", "source": "Default"},
        "segment.ms": {"value": "604800000", "source": "Default"},
        "segment.bytes": {"value": "1073741824", "source": "Default"},
    });
    for (key, value) in config.as_object().into_iter().flatten() {
        values[key] = json!({"value": value, "source": "Topic"});
    }
    let partitions: Vec<Value> = partitions
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| {
            let config: serde_json::Map<String, Value> = entry["config"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), json!({"value": value, "source": "Partition"})))
                .collect();
            json!({"partition": entry["partition"], "config": config})
        })
        .collect();
    json!({"config": values, "partitionConfig": partitions})
}

fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    let body = json!({"type": "about:blank", "title": code, "status": status.as_u16(), "detail": detail, "code": code});
    (status, Json(body)).into_response()
}

fn away() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "nobody is there").into_response()
}

/// The lock, unless nobody is there.
fn enter(engine: &Mutex<Engine>) -> Option<MutexGuard<'_, Engine>> {
    let mut engine = engine.lock().expect("no panic under the lock");
    engine.requests += 1;
    (!engine.away).then_some(engine)
}

async fn list(State((engine, _)): State<Shared>) -> Response {
    match enter(&engine) {
        Some(engine) => Json(json!({"topics": engine.topics.values().collect::<Vec<_>>()})).into_response(),
        None => away(),
    }
}

async fn observe(State((engine, _)): State<Shared>, Path(topic): Path<String>) -> Response {
    match enter(&engine) {
        Some(engine) => match engine.topics.get(&topic) {
            Some(found) => Json(found).into_response(),
            None => problem(StatusCode::NOT_FOUND, "topicNotFound", "no such topic"),
        },
        None => away(),
    }
}

async fn listen(State((engine, events)): State<Shared>) -> Response {
    if enter(&engine).is_none() {
        return away();
    }
    let listener = events.subscribe();
    let stream = futures::stream::unfold(listener, |mut listener| async move {
        let event = listener.recv().await.ok()?;
        Some((
            Ok::<_, std::convert::Infallible>(format!("data: {event}\n\n")),
            listener,
        ))
    });
    Body::from_stream(stream).into_response()
}

fn verdict(outcome: &str, reason: &str, message: &str, pending: bool) -> Value {
    json!({"verdict": outcome, "reason": reason, "message": message, "readersChecked": 1, "pending": pending,
        "readersAtRisk": if pending {
            json!([{"kind": "Group", "name": "billing", "partition": 0, "position": 40, "recordsAtRisk": 60}])
        } else { json!([]) },
        "partitions": if pending {
            json!([{"partition": 0, "logStart": 0, "wouldBeStartInForce": 0, "wouldBeStart": 100, "bytesFreed": 1000}])
        } else { json!([]) }})
}

fn lowers(topic: &Value, desired: &DesiredTopic) -> bool {
    let ms = |text: Option<&str>| match text.and_then(|text| text.parse::<i64>().ok()) {
        Some(ms) if ms < 0 => i64::MAX,
        Some(ms) => ms,
        None => 604_800_000,
    };
    ms(desired.config.get("retention.ms").map(String::as_str))
        < ms(topic["inForce"]["config"]["retention.ms"]["value"].as_str())
}

async fn apply(
    State((engine, events)): State<Shared>,
    Path(name): Path<String>,
    Json(desired): Json<DesiredTopic>,
) -> Response {
    let mut engine = match enter(&engine) {
        Some(engine) => engine,
        None => return away(),
    };
    engine.changes.push(format!("PUT {name}"));
    let collides = |other: &String| other != &name && other.replace('.', "_") == name.replace('.', "_");
    if let Some(other) = engine.topics.keys().find(|other| collides(other)) {
        return problem(
            StatusCode::CONFLICT,
            "nameCollision",
            &format!("{name} collides with {other}"),
        );
    }
    let new = !engine.topics.contains_key(&name);
    if new {
        engine.next_id += 1;
        let fresh = json!({
            "name": name, "id": format!("id-{}", engine.next_id), "owner": null, "inForce": {"config": {}}, "pending": null,
            "partitions": [], "readers": {"checked": 1}, "health": {"reason": "Healthy", "message": ""},
            "volume": {"totalBytes": 107374182400_i64, "freeBytes": 1}, "lastAppliedMs": 1_700_000_000_000_i64,
        });
        engine.topics.insert(name.clone(), fresh);
    }
    let (lies, reader) = (engine.lies, engine.reader_at);
    let lost = engine.lose_replies > 0;
    engine.lose_replies = engine.lose_replies.saturating_sub(1);
    let topic = engine.topics.get_mut(&name).expect("just put there");
    let owner = topic["owner"]["uid"].as_str().map(str::to_owned);
    let asks = desired.owner.as_ref().map(|owner| owner.uid.clone());
    if owner.is_some() && owner != asks && desired.takes_over != owner {
        return problem(StatusCode::CONFLICT, "conflict", "somebody else's");
    }
    topic["owner"] = json!(desired.owner);
    topic["readersPolicy"] = json!(desired.readers);
    topic["deletionPolicy"] = json!(desired.deletion_policy);
    topic["paused"] = json!(desired.paused);
    if desired.paused {
        return Json(verdict("Refused", "Paused", "the topic is paused", true)).into_response();
    }
    let asked = usize::try_from(desired.partitions.unwrap_or(1)).expect("positive");
    let partitions = topic["partitions"].as_array_mut().expect("a list");
    while partitions.len() < asked {
        partitions.push(json!({"partition": partitions.len(), "logStart": 0, "highWatermark": 100, "logEnd": 100, "sizeBytes": 1, "segments": 1}));
    }
    let answer = if !new
        && reader.is_some()
        && desired.readers.on_loss != OnLoss::Allow
        && lowers(topic, &desired)
    {
        let refused = verdict(
            "Refused",
            "SlowReader",
            "billing is at 40 of partition 0 and would lose 60 records",
            true,
        );
        topic["pending"] = json!({"requestId": desired.request_id, "sinceMs": 1_700_000_000_000_i64, "config": desired.config,
            "partitionConfig": desired.partition_config, "verdict": refused});
        refused
    } else {
        topic["pending"] = Value::Null;
        if !lies {
            topic["inForce"] = in_force(&json!(desired.config), &json!(desired.partition_config));
        }
        verdict("Applied", "Applied", "no reader loses a record", false)
    };
    drop(engine);
    let event = json!({"sequence": 1, "atMs": 1, "kind": "TopicChanged", "topic": name, "message": ""});
    let _ = events.send(event.to_string());
    if lost {
        away()
    } else {
        Json(answer).into_response()
    }
}

async fn delete(
    State((engine, events)): State<Shared>,
    Path(name): Path<String>,
    Query(request): Query<DeleteTopic>,
) -> Response {
    let mut engine = match enter(&engine) {
        Some(engine) => engine,
        None => return away(),
    };
    engine.changes.push(format!("DELETE {name} {:?}", request.policy));
    let reader = engine.reader_at;
    let Some(topic) = engine.topics.get_mut(&name) else {
        return Json(verdict("Unchanged", "Unchanged", "not there", false)).into_response();
    };
    if topic["owner"]["uid"].as_str() != Some(&request.owner) {
        return problem(StatusCode::CONFLICT, "conflict", "somebody else's");
    }
    if request.policy == Some(DeletionPolicy::Retain) {
        topic["owner"] = Value::Null;
    } else if reader.is_some() {
        return Json(verdict(
            "Refused",
            "SlowReader",
            "billing would lose 60 records",
            true,
        ))
        .into_response();
    } else {
        engine.topics.remove(&name);
    }
    drop(engine);
    let event = json!({"sequence": 1, "atMs": 1, "kind": "TopicDeleted", "topic": name, "message": ""});
    let _ = events.send(event.to_string());
    Json(verdict("Applied", "Applied", "done", false)).into_response()
}
