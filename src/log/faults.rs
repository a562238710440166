//! A file system that fails on purpose, for tests.
//!
//! [`FaultyFiles`] wraps another [`Files`] and fails chosen calls: the n-th of a kind, every one of a kind, or all of them after a
//! crash. Calls are counted, so that a test can run a scenario once to see how many there are and then once per call. Nothing in
//! the engine uses this; it is public because tests outside the crate do.
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::log::files::{DirectoryEntry, FileHandle, FileInfo, Files, OpenMode};

/// The kinds of calls that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Opening a file that is there, or must be.
    Open,
    /// Opening a file that may be made.
    Create,
    /// A look at a path or handle.
    Metadata,
    /// A positional read.
    Read,
    /// A positional write, vectored or not.
    Write,
    /// Cutting or growing.
    SetLen,
    /// An fsync of a file, with or without metadata.
    Sync,
    /// Setting the modification time.
    SetModified,
    /// Listing a directory.
    List,
    /// Making a directory.
    CreateDir,
    /// Renaming.
    Rename,
    /// Removing a file or directory.
    Unlink,
    /// An fsync of a directory.
    SyncDir,
}

impl Operation {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Open,
        Self::Create,
        Self::Metadata,
        Self::Read,
        Self::Write,
        Self::SetLen,
        Self::Sync,
        Self::SetModified,
        Self::List,
        Self::CreateDir,
        Self::Rename,
        Self::Unlink,
        Self::SyncDir,
    ];

    /// Changes the file system (and so is refused on a read-only one).
    pub fn changes(self) -> bool {
        !matches!(self, Self::Open | Self::Metadata | Self::Read | Self::List)
    }

    /// Needs space (and so is refused on a full disk).
    pub fn needs_space(self) -> bool {
        matches!(self, Self::Create | Self::Write | Self::CreateDir)
    }
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// EIO; nothing is done.
    Eio,
    /// ENOSPC; nothing is done.
    Enospc,
    /// EINTR; nothing is done. To be retried by the caller.
    Eintr,
    /// EROFS; nothing is done.
    Erofs,
    /// Only so many bytes (at least 1) are read or written, without an error.
    Short(usize),
    /// So many bytes are written, then EIO.
    Torn(usize),
    /// So many bytes are written, then this and every later call fails with EIO: the process is as good as dead. What it did before
    /// is on disk.
    Crash(usize),
}

/// One call, or every call, that is to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind; `None` for any.
    pub operation: Option<Operation>,
    /// Only calls on paths that contain this; empty for any.
    pub path_contains: String,
    /// Which of the matching calls, from 0; `None` for every one.
    pub nth: Option<u64>,
    /// What happens to it.
    pub effect: Effect,
}

impl Fault {
    /// The `nth` call of a kind, from 0.
    pub fn nth(operation: Operation, nth: u64, effect: Effect) -> Self {
        Self {
            operation: Some(operation),
            path_contains: String::new(),
            nth: Some(nth),
            effect,
        }
    }

    /// Every call of a kind.
    pub fn every(operation: Operation, effect: Effect) -> Self {
        Self {
            operation: Some(operation),
            path_contains: String::new(),
            nth: None,
            effect,
        }
    }

    /// The `nth` call of any kind, from 0.
    pub fn any(nth: u64, effect: Effect) -> Self {
        Self {
            operation: None,
            path_contains: String::new(),
            nth: Some(nth),
            effect,
        }
    }

    /// The same for paths that contain `part` only.
    pub fn on(mut self, part: &str) -> Self {
        part.clone_into(&mut self.path_contains);
        self
    }
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<(Fault, u64)>,
    counts: std::collections::BTreeMap<Operation, u64>,
    hit: u64,
    crashed: bool,
    read_only: bool,
    full: bool,
}

