//! The data directory: one engine at a time, one identity, nothing followed, nothing formatted unread.
//!
//! ```text
//! DATA/lock            advisory lock; holds the line of who has it
//! DATA/identity.json   format version and identity
//! DATA/logs/           exactly a Kafka log directory
//! DATA/state.redb      what is not Kafka's
//! ```
//!
//! A freshly formatted volume carries `lost+found`, and people put things of their own beside ours: what is not ours is
//! neither read nor counted nor removed. A path of ours that turns out to be a symbolic link is refused, because
//! following it would let whoever made it choose what we write to and delete.
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The format version this build reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// The largest `identity.json` or `lock` that is read.
const SMALL_FILE: u64 = 64 * 1024;

/// Why a data directory cannot be used. None of these leaves a changed byte behind.
#[derive(Debug, thiserror::Error)]
pub enum DataDirectoryError {
    /// Another process has the lock.
    #[error("{path} is in use by another engine ({holder}); stop it, or choose another --data directory")]
    InUse {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote about itself.
        holder: String,
    },
    /// The file system cannot lock.
    #[error(
        "{path} cannot be locked: {errno}. This file system does not support advisory locks, and without one two engines \
         could write the same directory; use a volume that supports them. No data was touched"
    )]
    LockUnsupported {
        /// The lock file.
        path: PathBuf,
        /// What the lock call answered.
        errno: io::Error,
    },
    /// The directory belongs to another identity.
    #[error(
        "{path} belongs to identity {found}, this engine is configured as {configured}; nothing was read or written. \
         Point the engine at the right volume, or take this one over with --adopt-identity"
    )]
    IdentityMismatch {
        /// The data directory.
        path: PathBuf,
        /// The identity it carries.
        found: String,
        /// The identity asked for.
        configured: String,
    },
    /// Something of ours is there and cannot be understood; it is left as it is.
    #[error("{path} cannot be read: {reason}; it was left as it is")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// One of our names is a symbolic link.
    #[error("{path} is a symbolic link; links inside a data directory are not followed")]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// The file system is mounted read-only.
    #[error("{path} is on a read-only file system")]
    ReadOnly {
        /// The path that could not be written.
        path: PathBuf,
    },
    /// Any other failed call.
    #[error("{path}: {cause}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The failure.
        cause: io::Error,
    },
}

impl DataDirectoryError {
    /// The reason as it appears in `StorageHealthy` and in problem documents.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "InUse",
            Self::LockUnsupported { .. } => "LockUnsupported",
            Self::IdentityMismatch { .. } => "IdentityMismatch",
            Self::Unreadable { .. } | Self::Link { .. } => "Corrupt",
            Self::ReadOnly { .. } => "ReadOnly",
            Self::Io { cause, .. } if is_full(cause) => "DiskFull",
            Self::Io { .. } => "Corrupt",
        }
    }
}

/// The content of `identity.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Version of the directory's layout.
    pub format_version: u32,
    /// Kafka's cluster id: 22 characters of URL-safe base64 by custom, any text by rule.
    pub cluster_id: String,
    /// The node id the directory was written by.
    pub node_id: i32,
    /// The id of this directory, 22 characters of URL-safe base64.
    pub directory_id: String,
}

/// Who should own the directory.
#[derive(Debug, Clone, Default)]
pub struct Claim {
    /// The identity asked for; `None` takes the one found, or a new one.
    pub cluster_id: Option<String>,
    /// This broker's node id.
    pub node_id: i32,
    /// Take over a directory of another identity.
    pub adopt: bool,
}

/// A locked data directory. Releasing or dropping it gives the lock back.
#[derive(Debug)]
pub struct DataDirectory {
    root: PathBuf,
    identity: Identity,
    /// Ours on `DATA/lock`, and Kafka's on `DATA/logs/.lock`.
    locks: Mutex<Option<(File, Option<File>)>>,
}

