//! The coordinator: all groups and their positions, and the rules between them.
//!
//! Every method takes the time and leaves answers and records in an [`Output`]. Records are to be made durable in the
//! order they come; [`Coordinator::settled`] then tells how that went. The next moment at which
//! [`Coordinator::tick`] has work is [`Coordinator::next_deadline`].
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;
use uuid::Uuid;

use super::classic::{ClassicGroup, State, Step};
use super::config::GroupConfig;
use super::consumer::{ConsumerGroup, Pulse, check_request};
use super::messages::{
    ConsumerHeartbeatReply, ConsumerHeartbeatRequest, DescribedConsumerGroup, DescribedGroup,
    HeartbeatRequest, JoinReply, JoinRequest, LeaveReply, LeavingMember, ListedGroup, Refusal, SyncReply,
    SyncRequest,
};
use super::offsets::{Ages, Offsets};
use super::output::{Now, Output, Reply, Token};
use super::record::{CommittedOffset, FormerPosition, GroupSnapshot, PositionKey, Record};
use super::topics::{Topic, Topics};
use super::weight::Weights;

/// A group of either protocol.
#[derive(Debug)]
pub enum Group {
    /// Classic protocol.
    Classic(ClassicGroup),
    /// Consumer protocol of KIP-848.
    Consumer(ConsumerGroup),
}

impl Group {
    fn next_deadline(&self) -> Option<i64> {
        match self {
            Self::Classic(group) => group.next_deadline(),
            Self::Consumer(group) => group.next_deadline(),
        }
    }

    /// Nobody is in it, or on the way into it.
    fn is_unused(&self) -> bool {
        match self {
            Self::Classic(group) => group.is_unused(),
            Self::Consumer(group) => group.is_empty(),
        }
    }

    /// Nobody is in it, as its state says.
    fn is_empty(&self) -> bool {
        match self {
            Self::Classic(group) => group.state() == State::Empty,
            Self::Consumer(group) => group.is_empty(),
        }
    }

    /// Whether commits on the topic are in use and must not expire or be deleted.
    pub(super) fn is_subscribed(&self, topic: &str) -> bool {
        match self {
            Self::Classic(group) => group.is_subscribed(topic),
            Self::Consumer(group) => group.is_subscribed(topic),
        }
    }

    /// While nobody is in it: the topics that the last members subscribed to.
    pub(super) fn read_last(&self) -> &BTreeSet<String> {
        match self {
            Self::Classic(group) => group.read_last(),
            Self::Consumer(group) => group.read_last(),
        }
    }

    fn ages(&self) -> Ages {
        match self {
            Self::Consumer(_) => Ages::SinceCommit,
            Self::Classic(group) => match (group.protocol_type(), group.state()) {
                (None, _) => Ages::SinceCommit,
                (Some(_), State::Empty) => Ages::SinceEmpty(group.state_since_ms()),
                (Some(_), State::Stable) if group.subscribed().is_some() => Ages::SinceCommit,
                (Some(_), _) => Ages::Never,
            },
        }
    }
}

/// All groups.
#[derive(Debug)]
pub struct Coordinator {
    pub(super) config: GroupConfig,
    pub(super) groups: BTreeMap<Arc<str>, Group>,
    pub(super) offsets: Offsets,
    pub(super) topics: Topics,
    /// When each group is to be looked at; never later than its deadline.
    wakes: BTreeSet<(i64, Arc<str>)>,
    wake_at: BTreeMap<Arc<str>, i64>,
    pub(super) weights: Weights,
}

impl Coordinator {
    /// A coordinator without groups.
    pub fn new(config: GroupConfig) -> Self {
        Self {
            config,
            groups: BTreeMap::new(),
            offsets: Offsets::default(),
            topics: Topics::default(),
            wakes: BTreeSet::new(),
            wake_at: BTreeMap::new(),
            weights: Weights::default(),
        }
    }

