//! What is worth an event: changes of verdict, never states. Conditions are the record, events the story.
use crate::resource::conditions::{READY, RETENTION_APPLIED};
use crate::resource::contract::{EngineEvent, EventKind, Outcome, Verdict};
use crate::resource::status::{Condition, TopicStatus};

use super::plan::Plan;
use super::storage::StorageError;

/// Something to tell about a Topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether a person should look at it.
    pub warning: bool,
    /// In one word.
    pub reason: &'static str,
    /// What was tried.
    pub action: &'static str,
    /// In a sentence; at most 1,024 characters.
    pub note: String,
}

impl Notice {
    fn normal(reason: &'static str, action: &'static str, note: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason,
            action,
            note: bounded(note.into()),
        }
    }

    fn warning(reason: &'static str, action: &'static str, note: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason,
            action,
            note: bounded(note.into()),
        }
    }
}

/// The longest note that an event takes.
const LONGEST_NOTE: usize = 1_000;

fn bounded(note: String) -> String {
    match note.char_indices().nth(LONGEST_NOTE) {
        Some((at, _)) => format!("{}…", note.get(..at).unwrap_or_default()),
        None => note,
    }
}

/// What a round has to tell, given the status before and after it.
pub fn notices(
    plan: &Plan,
    answer: Option<&Result<Verdict, StorageError>>,
    before: Option<&TopicStatus>,
    after: &TopicStatus,
) -> Vec<Notice> {
    let mut all = Vec::new();
    let applied = matches!(answer, Some(Ok(verdict)) if verdict.verdict != Outcome::Refused);
    if let Some(records) = plan.adopts.filter(|_| applied) {
        let note = format!("the topic was there with {records} records and is taken over with them");
        all.push(Notice::normal("ExistingData", "Adopt", note));
    }
    if applied && let Some(first) = plan.drift.first() {
        let note = format!(
            "{} settings were not as declared and are applied again; the first: {}, declared {}, found {}",
            plan.drift.len(),
            first.key,
            first.asked.as_deref().unwrap_or("no override"),
            first.in_force.as_deref().unwrap_or("nothing")
        );
        all.push(Notice::warning("DriftRepaired", "Apply", note));
    }
    if let Some(Ok(verdict)) = answer
        && verdict.reason == "LossAccepted"
    {
        all.push(Notice::warning("LossAccepted", "Apply", verdict.message.clone()));
    }
    let find =
        |status: Option<&TopicStatus>, kind: &str| status.and_then(|status| status.condition(kind)).cloned();
    if let (old, Some(new)) = (
        find(before, RETENTION_APPLIED),
        find(Some(after), RETENTION_APPLIED),
    ) {
        all.extend(retention(old.as_ref(), &new, before, applied));
    }
    if let (old, Some(new)) = (find(before, READY), find(Some(after), READY)) {
        all.extend(trouble(old.as_ref(), &new));
    }
    all
}

/// Refused, resumed, clamped, applied.
fn retention(
    old: Option<&Condition>,
    new: &Condition,
    before: Option<&TopicStatus>,
    applied: bool,
) -> Option<Notice> {
    let same_generation = old.is_some_and(|old| old.observed_generation == new.observed_generation);
    let same_reason = old.is_some_and(|old| old.reason == new.reason && old.status == new.status);
    match (new.status.as_str(), new.reason.as_str()) {
        ("False", "SlowReader" | "ReaderUnknown" | "NoReadersKnown") if !(same_reason && same_generation) => {
            Some(Notice::warning("Refused", "Apply", new.message.clone()))
        }
        ("False", "Clamped") if !(same_reason && same_generation) => {
            Some(Notice::normal("Clamped", "Apply", new.message.clone()))
        }
        ("True", _) if before.is_some_and(|status| status.plan.is_some()) && same_generation => Some(
            Notice::normal("Resumed", "Apply", "the change that was held back is in force"),
        ),
        ("True", _) if applied && !(same_reason && same_generation) => {
            Some(Notice::normal("Applied", "Apply", new.message.clone()))
        }
        _ => None,
    }
}

/// Reasons that have nothing to do with readers.
fn trouble(old: Option<&Condition>, new: &Condition) -> Option<Notice> {
    if new.status == "True" || old.is_some_and(|old| old.reason == new.reason) {
        return None;
    }
    let reason = match new.reason.as_str() {
        "Conflict" => "Conflict",
        "NameCollision" => "NameCollision",
        "Invalid" => "Invalid",
        "Immutable" => "Immutable",
        "PartitionDecrease" => "PartitionDecrease",
        "TopicMissing" => "TopicMissing",
        "EngineUnreachable" => "EngineUnreachable",
        "IdentityMismatch" => "IdentityMismatch",
        "DiskFull" => "DiskFull",
        "ReadOnly" => "ReadOnly",
        "Corrupt" => "Corrupt",
        _ => return None,
    };
    Some(Notice::warning(reason, "Reconcile", new.message.clone()))
}

/// The deletion waits for a reader.
pub fn deletion_held(verdict: &Verdict) -> Notice {
    Notice::warning("DeletionHeld", "Delete", verdict.message.clone())
}

/// The topic is deleted, or has lost its owner.
pub fn deleted(message: &str) -> Notice {
    Notice::normal("Deleted", "Delete", message)
}

/// What the engine tells by itself and no round would.
pub fn of_engine(event: &EngineEvent) -> Option<Notice> {
    let (reason, action) = match event.kind {
        EventKind::HeadroomLow => ("ReaderInDanger", "Watch"),
        EventKind::RecordsLost => ("ReaderLostRecords", "Retain"),
        EventKind::DeletedBehindReader => ("DeletedBehindReader", "Delete"),
        EventKind::RetentionBlocked => ("RetentionBlocked", "Retain"),
        EventKind::ChangeDropped => ("ChangeDropped", "Apply"),
        _ => return None,
    };
    Some(Notice::warning(reason, action, event.message.clone()))
}
