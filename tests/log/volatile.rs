//! A file system in memory that a power loss can strike.
//!
//! It keeps two versions of everything: what programs see, and what an fsync has made durable. A power loss throws the first away and makes the
//! second up from the rules that a disk goes by: of bytes that were not synced each sector is there or not (zeros where the file was shorter), the
//! length lies anywhere between the two, and of the changes to a directory that were not synced some first part has happened.
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tidemark::log::files::{DirectoryEntry, FileHandle, FileInfo, FileKind, Files, OpenMode};

use crate::kill::Random;

/// Bytes that reach the disk together.
const SECTOR: usize = 64;

#[derive(Debug, Clone, Default)]
struct Inode {
    seen: Vec<u8>,
    durable: Vec<u8>,
    modified_ms: i64,
}

#[derive(Debug, Clone)]
enum Change {
    Link(String, usize),
    Unlink(String),
    Rename(String, String),
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Link(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Unlink(name) => {
                names.remove(name);
            }
            Self::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Directory {
    seen: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    pending: Vec<Change>,
}

impl Directory {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.pending.push(change);
    }
}

#[derive(Debug, Default)]
struct Disk {
    inodes: Vec<Inode>,
    directories: BTreeMap<PathBuf, Directory>,
    /// Counts power losses; a handle of an earlier life is dead.
    life: u64,
    now_ms: i64,
}

/// See the module. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct VolatileFiles(Arc<Mutex<Disk>>);

impl VolatileFiles {
    /// An empty disk with these directories on it, durably.
    pub fn with_directories(directories: &[&Path]) -> Self {
        let files = Self::default();
        let mut disk = files.0.lock();
        for directory in directories {
            disk.directories
                .insert((*directory).to_owned(), Directory::default());
        }
        drop(disk);
        files
    }

    /// The lights go out, and on again.
    pub fn lose_power(&self, random: &mut Random) {
        let mut disk = self.0.lock();
        disk.life += 1;
        // How unlucky: nothing lost, everything lost, or a mixture.
        let luck = random.below(4);
        for inode in &mut disk.inodes {
            let survived = match luck {
                0 => inode.seen.clone(),
                1 => inode.durable.clone(),
                _ => mixture(inode, random),
            };
            inode.seen.clone_from(&survived);
            inode.durable = survived;
        }
        for directory in disk.directories.values_mut() {
            let happened = match luck {
                0 => directory.pending.len(),
                1 => 0,
                _ => random.below(directory.pending.len() as u64 + 1) as usize,
            };
            let pending = std::mem::take(&mut directory.pending);
            pending[..happened]
                .iter()
                .for_each(|change| change.apply(&mut directory.durable));
            directory.seen.clone_from(&directory.durable);
        }
    }
}

fn mixture(inode: &Inode, random: &mut Random) -> Vec<u8> {
    let (short, long) = (
        inode.seen.len().min(inode.durable.len()),
        inode.seen.len().max(inode.durable.len()),
    );
    let len = short + random.below((long - short) as u64 + 1) as usize;
    let mut survived = vec![0; len];
    for (sector, target) in survived.chunks_mut(SECTOR).enumerate() {
        let from = if random.below(2) == 0 {
            &inode.seen
        } else {
            &inode.durable
        };
        let at = (sector * SECTOR).min(from.len());
        let there = &from[at..(at + target.len()).min(from.len())];
        target[..there.len()].copy_from_slice(there);
    }
    survived
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk {
    fn directory(&mut self, path: &Path) -> io::Result<(&mut Directory, String)> {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let directory = self.directories.get_mut(parent).ok_or_else(not_found)?;
        Ok((directory, name.to_owned()))
    }

    fn info(&self, inode: usize) -> FileInfo {
        let inode = &self.inodes[inode];
        FileInfo {
            kind: FileKind::File,
            len: inode.seen.len() as u64,
            modified_ms: inode.modified_ms,
        }
    }
}

impl Files for VolatileFiles {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        let mut disk = self.0.lock();
        let fresh = disk.inodes.len();
        let (directory, name) = disk.directory(path)?;
        let inode = match (directory.seen.get(&name).copied(), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(inode), _) => inode,
            (None, OpenMode::Read | OpenMode::ReadWrite) => return Err(not_found()),
            (None, _) => {
                directory.change(Change::Link(name, fresh));
                disk.inodes.push(Inode::default());
                fresh
            }
        };
        if mode == OpenMode::Truncate {
            disk.inodes[inode].seen.clear();
        }
        let life = disk.life;
        drop(disk);
        Ok(Arc::new(VolatileFile {
            disk: self.clone(),
            inode,
            life,
        }))
    }

    fn metadata(&self, path: &Path) -> io::Result<FileInfo> {
        let mut disk = self.0.lock();
        if disk.directories.contains_key(path) {
            return Ok(FileInfo {
                kind: FileKind::Directory,
                len: 0,
                modified_ms: 0,
            });
        }
        let (directory, name) = disk.directory(path)?;
        let inode = directory.seen.get(&name).copied().ok_or_else(not_found)?;
        Ok(disk.info(inode))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let disk = self.0.lock();
        let names = &disk.directories.get(directory).ok_or_else(not_found)?.seen;
        let entry = |name: &String| DirectoryEntry {
            name: name.clone(),
            kind: FileKind::File,
        };
        Ok(names.keys().map(entry).collect())
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        assert_eq!(from.parent(), to.parent(), "renames stay in their directory");
        let mut disk = self.0.lock();
        let (_, to) = disk.directory(to)?;
        let (directory, from) = disk.directory(from)?;
        if !directory.seen.contains_key(&from) {
            return Err(not_found());
        }
        directory.change(Change::Rename(from, to));
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        let (directory, name) = disk.directory(path)?;
        if !directory.seen.contains_key(&name) {
            return Err(not_found());
        }
        directory.change(Change::Unlink(name));
        Ok(())
    }

    fn remove_dir(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        let directory = disk.directories.get_mut(directory).ok_or_else(not_found)?;
        directory.pending.clear();
        directory.durable.clone_from(&directory.seen);
        Ok(())
    }
}

#[derive(Debug)]
struct VolatileFile {
    disk: VolatileFiles,
    inode: usize,
    life: u64,
}

impl VolatileFile {
    fn on<T>(&self, act: impl FnOnce(&mut Inode) -> T) -> io::Result<T> {
        let mut disk = self.disk.0.lock();
        if disk.life != self.life {
            return Err(io::Error::from_raw_os_error(5));
        }
        disk.now_ms += 1;
        Ok(act(&mut disk.inodes[self.inode]))
    }
}

impl FileHandle for VolatileFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.on(|inode| {
            let from = (position as usize).min(inode.seen.len());
            let there = &inode.seen[from..(from + buffer.len()).min(inode.seen.len())];
            buffer[..there.len()].copy_from_slice(there);
            there.len()
        })
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.on(|inode| {
            let end = position as usize + bytes.len();
            if inode.seen.len() < end {
                inode.seen.resize(end, 0);
            }
            inode.seen[position as usize..end].copy_from_slice(bytes);
            bytes.len()
        })
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let joined: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.write_at(&joined, position)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.on(|inode| inode.seen.resize(len as usize, 0))
    }

    fn info(&self) -> io::Result<FileInfo> {
        self.on(|_| ())?;
        Ok(self.disk.0.lock().info(self.inode))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.on(|inode| inode.durable.clone_from(&inode.seen))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        self.on(|inode| inode.modified_ms = modified_ms)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
