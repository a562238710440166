//! Creating topics and adding partitions, so that a crash at any point leaves a topic that the next start finishes, or none.
//!
//! The record comes first, then the directories, then the mark in the record that they were all made. A client is answered
//! after the last of these.
use std::sync::Arc;

use parking_lot::MutexGuard;
use uuid::Uuid;

use crate::engine::Engine;
use crate::engine::refusal::Refusal;
use crate::engine::store::{Batch, Table};
use crate::engine::topics::catalog::{PartitionState, TopicState};
use crate::engine::topics::record::{Layers, TopicRecord};
use crate::log::error::LogError;
use crate::log::names;
use crate::resource::contract::EventKind;
use crate::resource::names as topic_names;

/// The lock on changes of topics, held.
pub(crate) type Changes<'a> = MutexGuard<'a, ()>;

/// `1 partition`, `3 partitions`.
pub(crate) fn partitions_of(count: i32) -> String {
    format!("{count} partition{}", if count == 1 { "" } else { "s" })
}

impl Engine {
    /// Checks that a topic of this name and size can be created.
    pub(crate) fn check_new_topic(&self, name: &str, partitions: i32) -> Result<(), Refusal> {
        let invalid = |reason: String| Refusal::InvalidName {
            name: name.to_owned(),
            reason,
        };
        topic_names::check(name).map_err(|error| invalid(error.to_string()))?;
        if topic_names::is_internal(name) {
            return Err(invalid("Kafka keeps this name for itself".to_owned()));
        }
        let topics = self.catalog.snapshot();
        if topics.by_name(name).is_some() {
            return Err(Refusal::TopicExists {
                name: name.to_owned(),
            });
        }
        if let Some(other) = topics
            .iter()
            .find(|other| topic_names::collide(name, &other.record.name))
        {
            return Err(Refusal::NameCollision {
                name: name.to_owned(),
                other: other.record.name.clone(),
            });
        }
        self.check_partition_count(0, partitions, topics.partitions())
    }

    fn check_partition_count(&self, now: i32, wanted: i32, in_all: usize) -> Result<(), Refusal> {
        if wanted < 1 {
            return Err(Refusal::InvalidPartitions(format!(
                "partitions is {wanted}; Number of partitions was set to an invalid non-positive value."
            )));
        }
        let added = usize::try_from(wanted.saturating_sub(now)).unwrap_or(0);
        if in_all.saturating_add(added) > self.config.max_partitions {
            return Err(Refusal::InvalidPartitions(format!(
                "partitions is {wanted}; with the {in_all} there are this engine would hold more than its limit of {}",
                self.config.max_partitions
            )));
        }
        Ok(())
    }

    /// Creates a topic from a record that was checked.
    pub(crate) fn create_checked(
        &self,
        _changes: &Changes<'_>,
        record: TopicRecord,
    ) -> Result<Arc<TopicState>, Refusal> {
        self.begin_checkpoints(&record.name)
            .map_err(|error| storage(&error))?;
        let mut batch = Batch::new();
        self.log_starts.forget(&record.name, &mut batch);
        batch.put(Table::Topics, record.name.as_bytes(), record.encode());
        self.store.write_blocking(batch)?;
        fail::fail_point!("topics::recorded");
        let name = record.name.clone();
        match self.make_directories(record, Vec::new()) {
            Ok(state) => {
                self.publish_topic(Arc::clone(&state));
                let owner = state.record.owner.as_ref();
                let count = state.record.partitions;
                self.events.tell(
                    EventKind::TopicCreated,
                    &name,
                    owner,
                    format!("topic {name} was created with {}", partitions_of(count)),
                );
                Ok(state)
            }
            Err((record, error)) => {
                self.undo_creation(&record);
                Err(storage(&error))
            }
        }
    }

