//! The topics that are served, as one snapshot that readers take without waiting.
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use uuid::Uuid;

use crate::engine::topics::record::TopicRecord;
use crate::log::partition::PartitionLog;
use crate::wire::broker::Topic;

/// One partition as the engine holds it.
#[derive(Debug, Clone)]
pub struct PartitionState {
    /// Its log, if it is served.
    pub log: Option<Arc<PartitionLog>>,
    /// Why it is not.
    pub offline: Option<Arc<str>>,
}

/// One topic as the engine holds it; replaced as a whole when anything of it changes.
#[derive(Debug)]
pub struct TopicState {
    /// What is remembered of it.
    pub record: TopicRecord,
    /// What the protocol sees of it.
    pub topic: Arc<Topic>,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionState>,
}

impl TopicState {
    /// The partitions that are served, with their numbers.
    pub fn logs(&self) -> impl Iterator<Item = (i32, &Arc<PartitionLog>)> {
        (0..)
            .zip(&self.partitions)
            .filter_map(|(partition, state)| Some((partition, state.log.as_ref()?)))
    }

    /// One partition.
    pub fn partition(&self, partition: i32) -> Option<&PartitionState> {
        usize::try_from(partition)
            .ok()
            .and_then(|index| self.partitions.get(index))
    }
}

/// All topics at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    by_name: BTreeMap<Arc<str>, Arc<TopicState>>,
    by_id: HashMap<Uuid, Arc<TopicState>>,
}

impl Snapshot {
    /// The topic of this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<TopicState>> {
        self.by_name.get(name)
    }

    /// The topic of this id.
    pub fn by_id(&self, id: Uuid) -> Option<&Arc<TopicState>> {
        self.by_id.get(&id)
    }

    /// Every topic, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TopicState>> {
        self.by_name.values()
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.by_name.values().map(|topic| topic.partitions.len()).sum()
    }
}

/// The topics that are served. Whoever changes it holds the lock on changes.
#[derive(Debug, Default)]
pub struct Catalog(ArcSwap<Snapshot>);

impl Catalog {
    /// All topics now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.load_full()
    }

    /// The topic of this name.
    pub fn by_name(&self, name: &str) -> Option<Arc<TopicState>> {
        self.0.load().by_name(name).cloned()
    }

    /// The topic of this id.
    pub fn by_id(&self, id: Uuid) -> Option<Arc<TopicState>> {
        self.0.load().by_id(id).cloned()
    }

    /// Puts a topic in, or in the place of what was known of it.
    pub fn put(&self, topic: Arc<TopicState>) {
        self.put_all([topic]);
    }

    /// Puts several in at once.
    pub fn put_all(&self, topics: impl IntoIterator<Item = Arc<TopicState>>) {
        let mut snapshot = Snapshot::clone(&self.0.load());
        for topic in topics {
            snapshot.by_id.insert(topic.record.id, Arc::clone(&topic));
            if let Some(old) = snapshot
                .by_name
                .insert(Arc::clone(&topic.topic.name), Arc::clone(&topic))
                && old.record.id != topic.record.id
            {
                snapshot.by_id.remove(&old.record.id);
            }
        }
        self.0.store(Arc::new(snapshot));
    }

    /// Takes a topic out.
    pub fn remove(&self, name: &str) -> Option<Arc<TopicState>> {
        let mut snapshot = Snapshot::clone(&self.0.load());
        let old = snapshot.by_name.remove(name)?;
        snapshot.by_id.remove(&old.record.id);
        self.0.store(Arc::new(snapshot));
        Some(old)
    }
}
