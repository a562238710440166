//! The one thread that writes the store.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use redb::{Database, Durability, ReadableTable};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::{Batch, Operation, Shared, StoreError, sound};

/// Operations after which a shared transaction is closed, so that nobody waits for an endless one.
const MOST_OPERATIONS: usize = 16_384;
/// Pages kept in memory; the working state of the engine lives elsewhere.
const CACHE_BYTES: usize = 4 << 20;
/// What is given back to a full disk so that one more change can be recorded.
const RESERVE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) enum Job {
    Write(Batch, Reply),
    Close,
}

#[derive(Debug)]
pub(super) enum Reply {
    Async(oneshot::Sender<Result<(), StoreError>>),
    Blocking(std::sync::mpsc::SyncSender<Result<(), StoreError>>),
}

impl Reply {
    fn send(self, result: Result<(), StoreError>) {
        // Whoever asked may have gone away; the write stands or fails without them.
        match self {
            Self::Async(sender) => drop(sender.send(result)),
            Self::Blocking(sender) => drop(sender.send(result)),
        }
    }
}

pub(super) fn run(shared: &Shared, mut jobs: UnboundedReceiver<Job>) {
    let mut closing = false;
    while !closing {
        let Some(first) = jobs.blocking_recv() else {
            break;
        };
        let mut batches = Vec::new();
        let mut replies = Vec::new();
        let mut operations = 0;
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match job {
                Job::Write(batch, reply) => {
                    operations += batch.0.len();
                    batches.push(batch);
                    replies.push(reply);
                }
                Job::Close => {
                    closing = true;
                    break;
                }
            }
            if operations < MOST_OPERATIONS {
                next = jobs.try_recv().ok();
            }
        }
        if batches.is_empty() {
            continue;
        }
        let result = commit_or_recover(shared, &batches);
        for reply in replies {
            reply.send(result.clone());
        }
    }
    jobs.close();
    // Dropping the database marks it cleanly closed, which spares the next start a walk over its pages.
    close(shared);
}

fn close(shared: &Shared) {
    let database = shared.database.write().take();
    let closed = sound(&shared.path, || {
        drop(database);
        Ok(())
    });
    if let Err(error) = closed {
        tracing::error!(%error, "the state store could not be closed in order");
    }
}

fn commit_or_recover(shared: &Shared, batches: &[Batch]) -> Result<(), StoreError> {
    ensure_open(shared)?;
    let first = commit(shared, batches);
    let Err(error) = first else {
        return Ok(());
    };
    // A failed write leaves the open file poisoned: it is opened again. What it holds then is the old state, or the new one where the
    // write failed late; written a second time it is the new one, and known to be.
    reopen(shared);
    let again = match error {
        StoreError::Full { .. } => give_up_reserve(&shared.path),
        StoreError::Io { .. } | StoreError::Unreadable { .. } => true,
        StoreError::ReadOnly { .. } | StoreError::Closed => false,
    };
    if !again {
        return Err(error);
    }
    ensure_open(shared)?;
    let second = commit(shared, batches);
    if second.is_err() {
        reopen(shared);
    }
    second
}

fn ensure_open(shared: &Shared) -> Result<(), StoreError> {
    if shared.database.read().is_some() {
        return Ok(());
    }
    let database = sound(&shared.path, || open(&shared.path))?;
    *shared.database.write() = Some(database);
    Ok(())
}

fn reopen(shared: &Shared) {
    close(shared);
    let mut database = shared.database.write();
    match sound(&shared.path, || open(&shared.path)) {
        Ok(opened) => *database = Some(opened),
        Err(error) => {
            tracing::error!(%error, "the state store could not be opened again; it is tried at the next write")
        }
    }
}

