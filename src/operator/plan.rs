//! What to do about a Topic: a pure function of the resource and of what storage says.
//!
//! The order of the checks is the order in which reasons are reported. Nothing that is not known is acted on: an
//! unreachable engine, an unreadable owner or an empty list never lead to a change, and only a deletion mark on a
//! resource that owns the topic leads to a deletion.
use crate::resource::contract::{
    DeleteTopic, DeletionPolicy, DesiredTopic, EffectiveConfig, ObservedTopic, Owner, PartitionConfig,
    Problem, ValueSource,
};
use crate::resource::desired::{self, Violation};
use crate::resource::settings::Overrides;
use crate::resource::topic::{FINALIZER, Topic};

use super::storage::code;

/// What storage says about a topic.
#[derive(Debug, Clone)]
pub enum Observation {
    /// Nobody answered.
    Unreachable(String),
    /// The engine answers, but cannot tell.
    Refused(Box<Problem>),
    /// There is no such topic.
    Missing,
    /// There it is.
    Found(Box<ObservedTopic>),
}

impl Observation {
    /// The topic, where there is one.
    pub fn topic(&self) -> Option<&ObservedTopic> {
        match self {
            Self::Found(topic) => Some(topic),
            _ => None,
        }
    }
}

/// Whether the resource that owns a topic in the engine still exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// Nobody owns it, or there is no topic.
    Nobody,
    /// This resource does.
    Us,
    /// A resource did that is known to be gone.
    Gone(Owner),
    /// Another resource does.
    Another(Owner),
    /// Whether the other resource is still there cannot be told.
    Unclear(Owner, String),
}

/// One thing to do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make sure that a deletion waits for us.
    AddFinalizer,
    /// Let the resource go.
    RemoveFinalizer,
    /// Ask the engine for this state.
    Apply(Box<DesiredTopic>),
    /// Ask the engine to delete or release the topic.
    Delete(DeleteTopic),
}

/// Why something declared is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The reason for conditions.
    pub reason: &'static str,
    /// The sentence for conditions.
    pub message: String,
    /// Whether it stays so until somebody acts (kstatus Stalled).
    pub stalled: bool,
}

impl Hold {
    fn stalled(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            stalled: true,
        }
    }

    fn passing(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            stalled: false,
        }
    }
}

/// What to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In order; a finalizer that is added ends the round, the next one goes on.
    pub actions: Vec<Action>,
    /// Why the Topic as a whole waits.
    pub hold: Option<Hold>,
    /// Why fewer partitions are not made; the rest of the spec goes on.
    pub partition_decrease: Option<String>,
    /// Settings that differ from what is declared although this generation was in force once.
    pub drift: Vec<Difference>,
    /// Records that the topic held when it was taken over, if it was there before.
    pub adopts: Option<i64>,
    /// The state that is declared, where it is valid.
    pub desired: Option<DesiredTopic>,
}

impl Plan {
    fn hold(hold: Hold) -> Self {
        Self {
            hold: Some(hold),
            ..Self::default()
        }
    }
}