impl DataDirectory {
    /// Creates the directory if needed, locks it and checks whose it is.
    ///
    /// The order matters: nothing but the lock file is touched before the lock is held, and nothing at all is
    /// written before the identity is known to be ours.
    pub fn open(root: &Path, claim: &Claim) -> Result<Self, DataDirectoryError> {
        Self::open_with(root, claim, |file| {
            rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
        })
    }

    /// [`Self::open`] with the lock call given, so that a file system without locks can be imitated.
    pub fn open_with(
        root: &Path,
        claim: &Claim,
        try_lock: impl Fn(&File) -> Result<(), Errno>,
    ) -> Result<Self, DataDirectoryError> {
        fs::create_dir_all(root).map_err(|source| match source.kind() {
            // What is there is something else.
            io::ErrorKind::AlreadyExists => failed(root, io::ErrorKind::NotADirectory.into()),
            _ => failed(root, source),
        })?;
        let lock = lock(&root.join("lock"), try_lock)?;
        let logs = root.join("logs");
        let found = match read_identity(&root.join("identity.json"))? {
            Some(identity) => Some(identity),
            None => identity_of_kafka(&logs)?,
        };
        let identity = settle(root, found.clone(), claim)?;
        make_directory(&logs)?;
        let kafka_lock = lock_out_kafka(&logs)?;
        if found.as_ref() != Some(&identity) || !root.join("identity.json").exists() {
            write_identity(root, &identity)?;
        }
        write_meta_properties(&logs, &identity)?;
        Ok(Self {
            root: root.to_path_buf(),
            identity,
            locks: Mutex::new(Some((lock, kafka_lock))),
        })
    }

    /// Gives the lock back: nothing is touched after this.
    pub fn release(&self) {
        if let Some((lock, _)) = self.locks.lock().take() {
            // Said in words: a child between its fork and its start holds the file open, and with it a lock that is only let go of.
            let _ = rustix::fs::flock(&lock, FlockOperation::Unlock);
        }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The Kafka log directory in it.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The file of the state store.
    pub fn state(&self) -> PathBuf {
        self.root.join("state.redb")
    }

    /// Whose directory this is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
}

/// Names in a log directory that are not partitions and are no reason for a warning.
pub fn is_known_file(name: &str) -> bool {
    matches!(
        name,
        "lost+found"
            | ".lock"
            | ".kafka_cleanshutdown"
            | "meta.properties"
            | "bootstrap.checkpoint"
            | "remote-log-index-cache"
    ) || name.ends_with("-checkpoint")
        || name.ends_with(".tmp")
}

/// 22 characters of URL-safe base64 of a random UUID, the form Kafka gives its ids.
pub fn random_id() -> String {
    use base64::Engine as _;
    loop {
        let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(uuid::Uuid::new_v4().as_bytes());
        // Kafka avoids a leading dash, because its tools take such an id for an option.
        if !text.starts_with('-') {
            return text;
        }
    }
}

fn lock(path: &Path, try_lock: impl Fn(&File) -> Result<(), Errno>) -> Result<File, DataDirectoryError> {
    let mut file = open_no_follow(path, OFlags::RDWR | OFlags::CREATE)?;
    match try_lock(&file) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK | Errno::ACCESS) => {
            let mut holder = String::new();
            let read = (&mut file).take(SMALL_FILE).read_to_string(&mut holder);
            let holder = match (read, holder.trim()) {
                (Ok(_), holder) if !holder.is_empty() => holder.to_owned(),
                _ => "it did not say who it is".to_owned(),
            };
            return Err(DataDirectoryError::InUse {
                path: path.to_path_buf(),
                holder,
            });
        }
        Err(errno) => {
            return Err(DataDirectoryError::LockUnsupported {
                path: path.to_path_buf(),
                errno: errno.into(),
            });
        }
    }
    // A stale line of a dead holder is replaced; on a full disk the lock is as good without the line.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let line = format!("process {} on {}\n", std::process::id(), host.trim());
    let _ = file
        .write_all_at(line.as_bytes(), 0)
        .and_then(|()| file.set_len(line.len() as u64));
    Ok(file)
}

