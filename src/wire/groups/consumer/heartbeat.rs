//! ConsumerGroupHeartbeat: join, stay, leave.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;
use regex::{Regex, RegexBuilder};

use super::assignor::{Assignor, Input, Partitions, Subscriber};
use super::member::{AWAY, ConsumerMember, JOINING, LEAVING, Progress, is_subset};
use super::{ConsumerGroup, Refusal};
use crate::wire::groups::config::GroupConfig;
use crate::wire::groups::messages::{ConsumerHeartbeatReply, ConsumerHeartbeatRequest, TopicPartitions};
use crate::wire::groups::output::{Now, Output};
use crate::wire::groups::topics::Topics;

/// The longest pattern that is taken, bytes.
const MOST_PATTERN_BYTES: usize = 4_096;
/// The largest automaton that is made of one, bytes.
const MOST_COMPILED_BYTES: usize = 1 << 20;

/// What a heartbeat needs besides the group.
pub(in crate::wire::groups) struct Pulse<'a> {
    pub now: Now,
    pub config: &'a GroupConfig,
    pub topics: &'a Topics,
    pub out: &'a mut Output,
}

/// Checks what can be checked without the group.
pub(in crate::wire::groups) fn check_request(request: &ConsumerHeartbeatRequest) -> Result<(), Refusal> {
    let invalid = |message: &str| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    if request.group_id.is_empty() {
        return invalid("GroupId can't be empty.");
    }
    // Version 0 lets the coordinator choose the id of a member that joins.
    if request.member_id.is_empty() && (request.version >= 1 || request.member_epoch != JOINING) {
        return invalid("MemberId can't be empty.");
    }
    if request.instance_id.as_deref() == Some("") {
        return invalid("InstanceId can't be empty.");
    }
    if request.rack_id.as_deref() == Some("") {
        return invalid("RackId can't be empty.");
    }
    match request.member_epoch {
        JOINING => {
            if request.rebalance_timeout_ms == -1 {
                return invalid("RebalanceTimeoutMs must be provided in first request.");
            }
            if request.owned.as_ref().is_none_or(|owned| !owned.is_empty()) {
                return invalid("TopicPartitions must be empty when (re-)joining.");
            }
            if request.subscribed_topics.is_none() && request.subscribed_regex.is_none() {
                return invalid(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
                );
            }
        }
        AWAY if request.instance_id.is_none() => return invalid("InstanceId can't be null."),
        epoch if epoch < AWAY => return invalid("MemberEpoch is invalid."),
        _ => {}
    }
    if let Some(assignor) = request.server_assignor.as_deref()
        && Assignor::named(assignor).is_none()
    {
        let known = Assignor::ALL.map(Assignor::name).join(", ");
        return Err(Refusal::new(
            ErrorCode::UnsupportedAssignor,
            format!("ServerAssignor {assignor} is not supported. Supported assignors: {known}."),
        ));
    }
    Ok(())
}

/// The pattern must match a whole name. Patterns come from clients: how long they and what is made of them may get is bounded.
fn compile(pattern: &str) -> Result<Regex, Refusal> {
    let invalid = |reason: String| {
        Refusal::new(
            ErrorCode::InvalidRegularExpression,
            format!("SubscribedTopicRegex is not a valid regular expression: {reason}"),
        )
    };
    if pattern.len() > MOST_PATTERN_BYTES {
        return Err(invalid(format!(
            "it has {} bytes, more than {MOST_PATTERN_BYTES}",
            pattern.len()
        )));
    }
    RegexBuilder::new(&format!("^(?:{pattern})$"))
        .size_limit(MOST_COMPILED_BYTES)
        .build()
        .map_err(|error| invalid(error.to_string()))
}

fn by_topic(partitions: TopicPartitions) -> Partitions {
    let mut result = Partitions::new();
    for (topic, partitions) in partitions {
        result.entry(topic).or_default().extend(partitions);
    }
    result
}

/// In what capacity a heartbeat is taken.
enum Admission {
    IsNew,
    Stays,
    /// A known member that joins once more.
    BeginsAnew,
    /// A static member that left for a while comes back under another member id; this was its old one.
    TakesOver(Arc<str>),
}