/// Decides. `request` gives a fresh request id.
pub fn decide(
    topic: &Topic,
    us: &Owner,
    observation: &Observation,
    holder: &Holder,
    request: impl Fn() -> String,
) -> Plan {
    if topic.metadata.deletion_timestamp.is_some() {
        return decide_deletion(topic, us, observation, holder, request);
    }
    let mut desired = match desired::desired(topic, us.clone()) {
        Ok(desired) => desired,
        Err(faults) => return Plan::hold(Hold::stalled("Invalid", sentence(&faults))),
    };
    let mut plan = Plan {
        desired: Some(desired.clone()),
        ..Plan::default()
    };
    if let Some(hold) = first_hold(topic, observation, holder) {
        if hold.reason == "Paused" {
            plan.keep_as_it_is(us, observation, holder, request);
        }
        plan.hold = Some(hold);
        return plan;
    }
    let status = topic.status.as_ref();
    let seen = status.and_then(|status| status.observed_generation);
    let new_generation = seen != topic.metadata.generation;
    let held = has_finalizer(topic);
    match desired.deletion_policy {
        // Somebody who takes the finalizer off again is not fought with: once for each generation.
        DeletionPolicy::Delete if !held && new_generation => plan.actions.push(Action::AddFinalizer),
        DeletionPolicy::Retain if held => plan.actions.push(Action::RemoveFinalizer),
        _ => {}
    }
    let Some(found) = observation.topic() else {
        let known = status.and_then(|status| status.topic_id.as_deref());
        let told = status
            .and_then(|status| status.condition("Ready"))
            .is_some_and(|ready| ready.reason == "TopicMissing");
        match known {
            Some(id) if !told => {
                let message = format!(
                    "topic {} with id {id} is not in the engine any more and nobody deleted this resource; it is made again, empty",
                    topic.topic_name()
                );
                plan.hold = Some(Hold::passing("TopicMissing", message));
            }
            _ => plan.apply(desired, request),
        }
        return plan;
    };
    let count = i32::try_from(found.partitions.len()).unwrap_or(i32::MAX);
    if let Some(asked) = desired.partitions.filter(|asked| *asked < count) {
        plan.partition_decrease = Some(format!(
            "spec.partitions is {asked}, the topic has {count}: partitions are never removed, their records would be lost"
        ));
        desired.partitions = None;
    }
    match holder {
        Holder::Nobody => plan.adopts = Some(records(found)).filter(|records| *records > 0),
        Holder::Gone(owner) => {
            desired.takes_over = Some(owner.uid.clone());
            plan.adopts = Some(records(found)).filter(|records| *records > 0);
        }
        Holder::Us | Holder::Another(_) | Holder::Unclear(..) => {}
    }
    let settings = differences(&desired, found);
    if *holder == Holder::Us && !new_generation && !pends(&desired, found) {
        plan.drift = settings.clone();
    }
    if needs_apply(&desired, found, holder, &settings) {
        plan.apply(desired, request);
    }
    plan
}

impl Plan {
    /// What waits in the engine would go in by itself, or delete the topic: under pause it is told to leave it.
    fn keep_as_it_is(
        &mut self,
        us: &Owner,
        observation: &Observation,
        holder: &Holder,
        request: impl Fn() -> String,
    ) {
        let Some(found) = observation.topic().filter(|_| *holder == Holder::Us) else {
            return;
        };
        if found.pending.is_some() && !found.paused {
            self.apply(as_it_is(us, found), request);
        }
    }

    fn apply(&mut self, mut desired: DesiredTopic, request: impl Fn() -> String) {
        desired.request_id = request();
        self.actions.push(Action::Apply(Box::new(desired)));
    }
}

/// The state that there is, paused: what waits is asked for once more, and otherwise what is in force.
fn as_it_is(us: &Owner, found: &ObservedTopic) -> DesiredTopic {
    let set_here = |values: &EffectiveConfig, source: ValueSource| -> Overrides {
        let ours = values.iter().filter(|(_, value)| value.source == source);
        ours.map(|(key, value)| (key.clone(), value.value.clone()))
            .collect()
    };
    let waits = found.pending.as_ref().filter(|pending| !pending.deletion);
    let (config, partition_config) = match waits {
        Some(pending) => (pending.config.clone(), pending.partition_config.clone()),
        None => {
            let partitions = found
                .in_force
                .partition_config
                .iter()
                .map(|entry| PartitionConfig {
                    partition: entry.partition,
                    config: set_here(&entry.config, ValueSource::Partition),
                });
            (
                set_here(&found.in_force.config, ValueSource::Topic),
                partitions.collect(),
            )
        }
    };
    DesiredTopic {
        owner: Some(us.clone()),
        config,
        partition_config,
        readers: found.readers_policy.clone(),
        deletion_policy: found.deletion_policy,
        paused: true,
        ..DesiredTopic::default()
    }
}

