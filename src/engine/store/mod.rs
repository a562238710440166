//! The state store: what the engine must remember and Kafka's own files do not.
//!
//! One embedded transactional file (redb) and one thread that writes it. A [`Batch`] is applied entirely or not at all;
//! batches that arrive while a transaction is being made durable share the next one, so that the cost of a flush is
//! paid once for many commits. [`Store::write`] returns only when the batch is on stable storage.
//!
//! Retention and start-up never wait for this file to grow. Opening needs no new bytes, a write on a full disk fails
//! with [`StoreError::Full`] and leaves the old state, and a small reserve file beside the store is given up once so that the
//! very change that frees the disk can still be recorded.
mod tables;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use redb::{Database, ReadableDatabase, ReadableTable};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

pub use tables::Table;
use writer::{Job, Reply};

/// One change of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Inserts or replaces an entry.
    Put {
        /// The table.
        table: Table,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Removes an entry if it is there.
    Remove {
        /// The table.
        table: Table,
        /// The key.
        key: Vec<u8>,
    },
    /// Removes every entry whose key begins with `prefix`.
    RemovePrefix {
        /// The table.
        table: Table,
        /// The first bytes of the keys.
        prefix: Vec<u8>,
    },
}

/// Changes that are made together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch(pub Vec<Operation>);