    /// Its settings.
    pub fn config(&self) -> &GroupConfig {
        &self.config
    }

    /// The topics it knows.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Puts a kept commit in place.
    pub fn load_commit(&mut self, key: &PositionKey, value: CommittedOffset, now: Now) {
        self.note_group(&key.group, now);
        self.offsets.put(key, value);
    }

    /// A group that somebody committed for is a group, even after its commits were deleted, until it is next looked at whether
    /// it is over.
    pub(super) fn note_group(&mut self, id: &Arc<str>, now: Now) {
        if !self.groups.contains_key(id) {
            let group = ClassicGroup::new(Arc::clone(id), now);
            self.groups.insert(Arc::clone(id), Group::Classic(group));
            self.weigh(id);
        }
    }

    /// Puts a remembered position in place.
    pub fn load_former(&mut self, key: &PositionKey, former: FormerPosition) {
        self.offsets.remember(key, former);
    }

    /// Puts a kept group in place. Topics are to be known before.
    pub fn load_group(&mut self, id: &str, snapshot: GroupSnapshot, now: Now) {
        let id: Arc<str> = Arc::from(id);
        let group = match snapshot {
            GroupSnapshot::Classic(snapshot) => {
                Group::Classic(ClassicGroup::restore(Arc::clone(&id), snapshot, now))
            }
            GroupSnapshot::Consumer(snapshot) => {
                let mut group = ConsumerGroup::restore(Arc::clone(&id), snapshot, &self.config, now);
                group.resolve(&self.topics);
                Group::Consumer(group)
            }
        };
        self.groups.insert(Arc::clone(&id), group);
        self.schedule(&id);
    }

    /// A topic was created or grew.
    pub fn set_topic(&mut self, topic: Topic) {
        self.topics.set(topic);
    }

    /// A topic was deleted: nobody has a position on it any more, and it is remembered who had.
    pub fn remove_topic(&mut self, name: &str, now: Now, out: &mut Output) {
        let Some(topic) = self.topics.remove(name) else {
            return;
        };
        let records = self.offsets.topic_deleted(&topic.name, now.wall_ms);
        self.emit(records, out);
    }

    /// The records became durable, or did not.
    pub fn settled(&mut self, records: &[Record], durable: bool) {
        for record in records {
            if durable {
                self.offsets.apply(record);
            } else {
                self.offsets.abandon(record);
            }
        }
    }

    pub(super) fn emit(&mut self, records: impl IntoIterator<Item = Record>, out: &mut Output) {
        for record in records {
            self.offsets.begin(&record);
            out.records.push(record);
        }
    }

    /// Next moment, monotonic, at which [`Self::tick`] may have work.
    pub fn next_deadline(&self) -> Option<i64> {
        self.wakes.first().map(|(at_ms, _)| *at_ms)
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Now, out: &mut Output) {
        while let Some((at_ms, id)) = self.wakes.first().cloned() {
            if at_ms > now.monotonic_ms {
                return;
            }
            match self.groups.get_mut(&id) {
                Some(Group::Classic(group)) => group.tick(&mut Step {
                    now,
                    config: &self.config,
                    out,
                }),
                Some(Group::Consumer(group)) => group.tick(now.monotonic_ms, out),
                None => {}
            }
            self.schedule(&id);
        }
    }

    /// Has a group looked at in time and weighed, after anything that could bring a deadline forward or change what it holds.
    fn schedule(&mut self, id: &Arc<str>) {
        self.weigh(id);
        let next = self.groups.get(id).and_then(Group::next_deadline);
        let old = match next {
            Some(at_ms) => self.wake_at.insert(Arc::clone(id), at_ms),
            None => self.wake_at.remove(id),
        };
        if old == next {
            return;
        }
        if let Some(at_ms) = old {
            self.wakes.remove(&(at_ms, Arc::clone(id)));
        }
        if let Some(at_ms) = next {
            self.wakes.insert((at_ms, Arc::clone(id)));
        }
    }

