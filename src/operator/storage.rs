//! The narrow door to whatever stores topics: observe, plan, apply, delete, watch.
//!
//! The operator knows storage only through [`Storage`]. [`ControlClient`](super::control_client::ControlClient) reaches
//! an engine over its control API; another storage (an Apache Kafka cluster) would implement the same five calls.
use std::fmt::Debug;

use futures::stream::BoxStream;
use thiserror::Error;

use crate::resource::contract::{DeleteTopic, DesiredTopic, EngineEvent, ObservedTopic, Problem, Verdict};

/// Why a call did not give an answer, or gave a refusal.
#[derive(Debug, Clone, Error)]
pub enum StorageError {
    /// Nobody answered, or not in time. Whether a change was made is not known: observe, then ask again.
    #[error("the engine cannot be reached: {0}")]
    Unreachable(String),
    /// The engine answered with a problem.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The answer is not one of this contract.
    #[error("the engine's answer is not understood: {0}")]
    Garbled(String),
}

impl StorageError {
    /// The stable code of a refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(problem.code.as_str()),
            Self::Unreachable(_) | Self::Garbled(_) => None,
        }
    }
}

/// Codes of [`Problem`] that the operator decides by.
pub mod code {
    /// No such topic.
    pub const TOPIC_NOT_FOUND: &str = "topicNotFound";
    /// A setting is unknown or out of range.
    pub const INVALID: &str = "invalid";
    /// Another resource owns the topic.
    pub const CONFLICT: &str = "conflict";
    /// The name collides with another topic's.
    pub const NAME_COLLISION: &str = "nameCollision";
    /// Fewer partitions than there are.
    pub const PARTITION_DECREASE: &str = "partitionDecrease";
    /// The data directory belongs to another cluster.
    pub const IDENTITY_MISMATCH: &str = "identityMismatch";
    /// The file system cannot lock.
    pub const LOCK_UNSUPPORTED: &str = "lockUnsupported";
    /// Storage does not take the change now.
    pub const STORAGE: &str = "storage";
    /// Still loading.
    pub const NOT_READY: &str = "notReady";
    /// No token, or a wrong one.
    pub const UNAUTHORIZED: &str = "unauthorized";
}

/// Stores topics. Every call may be repeated: the state after two equal calls is that after one.
pub trait Storage: Debug + Send + Sync + 'static {
    /// The topic as it is; `None` if there is none of this name.
    fn observe(
        &self,
        topic: &str,
    ) -> impl Future<Output = Result<Option<ObservedTopic>, StorageError>> + Send;

    /// Every topic.
    fn list(&self) -> impl Future<Output = Result<Vec<ObservedTopic>, StorageError>> + Send;

    /// What applying would do; nothing is changed.
    fn plan(
        &self,
        topic: &str,
        desired: &DesiredTopic,
    ) -> impl Future<Output = Result<Verdict, StorageError>> + Send;

    /// Brings the topic to the desired state, past the guard.
    fn apply(
        &self,
        topic: &str,
        desired: &DesiredTopic,
    ) -> impl Future<Output = Result<Verdict, StorageError>> + Send;

    /// Deletes or releases the topic, past the guard; a topic that is not there is success.
    fn delete(
        &self,
        topic: &str,
        request: &DeleteTopic,
    ) -> impl Future<Output = Result<Verdict, StorageError>> + Send;

    /// Wake-ups from now on. The stream ends when the connection does; whoever listens opens another and looks at
    /// everything again.
    fn watch(
        &self,
    ) -> impl Future<Output = Result<BoxStream<'static, Result<EngineEvent, StorageError>>, StorageError>> + Send;
}
