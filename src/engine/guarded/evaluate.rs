//! Asking the guard: the outlook of every partition, every reader, one judgement.
use std::collections::BTreeMap;
use std::ops::Range;

use crate::engine::Engine;
use crate::engine::accepted::AcceptedLosses;
use crate::engine::guarded::layers;
use crate::engine::readers::ReaderInventory;
use crate::engine::topics::catalog::TopicState;
use crate::engine::topics::record::Layers;
use crate::resource::contract::{Outcome, ReadersPolicy, Verdict};
use crate::retention::{
    Cause, Clamped, Decision, Judgement, Look, Outlook, Proposed, Reader, Rules, Watch, judge,
};
use crate::telemetry::clock::millis;

/// For how much longer than the headroom a clamp is made safe when a reader stands still, so that it has to be raised
/// once in this time and not at every pass, ms.
const STANDS_STILL_MS: i64 = 60 * 60 * 1000;

/// What is to be judged.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    /// The topic's layers become these.
    Settings(&'a Layers),
    /// One partition's records go up to an offset; a negative one is the high watermark.
    DeleteRecords {
        /// The partition.
        partition: i32,
        /// The first offset to keep.
        offset: i64,
    },
    /// The whole topic goes.
    DeleteTopic,
}

/// What the guard said, and what follows.
#[derive(Debug)]
pub(crate) struct Evaluation {
    /// The judgement.
    pub judgement: Judgement,
    /// The limits that lose nothing, where the decision is to clamp.
    pub clamped: Vec<(i32, Clamped)>,
    /// How old the first record is that each of the readers listed has not read, ms.
    behind_ms: Vec<Option<i64>>,
    /// Partitions that nobody can look at and that the change might lower.
    pub unseen: Vec<i32>,
    /// What the change would wait for.
    pub watch: Watch,
}

impl Evaluation {
    /// What is to be done.
    pub fn decision(&self) -> Decision {
        if self.unseen.is_empty() {
            self.judgement.decision
        } else {
            Decision::Refuse
        }
    }

    /// The worse of two, where nobody knows which of them is right. What is safe in between is not known either: a clamp
    /// is a refusal.
    fn or_worse(self, other: Self) -> Self {
        let rank = |evaluation: &Self| match evaluation.decision() {
            Decision::Refuse => 3,
            Decision::Clamp => 2,
            Decision::Apply if evaluation.judgement.cause == Cause::LossAccepted => 1,
            Decision::Apply => 0,
        };
        let worse = if rank(&other) > rank(&self) { other } else { self };
        if worse.judgement.decision != Decision::Clamp {
            return worse;
        }
        Self {
            watch: Watch::until_safe(&worse.judgement),
            judgement: worse.judgement.without_clamp(),
            clamped: Vec::new(),
            behind_ms: worse.behind_ms,
            unseen: worse.unseen,
        }
    }

    /// What readers lose where it goes in all the same, because somebody allowed it.
    pub fn accepted(&self, topic: &TopicState) -> AcceptedLosses {
        if self.decision() == Decision::Apply && self.judgement.cause == Cause::LossAccepted {
            AcceptedLosses::of(&topic.record.name, &self.judgement.losses)
        } else {
            AcceptedLosses::default()
        }
    }

    /// The limits that go in instead of those asked for.
    pub fn clamped_rules(&self) -> BTreeMap<i32, Rules> {
        self.clamped
            .iter()
            .map(|(partition, clamped)| (*partition, clamped.rules))
            .collect()
    }

    /// The answer, with what only the engine knows filled in.
    pub fn verdict(&self, topic: &TopicState) -> Verdict {
        let mut verdict = self.judgement.verdict();
        for (reader, behind_ms) in verdict.readers_at_risk.iter_mut().zip(&self.behind_ms) {
            reader.behind_ms = *behind_ms;
        }
        if !self.unseen.is_empty() {
            verdict.verdict = Outcome::Refused;
            verdict.reason = "ReaderUnknown".to_owned();
            let unseen = format!(
                "partitions {:?} are offline or their settings cannot be read, so nobody can say what the change would take there.",
                self.unseen
            );
            verdict.message = if self.judgement.decision == Decision::Refuse {
                format!("{} Besides, {unseen}", verdict.message)
            } else {
                format!("Not applied, nothing deleted: {unseen}")
            };
        }
        describe(&mut verdict, topic);
        verdict
    }
}

/// Fills in what a verdict says about the topic itself.
pub(crate) fn describe(verdict: &mut Verdict, topic: &TopicState) {
    verdict.in_force = topic.record.layers.in_force();
    verdict.topic_id = crate::log::checkpoints::format_id(topic.record.id);
    verdict.partition_count = topic.record.partitions;
}

