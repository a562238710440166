//! A group of the consumer protocol (KIP-848): the coordinator assigns, members are told by heartbeat.
//!
//! Three epochs carry it. The *group epoch* grows with every change of members, subscriptions or topics; the
//! *assignment epoch* is the group epoch the target assignment was made for; a *member epoch* is the assignment
//! epoch the member has reached. Invariants: no epoch of the group goes back; a partition is held by at
//! most one member; a member that does not answer in time is out.
pub mod assignor;
mod heartbeat;
mod member;
mod persist;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;
use uuid::Uuid;

use super::messages::{CommitRequest, DescribedConsumer, DescribedConsumerGroup, Refusal};
use super::output::Output;
use super::topics::Topics;
use super::weight::{PARTITION, TEXT};
use assignor::{Assignor, Partitions};
use member::{ConsumerMember, Holders, Progress};

pub(super) use heartbeat::{Pulse, check_request};

/// A group of the consumer protocol.
#[derive(Debug)]
pub struct ConsumerGroup {
    id: Arc<str>,
    group_epoch: i32,
    assignment_epoch: i32,
    members: BTreeMap<Arc<str>, ConsumerMember>,
    /// Instance id -> member id.
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    target: BTreeMap<Arc<str>, Partitions>,
    holders: Holders,
    /// Subscribed topics that exist, with id and number of partitions, as of the group epoch.
    seen: BTreeMap<String, (Uuid, i32)>,
    seen_version: Option<u64>,
    /// While nobody is in it: the topics that the last members subscribed to.
    read_last: BTreeSet<String>,
}

impl ConsumerGroup {
    /// A group without members.
    pub(super) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            group_epoch: 0,
            assignment_epoch: 0,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            target: BTreeMap::new(),
            holders: Holders::new(),
            seen: BTreeMap::new(),
            seen_version: None,
            read_last: BTreeSet::new(),
        }
    }

    /// The same in the place of a group that has left, which read these topics.
    pub(super) fn reading(mut self, read_last: BTreeSet<String>) -> Self {
        self.read_last = read_last;
        self
    }

    /// Kafka's name of the state.
    pub fn state(&self) -> &'static str {
        let settled = |member: &ConsumerMember| {
            member.progress == Progress::Stable
                && (member.epoch == self.assignment_epoch || member.epoch == member::AWAY)
        };
        if self.members.is_empty() {
            "Empty"
        } else if self.group_epoch > self.assignment_epoch {
            "Assigning"
        } else if self.members.values().all(settled) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// Epoch of the group.
    pub fn group_epoch(&self) -> i32 {
        self.group_epoch
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &ConsumerMember> {
        self.members.values()
    }

    /// What the member that asks holds in memory already, bytes.
    pub(super) fn weight_of(&self, member_id: &str, instance_id: Option<&str>) -> usize {
        let known = instance_id.and_then(|instance| self.static_members.get(instance));
        let id = known.map_or(member_id, |id| &**id);
        self.members.get(id).map_or(0, ConsumerMember::weight)
    }

    /// What the target assignment and the topics it was made for hold in memory, bytes.
    pub(super) fn weight_of_targets(&self) -> usize {
        let targets = self.target.values().flat_map(BTreeMap::values);
        let targets = targets.map(|own| TEXT + PARTITION * own.len());
        targets
            .chain(self.seen.keys().map(|topic| TEXT + topic.len()))
            .sum()
    }

    /// Whether a member subscribes to the topic.
    pub(super) fn is_subscribed(&self, topic: &str) -> bool {
        let mut members = self.members.values();
        members.any(|member| member.topics.contains(topic) || member.matched.contains(topic))
    }

    /// While nobody is in it: the topics that the last members subscribed to.
    pub(super) fn read_last(&self) -> &BTreeSet<String> {
        &self.read_last
    }

    pub(super) fn subscribed(&self) -> BTreeSet<&String> {
        self.members
            .values()
            .flat_map(ConsumerMember::subscribed)
            .collect()
    }

    /// The earliest moment at which [`Self::tick`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.members
            .values()
            .flat_map(|member| [Some(member.session_deadline_ms), member.revoke_deadline_ms])
            .flatten()
            .min()
    }

    /// Whether a commit may go in.
    pub(super) fn check_commit(&self, request: &CommitRequest) -> Result<(), ErrorCode> {
        if request.generation_or_epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        let Some(member) = self.members.get(request.member_id.as_str()) else {
            return Err(ErrorCode::UnknownMemberId);
        };
        if request.version < 9 {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if member.epoch != request.generation_or_epoch {
            return Err(ErrorCode::StaleMemberEpoch);
        }
        Ok(())
    }

    /// Whether a member may read the group's commits.
    pub(super) fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        let member_id = match member_id {
            None if epoch < 0 => return Ok(()),
            other => other.unwrap_or_default(),
        };
        match self.members.get(member_id) {
            None => Err(ErrorCode::UnknownMemberId),
            Some(member) if member.epoch != epoch => Err(ErrorCode::StaleMemberEpoch),
            Some(_) => Ok(()),
        }
    }

    /// The assignor most members ask for.
    fn assignor(&self) -> Assignor {
        let asked = self.members.values().filter_map(|member| {
            let name = member.assignor.as_deref()?;
            Assignor::named(name)
        });
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        for assignor in asked {
            *votes.entry(assignor).or_default() += 1;
        }
        let most = votes.values().copied().max();
        votes
            .into_iter()
            .find(|(_, count)| Some(*count) == most)
            .map_or(Assignor::Uniform, |(assignor, _)| assignor)
    }

    /// ConsumerGroupDescribe.
    pub(super) fn describe(&self, topics: &Topics) -> DescribedConsumerGroup {
        let named = |partitions: &Partitions| {
            partitions
                .iter()
                .filter_map(|(id, partitions)| {
                    let topic = topics.by_id(*id)?;
                    Some((
                        *id,
                        topic.name.to_string(),
                        partitions.iter().copied().collect::<Vec<i32>>(),
                    ))
                })
                .collect::<Vec<_>>()
        };
        let members = self.members.values().map(|member| DescribedConsumer {
            member_id: member.id.to_string(),
            instance_id: member.instance_id.as_deref().map(str::to_owned),
            rack_id: member.rack_id.clone(),
            member_epoch: member.epoch,
            client_id: member.client.id.to_string(),
            client_host: member.client.host.to_string(),
            subscribed_topics: member.topics.iter().cloned().collect(),
            subscribed_regex: member.regex.clone(),
            assignment: named(&member.assigned),
            target: self.target.get(&member.id).map(named).unwrap_or_default(),
        });
        DescribedConsumerGroup {
            state: self.state(),
            group_epoch: self.group_epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: self.assignor().name().to_owned(),
            members: members.collect(),
        }
    }

    fn touch(&self, out: &mut Output) {
        let topics = self.subscribed().into_iter();
        out.changed
            .extend(topics.map(|topic| (Arc::from(topic.as_str()), Arc::clone(&self.id))));
    }

    fn unknown_member(&self, member_id: &str) -> Refusal {
        Refusal::new(
            ErrorCode::UnknownMemberId,
            format!("Member {member_id} is not a member of group {}.", self.id),
        )
    }
}

#[cfg(test)]
#[path = "consumer_tests.rs"]
mod tests;
