//! Who reads a topic, in the guard's words.
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::MutexGuard;
use uuid::Uuid;

use super::fetchers::Fetcher;
use super::{Positions, Shared};
use crate::engine::readers::ReaderInventory;
use crate::resource::contract::ReaderKind;
use crate::retention::{Known, Position, Reader};
use crate::wire::groups::Coordinator;
use crate::wire::groups::readers::{GroupCensus, GroupReader};
use crate::wire::groups::record::{CommittedOffset, Gone};

/// Stands for consumers without a group of whom there are too many to remember each. They may read from the log start.
const NOT_REMEMBERED: &str = "(consumers beyond those that can be remembered)";

impl ReaderInventory for Positions {
    fn readers(&self, topic: &str, id: Uuid, partitions: i32) -> Vec<Reader> {
        let now_ms = self.shared.now().monotonic_ms;
        let fetchers = self.shared.fetchers.on(topic, id, now_ms);
        // Commits of all groups wait meanwhile, so what is done here is to look, and at one topic only.
        let coordinator = self.shared.coordinator.lock();
        let groups = coordinator.readers_of(topic);
        let alone: Vec<_> = fetchers
            .into_iter()
            .filter_map(|fetcher| alone(&coordinator, topic, id, fetcher))
            .collect();
        // Whoever walks many topics lets a commit in between two of them.
        MutexGuard::unlock_fair(coordinator);
        let mut readers: Vec<Reader> = groups
            .iter()
            .map(|group| group_reader(group, id, partitions))
            .collect();
        let alone: BTreeMap<Arc<str>, Reader> = alone
            .into_iter()
            .map(|alone| (Arc::clone(&alone.name), alone.reader(partitions)))
            .collect();
        readers.extend(alone.into_values());
        if self.shared.fetchers.overflowed(now_ms) {
            readers.push(Reader {
                kind: ReaderKind::Fetcher,
                name: Arc::from(NOT_REMEMBERED),
                positions: vec![Known::Assigned.into(); usize::try_from(partitions).unwrap_or(0)],
            });
        }
        readers
    }
}

/// A consumer without a group on one topic.
#[derive(Debug)]
pub(super) struct Alone {
    pub topic_id: Uuid,
    /// Client id and address, `id@address`.
    pub name: Arc<str>,
    pub client_id: Arc<str>,
    pub host: Arc<str>,
    /// Partition -> offset and wall-clock time of the last fetch.
    pub positions: BTreeMap<i32, (i64, i64)>,
}

impl Alone {
    fn reader(&self, partitions: i32) -> Reader {
        let position = |partition: i32| match self.positions.get(&partition) {
            Some((offset, at_ms)) => Position {
                known: Known::At(*offset),
                updated_ms: *at_ms,
            },
            None => Position::default(),
        };
        Reader {
            kind: ReaderKind::Fetcher,
            name: Arc::clone(&self.name),
            positions: (0..partitions).map(position).collect(),
        }
    }
}

impl Shared {
    /// Every consumer without a group, on every topic.
    pub(super) fn alone(&self) -> Vec<Alone> {
        let now_ms = self.now().monotonic_ms;
        let topics = self.fetchers.topics().into_iter();
        let named = topics.filter_map(|id| Some((id, self.names.read().get(&id).cloned()?)));
        let mut found = Vec::new();
        for (id, name) in named {
            let fetchers = self.fetchers.on(&name, id, now_ms);
            let coordinator = self.coordinator.lock();
            let alone = fetchers
                .into_iter()
                .filter_map(|fetcher| alone(&coordinator, &name, id, fetcher));
            found.extend(alone);
        }
        found
    }
}

impl Positions {
    /// Every group, by name.
    pub fn groups(&self) -> Vec<GroupCensus> {
        self.shared.coordinator.lock().census()
    }

    /// What groups and positions hold in memory, bytes.
    pub fn held_bytes(&self) -> usize {
        self.shared.coordinator.lock().held_bytes()
    }

    /// Every group that has to do with a topic, as the coordinator sees it.
    pub fn groups_on(&self, topic: &str) -> Vec<GroupReader> {
        self.shared.coordinator.lock().readers_of(topic)
    }
}

fn group_reader(group: &GroupReader, id: Uuid, partitions: i32) -> Reader {
    // Who subscribes to a topic reads all of it: also a partition that nobody has been given yet, because the group rebalances
    // or the partition is new; and after everybody left, one of which nothing was read that could have been committed.
    let is_current = |committed: &CommittedOffset| committed.topic_id == id || committed.topic_id.is_nil();
    let comes_back = group.subscribed_last && group.committed.values().any(is_current);
    let reads_all = group.subscribed || comes_back;
    let position = |partition: i32| {
        let assigned = reads_all || group.owned.contains(&partition);
        if let Some(committed) = group.committed.get(&partition) {
            let current = is_current(committed);
            return Position {
                known: if current {
                    Known::At(committed.offset)
                } else {
                    Known::EarlierTopic(committed.offset)
                },
                updated_ms: committed.commit_ms,
            };
        }
        if let Some(former) = group.former.get(&partition) {
            let known = match former.why {
                Gone::TopicDeleted => Known::EarlierTopic(former.last.offset),
                Gone::Expired if assigned => Known::Assigned,
                Gone::Expired => Known::Expired(Some(former.last.offset)),
            };
            return Position {
                known,
                updated_ms: former.last.commit_ms,
            };
        }
        if assigned {
            Known::Assigned.into()
        } else {
            Position::default()
        }
    };
    Reader {
        kind: ReaderKind::Group,
        name: Arc::clone(&group.group),
        positions: (0..partitions).map(position).collect(),
    }
}

/// The lowest positions of connections beyond those of members that have the same client id and address, by partition; `None`
/// where there are none. What was so before the engine started counts until somebody is back there.
fn alone(coordinator: &Coordinator, topic: &str, topic_id: Uuid, fetcher: Fetcher) -> Option<Alone> {
    let mut members = coordinator.members_like(topic, &fetcher.client_id, &fetcher.host);
    members.extend(fetcher.speakers);
    let mut positions = fetcher.before;
    for (partition, connections) in &fetcher.positions {
        if connections.len() > members.len()
            && let Some(lowest) = connections.first()
        {
            positions.insert(*partition, *lowest);
        }
    }
    (!positions.is_empty()).then_some(Alone {
        topic_id,
        name: fetcher.name,
        client_id: fetcher.client_id,
        host: fetcher.host,
        positions,
    })
}

#[cfg(test)]
#[path = "inventory_tests.rs"]
mod tests;
