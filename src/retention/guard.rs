//! The verdict: may a change go in, and if not, who would lose what.
//!
//! A change is judged over all partitions at once. It is held back where a reader stands before a data record that the
//! change takes sooner than the settings in force (see [`Outlook`]); transaction markers are no data. What lies below
//! the log start is lost already: it is reported, and never a reason to refuse.
//!
//! The cost is one look at each pair of partition and reader; only a partition on which the slowest reader is in the
//! way of the change is looked at closer, and only there is the log asked for its last data record.
use std::ops::Range;
use std::sync::Arc;

use super::losses::{AtRisk, Losses, Worst};
use super::outlook::{Eases, Outlook};
use super::readers::{Counted, Known, Reader, Standing, Unknown};
use crate::resource::contract::{
    IgnoredReader, OnLoss, Outcome, PartitionVerdict, ReaderAtRisk, ReaderKind, ReadersPolicy, Verdict,
    WhenNone,
};

/// Answers, for a partition, the offset of the last data record within a range of offsets that is not empty; `None`
/// where it holds transaction markers and gaps only.
pub type LastData<'a> = dyn FnMut(i32, Range<i64>) -> Option<i64> + 'a;

/// What is to be done with a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It goes in as asked.
    Apply,
    /// It is held back; nothing changes.
    Refuse,
    /// On each partition in [`Judgement::held`] the outcome of [`clamp`](super::clamp()) goes in, elsewhere what was asked.
    Clamp,
}

/// The reason of a condition or verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No reader loses a record.
    Applied,
    /// It goes in, or not, without any reader to ask.
    NoReadersKnown,
    /// A reader is behind.
    SlowReader,
    /// It cannot be known whether a reader is behind.
    ReaderUnknown,
    /// As much of it goes in as loses nothing.
    Clamped,
    /// It goes in although readers lose records.
    LossAccepted,
}

impl Cause {
    /// The reason as written in conditions and verdicts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "Applied",
            Self::NoReadersKnown => "NoReadersKnown",
            Self::SlowReader => "SlowReader",
            Self::ReaderUnknown => "ReaderUnknown",
            Self::Clamped => "Clamped",
            Self::LossAccepted => "LossAccepted",
        }
    }
}

/// Records that a reader had lost before the change, to whatever moved the log start past it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlreadyLost {
    /// Where it is known from.
    pub kind: ReaderKind,
    /// Group id, or client id and address.
    pub name: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Its position, below the log start.
    pub position: i64,
    /// Records between the two, as a span of offsets.
    pub records: i64,
}

/// A partition on which a reader is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The partition.
    pub partition: i32,
    /// The first offset that the slowest reader has not read; the log start where its position is unknown.
    pub slowest: i64,
    /// The position that every reader must reach.
    pub safe_at: i64,
    /// What besides the readers can take it out of the way.
    pub eases: Eases,
    /// The least position that is unknown because it lies beyond the log end.
    pub beyond_end: Option<i64>,
}

/// The guard's verdict on a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What is to be done.
    pub decision: Decision,
    /// Why.
    pub cause: Cause,
    /// Whether anything is taken sooner than under the settings in force, on any partition.
    pub lowering: bool,
    /// How many readers were looked at.
    pub readers_checked: usize,
    /// Readers left out by name, with the reason given.
    pub ignored: Vec<IgnoredReader>,
    /// Partitions whose log start moves, or that a reader at risk is on.
    pub partitions: Vec<PartitionVerdict>,
    /// Partitions on which readers are in the way, or all that lose data where nobody is known and that refuses.
    pub held: Vec<Held>,
    /// The readers at risk with most to lose, most first: as many as are listed.
    pub at_risk: Vec<AtRisk>,
    /// All of them.
    pub losses: Losses,
    /// Whether the position of any of them is unknown.
    pub any_unknown: bool,
    /// What readers had lost before.
    pub already_lost: Vec<AlreadyLost>,
    /// Whether a `retention.ms` is a thousandth of the one in force, as if seconds were meant.
    pub looks_like_seconds: bool,
}