    fn read_last(&self, id: &str) -> BTreeSet<String> {
        self.groups
            .get(id)
            .map(Group::read_last)
            .cloned()
            .unwrap_or_default()
    }

    /// The classic group of this name, if there is one.
    fn classic(&mut self, id: &str) -> Option<&mut ClassicGroup> {
        match self.groups.get_mut(id) {
            Some(Group::Classic(group)) => Some(group),
            _ => None,
        }
    }

    /// JoinGroup; `new_id` makes the id of a member that has none.
    pub fn join(&mut self, now: Now, token: Token, request: JoinRequest, new_id: Uuid, out: &mut Output) {
        let refused = |error| Reply::Join(JoinReply::refused(error, request.member_id.clone()));
        if request.group_id.is_empty() {
            out.replies.push((token, refused(ErrorCode::InvalidGroupId)));
            return;
        }
        let timeouts = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        if !timeouts.contains(&request.session_timeout_ms) {
            out.replies
                .push((token, refused(ErrorCode::InvalidSessionTimeout)));
            return;
        }
        if let Err(error) = self.check_room_to_join(&request) {
            out.replies.push((token, refused(error)));
            return;
        }
        let id: Arc<str> = Arc::from(request.group_id.as_str());
        let replaceable = match self.groups.get(&id) {
            Some(Group::Classic(_)) => false,
            Some(Group::Consumer(group)) if !group.is_empty() => {
                out.replies
                    .push((token, refused(ErrorCode::InconsistentGroupProtocol)));
                return;
            }
            Some(Group::Consumer(_)) | None => true,
        };
        if replaceable {
            if !request.member_id.is_empty() {
                out.replies.push((token, refused(ErrorCode::UnknownMemberId)));
                return;
            }
            let group = ClassicGroup::new(Arc::clone(&id), now).reading(self.read_last(&id));
            self.groups.insert(Arc::clone(&id), Group::Classic(group));
        }
        let mut step = Step {
            now,
            config: &self.config,
            out,
        };
        if let Some(Group::Classic(group)) = self.groups.get_mut(&id) {
            group.join(token, request, new_id, &mut step);
        }
        self.schedule(&id);
    }

    /// SyncGroup.
    pub fn sync(&mut self, now: Now, token: Token, request: SyncRequest, out: &mut Output) {
        let refused = |error| Reply::Sync(SyncReply::refused(error));
        if request.group_id.is_empty() {
            out.replies.push((token, refused(ErrorCode::InvalidGroupId)));
            return;
        }
        if let Err(error) = self.check_room_to_sync(&request) {
            out.replies.push((token, refused(error)));
            return;
        }
        let id: Arc<str> = Arc::from(request.group_id.as_str());
        let mut step = Step {
            now,
            config: &self.config,
            out,
        };
        match self.groups.get_mut(&id) {
            Some(Group::Classic(group)) => group.sync(token, request, &mut step),
            _ => out.replies.push((token, refused(ErrorCode::UnknownMemberId))),
        }
        self.schedule(&id);
    }

    /// Heartbeat.
    pub fn heartbeat(&mut self, now: Now, request: &HeartbeatRequest) -> Result<(), ErrorCode> {
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        // A heartbeat only puts a deadline off; the wake that comes too early is put right then. A member that was
        // excused has no deadline before, so that one is scheduled here.
        let group = self
            .classic(&request.group_id)
            .ok_or(ErrorCode::UnknownMemberId)?;
        let result = group.heartbeat(request, now.monotonic_ms);
        if !self.wake_at.contains_key(request.group_id.as_str()) {
            self.schedule(&Arc::from(request.group_id.as_str()));
        }
        result
    }

