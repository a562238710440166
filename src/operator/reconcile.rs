//! One round for one Topic: observe, decide, act, look again, tell.
//!
//! What changes the resource (finalizer, status, events) is handed back to the source, which knows how; what changes
//! storage is done here. A round that is killed at any point leaves nothing that the next one would not find.
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info, warn};

use super::notices::{self, Notice};
use super::plan::{self, Action, Holder, Observation};
use super::status::{self, Change, Facts};
use super::storage::{Storage, StorageError, code};
use crate::resource::contract::{Outcome, Owner, Verdict};
use crate::resource::status::TopicStatus;
use crate::resource::topic::Topic;
use crate::telemetry::clock::Clock;

/// Whether a resource still exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existence {
    /// It does, with this uid.
    Exists,
    /// It does not, or another one has its name.
    Gone,
    /// That cannot be told.
    Unclear(String),
}

/// Knows the resources that own topics.
pub trait Owners: Send + Sync {
    /// Whether the resource with this uid still exists. Must ask the source itself, not a cache that may be behind.
    fn exists(&self, owner: &Owner) -> impl Future<Output = Existence> + Send;
}

/// A change to the resource's finalizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finalizer {
    /// Put ours on.
    Add,
    /// Take ours off.
    Remove,
}

/// When to look again if nothing else wakes the Topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At the next resync.
    Settled,
    /// After this time.
    After(Duration),
    /// With back-off: something did not work.
    Retry,
}

/// What the source has to do after a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// First.
    pub finalizer: Option<Finalizer>,
    /// The status to write; `None` where the one that is told still holds.
    pub status: Option<TopicStatus>,
    /// Events to publish.
    pub notices: Vec<Notice>,
    /// When to look again.
    pub next: Next,
    /// In one word, for metrics: `settled`, `applied`, `refused`, `held`, `retry`, `deleted`.
    pub result: &'static str,
}

/// Live figures are told at most this often while a change is held back.
pub const FIGURES_EVERY: Duration = Duration::from_secs(10);
/// A Topic that waits for another resource to go looks this often whether it has.
const CONFLICT_EVERY: Duration = Duration::from_secs(15);
/// A missing topic is told before it is made again.
const MISSING_AFTER: Duration = Duration::from_secs(1);

/// Runs rounds.
#[derive(Debug)]
pub struct Reconciler<S> {
    storage: Arc<S>,
    clock: Arc<dyn Clock>,
}

impl<S: Storage> Reconciler<S> {
    /// A reconciler for one storage.
    pub fn new(storage: Arc<S>, clock: Arc<dyn Clock>) -> Self {
        Self { storage, clock }
    }

    /// The storage.
    pub fn storage(&self) -> &Arc<S> {
        &self.storage
    }

    /// Runs a round. `figures_due` says whether the last write of this status is longer ago than [`FIGURES_EVERY`].
    pub async fn round(&self, topic: &Topic, us: &Owner, owners: &impl Owners, figures_due: bool) -> Round {
        // A resource that is on its way out and not held by us is none of our business any more.
        if topic.metadata.deletion_timestamp.is_some() && !plan::has_finalizer(topic) {
            return Round::quiet("deleted");
        }
        let name = topic.topic_name().to_owned();
        let before = self.observe(&name).await;
        fail::fail_point!("round::observed");
        let holder = self.holder(&before, us, owners).await;
        let plan = plan::decide(topic, us, &before, &holder, || uuid::Uuid::new_v4().to_string());
        fail::fail_point!("round::decided");
        if plan.actions.first() == Some(&Action::AddFinalizer) {
            return Round {
                finalizer: Some(Finalizer::Add),
                next: Next::After(Duration::ZERO),
                ..Round::quiet("held")
            };
        }
        let mut finalizer = None;
        let mut answer = None;
        let mut deletion = Vec::new();
        for action in &plan.actions {
            match action {
                Action::AddFinalizer => finalizer = Some(Finalizer::Add),
                Action::RemoveFinalizer => finalizer = Some(Finalizer::Remove),
                Action::Apply(desired) => {
                    debug!(topic = name, partitions = desired.partitions, "applying");
                    answer = Some(self.storage.apply(&name, desired).await);
                    fail::fail_point!("round::applied");
                }
                Action::Delete(request) => {
                    let result = self.storage.delete(&name, request).await;
                    fail::fail_point!("round::deleted");
                    if let Some(notice) = gone(&result) {
                        deletion.push(notice);
                        answer = Some(result);
                        continue;
                    }
                    if let Ok(verdict) = &result {
                        deletion.push(notices::deletion_held(verdict));
                    }
                    answer = Some(result);
                    // The resource stays until its topic has gone; with Retain there is nothing to stay for.
                    if topic.deletion_policy() == crate::resource::contract::DeletionPolicy::Delete {
                        break;
                    }
                }
            }
        }
        if topic.metadata.deletion_timestamp.is_some() && finalizer == Some(Finalizer::Remove) {
            return Round {
                finalizer,
                notices: deletion,
                ..Round::quiet("deleted")
            };
        }
        let after = match &answer {
            Some(Ok(_)) => self.observe(&name).await,
            _ => before,
        };
        self.conclude(
            topic,
            &plan,
            &after,
            answer.as_ref(),
            deletion,
            finalizer,
            figures_due,
        )
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one round, taken apart for reading"
    )]
    fn conclude(
        &self,
        topic: &Topic,
        plan: &plan::Plan,
        after: &Observation,
        answer: Option<&Result<Verdict, StorageError>>,
        deletion: Vec<Notice>,
        finalizer: Option<Finalizer>,
        figures_due: bool,
    ) -> Round {
        let facts = Facts {
            topic,
            plan,
            after,
            answer,
            now_ms: self.clock.wall_ms(),
        };
        let mut status = status::status(&facts);
        let told = topic.status.as_ref();
        if let Some(held) = deletion.first() {
            hold_deletion(&mut status, held, &facts);
        }
        let change = status::compare(told, &status);
        let mut next = next(plan, answer, &status);
        let write = match change {
            Change::None => false,
            Change::Figures if figures_due => true,
            Change::Figures => {
                if next == Next::Settled {
                    next = Next::After(FIGURES_EVERY);
                }
                false
            }
            Change::Facts => true,
        };
        let mut told_now = notices::notices(plan, answer, told, &status);
        told_now.extend(deletion.into_iter().filter(|_| change == Change::Facts));
        let result = result(plan, answer, &status);
        Round {
            finalizer,
            status: write.then_some(status),
            notices: told_now,
            next,
            result,
        }
    }

    async fn observe(&self, name: &str) -> Observation {
        match self.storage.observe(name).await {
            Ok(Some(found)) => Observation::Found(Box::new(found)),
            Ok(None) => Observation::Missing,
            Err(StorageError::Refused(problem)) => Observation::Refused(problem),
            Err(error) => Observation::Unreachable(error.to_string()),
        }
    }

    async fn holder(&self, observation: &Observation, us: &Owner, owners: &impl Owners) -> Holder {
        let Some(owner) = observation.topic().and_then(|topic| topic.owner.clone()) else {
            return Holder::Nobody;
        };
        if owner.uid == us.uid {
            return Holder::Us;
        }
        if owner.namespace == us.namespace && owner.name == us.name {
            // Only one resource can have a name at a time, and that is this one.
            return Holder::Gone(owner);
        }
        match owners.exists(&owner).await {
            Existence::Exists => Holder::Another(owner),
            Existence::Gone => {
                info!(
                    owner = owner.name,
                    namespace = owner.namespace,
                    "the owner of a topic is gone"
                );
                Holder::Gone(owner)
            }
            Existence::Unclear(why) => {
                warn!(
                    owner = owner.name,
                    namespace = owner.namespace,
                    why,
                    "whether an owner still exists is unclear"
                );
                Holder::Unclear(owner, why)
            }
        }
    }
}

