//! All access to files and directories, behind one small trait.
//!
//! The log never calls `std::fs`: it is handed a [`Files`], so that a test can stand in one that fails, tears
//! or crashes at any call (see [`crate::log::faults`]). Two rules hold for every implementation:
//!
//! * A final path component that is a symbolic link is never followed, neither by an open nor by a look at
//!   metadata: whoever can plant a link in a data directory must not be able to point us elsewhere.
//! * Reads and writes are positional. There is no cursor, so handles are shared freely between threads.
//!
//! Positions and lengths are bytes as `u64`, as the operating system counts them; times are milliseconds since
//! 1970-01-01T00:00:00Z as `i64`.
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crate::log::error::{LogError, PathContext};
use crate::telemetry::clock::since_epoch_ms;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading only.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// Reading and writing; the file is made if it is missing, and kept as it is if not.
    OpenOrCreate,
    /// Reading and writing; it is an error (`AlreadyExists`) if the file is there.
    CreateNew,
    /// Reading and writing; made if missing, cut to zero bytes if not.
    Truncate,
}

/// What a directory entry is, without following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, a socket, a device: nothing of ours.
    Other,
}

/// Kind, length and modification time of a path or handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// What it is.
    pub kind: FileKind,
    /// Length in bytes.
    pub len: u64,
    /// Modification time in ms since the epoch.
    pub modified_ms: i64,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The entry's name. Names that are not UTF-8 are never ours and are left out of listings.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
}

/// Access to a file system.
pub trait Files: Debug + Send + Sync + 'static {
    /// Opens a file; never follows a link in the last component.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>>;

    /// Looks at a path without opening it; a link is [`FileKind::Other`].
    fn metadata(&self, path: &Path) -> io::Result<FileInfo>;

    /// The entries of a directory, sorted by name.
    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>>;

    /// Makes one directory; the parent must be there. `AlreadyExists` if the name is taken.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Gives a file or directory a new name, replacing a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;
}

/// An open file. All calls are positional and may be made from any thread.
pub trait FileHandle: Debug + Send + Sync + 'static {
    /// Reads up to `buffer.len()` bytes; 0 means the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes up to `bytes.len()` bytes; may write fewer.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;

    /// Writes the slices one after another as one call; may write fewer bytes.
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize>;

    /// Cuts or grows (sparse, with zeros) the file.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Kind, length and modification time.
    fn info(&self) -> io::Result<FileInfo>;

    /// Makes the content, and what of the metadata is needed to read it, durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes content and metadata durable.
    fn sync_all(&self) -> io::Result<()>;

    /// Sets the modification time, ms since the epoch.
    fn set_modified(&self, modified_ms: i64) -> io::Result<()>;

    /// The descriptor, for sending a range to a socket without copying; `None` if there is none to hand out.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

