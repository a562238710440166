//! What to tell: a pure function of the resource, of what storage says after the round, and of what came of it.
//!
//! A status is made anew each time from observed facts. The exceptions are what nobody can observe: transition times,
//! the reason of a settled apply, and the last known facts while the engine is away.
use jiff::Timestamp;

use super::plan::{Difference, Hold, Observation, Plan, differences, storage_hold};
use super::storage::{StorageError, code};
use crate::resource::conditions::{
    self, CAPACITY_OK, Finding, PAUSED, READY, RECONCILING, RETENTION_APPLIED, STALLED, STORAGE_HEALTHY,
    State,
};
use crate::resource::contract::{InForce, ObservedTopic, Outcome, PendingChange, ValueSource, Verdict};
use crate::resource::status::{
    MOST_LISTED, StatusCapacity, StatusChange, StatusInForce, StatusPartitionValues, StatusPlan,
    StatusPlanPartition, StatusReaderAtRisk, StatusReaders, StatusValue, TopicStatus,
};
use crate::resource::topic::Topic;
use crate::resource::units;

/// Everything a status is made of.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The resource, with the status that it has.
    pub topic: &'a Topic,
    /// What was decided.
    pub plan: &'a Plan,
    /// What storage says after the round.
    pub after: &'a Observation,
    /// What came of an apply or a deletion, where there was one.
    pub answer: Option<&'a Result<Verdict, StorageError>>,
    /// Wall time, ms since 1970.
    pub now_ms: i64,
}

/// Settings that are shown whatever their source.
const ALWAYS_SHOWN: &[&str] = &["retention.ms", "retention.bytes", "segment.ms", "segment.bytes"];

/// The status of a Topic.
pub fn status(facts: &Facts<'_>) -> TopicStatus {
    let before = facts.topic.status.clone().unwrap_or_default();
    let mut status = TopicStatus {
        conditions: None,
        plan: None,
        ..before.clone()
    };
    if let Some(found) = facts.after.topic().filter(|_| !another_owns(facts)) {
        tell_topic(&mut status, found, facts);
    } else if facts
        .plan
        .hold
        .as_ref()
        .is_none_or(|hold| hold.reason != "Immutable")
    {
        // What was last known stays, with its time; a plan that nobody can vouch for does not.
        status.plan = before.plan.clone().filter(|_| unreachable(facts));
    }
    let findings = findings(facts);
    // While the engine is away no generation is seen: what is told is still about the last one.
    let generation = facts.topic.metadata.generation.unwrap_or(0);
    let seen = if unreachable(facts) {
        before.observed_generation.unwrap_or(-1)
    } else {
        generation
    };
    status.observed_generation = Some(seen);
    let now = time(facts.now_ms);
    let known = before.conditions.unwrap_or_default();
    status.conditions = Some(conditions::conditions(&known, &findings, seen.max(0), &now));
    status
}

/// A time in RFC 3339, to the second, as in `metav1.Time`.
pub fn time(ms: i64) -> String {
    Timestamp::from_second(ms.div_euclid(1_000)).map_or_else(|_| String::new(), |time| time.to_string())
}

fn unreachable(facts: &Facts<'_>) -> bool {
    let refused = matches!(
        facts.answer,
        Some(Err(StorageError::Unreachable(_) | StorageError::Garbled(_)))
    );
    refused
        || facts
            .plan
            .hold
            .as_ref()
            .is_some_and(|hold| hold.reason == "EngineUnreachable")
}

/// Whether the topic is somebody else's, so that nothing of it belongs into this status.
fn another_owns(facts: &Facts<'_>) -> bool {
    let answered = matches!(facts.answer, Some(Err(error)) if error.code() == Some(code::CONFLICT));
    answered
        || facts
            .plan
            .hold
            .as_ref()
            .is_some_and(|hold| hold.reason == "Conflict")
}