impl Round {
    fn quiet(result: &'static str) -> Self {
        Self {
            finalizer: None,
            status: None,
            notices: Vec::new(),
            next: Next::Settled,
            result,
        }
    }
}

/// Whether the topic is out of our hands: deleted, released, not there, or somebody else's.
fn gone(result: &Result<Verdict, StorageError>) -> Option<Notice> {
    match result {
        Ok(verdict) if verdict.verdict == Outcome::Refused => None,
        Ok(verdict) => Some(notices::deleted(&verdict.message)),
        Err(error) if matches!(error.code(), Some(code::TOPIC_NOT_FOUND | code::CONFLICT)) => {
            Some(notices::deleted(&error.to_string()))
        }
        Err(_) => None,
    }
}

/// A deletion that waits for a reader looks like a lowering that does.
fn hold_deletion(status: &mut TopicStatus, held: &Notice, facts: &Facts<'_>) {
    use crate::resource::conditions::{Finding, READY, STALLED, State, conditions};
    let Some(Ok(verdict)) = facts.answer else { return };
    let before = facts
        .topic
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let findings = [
        Finding::new(
            READY,
            State::False,
            verdict.reason.clone(),
            format!("deletion: {}", held.note),
        ),
        Finding::new(
            STALLED,
            State::True,
            verdict.reason.clone(),
            format!("deletion: {}", held.note),
        ),
    ];
    let generation = facts.topic.metadata.generation.unwrap_or(0);
    let mut all = conditions(&before, &findings, generation, &status::time(facts.now_ms));
    all.extend(
        status
            .conditions
            .iter()
            .flatten()
            .filter(|condition| ![READY, STALLED, "Reconciling"].contains(&condition.kind.as_str()))
            .cloned(),
    );
    status.conditions = Some(all);
}

fn next(plan: &plan::Plan, answer: Option<&Result<Verdict, StorageError>>, status: &TopicStatus) -> Next {
    if let Some(Err(error)) = answer {
        return match error.code() {
            Some(code::CONFLICT | code::NAME_COLLISION) => Next::After(CONFLICT_EVERY),
            _ => Next::Retry,
        };
    }
    let drifting = status
        .condition("RetentionApplied")
        .is_some_and(|condition| condition.reason == "Drift");
    match plan.hold.as_ref().map(|hold| hold.reason) {
        Some("Conflict" | "NameCollision") => Next::After(CONFLICT_EVERY),
        Some("TopicMissing") => Next::After(MISSING_AFTER),
        Some("Invalid" | "Immutable" | "Paused") => Next::Settled,
        Some(_) => Next::Retry,
        None if drifting => Next::Retry,
        None => Next::Settled,
    }
}

fn result(
    plan: &plan::Plan,
    answer: Option<&Result<Verdict, StorageError>>,
    status: &TopicStatus,
) -> &'static str {
    match answer {
        Some(Err(_)) => "retry",
        Some(Ok(verdict)) if verdict.verdict == Outcome::Refused => "refused",
        Some(Ok(_)) => "applied",
        None if plan.hold.is_some() => "held",
        None if status.plan.is_some() => "refused",
        None => "settled",
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
