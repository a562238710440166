//! The topics there are, as far as groups care: names, ids and numbers of partitions.
use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Name.
    pub name: Arc<str>,
    /// Id; another one for a topic that was deleted and created again.
    pub id: Uuid,
    /// Number of partitions, which never shrinks.
    pub partitions: i32,
}

/// All topics.
#[derive(Debug, Default)]
pub struct Topics {
    by_name: BTreeMap<Arc<str>, Topic>,
    names: BTreeMap<Uuid, Arc<str>>,
    version: u64,
}

impl Topics {
    /// Adds a topic, or replaces what was known of it.
    pub fn set(&mut self, topic: Topic) {
        let old = self.by_name.insert(Arc::clone(&topic.name), topic.clone());
        if old.as_ref() == Some(&topic) {
            return;
        }
        if let Some(old) = old {
            self.names.remove(&old.id);
        }
        self.names.insert(topic.id, topic.name);
        self.version = self.version.wrapping_add(1);
    }

    /// Removes a topic.
    pub fn remove(&mut self, name: &str) -> Option<Topic> {
        let topic = self.by_name.remove(name)?;
        self.names.remove(&topic.id);
        self.version = self.version.wrapping_add(1);
        Some(topic)
    }

    /// The topic of this name.
    pub fn by_name(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    /// The topic of this id.
    pub fn by_id(&self, id: Uuid) -> Option<&Topic> {
        self.by_name.get(self.names.get(&id)?)
    }

    /// Every topic, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Topic> {
        self.by_name.values()
    }

    /// Differs whenever anything here differs.
    pub fn version(&self) -> u64 {
        self.version
    }
}
