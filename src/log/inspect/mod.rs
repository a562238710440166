//! Looking at partition directories without changing them.
//!
//! For any directory in Kafka's format, whoever wrote it: what lies in it, whether it is sound, and what a retention pass with
//! given settings would delete and why. Nothing is opened for writing, no index is trusted: offsets and timestamps come from
//! the batch headers themselves, and the indexes are held against them. The directory may be in use meanwhile.
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::log::error::{LogError, PathContext};
use crate::log::files::{FileKind, Files};
use crate::log::names::{DirectoryState, PartitionDirectoryName, SegmentFile, SegmentFileName};

pub mod indexes;
pub mod partition;
pub mod plan;
pub mod segment;
pub mod text;

pub use partition::PartitionReport;
pub use segment::SegmentReport;

/// How closely to look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// List every batch.
    pub batches: bool,
    /// Read everything and check every checksum.
    pub verify: bool,
    /// Wall time, ms since the epoch, that a plan will be made for: what lies ahead of it is of the future.
    pub now_ms: i64,
}

/// What lies under a directory.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The directory that was asked for.
    pub directory: String,
    /// Its partitions, by topic and number.
    pub partitions: Vec<PartitionReport>,
    /// Partition directories that are marked as deleted, stray or being moved; they are named, not looked into.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marked: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong with any partition.
    pub fn is_sound(&self) -> bool {
        self.partitions.iter().all(PartitionReport::is_sound)
    }
}

/// Looks at one partition directory, at a log directory of many, or at a data directory with a `logs` directory in it.
///
/// # Errors
/// If the directory cannot be read, or holds nothing of the kind. What is wrong with a partition is in its report instead.
pub fn inspect(files: &dyn Files, directory: &Path, depth: Depth) -> Result<Report, LogError> {
    let (paths, marked) = find_partitions(files, directory)?;
    let mut partitions = Vec::with_capacity(paths.len());
    for path in paths {
        partitions.push(partition::inspect(files, &path, depth)?);
    }
    partitions.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    Ok(Report {
        directory: directory.display().to_string(),
        partitions,
        marked,
    })
}

/// KRaft's own log lies among the partitions of a Kafka log directory and is none of them.
const CLUSTER_METADATA: &str = "__cluster_metadata";

fn find_partitions(files: &dyn Files, directory: &Path) -> Result<(Vec<PathBuf>, Vec<String>), LogError> {
    let entries = files.list(directory).at("list", directory)?;
    let is_log = |name: &str| SegmentFileName::parse(name).is_some_and(|name| name.file == SegmentFile::Log);
    if entries
        .iter()
        .any(|entry| entry.kind == FileKind::File && is_log(&entry.name))
    {
        return Ok((vec![directory.to_owned()], Vec::new()));
    }
    let (mut paths, mut marked, mut logs) = (Vec::new(), Vec::new(), None);
    for entry in entries.iter().filter(|entry| entry.kind == FileKind::Directory) {
        match PartitionDirectoryName::parse(&entry.name) {
            Some(name) if name.topic == CLUSTER_METADATA => {}
            Some(name) if name.state == DirectoryState::Live => paths.push(directory.join(&entry.name)),
            Some(_) => marked.push(entry.name.clone()),
            None if entry.name == "logs" => logs = Some(directory.join(&entry.name)),
            None => {}
        }
    }
    match logs {
        _ if !paths.is_empty() || !marked.is_empty() => Ok((paths, marked)),
        Some(logs) => find_partitions(files, &logs),
        None => Err(LogError::malformed(
            directory,
            "it is no partition directory (no .log file) and holds none (no TOPIC-NUMBER directory)",
        )),
    }
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;
