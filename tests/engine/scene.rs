//! An engine to play a scene on.
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemark::engine::config::EngineConfig;
use tidemark::engine::{Engine, Platform};
use tidemark::operator::control_client::ControlClient;
use tidemark::operator::storage::{Storage, StorageError};
use tidemark::resource::contract::{
    DesiredTopic, ObservedTopic, Outcome, Owner, PartitionConfig, PassReport, ReadersPolicy, Verdict,
};
use tidemark::telemetry::clock::ManualClock;
use tidemark::wire::client::{Client, ClientError, ClientRecord};

use crate::support::wait::PATIENCE;

/// Now, at the beginning of every scene.
pub const T: i64 = 1_700_000_000_000;
pub const DAY: i64 = 86_400_000;
pub const HOUR: i64 = 3_600_000;
pub const MINUTE: i64 = 60_000;

/// `segment.bytes` of every scene: each batch of [`Scene::segment`] fills one by more than half.
const SEGMENT_BYTES: usize = 6_000;

/// Longer than any clock here is moved on: a pass runs when the scene says so, and at no other time.
const NO_PASS_BY_ITSELF: Duration = Duration::from_secs(1_000 * 365 * 24 * 3_600);
/// What a reader must survive where nothing else is said: the time between two passes of an engine as it comes.
const HEADROOM_MS: i64 = 5 * MINUTE;

/// A running engine with a client.
pub struct Scene {
    /// Goes with everything in it.
    _home: tempfile::TempDir,
    pub clock: Arc<ManualClock>,
    pub config: EngineConfig,
    pub engine: Arc<Engine>,
    pub control: ControlClient,
    pub kafka: Client,
    requests: u32,
}

impl Scene {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A topic `t` under `desired` with [ten days](Self::ten_days) of records, which `group` has read up to `position`.
    pub async fn read_to(group: &str, position: i64, desired: &Desired) -> Self {
        let mut scene = Self::new().await;
        scene.apply("t", desired).await;
        scene.ten_days("t", 0).await;
        scene.kafka.commit(group, "t", 0, position).await.unwrap();
        scene
    }

    /// A scene on an engine that is set up otherwise.
    pub async fn with(set_up: impl FnOnce(&mut EngineConfig)) -> Self {
        Self::on(None, set_up).await
    }

    /// A scene on a file system that the test can break.
    pub async fn on(platform: Option<Platform>, set_up: impl FnOnce(&mut EngineConfig)) -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(T));
        let mut config = EngineConfig::new(home.path().join("data"));
        config.listen = ([127, 0, 0, 1], 0).into();
        config.control = Some(([127, 0, 0, 1], 0).into());
        config.clock = clock.clone();
        config.check_interval = NO_PASS_BY_ITSELF;
        set_up(&mut config);
        let (engine, control, kafka) = start(&config, platform).await;
        Self {
            _home: home,
            clock,
            config,
            engine,
            control,
            kafka,
            requests: 0,
        }
    }

    /// Stops the engine in order and starts one on the same directory.
    pub async fn restart(&mut self, set_up: impl FnOnce(&mut EngineConfig)) {
        self.engine.shutdown().await;
        set_up(&mut self.config);
        let (engine, control, kafka) = start(&self.config, None).await;
        self.engine = engine;
        self.control = control;
        self.kafka = kafka;
    }

    /// Produces `count` records that fill a segment of their own.
    pub async fn segment(&mut self, topic: &str, partition: i32, count: usize, timestamp_ms: i64) -> i64 {
        let value = vec![b'v'; (SEGMENT_BYTES / 2 - 50) / count];
        let records: Vec<ClientRecord> = (0..count)
            .map(|_| ClientRecord::new(timestamp_ms, value.clone()))
            .collect();
        self.kafka.produce(topic, partition, &records).await.unwrap()
    }

    /// Ten segments of ten records, 0-9 to 90-99, the last one active; segment k is 10-k days old.
    pub async fn ten_days(&mut self, topic: &str, partition: i32) {
        for age in (1..=10).rev() {
            self.segment(topic, partition, 10, T - age * DAY).await;
        }
    }

    /// Applies, and answers the verdict.
    pub async fn apply(&mut self, topic: &str, desired: &Desired) -> Verdict {
        self.try_apply(topic, desired).await.unwrap()
    }

    /// Applies, holds verdict and reason against what is expected, and answers the whole verdict.
    pub async fn judged(
        &mut self,
        topic: &str,
        desired: &Desired,
        outcome: Outcome,
        reason: &str,
    ) -> Verdict {
        let verdict = self.apply(topic, desired).await;
        assert_eq!(
            (verdict.verdict, verdict.reason.as_str()),
            (outcome, reason),
            "{}",
            verdict.message
        );
        verdict
    }

    pub async fn try_apply(&mut self, topic: &str, desired: &Desired) -> Result<Verdict, StorageError> {
        self.requests += 1;
        let mut desired = desired.0.clone();
        if desired.request_id.is_empty() {
            desired.request_id = format!("request-{}", self.requests);
        }
        self.control.apply(topic, &desired).await
    }

    pub async fn observe(&self, topic: &str) -> ObservedTopic {
        self.control
            .observe(topic)
            .await
            .unwrap()
            .unwrap_or_else(|| panic!("no topic {topic}"))
    }

    /// The log start offset of a partition.
    pub async fn log_start(&self, topic: &str, partition: usize) -> i64 {
        self.observe(topic).await.partitions[partition].log_start
    }

    pub async fn in_force(&self, topic: &str, key: &str) -> String {
        self.observe(topic).await.in_force.config[key].value.clone()
    }

    /// Runs the pass now.
    pub async fn pass(&self) -> PassReport {
        self.control
            .post("/v1/retention/pass", None::<&()>)
            .await
            .unwrap()
    }

    /// Waits until nothing is held back any more.
    pub async fn resumed(&self, topic: &str) {
        eventually("the change to go in by itself", async || {
            let pending = self.observe(topic).await.pending;
            pending.map_or(Ok(()), |pending| Err(pending.verdict.message))
        })
        .await;
    }

    /// Waits until `/readyz` answers this status and names this reason.
    pub async fn ready(&self, status: u16, reason: &str) {
        let address = self.engine.control_address().unwrap().to_string();
        eventually("the probe to see it", async || {
            let reply = http_get(&address, "/readyz").await;
            if reply.starts_with(&format!("HTTP/1.1 {status}")) && reply.contains(reason) {
                Ok(())
            } else {
                Err(reply)
            }
        })
        .await;
    }

    pub async fn metrics(&self) -> String {
        let address = self.engine.control_address().unwrap();
        http_get(&address.to_string(), "/metrics").await
    }
}