    /// LeaveGroup.
    pub fn leave(
        &mut self,
        now: Now,
        group_id: &str,
        members: &[LeavingMember],
        out: &mut Output,
    ) -> LeaveReply {
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let id: Arc<str> = Arc::from(group_id);
        let mut step = Step {
            now,
            config: &self.config,
            out,
        };
        let results = match self.groups.get_mut(&id) {
            Some(Group::Classic(group)) => group.leave(members, &mut step),
            _ => vec![Some(ErrorCode::UnknownMemberId); members.len()],
        };
        self.schedule(&id);
        Ok(results)
    }

    /// ConsumerGroupHeartbeat; `new_id` makes the id of a member that has none.
    pub fn consumer_heartbeat(
        &mut self,
        now: Now,
        request: ConsumerHeartbeatRequest,
        new_id: &str,
        out: &mut Output,
    ) -> Result<ConsumerHeartbeatReply, Refusal> {
        check_request(&request)?;
        if request.member_epoch >= 0
            && let Err(reason) = self.check_room_to_beat(&request)
        {
            return Err(Refusal::new(ErrorCode::GroupMaxSizeReached, reason));
        }
        let id: Arc<str> = Arc::from(request.group_id.as_str());
        let missing = || {
            Refusal::new(
                ErrorCode::GroupIdNotFound,
                format!("Group {id} not found or not a consumer group."),
            )
        };
        let make = match self.groups.get(&id) {
            Some(Group::Consumer(_)) => false,
            Some(group @ Group::Classic(_)) if !group.is_empty() && request.member_epoch == 0 => {
                return Err(Refusal::new(
                    ErrorCode::GroupIdNotFound,
                    format!(
                        "Cannot upgrade classic group {id} to consumer group because online upgrade is disabled."
                    ),
                ));
            }
            Some(group @ Group::Classic(_)) if !group.is_empty() => return Err(missing()),
            Some(Group::Classic(_)) | None if request.member_epoch != 0 => return Err(missing()),
            Some(Group::Classic(_)) | None => true,
        };
        let before = if make {
            let group = ConsumerGroup::new(Arc::clone(&id)).reading(self.read_last(&id));
            self.groups.insert(Arc::clone(&id), Group::Consumer(group))
        } else {
            None
        };
        let mut pulse = Pulse {
            now,
            config: &self.config,
            topics: &self.topics,
            out,
        };
        let result = match self.groups.get_mut(&id) {
            Some(Group::Consumer(group)) => group.heartbeat(request, new_id, &mut pulse),
            _ => Err(missing()),
        };
        if make && result.is_err() {
            // Nothing was made after all.
            match before {
                Some(group) => self.groups.insert(Arc::clone(&id), group),
                None => self.groups.remove(&id),
            };
        }
        self.schedule(&id);
        result
    }

    /// DescribeGroups.
    pub fn describe(&self, group_id: &str) -> Result<DescribedGroup, Refusal> {
        match self.groups.get(group_id) {
            Some(Group::Classic(group)) => Ok(group.describe()),
            Some(Group::Consumer(_)) => Err(Refusal::new(
                ErrorCode::GroupIdNotFound,
                format!("Group {group_id} is not a classic group."),
            )),
            None if self.has_offsets(group_id) => Ok(DescribedGroup {
                state: State::Empty.name(),
                protocol_type: String::new(),
                protocol: String::new(),
                members: Vec::new(),
            }),
            None => Err(Refusal::new(
                ErrorCode::GroupIdNotFound,
                format!("Group {group_id} not found."),
            )),
        }
    }

    /// ConsumerGroupDescribe.
    pub fn consumer_describe(&self, group_id: &str) -> Result<DescribedConsumerGroup, Refusal> {
        if group_id.is_empty() {
            return Err(Refusal::new(ErrorCode::InvalidGroupId, "The group id is empty."));
        }
        match self.groups.get(group_id) {
            Some(Group::Consumer(group)) => Ok(group.describe(&self.topics)),
            Some(Group::Classic(_)) => Err(Refusal::new(
                ErrorCode::GroupIdNotFound,
                format!("Group {group_id} is not a consumer group."),
            )),
            None => Err(Refusal::new(
                ErrorCode::GroupIdNotFound,
                format!("Group {group_id} not found."),
            )),
        }
    }

