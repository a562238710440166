//! A storage in memory that can be slow, away, lying or guarded, for tests of the rounds.
use std::collections::BTreeMap;

use futures::stream::{self, BoxStream, StreamExt as _};
use parking_lot::Mutex;

use super::storage::{Storage, StorageError, code};
use crate::resource::contract::{
    DeleteTopic, DeletionPolicy, DesiredTopic, EngineEvent, Health, InForce, ObservedPartition,
    ObservedTopic, OnLoss, Outcome, PartitionInForce, PendingChange, Problem, ReaderAtRisk, ReaderKind,
    ReadersSummary, Verdict, Volume,
};
use crate::resource::settings::{self, EffectiveValue, Overrides, ValueSource};

/// How the storage behaves.
#[derive(Debug, Default)]
pub struct Behaviour {
    /// Nobody answers.
    pub away: bool,
    /// Changes are made, but the reply is lost.
    pub replies_lost: bool,
    /// Success is answered, and the old settings stay.
    pub lies: bool,
    /// Position of a reader called `billing` that a lowering must not pass: while it is set, lowerings wait.
    pub reader_at: Option<i64>,
    /// Topics whose names collide with everything.
    pub collides: bool,
    /// What the file system says its size is, where it is not what it is for every other test.
    pub volume_bytes: Option<i64>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct FakeStorage {
    /// How it behaves.
    pub behaviour: Mutex<Behaviour>,
    /// What it holds.
    pub topics: Mutex<BTreeMap<String, ObservedTopic>>,
    /// Every change that was asked for.
    pub calls: Mutex<Vec<String>>,
}

fn retention_ms(config: &Overrides) -> i64 {
    let text = config.get("retention.ms").map_or("604800000", String::as_str);
    text.parse().ok().filter(|ms| *ms >= 0).unwrap_or(i64::MAX)
}

fn in_force(desired: &DesiredTopic) -> InForce {
    let all = settings::in_force(&[(ValueSource::Topic, &desired.config)]);
    let shown = |key: &str| ["retention.ms", "retention.bytes", "segment.ms", "segment.bytes"].contains(&key);
    InForce {
        config: all
            .into_iter()
            .filter(|(key, value)| value.source == ValueSource::Topic || shown(key))
            .collect(),
        partition_config: desired
            .partition_config
            .iter()
            .map(|entry| PartitionInForce {
                partition: entry.partition,
                config: entry
                    .config
                    .iter()
                    .map(|(key, value)| {
                        (
                            key.clone(),
                            EffectiveValue {
                                value: value.clone(),
                                source: ValueSource::Partition,
                            },
                        )
                    })
                    .collect(),
            })
            .collect(),
    }
}

/// A verdict with nothing in it.
pub fn verdict(outcome: Outcome, reason: &str, message: &str) -> Verdict {
    serde_json::from_value(serde_json::json!({
        "verdict": outcome, "reason": reason, "message": message, "readersChecked": 1,
    }))
    .expect("a verdict")
}

impl FakeStorage {
    fn present(&self) -> Result<(), StorageError> {
        if self.behaviour.lock().away {
            Err(StorageError::Unreachable("connection refused".to_owned()))
        } else {
            Ok(())
        }
    }

    fn answer(&self, verdict: Verdict) -> Result<Verdict, StorageError> {
        if self.behaviour.lock().replies_lost {
            return Err(StorageError::Unreachable("no answer within 10 s".to_owned()));
        }
        Ok(verdict)
    }

    /// A refusal.
    pub fn problem(code: &str, detail: &str) -> StorageError {
        StorageError::Refused(Box::new(Problem {
            kind: "about:blank".to_owned(),
            title: code.to_owned(),
            status: 409,
            detail: detail.to_owned(),
            code: code.to_owned(),
            reason: None,
            field: None,
            owner: None,
        }))
    }

    /// The reader catches up: what waits goes in, as in the engine.
    pub fn catch_up(&self) {
        self.behaviour.lock().reader_at = None;
        let mut topics = self.topics.lock();
        topics.retain(|_, topic| {
            topic.paused || topic.pending.as_ref().is_none_or(|pending| !pending.deletion)
        });
        for topic in topics.values_mut().filter(|topic| !topic.paused) {
            if let Some(pending) = topic.pending.take() {
                let desired = DesiredTopic {
                    config: pending.config,
                    partition_config: pending.partition_config,
                    ..DesiredTopic::default()
                };
                topic.in_force = in_force(&desired);
            }
        }
    }

    fn judge(&self, topic: &ObservedTopic, desired: &DesiredTopic) -> Option<Verdict> {
        let position = self.behaviour.lock().reader_at?;
        let now = topic
            .in_force
            .config
            .iter()
            .map(|(key, value)| (key.clone(), value.value.clone()))
            .collect();
        if retention_ms(&desired.config) >= retention_ms(&now) || desired.readers.on_loss == OnLoss::Allow {
            return None;
        }
        let mut refused = verdict(
            Outcome::Refused,
            "SlowReader",
            &format!("billing is at {position} of partition 0 and would lose 10"),
        );
        refused.pending = true;
        refused.readers_at_risk = vec![ReaderAtRisk {
            kind: ReaderKind::Group,
            name: "billing".to_owned(),
            partition: 0,
            position: Some(position),
            records_at_risk: 10,
            behind_ms: None,
            detail: None,
        }];
        Some(refused)
    }
}

impl Storage for FakeStorage {
    async fn observe(&self, topic: &str) -> Result<Option<ObservedTopic>, StorageError> {
        self.present()?;
        let mut found = self.topics.lock().get(topic).cloned();
        if let (Some(topic), Some(bytes)) = (&mut found, self.behaviour.lock().volume_bytes) {
            topic.volume.total_bytes = bytes;
        }
        Ok(found)
    }