/// Judges a change over all partitions and readers of a topic.
pub fn judge(
    outlooks: &[Outlook],
    readers: &[Reader],
    policy: &ReadersPolicy,
    last_data: &mut LastData<'_>,
) -> Judgement {
    let counted = Counted::of(readers, policy);
    let mut already_lost = Vec::new();
    let mut slowest: Vec<Option<i64>> = vec![None; outlooks.len()];
    for (reader, required) in counted.all() {
        for (outlook, slowest) in outlooks.iter().zip(&mut slowest) {
            let known = reader.position(outlook.partition).known;
            let Some(standing) = Standing::of(known, required, outlook.log_end) else {
                continue;
            };
            if let Standing::At(position) = standing
                && position < outlook.log_start
            {
                already_lost.push(AlreadyLost {
                    kind: reader.kind,
                    name: Arc::clone(&reader.name),
                    partition: outlook.partition,
                    position,
                    records: outlook.log_start.saturating_sub(position),
                });
            }
            let next = standing.next_offset(outlook.log_start);
            *slowest = Some(slowest.map_or(next, |slowest| slowest.min(next)));
        }
    }

    let nobody = counted.len() == 0;
    let refuses_nobody = policy.when_none == WhenNone::Refuse;
    let mut takes_data = false;
    let mut can_clamp = true;
    let mut held = Vec::new();
    let mut losses = Losses::of(
        counted
            .all()
            .map(|(reader, _)| Arc::clone(&reader.name))
            .collect(),
    );
    let mut worst = Worst::default();
    let mut any_unknown = false;
    for (outlook, slowest) in outlooks.iter().zip(&slowest) {
        let Some(first_taken) = outlook.taken.first() else {
            continue;
        };
        // Without any reader, whether records go still decides between `Applied` and `NoReadersKnown`; and where that
        // refuses, the change waits for the same things as with a reader at the start of what would go.
        let asks_anyway = nobody && (refuses_nobody || !takes_data);
        let Some(slowest) = slowest.or(asks_anyway.then_some(first_taken.start)) else {
            continue;
        };
        let last = outlook.taken.iter().rev().find_map(|taken| {
            let unread = slowest.max(taken.start)..taken.end;
            (!unread.is_empty())
                .then(|| last_data(outlook.partition, unread))
                .flatten()
        });
        let Some(last) = last else { continue };
        takes_data = true;
        if nobody && !refuses_nobody {
            continue;
        }
        can_clamp &= outlook.can_clamp;
        let safe_at = last.saturating_add(1);
        losses.on(outlook.partition);
        let mut beyond_end = None;
        for (number, (reader, required)) in counted.all().enumerate() {
            let Some(risk) = in_the_way(outlook, safe_at, reader, required) else {
                continue;
            };
            any_unknown |= risk.standing.is_unknown();
            if let Standing::Unknown(Unknown::BeyondEnd(position)) = risk.standing {
                beyond_end = Some(beyond_end.map_or(position, |least: i64| least.min(position)));
            }
            losses.push(number, &risk);
            worst.offer(risk);
        }
        held.push(Held {
            partition: outlook.partition,
            slowest,
            safe_at,
            eases: outlook.eases,
            beyond_end,
        });
    }

    let (decision, cause) = decide(policy, &losses, any_unknown, nobody && takes_data, can_clamp);
    Judgement {
        decision,
        cause,
        lowering: outlooks.iter().any(Outlook::is_lowering),
        readers_checked: counted.len(),
        ignored: counted
            .ignored
            .iter()
            .map(|(reader, pattern)| IgnoredReader {
                group: reader.name.to_string(),
                reason: policy
                    .ignored
                    .get(*pattern)
                    .map(|by| by.reason.clone())
                    .unwrap_or_default(),
            })
            .collect(),
        partitions: outlooks
            .iter()
            .filter(|outlook| outlook.is_lowering() || outlook.start_proposed != outlook.log_start)
            .map(|outlook| PartitionVerdict {
                partition: outlook.partition,
                log_start: outlook.log_start,
                would_be_start_in_force: outlook.start_in_force,
                would_be_start: outlook.start_proposed,
                bytes_freed: outlook.bytes_freed,
            })
            .collect(),
        held,
        at_risk: worst.into_list(),
        losses,
        any_unknown,
        already_lost,
        looks_like_seconds: outlooks.iter().any(|outlook| outlook.looks_like_seconds),
    }
}

