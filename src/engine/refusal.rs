//! Why the engine does not do what it was asked, in one list: each becomes a Kafka error code for a client and a problem
//! document for the control API, in exhaustive matches, so that a new reason cannot go unmapped.
use crate::engine::store::StoreError;
use crate::resource::contract::{Owner, Problem, Verdict};
use crate::resource::keys::InvalidValue;
use crate::wire::error_code::ErrorCode;

/// Why not.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refusal {
    /// No topic of that name.
    #[error("there is no topic {name}")]
    UnknownTopic {
        /// The name asked for.
        name: String,
    },
    /// No such partition.
    #[error("topic {name} has no partition {partition}; it has {count}")]
    UnknownPartition {
        /// The topic.
        name: String,
        /// The partition asked for.
        partition: i32,
        /// How many there are.
        count: i32,
    },
    /// A topic of that name is there.
    #[error("Topic '{name}' already exists.")]
    TopicExists {
        /// The name.
        name: String,
    },
    /// The name breaks Kafka's rules.
    #[error("topicName {name:?}: {reason}")]
    InvalidName {
        /// The name.
        name: String,
        /// The rule.
        reason: String,
    },
    /// The name differs from another one only in dots and underscores.
    #[error(
        "topic {name} collides with existing topic {other}: they differ only in '.' and '_', which share a metric name"
    )]
    NameCollision {
        /// The name.
        name: String,
        /// The topic that is there.
        other: String,
    },
    /// A number of partitions that cannot be.
    #[error("{0}")]
    InvalidPartitions(String),
    /// A value that a setting does not take.
    #[error("{field}: {message}")]
    InvalidConfig {
        /// `config.retention.ms`, `partitionConfig[3].retention.ms`.
        field: String,
        /// What is wrong, with value and bound.
        message: String,
    },
    /// A request that makes no sense.
    #[error("{0}")]
    InvalidRequest(String),
    /// An offset that is not there.
    #[error("{0}")]
    OffsetOutOfRange(String),
    /// The guard holds it back.
    #[error("{}", .0.message)]
    Guarded(Box<Verdict>),
    /// A rule of this engine forbids it.
    #[error("{0}")]
    Policy(String),
    /// The topic belongs to somebody else.
    #[error("topic {name} belongs to {}/{} (uid {})", owner.namespace, owner.name, owner.uid)]
    Conflict {
        /// The topic.
        name: String,
        /// Who has it.
        owner: Owner,
    },
    /// Storage does not take it now.
    #[error("{message}")]
    Storage {
        /// As in `StorageHealthy`: `DiskFull`, `ReadOnly`, …
        reason: &'static str,
        /// The sentence.
        message: String,
    },
    /// The engine is stopping.
    #[error("the engine is stopping")]
    Stopping,
}

impl Refusal {
    /// An invalid value, under the field it was written in.
    pub fn invalid(prefix: &str, error: &InvalidValue) -> Self {
        let field = match error.key() {
            Some(key) => format!("{prefix}.{key}"),
            None => prefix.to_owned(),
        };
        Self::InvalidConfig {
            field,
            message: error.to_string(),
        }
    }

    /// The error code for a Kafka client.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::UnknownTopic { .. } | Self::UnknownPartition { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::TopicExists { .. } => ErrorCode::TopicAlreadyExists,
            Self::InvalidName { .. } | Self::NameCollision { .. } => ErrorCode::InvalidTopicException,
            Self::InvalidPartitions(_) => ErrorCode::InvalidPartitions,
            Self::InvalidConfig { .. } => ErrorCode::InvalidConfig,
            Self::InvalidRequest(_) => ErrorCode::InvalidRequest,
            Self::OffsetOutOfRange(_) => ErrorCode::OffsetOutOfRange,
            Self::Guarded(_) | Self::Policy(_) | Self::Conflict { .. } => ErrorCode::PolicyViolation,
            Self::Storage { .. } => ErrorCode::KafkaStorageError,
            Self::Stopping => ErrorCode::NotController,
        }
    }

    /// The message for a Kafka client; for settings the field prefix of the control API is left out.
    pub fn client_message(&self) -> String {
        match self {
            Self::InvalidConfig { message, .. } => message.clone(),
            other => other.to_string(),
        }
    }

    /// The problem document for the control API.
    pub fn problem(&self) -> Problem {
        let (status, title, code) = match self {
            Self::UnknownTopic { .. } => (404, "Not Found", "topicNotFound"),
            Self::UnknownPartition { .. } => (404, "Not Found", "partitionNotFound"),
            Self::TopicExists { .. } => (409, "Conflict", "topicExists"),
            Self::InvalidName { .. } | Self::InvalidConfig { .. } => {
                (422, "Unprocessable Content", "invalid")
            }
            Self::InvalidPartitions(_) => (422, "Unprocessable Content", "invalid"),
            Self::NameCollision { .. } => (409, "Conflict", "nameCollision"),
            Self::InvalidRequest(_) => (400, "Bad Request", "invalidRequest"),
            Self::OffsetOutOfRange(_) => (422, "Unprocessable Content", "offsetOutOfRange"),
            Self::Guarded(_) => (409, "Conflict", "readersAtRisk"),
            Self::Policy(_) => (403, "Forbidden", "policy"),
            Self::Conflict { .. } => (409, "Conflict", "conflict"),
            Self::Storage { .. } => (503, "Service Unavailable", "storage"),
            Self::Stopping => (503, "Service Unavailable", "notReady"),
        };
        let field = match self {
            Self::InvalidConfig { field, .. } => Some(field.clone()),
            Self::InvalidName { .. } => Some("topicName".to_owned()),
            Self::InvalidPartitions(_) => Some("partitions".to_owned()),
            _ => None,
        };
        let owner = match self {
            Self::Conflict { owner, .. } => Some(owner.clone()),
            _ => None,
        };
        let reason = match self {
            Self::Storage { reason, .. } => Some((*reason).to_owned()),
            Self::Stopping => Some("Recovering".to_owned()),
            _ => None,
        };
        Problem {
            kind: "about:blank".to_owned(),
            title: title.to_owned(),
            status,
            detail: self.to_string(),
            code: code.to_owned(),
            reason,
            field,
            owner,
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let reason = match &error {
            StoreError::Full { .. } => "DiskFull",
            StoreError::ReadOnly { .. } => "ReadOnly",
            StoreError::Io { .. } | StoreError::Unreadable { .. } => "Corrupt",
            StoreError::Closed => return Self::Stopping,
        };
        Self::Storage {
            reason,
            message: error.to_string(),
        }
    }
}
