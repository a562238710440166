//! How much groups and their positions hold in memory, and the bounds on it.
//!
//! Kafka bounds a group by what one record of its offsets topic takes and a broker by its heap; a client that makes groups without
//! end takes it down. Here each group and each position is weighed, and what would go beyond a bound is refused before anything
//! changes. What is there already goes on: members renew, positions advance.
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;

use super::classic::ClassicGroup;
use super::consumer::ConsumerGroup;
use super::coordinator::{Coordinator, Group};
use super::messages::{ConsumerHeartbeatRequest, JoinRequest, SyncRequest};
use super::weight::{GROUP, MEMBER, optional, sum, text};

impl Group {
    fn weight(&self) -> usize {
        match self {
            Self::Classic(group) => group.weight(),
            Self::Consumer(group) => group.weight(),
        }
    }
}

impl Coordinator {
    /// Weighs a group anew, after anything that could change what it holds.
    pub(super) fn weigh(&mut self, id: &Arc<str>) {
        let weight = self
            .groups
            .get(id)
            .map(|group| GROUP.saturating_add(id.len()).saturating_add(group.weight()));
        self.weights.set(id, weight);
    }

    /// Bytes that groups and positions hold.
    pub fn held_bytes(&self) -> usize {
        self.weights.all().saturating_add(self.offsets.held_bytes())
    }

    /// Whether a group may be made.
    pub(super) fn may_make(&self, id: &str) -> bool {
        self.groups.contains_key(id)
            || (self.groups.len() < self.config.max_groups && self.may_hold(GROUP.saturating_add(id.len())))
    }

    /// Whether all groups together may hold `added` bytes more. What takes nothing more is always let in.
    pub(super) fn may_hold(&self, added: usize) -> bool {
        added == 0 || self.held_bytes().saturating_add(added) <= self.config.max_bytes
    }

    /// Whether this group may hold `added` bytes more.
    fn may_grow(&self, id: &str, added: usize) -> bool {
        let held = self.weights.of(id);
        added == 0 || (held.saturating_add(added) <= self.config.max_group_bytes && self.may_hold(added))
    }

    /// Whether the member that joins finds room, beyond what it holds already.
    pub(super) fn check_room_to_join(&self, request: &JoinRequest) -> Result<(), ErrorCode> {
        let before = match self.groups.get(request.group_id.as_str()) {
            Some(Group::Classic(group)) => {
                group.weight_of(&request.member_id, request.instance_id.as_deref())
            }
            _ => 0,
        };
        let added = weight_of_join(request).saturating_sub(before);
        if self.may_make(&request.group_id) && self.may_grow(&request.group_id, added) {
            Ok(())
        } else {
            Err(ErrorCode::GroupMaxSizeReached)
        }
    }

    /// Whether the leader's assignment finds room. Kafka answers a group that has become too large to be written with the same code.
    pub(super) fn check_room_to_sync(&self, request: &SyncRequest) -> Result<(), ErrorCode> {
        let asked = request
            .assignments
            .iter()
            .map(|(_, assignment)| assignment.len())
            .fold(0, usize::saturating_add);
        let before = match self.groups.get(request.group_id.as_str()) {
            Some(Group::Classic(group)) => group.assigned_bytes(),
            _ => 0,
        };
        if self.may_grow(&request.group_id, asked.saturating_sub(before)) {
            Ok(())
        } else {
            Err(ErrorCode::UnknownServerError)
        }
    }

    /// Whether what a member of the newer protocol says of itself finds room, beyond what it holds already.
    pub(super) fn check_room_to_beat(&self, request: &ConsumerHeartbeatRequest) -> Result<(), String> {
        let before = match self.groups.get(request.group_id.as_str()) {
            Some(Group::Consumer(group)) => {
                group.weight_of(&request.member_id, request.instance_id.as_deref())
            }
            _ => 0,
        };
        let added = weight_of_heartbeat(request).saturating_sub(before);
        if !self.may_make(&request.group_id) && self.groups.len() >= self.config.max_groups {
            return Err(format!(
                "There are {} groups, as many as this server keeps.",
                self.config.max_groups
            ));
        }
        if self.may_make(&request.group_id) && self.may_grow(&request.group_id, added) {
            return Ok(());
        }
        let (own, all) = (self.config.max_group_bytes, self.config.max_bytes);
        Err(format!(
            "The member needs {added} bytes: a group may hold {own} bytes and all groups together {all}."
        ))
    }
}

fn weight_of_join(request: &JoinRequest) -> usize {
    let protocols = request.protocols.iter();
    sum([
        MEMBER,
        text(&request.client.id),
        optional(request.instance_id.as_deref()),
        sum(protocols.map(|offered| text(&offered.name).saturating_add(offered.metadata.len()))),
    ])
}

fn weight_of_heartbeat(request: &ConsumerHeartbeatRequest) -> usize {
    let topics = request.subscribed_topics.iter().flatten();
    // A member that stays and says nothing of a thing keeps what it has.
    sum([
        if request.member_epoch == 0 { MEMBER } else { 0 },
        optional(request.instance_id.as_deref()),
        optional(request.rack_id.as_deref()),
        optional(request.subscribed_regex.as_deref()),
        sum(topics.map(|topic| text(topic))),
    ])
}

impl ClassicGroup {
    fn weight(&self) -> usize {
        let members = self.members().map(|member| member.weight());
        let waiting = self.handed_out().map(|id| text(id));
        let topics = self.subscribed().into_iter().flatten().chain(self.read_last());
        let topics = topics.map(|topic| text(topic));
        sum(members.chain(waiting).chain(topics))
    }

    fn assigned_bytes(&self) -> usize {
        sum(self.members().map(|member| member.assignment().len()))
    }
}

impl ConsumerGroup {
    fn weight(&self) -> usize {
        sum(self
            .members()
            .map(|member| member.weight())
            .chain(self.read_last().iter().map(|topic| text(topic)))
            .chain([self.weight_of_targets()]))
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
