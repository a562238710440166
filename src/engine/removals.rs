//! Directories of deleted partitions that wait to be removed.
//!
//! Removing needs no new bytes and no record: the deletion is recorded before the first directory is marked, and that record
//! is dropped only when nothing of the topic is left.
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::log::files::{FileKind, Files};

/// How long a directory that could not be removed is left before the next attempt.
const RETRY_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Removal {
    directory: PathBuf,
    topic: Uuid,
    due: Duration,
}

/// What waits.
#[derive(Debug, Default)]
pub struct Removals(Mutex<Vec<Removal>>);

impl Removals {
    /// Has `directory` of a deleted topic removed once the monotonic clock reaches `due`.
    pub fn add(&self, directory: PathBuf, topic: Uuid, due: Duration) {
        self.0.lock().push(Removal {
            directory,
            topic,
            due,
        });
    }

    /// Makes everything that waits due.
    pub fn hurry(&self) {
        for removal in self.0.lock().iter_mut() {
            removal.due = Duration::ZERO;
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes what is due. Answers the topics of which nothing is left to remove.
    pub fn run(&self, files: &dyn Files, now: Duration) -> Vec<Uuid> {
        let due: Vec<Removal> = {
            let mut waiting = self.0.lock();
            if waiting.iter().all(|removal| removal.due > now) {
                return Vec::new();
            }
            let (due, later) = waiting.drain(..).partition(|removal| removal.due <= now);
            *waiting = later;
            due
        };
        let mut finished = Vec::new();
        for removal in due {
            match remove(files, &removal.directory) {
                Ok(()) => finished.push(removal.topic),
                Err(error) => {
                    tracing::warn!(directory = %removal.directory.display(), %error,
                        "a deleted partition could not be removed; it is tried again");
                    self.add(removal.directory, removal.topic, now.saturating_add(RETRY_AFTER));
                }
            }
        }
        let waiting = self.0.lock();
        finished.retain(|topic| !waiting.iter().any(|removal| removal.topic == *topic));
        finished.sort_unstable();
        finished.dedup();
        finished
    }
}

/// Removes a partition directory and the files in it. A directory inside it is none of ours, and stops the removal.
pub fn remove(files: &dyn Files, directory: &Path) -> std::io::Result<()> {
    let entries = match files.list(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        if entry.kind == FileKind::Directory {
            return Err(std::io::Error::other(format!(
                "{} in it is a directory",
                entry.name
            )));
        }
        match files.unlink(&directory.join(&entry.name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    files.remove_dir(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::files::DiskFiles;

    #[test]
    fn directories_go_when_they_are_due_and_the_last_one_finishes_the_topic() {
        let temporary = tempfile::tempdir().unwrap();
        let (one, two) = (temporary.path().join("a"), temporary.path().join("b"));
        for directory in [&one, &two] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("0.log"), "x").unwrap();
        }
        let files = DiskFiles::shared();
        let removals = Removals::default();
        let topic = Uuid::from_u128(1);
        removals.add(one.clone(), topic, Duration::from_secs(1));
        removals.add(two.clone(), topic, Duration::from_secs(2));
        assert!(removals.run(files.as_ref(), Duration::ZERO).is_empty());
        assert!(removals.run(files.as_ref(), Duration::from_secs(1)).is_empty());
        assert!(!one.exists() && two.exists());
        assert_eq!(removals.run(files.as_ref(), Duration::from_secs(2)), [topic]);
        assert!(!two.exists() && removals.is_empty());
    }

    #[test]
    fn what_is_not_ours_inside_stops_the_removal() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("a");
        std::fs::create_dir_all(directory.join("mine")).unwrap();
        let files = DiskFiles::shared();
        let removals = Removals::default();
        removals.add(directory.clone(), Uuid::from_u128(1), Duration::ZERO);
        assert!(removals.run(files.as_ref(), Duration::ZERO).is_empty());
        assert_eq!(removals.len(), 1);
        std::fs::remove_dir(directory.join("mine")).unwrap();
        assert_eq!(
            removals.run(files.as_ref(), Duration::from_secs(60)),
            [Uuid::from_u128(1)]
        );
    }
}
