//! Log start offsets that no file name implies, kept twice.
//!
//! Kafka writes its checkpoint of log starts once a minute, so a record deletion that it has acknowledged can come undone
//! by a crash. Here the new start is in the state store before the acknowledgement, and in Kafka's file beside it, so that
//! losing either one loses nothing.
//!
//! Both name a topic and not its id. So before a topic is made, whatever an earlier one of its name left in either is gone: a start
//! beyond the end of a log means that nothing of that log may come back.
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
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The log starts.
    known: Offsets,
    /// What Kafka's file says; `None` where nobody can tell.
    written: Option<Offsets>,
}

impl DurableLogStarts {
    /// Reads both. A checkpoint that cannot be read counts as empty, as in Kafka, and is reported.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn load(store: Store, files: Arc<dyn Files>, logs: &Path) -> Result<Self, StoreError> {
        let checkpoint = logs.join(CHECKPOINT);
        let written = match checkpoints::read_offsets(files.as_ref(), &checkpoint) {
            Ok(written) => Some(written),
            Err(error) => {
                tracing::warn!(%error, "the checkpoint of log starts cannot be read and counts as empty");
                None
            }
        };
        let mut known = written.clone().unwrap_or_default();
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
            state: Mutex::new(State { known, written }),
        })
    }

    /// The log start kept for a partition; 0 if there is none.
    pub fn get(&self, topic: &str, partition: i32) -> i64 {
        let state = self.state.lock();
        let found = state.known.get(&(topic.to_owned(), partition));
        found.copied().unwrap_or(0)
    }

    /// Replaces Kafka's file by what the logs say now, and drops from the store what file names imply by now. `starts` is handed what was
    /// known so far, for partitions that cannot be asked; no topic is made or forgotten while it runs.
    ///
    /// # Errors
    /// The file cannot be written; the store is up to date all the same.
    pub fn checkpoint(&self, starts: impl FnOnce(&Offsets) -> Offsets) -> Result<(), LogError> {
        let mut state = self.state.lock();
        let starts = starts(&state.known);
        if state.written.as_ref() == Some(&starts) && state.known == starts {
            return Ok(());
        }
        self.write(&mut state, &starts)?;
        let mut batch = Batch::new();
        let dropped = state.known.keys().filter(|key| !starts.contains_key(*key));
        for (topic, partition) in dropped {
            batch.remove(Table::LogStarts, encode_key(topic, *partition));
        }
        state.known = starts;
        // Under the lock: what is durable of a later deletion must not go with what is dropped here.
        if let Err(error) = self.store.write_blocking(batch) {
            tracing::debug!(%error, "log starts that are no longer needed stay in the store");
        }
        Ok(())
    }

    /// Adds the removal of a topic's log starts to `batch`, and forgets them.
    pub fn forget(&self, topic: &str, batch: &mut Batch) {
        self.state.lock().known.retain(|(known, _), _| known != topic);
        batch.remove_prefix(Table::LogStarts, prefix(topic));
    }

    /// Has Kafka's file say nothing of `topic` either, which is about to be made.
    ///
    /// # Errors
    /// It cannot be written, so that the topic must not be made.
    pub fn begin(&self, topic: &str) -> Result<(), LogError> {
        let mut state = self.state.lock();
        state.known.retain(|(known, _), _| known != topic);
        let clean = state
            .written
            .as_ref()
            .is_some_and(|written| !checkpoints::names_topic(written, topic));
        if clean {
            return Ok(());
        }
        let known = state.known.clone();
        self.write(&mut state, &known)
    }

    fn write(&self, state: &mut State, offsets: &Offsets) -> Result<(), LogError> {
        state.written = None;
        checkpoints::write_offsets(self.files.as_ref(), &self.checkpoint, offsets)?;
        state.written = Some(offsets.clone());
        Ok(())
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
        let mut state = self.state.lock();
        self.store.write_blocking(batch).map_err(|error| LogError::Io {
            action: "write",
            path: self.checkpoint.clone(),
            source: error.to_io_error(),
        })?;
        state.known.insert((topic.to_owned(), partition), log_start);
        let known = state.known.clone();
        if let Err(error) = self.write(&mut state, &known) {
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
        starts
            .checkpoint(|_| [(("a.b".to_owned(), 3), 300)].into())
            .unwrap();
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

    #[test]
    fn what_a_topic_that_is_made_anew_finds_of_the_one_before_it_is_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(&temporary.path().join("state.redb")).unwrap();
        let load = || DurableLogStarts::load(store.clone(), DiskFiles::shared(), temporary.path()).unwrap();
        let starts = load();
        starts.persist("a", 0, 5).unwrap();
        starts.persist("ab", 0, 6).unwrap();
        let mut batch = Batch::new();
        starts.forget("a", &mut batch);
        store.write_blocking(batch).unwrap();
        assert_eq!(load().get("a", 0), 5, "Kafka's file is as it was");
        starts.begin("a").unwrap();
        assert_eq!((load().get("a", 0), load().get("ab", 0)), (0, 6));
    }

    #[test]
    fn a_partition_that_cannot_be_asked_keeps_its_log_start() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(&temporary.path().join("state.redb")).unwrap();
        let load = || DurableLogStarts::load(store.clone(), DiskFiles::shared(), temporary.path()).unwrap();
        let starts = load();
        starts.persist("a", 0, 5).unwrap();
        starts.persist("a", 1, 6).unwrap();
        starts
            .checkpoint(|known| {
                known
                    .clone()
                    .into_iter()
                    .filter(|((_, partition), _)| *partition == 1)
                    .collect()
            })
            .unwrap();
        assert_eq!((load().get("a", 0), load().get("a", 1)), (0, 6));
    }
}