/// Takes the lock that a Kafka broker would take on the log directory (its `FileLock`: a POSIX lock on `.lock`), so that
/// neither starts on it while the other runs. A disk too full for the empty file is no reason not to start.
fn lock_out_kafka(logs: &Path) -> Result<Option<File>, DataDirectoryError> {
    let path = logs.join(".lock");
    let file = match open_no_follow(&path, OFlags::RDWR | OFlags::CREATE) {
        Ok(file) => file,
        Err(DataDirectoryError::Io { cause, .. }) if is_full(&cause) => return Ok(None),
        Err(error) => return Err(error),
    };
    match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK | Errno::ACCESS) => Err(DataDirectoryError::InUse {
            path,
            holder: "a Kafka broker".to_owned(),
        }),
        Err(errno) => Err(DataDirectoryError::LockUnsupported {
            path,
            errno: errno.into(),
        }),
    }
}

/// Whether an engine, or a Kafka broker, has the directory's logs. Asked without taking the lock, so that whoever starts
/// at this moment is not turned away. Not for the process that has it: closing any handle of a file drops its POSIX locks.
pub fn is_in_use(root: &Path) -> bool {
    let Ok(file) = File::open(root.join("logs/.lock")) else {
        return false;
    };
    let question = rustix::process::Flock::from(rustix::process::FlockType::ReadLock);
    matches!(rustix::process::fcntl_getlk(&file, &question), Ok(Some(_)))
}

fn is_full(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn settle(root: &Path, found: Option<Identity>, claim: &Claim) -> Result<Identity, DataDirectoryError> {
    let Some(found) = found else {
        return Ok(Identity {
            format_version: FORMAT_VERSION,
            cluster_id: claim.cluster_id.clone().unwrap_or_else(random_id),
            node_id: claim.node_id,
            directory_id: random_id(),
        });
    };
    if found.format_version > FORMAT_VERSION {
        return Err(DataDirectoryError::Unreadable {
            path: root.join("identity.json"),
            reason: format!(
                "formatVersion is {}, this build knows up to {FORMAT_VERSION}",
                found.format_version
            ),
        });
    }
    match &claim.cluster_id {
        Some(configured) if *configured != found.cluster_id && !claim.adopt => {
            Err(DataDirectoryError::IdentityMismatch {
                path: root.to_path_buf(),
                found: found.cluster_id,
                configured: configured.clone(),
            })
        }
        configured => Ok(Identity {
            cluster_id: configured.clone().unwrap_or(found.cluster_id),
            node_id: claim.node_id,
            ..found
        }),
    }
}

fn read_identity(path: &Path) -> Result<Option<Identity>, DataDirectoryError> {
    let Some(text) = read_small(path)? else {
        return Ok(None);
    };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| DataDirectoryError::Unreadable {
            path: path.to_path_buf(),
            reason: error.to_string(),
        })
}

/// The identity of a log directory that Kafka wrote: `cluster.id` of its `meta.properties`.
fn identity_of_kafka(logs: &Path) -> Result<Option<Identity>, DataDirectoryError> {
    let path = logs.join("meta.properties");
    match fs::symlink_metadata(logs) {
        Ok(metadata) if metadata.is_symlink() => {
            return Err(DataDirectoryError::Link {
                path: logs.to_path_buf(),
            });
        }
        _ => {}
    }
    let Some(text) = read_small(&path)? else {
        return Ok(None);
    };
    let property = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    let unreadable = |reason: String| DataDirectoryError::Unreadable {
        path: path.clone(),
        reason,
    };
    let version = property("version").unwrap_or_else(|| "0".to_owned());
    if version != "0" && version != "1" {
        return Err(unreadable(format!(
            "version is {version}, this build knows 0 and 1"
        )));
    }
    let Some(cluster_id) = property("cluster.id") else {
        return Err(unreadable("it has no cluster.id".to_owned()));
    };
    let node_id = property("node.id").or_else(|| property("broker.id"));
    Ok(Some(Identity {
        format_version: FORMAT_VERSION,
        cluster_id,
        node_id: node_id.and_then(|text| text.parse().ok()).unwrap_or(0),
        directory_id: property("directory.id").unwrap_or_else(random_id),
    }))
}

