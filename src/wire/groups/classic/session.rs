//! Staying in a group and leaving it: Heartbeat, LeaveGroup, sessions that end, and who may commit.
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;

use super::{ClassicGroup, State, Step};
use crate::wire::groups::messages::{CommitRequest, HeartbeatRequest, LeavingMember};

impl ClassicGroup {
    /// Takes a Heartbeat whose group exists.
    pub(in crate::wire::groups) fn heartbeat(
        &mut self,
        request: &HeartbeatRequest,
        now_ms: i64,
    ) -> Result<(), ErrorCode> {
        self.check_member(&request.member_id, request.instance_id.as_deref())?;
        if request.generation_id != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if self.state == State::Empty {
            return Err(ErrorCode::UnknownMemberId);
        }
        if let Some(member) = self.members.get_mut(request.member_id.as_str()) {
            member.renew(now_ms);
        }
        match self.state {
            State::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::Empty | State::CompletingRebalance | State::Stable => Ok(()),
        }
    }

    /// Takes a LeaveGroup whose group exists: one result per member.
    pub(in crate::wire::groups) fn leave(
        &mut self,
        members: &[LeavingMember],
        step: &mut Step<'_>,
    ) -> Vec<Option<ErrorCode>> {
        let mut left = false;
        let results = members
            .iter()
            .map(|leaving| match self.leave_one(leaving, step) {
                Ok(was_member) => {
                    left |= was_member;
                    None
                }
                Err(error) => Some(error),
            })
            .collect();
        if left {
            self.after_loss(step);
        } else {
            self.complete_join_if_all_are_here(step);
        }
        results
    }

    /// Whether a member, and not only a handed-out id, has gone.
    fn leave_one(&mut self, leaving: &LeavingMember, step: &mut Step<'_>) -> Result<bool, ErrorCode> {
        let member_id: Arc<str> = match leaving.instance_id.as_deref() {
            Some(instance) if leaving.member_id.is_empty() => self
                .static_members
                .get(instance)
                .cloned()
                .ok_or(ErrorCode::UnknownMemberId)?,
            _ => Arc::from(leaving.member_id.as_str()),
        };
        if leaving.instance_id.is_none() && self.pending_join.remove(&member_id).is_some() {
            return Ok(false);
        }
        self.check_member(&member_id, leaving.instance_id.as_deref())?;
        tracing::debug!(group = %self.id, member = %member_id, reason = leaving.reason, "member left");
        self.remove_member(&member_id, step.out);
        Ok(true)
    }

    /// A member has gone: the others rebalance.
    fn after_loss(&mut self, step: &mut Step<'_>) {
        match self.state {
            State::Stable | State::CompletingRebalance => self.prepare_rebalance(step),
            State::PreparingRebalance => self.complete_join_if_all_are_here(step),
            State::Empty => {}
        }
    }

    /// Whether a commit may go in.
    pub(in crate::wire::groups) fn check_commit(&self, request: &CommitRequest) -> Result<(), ErrorCode> {
        if request.generation_or_epoch < 0 && self.state == State::Empty {
            return Ok(());
        }
        let standalone =
            request.generation_or_epoch < 0 && request.member_id.is_empty() && request.instance_id.is_none();
        if standalone {
            return Err(ErrorCode::UnknownMemberId);
        }
        self.check_member(&request.member_id, request.instance_id.as_deref())?;
        if request.generation_or_epoch != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if self.state == State::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// A commit is a sign of life too.
    pub(in crate::wire::groups) fn committed(&mut self, member_id: &str, now_ms: i64) {
        if matches!(self.state, State::Stable | State::PreparingRebalance)
            && let Some(member) = self.members.get_mut(member_id)
        {
            member.renew(now_ms);
        }
    }

    /// Does what is due.
    pub(in crate::wire::groups) fn tick(&mut self, step: &mut Step<'_>) {
        let now_ms = step.now.monotonic_ms;
        let waiting = self.pending_join.len();
        self.pending_join.retain(|_, deadline| *deadline > now_ms);
        if self.pending_join.len() < waiting {
            self.complete_join_if_all_are_here(step);
        }
        self.expire_sessions(step);
        if let Some(timer) = self.join_timer
            && timer.at_ms <= now_ms
        {
            self.join_timer = None;
            if self.state == State::PreparingRebalance {
                self.join_timer_fired(timer, step);
            }
        }
        if self.sync_deadline_ms.is_some_and(|deadline| deadline <= now_ms) {
            self.sync_deadline_ms = None;
            self.expire_syncs(step);
        }
    }

    fn expire_sessions(&mut self, step: &mut Step<'_>) {
        let mut gone = Vec::new();
        for member in self.members.values_mut() {
            if member
                .deadline_ms
                .is_none_or(|deadline| deadline > step.now.monotonic_ms)
            {
                continue;
            }
            // Whoever waits gets a new session with the answer.
            member.deadline_ms = None;
            if !member.is_excused() {
                gone.push(Arc::clone(&member.id));
            }
        }
        if gone.is_empty() {
            return;
        }
        for member_id in gone {
            tracing::info!(group = %self.id, member = %member_id, "session timed out, member removed");
            self.remove_member(&member_id, step.out);
        }
        self.after_loss(step);
    }

    /// Members that took the generation but never asked for their assignment are out.
    fn expire_syncs(&mut self, step: &mut Step<'_>) {
        if !matches!(self.state, State::CompletingRebalance | State::Stable) || self.pending_sync.is_empty() {
            return;
        }
        for member_id in std::mem::take(&mut self.pending_sync) {
            tracing::info!(group = %self.id, member = %member_id, "no SyncGroup in time, member removed");
            self.remove_member(&member_id, step.out);
        }
        self.prepare_rebalance(step);
    }
}