impl Batch {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an insertion or replacement.
    pub fn put(&mut self, table: Table, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut Self {
        self.0.push(Operation::Put {
            table,
            key: key.into(),
            value: value.into(),
        });
        self
    }

    /// Adds a removal.
    pub fn remove(&mut self, table: Table, key: impl Into<Vec<u8>>) -> &mut Self {
        self.0.push(Operation::Remove {
            table,
            key: key.into(),
        });
        self
    }

    /// Adds the removal of every key that begins with `prefix`.
    pub fn remove_prefix(&mut self, table: Table, prefix: impl Into<Vec<u8>>) -> &mut Self {
        self.0.push(Operation::RemovePrefix {
            table,
            prefix: prefix.into(),
        });
        self
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why the store could not do what it was asked. After any of these the old state stands, but for a write that a disk failed late in: that
/// one may stand as well, and [`Store::get`] tells.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No space left, not even the reserve.
    #[error("the state store {path} cannot be written: the disk is full")]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// The file system is read-only.
    #[error("the state store {path} cannot be written: the file system is read-only")]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
    },
    /// A failed call.
    #[error("the state store {path}: {reason}")]
    Io {
        /// The store's file.
        path: PathBuf,
        /// The failure.
        reason: String,
    },
    /// The file is there and is not a store, or a damaged one. It is left as it is.
    #[error("the state store {path} cannot be read: {reason}; it was left as it is")]
    Unreadable {
        /// The store's file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The engine is stopping.
    #[error("the state store is closed")]
    Closed,
}

impl StoreError {
    /// The same as an I/O error, for callers that tell a full disk from a read-only one by the operating system's code.
    pub fn to_io_error(&self) -> std::io::Error {
        match self {
            Self::Full { .. } => rustix::io::Errno::NOSPC.into(),
            Self::ReadOnly { .. } => rustix::io::Errno::ROFS.into(),
            Self::Io { .. } | Self::Unreadable { .. } | Self::Closed => {
                std::io::Error::other(self.to_string())
            }
        }
    }
}

/// Key and value of one entry.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A handle on the store; clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<Shared>,
    jobs: UnboundedSender<Job>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// `None` while the file could not be opened after a fault, or could not be created on a full disk.
    database: RwLock<Option<Database>>,
    writer: parking_lot::Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Transactions made durable so far.
    transactions: AtomicU64,
}

impl Store {
    /// Opens the store, creating it if it is not there.
    ///
    /// On a disk too full to create it the store is empty and answers every write with [`StoreError::Full`] until there is
    /// room: an engine whose disk is full must come up so that retention can free it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let database = match sound(path, || writer::open(path)) {
            Ok(database) => Some(database),
            Err(StoreError::Full { .. }) if !path.exists() => None,
            Err(error) => return Err(error),
        };
        writer::make_reserve(path);
        let shared = Arc::new(Shared {
            path: path.to_path_buf(),
            database: RwLock::new(database),
            writer: parking_lot::Mutex::new(None),
            transactions: AtomicU64::new(0),
        });
        let (jobs, receiver) = tokio::sync::mpsc::unbounded_channel();
        let writer = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("state-store".to_owned())
                .spawn(move || writer::run(&shared, receiver))
                .map_err(|error| StoreError::Io {
                    path: path.to_path_buf(),
                    reason: error.to_string(),
                })?
        };
        *shared.writer.lock() = Some(writer);
        Ok(Self { shared, jobs })
    }

    /// Applies `batch` and returns when it is on stable storage.
    pub async fn write(&self, batch: Batch) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        self.jobs
            .send(Job::Write(batch, Reply::Async(sender)))
            .map_err(|_| StoreError::Closed)?;
        receiver.await.map_err(|_| StoreError::Closed)?
    }

    /// [`Self::write`] for a thread that may block.
    pub fn write_blocking(&self, batch: Batch) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.jobs
            .send(Job::Write(batch, Reply::Blocking(sender)))
            .map_err(|_| StoreError::Closed)?;
        receiver.recv().map_err(|_| StoreError::Closed)?
    }

    /// How many transactions were made durable since the store was opened; each costs one flush of the disk, whatever it holds.
    pub fn transactions(&self) -> u64 {
        self.shared.transactions.load(Ordering::Relaxed)
    }

    /// The value of one key.
    pub fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.with_table(table, |table| {
            Ok(table.get(key)?.map(|value| value.value().to_vec()))
        })
        .map(Option::flatten)
    }

    /// Every entry of a table, in the order of its keys.
    pub fn scan(&self, table: Table) -> Result<Vec<Entry>, StoreError> {
        let entries = self.with_table(table, |table| {
            table
                .iter()?
                .map(|entry| entry.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())))
                .collect()
        })?;
        Ok(entries.unwrap_or_default())
    }

    /// Writes out what is queued and closes the file. Later calls answer [`StoreError::Closed`].
    pub fn close(&self) {
        let _ = self.jobs.send(Job::Close);
        if let Some(writer) = self.shared.writer.lock().take() {
            let _ = writer.join();
        }
    }

    /// Puts the reserve back if it was given up and there is room for it again.
    pub fn restore_reserve(&self) {
        writer::make_reserve(&self.shared.path);
    }

    /// Nothing is written as long as this is held.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.shared.database.write()
    }

    fn with_table<T>(
        &self,
        table: Table,
        read: impl FnOnce(&redb::ReadOnlyTable<&'static [u8], &'static [u8]>) -> Result<T, redb::StorageError>,
    ) -> Result<Option<T>, StoreError> {
        let failed = |reason: String| StoreError::Io {
            path: self.shared.path.clone(),
            reason,
        };
        let database = self.shared.database.read();
        let Some(database) = database.as_ref() else {
            // One that is there and not open holds what nobody can see now.
            return match self.shared.path.exists() {
                true => Err(failed("it is not open after a fault".to_owned())),
                false => Ok(None),
            };
        };
        sound(&self.shared.path, || {
            let transaction = database.begin_read().map_err(|error| failed(error.to_string()))?;
            match transaction.open_table(table.definition()) {
                Ok(table) => read(&table).map(Some).map_err(|error| failed(error.to_string())),
                Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
                Err(error) => Err(failed(error.to_string())),
            }
        })
    }
}

/// Runs what touches the file. redb panics where a page holds what it never wrote; damage is a refusal here, in words.
fn sound<T>(path: &Path, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        Err(StoreError::Unreadable {
            path: path.to_path_buf(),
            reason: format!("the file is damaged ({reason})"),
        })
    })
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