fn write_identity(root: &Path, identity: &Identity) -> Result<(), DataDirectoryError> {
    let path = root.join("identity.json");
    let text = serde_json::to_string_pretty(identity).map_err(|error| failed(&path, error.into()))?;
    replace(&path, &format!("{text}\n"))
}

/// Writes `meta.properties` where it does not already say the same; Kafka refuses a directory whose `cluster.id` or
/// `node.id` is not its own.
fn write_meta_properties(logs: &Path, identity: &Identity) -> Result<(), DataDirectoryError> {
    let path = logs.join("meta.properties");
    let text = format!(
        "cluster.id={}\ndirectory.id={}\nnode.id={}\nversion=1\n",
        identity.cluster_id, identity.directory_id, identity.node_id
    );
    let same = |found: &str| {
        let mut found: Vec<&str> = found.lines().filter(|line| !line.starts_with('#')).collect();
        found.sort_unstable();
        found == text.lines().collect::<Vec<_>>()
    };
    match read_small(&path)? {
        Some(found) if same(&found) => Ok(()),
        _ => replace(&path, &text),
    }
}

/// Writes a temporary file, makes it durable and renames it into place, so that a crash leaves the old or the new one.
fn replace(path: &Path, text: &str) -> Result<(), DataDirectoryError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let mut file = open_no_follow(&temporary, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| match path.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        });
    written.map_err(|source| failed(path, source))
}

fn make_directory(path: &Path) -> Result<(), DataDirectoryError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => Err(DataDirectoryError::Link {
            path: path.to_path_buf(),
        }),
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(DataDirectoryError::Unreadable {
            path: path.to_path_buf(),
            reason: "it is not a directory".to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir(path).map_err(|source| failed(path, source))
        }
        Err(source) => Err(failed(path, source)),
    }
}

fn read_small(path: &Path) -> Result<Option<String>, DataDirectoryError> {
    let file = match open_no_follow(path, OFlags::RDONLY) {
        Ok(file) => file,
        Err(DataDirectoryError::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(SMALL_FILE)
        .read_to_string(&mut text)
        .map_err(|source| failed(path, source))?;
    Ok(Some(text))
}

fn open_no_follow(path: &Path, flags: OFlags) -> Result<File, DataDirectoryError> {
    let opened = rustix::fs::open(
        path,
        flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::from_raw_mode(0o640),
    );
    match opened {
        Ok(descriptor) => Ok(File::from(descriptor)),
        Err(Errno::LOOP) => Err(DataDirectoryError::Link {
            path: path.to_path_buf(),
        }),
        Err(errno) => Err(failed(path, errno.into())),
    }
}

/// Whether `path` can be written now, asked of the file system without writing.
pub fn is_writable(path: &Path) -> bool {
    rustix::fs::accessat(
        rustix::fs::CWD,
        path,
        rustix::fs::Access::WRITE_OK,
        AtFlags::EACCESS,
    )
    .is_ok()
        && rustix::fs::statvfs(path)
            .is_ok_and(|status| !status.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

fn failed(path: &Path, source: io::Error) -> DataDirectoryError {
    let path = path.to_path_buf();
    if source.kind() == io::ErrorKind::ReadOnlyFilesystem {
        return DataDirectoryError::ReadOnly { path };
    }
    DataDirectoryError::Io { path, cause: source }
}

#[cfg(test)]
#[path = "data_directory_tests.rs"]
mod tests;
