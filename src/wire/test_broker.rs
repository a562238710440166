//! A broker for tests of this room: real logs in a temporary directory, everything else in memory.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::log::error::LogError;
use crate::log::files::DiskFiles;
use crate::log::handles::HandleCache;
use crate::log::partition::{Durability, LogStarts, OpenLog, PartitionLog};
use crate::resource::settings::TopicSettings;
use crate::telemetry::clock::{Clock, ManualClock};
use crate::telemetry::metrics::Metrics;
use crate::wire::broker::{
    Broker, Client, ConfigChange, ConfigEntry, ConfigResource, ConfigSource, ConfigType, CreatedTopic,
    Endpoint, LogDirectory, NewTopic, Refusal, Topic,
};
use crate::wire::error_code::ErrorCode;
use crate::wire::groups::GroupService;
use crate::wire::groups::messages as g;
use crate::wire::limits::Limits;
use crate::wire::listener;
use crate::wire::partition::Partition;

#[derive(Debug)]
struct Forgetful;

impl LogStarts for Forgetful {
    fn persist(&self, _: &str, _: i32, _: i64) -> Result<(), LogError> {
        Ok(())
    }
}

/// The broker.
#[derive(Debug)]
pub(crate) struct TestBroker {
    directory: TempDir,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    handles: Arc<HandleCache>,
    topics: Mutex<BTreeMap<String, Arc<Topic>>>,
    next_producer: AtomicI64,
    pub(crate) full: AtomicBool,
    pub(crate) fetched: Mutex<Vec<(Client, Vec<g::FetchPosition>)>>,
    pub(crate) disconnected: Mutex<Vec<Client>>,
    pub(crate) altered: Mutex<Vec<(ConfigResource, ConfigChange, bool)>>,
    pub(crate) auto_create: AtomicBool,
}

/// The wall time of tests: long ago, and still.
pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

impl TestBroker {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            directory: TempDir::new().unwrap(),
            clock: Arc::new(ManualClock::at(NOW_MS)),
            metrics: Metrics::new(),
            handles: HandleCache::new(100),
            topics: Mutex::default(),
            next_producer: AtomicI64::new(1000),
            full: AtomicBool::new(false),
            fetched: Mutex::default(),
            disconnected: Mutex::default(),
            altered: Mutex::default(),
            auto_create: AtomicBool::new(false),
        })
    }

    /// A topic with default settings.
    pub(crate) fn add(&self, name: &str, partitions: i32) -> Arc<Topic> {
        self.add_with(name, partitions, TopicSettings::default())
    }

    pub(crate) fn add_with(&self, name: &str, partitions: i32, settings: TopicSettings) -> Arc<Topic> {
        let settings = Arc::new(settings);
        let partitions = (0..partitions).map(|index| {
            let directory = self.directory.path().join(format!("{name}-{index}"));
            std::fs::create_dir_all(&directory).unwrap();
            let log = PartitionLog::open(OpenLog {
                files: DiskFiles::shared(),
                directory,
                topic: name.to_owned(),
                partition: index,
                settings: Arc::clone(&settings),
                clock: Arc::clone(&self.clock),
                handles: Arc::clone(&self.handles),
                durability: Durability::PageCache,
                log_starts: Arc::new(Forgetful),
                clean: true,
                recovery_point: 0,
                log_start: 0,
                producer_expiration_ms: 86_400_000,
            });
            Partition::online(index, 5, Arc::new(log.unwrap()))
        });
        let topic = Arc::new(Topic {
            name: Arc::from(name),
            id: Uuid::new_v4(),
            internal: name.starts_with("__"),
            partitions: partitions.collect(),
        });
        self.topics.lock().insert(name.to_owned(), Arc::clone(&topic));
        topic
    }

    /// Serves on a free port until the token is cancelled.
    pub(crate) async fn serve(self: &Arc<Self>, limits: Limits) -> (SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(listener::serve(listener, Arc::clone(self), limits, stop.clone()));
        (address, stop)
    }
}

impl Broker for TestBroker {
    fn cluster_id(&self) -> &str {
        "test-cluster"
    }

    fn node_id(&self) -> i32 {
        7
    }

    fn advertised(&self) -> Endpoint {
        Endpoint {
            host: "broker.test".to_owned(),
            port: 9092,
        }
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.topics.lock().get(name).cloned()
    }

    fn topic_by_id(&self, id: Uuid) -> Option<Arc<Topic>> {
        self.topics.lock().values().find(|topic| topic.id == id).cloned()
    }

    fn topics(&self) -> Vec<Arc<Topic>> {
        self.topics.lock().values().cloned().collect()
    }

    fn auto_create_topics(&self) -> bool {
        self.auto_create.load(Ordering::SeqCst)
    }

    fn accepts_produce(&self) -> Result<(), Refusal> {
        if self.full.load(Ordering::SeqCst) {
            return Err(Refusal::new(ErrorCode::KafkaStorageError, "the disk is full"));
        }
        Ok(())
    }