fn commit(shared: &Shared, batches: &[Batch]) -> Result<(), StoreError> {
    let database = shared.database.read();
    let Some(database) = database.as_ref() else {
        return Err(StoreError::Closed);
    };
    sound(&shared.path, || {
        transact(database, batches).map_err(|error| classify(&shared.path, error))
    })?;
    shared.transactions.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn transact(database: &Database, batches: &[Batch]) -> Result<(), redb::Error> {
    fail::fail_point!("store::before-commit");
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    for operation in batches.iter().flat_map(|batch| &batch.0) {
        match operation {
            Operation::Put { table, key, value } => {
                let mut table = transaction.open_table(table.definition())?;
                table.insert(key.as_slice(), value.as_slice())?;
            }
            Operation::Remove { table, key } => {
                let mut table = transaction.open_table(table.definition())?;
                table.remove(key.as_slice())?;
            }
            Operation::RemovePrefix { table, prefix } => {
                let mut table = transaction.open_table(table.definition())?;
                let mut doomed = Vec::new();
                for entry in table.range(prefix.as_slice()..)? {
                    let (key, _) = entry?;
                    if !key.value().starts_with(prefix) {
                        break;
                    }
                    doomed.push(key.value().to_vec());
                }
                for key in doomed {
                    table.remove(key.as_slice())?;
                }
            }
        }
    }
    transaction.commit()?;
    fail::fail_point!("store::after-commit");
    Ok(())
}

/// Opens the file, or creates it beside its place and moves it in, so that a crash leaves no half-made store.
pub(super) fn open(path: &Path) -> Result<Database, StoreError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            return builder.open(path).map_err(|error| classify_open(path, error));
        }
        Ok(_) => {
            return Err(StoreError::Unreadable {
                path: path.to_path_buf(),
                reason: "it is not a regular file".to_owned(),
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(classify_io(path, &error)),
    }
    let temporary = with_suffix(path, ".creating");
    let _ = fs::remove_file(&temporary);
    let created = builder
        .create(&temporary)
        .map_err(|error| classify_open(path, error));
    let closed = created.and_then(|database| {
        transact(&database, &[]).map_err(|error| classify(path, error))?;
        drop(database);
        let renamed = File::open(&temporary)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&temporary, path))
            .and_then(|()| match path.parent() {
                Some(parent) => File::open(parent)?.sync_all(),
                None => Ok(()),
            });
        renamed.map_err(|error| classify_io(path, &error))
    });
    if let Err(error) = closed {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    builder.open(path).map_err(|error| classify_open(path, error))
}

/// Fills the reserve beside the store, if it is not there and there is ample room.
pub(super) fn make_reserve(path: &Path) {
    let reserve = with_suffix(path, ".reserve");
    if reserve.exists() {
        return;
    }
    let ample = path
        .parent()
        .and_then(|parent| rustix::fs::statvfs(parent).ok())
        .is_some_and(|status| status.f_bavail.saturating_mul(status.f_frsize) > 16 * RESERVE_BYTES as u64);
    if !ample {
        return;
    }
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&reserve)
        .and_then(|mut file| {
            file.write_all(&vec![0; RESERVE_BYTES])
                .and_then(|()| file.sync_all())
        });
    if made.is_err() {
        let _ = fs::remove_file(&reserve);
    }
}

fn give_up_reserve(path: &Path) -> bool {
    fs::remove_file(with_suffix(path, ".reserve")).is_ok()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn classify_open(path: &Path, error: redb::DatabaseError) -> StoreError {
    match error {
        redb::DatabaseError::Storage(redb::StorageError::Io(error))
            if error.kind() == io::ErrorKind::InvalidData || error.kind() == io::ErrorKind::UnexpectedEof =>
        {
            StoreError::Unreadable {
                path: path.to_path_buf(),
                reason: error.to_string(),
            }
        }
        redb::DatabaseError::Storage(redb::StorageError::Corrupted(reason)) => StoreError::Unreadable {
            path: path.to_path_buf(),
            reason,
        },
        redb::DatabaseError::Storage(error) => classify(path, error.into()),
        other => StoreError::Unreadable {
            path: path.to_path_buf(),
            reason: other.to_string(),
        },
    }
}

fn classify(path: &Path, error: redb::Error) -> StoreError {
    match error {
        redb::Error::Io(error) => classify_io(path, &error),
        other => StoreError::Io {
            path: path.to_path_buf(),
            reason: other.to_string(),
        },
    }
}

fn classify_io(path: &Path, error: &io::Error) -> StoreError {
    let path = path.to_path_buf();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { path },
        io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path },
        _ => StoreError::Io {
            path,
            reason: error.to_string(),
        },
    }
}
