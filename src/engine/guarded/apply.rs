//! Desired state in, verdict out.
//!
//! One lock orders all changes; the gate keeps commits and passes out from the look at the readers until the new settings
//! are in force. They are durable before they are in force, and in force before the first deletion under them.
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::accepted::AcceptedLosses;
use crate::engine::guarded::evaluate::{Change, Evaluation, describe};
use crate::engine::guarded::layers;
use crate::engine::guarded::pending::{Pending, PendingRecord, Seen, Target};
use crate::engine::refusal::Refusal;
use crate::engine::store::{Batch, Table};
use crate::engine::topics::alter;
use crate::engine::topics::catalog::TopicState;
use crate::engine::topics::create::{Changes, partitions_of};
use crate::engine::topics::record::{Layers, TopicRecord};
use crate::resource::contract::{
    DesiredTopic, EventKind, InForce, NotApplied, Outcome, Owner, PartitionConfig, Verdict,
};
use crate::resource::settings::Overrides;
use crate::retention::{Cause, Decision};

/// What becomes of the change that waits on a topic.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// Nothing waits any more.
    Drop,
    /// This waits.
    Put(PendingRecord),
    /// What waits, or that nothing does, stays as it is.
    Keep,
}

/// How a change that is committed came about, for the event that tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// Somebody asked.
    Asked,
    /// It had waited.
    Resumed,
}

impl Engine {
    /// Applies the whole desired state of a topic, past the guard. Blocks.
    ///
    /// # Errors
    /// What makes no sense, belongs to somebody else, or cannot be stored. That a reader is in the way is no error but a
    /// verdict.
    pub fn apply(&self, name: &str, desired: &DesiredTopic) -> Result<Verdict, Refusal> {
        self.settle(name, desired, false)
    }