/// Reasons that keep the whole Topic from being worked on.
fn first_hold(topic: &Topic, observation: &Observation, holder: &Holder) -> Option<Hold> {
    let name = topic.topic_name();
    if let Some(before) = topic
        .status
        .as_ref()
        .and_then(|status| status.topic_name.as_deref())
        && before != name
    {
        let message = format!(
            "spec.topicName was {before} and is now {name}: a topic is not renamed; {before} stays as it is"
        );
        return Some(Hold::stalled("Immutable", message));
    }
    match observation {
        Observation::Unreachable(message) => {
            return Some(Hold::passing("EngineUnreachable", message.clone()));
        }
        Observation::Refused(problem) => return Some(storage_hold(problem)),
        Observation::Missing | Observation::Found(_) => {}
    }
    match holder {
        Holder::Another(owner) => {
            let message = format!(
                "topic {name} belongs to Topic {}/{}, which stays its owner",
                owner.namespace, owner.name
            );
            return Some(Hold::stalled("Conflict", message));
        }
        Holder::Unclear(owner, why) => {
            let message = format!(
                "topic {name} belongs to Topic {}/{}, and whether that still exists cannot be told: {why}",
                owner.namespace, owner.name
            );
            return Some(Hold::stalled("Conflict", message));
        }
        Holder::Nobody | Holder::Us | Holder::Gone(_) => {}
    }
    topic.is_paused().then(|| {
        Hold::passing(
            "Paused",
            "the annotation tidemark.dev/paused is \"true\": nothing is changed for this Topic",
        )
    })
}

/// The reason for an engine that answers but cannot work. One that names no reason that a Topic knows has not said more
/// than that it cannot be asked.
pub fn storage_hold(problem: &Problem) -> Hold {
    let message = problem.detail.clone();
    match (problem.code.as_str(), problem.reason.as_deref()) {
        (code::IDENTITY_MISMATCH, _) => Hold::stalled("IdentityMismatch", message),
        (code::LOCK_UNSUPPORTED, _) => Hold::stalled("LockUnsupported", message),
        (code::NOT_READY, _) => Hold::passing("Recovering", message),
        (code::STORAGE, Some("DiskFull")) => Hold::passing("DiskFull", message),
        (code::STORAGE, Some("ReadOnly")) => Hold::stalled("ReadOnly", message),
        (code::STORAGE, Some("Corrupt")) => Hold::stalled("Corrupt", message),
        _ => Hold::passing("EngineUnreachable", message),
    }
}

fn decide_deletion(
    topic: &Topic,
    us: &Owner,
    observation: &Observation,
    holder: &Holder,
    request: impl Fn() -> String,
) -> Plan {
    let mut plan = Plan::default();
    if !has_finalizer(topic) {
        return plan;
    }
    let owned = *holder == Holder::Us;
    let delete = |policy| {
        Action::Delete(DeleteTopic {
            owner: us.uid.clone(),
            policy: Some(policy),
            request_id: request(),
        })
    };
    match (topic.deletion_policy(), observation) {
        // The way out that always works: with Retain there is nothing to wait for, engine or not.
        (DeletionPolicy::Retain, _) => {
            if owned {
                plan.actions.push(delete(DeletionPolicy::Retain));
            }
            plan.actions.push(Action::RemoveFinalizer);
        }
        (DeletionPolicy::Delete, _) if topic.is_paused() => {
            plan.keep_as_it_is(us, observation, holder, request);
            plan.hold = Some(Hold::passing(
                "Paused",
                "the annotation tidemark.dev/paused is \"true\": the deletion waits",
            ));
        }
        (DeletionPolicy::Delete, Observation::Unreachable(message)) => {
            let message = format!(
                "the deletion waits for the engine: {message}; to let the resource go and keep the data, set spec.deletionPolicy to Retain"
            );
            plan.hold = Some(Hold::passing("EngineUnreachable", message));
        }
        (DeletionPolicy::Delete, Observation::Refused(problem)) => plan.hold = Some(storage_hold(problem)),
        (DeletionPolicy::Delete, Observation::Found(_)) if owned => {
            plan.actions.push(delete(DeletionPolicy::Delete));
            plan.actions.push(Action::RemoveFinalizer);
        }
        (DeletionPolicy::Delete, Observation::Missing | Observation::Found(_)) => {
            plan.actions.push(Action::RemoveFinalizer);
        }
    }
    plan
}

/// Whether the resource carries our finalizer.
pub fn has_finalizer(topic: &Topic) -> bool {
    topic
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER)
}