impl State {
    fn decide(&mut self, operation: Operation, path: &Path) -> Option<Effect> {
        if self.crashed {
            return Some(Effect::Eio);
        }
        *self.counts.entry(operation).or_default() += 1;
        let mut effect = None;
        for (fault, seen) in &mut self.faults {
            let matches = fault.operation.is_none_or(|wanted| wanted == operation)
                && path.to_string_lossy().contains(&fault.path_contains);
            if matches {
                if fault.nth.is_none_or(|nth| nth == *seen) && effect.is_none() {
                    effect = Some(fault.effect);
                }
                *seen += 1;
            }
        }
        if effect.is_some() {
            self.hit += 1;
        } else if self.read_only && operation.changes() {
            effect = Some(Effect::Erofs);
        } else if self.full && operation.needs_space() {
            effect = Some(Effect::Enospc);
        }
        if matches!(effect, Some(Effect::Crash(_))) {
            self.crashed = true;
        }
        effect
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct FaultyFiles {
    inner: Arc<dyn Files>,
    state: Arc<Mutex<State>>,
}

impl FaultyFiles {
    /// Passes everything on to `inner` until told otherwise.
    pub fn new(inner: Arc<dyn Files>) -> Self {
        Self {
            inner,
            state: Arc::default(),
        }
    }

    /// Plans a fault; calls are counted for it from now on.
    pub fn inject(&self, fault: Fault) {
        self.state.lock().faults.push((fault, 0));
    }

    /// Forgets all planned faults, and a crash; the counters stay.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.faults.clear();
        state.crashed = false;
        state.read_only = false;
        state.full = false;
    }

    /// From now on (or no longer) every change fails with EROFS.
    pub fn set_read_only(&self, read_only: bool) {
        self.state.lock().read_only = read_only;
    }

    /// From now on (or no longer) whatever needs space fails with ENOSPC; renames, cuts and removals go on.
    pub fn set_full(&self, full: bool) {
        self.state.lock().full = full;
    }

    /// Whether a [`Effect::Crash`] has struck.
    pub fn is_crashed(&self) -> bool {
        self.state.lock().crashed
    }

    /// How many calls of a kind were made.
    pub fn count(&self, operation: Operation) -> u64 {
        self.state.lock().counts.get(&operation).copied().unwrap_or(0)
    }

    /// How many calls were made in all.
    pub fn total(&self) -> u64 {
        self.state.lock().counts.values().sum()
    }

    /// How many calls a planned fault has hit.
    pub fn hit(&self) -> u64 {
        self.state.lock().hit
    }

    /// Decides about a call that moves no bytes.
    fn pass(&self, operation: Operation, path: &Path) -> io::Result<()> {
        decide(&self.state, operation, path).map_or(Ok(()), |effect| match effect {
            Effect::Short(_) => Ok(()),
            effect => Err(error_of(effect)),
        })
    }
}

fn decide(state: &Mutex<State>, operation: Operation, path: &Path) -> Option<Effect> {
    state.lock().decide(operation, path)
}

fn error_of(effect: Effect) -> io::Error {
    let errno = match effect {
        Effect::Enospc => Errno::NOSPC,
        Effect::Eintr => Errno::INTR,
        Effect::Erofs => Errno::ROFS,
        Effect::Eio | Effect::Short(_) | Effect::Torn(_) | Effect::Crash(_) => Errno::IO,
    };
    errno.into()
}

impl Files for FaultyFiles {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        let operation = match mode {
            OpenMode::Read | OpenMode::ReadWrite => Operation::Open,
            OpenMode::OpenOrCreate => match self.inner.metadata(path) {
                Ok(_) => Operation::Open,
                Err(_) => Operation::Create,
            },
            OpenMode::CreateNew | OpenMode::Truncate => Operation::Create,
        };
        self.pass(operation, path)?;
        Ok(Arc::new(FaultyFile {
            inner: self.inner.open(path, mode)?,
            path: path.to_owned(),
            state: Arc::clone(&self.state),
        }))
    }

    fn metadata(&self, path: &Path) -> io::Result<FileInfo> {
        self.pass(Operation::Metadata, path)?;
        self.inner.metadata(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.pass(Operation::List, directory)?;
        self.inner.list(directory)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.pass(Operation::CreateDir, path)?;
        self.inner.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(Operation::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.pass(Operation::Unlink, path)?;
        self.inner.unlink(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.pass(Operation::Unlink, path)?;
        self.inner.remove_dir(path)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.pass(Operation::SyncDir, directory)?;
        self.inner.sync_dir(directory)
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn FileHandle>,
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

impl FaultyFile {
    fn pass(&self, operation: Operation) -> io::Result<()> {
        decide(&self.state, operation, &self.path).map_or(Ok(()), |effect| match effect {
            Effect::Short(_) => Ok(()),
            effect => Err(error_of(effect)),
        })
    }
}

impl FileHandle for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        match decide(&self.state, Operation::Read, &self.path) {
            None => self.inner.read_at(buffer, position),
            Some(Effect::Short(most)) => {
                let most = most.max(1).min(buffer.len());
                self.inner
                    .read_at(buffer.get_mut(..most).unwrap_or(&mut []), position)
            }
            Some(effect) => Err(error_of(effect)),
        }
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let some = |most: usize| bytes.get(..most.min(bytes.len())).unwrap_or(bytes);
        match decide(&self.state, Operation::Write, &self.path) {
            None => self.inner.write_at(bytes, position),
            Some(Effect::Short(most)) => self.inner.write_at(some(most.max(1)), position),
            Some(effect @ (Effect::Torn(most) | Effect::Crash(most))) => {
                self.inner.write_all_at(some(most), position)?;
                Err(error_of(effect))
            }
            Some(effect) => Err(error_of(effect)),
        }
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        // One decision for the whole call; the bytes are joined so that a tear can fall anywhere in them.
        let joined: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.write_at(&joined, position)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.pass(Operation::SetLen)?;
        self.inner.set_len(len)
    }

    fn info(&self) -> io::Result<FileInfo> {
        self.pass(Operation::Metadata)?;
        self.inner.info()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.pass(Operation::Sync)?;
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.pass(Operation::Sync)?;
        self.inner.sync_all()
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        self.pass(Operation::SetModified)?;
        self.inner.set_modified(modified_ms)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }
}
