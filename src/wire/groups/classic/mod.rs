//! A group of the classic protocol: members join, one of them assigns, all of them heartbeat.
//!
//! Invariants: a group that is Stable or CompletingRebalance has a leader that is a member; the generation never
//! goes back; whoever waits for an answer to JoinGroup is a member of a group in PreparingRebalance, whoever
//! waits for one to SyncGroup of a group in CompletingRebalance; each of them has a deadline that ends the
//! wait. Rules follow Kafka's `ClassicGroup` and `GroupMetadataManager`.
mod join;
mod member;
mod persist;
mod rebalance;
mod session;
mod sync;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;

use super::config::GroupConfig;
use super::member_protocol::{self, CONSUMER};
use super::messages::{DescribedGroup, DescribedMember, OfferedProtocol};
use super::output::{Now, Output};
pub(super) use member::Member;

/// Where a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No member; offsets may remain.
    Empty,
    /// Waiting for members to join.
    PreparingRebalance,
    /// Waiting for the leader's assignment.
    CompletingRebalance,
    /// Everybody has an assignment.
    Stable,
}

impl State {
    /// Kafka's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// What a step of the group needs besides the group.
pub(super) struct Step<'a> {
    pub now: Now,
    pub config: &'a GroupConfig,
    pub out: &'a mut Output,
}

/// When the wait for joining members ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JoinTimer {
    at_ms: i64,
    /// In the first rebalance of an empty group: how much longer the wait may be drawn out while members come.
    initial_remaining_ms: Option<i64>,
}

/// A classic group.
#[derive(Debug)]
pub struct ClassicGroup {
    id: Arc<str>,
    state: State,
    previous_state: State,
    state_since_ms: i64,
    generation: i32,
    protocol_type: Option<String>,
    protocol_name: Option<String>,
    leader: Option<Arc<str>>,
    members: BTreeMap<Arc<str>, Member>,
    /// Instance id -> member id.
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids that were handed out with MEMBER_ID_REQUIRED and have not come back, with the end of the wait.
    pending_join: BTreeMap<Arc<str>, i64>,
    /// Members of this generation that have not asked for their assignment.
    pending_sync: BTreeSet<Arc<str>>,
    join_timer: Option<JoinTimer>,
    sync_deadline_ms: Option<i64>,
    new_member_added: bool,
    /// Topics of all subscriptions; `None` when they are not known.
    subscribed: Option<BTreeSet<String>>,
    /// While nobody is in it: the topics that the last members subscribed to.
    read_last: BTreeSet<String>,
}

impl ClassicGroup {
    /// A group without members.
    pub(super) fn new(id: Arc<str>, now: Now) -> Self {
        Self {
            id,
            state: State::Empty,
            previous_state: State::Empty,
            state_since_ms: now.wall_ms,
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_join: BTreeMap::new(),
            pending_sync: BTreeSet::new(),
            join_timer: None,
            sync_deadline_ms: None,
            new_member_added: false,
            subscribed: None,
            read_last: BTreeSet::new(),
        }
    }

    /// The same in the place of a group that has left, which read these topics.
    pub(super) fn reading(mut self, read_last: BTreeSet<String>) -> Self {
        self.read_last = read_last;
        self
    }

    /// State.
    pub fn state(&self) -> State {
        self.state
    }

    /// Generation.
    pub fn generation(&self) -> i32 {
        self.generation
    }

    /// Protocol type; `None` before the first member.
    pub fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    pub(super) fn state_since_ms(&self) -> i64 {
        self.state_since_ms
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// Ids that were handed out and are not used yet.
    pub(super) fn handed_out(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pending_join.keys()
    }

    /// What the member that asks holds in memory already, bytes.
    pub(super) fn weight_of(&self, member_id: &str, instance_id: Option<&str>) -> usize {
        let known = instance_id.and_then(|instance| self.static_members.get(instance));
        let id = known.map_or(member_id, |id| &**id);
        self.members.get(id).map_or(0, Member::weight)
    }

    /// Nobody is in it, or on the way into it.
    pub(super) fn is_unused(&self) -> bool {
        self.state == State::Empty && self.members.is_empty() && self.pending_join.is_empty()
    }

    pub(super) fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// Topics the members subscribe to, where that is known.
    pub(super) fn subscribed(&self) -> Option<&BTreeSet<String>> {
        self.subscribed.as_ref()
    }

    /// While nobody is in it: the topics that the last members subscribed to.
    pub(super) fn read_last(&self) -> &BTreeSet<String> {
        &self.read_last
    }

    /// Whether commits on `topic` are in use; where subscriptions cannot be read, every topic is.
    pub(super) fn is_subscribed(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.uses_consumer_protocol(),
        }
    }

