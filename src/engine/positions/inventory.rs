//! Who reads a topic, in the guard's words.
use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::Positions;
use super::fetchers::Fetcher;
use crate::engine::readers::ReaderInventory;
use crate::resource::contract::ReaderKind;
use crate::retention::{Known, Position, Reader};
use crate::wire::groups::readers::{GroupCensus, GroupReader};
use crate::wire::groups::record::Gone;

/// Stands for consumers without a group of whom there are too many to remember each. They may read from the log start.
const NOT_REMEMBERED: &str = "(consumers beyond those that can be remembered)";

impl ReaderInventory for Positions {
    fn readers(&self, topic: &str, id: Uuid, partitions: i32) -> Vec<Reader> {
        let now_ms = self.shared.now().monotonic_ms;
        let fetchers = self.shared.fetchers.on(topic, id, now_ms);
        let coordinator = self.shared.coordinator.lock();
        let groups = coordinator.readers_of(topic);
        let mut readers: Vec<Reader> = groups
            .iter()
            .map(|group| group_reader(group, id, partitions))
            .collect();
        let mut alone: BTreeMap<Arc<str>, Vec<Position>> = BTreeMap::new();
        for fetcher in fetchers {
            let mut members = coordinator.members_like(topic, &fetcher.client_id, &fetcher.host);
            members.extend(fetcher.speakers.iter().cloned());
            let Some(positions) = positions_alone(&fetcher, members.len(), partitions) else {
                continue;
            };
            alone.insert(Arc::clone(&fetcher.name), positions);
        }
        drop(coordinator);
        readers.extend(alone.into_iter().map(|(name, positions)| Reader {
            kind: ReaderKind::Fetcher,
            name,
            positions,
        }));
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
    // While a group rebalances nobody knows yet who is to get what.
    let unsettled = group.subscribed && group.state != "Stable";
    let position = |partition: i32| {
        let assigned = unsettled || group.owned.contains(&partition);
        if let Some(committed) = group.committed.get(&partition) {
            let current = committed.topic_id == id || committed.topic_id.is_nil();
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

/// The lowest positions of connections beyond those that `members` account for, by partition; `None` where there are none.
fn positions_alone(fetcher: &Fetcher, members: usize, partitions: i32) -> Option<Vec<Position>> {
    let position = |partition: i32| {
        let connections = fetcher.positions.get(&partition)?;
        let alone = connections
            .len()
            .checked_sub(members)
            .filter(|alone| *alone > 0)?;
        let (offset, at_ms) = connections.iter().take(alone).min().copied()?;
        Some(Position {
            known: Known::At(offset),
            updated_ms: at_ms,
        })
    };
    let positions: Vec<Option<Position>> = (0..partitions).map(position).collect();
    positions.iter().any(Option::is_some).then(|| {
        let known = positions.into_iter();
        known.map(Option::unwrap_or_default).collect()
    })
}

#[cfg(test)]
#[path = "inventory_tests.rs"]
mod tests;
