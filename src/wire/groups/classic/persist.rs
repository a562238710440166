//! A classic group as a record, and back.
use std::sync::Arc;

use super::{ClassicGroup, Member, State};
use crate::wire::groups::messages::{Client, OfferedProtocol};
use crate::wire::groups::output::Now;
use crate::wire::groups::record::{Blob, ClassicMemberSnapshot, ClassicSnapshot, GroupSnapshot, Record};

impl ClassicGroup {
    /// The record of a group that is Empty or Stable.
    pub(super) fn record(&self) -> Record {
        let members = self.members.values().map(|member| ClassicMemberSnapshot {
            member_id: member.id.to_string(),
            instance_id: member.instance_id.as_deref().map(str::to_owned),
            client_id: member.client.id.to_string(),
            client_host: member.client.host.to_string(),
            session_timeout_ms: member.session_timeout_ms,
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            protocols: member
                .protocols
                .iter()
                .map(|offered| (offered.name.clone(), Blob(offered.metadata.clone())))
                .collect(),
            assignment: Blob(member.assignment.clone()),
        });
        Record::Group {
            group: Arc::clone(&self.id),
            snapshot: GroupSnapshot::Classic(ClassicSnapshot {
                protocol_type: self.protocol_type.clone(),
                generation: self.generation,
                protocol_name: self.protocol_name.clone(),
                leader: self.leader.as_deref().map(str::to_owned),
                state_since_ms: self.state_since_ms,
                members: members.collect(),
                read_last: self.read_last.clone(),
            }),
        }
    }

    /// The group after a restart. Members get a whole session to be heard of in, so that a short stop costs no rebalance.
    pub(in crate::wire::groups) fn restore(id: Arc<str>, snapshot: ClassicSnapshot, now: Now) -> Self {
        let mut group = Self::new(id, now);
        group.generation = snapshot.generation;
        group.protocol_name = snapshot.protocol_name;
        group.state_since_ms = snapshot.state_since_ms;
        group.read_last = snapshot.read_last;
        for kept in snapshot.members {
            let mut member = Member {
                id: Arc::from(kept.member_id),
                instance_id: kept.instance_id.map(Arc::from),
                client: Client {
                    id: Arc::from(kept.client_id),
                    host: Arc::from(kept.client_host),
                    connection: 0,
                },
                session_timeout_ms: kept.session_timeout_ms,
                rebalance_timeout_ms: kept.rebalance_timeout_ms,
                protocols: kept
                    .protocols
                    .into_iter()
                    .map(|(name, Blob(metadata))| OfferedProtocol { name, metadata })
                    .collect(),
                assignment: kept.assignment.0,
                awaiting_join: None,
                awaiting_sync: None,
                is_new: false,
                deadline_ms: None,
            };
            member.renew(now.monotonic_ms);
            group.add_member(member, snapshot.protocol_type.as_deref().unwrap_or_default());
        }
        group.protocol_type = snapshot.protocol_type;
        let leader = snapshot.leader.map(Arc::from);
        if leader
            .as_ref()
            .is_some_and(|leader| group.members.contains_key(leader))
        {
            group.leader = leader;
        }
        if !group.members.is_empty() {
            group.state = State::Stable;
            group.previous_state = State::Stable;
        }
        group.learn_subscriptions();
        group
    }
}
