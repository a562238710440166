//! One partition directory, looked at without changing it.
use std::path::Path;

use serde::Serialize;

use crate::log::checkpoints;
use crate::log::damage;
use crate::log::error::{LogError, PathContext};
use crate::log::files::{FileKind, Files};
use crate::log::inspect::Depth;
use crate::log::inspect::plan::{PlanReport, plan_report};
use crate::log::inspect::segment::{self, SegmentReport};
use crate::log::leader_epochs::LeaderEpochs;
use crate::log::names::{self, FileState, PartitionDirectoryName, SegmentFile, SegmentFileName};
use crate::resource::settings::TopicSettings;

/// What lies in a partition directory. Offsets, bytes, and ms since the epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionReport {
    /// Where it is.
    pub directory: String,
    /// Topic, if the directory's name tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Partition, if the directory's name tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// Topic id in Kafka's text form, if there is a `partition.metadata`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<String>,
    /// Log start offset: the first base, or what the checkpoint says if that is above.
    pub log_start: i64,
    /// The offset after the last record.
    pub log_end: i64,
    /// Up to where the last process knew the log to be on disk, if a checkpoint says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_point: Option<i64>,
    /// Whether the log directory carries the marker of a clean stop.
    pub clean_shutdown: bool,
    /// Bytes of all `.log` files that are live.
    pub size_bytes: u64,
    /// Epochs and where they began, oldest first.
    pub leader_epochs: Vec<EpochReport>,
    /// Its segments, oldest first.
    pub segments: Vec<SegmentReport>,
    /// Files that are on their way out or in: `.deleted`, `.cleaned`, `.swap`, `.tmp`, and side files without a segment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
    /// Entries that are none of a partition's; they are never touched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<String>,
    /// What is wrong with it, beside what its segments say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What a retention pass would do, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanReport>,
}

/// A leader epoch and the offset of its first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EpochReport {
    /// The epoch.
    pub epoch: i32,
    /// Where it begins.
    pub start_offset: i64,
}

impl PartitionReport {
    /// Whether nothing is wrong with it or its segments.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty() && self.segments.iter().all(|segment| segment.problems.is_empty())
    }

    /// What a retention pass at `now_ms` under `settings` would do to it.
    pub fn planned(&self, settings: &TopicSettings, now_ms: i64) -> PlanReport {
        plan_report(&self.segments, self.log_start..self.log_end, settings, now_ms)
    }
}

/// Looks at one partition directory.
///
/// # Errors
/// Only if something cannot be read; what is wrong with its content is in the report.
pub fn inspect(files: &dyn Files, directory: &Path, depth: Depth) -> Result<PartitionReport, LogError> {
    // The path as given may end in "." or a link; the name is that of what it leads to.
    let real = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let name = real
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(PartitionDirectoryName::parse);
    let (topic, partition) = name.map(|name| (name.topic, name.partition)).unzip();
    let entries = Entries::read(files, directory)?;
    let mut problems = Vec::new();

    let mut segments = Vec::with_capacity(entries.bases.len());
    for base_offset in &entries.bases {
        let active = entries.bases.last() == Some(base_offset);
        segments.push(segment::inspect(files, directory, *base_offset, active, depth)?);
    }
    for pair in segments.windows(2) {
        if let [one, next] = pair
            && one.next_offset > next.base_offset
        {
            problems.push(format!(
                "segment {} reaches to offset {}, into segment {}",
                one.base_offset, one.next_offset, next.base_offset
            ));
        }
    }

    let mut tolerated = |what: &str, error: LogError| match error {
        LogError::Malformed { .. } => {
            problems.push(format!("{what}: {error}"));
            Ok(())
        }
        error => Err(error),
    };
    let epochs = match LeaderEpochs::load(files, &directory.join(names::LEADER_EPOCH_CHECKPOINT)) {
        Ok(epochs) => epochs,
        Err(error) => tolerated("leader epochs", error).map(|()| LeaderEpochs::default())?,
    };
    let topic_id = match checkpoints::read_topic_id(files, &directory.join(names::PARTITION_METADATA)) {
        Ok(id) => id.map(checkpoints::format_id),
        Err(error) => tolerated("topic id", error).map(|()| None)?,
    };
    let parent = real.parent().unwrap_or(Path::new("/"));
    let mut checkpointed = |file: &str| {
        let (Some(topic), Some(partition)) = (&topic, partition) else {
            return Ok(None);
        };
        match checkpoints::read_offsets(files, &parent.join(file)) {
            Ok(offsets) => Ok(offsets.get(&(topic.clone(), partition)).copied()),
            Err(error) => tolerated("checkpoint", error).map(|()| None),
        }
    };
    let start_checkpoint = checkpointed(names::LOG_START_CHECKPOINT)?;
    let recovery_point = checkpointed(names::RECOVERY_POINT_CHECKPOINT)?;

    let first_base = segments.first().map_or(0, |segment| segment.base_offset);
    let log_start = start_checkpoint.map_or(first_base, |start| start.max(first_base));
    let log_end = segments.last().map_or(log_start, |segment| segment.next_offset);
    if log_start > log_end {
        problems.push(format!(
            "log start {log_start} of the checkpoint lies above the log end {log_end}"
        ));
    }
    let epoch = |entry: &crate::log::leader_epochs::EpochStart| EpochReport {
        epoch: entry.epoch,
        start_offset: entry.start_offset,
    };
    Ok(PartitionReport {
        directory: directory.display().to_string(),
        topic,
        partition,
        topic_id,
        log_start,
        log_end: log_end.max(log_start),
        recovery_point,
        clean_shutdown: files.metadata(&parent.join(names::CLEAN_SHUTDOWN)).is_ok(),
        size_bytes: segments.iter().map(|segment| segment.size_bytes).sum(),
        leader_epochs: epochs.entries().iter().map(epoch).collect(),
        segments,
        leftovers: entries.leftovers,
        foreign: entries.foreign,
        problems,
        plan: None,
    })
}

/// The directory's entries, sorted out.
struct Entries {
    bases: Vec<i64>,
    leftovers: Vec<String>,
    foreign: Vec<String>,
}

impl Entries {
    fn read(files: &dyn Files, directory: &Path) -> Result<Self, LogError> {
        let listed = files.list(directory).at("list", directory)?;
        let (mut bases, mut side_files, mut leftovers, mut foreign) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for entry in listed {
            let parsed = SegmentFileName::parse(&entry.name).filter(|_| entry.kind == FileKind::File);
            match parsed {
                Some(name) if name.state != FileState::Live => leftovers.push(entry.name),
                Some(name) if name.file == SegmentFile::Log => bases.push(name.offset),
                // A snapshot may also stand at the log end.
                Some(name) if name.file == SegmentFile::Snapshot => {}
                Some(name) => side_files.push((name.offset, entry.name)),
                None if [
                    names::LEADER_EPOCH_CHECKPOINT,
                    names::PARTITION_METADATA,
                    damage::DAMAGED_RANGES,
                ]
                .contains(&entry.name.as_str()) => {}
                None if entry.name.ends_with(crate::log::files::TEMPORARY) => leftovers.push(entry.name),
                None => foreign.push(entry.name),
            }
        }
        bases.sort_unstable();
        let orphans = side_files
            .into_iter()
            .filter(|(offset, _)| bases.binary_search(offset).is_err());
        leftovers.extend(orphans.map(|(_, name)| name));
        Ok(Self {
            bases,
            leftovers,
            foreign,
        })
    }
}