    /// What [`Self::apply`] would answer, and nothing changed.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn plan(&self, name: &str, desired: &DesiredTopic) -> Result<Verdict, Refusal> {
        self.settle(name, desired, true)
    }

    fn settle(&self, name: &str, desired: &DesiredTopic, dry_run: bool) -> Result<Verdict, Refusal> {
        let changes = self.lock_changes()?;
        let config = alter::check(&desired.config, "config")?;
        let partition_config = check_partitions(&desired.partition_config)?;
        let Some(topic) = self.catalog.by_name(name) else {
            return self.settle_new(&changes, name, desired, config, partition_config, dry_run);
        };
        check_owner(&topic, desired)?;
        if let Some(answer) = topic.record.stale_answer(&desired.request_id) {
            return Ok(answer.clone());
        }
        let mut not_applied = Vec::new();
        let topic = match self.settle_count(&changes, &topic, desired.partitions, dry_run) {
            Ok(topic) => topic,
            Err(Refusal::InvalidPartitions(message)) => {
                let decreased = desired
                    .partitions
                    .is_some_and(|count| count < topic.record.partitions);
                let reason = if decreased { "PartitionDecrease" } else { "Invalid" };
                not_applied.push(NotApplied {
                    reason: reason.to_owned(),
                    message,
                });
                topic
            }
            Err(refusal) => return Err(refusal),
        };
        let beyond = partition_config
            .keys()
            .find(|partition| **partition >= topic.record.partitions);
        if let Some(partition) = beyond {
            return Err(Refusal::InvalidConfig {
                field: format!("partitionConfig[{partition}]"),
                message: format!("the topic has {} partitions", topic.record.partitions),
            });
        }
        let target = Target::Settings {
            config,
            partition_config,
        };
        let proposed = self.layers_of(&target);
        let mut record = topic.record.clone();
        record.owner = desired.owner.clone();
        record.readers = desired.readers.clone();
        record.deletion_policy = desired.deletion_policy;
        record.paused = desired.paused;

        let gate = self.gate.change();
        let evaluation = self.evaluate(&topic, Change::Settings(&proposed), &record.readers);
        fail::fail_point!("guarded::checked");
        let mut verdict = evaluation.verdict(&topic);
        verdict.not_applied = not_applied;
        let Coming {
            layers,
            waits,
            before: began,
        } = if record.paused {
            self.outcome_under_pause(&topic, &proposed, &mut verdict)
        } else {
            outcome(topic.record.granted(), &proposed, &evaluation)
        };
        let settings_changed = layers != record.layers;
        record.layers = layers;
        record.before = began;
        if !waits && !settings_changed {
            verdict.verdict = Outcome::Unchanged;
        }
        verdict.pending = waits;
        verdict.in_force = record.layers.in_force();
        if dry_run {
            return Ok(verdict);
        }
        let before = self.pending.get(name);
        let waiting = match (&before, waits) {
            (None, false) => Waiting::Keep,
            (Some(_), false) => Waiting::Drop,
            (Some(before), true) if before.record.target == target => Waiting::Keep,
            (_, true) => Waiting::Put(PendingRecord {
                target,
                request_id: desired.request_id.clone(),
                since_ms: self.config.clock.wall_ms(),
            }),
        };
        let newest_request = record.requests.back().map(|answered| answered.id.as_str());
        let same_request = desired.request_id.is_empty() || newest_request == Some(&desired.request_id);
        if same_request && record == topic.record && matches!(waiting, Waiting::Keep) {
            // Nothing to write down: asking again for what is there costs no write.
            self.note_waiting(name, &topic, &evaluation, &verdict, None);
            return Ok(verdict);
        }
        record.answered(&desired.request_id, &verdict);
        if settings_changed {
            record.last_applied_ms = self.config.clock.wall_ms();
        }
        let accepted = match verdict.verdict {
            Outcome::Applied => evaluation.accepted(&topic),
            _ => AcceptedLosses::default(),
        };
        let told = self.commit_record(&topic, record, &waiting, &accepted)?;
        let newly = match waiting {
            Waiting::Put(record) => Some(record),
            Waiting::Drop | Waiting::Keep => None,
        };
        let was_put = newly.is_some();
        if waits {
            self.note_waiting(name, &told, &evaluation, &verdict, newly);
        }
        drop(gate);
        self.tell_outcome(
            &told,
            &evaluation,
            &verdict,
            settings_changed,
            was_put,
            Occasion::Asked,
        );
        Ok(verdict)
    }

    fn settle_new(
        &self,
        changes: &Changes<'_>,
        name: &str,
        desired: &DesiredTopic,
        config: Overrides,
        partition_config: BTreeMap<i32, Overrides>,
        dry_run: bool,
    ) -> Result<Verdict, Refusal> {
        let partitions = desired.partitions.unwrap_or(self.config.default_partitions);
        self.check_new_topic(name, partitions)?;
        if let Some(beyond) = partition_config
            .keys()
            .find(|partition| **partition >= partitions)
        {
            return Err(Refusal::InvalidConfig {
                field: format!("partitionConfig[{beyond}]"),
                message: format!("the topic is to have {partitions} partitions"),
            });
        }
        let layers = Layers {
            engine_defaults: self.config.defaults.clone(),
            config,
            partition_config,
        };
        let mut record = self.new_record(name, partitions, layers);
        record.owner = desired.owner.clone();
        record.readers = desired.readers.clone();
        record.deletion_policy = desired.deletion_policy;
        record.paused = desired.paused;
        let mut verdict = Verdict {
            verdict: Outcome::Applied,
            reason: Cause::Applied.as_str().to_owned(),
            message: if dry_run {
                would_be_created(name, partitions)
            } else {
                format!("topic {name} is created with {}.", partitions_of(partitions))
            },
            readers_checked: 0,
            partitions: Vec::new(),
            readers_at_risk: Vec::new(),
            more_readers_at_risk: 0,
            ignored: Vec::new(),
            in_force: record.layers.in_force(),
            pending: false,
            created: false,
            topic_id: String::new(),
            partition_count: partitions,
            not_applied: Vec::new(),
        };
        if dry_run {
            return Ok(verdict);
        }
        verdict.created = true;
        verdict.topic_id = crate::log::checkpoints::format_id(record.id);
        record.answered(&desired.request_id, &verdict);
        self.create_checked(changes, record)?;
        Ok(verdict)
    }

    fn settle_count(
        &self,
        changes: &Changes<'_>,
        topic: &Arc<TopicState>,
        wanted: Option<i32>,
        dry_run: bool,
    ) -> Result<Arc<TopicState>, Refusal> {
        match wanted {
            Some(count) if count != topic.record.partitions => {
                let grown = self.grow(changes, topic, count, dry_run)?;
                Ok(if dry_run { Arc::clone(topic) } else { grown })
            }
            _ => Ok(Arc::clone(topic)),
        }
    }

    /// The layers that a target comes to.
    pub(crate) fn layers_of(&self, target: &Target) -> Layers {
        match target {
            Target::Settings {
                config,
                partition_config,
            } => Layers {
                engine_defaults: self.config.defaults.clone(),
                config: config.clone(),
                partition_config: partition_config
                    .iter()
                    .filter(|(_, own)| !own.is_empty())
                    .map(|(partition, own)| (*partition, own.clone()))
                    .collect(),
            },
            Target::Deletion => Layers::default(),
        }
    }

    /// Makes a record durable and brings it into force. The caller holds the gate.
    pub(crate) fn commit_record(
        &self,
        topic: &Arc<TopicState>,
        record: TopicRecord,
        waiting: &Waiting,
        accepted: &AcceptedLosses,
    ) -> Result<Arc<TopicState>, Refusal> {
        let name = record.name.clone();
        let mut settings = Vec::with_capacity(topic.partitions.len());
        for (partition, log) in topic.logs() {
            let own = record
                .layers
                .settings(partition)
                .map_err(|error| Refusal::invalid("config", &error))?;
            settings.push((log, Arc::new(own)));
        }
        let mut batch = Batch::new();
        batch.put(Table::Topics, name.as_bytes(), record.encode());
        match waiting {
            Waiting::Drop => {
                batch.remove(Table::PendingChanges, name.as_bytes());
            }
            Waiting::Put(pending) => {
                let value = serde_json::to_vec(pending).unwrap_or_default();
                batch.put(Table::PendingChanges, name.as_bytes(), value);
            }
            Waiting::Keep => {}
        }
        self.write_accepted(accepted, &mut batch);
        self.store.write_blocking(batch)?;
        self.count_accepted(accepted);
        fail::fail_point!("guarded::persisted");
        for (log, own) in settings {
            if *log.settings() != *own {
                log.set_settings(own);
            }
        }
        let state = Arc::new(TopicState {
            record,
            topic: Arc::clone(&topic.topic),
            partitions: topic.partitions.clone(),
        });
        self.catalog.put(Arc::clone(&state));
        if matches!(waiting, Waiting::Drop) {
            self.pending.remove(&name);
        }
        fail::fail_point!("guarded::applied");
        Ok(state)
    }

    /// Keeps what was found about a change that waits; `newly` is the change where it is a new one.
    pub(crate) fn note_waiting(
        &self,
        name: &str,
        topic: &TopicState,
        evaluation: &Evaluation,
        verdict: &Verdict,
        newly: Option<PendingRecord>,
    ) {
        let record = match (newly, self.pending.get(name)) {
            (Some(record), _) => record,
            (None, Some(before)) => before.record,
            (None, None) => return,
        };
        self.pending.put(
            name,
            Pending {
                record,
                verdict: verdict.clone(),
                watch: evaluation.watch.clone(),
                any_reader: evaluation.judgement.cause == Cause::NoReadersKnown,
                seen: seen(topic),
                judged: std::time::Instant::now(),
                moved: false,
            },
        );
    }

    /// Tells of what came of a change, and counts it.
    pub(crate) fn tell_outcome(
        &self,
        topic: &TopicState,
        evaluation: &Evaluation,
        verdict: &Verdict,
        settings_changed: bool,
        newly_waiting: bool,
        occasion: Occasion,
    ) {
        let name = topic.record.name.as_str();
        let owner = topic.record.owner.as_ref();
        let outcome = match verdict.verdict {
            Outcome::Applied => "Applied",
            Outcome::Unchanged => "Unchanged",
            Outcome::Refused => "Refused",
            Outcome::Clamped => "Clamped",
        };
        self.metrics.verdict(outcome);
        if verdict.verdict == Outcome::Applied && evaluation.judgement.cause == Cause::LossAccepted {
            self.tell_accepted(topic, evaluation);
        }
        let kind = match (verdict.verdict, occasion) {
            (Outcome::Applied, Occasion::Resumed) => EventKind::Resumed,
            (Outcome::Applied, Occasion::Asked) if settings_changed => EventKind::Applied,
            (Outcome::Clamped, _) if settings_changed => EventKind::Clamped,
            (Outcome::Refused, _) if newly_waiting => EventKind::Refused,
            _ => return,
        };
        self.events.tell(kind, name, owner, verdict.message.clone());
    }
}