fn tell_topic(status: &mut TopicStatus, found: &ObservedTopic, facts: &Facts<'_>) {
    let value = |key: &str| {
        found
            .in_force
            .config
            .get(key)
            .and_then(|value| value.value.parse::<i64>().ok())
    };
    status.topic_name = Some(found.name.clone());
    status.topic_id = Some(found.id.clone()).filter(|id| !id.is_empty());
    status.partitions = i32::try_from(found.partitions.len()).ok();
    status.retention = value("retention.ms").map(units::show_duration_ms);
    status.retention_size = value("retention.bytes").map(units::show_bytes);
    status.segment = value("segment.ms").map(units::show_duration_ms);
    status.in_force = Some(in_force(&found.in_force));
    status.plan = found
        .pending
        .as_ref()
        .map(|pending| tell_plan(pending, found, facts));
    status.readers = Some(StatusReaders {
        checked: i32::try_from(found.readers.checked).unwrap_or(i32::MAX),
        slowest: found
            .readers
            .slowest
            .as_ref()
            .filter(|slowest| slowest.lag > 0)
            .map(|slowest| slowest.name.clone()),
    });
    status.capacity = capacity(found);
    status.last_applied_time = Some(found.last_applied_ms).filter(|ms| *ms >= 0).map(time);
}

fn in_force(in_force: &InForce) -> StatusInForce {
    let shown = in_force
        .config
        .iter()
        .filter(|(key, value)| value.source != ValueSource::Default || ALWAYS_SHOWN.contains(&key.as_str()));
    let config = shown.map(|(key, value)| {
        (
            key.clone(),
            StatusValue {
                value: value.value.clone(),
                source: format!("{:?}", value.source),
            },
        )
    });
    let partitions = in_force
        .partition_config
        .iter()
        .map(|entry| StatusPartitionValues {
            partition: entry.partition,
            config: entry
                .config
                .iter()
                .map(|(key, value)| (key.clone(), value.value.clone()))
                .collect(),
        });
    StatusInForce {
        config: config.collect(),
        partitions: partitions.take(MOST_LISTED).collect(),
        partitions_omitted: beyond(in_force.partition_config.len()),
    }
}

fn beyond(count: usize) -> i32 {
    i32::try_from(count.saturating_sub(MOST_LISTED)).unwrap_or(i32::MAX)
}

fn tell_plan(pending: &PendingChange, found: &ObservedTopic, facts: &Facts<'_>) -> StatusPlan {
    let asked = crate::resource::contract::DesiredTopic {
        config: pending.config.clone(),
        partition_config: pending.partition_config.clone(),
        ..facts.plan.desired.clone().unwrap_or_default()
    };
    let changes = if pending.deletion {
        Vec::new()
    } else {
        differences(&asked, found)
    };
    let verdict = &pending.verdict;
    let moved: Vec<_> = verdict
        .partitions
        .iter()
        .filter(|entry| entry.would_be_start > entry.would_be_start_in_force)
        .collect();
    StatusPlan {
        since: Some(time(pending.since_ms)),
        changes_omitted: beyond(changes.len()),
        changes: changes.into_iter().take(MOST_LISTED).map(change).collect(),
        partitions_omitted: beyond(moved.len()),
        partitions: moved
            .into_iter()
            .take(MOST_LISTED)
            .map(|entry| StatusPlanPartition {
                partition: entry.partition,
                log_start: entry.log_start,
                would_be_start: entry.would_be_start,
                bytes_freed: entry.bytes_freed,
            })
            .collect(),
        readers_at_risk_omitted: beyond(verdict.readers_at_risk.len())
            .saturating_add(i32::try_from(verdict.more_readers_at_risk).unwrap_or(i32::MAX)),
        readers_at_risk: verdict
            .readers_at_risk
            .iter()
            .take(MOST_LISTED)
            .map(|reader| StatusReaderAtRisk {
                kind: format!("{:?}", reader.kind),
                name: reader.name.clone(),
                partition: reader.partition,
                position: reader.position,
                records_at_risk: reader.records_at_risk,
                detail: reader.detail.clone(),
            })
            .collect(),
    }
}