impl Engine {
    /// Judges a change. Whoever acts on the answer holds the gate from before this call until the change is in force.
    ///
    /// While the wall clock is in doubt the change has to be harmless at either of the times that it may be.
    pub(crate) fn evaluate(
        &self,
        topic: &TopicState,
        change: Change<'_>,
        policy: &ReadersPolicy,
    ) -> Evaluation {
        let times = self.clock_guard.times_for_verdict();
        let found = self.evaluate_at(times.now_ms, topic, change, policy);
        match times.or_ms {
            Some(or_ms) => found.or_worse(self.evaluate_at(or_ms, topic, change, policy)),
            None => found,
        }
    }

    fn evaluate_at(
        &self,
        now_ms: i64,
        topic: &TopicState,
        change: Change<'_>,
        policy: &ReadersPolicy,
    ) -> Evaluation {
        let granted = topic.record.granted();
        let headroom_ms = policy
            .headroom_ms
            .unwrap_or_else(|| millis(self.config.check_interval));
        let mut outlooks: Vec<Outlook> = Vec::with_capacity(topic.partitions.len());
        let mut asked: Vec<(i32, Rules, Proposed)> = Vec::with_capacity(topic.partitions.len());
        let mut unseen = Vec::new();
        for (partition, state) in (0..).zip(&topic.partitions) {
            if matches!(change, Change::DeleteRecords { partition: only, .. } if only != partition) {
                continue;
            }
            let Some((in_force, proposed)) = proposal(granted, partition, change) else {
                unseen.push(partition);
                continue;
            };
            let Some(log) = &state.log else {
                if might_lower(&in_force, &proposed) {
                    unseen.push(partition);
                }
                continue;
            };
            outlooks.push(log.outlook(in_force, proposed, now_ms, headroom_ms));
            asked.push((partition, in_force, proposed));
        }
        let readers = self.readers_of(topic);
        let mut last_data = |partition: i32, range: Range<i64>| {
            let log = topic.partition(partition)?.log.as_ref()?;
            log.last_data(range)
        };
        let judgement = judge(&outlooks, &readers, policy, &mut last_data);
        let mut clamped = Vec::new();
        if judgement.decision == Decision::Clamp {
            for held in &judgement.held {
                let asked = asked.iter().find(|(partition, ..)| *partition == held.partition);
                let log = topic
                    .partition(held.partition)
                    .and_then(|state| state.log.as_ref());
                if let (Some((_, in_force, proposed)), Some(log)) = (asked, log)
                    && let Some(found) = log.clamp(*in_force, *proposed, held.slowest, now_ms, headroom_ms)
                {
                    let look = Look {
                        slowest: held.slowest,
                        now_ms,
                        headroom_ms,
                    };
                    let in_part = topic.record.before.is_some();
                    let now = in_part
                        .then(|| topic.record.layers.settings(held.partition).ok())
                        .flatten();
                    let found = match now {
                        Some(now) => {
                            let now = Rules::from(&now);
                            log.step(*in_force, *proposed, &now, found, look, STANDS_STILL_MS)
                        }
                        None => found,
                    };
                    clamped.push((held.partition, found));
                }
            }
        }
        let watch = match judgement.decision {
            Decision::Clamp => Watch::until_step(&judgement, &clamped),
            Decision::Apply | Decision::Refuse => Watch::until_safe(&judgement),
        };
        let behind_ms = judgement
            .at_risk
            .iter()
            .map(|risk| {
                let log = topic.partition(risk.partition)?.log.as_ref()?;
                Some(now_ms.saturating_sub(log.timestamp_from(risk.lost.start)?).max(0))
            })
            .collect();
        Evaluation {
            judgement,
            clamped,
            behind_ms,
            unseen,
            watch,
        }
    }

    /// Every reader of a topic.
    pub(crate) fn readers_of(&self, topic: &TopicState) -> Vec<Reader> {
        self.positions
            .readers(&topic.record.name, topic.record.id, topic.record.partitions)
    }
}

/// The rules in force on a partition and what is proposed for it; `None` where either cannot be read.
fn proposal(granted: &Layers, partition: i32, change: Change<'_>) -> Option<(Rules, Proposed)> {
    let rules = |layers: &Layers| {
        layers
            .settings(partition)
            .ok()
            .map(|settings| Rules::from(&settings))
    };
    let in_force = rules(granted)?;
    let proposed = match change {
        Change::Settings(layers) => Proposed::Rules(rules(layers)?),
        Change::DeleteRecords { offset, .. } => Proposed::DeleteRecords(offset),
        Change::DeleteTopic => Proposed::DeleteTopic,
    };
    Some((in_force, proposed))
}

fn might_lower(in_force: &Rules, proposed: &Proposed) -> bool {
    match proposed {
        Proposed::Rules(rules) => layers::might_lower(in_force, rules),
        Proposed::DeleteRecords(_) | Proposed::DeleteTopic => true,
    }
}