impl ConsumerGroup {
    /// Takes a heartbeat that [`check_request`] let through; `new_id` is used where the member has no id.
    pub(in crate::wire::groups) fn heartbeat(
        &mut self,
        request: ConsumerHeartbeatRequest,
        new_id: &str,
        pulse: &mut Pulse<'_>,
    ) -> Result<ConsumerHeartbeatReply, Refusal> {
        if matches!(request.member_epoch, LEAVING | AWAY) {
            return self.leave(&request, pulse);
        }
        let is_full = request.member_epoch == JOINING
            || (request.rebalance_timeout_ms != -1
                && (request.subscribed_topics.is_some() || request.subscribed_regex.is_some())
                && request.owned.is_some());
        let owned = request.owned.clone().map(by_topic);
        let member_id: Arc<str> = match request.member_id.as_str() {
            "" => Arc::from(new_id),
            given => Arc::from(given),
        };
        let admission = self.admission(&request, &member_id, owned.as_ref(), pulse.config)?;
        if let Some(regex) = request.subscribed_regex.as_deref() {
            compile(regex)?;
        }
        let joined = matches!(admission, Admission::IsNew);
        let mut changed = !matches!(admission, Admission::Stays);
        self.admit(admission, &request, &member_id, pulse);
        let resubscribed = self.update(&member_id, &request, pulse);
        changed |= resubscribed;
        let topics_moved = self.look_at_topics(resubscribed || joined, pulse.topics);
        if joined || resubscribed || topics_moved {
            self.group_epoch = self.group_epoch.saturating_add(1);
            changed = true;
        }
        if self.group_epoch > self.assignment_epoch {
            self.assign(pulse.topics);
            changed = true;
        }
        let nothing = Partitions::new();
        let Some(member) = self.members.get_mut(&member_id) else {
            return Err(self.unknown_member(&member_id));
        };
        let before = (member.assigned.clone(), member.revoking.clone(), member.epoch);
        member.reconcile(
            self.target.get(&member_id).unwrap_or(&nothing),
            self.assignment_epoch,
            owned.as_ref(),
            &mut self.holders,
            pulse.now.monotonic_ms,
        );
        let reassigned = before.0 != member.assigned;
        changed |= reassigned || before.1 != member.revoking || before.2 != member.epoch;
        member.session_deadline_ms = pulse
            .now
            .monotonic_ms
            .saturating_add(pulse.config.consumer_session_timeout_ms);
        let reply = ConsumerHeartbeatReply {
            member_id: member.id.to_string(),
            member_epoch: member.epoch,
            heartbeat_interval_ms: pulse.config.consumer_heartbeat_interval_ms,
            assignment: (is_full || reassigned).then(|| {
                member
                    .assigned
                    .iter()
                    .map(|(topic, partitions)| (*topic, partitions.iter().copied().collect()))
                    .collect()
            }),
        };
        if changed {
            self.touch(pulse.out);
            pulse.out.records.push(self.record());
        }
        Ok(reply)
    }

    /// Whether the member may do what it asks, and as who. Changes nothing.
    fn admission(
        &self,
        request: &ConsumerHeartbeatRequest,
        id: &Arc<str>,
        owned: Option<&Partitions>,
        config: &GroupConfig,
    ) -> Result<Admission, Refusal> {
        let joins = request.member_epoch == JOINING;
        if let Some(instance) = request.instance_id.as_deref()
            && let Some(holder) = self.static_members.get(instance)
            && holder != id
        {
            if !joins {
                return Err(Refusal::new(
                    ErrorCode::FencedInstanceId,
                    format!("Static member {id} with instance id {instance} was fenced by member {holder}."),
                ));
            }
            let away = self.members.get(holder).is_none_or(|member| member.epoch == AWAY);
            if !away {
                return Err(Refusal::new(
                    ErrorCode::UnreleasedInstanceId,
                    format!(
                        "Static member {id} with instance id {instance} cannot join the group because the instance \
                         id is owned by member {holder}."
                    ),
                ));
            }
            return Ok(Admission::TakesOver(Arc::clone(holder)));
        }
        match self.members.get(id) {
            Some(_) if joins => Ok(Admission::BeginsAnew),
            Some(member) => check_epoch(member, request.member_epoch, owned).map(|()| Admission::Stays),
            None if !joins => Err(self.unknown_member(id)),
            None if self.members.len() >= config.max_size => Err(Refusal::new(
                ErrorCode::GroupMaxSizeReached,
                format!(
                    "The group has reached its maximum capacity of {} members.",
                    config.max_size
                ),
            )),
            None => Ok(Admission::IsNew),
        }
    }