impl dyn FileHandle {
    /// Reads exactly `buffer.len()` bytes; `UnexpectedEof` if the file ends before that.
    pub fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
        let read = self.read_full_at(buffer, position)?;
        if read < buffer.len() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "wanted {} bytes at {position}, the file holds {read}",
                    buffer.len()
                ),
            ));
        }
        Ok(())
    }

    /// Reads until the buffer is full or the file ends, and says how much that was.
    pub fn read_full_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, position.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes all bytes, going on after short and interrupted writes.
    pub fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            match self.write_at(rest, position.saturating_add(done as u64)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all slices one after another, going on after short and interrupted writes. The slices are used up.
    pub fn write_all_vectored_at(&self, mut slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        let mut position = position;
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match self.write_vectored_at(slices, position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    position = position.saturating_add(written as u64);
                    IoSlice::advance_slices(&mut slices, written);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The machine's own file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskFiles;

impl DiskFiles {
    /// The machine's file system, ready to be shared.
    pub fn shared() -> Arc<dyn Files> {
        Arc::new(Self)
    }
}

impl Files for DiskFiles {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(NO_FOLLOW);
        match mode {
            OpenMode::Read => {}
            OpenMode::ReadWrite => {
                options.write(true);
            }
            OpenMode::OpenOrCreate => {
                options.write(true).create(true).truncate(false);
            }
            OpenMode::CreateNew => {
                options.write(true).create_new(true);
            }
            OpenMode::Truncate => {
                options.write(true).create(true).truncate(true);
            }
        }
        Ok(Arc::new(DiskFile(options.open(path)?)))
    }

    fn metadata(&self, path: &Path) -> io::Result<FileInfo> {
        std::fs::symlink_metadata(path).map(|metadata| file_info(&metadata))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            entries.push(DirectoryEntry {
                name,
                kind: file_kind(entry.file_type()?),
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }
}

/// Never follow a link, never block on a FIFO that someone left in our directory, never pass the descriptor on.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW
    .union(rustix::fs::OFlags::NONBLOCK)
    .union(rustix::fs::OFlags::CLOEXEC)
    .bits() as i32;

#[derive(Debug)]
struct DiskFile(File);

impl FileHandle for DiskFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.0.write_at(bytes, position)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        // The kernel takes 1024 slices (IOV_MAX) a call; the rest is a short write to the caller.
        let slices = slices.get(..slices.len().min(1024)).unwrap_or(slices);
        Ok(rustix::io::pwritev(&self.0, slices, position)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn info(&self) -> io::Result<FileInfo> {
        self.0.metadata().map(|metadata| file_info(&metadata))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        let offset = Duration::from_millis(modified_ms.unsigned_abs());
        let time = if modified_ms < 0 {
            UNIX_EPOCH.checked_sub(offset)
        } else {
            UNIX_EPOCH.checked_add(offset)
        };
        self.0.set_modified(time.ok_or(io::ErrorKind::InvalidInput)?)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

fn file_kind(kind: std::fs::FileType) -> FileKind {
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Directory
    } else {
        FileKind::Other
    }
}

fn file_info(metadata: &std::fs::Metadata) -> FileInfo {
    FileInfo {
        kind: file_kind(metadata.file_type()),
        len: metadata.len(),
        modified_ms: metadata.modified().map_or(0, since_epoch_ms),
    }
}

/// Reads a whole file of at most `limit` bytes; `None` if there is no such file.
///
/// # Errors
/// [`LogError::Malformed`] if the file is longer than `limit`, [`LogError::Io`] otherwise.
pub fn read_small(files: &dyn Files, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, LogError> {
    let handle = match files.open(path, OpenMode::Read) {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).at("open", path),
    };
    let info = handle.info().at("look at", path)?;
    if info.kind != FileKind::File {
        return Err(LogError::malformed(path, "it is not a regular file"));
    }
    if info.len > limit {
        let what = format!("it is {} bytes long, the limit is {limit}", info.len);
        return Err(LogError::malformed(path, what));
    }
    let mut content = vec![0; usize::try_from(info.len).unwrap_or(usize::MAX)];
    let read = handle.read_full_at(&mut content, 0).at("read", path)?;
    content.truncate(read);
    Ok(Some(content))
}

/// Replaces a file so that a crash leaves either the old content or the new, never a mixture: writes
/// `<path>.tmp`, fsyncs it, renames it over `path`, fsyncs the directory.
pub fn replace(files: &dyn Files, path: &Path, content: &[u8]) -> Result<(), LogError> {
    let temporary = with_suffix(path, TEMPORARY);
    let handle = files
        .open(&temporary, OpenMode::Truncate)
        .at("create", &temporary)?;
    handle.write_all_at(content, 0).at("write", &temporary)?;
    handle.sync_all().at("fsync", &temporary)?;
    drop(handle);
    files.rename(&temporary, path).at("rename", &temporary)?;
    sync_parent(files, path)
}

/// Fsyncs the directory that holds `path`.
pub fn sync_parent(files: &dyn Files, path: &Path) -> Result<(), LogError> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => {
            files.sync_dir(directory).at("fsync", directory)
        }
        _ => files.sync_dir(Path::new(".")).at("fsync", Path::new(".")),
    }
}

/// Removes a file; one that is not there counts as removed. Says whether it was there.
pub fn unlink_if_present(files: &dyn Files, path: &Path) -> Result<bool, LogError> {
    match files.unlink(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).at("remove", path),
    }
}

/// Suffix of a half-written replacement; a leftover of a crash is overwritten by the next one.
pub const TEMPORARY: &str = ".tmp";

/// `path` with `suffix` after its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
