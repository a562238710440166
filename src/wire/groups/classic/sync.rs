//! SyncGroup.
use std::collections::BTreeMap;

use crate::wire::error_code::ErrorCode;
use bytes::Bytes;

use super::{ClassicGroup, State, Step};
use crate::wire::groups::messages::{SyncReply, SyncRequest};
use crate::wire::groups::output::{Reply, Token};

impl ClassicGroup {
    /// Takes a SyncGroup whose group exists.
    pub(in crate::wire::groups) fn sync(&mut self, token: Token, request: SyncRequest, step: &mut Step<'_>) {
        if let Err(error) = self.check_sync(&request) {
            let reply = Reply::Sync(SyncReply::refused(error));
            step.out.replies.push((token, reply));
            return;
        }
        let member_id = request.member_id.as_str();
        self.pending_sync.remove(member_id);
        if self.pending_sync.is_empty() {
            self.sync_deadline_ms = None;
        }
        if self.state == State::Stable {
            let reply = self.assignment_of(member_id);
            step.out.replies.push((token, Reply::Sync(reply)));
            return;
        }
        if let Some(member) = self.members.get_mut(member_id) {
            member.await_sync(token, step.out);
        }
        if self.is_leader(member_id) {
            self.assign(request.assignments, step);
        }
    }

    fn check_sync(&self, request: &SyncRequest) -> Result<(), ErrorCode> {
        self.check_member(&request.member_id, request.instance_id.as_deref())?;
        if request.generation_id != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |asked: &Option<String>, own: &Option<String>| matches!((asked, own), (Some(asked), Some(own)) if asked != own);
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol_name, &self.protocol_name)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match self.state {
            State::Empty => Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::CompletingRebalance | State::Stable => Ok(()),
        }
    }

    fn assignment_of(&self, member_id: &str) -> SyncReply {
        SyncReply {
            error: None,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment: self
                .members
                .get(member_id)
                .map(|member| member.assignment.clone())
                .unwrap_or_default(),
        }
    }

    /// The leader's word: everybody that waits gets its part, whole.
    fn assign(&mut self, assignments: Vec<(String, Bytes)>, step: &mut Step<'_>) {
        let mut assignments: BTreeMap<String, Bytes> = assignments.into_iter().collect();
        for member in self.members.values_mut() {
            member.assignment = assignments.remove(&*member.id).unwrap_or_default();
            let reply = SyncReply {
                error: None,
                protocol_type: self.protocol_type.clone(),
                protocol_name: self.protocol_name.clone(),
                assignment: member.assignment.clone(),
            };
            if member.answer_sync(reply, step.out) {
                member.renew(step.now.monotonic_ms);
            }
        }
        self.enter(State::Stable, step);
        step.out.records.push(self.record());
    }
}