async fn start(config: &EngineConfig, platform: Option<Platform>) -> (Arc<Engine>, ControlClient, Client) {
    let started = match platform {
        Some(platform) => Engine::start_on(config.clone(), platform).await,
        None => Engine::start(config.clone()).await,
    };
    let engine = started.unwrap();
    let control = ControlClient::new(&engine.control_address().unwrap().to_string(), None).unwrap();
    let kafka = Client::connect(engine.listening().unwrap(), "scene")
        .await
        .unwrap();
    (engine, control, kafka)
}

/// One request on a connection of its own; answers head and body.
pub async fn http_get(address: &str, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply
}

/// Asks again until `probe` answers; panics with its last reason when patience is over.
pub async fn eventually<T, E: Display>(what: &str, mut probe: impl AsyncFnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match probe().await {
            Ok(found) => return found,
            Err(reason) if Instant::now() >= deadline => panic!("waited for {what}: {reason}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// What is asked for, built step by step.
#[derive(Clone)]
pub struct Desired(pub DesiredTopic);

impl Desired {
    /// Owned by `orders` in `shop`, with segments that hold one batch each and without limits.
    pub fn new() -> Self {
        let mut config = BTreeMap::new();
        config.insert("internal.segment.bytes".to_owned(), SEGMENT_BYTES.to_string());
        config.insert("retention.ms".to_owned(), "-1".to_owned());
        Self(DesiredTopic {
            owner: Some(owner("uid-1")),
            partitions: Some(1),
            config,
            readers: ReadersPolicy {
                headroom_ms: Some(HEADROOM_MS),
                ..ReadersPolicy::default()
            },
            ..DesiredTopic::default()
        })
    }

    pub fn set(mut self, key: &str, value: impl Display) -> Self {
        self.0.config.insert(key.to_owned(), value.to_string());
        self
    }

    pub fn unset(mut self, key: &str) -> Self {
        self.0.config.remove(key);
        self
    }

    pub fn partitions(mut self, count: i32) -> Self {
        self.0.partitions = Some(count);
        self
    }

    pub fn partition(mut self, partition: i32, key: &str, value: impl Display) -> Self {
        self.0.partition_config.push(PartitionConfig {
            partition,
            config: [(key.to_owned(), value.to_string())].into(),
        });
        self
    }

    pub fn readers(mut self, change: impl FnOnce(&mut ReadersPolicy)) -> Self {
        change(&mut self.0.readers);
        self
    }

    pub fn change(mut self, change: impl FnOnce(&mut DesiredTopic)) -> Self {
        change(&mut self.0);
        self
    }
}

pub fn owner(uid: &str) -> Owner {
    Owner {
        uid: uid.to_owned(),
        namespace: "shop".to_owned(),
        name: "orders".to_owned(),
    }
}

/// The Kafka error code of a refused request.
pub fn code<T: std::fmt::Debug>(result: Result<T, ClientError>) -> (i16, String) {
    match result {
        Err(ClientError::Broker { code, message }) => (code, message.unwrap_or_default()),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Awaits what talks to an engine that is a process of its own.
pub fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}