fn in_the_way(outlook: &Outlook, safe_at: i64, reader: &Reader, required: bool) -> Option<AtRisk> {
    let position = reader.position(outlook.partition);
    let standing = Standing::of(position.known, required, outlook.log_end)?;
    let next = standing.next_offset(outlook.log_start);
    let mut unread = outlook.taken.iter().filter(|taken| next < taken.end);
    let lost = next.max(unread.clone().next()?.start)..unread.next_back()?.end;
    (lost.start < safe_at).then(|| AtRisk {
        kind: match position.known {
            Known::Absent | Known::Expired(_) if required => ReaderKind::Required,
            _ => reader.kind,
        },
        name: Arc::clone(&reader.name),
        partition: outlook.partition,
        standing,
        updated_ms: position.updated_ms,
        unread: outlook
            .taken
            .iter()
            .map(|taken| taken.end.saturating_sub(taken.start.max(next)).max(0))
            .sum(),
        lost,
        safe_at,
        log_start: outlook.log_start,
        start: outlook.start_proposed,
        held_by_transaction: outlook.last_stable_offset < outlook.high_watermark
            && standing == Standing::At(outlook.last_stable_offset),
    })
}

fn decide(
    policy: &ReadersPolicy,
    losses: &Losses,
    any_unknown: bool,
    taken_from_nobody: bool,
    can_clamp: bool,
) -> (Decision, Cause) {
    if taken_from_nobody {
        return match policy.when_none {
            WhenNone::Allow => (Decision::Apply, Cause::NoReadersKnown),
            WhenNone::Refuse => (Decision::Refuse, Cause::NoReadersKnown),
        };
    }
    if losses.is_empty() {
        return (Decision::Apply, Cause::Applied);
    }
    match policy.on_loss {
        OnLoss::Allow => (Decision::Apply, Cause::LossAccepted),
        OnLoss::Clamp if can_clamp => (Decision::Clamp, Cause::Clamped),
        OnLoss::Clamp | OnLoss::Refuse => (Decision::Refuse, refusal(any_unknown)),
    }
}

/// A person has to act on an unknown position; a slow reader may help itself. So the former is the reason shown.
fn refusal(any_unknown: bool) -> Cause {
    if any_unknown {
        Cause::ReaderUnknown
    } else {
        Cause::SlowReader
    }
}

impl Judgement {
    /// The same with a refusal in the place of a clamp, for where nothing in between can be told to be safe.
    pub fn without_clamp(mut self) -> Self {
        if self.decision == Decision::Clamp {
            (self.decision, self.cause) = (Decision::Refuse, refusal(self.any_unknown));
        }
        self
    }

    /// The verdict in the form of the control API. The caller fills in what only it knows: whether the change was
    /// none ([`Outcome::Unchanged`]), what is in force, whether it is pending, the topic's id and partitions, and how old records are.
    pub fn verdict(&self) -> Verdict {
        let more = self.losses.len().saturating_sub(self.at_risk.len());
        Verdict {
            verdict: match self.decision {
                Decision::Apply => Outcome::Applied,
                Decision::Refuse => Outcome::Refused,
                Decision::Clamp => Outcome::Clamped,
            },
            reason: self.cause.as_str().to_owned(),
            message: self.message(),
            readers_checked: count(self.readers_checked),
            partitions: self.partitions.clone(),
            readers_at_risk: self
                .at_risk
                .iter()
                .map(|risk| ReaderAtRisk {
                    kind: risk.kind,
                    name: risk.name.to_string(),
                    partition: risk.partition,
                    position: risk.standing.position(risk.log_start),
                    records_at_risk: risk.records(),
                    behind_ms: None,
                    detail: risk.detail(),
                })
                .collect(),
            more_readers_at_risk: count(more),
            ignored: self.ignored.clone(),
            in_force: Default::default(),
            pending: false,
            created: false,
            topic_id: String::new(),
            partition_count: 0,
            not_applied: Vec::new(),
        }
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