    fn admit(
        &mut self,
        admission: Admission,
        request: &ConsumerHeartbeatRequest,
        id: &Arc<str>,
        pulse: &Pulse<'_>,
    ) {
        let instance_id: Option<Arc<str>> = request.instance_id.as_deref().map(Arc::from);
        match admission {
            Admission::Stays => {}
            Admission::BeginsAnew => {
                // It says that it owns nothing.
                if let Some(mut member) = self.members.remove(id) {
                    self.reset(&mut member);
                    self.members.insert(Arc::clone(id), member);
                }
            }
            Admission::TakesOver(old_id) => {
                if let Some(mut member) = self.members.remove(&old_id) {
                    self.reset(&mut member);
                    member.id = Arc::clone(id);
                    member.previous_epoch = JOINING;
                    self.members.insert(Arc::clone(id), member);
                }
                if let Some(target) = self.target.remove(&old_id) {
                    self.target.insert(Arc::clone(id), target);
                }
            }
            Admission::IsNew => {
                let member = ConsumerMember {
                    id: Arc::clone(id),
                    instance_id: instance_id.clone(),
                    rack_id: None,
                    client: request.client.clone(),
                    epoch: JOINING,
                    previous_epoch: JOINING,
                    rebalance_timeout_ms: request.rebalance_timeout_ms,
                    topics: Default::default(),
                    regex: None,
                    matched: Default::default(),
                    assignor: None,
                    assigned: Partitions::new(),
                    revoking: Partitions::new(),
                    progress: Progress::Stable,
                    session_deadline_ms: pulse.now.monotonic_ms,
                    revoke_deadline_ms: None,
                };
                self.members.insert(Arc::clone(id), member);
            }
        }
        if let Some(instance) = instance_id {
            self.static_members.insert(instance, Arc::clone(id));
        }
    }

    /// Lets go of everything a member has.
    fn reset(&mut self, member: &mut ConsumerMember) {
        for partition in member.holds() {
            self.holders.remove(&partition);
        }
        member.assigned.clear();
        member.revoking.clear();
        member.revoke_deadline_ms = None;
        member.progress = Progress::Stable;
        member.epoch = JOINING;
    }

    /// Takes what the member says of itself; whether its subscription or assignor changed.
    fn update(
        &mut self,
        member_id: &Arc<str>,
        request: &ConsumerHeartbeatRequest,
        pulse: &mut Pulse<'_>,
    ) -> bool {
        let Some(member) = self.members.get_mut(member_id) else {
            return false;
        };
        member.client = request.client.clone();
        if request.rebalance_timeout_ms != -1 {
            member.rebalance_timeout_ms = request.rebalance_timeout_ms;
        }
        if let Some(rack) = &request.rack_id {
            member.rack_id = Some(rack.clone());
        }
        let mut changed = false;
        if let Some(assignor) = &request.server_assignor {
            changed |= member.assignor.as_ref() != Some(assignor);
            member.assignor = Some(assignor.clone());
        }
        let before = (member.topics.clone(), member.regex.clone());
        if let Some(topics) = &request.subscribed_topics {
            member.topics = topics.iter().cloned().collect();
        }
        if let Some(regex) = &request.subscribed_regex {
            member.regex = (!regex.is_empty()).then(|| regex.clone());
            member.matched = matches(member.regex.as_deref(), pulse.topics);
        }
        changed |= before.0 != member.topics || before.1 != member.regex;
        if changed {
            // Topics no longer subscribed to lose an owner as well.
            let topics = before.0.into_iter().map(|topic| Arc::from(topic.as_str()));
            pulse
                .out
                .changed
                .extend(topics.map(|topic| (topic, Arc::clone(&self.id))));
        }
        changed
    }

    /// Looks at the subscribed topics if they may have changed; whether they did.
    fn look_at_topics(&mut self, always: bool, topics: &Topics) -> bool {
        let moved = self.seen_version != Some(topics.version());
        if !always && !moved {
            return false;
        }
        if moved {
            for member in self.members.values_mut().filter(|member| member.regex.is_some()) {
                member.matched = matches(member.regex.as_deref(), topics);
            }
        }
        self.seen_version = Some(topics.version());
        let seen: BTreeMap<_, _> = self
            .subscribed()
            .into_iter()
            .filter_map(|name| {
                let topic = topics.by_name(name)?;
                Some((name.clone(), (topic.id, topic.partitions)))
            })
            .collect();
        let changed = seen != self.seen;
        self.seen = seen;
        changed
    }

    /// Makes the target assignment for the group epoch.
    fn assign(&mut self, topics: &Topics) {
        let known = |name: &String| topics.by_name(name).map(|topic| topic.id);
        let subscribers: BTreeMap<Arc<str>, Subscriber> = self
            .members
            .values()
            .map(|member| {
                let subscriber = Subscriber {
                    instance_id: member.instance_id.clone(),
                    topics: member.subscribed().filter_map(known).collect(),
                };
                (Arc::clone(&member.id), subscriber)
            })
            .collect();
        let partitions = self.seen.values().copied().collect();
        self.target = self.assignor().assign(&Input {
            members: &subscribers,
            partitions: &partitions,
            current: &self.target,
        });
        self.assignment_epoch = self.group_epoch;
    }

