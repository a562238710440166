//! A member of a group of the consumer protocol, and how it is moved towards its target.
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use super::assignor::Partitions;
use crate::wire::groups::messages::Client;
use crate::wire::groups::weight::{MEMBER, PARTITION, TEXT};

/// Epoch of a member that joins.
pub(super) const JOINING: i32 = 0;
/// Epoch with which a member leaves.
pub(super) const LEAVING: i32 = -1;
/// Epoch with which a static member leaves for a while.
pub(super) const AWAY: i32 = -2;

/// How far a member is from its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has all of it.
    Stable,
    /// It has to give something up first.
    Unrevoked,
    /// Something it is to get is still with others.
    Unreleased,
}

/// A member.
#[derive(Debug, Clone)]
pub struct ConsumerMember {
    pub(super) id: Arc<str>,
    pub(super) instance_id: Option<Arc<str>>,
    pub(super) rack_id: Option<String>,
    pub(super) client: Client,
    pub(super) epoch: i32,
    pub(super) previous_epoch: i32,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) topics: BTreeSet<String>,
    pub(super) regex: Option<String>,
    /// Topics the pattern matches.
    pub(super) matched: BTreeSet<String>,
    pub(super) assignor: Option<String>,
    pub(super) assigned: Partitions,
    pub(super) revoking: Partitions,
    pub(super) progress: Progress,
    /// When it is removed unless it is heard of, monotonic.
    pub(super) session_deadline_ms: i64,
    /// When it is removed unless it has given up what it was told to, monotonic.
    pub(super) revoke_deadline_ms: Option<i64>,
}

impl ConsumerMember {
    pub(in crate::wire::groups) fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub(in crate::wire::groups) fn client(&self) -> &Client {
        &self.client
    }

    /// What it holds in memory, bytes.
    pub(in crate::wire::groups) fn weight(&self) -> usize {
        let texts = [Some(&self.id), self.instance_id.as_ref(), Some(&self.client.id)];
        let texts = texts.into_iter().flatten().map(|text| TEXT + text.len());
        let said = [&self.rack_id, &self.regex, &self.assignor];
        let said = said
            .into_iter()
            .flatten()
            .chain(&self.topics)
            .chain(&self.matched);
        let partitions = self.assigned.values().chain(self.revoking.values());
        MEMBER
            + texts.sum::<usize>()
            + said.map(|text| TEXT + text.len()).sum::<usize>()
            + partitions.map(|own| TEXT + PARTITION * own.len()).sum::<usize>()
    }

    /// Topics it subscribes to, by name or by pattern.
    pub(super) fn subscribed(&self) -> impl Iterator<Item = &String> {
        self.topics.union(&self.matched)
    }

    /// Everything it may still be reading.
    pub(in crate::wire::groups) fn holds(&self) -> impl Iterator<Item = (Uuid, i32)> {
        self.assigned.iter().chain(&self.revoking).flat_map(pairs)
    }
}

fn pairs((topic, partitions): (&Uuid, &BTreeSet<i32>)) -> impl Iterator<Item = (Uuid, i32)> + use<> {
    let topic = *topic;
    partitions
        .clone()
        .into_iter()
        .map(move |partition| (topic, partition))
}

pub(super) fn contains(partitions: &Partitions, topic: Uuid, partition: i32) -> bool {
    partitions.get(&topic).is_some_and(|own| own.contains(&partition))
}

pub(super) fn is_subset(part: &Partitions, whole: &Partitions) -> bool {
    part.iter()
        .flat_map(pairs)
        .all(|(topic, partition)| contains(whole, topic, partition))
}

fn split(partitions: &Partitions, keep: impl Fn(Uuid, i32) -> bool) -> (Partitions, Partitions) {
    let (mut kept, mut rest) = (Partitions::new(), Partitions::new());
    for (topic, partition) in partitions.iter().flat_map(pairs) {
        let side = if keep(topic, partition) {
            &mut kept
        } else {
            &mut rest
        };
        side.entry(topic).or_default().insert(partition);
    }
    (kept, rest)
}

fn overlap(left: &Partitions, right: &Partitions) -> bool {
    left.iter()
        .flat_map(pairs)
        .any(|(topic, partition)| contains(right, topic, partition))
}

/// Who holds a partition, whether assigned or not yet given up.
pub(super) type Holders = HashMap<(Uuid, i32), Arc<str>>;

impl ConsumerMember {
    /// Moves one step towards `target` of `epoch`. `owned` is what the member says it has, `None` if it did not say.
    ///
    /// No partition is given to a member before the one that had it confirmed that it let go, and the member's epoch
    /// moves only once it has given up all it has to (Kafka's `CurrentAssignmentBuilder`).
    pub(super) fn reconcile(
        &mut self,
        target: &Partitions,
        epoch: i32,
        owned: Option<&Partitions>,
        holders: &mut Holders,
        now_ms: i64,
    ) {
        match self.progress {
            Progress::Stable if self.epoch == epoch => return,
            Progress::Unrevoked if owned.is_none_or(|owned| overlap(owned, &self.revoking)) => return,
            Progress::Stable | Progress::Unrevoked | Progress::Unreleased => {}
        }
        for pair in self.revoking.iter().flat_map(pairs) {
            holders.remove(&pair);
        }
        self.revoking.clear();
        self.revoke_deadline_ms = None;
        let (kept, surplus) = split(&self.assigned, |topic, partition| {
            contains(target, topic, partition)
        });
        let has_surplus = owned.is_none_or(|owned| overlap(owned, &surplus));
        self.assigned = kept;
        if !surplus.is_empty() && has_surplus {
            self.revoking = surplus;
            self.progress = Progress::Unrevoked;
            self.revoke_deadline_ms = Some(now_ms.saturating_add(i64::from(self.rebalance_timeout_ms)));
            return;
        }
        for pair in surplus.iter().flat_map(pairs) {
            holders.remove(&pair);
        }
        self.progress = Progress::Stable;
        for pair in target.iter().flat_map(pairs) {
            match holders.get(&pair) {
                Some(holder) if *holder != self.id => self.progress = Progress::Unreleased,
                _ => {
                    holders.insert(pair, Arc::clone(&self.id));
                    self.assigned.entry(pair.0).or_default().insert(pair.1);
                }
            }
        }
        if self.epoch != epoch {
            self.previous_epoch = self.epoch;
            self.epoch = epoch;
        }
    }
}
