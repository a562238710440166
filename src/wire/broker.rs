//! What the protocol needs of the storage engine, in the words of the field and without wire types.
//!
//! The engine implements [`Broker`]; nothing here knows how it keeps topics. A refusal always carries an
//! [`ErrorCode`] and a message for people: what was refused, with field, value and bound.
use std::sync::Arc;

use uuid::Uuid;

use crate::telemetry::clock::Clock;
use crate::telemetry::metrics::Metrics;
use crate::wire::error_code::ErrorCode;
pub use crate::wire::groups::messages::Client;
use crate::wire::partition::Partition;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code a client acts on.
    pub code: ErrorCode,
    /// The sentence a person reads.
    pub message: String,
}

impl Refusal {
    /// A refusal with its message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// No such topic.
    pub fn unknown_topic(name: &str) -> Self {
        Self::new(
            ErrorCode::UnknownTopicOrPartition,
            format!("This server does not host the topic {name}."),
        )
    }

    /// No such partition of an existing topic.
    pub fn unknown_partition(name: &str, partition: i32) -> Self {
        Self::new(
            ErrorCode::UnknownTopicOrPartition,
            format!("This server does not host partition {partition} of topic {name}."),
        )
    }
}

/// A topic as it stands; replaced as a whole when partitions are added.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its id (KIP-516); never nil.
    pub id: Uuid,
    /// Whether clients are told that it is internal.
    pub internal: bool,
    /// Its partitions, by number.
    pub partitions: Vec<Arc<Partition>>,
}

impl Topic {
    /// The partition with this number.
    pub fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.partitions.get(index))
    }
}

/// The address clients are told to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// A topic to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name; Kafka's naming and collision rules apply.
    pub name: String,
    /// How many partitions; `None` for the engine's default (`num.partitions`).
    pub partitions: Option<i32>,
    /// Settings by Kafka's topic key; a null value is INVALID_CONFIG.
    pub config: Vec<(String, Option<String>)>,
}

/// What a creation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// The new id; nil when only validated.
    pub id: Uuid,
    /// The number of partitions.
    pub partitions: i32,
    /// Every topic key with the value that is in force.
    pub config: Vec<ConfigEntry>,
}

/// Where a value comes from (Kafka's `ConfigEntry.ConfigSource`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigSource {
    /// Set on the topic.
    DynamicTopic = 1,
    /// Set on this broker at run time.
    DynamicBroker = 2,
    /// Set for all brokers at run time.
    DynamicDefaultBroker = 3,
    /// Given at start.
    StaticBroker = 4,
    /// Kafka's default.
    Default = 5,
}

/// The type of a value (Kafka's `ConfigDef.Type` as it goes over the wire).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigType {
    /// true or false.
    Boolean = 1,
    /// Text.
    String = 2,
    /// A 32-bit integer.
    Int = 3,
    /// A 16-bit integer.
    Short = 4,
    /// A 64-bit integer.
    Long = 5,
    /// A floating-point number.
    Double = 6,
    /// Values separated by commas.
    List = 7,
}

/// One setting with its value and origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Kafka's key.
    pub name: String,
    /// The value in force; `None` for a key without one.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: ConfigSource,
    /// Cannot be changed over the wire.
    pub read_only: bool,
    /// Its type.
    pub kind: ConfigType,
    /// Every layer that has a value, the one in force first.
    pub synonyms: Vec<ConfigSynonym>,
    /// What it means.
    pub documentation: String,
}

/// One layer's value of a setting, under that layer's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The key in that layer, such as `log.retention.ms`.
    pub name: String,
    /// The value there.
    pub value: Option<String>,
    /// The layer.
    pub source: ConfigSource,
}

/// What settings are asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigResource {
    /// A topic by name.
    Topic(String),
    /// This broker.
    Broker,
    /// The defaults of all brokers.
    BrokerDefaults,
}

/// A change of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// `AlterConfigs`: these become the whole set of overrides.
    Replace(Vec<(String, Option<String>)>),
    /// `IncrementalAlterConfigs`: single keys are changed.
    Edit(Vec<ConfigEdit>),
}

/// One step of an incremental change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEdit {
    /// Kafka's key.
    pub name: String,
    /// What to do with it.
    pub operation: ConfigOperation,
    /// The operand; null in a SET is INVALID_REQUEST.
    pub value: Option<String>,
}

/// The operations of KIP-339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOperation {
    /// Sets the value.
    Set,
    /// Back to the next layer's value.
    Delete,
    /// Adds to a list.
    Append,
    /// Takes from a list.
    Subtract,
}

/// The directory partitions live in, for `DescribeLogDirs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDirectory {
    /// Its absolute path.
    pub path: String,
    /// Size of the volume in bytes; -1 when unknown.
    pub total_bytes: i64,
    /// Bytes still free for us; -1 when unknown.
    pub usable_bytes: i64,
    /// Set when the directory cannot be used.
    pub error: Option<ErrorCode>,
}

/// The storage engine as the protocol sees it.
///
/// Look-ups are cheap and never wait. What writes state is asynchronous and durable once it answers.
pub trait Broker: Send + Sync + 'static {
    /// The id of the cluster, stable over restarts.
    fn cluster_id(&self) -> &str;

    /// The id of this node.
    fn node_id(&self) -> i32;

    /// Where clients are to connect.
    fn advertised(&self) -> Endpoint;

    /// The time.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// Where requests are counted.
    fn metrics(&self) -> &Metrics;

    /// The topic of this name.
    fn topic(&self, name: &str) -> Option<Arc<Topic>>;

    /// The topic with this id.
    fn topic_by_id(&self, id: Uuid) -> Option<Arc<Topic>>;

    /// Every topic, by name.
    fn topics(&self) -> Vec<Arc<Topic>>;

    /// Whether Metadata may create what it does not find (`auto.create.topics.enable`; off unless set).
    fn auto_create_topics(&self) -> bool {
        false
    }

    /// Whether records may be written now. A full disk or a read-only volume refuses with a retriable code.
    fn accepts_produce(&self) -> Result<(), Refusal>;

    /// Waits until what was appended up to `log_end` of each partition is as durable as the engine promises an
    /// acknowledgement to be; at once unless acknowledgements wait for the disk.
    fn make_durable(
        &self,
        appended: &[(Arc<Partition>, i64)],
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = appended;
        std::future::ready(Ok(()))
    }

    /// Creates a topic; with `validate_only` checks all and changes nothing.
    fn create_topic(
        &self,
        topic: NewTopic,
        validate_only: bool,
    ) -> impl Future<Output = Result<CreatedTopic, Refusal>> + Send;

    /// Deletes a topic and its records (guarded).
    fn delete_topic(&self, name: &str) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// Grows a topic to `count` partitions.
    fn create_partitions(
        &self,
        topic: &str,
        count: i32,
        validate_only: bool,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// Every setting of a resource with value, source and synonyms.
    fn describe_config(&self, resource: &ConfigResource) -> Result<Vec<ConfigEntry>, Refusal>;

    /// Changes settings (guarded). The whole resulting set is validated.
    fn alter_config(
        &self,
        resource: ConfigResource,
        change: ConfigChange,
        validate_only: bool,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// Moves the log start offset up to `offset`, -1 for the high watermark (guarded); answers the new log start.
    /// Durable once answered.
    fn delete_records(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> impl Future<Output = Result<i64, Refusal>> + Send;

    /// A producer id no one was given before.
    fn next_producer_id(&self) -> impl Future<Output = Result<i64, Refusal>> + Send;

    /// The log directory.
    fn log_directory(&self) -> LogDirectory;
}