    fn leave(
        &mut self,
        request: &ConsumerHeartbeatRequest,
        pulse: &mut Pulse<'_>,
    ) -> Result<ConsumerHeartbeatReply, Refusal> {
        let member_id: Arc<str> = Arc::from(request.member_id.as_str());
        if let Some(instance) = request.instance_id.as_deref() {
            match self.static_members.get(instance) {
                None => return Err(self.unknown_member(&member_id)),
                Some(holder) if *holder != member_id => {
                    return Err(Refusal::new(
                        ErrorCode::FencedInstanceId,
                        format!(
                            "Static member {member_id} with instance id {instance} was fenced by member {holder}."
                        ),
                    ));
                }
                Some(_) => {}
            }
        }
        let Some(member) = self.members.get_mut(&member_id) else {
            return Err(self.unknown_member(&member_id));
        };
        if request.member_epoch == AWAY {
            // Its partitions stay with it until it is back or its session ends.
            // What it was giving up it no longer reads.
            for (topic, partitions) in std::mem::take(&mut member.revoking) {
                for partition in partitions {
                    self.holders.remove(&(topic, partition));
                }
            }
            member.epoch = AWAY;
            member.progress = Progress::Stable;
            member.revoke_deadline_ms = None;
            self.touch(pulse.out);
        } else {
            self.remove(&member_id, pulse.out);
        }
        pulse.out.records.push(self.record());
        Ok(ConsumerHeartbeatReply {
            member_id: request.member_id.clone(),
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: pulse.config.consumer_heartbeat_interval_ms,
            assignment: None,
        })
    }

    fn remove(&mut self, member_id: &Arc<str>, out: &mut Output) {
        self.touch(out);
        let subscribed: BTreeSet<String> = self.subscribed().into_iter().cloned().collect();
        let Some(member) = self.members.remove(member_id) else {
            return;
        };
        if self.members.is_empty() && !subscribed.is_empty() {
            self.read_last = subscribed;
        }
        for partition in member.holds() {
            self.holders.remove(&partition);
        }
        self.target.remove(member_id);
        if let Some(instance) = &member.instance_id
            && self.static_members.get(instance) == Some(member_id)
        {
            self.static_members.remove(instance);
        }
        self.group_epoch = self.group_epoch.saturating_add(1);
    }

    /// Removes members whose session ended, or that did not give up in time what they were told to.
    pub(in crate::wire::groups) fn tick(&mut self, now_ms: i64, out: &mut Output) {
        let due = |member: &&ConsumerMember| {
            member.session_deadline_ms <= now_ms
                || member
                    .revoke_deadline_ms
                    .is_some_and(|deadline| deadline <= now_ms)
        };
        let gone: Vec<Arc<str>> = self
            .members
            .values()
            .filter(due)
            .map(|member| Arc::clone(&member.id))
            .collect();
        if gone.is_empty() {
            return;
        }
        for member_id in gone {
            tracing::info!(group = %self.id, member = %member_id, "no answer in time, member removed");
            self.remove(&member_id, out);
        }
        out.records.push(self.record());
    }
}

/// A member that comes with the epoch before its own has not seen the last answer; it may go on if it owns
/// nothing beyond what that answer gave it.
fn check_epoch(member: &ConsumerMember, epoch: i32, owned: Option<&Partitions>) -> Result<(), Refusal> {
    let fenced = |relation: &str| {
        Err(Refusal::new(
            ErrorCode::FencedMemberEpoch,
            format!(
                "The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group \
                 coordinator ({}). The member must abandon all its partitions and rejoin.",
                member.epoch
            ),
        ))
    };
    if epoch > member.epoch {
        return fenced("greater");
    }
    let missed_an_answer =
        epoch == member.previous_epoch && owned.is_some_and(|owned| is_subset(owned, &member.assigned));
    if epoch < member.epoch && !missed_an_answer {
        return fenced("smaller");
    }
    Ok(())
}

pub(super) fn matches(pattern: Option<&str>, topics: &Topics) -> BTreeSet<String> {
    let Some(Ok(regex)) = pattern.map(compile) else {
        return Default::default();
    };
    topics
        .iter()
        .filter(|topic| regex.is_match(&topic.name))
        .map(|topic| topic.name.to_string())
        .collect()
}