fn change(difference: Difference) -> StatusChange {
    let absent = || "default".to_owned();
    StatusChange {
        key: difference.key,
        partition: difference.partition,
        from: difference.in_force.unwrap_or_else(absent),
        to: difference.asked.unwrap_or_else(absent),
    }
}

/// Partitions x (retention.bytes + segment.bytes): what can be there before a pass, per partition in force.
fn capacity(found: &ObservedTopic) -> Option<StatusCapacity> {
    if found.volume.total_bytes <= 0 {
        return None;
    }
    let number = |key: &str, partition: i32| -> Option<i64> {
        let own = found
            .in_force
            .partition_config
            .iter()
            .find(|entry| entry.partition == partition);
        let value = own
            .and_then(|entry| entry.config.get(key))
            .or_else(|| found.in_force.config.get(key))?;
        value.value.parse().ok()
    };
    let worst = found.partitions.iter().try_fold(0_i64, |sum, partition| {
        let limit = number("retention.bytes", partition.partition).filter(|limit| *limit >= 0)?;
        let segment = number("segment.bytes", partition.partition).unwrap_or(1 << 30);
        Some(sum.saturating_add(limit).saturating_add(segment))
    });
    Some(StatusCapacity {
        worst_case_bytes: worst,
        volume_bytes: found.volume.total_bytes,
    })
}

/// The conditions.
fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let retention = retention(facts);
    let storage = storage(facts);
    let mut all = Vec::new();
    let ready = ready(facts, &retention, &storage);
    if ready.state != State::True
        && let Some(kind) = progress(facts, &ready)
    {
        all.push(Finding {
            kind,
            state: State::True,
            ..ready.clone()
        });
    }
    all.push(with_page(ready));
    all.push(retention);
    all.push(storage);
    if let Some(found) = facts.after.topic().filter(|_| !another_owns(facts))
        && let Some(StatusCapacity {
            worst_case_bytes: Some(worst),
            volume_bytes,
        }) = capacity(found)
    {
        all.push(fits(worst, volume_bytes));
    }
    if facts.topic.is_paused() {
        let message = "the annotation tidemark.dev/paused is \"true\": nothing is changed for this Topic";
        all.push(Finding::new(PAUSED, State::True, "Paused", message));
    }
    all
}

/// What is not ready says where to read what to do about it.
fn with_page(ready: Finding) -> Finding {
    if ready.state == State::True {
        return ready;
    }
    let mut message = ready.message.trim_end_matches('.').to_owned();
    if !message.is_empty() {
        message.push_str(". ");
    }
    message.push_str(&format!("What to do: tidemark explain {}", ready.reason));
    Finding { message, ..ready }
}

fn fits(worst: i64, volume: i64) -> Finding {
    let (worst_text, volume_text) = (units::about_bytes(worst), units::about_bytes(volume));
    let sum = "partitions x (retention.bytes + segment.bytes)";
    if worst > volume {
        let message = format!(
            "the topic can come to hold {worst_text} ({worst} bytes: {sum}), the volume is {volume_text} ({volume} bytes)"
        );
        Finding::new(CAPACITY_OK, State::False, "WorstCaseExceedsVolume", message)
    } else {
        let message = format!("at most {worst_text} ({sum}) on a volume of {volume_text}");
        Finding::new(CAPACITY_OK, State::True, "Fits", message)
    }
}

