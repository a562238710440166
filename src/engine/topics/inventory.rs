//! What a start makes of what is remembered and what is on disk. Pure: records and directory names in, decisions out.
//!
//! Two rules keep data safe. A directory is removed only under a deletion that was recorded, for the topic id that was
//! recorded; a suffix alone proves nothing. And a directory that should be there and is not was lost: the partition stays
//! offline and says so, instead of starting anew at offset 0 as if nothing had ever been in it.
use std::collections::BTreeMap;

use uuid::Uuid;

use crate::engine::topics::record::{DeletionRecord, Layers, TopicRecord};
use crate::log::names::{DirectoryState, PartitionDirectoryName};
use crate::resource::names;

/// A directory that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundDirectory {
    /// Its name.
    pub name: String,
    /// The topic id in its `partition.metadata`: `None` without one, an error if it cannot be read.
    pub topic_id: Result<Option<Uuid>, String>,
}

/// What to do about one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionStart {
    /// Open the directory.
    Open {
        /// Its name.
        directory: String,
        /// Whether the topic id has to be written into it first.
        write_id: bool,
    },
    /// Make the directory: the crash came before it was made.
    Create,
    /// Leave it offline.
    Offline {
        /// Why.
        reason: String,
    },
}

/// A topic to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicStart {
    /// What is remembered, brought up to what was found.
    pub record: TopicRecord,
    /// Whether the record differs from the stored one.
    pub changed: bool,
    /// Whether nothing was remembered of the topic.
    pub adopted: bool,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionStart>,
}

/// What a start does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Topics to open, by name.
    pub topics: Vec<TopicStart>,
    /// Directories to remove, each under a recorded deletion.
    pub remove: Vec<(String, Uuid)>,
    /// Directories left alone, and why.
    pub left: Vec<(String, String)>,
}

#[derive(Debug)]
struct Live<'a> {
    partition: i32,
    directory: &'a FoundDirectory,
}

/// Decides.
pub fn take(
    records: Vec<TopicRecord>,
    deletions: &[DeletionRecord],
    found: &[FoundDirectory],
    most_partitions: usize,
    now_ms: i64,
) -> Inventory {
    let mut inventory = Inventory::default();
    let mut live: BTreeMap<String, Vec<Live<'_>>> = BTreeMap::new();
    for directory in found {
        let Some(name) = PartitionDirectoryName::parse(&directory.name) else {
            inventory.leave(directory, "it is not named as a partition");
            continue;
        };
        match name.state {
            DirectoryState::Live => {
                if name.topic == "__cluster_metadata" {
                    continue;
                }
                if names::check(&name.topic).is_err() {
                    inventory.leave(directory, "its name breaks Kafka's rules for topics");
                } else if usize::try_from(name.partition).is_ok_and(|partition| partition < most_partitions) {
                    live.entry(name.topic).or_default().push(Live {
                        partition: name.partition,
                        directory,
                    });
                } else {
                    inventory.leave(directory, "its partition number is beyond what this engine holds");
                }
            }
            DirectoryState::Deleted => match deletion_of(deletions, directory) {
                Some(id) => inventory.remove.push((directory.name.clone(), id)),
                None => inventory.leave(directory, "no deletion of it was recorded here"),
            },
            DirectoryState::Future | DirectoryState::Stray => {
                inventory.leave(directory, "Kafka put it aside");
            }
        }
    }
    for record in records {
        let directories = live.remove(&record.name).unwrap_or_default();
        let directories = inventory.without_deleted(directories, deletions, Some(record.id));
        inventory.topics.push(open(record, false, &directories));
    }
    for (name, directories) in live {
        let directories = inventory.without_deleted(directories, deletions, None);
        if let Some(record) = adopt(&name, &directories, now_ms) {
            inventory.topics.push(open(record, true, &directories));
        }
    }
    inventory
        .topics
        .sort_by(|one, other| one.record.name.cmp(&other.record.name));
    inventory
}

impl Inventory {
    fn leave(&mut self, directory: &FoundDirectory, why: &str) {
        self.left.push((directory.name.clone(), why.to_owned()));
    }

