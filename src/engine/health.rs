//! Whether the volume serves: looked at every second, and whenever somebody meets a failure.
//!
//! A full or read-only volume refuses produce and nothing else; it recovers by itself when the volume does. Nothing is ever
//! written to find out.
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use rustix::fs::StatVfsMountFlags;

use crate::resource::contract::{Health, Volume};

/// What is watched.
#[derive(Debug)]
pub struct StorageHealth {
    logs: PathBuf,
    inode: Option<(u64, u64)>,
    ask: AskFileSystem,
    reserved_bytes: u64,
    state: ArcSwap<Health>,
    /// Wall time since when it has not served, ms; -1 while it serves.
    unhealthy_since_ms: AtomicI64,
    /// Size of the file system when it was last asked for, bytes; 0 where it has not said.
    size_bytes: AtomicI64,
}

/// What the file system says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Size in bytes.
    pub total_bytes: u64,
    /// Bytes free to us.
    pub free_bytes: u64,
    /// Whether it is mounted read-only.
    pub read_only: bool,
}

/// A way to ask the file system that a path is on.
pub type Ask = dyn Fn(&Path) -> std::io::Result<FileSystem> + Send + Sync;

/// How the file system is asked; tests give other answers.
#[derive(Clone)]
pub struct AskFileSystem(pub Arc<Ask>);

impl Default for AskFileSystem {
    fn default() -> Self {
        Self(Arc::new(file_system))
    }
}

impl std::fmt::Debug for AskFileSystem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("AskFileSystem")
    }
}