    async fn create_topic(&self, topic: NewTopic, validate_only: bool) -> Result<CreatedTopic, Refusal> {
        if self.topics.lock().contains_key(&topic.name) {
            return Err(Refusal::new(
                ErrorCode::TopicAlreadyExists,
                "Topic already exists.",
            ));
        }
        let partitions = topic.partitions.unwrap_or(1);
        let id = if validate_only {
            Uuid::nil()
        } else {
            self.add(&topic.name, partitions).id
        };
        let config = self.describe_config(&ConfigResource::Broker)?;
        Ok(CreatedTopic {
            id,
            partitions,
            config,
        })
    }

    async fn delete_topic(&self, name: &str) -> Result<(), Refusal> {
        self.topics
            .lock()
            .remove(name)
            .map(|_| ())
            .ok_or_else(|| Refusal::unknown_topic(name))
    }

    async fn create_partitions(&self, topic: &str, count: i32, validate_only: bool) -> Result<(), Refusal> {
        let current = self.topic(topic).map_or(0, |topic| topic.partitions.len());
        if usize::try_from(count).unwrap() <= current {
            return Err(Refusal::new(
                ErrorCode::InvalidPartitions,
                "Topic has enough partitions.",
            ));
        }
        if !validate_only {
            self.add(topic, count);
        }
        Ok(())
    }

    fn describe_config(&self, resource: &ConfigResource) -> Result<Vec<ConfigEntry>, Refusal> {
        if let ConfigResource::Topic(name) = resource {
            self.topic(name).ok_or_else(|| Refusal::unknown_topic(name))?;
        }
        let entry = |name: &str, value: &str, kind| ConfigEntry {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            source: ConfigSource::Default,
            read_only: false,
            kind,
            synonyms: Vec::new(),
            documentation: "what it means".to_owned(),
        };
        Ok(vec![
            entry("retention.ms", "604800000", ConfigType::Long),
            entry("segment.bytes", "1073741824", ConfigType::Int),
        ])
    }

    async fn alter_config(
        &self,
        resource: ConfigResource,
        change: ConfigChange,
        validate_only: bool,
    ) -> Result<(), Refusal> {
        self.altered.lock().push((resource, change, validate_only));
        Ok(())
    }

    async fn delete_records(&self, topic: &str, partition: i32, offset: i64) -> Result<i64, Refusal> {
        let topic = self.topic(topic).unwrap();
        let log = topic.partition(partition).unwrap().log().unwrap();
        let to = if offset == -1 {
            log.high_watermark()
        } else {
            offset
        };
        log.delete_records(to)
            .map_err(|error| Refusal::new(ErrorCode::OffsetOutOfRange, format!("{error:?}")))?;
        Ok(log.log_start())
    }

    async fn next_producer_id(&self) -> Result<i64, Refusal> {
        Ok(self.next_producer.fetch_add(1, Ordering::SeqCst))
    }

    fn log_directory(&self) -> LogDirectory {
        LogDirectory {
            path: "/data/logs".to_owned(),
            total_bytes: 1_000,
            usable_bytes: 500,
            error: None,
        }
    }
}

impl GroupService for TestBroker {
    async fn join(&self, _: g::JoinRequest) -> g::JoinReply {
        std::future::pending().await
    }

    async fn sync(&self, _: g::SyncRequest) -> g::SyncReply {
        std::future::pending().await
    }

    fn heartbeat(&self, _: g::HeartbeatRequest) -> Result<(), ErrorCode> {
        Err(ErrorCode::UnknownMemberId)
    }

    async fn leave(&self, _: &str, _: Vec<g::LeavingMember>) -> g::LeaveReply {
        unreachable!("no test leaves a group")
    }

    async fn commit(&self, _: g::CommitRequest) -> g::PartitionResults {
        unreachable!("no test commits")
    }

    fn fetch_offsets(&self, _: g::FetchOffsetsRequest) -> g::FetchOffsetsReply {
        unreachable!("no test asks for offsets")
    }

    async fn delete_offsets(
        &self,
        _: &str,
        _: Vec<(String, Vec<i32>)>,
    ) -> Result<g::PartitionResults, ErrorCode> {
        Err(ErrorCode::GroupIdNotFound)
    }

    fn describe(&self, _: &str) -> Result<g::DescribedGroup, g::Refusal> {
        unreachable!("no test describes a group")
    }

    fn list(&self, _: &[String], _: &[String]) -> Vec<g::ListedGroup> {
        Vec::new()
    }

    async fn delete_groups(&self, _: Vec<String>) -> Vec<Option<ErrorCode>> {
        Vec::new()
    }

    async fn consumer_heartbeat(
        &self,
        _: g::ConsumerHeartbeatRequest,
    ) -> Result<g::ConsumerHeartbeatReply, g::Refusal> {
        unreachable!("no test beats")
    }

    fn consumer_describe(&self, _: &str) -> Result<g::DescribedConsumerGroup, g::Refusal> {
        unreachable!("no test describes a group")
    }

    fn fetched(&self, client: &Client, positions: &[g::FetchPosition]) {
        self.fetched.lock().push((client.clone(), positions.to_vec()));
    }

    fn disconnected(&self, client: &Client) {
        self.disconnected.lock().push(client.clone());
    }
}