    async fn list(&self) -> Result<Vec<ObservedTopic>, StorageError> {
        self.present()?;
        Ok(self.topics.lock().values().cloned().collect())
    }

    async fn plan(&self, _: &str, _: &DesiredTopic) -> Result<Verdict, StorageError> {
        self.present()?;
        Ok(verdict(Outcome::Unchanged, "Applied", ""))
    }

    async fn apply(&self, name: &str, desired: &DesiredTopic) -> Result<Verdict, StorageError> {
        self.present()?;
        self.calls.lock().push(format!("apply {name}"));
        if self.behaviour.lock().collides {
            return Err(Self::problem(code::NAME_COLLISION, "collides with a.b_c"));
        }
        let mut topics = self.topics.lock();
        let count = topics.len();
        let new = !topics.contains_key(name);
        let topic = topics
            .entry(name.to_owned())
            .or_insert_with(|| observed(name, &format!("id-{count}"), desired));
        if let (Some(owner), Some(asks)) = (&topic.owner, &desired.owner)
            && owner.uid != asks.uid
            && desired.takes_over.as_ref() != Some(&owner.uid)
        {
            return Err(Self::problem(code::CONFLICT, "somebody else's"));
        }
        topic.owner.clone_from(&desired.owner);
        topic.readers_policy = desired.readers.clone();
        topic.deletion_policy = desired.deletion_policy;
        topic.paused = desired.paused;
        if desired.paused {
            topic.pending.take_if(|pending| pending.deletion);
            return self.answer(verdict(Outcome::Refused, "Paused", "the topic is paused"));
        }
        let asked = usize::try_from(desired.partitions.unwrap_or(1)).expect("positive");
        while topic.partitions.len() < asked {
            let partition = i32::try_from(topic.partitions.len()).expect("few");
            topic.partitions.push(partition_of(partition));
        }
        if !new && let Some(refused) = self.judge(topic, desired) {
            topic.pending = Some(PendingChange {
                request_id: desired.request_id.clone(),
                since_ms: 1_000,
                deletion: false,
                config: desired.config.clone(),
                partition_config: desired.partition_config.clone(),
                verdict: refused.clone(),
            });
            return self.answer(refused);
        }
        topic.pending = None;
        if !self.behaviour.lock().lies {
            topic.in_force = in_force(desired);
        }
        self.answer(verdict(
            Outcome::Applied,
            "Applied",
            "all readers keep what they have not read",
        ))
    }

    async fn delete(&self, name: &str, request: &DeleteTopic) -> Result<Verdict, StorageError> {
        self.present()?;
        self.calls
            .lock()
            .push(format!("delete {name} {:?}", request.policy));
        let mut topics = self.topics.lock();
        let Some(topic) = topics.get_mut(name) else {
            return self.answer(verdict(Outcome::Unchanged, "Unchanged", "not there"));
        };
        if topic
            .owner
            .as_ref()
            .is_none_or(|owner| owner.uid != request.owner)
        {
            return Err(Self::problem(code::CONFLICT, "somebody else's"));
        }
        if request.policy == Some(DeletionPolicy::Retain) {
            topic.owner = None;
            return self.answer(verdict(Outcome::Applied, "Applied", "released"));
        }
        if self.behaviour.lock().reader_at.is_some() {
            let refused = verdict(Outcome::Refused, "SlowReader", "billing would lose 10");
            topic.pending = Some(PendingChange {
                request_id: request.request_id.clone(),
                since_ms: 1_000,
                deletion: true,
                config: Overrides::new(),
                partition_config: Vec::new(),
                verdict: refused.clone(),
            });
            return self.answer(refused);
        }
        topics.remove(name);
        self.answer(verdict(Outcome::Applied, "Applied", "deleted"))
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<EngineEvent, StorageError>>, StorageError> {
        self.present()?;
        Ok(stream::pending().boxed())
    }
}

fn partition_of(partition: i32) -> ObservedPartition {
    serde_json::from_value(serde_json::json!({
        "partition": partition, "logStart": 0, "highWatermark": 100, "logEnd": 100, "sizeBytes": 1000, "segments": 1,
    }))
    .expect("a partition")
}

fn observed(name: &str, id: &str, desired: &DesiredTopic) -> ObservedTopic {
    ObservedTopic {
        name: name.to_owned(),
        id: id.to_owned(),
        owner: None,
        readers_policy: desired.readers.clone(),
        deletion_policy: desired.deletion_policy,
        paused: false,
        in_force: in_force(desired),
        pending: None,
        partitions: vec![partition_of(0)],
        readers: ReadersSummary {
            checked: 1,
            slowest: None,
        },
        health: Health::healthy(),
        volume: Volume {
            total_bytes: 100 << 30,
            free_bytes: 50 << 30,
        },
        last_applied_ms: 5_000,
        next_pass_ms: 0,
    }
}