/// kstatus: `Stalled` where only somebody's act or a reader helps, `Reconciling` where time does, nothing under pause.
fn progress(facts: &Facts<'_>, ready: &Finding) -> Option<&'static str> {
    match ready.reason.as_str() {
        "Paused" => None,
        "Clamped" | "Drift" | "DiskFull" | "Recovering" | "EngineUnreachable" | "TopicMissing"
        | "Progressing" => Some(RECONCILING),
        reason => match &facts.plan.hold {
            Some(hold) if hold.reason == reason && !hold.stalled => Some(RECONCILING),
            _ => Some(STALLED),
        },
    }
}

fn ready(facts: &Facts<'_>, retention: &Finding, storage: &Finding) -> Finding {
    let of = |hold: &Hold| {
        let state = if hold.reason == "EngineUnreachable" {
            State::Unknown
        } else {
            State::False
        };
        Finding::new(READY, state, hold.reason, hold.message.clone())
    };
    match &facts.plan.hold {
        Some(hold) if hold.reason == "Paused" && in_force_as_declared(facts) => {}
        Some(hold) => return dated(of(hold), facts),
        None => {}
    }
    if let Some(hold) = answer_hold(facts) {
        return dated(of(&hold), facts);
    }
    for finding in [retention, storage] {
        if finding.state != State::True {
            return Finding {
                kind: READY,
                ..finding.clone()
            };
        }
    }
    if let Some(message) = partition_decrease(facts) {
        return Finding::new(READY, State::False, "PartitionDecrease", message);
    }
    Finding {
        kind: READY,
        ..retention.clone()
    }
}

/// While nobody answers, the last known facts stay in the status: it says how old they are.
fn dated(ready: Finding, facts: &Facts<'_>) -> Finding {
    let known = facts
        .topic
        .status
        .as_ref()
        .is_some_and(|status| status.topic_id.is_some());
    if ready.state != State::Unknown || !known {
        return ready;
    }
    let message = format!(
        "{}; what else is told here is as it was before lastTransitionTime",
        ready.message
    );
    Finding { message, ..ready }
}

fn in_force_as_declared(facts: &Facts<'_>) -> bool {
    match (&facts.plan.desired, facts.after.topic()) {
        (Some(desired), Some(found)) => {
            let count = i32::try_from(found.partitions.len()).unwrap_or(i32::MAX);
            differences(desired, found).is_empty()
                && found.pending.is_none()
                && desired.partitions.is_none_or(|asked| asked == count)
        }
        _ => false,
    }
}

fn partition_decrease(facts: &Facts<'_>) -> Option<String> {
    if let Some(message) = &facts.plan.partition_decrease {
        return Some(message.clone());
    }
    let verdict = facts.answer?.as_ref().ok()?;
    verdict
        .not_applied
        .iter()
        .find(|part| part.reason == "PartitionDecrease")
        .map(|part| part.message.clone())
}

/// What an answer of the engine means for the Topic as a whole.
fn answer_hold(facts: &Facts<'_>) -> Option<Hold> {
    let hold = |reason, message: String, stalled| {
        Some(Hold {
            reason,
            message,
            stalled,
        })
    };
    match facts.answer? {
        Ok(_) => None,
        Err(StorageError::Unreachable(message) | StorageError::Garbled(message)) => {
            hold("EngineUnreachable", message.clone(), false)
        }
        Err(StorageError::Refused(problem)) => match problem.code.as_str() {
            code::CONFLICT => hold("Conflict", problem.detail.clone(), true),
            code::NAME_COLLISION => hold("NameCollision", problem.detail.clone(), true),
            code::PARTITION_DECREASE => hold("PartitionDecrease", problem.detail.clone(), true),
            code::INVALID => None,
            _ => Some(storage_hold(problem)),
        },
    }
}

fn retention(facts: &Facts<'_>) -> Finding {
    let found = |state, reason: &str, message: &str| Finding::new(RETENTION_APPLIED, state, reason, message);
    if let Some(Err(error)) = facts.answer
        && error.code() == Some(code::INVALID)
    {
        return found(State::False, "Invalid", &error.to_string());
    }
    if let Some(hold) = facts.plan.hold.clone().or_else(|| answer_hold(facts)) {
        match hold.reason {
            "Invalid" => return found(State::False, hold.reason, &hold.message),
            "Paused" => {}
            // Storage takes no change, and what is in force can be read all the same.
            "DiskFull" | "ReadOnly" | "Corrupt" if facts.after.topic().is_some() => {}
            _ => return found(State::Unknown, hold.reason, &hold.message),
        }
    }
    let Some(topic) = facts.after.topic() else {
        return found(State::Unknown, "Progressing", "the topic is not there yet");
    };
    if let Some(pending) = &topic.pending {
        let verdict = &pending.verdict;
        let reason = if verdict.verdict == Outcome::Clamped {
            "Clamped"
        } else {
            verdict.reason.as_str()
        };
        return found(State::False, reason, &verdict.message);
    }
    if let Some(desired) = &facts.plan.desired
        && let Some(first) = differences(desired, topic).first()
    {
        let reason = if facts.topic.is_paused() {
            "Paused"
        } else {
            "Drift"
        };
        return found(State::False, reason, &drift(first));
    }
    settled(facts)
}

fn drift(difference: &Difference) -> String {
    let of = difference
        .partition
        .map_or_else(String::new, |partition| format!(" of partition {partition}"));
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "no override".to_owned());
    format!(
        "{}{of}: asked {}, in force {}",
        difference.key,
        text(&difference.asked),
        text(&difference.in_force)
    )
}