    /// Grows a topic to `count` partitions.
    pub(crate) fn grow(
        &self,
        _changes: &Changes<'_>,
        topic: &TopicState,
        count: i32,
        validate_only: bool,
    ) -> Result<Arc<TopicState>, Refusal> {
        let now = topic.record.partitions;
        if count == now {
            return Err(Refusal::InvalidPartitions(format!(
                "Topic already has {now} partition(s)."
            )));
        }
        if count < now {
            return Err(Refusal::InvalidPartitions(format!(
                "The topic {} currently has {now} partition(s); {count} would not be an increase.",
                topic.record.name
            )));
        }
        self.check_partition_count(now, count, self.catalog.snapshot().partitions())?;
        let mut record = topic.record.clone();
        record.partitions = count;
        if validate_only {
            let (state, _) = self.topic_state(record, topic.partitions.clone());
            return Ok(Arc::new(state));
        }
        let mut batch = Batch::new();
        batch.put(Table::Topics, record.name.as_bytes(), record.encode());
        self.store.write_blocking(batch)?;
        fail::fail_point!("topics::growth-recorded");
        match self.make_directories(record, topic.partitions.clone()) {
            Ok(state) => {
                self.publish_topic(Arc::clone(&state));
                self.events.tell(
                    EventKind::TopicChanged,
                    &state.record.name,
                    state.record.owner.as_ref(),
                    format!("topic {} has {count} partitions now", state.record.name),
                );
                Ok(state)
            }
            Err((_, error)) => {
                // The recorded count goes back; what was made of the new ones is removed, nothing was ever in it.
                let logs = self.directory.logs();
                for partition in now..count {
                    let directory = logs.join(names::partition_directory(&topic.record.name, partition));
                    let _ = crate::engine::removals::remove(self.files.as_ref(), &directory);
                }
                let mut batch = Batch::new();
                batch.put(Table::Topics, topic.record.name.as_bytes(), topic.record.encode());
                if let Err(error) = self.store.write_blocking(batch) {
                    tracing::warn!(%error, "new partitions that could not be made are made at the next start");
                }
                Err(storage(&error))
            }
        }
    }

    /// Makes the directories that are still missing and marks them as made.
    fn make_directories(
        &self,
        mut record: TopicRecord,
        mut partitions: Vec<PartitionState>,
    ) -> Result<Arc<TopicState>, (Box<TopicRecord>, LogError)> {
        let logs = self.directory.logs();
        for partition in record.directories..record.partitions {
            match self.make_partition(&logs, &record, partition) {
                Ok(log) => partitions.push(PartitionState::online(log)),
                Err(error) => return Err((Box::new(record), error)),
            }
            fail::fail_point!("topics::one-directory-made");
        }
        if let Err(source) = self.files.sync_dir(&logs) {
            let error = LogError::Io {
                action: "fsync",
                path: logs,
                source,
            };
            return Err((Box::new(record), error));
        }
        record.directories = record.partitions;
        let mut batch = Batch::new();
        batch.put(Table::Topics, record.name.as_bytes(), record.encode());
        if let Err(error) = self.store.write_blocking(batch) {
            let error = LogError::Io {
                action: "write",
                path: self.directory.state(),
                source: error.to_io_error(),
            };
            return Err((Box::new(record), error));
        }
        fail::fail_point!("topics::directories-made");
        let (state, _) = self.topic_state(record, partitions);
        Ok(Arc::new(state))
    }

    fn undo_creation(&self, record: &TopicRecord) {
        let logs = self.directory.logs();
        for partition in 0..record.partitions {
            let directory = logs.join(names::partition_directory(&record.name, partition));
            if let Err(error) = crate::engine::removals::remove(self.files.as_ref(), &directory) {
                tracing::warn!(directory = %directory.display(), %error, "left over from a topic that could not be created");
            }
        }
        let mut batch = Batch::new();
        batch.remove(Table::Topics, record.name.as_bytes());
        if let Err(error) = self.store.write_blocking(batch) {
            tracing::warn!(%error, topic = record.name, "a topic that could not be created is created at the next start");
        }
    }

    /// A record for a topic that is to be created now.
    pub(crate) fn new_record(&self, name: &str, partitions: i32, layers: Layers) -> TopicRecord {
        TopicRecord::new(
            name,
            Uuid::new_v4(),
            partitions,
            layers,
            self.config.clock.wall_ms(),
        )
    }
}

/// A failure of the log's storage as a refusal.
pub(crate) fn storage(error: &LogError) -> Refusal {
    let reason = if error.is_full_disk() {
        "DiskFull"
    } else if error.is_read_only() {
        "ReadOnly"
    } else {
        "Corrupt"
    };
    Refusal::Storage {
        reason,
        message: error.to_string(),
    }
}
