//! Who reads a topic, for the guard.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::coordinator::{Coordinator, Group};
use super::member_protocol;
use super::messages::Client;
use super::record::{CommittedOffset, FormerPosition};

/// A group that has, had or will have a position on a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupReader {
    /// Group id.
    pub group: Arc<str>,
    /// State as Kafka prints it; `Empty` for a group that only ever committed.
    pub state: &'static str,
    /// Number of members.
    pub members: usize,
    /// A member subscribes to the topic, as far as subscriptions can be read.
    pub subscribed: bool,
    /// Nobody is in it now, and a member that was last did.
    pub subscribed_last: bool,
    /// Partitions a member has now, or has not given up yet.
    pub owned: BTreeSet<i32>,
    /// Durable commits, of this topic or an earlier one of the name: compare the topic id.
    pub committed: BTreeMap<i32, CommittedOffset>,
    /// What is remembered where nothing is committed any more.
    pub former: BTreeMap<i32, FormerPosition>,
}

/// A group and how many are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCensus {
    /// Group id.
    pub id: Arc<str>,
    /// `classic` or `consumer`.
    pub kind: &'static str,
    /// State, as Kafka prints it.
    pub state: &'static str,
    /// Number of members.
    pub members: usize,
}

impl Coordinator {
    /// Every group, by name; one that only ever committed is a classic one without members.
    pub fn census(&self) -> Vec<GroupCensus> {
        let of = |id: &Arc<str>| {
            let (kind, state, members) = match self.groups.get(id) {
                Some(Group::Classic(group)) => ("classic", group.state().name(), group.members().count()),
                Some(Group::Consumer(group)) => ("consumer", group.state(), group.members().count()),
                None => ("classic", "Empty", 0),
            };
            GroupCensus {
                id: Arc::clone(id),
                kind,
                state,
                members,
            }
        };
        self.group_ids().into_iter().map(of).collect()
    }

    /// Every group that has to do with the topic, by name.
    pub fn readers_of(&self, topic: &str) -> Vec<GroupReader> {
        let mut readers: BTreeMap<Arc<str>, GroupReader> = BTreeMap::new();
        let committed = self.offsets.groups_on(topic);
        let former = self.offsets.former_on(topic).map(|(group, _)| group);
        let subscribed = self
            .groups
            .iter()
            .filter(|(_, group)| self.reads(group, topic))
            .map(|(id, _)| id);
        for id in committed.chain(former).chain(subscribed) {
            if !readers.contains_key(id) {
                readers.insert(Arc::clone(id), self.reader(id, topic));
            }
        }
        readers.into_values().collect()
    }

    /// One group on a topic, whether it reads it or not.
    pub fn reader(&self, group: &Arc<str>, topic: &str) -> GroupReader {
        let mut reader = GroupReader {
            group: Arc::clone(group),
            state: "Empty",
            ..GroupReader::default()
        };
        reader.subscribed_last = self
            .groups
            .get(group)
            .is_some_and(|group| group.read_last().contains(topic));
        match self.groups.get(group) {
            Some(Group::Classic(group)) => {
                reader.state = group.state().name();
                reader.members = group.members().count();
                reader.subscribed = group.subscribed().is_some_and(|topics| topics.contains(topic));
                let assignments = group
                    .members()
                    .filter(|_| group.uses_consumer_protocol())
                    .filter_map(|member| member_protocol::assigned_partitions(member.assignment()))
                    .flatten();
                reader.owned = assignments
                    .filter(|(assigned, _)| assigned == topic)
                    .flat_map(|(_, partitions)| partitions)
                    .collect();
            }
            Some(Group::Consumer(group)) => {
                reader.state = group.state();
                reader.members = group.members().count();
                reader.subscribed = group.is_subscribed(topic);
                if let Some(topic) = self.topics.by_name(topic) {
                    reader.owned = group
                        .members()
                        .flat_map(|member| member.holds())
                        .filter(|(id, _)| *id == topic.id)
                        .map(|(_, partition)| partition)
                        .collect();
                }
            }
            None => {}
        }
        if let Some(partitions) = self
            .offsets
            .group(group)
            .and_then(|offsets| offsets.topics().get(topic))
        {
            reader.committed = partitions.clone();
        }
        if let Some(partitions) = self.offsets.former_of(group, topic) {
            reader.former = partitions.clone();
        }
        reader
    }

    /// Whether members of the group read the topic, as far as that is known.
    fn reads(&self, group: &Group, topic: &str) -> bool {
        match group {
            Group::Classic(group) => group.subscribed().is_some_and(|topics| topics.contains(topic)),
            Group::Consumer(group) => group.is_subscribed(topic),
        }
    }

    /// Members of groups that read the topic whose client has this id and address, as group and member id.
    pub fn members_like(&self, topic: &str, client_id: &str, host: &str) -> BTreeSet<(Arc<str>, Arc<str>)> {
        let is_like = |client: &Client| &*client.id == client_id && &*client.host == host;
        let mut found = BTreeSet::new();
        for (id, group) in self.groups.iter().filter(|(_, group)| self.reads(group, topic)) {
            let members: Vec<Arc<str>> = match group {
                Group::Classic(group) => group
                    .members()
                    .filter(|member| is_like(member.client()))
                    .map(|member| Arc::clone(member.id()))
                    .collect(),
                Group::Consumer(group) => group
                    .members()
                    .filter(|member| is_like(member.client()))
                    .map(|member| Arc::clone(member.id()))
                    .collect(),
            };
            found.extend(members.into_iter().map(|member| (Arc::clone(id), member)));
        }
        found
    }

    /// The client of a member and the topics its group reads, as far as that is known.
    pub fn member(&self, group: &str, member_id: &str) -> Option<(Client, Vec<String>)> {
        match self.groups.get(group)? {
            Group::Classic(group) => {
                let member = group.members().find(|member| **member.id() == *member_id)?;
                let topics = group.subscribed().into_iter().flatten().cloned();
                Some((member.client().clone(), topics.collect()))
            }
            Group::Consumer(group) => {
                let member = group.members().find(|member| **member.id() == *member_id)?;
                let topics = group.subscribed().into_iter().cloned();
                Some((member.client().clone(), topics.collect()))
            }
        }
    }
}