/// Everything is in force: with which words?
fn settled(facts: &Facts<'_>) -> Finding {
    let known = |reason: &str| matches!(reason, "Applied" | "NoReadersKnown");
    let status = facts.topic.status.as_ref();
    let before = status
        .and_then(|status| status.condition(RETENTION_APPLIED))
        .filter(|old| {
            let same = Some(old.observed_generation) == facts.topic.metadata.generation;
            same && old.status == "True" && known(&old.reason)
        });
    match (facts.answer, before) {
        (Some(Ok(verdict)), _) if verdict.verdict == Outcome::Applied => {
            let reason = if known(&verdict.reason) {
                verdict.reason.as_str()
            } else {
                "Applied"
            };
            Finding::new(RETENTION_APPLIED, State::True, reason, verdict.message.clone())
        }
        (_, Some(old)) => Finding::new(
            RETENTION_APPLIED,
            State::True,
            old.reason.clone(),
            old.message.clone(),
        ),
        _ => Finding::new(
            RETENTION_APPLIED,
            State::True,
            "Applied",
            "everything declared is in force",
        ),
    }
}

fn storage(facts: &Facts<'_>) -> Finding {
    let found = |state, reason: &str, message: &str| Finding::new(STORAGE_HEALTHY, state, reason, message);
    if let Some(hold) = facts.plan.hold.clone().or_else(|| answer_hold(facts)) {
        match hold.reason {
            "EngineUnreachable" => return found(State::Unknown, hold.reason, &hold.message),
            "IdentityMismatch" | "LockUnsupported" | "Recovering" | "DiskFull" | "ReadOnly" | "Corrupt" => {
                return found(State::False, hold.reason, &hold.message);
            }
            _ => {}
        }
    }
    if let Some(topic) = facts.after.topic() {
        if !topic.health.is_healthy() {
            return found(State::False, &topic.health.reason, &topic.health.message);
        }
        let sick = topic
            .partitions
            .iter()
            .find_map(|entry| Some((entry.partition, entry.unhealthy.as_ref()?)));
        if let Some((partition, health)) = sick {
            return found(
                State::False,
                &health.reason,
                &format!("partition {partition}: {}", health.message),
            );
        }
    }
    found(State::True, "Healthy", "")
}

/// How two statuses differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Not at all.
    None,
    /// In live figures only, which are told at a bounded rate.
    Figures,
    /// In what matters.
    Facts,
}

/// Compares a status with the one that was told.
pub fn compare(told: Option<&TopicStatus>, status: &TopicStatus) -> Change {
    let Some(told) = told else { return Change::Facts };
    if told == status {
        Change::None
    } else if without_figures(told) == without_figures(status) {
        Change::Figures
    } else {
        Change::Facts
    }
}

fn without_figures(status: &TopicStatus) -> TopicStatus {
    let mut status = status.clone();
    status.readers = None;
    if let Some(plan) = &mut status.plan {
        plan.partitions.clear();
        plan.partitions_omitted = 0;
        for reader in &mut plan.readers_at_risk {
            reader.position = None;
            reader.records_at_risk = 0;
        }
        for condition in status.conditions.iter_mut().flatten() {
            condition.message.clear();
        }
    }
    status
}
