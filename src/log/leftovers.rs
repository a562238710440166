//! What a stop left lying in a partition directory, brought to an end before anything is opened.
//!
//! Kafka's `LogLoader`: `.deleted` files are unlinked, uncommitted replacements (`.cleaned`) too, committed ones (`.swap`) are put
//! in place, indexes without their log go. Names that are not ours are never touched, whatever they are; links are not followed.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::log::batch_file;
use crate::log::error::{LogError, PathContext};
use crate::log::files::{self, FileKind, Files, OpenMode, TEMPORARY};
use crate::log::names::{FileState, SegmentFile, SegmentFileName};

/// The live numbered files of a partition directory.
#[derive(Debug, Default)]
pub(crate) struct LiveFiles {
    names: BTreeSet<(SegmentFile, i64)>,
    /// Leftovers that were removed or put in place.
    pub tidied: usize,
}

impl LiveFiles {
    /// Whether this file is there.
    pub(crate) fn has(&self, file: SegmentFile, offset: i64) -> bool {
        self.names.contains(&(file, offset))
    }

    /// Numbers of all files of a kind, rising.
    pub(crate) fn of(&self, file: SegmentFile) -> Vec<i64> {
        let range = (file, i64::MIN)..=(file, i64::MAX);
        self.names.range(range).map(|(_, offset)| *offset).collect()
    }

    /// Takes a file out that was removed.
    pub(crate) fn forget(&mut self, file: SegmentFile, offset: i64) {
        self.names.remove(&(file, offset));
    }
}

/// Finishes what was left half-done in `directory` and lists what is live.
///
/// # Errors
/// The directory cannot be listed, a `.log` is no regular file, or a committed replacement cannot be put in place. Leftovers that
/// cannot be removed are no error (the file system may be read-only); they are reported and ignored.
pub(crate) fn tidy(files: &dyn Files, directory: &Path) -> Result<LiveFiles, LogError> {
    let mut live = LiveFiles::default();
    let mut swaps = Vec::new();
    let mut cleaned = Vec::new();
    for entry in files.list(directory).at("list", directory)? {
        let path = directory.join(&entry.name);
        if is_half_written(&entry.name) {
            live.tidied += remove(files, &path);
            continue;
        }
        let Some(name) = SegmentFileName::parse(&entry.name) else {
            continue;
        };
        if entry.kind != FileKind::File {
            if name.state == FileState::Live && name.file == SegmentFile::Log {
                return Err(LogError::malformed(&path, "it is not a regular file"));
            }
            continue;
        }
        match name.state {
            FileState::Live => {
                live.names.insert((name.file, name.offset));
            }
            FileState::Deleted => live.tidied += remove(files, &path),
            FileState::Cleaned => cleaned.push(name),
            FileState::Swap => swaps.push(name),
        }
    }
    // A replacement that was still being written when its neighbours were swapped makes the whole operation void.
    let void_from = cleaned.iter().map(|name| name.offset).min();
    let (void, committed): (Vec<_>, Vec<_>) = swaps
        .into_iter()
        .partition(|swap| void_from.is_some_and(|from| swap.offset >= from));
    for name in void.iter().chain(&cleaned) {
        live.tidied += remove(files, &name.path(directory));
    }
    put_in_place(files, directory, &committed, &mut live)?;
    remove_orphans(files, directory, &mut live);
    Ok(live)
}

/// A temporary file of ours (`<name>.tmp`) that a crash left.
fn is_half_written(name: &str) -> bool {
    name.strip_suffix(TEMPORARY)
        .and_then(SegmentFileName::parse)
        .is_some()
}

fn remove(files: &dyn Files, path: &Path) -> usize {
    match files::unlink_if_present(files, path) {
        Ok(removed) => usize::from(removed),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot remove a leftover");
            0
        }
    }
}

fn put_in_place(
    files: &dyn Files,
    directory: &Path,
    swaps: &[SegmentFileName],
    live: &mut LiveFiles,
) -> Result<(), LogError> {
    let logs: Vec<SegmentFileName> = swaps
        .iter()
        .copied()
        .filter(|name| name.file == SegmentFile::Log)
        .collect();
    if let Some(from) = logs.iter().map(|name| name.offset).min() {
        let mut to = from;
        for log in &logs {
            to = to.max(next_offset(files, &log.path(directory), log.offset)?);
        }
        let replaced: Vec<_> = live
            .names
            .iter()
            .copied()
            .filter(|(_, offset)| (from..to).contains(offset))
            .collect();
        for (file, offset) in replaced {
            live.tidied += remove(files, &SegmentFileName::live(offset, file).path(directory));
            live.forget(file, offset);
        }
    }
    // The log comes last: as long as its swap file is there, this is done again after a crash.
    let mut ordered = swaps.to_vec();
    ordered.sort_by_key(|name| name.file == SegmentFile::Log);
    for swap in ordered {
        let target = SegmentFileName::live(swap.offset, swap.file);
        let path: PathBuf = swap.path(directory);
        files.rename(&path, &target.path(directory)).at("rename", &path)?;
        live.names.insert((swap.file, swap.offset));
        live.tidied += 1;
    }
    Ok(())
}

fn next_offset(files: &dyn Files, path: &Path, base_offset: i64) -> Result<i64, LogError> {
    let file = files.open(path, OpenMode::Read).at("open", path)?;
    let len = file.info().at("look at", path)?.len;
    let last = batch_file::batches_in(file.as_ref(), 0, len)
        .map_while(Result::ok)
        .last();
    Ok(last.map_or(base_offset.saturating_add(1), |batch| batch.header.next_offset()))
}

fn remove_orphans(files: &dyn Files, directory: &Path, live: &mut LiveFiles) {
    for file in [
        SegmentFile::OffsetIndex,
        SegmentFile::TimeIndex,
        SegmentFile::TxnIndex,
    ] {
        for offset in live.of(file) {
            if !live.has(SegmentFile::Log, offset) {
                live.tidied += remove(files, &SegmentFileName::live(offset, file).path(directory));
                live.forget(file, offset);
            }
        }
    }
}