    /// The earliest moment at which [`Self::tick`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        let members = self.members.values().filter_map(|member| member.deadline_ms);
        let pending = self.pending_join.values().copied();
        members
            .chain(pending)
            .chain(self.join_timer.map(|timer| timer.at_ms))
            .chain(self.sync_deadline_ms)
            .min()
    }

    /// DescribeGroups.
    pub(super) fn describe(&self) -> DescribedGroup {
        let stable = self.state == State::Stable;
        let members = self.members.values().map(|member| DescribedMember {
            member_id: member.id.to_string(),
            instance_id: member.instance_id.as_deref().map(str::to_owned),
            client_id: member.client.id.to_string(),
            client_host: member.client.host.to_string(),
            metadata: match &self.protocol_name {
                Some(protocol) if stable => member.metadata(protocol),
                _ => bytes::Bytes::new(),
            },
            assignment: if stable {
                member.assignment.clone()
            } else {
                bytes::Bytes::new()
            },
        });
        DescribedGroup {
            state: self.state.name(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: match &self.protocol_name {
                Some(protocol) if stable => protocol.clone(),
                _ => String::new(),
            },
            members: members.collect(),
        }
    }

    /// Finds the member a request speaks for, and whether it may.
    fn check_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance_id {
            let current = self.static_members.get(instance);
            match current {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(current) if **current != *member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) {
            Ok(())
        } else {
            Err(ErrorCode::UnknownMemberId)
        }
    }

    fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    fn enter(&mut self, state: State, step: &mut Step<'_>) {
        self.previous_state = self.state;
        self.state = state;
        self.state_since_ms = step.now.wall_ms;
        self.touch(step.out);
    }

    /// Notes that what this group's topics are read by may have changed.
    fn touch(&self, out: &mut Output) {
        if let Some(topics) = &self.subscribed {
            let topics = topics.iter().map(|topic| Arc::from(topic.as_str()));
            out.changed
                .extend(topics.map(|topic| (topic, Arc::clone(&self.id))));
        }
    }

    /// The protocols every member supports.
    fn candidates(&self) -> BTreeSet<&str> {
        let mut members = self.members.values();
        let Some(first) = members.next() else {
            return BTreeSet::new();
        };
        let mut common: BTreeSet<&str> = first
            .protocols
            .iter()
            .map(|offered| offered.name.as_str())
            .collect();
        for member in members {
            common.retain(|name| member.protocols.iter().any(|offered| offered.name == *name));
        }
        common
    }

    /// Each member votes for the first of its protocols that all support; the most votes win.
    fn select_protocol(&self) -> Option<String> {
        let candidates = self.candidates();
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let vote = member
                .protocols
                .iter()
                .find(|offered| candidates.contains(offered.name.as_str()));
            if let Some(vote) = vote {
                *votes.entry(&vote.name).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        votes
            .into_iter()
            .find(|(_, count)| *count == most)
            .map(|(name, _)| name.to_owned())
    }

    /// Whether a member with these protocols could be in the group.
    fn supports(&self, protocol_type: &str, protocols: &[OfferedProtocol]) -> bool {
        if protocol_type.is_empty() || protocols.is_empty() {
            return false;
        }
        if self.members.is_empty() {
            return true;
        }
        let candidates = self.candidates();
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols
                .iter()
                .any(|offered| candidates.contains(offered.name.as_str()))
    }

    /// Learns the topics from the members' metadata for the chosen protocol.
    fn learn_subscriptions(&mut self) {
        if self.members.is_empty() {
            let left = self.subscribed.take().filter(|topics| !topics.is_empty());
            self.read_last = left.unwrap_or(std::mem::take(&mut self.read_last));
        }
        self.subscribed = match &self.protocol_name {
            Some(protocol) if self.uses_consumer_protocol() => self
                .members
                .values()
                .map(|member| member_protocol::subscribed_topics(&member.metadata(protocol)))
                .try_fold(BTreeSet::new(), |mut all, topics| {
                    all.extend(topics?);
                    Some(all)
                }),
            None if self.uses_consumer_protocol() && self.members.is_empty() => Some(BTreeSet::new()),
            _ => None,
        };
        if !self.members.is_empty() && self.subscribed.is_some() {
            self.read_last.clear();
        }
    }

    fn add_member(&mut self, member: Member, protocol_type: &str) {
        if self.members.is_empty() {
            self.protocol_type = Some(protocol_type.to_owned());
        }
        if self.leader.is_none() {
            self.leader = Some(Arc::clone(&member.id));
        }
        if let Some(instance) = &member.instance_id {
            self.static_members
                .insert(Arc::clone(instance), Arc::clone(&member.id));
        }
        self.pending_join.remove(&member.id);
        self.members.insert(Arc::clone(&member.id), member);
    }

    /// Takes a member out; whatever it waited for is answered as for an unknown member.
    fn remove_member(&mut self, member_id: &str, out: &mut Output) {
        let Some(mut member) = self.members.remove(member_id) else {
            return;
        };
        member.refuse_waiting(ErrorCode::UnknownMemberId, out);
        if let Some(instance) = &member.instance_id
            && self.static_members.get(instance) == Some(&member.id)
        {
            self.static_members.remove(instance);
        }
        self.pending_sync.remove(member_id);
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
    }
}

#[cfg(test)]
#[path = "classic_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "random_tests.rs"]
mod random_tests;