/// What follows from a judgement.
#[derive(Debug)]
pub(crate) struct Coming {
    /// The layers that come into force.
    pub layers: Layers,
    /// Whether something still waits.
    pub waits: bool,
    /// Where part of the change comes into force: the settings it began from.
    pub before: Option<Layers>,
}

/// What comes of a change to `proposed` that was held against `granted`.
pub(crate) fn outcome(granted: &Layers, proposed: &Layers, evaluation: &Evaluation) -> Coming {
    let decision = evaluation.decision();
    Coming {
        layers: match decision {
            Decision::Apply => proposed.clone(),
            Decision::Refuse => layers::unguarded_part(granted, proposed),
            Decision::Clamp => layers::with_clamped(proposed, &evaluation.clamped_rules()),
        },
        waits: decision != Decision::Apply,
        before: (decision == Decision::Clamp).then(|| granted.clone()),
    }
}

/// What each partition is like, as far as it can matter to a change that waits.
pub(crate) fn seen(topic: &TopicState) -> Vec<Seen> {
    topic
        .logs()
        .map(|(partition, log)| {
            log.with_profile(|profile, bounds| Seen {
                partition,
                segments: profile.len(),
                log_start: bounds.log_start,
                size_bytes: profile.total_bytes(),
                log_end: bounds.log_end,
            })
        })
        .collect()
}

