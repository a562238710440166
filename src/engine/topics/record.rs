//! What is remembered of a topic, and how its layers of settings become the settings of a partition.
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::resource::contract::{
    DeletionPolicy, InForce, Owner, PartitionConfig, PartitionInForce, ReadersPolicy, ValueSource, Verdict,
};
use crate::resource::keys::InvalidValue;
use crate::resource::settings::{self, Overrides, TopicSettings};

/// How many answered requests are remembered of a topic.
const REQUESTS_KEPT: usize = 16;

/// The keys that a status always shows, overridden or not.
const ALWAYS_SHOWN: [&str; 4] = ["retention.ms", "retention.bytes", "segment.ms", "segment.bytes"];

/// The layers above Kafka's defaults, from the lowest to the highest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Layers {
    /// The engine's defaults as they are in force on this topic. They differ from the configured ones while a changed default
    /// waits for a reader.
    pub engine_defaults: Overrides,
    /// The topic's overrides.
    pub config: Overrides,
    /// The overrides of single partitions.
    pub partition_config: BTreeMap<i32, Overrides>,
}

impl Layers {
    /// The settings of one partition.
    ///
    /// # Errors
    /// An unknown key or a value that does not parse, which a checked layer does not hold.
    pub fn settings(&self, partition: i32) -> Result<TopicSettings, InvalidValue> {
        match self.partition_config.get(&partition) {
            Some(own) => TopicSettings::resolve(&[&self.engine_defaults, &self.config, own]),
            None => TopicSettings::resolve(&[&self.engine_defaults, &self.config]),
        }
    }

    /// What is in force, with the source of each value: every key that a layer sets, and those a status always shows.
    pub fn in_force(&self) -> InForce {
        let values = settings::in_force(&[
            (ValueSource::EngineDefault, &self.engine_defaults),
            (ValueSource::Topic, &self.config),
        ]);
        let config = values
            .into_iter()
            .filter(|(key, value)| {
                value.source != ValueSource::Default || ALWAYS_SHOWN.contains(&key.as_str())
            })
            .collect();
        let partition_config = self
            .partition_config
            .iter()
            .filter(|(_, own)| !own.is_empty())
            .map(|(partition, own)| PartitionInForce {
                partition: *partition,
                config: settings::in_force(&[(ValueSource::Partition, own)])
                    .into_iter()
                    .filter(|(_, value)| value.source == ValueSource::Partition)
                    .collect(),
            })
            .collect();
        InForce {
            config,
            partition_config,
        }
    }

    /// The partition overrides in the shape of the contract.
    pub fn partition_overrides(&self) -> Vec<PartitionConfig> {
        self.partition_config
            .iter()
            .map(|(partition, config)| PartitionConfig {
                partition: *partition,
                config: config.clone(),
            })
            .collect()
    }
}

/// A request that was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnsweredRequest {
    /// Its id.
    pub id: String,
    /// The answer.
    pub verdict: Verdict,
}

/// What is remembered of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicRecord {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: i32,
    /// How many of them had their directory made. The rest is made at the next start; one below this number whose directory
    /// is missing was lost, and is never made anew over the loss.
    pub directories: i32,
    /// The highest leader epoch that its partitions were ever led under.
    #[serde(default)]
    pub leader_epoch: i32,
    /// The resource it belongs to.
    #[serde(default)]
    pub owner: Option<Owner>,
    /// The guard's settings.
    #[serde(default)]
    pub readers: ReadersPolicy,
    /// What becomes of the data when the resource is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Whether what waits stays waiting, whatever its readers do.
    #[serde(default)]
    pub paused: bool,
    /// The settings in force.
    pub layers: Layers,
    /// Where part of a change that waits is in force: the settings that it began from. Until all of it is, nothing goes that these
    /// keep and a reader has not read. Kept beside the settings in force, because neither is right without the other.
    #[serde(default)]
    pub before: Option<Layers>,
    /// When it was created or adopted, ms.
    pub created_ms: i64,
    /// When settings last came into force, ms; -1 if never since creation.
    #[serde(default = "never")]
    pub last_applied_ms: i64,
    /// The last answered requests, the oldest first.
    #[serde(default)]
    pub requests: VecDeque<AnsweredRequest>,
}

fn never() -> i64 {
    -1
}

impl TopicRecord {
    /// A topic about to be created.
    pub fn new(name: &str, id: Uuid, partitions: i32, layers: Layers, now_ms: i64) -> Self {
        Self {
            id,
            name: name.to_owned(),
            partitions,
            directories: 0,
            leader_epoch: 0,
            owner: None,
            readers: ReadersPolicy::default(),
            deletion_policy: DeletionPolicy::default(),
            paused: false,
            layers,
            before: None,
            created_ms: now_ms,
            last_applied_ms: -1,
            requests: VecDeque::new(),
        }
    }

    /// The settings that a change is held against: those in force, or where a change is in force in part those before it. A
    /// limit that is as low as is safe now would take more with every moment.
    pub fn granted(&self) -> &Layers {
        self.before.as_ref().unwrap_or(&self.layers)
    }

    /// The answer to an earlier request that is repeated after a newer one. The newest is not among them: it is evaluated
    /// again, which finds everything done or repairs what somebody else changed since.
    pub fn stale_answer(&self, request_id: &str) -> Option<&Verdict> {
        let newest = self.requests.len().checked_sub(1)?;
        self.requests
            .iter()
            .take(newest)
            .find(|answered| !request_id.is_empty() && answered.id == request_id)
            .map(|answered| &answered.verdict)
    }

    /// Remembers an answer.
    pub fn answered(&mut self, request_id: &str, verdict: &Verdict) {
        if request_id.is_empty() {
            return;
        }
        self.requests.retain(|answered| answered.id != request_id);
        self.requests.push_back(AnsweredRequest {
            id: request_id.to_owned(),
            verdict: verdict.clone(),
        });
        while self.requests.len() > REQUESTS_KEPT {
            self.requests.pop_front();
        }
    }

    /// As stored.
    pub fn encode(&self) -> Vec<u8> {
        // Plain data with string keys; there is nothing in it that JSON cannot hold.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// From the store.
    ///
    /// # Errors
    /// Bytes that are no record.
    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// A topic whose deletion has begun: what is on disk under this id may go, whatever else is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionRecord {
    /// The id.
    pub id: Uuid,
    /// The name.
    pub name: String,
    /// How many partitions it had.
    pub partitions: i32,
    /// When the deletion was asked for, ms.
    pub at_ms: i64,
    /// How long the directories stay after that, ms.
    pub delay_ms: i64,
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