fn sentence(faults: &[Violation]) -> String {
    const MOST: usize = 5;
    let mut text: Vec<String> = faults.iter().take(MOST).map(ToString::to_string).collect();
    if faults.len() > MOST {
        text.push(format!("and {} more", faults.len() - MOST));
    }
    text.join("; ")
}

fn records(topic: &ObservedTopic) -> i64 {
    topic
        .partitions
        .iter()
        .map(|partition| partition.log_end.saturating_sub(partition.log_start))
        .sum()
}

/// A setting that is not what is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Kafka's name.
    pub key: String,
    /// The partition, where it is an override of one.
    pub partition: Option<i32>,
    /// As declared; `None` is no override.
    pub asked: Option<String>,
    /// In force; `None` where storage does not say.
    pub in_force: Option<String>,
}

/// Settings in force that are not those declared.
pub fn differences(desired: &DesiredTopic, found: &ObservedTopic) -> Vec<Difference> {
    let mut all = Vec::new();
    let in_force = &found.in_force;
    let config = in_force
        .config
        .iter()
        .map(|(key, value)| (key.as_str(), value.value.as_str(), value.source));
    layer(&desired.config, config, ValueSource::Topic, None, &mut all);
    let none = Overrides::new();
    let mut partitions: Vec<i32> = desired
        .partition_config
        .iter()
        .map(|entry| entry.partition)
        .collect();
    partitions.extend(in_force.partition_config.iter().map(|entry| entry.partition));
    partitions.sort_unstable();
    partitions.dedup();
    for partition in partitions {
        let asked = desired
            .partition_config
            .iter()
            .find(|entry| entry.partition == partition);
        let given = in_force
            .partition_config
            .iter()
            .filter(|entry| entry.partition == partition);
        let given = given
            .flat_map(|entry| entry.config.iter())
            .map(|(key, value)| (key.as_str(), value.value.as_str(), value.source));
        layer(
            asked.map_or(&none, |entry| &entry.config),
            given,
            ValueSource::Partition,
            Some(partition),
            &mut all,
        );
    }
    all
}

fn layer<'a>(
    asked: &Overrides,
    in_force: impl Iterator<Item = (&'a str, &'a str, ValueSource)>,
    source: ValueSource,
    partition: Option<i32>,
    all: &mut Vec<Difference>,
) {
    let in_force: Vec<_> = in_force.collect();
    for (key, value) in asked {
        let given = in_force.iter().find(|(name, _, _)| name == key);
        if given.is_none_or(|(_, given, from)| given != value || *from != source) {
            all.push(Difference {
                key: key.clone(),
                partition,
                asked: Some(value.clone()),
                in_force: given.map(|(_, given, _)| (*given).to_owned()),
            });
        }
    }
    for (key, value, from) in in_force {
        if from == source && !asked.contains_key(key) {
            all.push(Difference {
                key: key.to_owned(),
                partition,
                asked: None,
                in_force: Some(value.to_owned()),
            });
        }
    }
}

/// Whether exactly what is declared is what waits in the engine.
pub fn pends(desired: &DesiredTopic, found: &ObservedTopic) -> bool {
    let sorted = |entries: &[PartitionConfig]| {
        let mut entries: Vec<_> = entries
            .iter()
            .filter(|entry| !entry.config.is_empty())
            .cloned()
            .collect();
        entries.sort_by_key(|entry| entry.partition);
        entries
    };
    found.pending.as_ref().is_some_and(|pending| {
        !pending.deletion
            && pending.config == desired.config
            && sorted(&pending.partition_config) == sorted(&desired.partition_config)
    })
}

fn needs_apply(
    desired: &DesiredTopic,
    found: &ObservedTopic,
    holder: &Holder,
    settings: &[Difference],
) -> bool {
    let count = i32::try_from(found.partitions.len()).unwrap_or(i32::MAX);
    let waits = pends(desired, found);
    *holder != Holder::Us
        || found.paused
        || desired.partitions.is_some_and(|asked| asked != count)
        || desired.readers != found.readers_policy
        || desired.deletion_policy != found.deletion_policy
        || (!settings.is_empty() && !waits)
        || (found.pending.is_some() && !waits)
}
