//! A group of the consumer protocol as a record, and back.
use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::ConsumerGroup;
use super::assignor::Partitions;
use super::member::{ConsumerMember, Progress};
use crate::wire::groups::config::GroupConfig;
use crate::wire::groups::messages::Client;
use crate::wire::groups::output::Now;
use crate::wire::groups::record::{ConsumerMemberSnapshot, ConsumerSnapshot, GroupSnapshot, Record};

fn listed(partitions: &Partitions) -> BTreeMap<Uuid, Vec<i32>> {
    partitions
        .iter()
        .map(|(topic, partitions)| (*topic, partitions.iter().copied().collect()))
        .collect()
}

fn unlisted(partitions: BTreeMap<Uuid, Vec<i32>>) -> Partitions {
    partitions
        .into_iter()
        .map(|(topic, partitions)| (topic, partitions.into_iter().collect()))
        .collect()
}

impl ConsumerGroup {
    pub(super) fn record(&self) -> Record {
        let members = self.members.values().map(|member| ConsumerMemberSnapshot {
            member_id: member.id.to_string(),
            instance_id: member.instance_id.as_deref().map(str::to_owned),
            rack_id: member.rack_id.clone(),
            client_id: member.client.id.to_string(),
            client_host: member.client.host.to_string(),
            member_epoch: member.epoch,
            previous_epoch: member.previous_epoch,
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            subscribed_topics: member.topics.iter().cloned().collect(),
            subscribed_regex: member.regex.clone(),
            server_assignor: member.assignor.clone(),
            assigned: listed(&member.assigned),
            revoking: listed(&member.revoking),
            target: self.target.get(&member.id).map(listed).unwrap_or_default(),
        });
        Record::Group {
            group: Arc::clone(&self.id),
            snapshot: GroupSnapshot::Consumer(ConsumerSnapshot {
                group_epoch: self.group_epoch,
                assignment_epoch: self.assignment_epoch,
                members: members.collect(),
                read_last: self.read_last.clone(),
            }),
        }
    }

    /// The group after a restart. Members get a whole session to be heard of in. What it knew of topics is learnt anew with
    /// the first heartbeat, which makes a new assignment; it is the same one where nothing changed.
    pub(in crate::wire::groups) fn restore(
        id: Arc<str>,
        snapshot: ConsumerSnapshot,
        config: &GroupConfig,
        now: Now,
    ) -> Self {
        let mut group = Self::new(id);
        group.group_epoch = snapshot.group_epoch;
        group.assignment_epoch = snapshot.assignment_epoch;
        group.read_last = snapshot.read_last;
        for kept in snapshot.members {
            let id: Arc<str> = Arc::from(kept.member_id);
            let instance_id: Option<Arc<str>> = kept.instance_id.map(Arc::from);
            let assigned = unlisted(kept.assigned);
            let revoking = unlisted(kept.revoking);
            let target = unlisted(kept.target);
            let progress = if !revoking.is_empty() {
                Progress::Unrevoked
            } else if kept.member_epoch == snapshot.assignment_epoch && assigned != target {
                Progress::Unreleased
            } else {
                Progress::Stable
            };
            let rebalance_ms = i64::from(kept.rebalance_timeout_ms);
            let member = ConsumerMember {
                id: Arc::clone(&id),
                instance_id: instance_id.clone(),
                rack_id: kept.rack_id,
                client: Client {
                    id: Arc::from(kept.client_id),
                    host: Arc::from(kept.client_host),
                    connection: 0,
                },
                epoch: kept.member_epoch,
                previous_epoch: kept.previous_epoch,
                rebalance_timeout_ms: kept.rebalance_timeout_ms,
                topics: kept.subscribed_topics.into_iter().collect(),
                regex: kept.subscribed_regex,
                matched: Default::default(),
                assignor: kept.server_assignor,
                assigned,
                revoking,
                progress,
                session_deadline_ms: now
                    .monotonic_ms
                    .saturating_add(config.consumer_session_timeout_ms),
                revoke_deadline_ms: (progress == Progress::Unrevoked)
                    .then(|| now.monotonic_ms.saturating_add(rebalance_ms)),
            };
            for partition in member.holds() {
                group.holders.insert(partition, Arc::clone(&id));
            }
            if let Some(instance) = instance_id {
                group.static_members.insert(instance, Arc::clone(&id));
            }
            group.target.insert(Arc::clone(&id), target);
            group.members.insert(id, member);
        }
        group
    }

    /// Resolves patterns after a restart, so that it is known at once which topics are read.
    pub(in crate::wire::groups) fn resolve(&mut self, topics: &super::Topics) {
        for member in self.members.values_mut() {
            member.matched = super::heartbeat::matches(member.regex.as_deref(), topics);
        }
    }
}