/// Checks overrides of partitions, each with the key and the value named.
pub(crate) fn check_partitions(partitions: &[PartitionConfig]) -> Result<BTreeMap<i32, Overrides>, Refusal> {
    let mut checked = BTreeMap::new();
    for PartitionConfig { partition, config } in partitions {
        let field = format!("partitionConfig[{partition}]");
        if *partition < 0 {
            return Err(Refusal::InvalidConfig {
                field,
                message: "partition is negative".to_owned(),
            });
        }
        let own = alter::check(config, &field)?;
        if checked.insert(*partition, own).is_some() {
            return Err(Refusal::InvalidConfig {
                field,
                message: "the partition is named twice".to_owned(),
            });
        }
    }
    Ok(checked)
}

fn check_owner(topic: &TopicState, desired: &DesiredTopic) -> Result<(), Refusal> {
    let Some(owner) = &topic.record.owner else {
        return Ok(());
    };
    let same = |asking: &Owner| asking.uid == owner.uid || desired.takes_over.as_deref() == Some(&owner.uid);
    if desired.owner.as_ref().is_some_and(same) {
        return Ok(());
    }
    Err(Refusal::Conflict {
        name: topic.record.name.clone(),
        owner: owner.clone(),
    })
}

/// A verdict on something that needed no judgement.
pub(crate) fn plain_verdict(
    outcome: Outcome,
    reason: &str,
    message: String,
    topic: Option<&TopicState>,
) -> Verdict {
    let mut verdict = Verdict {
        verdict: outcome,
        reason: reason.to_owned(),
        message,
        readers_checked: 0,
        partitions: Vec::new(),
        readers_at_risk: Vec::new(),
        more_readers_at_risk: 0,
        ignored: Vec::new(),
        in_force: InForce::default(),
        pending: false,
        created: false,
        topic_id: String::new(),
        partition_count: 0,
        not_applied: Vec::new(),
    };
    if let Some(topic) = topic {
        describe(&mut verdict, topic);
    }
    verdict
}

/// What is told about a topic that is not there.
pub(crate) fn would_be_created(name: &str, partitions: i32) -> String {
    format!(
        "topic {name} would be created with {}; there are no records to lose.",
        partitions_of(partitions)
    )
}