    fn has_offsets(&self, group_id: &str) -> bool {
        self.offsets
            .group(group_id)
            .is_some_and(|offsets| !offsets.topics().is_empty())
    }

    /// Ids of all groups: those with members or a history of them, and those that only ever committed.
    pub(super) fn group_ids(&self) -> BTreeSet<&Arc<str>> {
        let committed = self.offsets.groups().filter(|id| self.has_offsets(id));
        self.groups.keys().chain(committed).collect()
    }

    /// ListGroups.
    pub fn list(&self, states: &[String], kinds: &[String]) -> Vec<ListedGroup> {
        let lets_through = |filter: &[String], value: &str| {
            filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(value))
        };
        self.group_ids()
            .into_iter()
            .map(|id| {
                let (protocol_type, state, kind) = match self.groups.get(id) {
                    Some(Group::Classic(group)) => (
                        group.protocol_type().unwrap_or_default(),
                        group.state().name(),
                        "classic",
                    ),
                    Some(Group::Consumer(group)) => ("consumer", group.state(), "consumer"),
                    None => ("", State::Empty.name(), "classic"),
                };
                ListedGroup {
                    group_id: id.to_string(),
                    protocol_type: protocol_type.to_owned(),
                    state,
                    kind,
                }
            })
            .filter(|group| lets_through(states, group.state) && lets_through(kinds, group.kind))
            .collect()
    }

    /// DeleteGroups for one group.
    pub fn delete_group(&mut self, group_id: &str, out: &mut Output) -> Result<(), ErrorCode> {
        let id: Arc<str> = Arc::from(group_id);
        match self.groups.get(&id) {
            Some(group) if !group.is_empty() => return Err(ErrorCode::NonEmptyGroup),
            None if self.offsets.group(&id).is_none() => return Err(ErrorCode::GroupIdNotFound),
            _ => {}
        }
        if let Some(offsets) = self.offsets.group(&id) {
            let topics = offsets.topics().keys().cloned();
            out.changed.extend(topics.map(|topic| (topic, Arc::clone(&id))));
        }
        self.groups.remove(&id);
        self.schedule(&id);
        let record = Record::GroupGone {
            group: id,
            forget_former: true,
        };
        self.emit([record], out);
        Ok(())
    }

    /// Ends commits and groups that are over (Kafka's `cleanupGroupMetadata`), and what was remembered too long, except of
    /// groups that a topic requires: `required` holds topic and group.
    pub fn expire(&mut self, now: Now, required: &HashSet<(String, String)>, out: &mut Output) {
        let (now_ms, retention_ms) = (now.wall_ms, self.config.offsets_retention_ms);
        let ids: Vec<Arc<str>> = self.group_ids().into_iter().cloned().collect();
        for id in ids {
            let group = self.groups.get(&id);
            let ages = group.map_or(Ages::SinceCommit, Group::ages);
            let is_subscribed = |topic: &str| group.is_some_and(|group| group.is_subscribed(topic));
            let (records, none_left) = self
                .offsets
                .expire(&id, ages, is_subscribed, now_ms, retention_ms);
            let unused = group.is_none_or(Group::is_unused);
            self.emit(records, out);
            if none_left && unused {
                self.groups.remove(&id);
                self.schedule(&id);
                let record = Record::GroupGone {
                    group: id,
                    forget_former: false,
                };
                self.emit([record], out);
            }
        }
        let most = self.config.max_former_positions;
        let records = self.offsets.expire_former(now_ms, retention_ms, most, required);
        self.emit(records, out);
    }
}

#[cfg(test)]
#[path = "coordinator_tests.rs"]
mod tests;