/// Asks the file system that `path` is on.
pub fn file_system(path: &Path) -> std::io::Result<FileSystem> {
    let status = rustix::fs::statvfs(path)?;
    Ok(FileSystem {
        total_bytes: status.f_blocks.saturating_mul(status.f_frsize),
        free_bytes: status.f_bavail.saturating_mul(status.f_frsize),
        read_only: status.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

impl StorageHealth {
    /// Watches a log directory.
    pub fn new(logs: &Path, reserved_bytes: u64, ask: AskFileSystem) -> Self {
        let health = Self {
            logs: logs.to_path_buf(),
            inode: identity(logs),
            ask,
            reserved_bytes,
            state: ArcSwap::from_pointee(Health::healthy()),
            unhealthy_since_ms: AtomicI64::new(-1),
            size_bytes: AtomicI64::new(0),
        };
        health.probe(-1);
        health.resized();
        health
    }

    /// The last finding.
    pub fn now(&self) -> Arc<Health> {
        self.state.load_full()
    }

    /// Since when it has not served, wall time in ms.
    pub fn unhealthy_since_ms(&self) -> Option<i64> {
        let since = self.unhealthy_since_ms.load(Ordering::Relaxed);
        (since >= 0).then_some(since)
    }

    /// Looks again. Answers the old and the new finding where they differ.
    pub fn probe(&self, now_ms: i64) -> Option<(Arc<Health>, Arc<Health>)> {
        let old = self.now();
        let found = self.look(&old);
        if found.is_healthy() {
            self.unhealthy_since_ms.store(-1, Ordering::Relaxed);
        } else if self.unhealthy_since_ms.load(Ordering::Relaxed) < 0 {
            self.unhealthy_since_ms.store(now_ms.max(0), Ordering::Relaxed);
        }
        let changed = found.reason != old.reason;
        let found = Arc::new(found);
        self.state.store(Arc::clone(&found));
        changed.then_some((old, found))
    }

    /// The volume, as the file system says.
    pub fn volume(&self) -> Volume {
        (self.ask.0)(&self.logs).map_or_else(
            |_| Volume::default(),
            |found| Volume {
                total_bytes: i64::try_from(found.total_bytes).unwrap_or(i64::MAX),
                free_bytes: i64::try_from(found.free_bytes).unwrap_or(i64::MAX),
            },
        )
    }

    /// The size of the file system in bytes, where it has changed since the last call: a claim has been grown, or another
    /// volume is there. What topics may come to hold is measured against it.
    pub fn resized(&self) -> Option<i64> {
        let now = self.volume().total_bytes;
        if now <= 0 {
            return None;
        }
        let before = self.size_bytes.swap(now, Ordering::Relaxed);
        (before > 0 && before != now).then_some(now)
    }

    fn look(&self, old: &Health) -> Health {
        let logs = self.logs.display();
        let finding = |reason: &str, message: String| Health {
            reason: reason.to_owned(),
            message,
        };
        match identity(&self.logs) {
            None => return finding("Corrupt", format!("the log directory {logs} is gone")),
            found if found != self.inode => {
                return finding(
                    "Corrupt",
                    format!("the log directory {logs} is another one than at start"),
                );
            }
            Some(_) => {}
        }
        let found = match (self.ask.0)(&self.logs) {
            Ok(found) => found,
            Err(error) => return finding("Corrupt", format!("{logs}: {error}")),
        };
        if found.read_only {
            return finding("ReadOnly", format!("the file system of {logs} is read-only"));
        }
        // Once full it has to free twice the reserve before records are taken again, so that it does not flutter.
        let needed = if old.reason == "DiskFull" {
            self.reserved_bytes.saturating_mul(2)
        } else {
            self.reserved_bytes
        };
        if found.free_bytes < needed {
            return finding(
                "DiskFull",
                format!(
                    "{} bytes are free on the file system of {logs}, {needed} are needed to take records",
                    found.free_bytes
                ),
            );
        }
        Health::healthy()
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    metadata.is_dir().then(|| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_grows_is_seen_once() {
        let temporary = tempfile::tempdir().unwrap();
        let total = Arc::new(AtomicI64::new(1_000));
        let asked = Arc::clone(&total);
        let ask = AskFileSystem(Arc::new(move |_: &Path| {
            Ok(FileSystem {
                total_bytes: asked.load(Ordering::Relaxed).unsigned_abs(),
                free_bytes: 500,
                read_only: false,
            })
        }));
        let health = StorageHealth::new(temporary.path(), 0, ask);
        assert_eq!(health.resized(), None);
        total.store(2_000, Ordering::Relaxed);
        assert_eq!(health.resized(), Some(2_000));
        assert_eq!(health.resized(), None);
        total.store(0, Ordering::Relaxed);
        assert_eq!(health.resized(), None, "one that does not say has not shrunk");
    }

    #[test]
    fn a_full_volume_and_a_lost_directory_are_named_and_recovery_is_seen() {
        let temporary = tempfile::tempdir().unwrap();
        let logs = temporary.path().join("logs");
        std::fs::create_dir(&logs).unwrap();
        let health = StorageHealth::new(&logs, u64::MAX / 2, AskFileSystem::default());
        assert_eq!(health.now().reason, "DiskFull");
        assert!(
            health.now().message.contains("bytes are free"),
            "{}",
            health.now().message
        );
        let health = StorageHealth::new(&logs, 0, AskFileSystem::default());
        assert!(health.now().is_healthy());
        assert_eq!(health.unhealthy_since_ms(), None);
        std::fs::rename(&logs, temporary.path().join("aside")).unwrap();
        let (old, new) = health.probe(77).unwrap();
        assert!(old.is_healthy());
        assert_eq!(new.reason, "Corrupt");
        assert!(new.message.contains("is gone"), "{}", new.message);
        std::fs::create_dir(&logs).unwrap();
        assert_eq!(health.probe(99), None);
        assert!(
            health.now().message.contains("another one"),
            "{}",
            health.now().message
        );
        assert_eq!(health.unhealthy_since_ms(), Some(77));
        std::fs::remove_dir(&logs).unwrap();
        std::fs::rename(temporary.path().join("aside"), &logs).unwrap();
        let (_, new) = health.probe(100).unwrap();
        assert!(new.is_healthy());
        assert_eq!(health.unhealthy_since_ms(), None);
    }
}
