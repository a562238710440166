//! JoinGroup.
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;
use uuid::Uuid;

use super::{ClassicGroup, Member, State, Step};
use crate::wire::groups::messages::{JoinReply, JoinRequest};
use crate::wire::groups::output::{Reply, Token};

impl ClassicGroup {
    /// Takes a JoinGroup whose group exists; `new_id` is used where the member has none yet.
    pub(in crate::wire::groups) fn join(
        &mut self,
        token: Token,
        request: JoinRequest,
        new_id: Uuid,
        step: &mut Step<'_>,
    ) {
        let refused = |error, step: &mut Step<'_>| {
            let reply = JoinReply::refused(error, request.member_id.clone());
            step.out.replies.push((token, Reply::Join(reply)));
        };
        if !self.has_room_for(&request.member_id, step) {
            self.remove_member(&request.member_id, step.out);
            return refused(ErrorCode::GroupMaxSizeReached, step);
        }
        if !self.supports(&request.protocol_type, &request.protocols) {
            return refused(ErrorCode::InconsistentGroupProtocol, step);
        }
        if request.member_id.is_empty() {
            return self.join_new(token, request, new_id, step);
        }
        if request.instance_id.is_none() && self.pending_join.contains_key(request.member_id.as_str()) {
            let id = Arc::from(request.member_id.as_str());
            return self.add_and_rebalance(token, request, id, step);
        }
        if let Err(error) = self.check_member(&request.member_id, request.instance_id.as_deref()) {
            return refused(error, step);
        }
        self.join_again(token, request, step);
    }

    fn has_room_for(&self, member_id: &str, step: &Step<'_>) -> bool {
        let joined = self
            .members
            .values()
            .filter(|member| member.awaiting_join.is_some())
            .count();
        if member_id.is_empty() && self.pending_join.len() >= step.config.max_size {
            return false;
        }
        match self.state {
            State::Empty => true,
            // Those that are already waiting stay; of the rest the first to come are taken.
            State::PreparingRebalance => {
                let waits = self
                    .members
                    .get(member_id)
                    .is_some_and(|member| member.awaiting_join.is_some());
                waits || joined < step.config.max_size
            }
            State::CompletingRebalance | State::Stable => {
                self.members.contains_key(member_id) || self.members.len() < step.config.max_size
            }
        }
    }

    fn join_new(&mut self, token: Token, request: JoinRequest, new_id: Uuid, step: &mut Step<'_>) {
        let prefix = request.instance_id.as_deref().unwrap_or(&request.client.id);
        let id: Arc<str> = Arc::from(format!("{prefix}-{new_id}"));
        if let Some(instance) = request.instance_id.as_deref() {
            return match self.static_members.get(instance).cloned() {
                Some(old) => self.replace_static(token, request, &old, id, step),
                None => self.add_and_rebalance(token, request, id, step),
            };
        }
        if request.requires_known_member_id {
            let reply = JoinReply::refused(ErrorCode::MemberIdRequired, &*id);
            let deadline = step
                .now
                .monotonic_ms
                .saturating_add(i64::from(request.session_timeout_ms));
            self.pending_join.insert(id, deadline);
            step.out.replies.push((token, Reply::Join(reply)));
            return;
        }
        self.add_and_rebalance(token, request, id, step);
    }

    fn add_and_rebalance(&mut self, token: Token, request: JoinRequest, id: Arc<str>, step: &mut Step<'_>) {
        let deadline = step
            .now
            .monotonic_ms
            .saturating_add(step.config.new_member_join_timeout_ms);
        let member = Member {
            id,
            instance_id: request.instance_id.map(Arc::from),
            client: request.client,
            session_timeout_ms: request.session_timeout_ms,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            protocols: request.protocols,
            assignment: bytes::Bytes::new(),
            awaiting_join: Some(token),
            awaiting_sync: None,
            is_new: true,
            deadline_ms: Some(deadline),
        };
        if self.state == State::PreparingRebalance && self.previous_state == State::Empty {
            self.new_member_added = true;
        }
        self.add_member(member, &request.protocol_type);
        self.rebalance_or_complete_join(step);
    }

    /// A member that has its id already.
    fn join_again(&mut self, token: Token, request: JoinRequest, step: &mut Step<'_>) {
        let id = request.member_id.clone();
        let same = self
            .members
            .get(id.as_str())
            .is_some_and(|member| member.protocols == request.protocols);
        match self.state {
            State::PreparingRebalance => self.update_and_rebalance(token, request, step),
            // The answer may have got lost on its way; a rebalance would punish everybody for it.
            State::CompletingRebalance if same => self.answer_current(token, &id, step),
            State::Stable if same && !self.is_leader(&id) => self.answer_current(token, &id, step),
            State::CompletingRebalance | State::Stable => self.update_and_rebalance(token, request, step),
            State::Empty => {
                let reply = JoinReply::refused(ErrorCode::UnknownMemberId, id);
                step.out.replies.push((token, Reply::Join(reply)));
            }
        }
    }

    fn update_and_rebalance(&mut self, token: Token, request: JoinRequest, step: &mut Step<'_>) {
        if let Some(member) = self.members.get_mut(request.member_id.as_str()) {
            member.protocols = request.protocols;
            member.session_timeout_ms = request.session_timeout_ms;
            member.rebalance_timeout_ms = request.rebalance_timeout_ms;
            member.client = request.client;
            member.await_join(token, step.out);
        }
        self.rebalance_or_complete_join(step);
    }

    /// Answers with the generation there is.
    fn answer_current(&mut self, token: Token, member_id: &str, step: &mut Step<'_>) {
        let is_leader = self.is_leader(member_id);
        let leader = self.leader.as_deref().unwrap_or_default().to_owned();
        let reply = self.current(member_id, leader, is_leader, false);
        step.out.replies.push((token, Reply::Join(reply)));
    }

    fn current(&self, member_id: &str, leader: String, with_members: bool, skip: bool) -> JoinReply {
        let protocol = self.protocol_name.clone().unwrap_or_default();
        JoinReply {
            error: None,
            generation_id: self.generation,
            protocol_type: self.protocol_type.clone(),
            leader,
            skip_assignment: skip,
            member_id: member_id.to_owned(),
            members: if with_members {
                self.members
                    .values()
                    .map(|member| member.joined(&protocol))
                    .collect()
            } else {
                Vec::new()
            },
            protocol_name: Some(protocol),
        }
    }

    /// A static member came back under a new member id; the old one is fenced off.
    fn replace_static(
        &mut self,
        token: Token,
        request: JoinRequest,
        old_id: &Arc<str>,
        new_id: Arc<str>,
        step: &mut Step<'_>,
    ) {
        let Some(mut member) = self.members.remove(old_id) else {
            return self.add_and_rebalance(token, request, new_id, step);
        };
        let old_leader = self.leader.clone();
        let was_leader = self.is_leader(old_id);
        member.refuse_waiting(ErrorCode::FencedInstanceId, step.out);
        member.id = Arc::clone(&new_id);
        member.client = request.client;
        member.session_timeout_ms = request.session_timeout_ms;
        member.rebalance_timeout_ms = request.rebalance_timeout_ms;
        member.protocols = request.protocols;
        member.renew(step.now.monotonic_ms);
        if let Some(instance) = &member.instance_id {
            self.static_members
                .insert(Arc::clone(instance), Arc::clone(&new_id));
        }
        if was_leader {
            self.leader = Some(Arc::clone(&new_id));
        }
        if self.pending_sync.remove(old_id) {
            self.pending_sync.insert(Arc::clone(&new_id));
        }
        self.members.insert(Arc::clone(&new_id), member);
        if self.state == State::Stable && self.select_protocol() == self.protocol_name {
            // Nothing changed but an id: everybody keeps what they have.
            let reply = if request.supports_skip_assignment {
                let is_leader = self.is_leader(&new_id);
                let leader = self.leader.as_deref().unwrap_or_default().to_owned();
                self.current(&new_id, leader, is_leader, is_leader)
            } else {
                // An older client that is told it leads would assign anew without a rebalance; it is told of the old leader.
                let leader = old_leader.as_deref().unwrap_or_default().to_owned();
                self.current(&new_id, leader, false, false)
            };
            step.out.replies.push((token, Reply::Join(reply)));
            step.out.records.push(self.record());
            return;
        }
        if let Some(member) = self.members.get_mut(&new_id) {
            member.await_join(token, step.out);
        }
        self.rebalance_or_complete_join(step);
    }
}