    /// Takes out the directories of a topic that was deleted before a newer one of the same name was made.
    fn without_deleted<'a>(
        &mut self,
        directories: Vec<Live<'a>>,
        deletions: &[DeletionRecord],
        current: Option<Uuid>,
    ) -> Vec<Live<'a>> {
        let (kept, removed): (Vec<_>, Vec<_>) = directories.into_iter().partition(|live| {
            let id = live.directory.topic_id.as_ref().ok().copied().flatten();
            let deleted = match id {
                Some(id) => deletions.iter().find(|deletion| deletion.id == id),
                // Without an id of its own it is the deleted one only if no topic of that name is there now.
                None if current.is_none() => deletions.iter().find(|deletion| {
                    PartitionDirectoryName::parse(&live.directory.name)
                        .is_some_and(|name| name.topic == deletion.name)
                }),
                None => None,
            };
            if let Some(deleted) = deleted {
                self.remove.push((live.directory.name.clone(), deleted.id));
            }
            deleted.is_none()
        });
        drop(removed);
        kept
    }
}

fn deletion_of(deletions: &[DeletionRecord], directory: &FoundDirectory) -> Option<Uuid> {
    let recorded = |id: Uuid| deletions.iter().any(|deletion| deletion.id == id);
    match &directory.topic_id {
        Ok(Some(id)) => recorded(*id).then_some(*id),
        // We mark with the topic id, so the name tells when the file inside is gone already.
        Ok(None) | Err(_) => deletions
            .iter()
            .map(|deletion| deletion.id)
            .find(|id| directory.name.ends_with(&format!(".{}-delete", id.simple()))),
    }
}

/// A record for directories of which nothing is remembered. Their settings did not come with them, so the topic keeps
/// everything until somebody says what it keeps.
fn adopt(name: &str, directories: &[Live<'_>], now_ms: i64) -> Option<TopicRecord> {
    let last = directories.iter().map(|live| live.partition).max()?;
    let mut ids: Vec<(i32, Uuid)> = directories
        .iter()
        .filter_map(|live| {
            Some((
                live.partition,
                live.directory.topic_id.as_ref().ok().copied().flatten()?,
            ))
        })
        .collect();
    ids.sort_unstable();
    let id = ids.first().map_or_else(Uuid::new_v4, |(_, id)| *id);
    let mut layers = Layers::default();
    if names::is_internal(name) {
        layers
            .config
            .insert("cleanup.policy".to_owned(), "compact".to_owned());
    } else {
        layers.config.insert("retention.ms".to_owned(), "-1".to_owned());
        layers
            .config
            .insert("retention.bytes".to_owned(), "-1".to_owned());
    }
    let partitions = last.saturating_add(1);
    let mut record = TopicRecord::new(name, id, partitions, layers, now_ms);
    record.directories = partitions;
    Some(record)
}

fn open(mut record: TopicRecord, adopted: bool, directories: &[Live<'_>]) -> TopicStart {
    let stored = record.clone();
    let last = directories
        .iter()
        .filter(|live| live.directory.topic_id == Ok(Some(record.id)))
        .map(|live| live.partition)
        .max()
        .unwrap_or(-1);
    // Directories of this very topic beyond the recorded count: the record is older than the disk, and data wins.
    record.partitions = record.partitions.max(last.saturating_add(1));
    let partitions = (0..record.partitions)
        .map(|partition| {
            let found = directories.iter().find(|live| live.partition == partition);
            match found.map(|live| (live, &live.directory.topic_id)) {
                Some((live, Ok(id))) if id.is_none_or(|id| id == record.id) => PartitionStart::Open {
                    directory: live.directory.name.clone(),
                    write_id: id.is_none(),
                },
                Some((live, Ok(other))) => PartitionStart::Offline {
                    reason: format!(
                        "directory {} belongs to topic id {}, the topic's is {}",
                        live.directory.name,
                        other.map(|id| id.to_string()).unwrap_or_default(),
                        record.id
                    ),
                },
                Some((live, Err(reason))) => PartitionStart::Offline {
                    reason: format!("directory {}: {reason}", live.directory.name),
                },
                None if partition >= record.directories => PartitionStart::Create,
                None => PartitionStart::Offline {
                    reason: format!("directory {}-{partition} is missing", record.name),
                },
            }
        })
        .collect();
    record.directories = record.partitions;
    TopicStart {
        changed: adopted || record != stored,
        adopted,
        record,
        partitions,
    }
}

#[cfg(test)]
#[path = "inventory_tests.rs"]
mod tests;
