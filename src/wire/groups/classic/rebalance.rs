//! From the first wish to rebalance to the new generation.
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;
use bytes::Bytes;

use super::{ClassicGroup, JoinTimer, State, Step};
use crate::wire::groups::messages::{JoinReply, SyncReply};

impl ClassicGroup {
    pub(super) fn rebalance_timeout_ms(&self) -> i64 {
        self.members
            .values()
            .map(|member| i64::from(member.rebalance_timeout_ms.max(0)))
            .max()
            .unwrap_or(0)
    }

    /// Begins a rebalance where the state allows one, else sees whether the one under way is complete.
    pub(super) fn rebalance_or_complete_join(&mut self, step: &mut Step<'_>) {
        match self.state {
            State::Empty | State::CompletingRebalance | State::Stable => self.prepare_rebalance(step),
            State::PreparingRebalance => self.complete_join_if_all_are_here(step),
        }
    }

    pub(super) fn prepare_rebalance(&mut self, step: &mut Step<'_>) {
        if self.state == State::CompletingRebalance {
            for member in self.members.values_mut() {
                member.assignment = Bytes::new();
                if member.answer_sync(SyncReply::refused(ErrorCode::RebalanceInProgress), step.out) {
                    member.renew(step.now.monotonic_ms);
                }
            }
        }
        self.pending_sync.clear();
        self.sync_deadline_ms = None;
        let first = self.state == State::Empty;
        self.enter(State::PreparingRebalance, step);
        if first {
            // More members are likely on their way; without the wait the first would get everything and lose most of
            // it again at once. This holds for a group that became empty as well as for a new one.
            let delay_ms = step.config.initial_rebalance_delay_ms;
            self.join_timer = Some(JoinTimer {
                at_ms: step.now.monotonic_ms.saturating_add(delay_ms),
                initial_remaining_ms: Some((self.rebalance_timeout_ms() - delay_ms).max(0)),
            });
            return;
        }
        self.join_timer = Some(JoinTimer {
            at_ms: step.now.monotonic_ms.saturating_add(self.rebalance_timeout_ms()),
            initial_remaining_ms: None,
        });
        self.complete_join_if_all_are_here(step);
    }

    pub(super) fn complete_join_if_all_are_here(&mut self, step: &mut Step<'_>) {
        let all = self.pending_join.is_empty()
            && self.members.values().all(|member| member.awaiting_join.is_some());
        // The first rebalance of an empty group always waits out its delay.
        if self.state == State::PreparingRebalance && self.previous_state != State::Empty && all {
            self.complete_join(step);
        }
    }

    pub(super) fn join_timer_fired(&mut self, timer: JoinTimer, step: &mut Step<'_>) {
        match timer.initial_remaining_ms {
            Some(remaining_ms) if self.new_member_added && remaining_ms > 0 => {
                let delay_ms = step.config.initial_rebalance_delay_ms.min(remaining_ms);
                self.new_member_added = false;
                self.join_timer = Some(JoinTimer {
                    at_ms: step.now.monotonic_ms.saturating_add(delay_ms),
                    initial_remaining_ms: Some(remaining_ms - delay_ms),
                });
            }
            _ => self.complete_join(step),
        }
    }

    /// Ends the wait for members: those that did not come back are out, the others get the new generation.
    fn complete_join(&mut self, step: &mut Step<'_>) {
        self.join_timer = None;
        self.new_member_added = false;
        let absent: Vec<Arc<str>> = self
            .members
            .values()
            .filter(|member| member.awaiting_join.is_none() && member.instance_id.is_none())
            .map(|member| Arc::clone(&member.id))
            .collect();
        for member_id in absent {
            self.remove_member(&member_id, step.out);
        }
        if !self.members.is_empty() && !self.elect_leader_that_is_here() {
            // Only static members are left and none of them came back. Their sessions decide whether they are gone.
            self.join_timer = Some(JoinTimer {
                at_ms: step.now.monotonic_ms.saturating_add(self.rebalance_timeout_ms()),
                initial_remaining_ms: None,
            });
            return;
        }
        self.generation = self.generation.saturating_add(1);
        self.pending_sync.clear();
        // Topics given up are touched by the old subscriptions, topics taken on by the new.
        self.touch(step.out);
        if self.members.is_empty() {
            self.protocol_name = None;
            self.leader = None;
            self.learn_subscriptions();
            self.enter(State::Empty, step);
            step.out.records.push(self.record());
            return;
        }
        self.protocol_name = self.select_protocol();
        self.learn_subscriptions();
        self.enter(State::CompletingRebalance, step);
        self.answer_joined(step);
        self.sync_deadline_ms = Some(step.now.monotonic_ms.saturating_add(self.rebalance_timeout_ms()));
    }

    fn answer_joined(&mut self, step: &mut Step<'_>) {
        let protocol = self.protocol_name.clone().unwrap_or_default();
        let leader = self.leader.clone().unwrap_or_default();
        let mut everyone: Vec<_> = self
            .members
            .values()
            .map(|member| member.joined(&protocol))
            .collect();
        for member in self.members.values_mut() {
            let is_leader = member.id == leader;
            let reply = JoinReply {
                error: None,
                generation_id: self.generation,
                protocol_type: self.protocol_type.clone(),
                protocol_name: Some(protocol.clone()),
                leader: leader.to_string(),
                skip_assignment: false,
                member_id: member.id.to_string(),
                members: if is_leader {
                    std::mem::take(&mut everyone)
                } else {
                    Vec::new()
                },
            };
            member.answer_join(reply, step.out);
            member.renew(step.now.monotonic_ms);
            member.is_new = false;
            self.pending_sync.insert(Arc::clone(&member.id));
        }
    }

    /// Keeps the leader if it came back, else takes another member that did.
    fn elect_leader_that_is_here(&mut self) -> bool {
        let here = |member_id: &Arc<str>| {
            self.members
                .get(member_id)
                .is_some_and(|member| member.awaiting_join.is_some())
        };
        if self.leader.as_ref().is_some_and(here) {
            return true;
        }
        let other = self
            .members
            .values()
            .find(|member| member.awaiting_join.is_some())
            .map(|member| Arc::clone(&member.id));
        match other {
            Some(other) => {
                self.leader = Some(other);
                true
            }
            None => false,
        }
    }
}
