//! Log start offsets that no file name implies, kept twice.
//!
//! Kafka writes its checkpoint of log starts once a minute, so a record deletion that it has acknowledged can come undone
//! by a crash. Here the new start is in the state store before the acknowledgement, and in Kafka's file beside it, so that
//! losing either one loses nothing.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::store::{Batch, Store, StoreError, Table};
use crate::log::checkpoints::{self, Offsets};
use crate::log::error::LogError;
use crate::log::files::Files;
use crate::log::partition::LogStarts;

/// Name of Kafka's file.
pub const CHECKPOINT: &str = "log-start-offset-checkpoint";

/// The log starts of all partitions.
#[derive(Debug)]
pub struct DurableLogStarts {
    store: Store,
    files: Arc<dyn Files>,
    checkpoint: PathBuf,
    known: Mutex<Offsets>,
}

impl DurableLogStarts {
    /// Reads both. A checkpoint that cannot be read counts as empty, as in Kafka, and is reported.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn load(store: Store, files: Arc<dyn Files>, logs: &Path) -> Result<Self, StoreError> {
        let checkpoint = logs.join(CHECKPOINT);
        let mut known = checkpoints::read_offsets(files.as_ref(), &checkpoint).unwrap_or_else(|error| {
            tracing::warn!(%error, "the checkpoint of log starts cannot be read and counts as empty");
            Offsets::new()
        });
        for (key, value) in store.scan(Table::LogStarts)? {
            let Some((topic, partition)) = decode_key(&key) else {
                continue;
            };
            let start = std::str::from_utf8(&value)
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0);
            let entry = known.entry((topic, partition)).or_insert(start);
            *entry = (*entry).max(start);
        }
        Ok(Self {
            store,
            files,
            checkpoint,
            known: Mutex::new(known),
        })
    }

    /// The log start kept for a partition; 0 if there is none.
    pub fn get(&self, topic: &str, partition: i32) -> i64 {
        self.known
            .lock()
            .get(&(topic.to_owned(), partition))
            .copied()
            .unwrap_or(0)
    }

    /// Replaces Kafka's file by what the logs say now, and drops from the store what file names imply by now.
    ///
    /// # Errors
    /// The file cannot be written; the store is up to date all the same.
    pub fn checkpoint(&self, starts: Offsets) -> Result<(), LogError> {
        let mut known = self.known.lock();
        if *known == starts {
            return Ok(());
        }
        checkpoints::write_offsets(self.files.as_ref(), &self.checkpoint, &starts)?;
        let mut batch = Batch::new();
        for (topic, partition) in known.keys().filter(|key| !starts.contains_key(*key)) {
            batch.remove(Table::LogStarts, encode_key(topic, *partition));
        }
        *known = starts;
        drop(known);
        if let Err(error) = self.store.write_blocking(batch) {
            tracing::debug!(%error, "log starts that are no longer needed stay in the store");
        }
        Ok(())
    }

    /// Adds the removal of a deleted topic's log starts to `batch`, and forgets them.
    pub fn forget(&self, topic: &str, batch: &mut Batch) {
        self.known.lock().retain(|(known, _), _| known != topic);
        batch.remove_prefix(Table::LogStarts, prefix(topic));
    }
}

impl LogStarts for DurableLogStarts {
    fn persist(&self, topic: &str, partition: i32, log_start: i64) -> Result<(), LogError> {
        let mut batch = Batch::new();
        batch.put(
            Table::LogStarts,
            encode_key(topic, partition),
            log_start.to_string(),
        );
        self.store.write_blocking(batch).map_err(|error| LogError::Io {
            action: "write",
            path: self.checkpoint.clone(),
            source: error.to_io_error(),
        })?;
        let mut known = self.known.lock();
        known.insert((topic.to_owned(), partition), log_start);
        if let Err(error) = checkpoints::write_offsets(self.files.as_ref(), &self.checkpoint, &known) {
            tracing::warn!(%error, "the log start is durable in the state store only");
        }
        Ok(())
    }
}

fn prefix(topic: &str) -> Vec<u8> {
    let mut key = topic.as_bytes().to_vec();
    key.push(0);
    key
}

fn encode_key(topic: &str, partition: i32) -> Vec<u8> {
    let mut key = prefix(topic);
    key.extend_from_slice(partition.to_string().as_bytes());
    key
}

fn decode_key(key: &[u8]) -> Option<(String, i32)> {
    let (topic, partition) = std::str::from_utf8(key).ok()?.split_once('\0')?;
    Some((topic.to_owned(), partition.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::files::DiskFiles;

    #[test]
    fn a_log_start_survives_the_loss_of_either_copy() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("state.redb");
        let store = Store::open(&path).unwrap();
        let starts = DurableLogStarts::load(store.clone(), DiskFiles::shared(), temporary.path()).unwrap();
        starts.persist("a.b", 3, 250).unwrap();
        starts.persist("a.b", 3, 300).unwrap();
        starts.persist("z", 0, 1).unwrap();
        store.close();
        std::fs::remove_file(temporary.path().join(CHECKPOINT)).unwrap();
        let store = Store::open(&path).unwrap();
        let starts = DurableLogStarts::load(store.clone(), DiskFiles::shared(), temporary.path()).unwrap();
        assert_eq!((starts.get("a.b", 3), starts.get("a.b", 0)), (300, 0));
        starts.checkpoint([(("a.b".to_owned(), 3), 300)].into()).unwrap();
        store.close();
        std::fs::remove_file(&path).unwrap();
        let store = Store::open(&path).unwrap();
        let starts = DurableLogStarts::load(store, DiskFiles::shared(), temporary.path()).unwrap();
        assert_eq!((starts.get("a.b", 3), starts.get("z", 0)), (300, 0));
    }

    #[test]
    fn a_deleted_topic_leaves_no_log_start_behind() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(&temporary.path().join("state.redb")).unwrap();
        let starts = DurableLogStarts::load(store.clone(), DiskFiles::shared(), temporary.path()).unwrap();
        starts.persist("a", 0, 5).unwrap();
        starts.persist("ab", 0, 6).unwrap();
        let mut batch = Batch::new();
        starts.forget("a", &mut batch);
        store.write_blocking(batch).unwrap();
        assert_eq!((starts.get("a", 0), starts.get("ab", 0)), (0, 6));
        assert_eq!(store.scan(Table::LogStarts).unwrap().len(), 1);
    }
}
