//! Names of files and directories in a log directory, as Kafka writes them.
//!
//! Reading is strict where Kafka is (twenty ASCII digits make a base offset) and never guesses: a name that is
//! none of ours is `None`, and what has no name here is never touched.
use std::fmt;
use std::path::{Path, PathBuf};

/// Longest name of a directory entry, bytes.
const NAME_MAX: usize = 255;

/// Epochs of a partition's leaders.
pub const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
/// Topic id of a partition.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// Up to where each partition of a log directory is known to be on disk.
pub const RECOVERY_POINT_CHECKPOINT: &str = "recovery-point-offset-checkpoint";
/// Log start offsets that no file name implies.
pub const LOG_START_CHECKPOINT: &str = "log-start-offset-checkpoint";
/// High watermarks.
pub const HIGH_WATERMARK_CHECKPOINT: &str = "replication-offset-checkpoint";
/// First dirty offsets of compacted logs; read and kept, never written by us.
pub const CLEANER_CHECKPOINT: &str = "cleaner-offset-checkpoint";
/// Identity of a log directory.
pub const META_PROPERTIES: &str = "meta.properties";
/// Marker of a clean stop.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
/// Process lock of a log directory.
pub const LOCK: &str = ".lock";

/// The kinds of numbered files in a partition directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SegmentFile {
    /// `.log`: the batches.
    Log,
    /// `.index`: offset to position.
    OffsetIndex,
    /// `.timeindex`: timestamp to offset.
    TimeIndex,
    /// `.txnindex`: aborted transactions.
    TxnIndex,
    /// `.snapshot`: producers' state just before the offset in the name.
    Snapshot,
}

impl SegmentFile {
    /// Every kind, the log first.
    pub const ALL: [Self; 5] = [
        Self::Log,
        Self::OffsetIndex,
        Self::TimeIndex,
        Self::TxnIndex,
        Self::Snapshot,
    ];

    /// The extension, without its dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::OffsetIndex => "index",
            Self::TimeIndex => "timeindex",
            Self::TxnIndex => "txnindex",
            Self::Snapshot => "snapshot",
        }
    }

    fn from_extension(extension: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.extension() == extension)
    }
}

/// What a suffix after the ordinary name says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileState {
    /// No suffix.
    Live,
    /// `.deleted`: logically gone, the unlink is pending.
    Deleted,
    /// `.cleaned`: a replacement being written; not committed.
    Cleaned,
    /// `.swap`: a complete replacement; committed, renames pending.
    Swap,
}

impl FileState {
    /// The suffix with its dot; empty for a live file.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Live => "",
            Self::Deleted => ".deleted",
            Self::Cleaned => ".cleaned",
            Self::Swap => ".swap",
        }
    }
}

/// A numbered file's name, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentFileName {
    /// Base offset, or for a snapshot the offset it stands before. Never negative.
    pub offset: i64,
    /// Which of the segment's files.
    pub file: SegmentFile,
    /// Live, or on the way in or out.
    pub state: FileState,
}

impl SegmentFileName {
    /// A live file's name.
    pub const fn live(offset: i64, file: SegmentFile) -> Self {
        Self {
            offset,
            file,
            state: FileState::Live,
        }
    }

    /// Takes a name apart; `None` for anything that is not exactly such a name.
    pub fn parse(name: &str) -> Option<Self> {
        let (name, state) = [FileState::Deleted, FileState::Cleaned, FileState::Swap]
            .into_iter()
            .find_map(|state| name.strip_suffix(state.suffix()).map(|rest| (rest, state)))
            .unwrap_or((name, FileState::Live));
        let (digits, extension) = name.split_once('.')?;
        if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            offset: digits.parse().ok()?,
            file: SegmentFile::from_extension(extension)?,
            state,
        })
    }

    /// The file's path in `directory`.
    pub fn path(self, directory: &Path) -> PathBuf {
        directory.join(self.to_string())
    }
}

impl fmt::Display for SegmentFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (extension, suffix) = (self.file.extension(), self.state.suffix());
        write!(f, "{:020}.{extension}{suffix}", self.offset)
    }
}

/// Path of a live numbered file.
pub fn segment_path(directory: &Path, offset: i64, file: SegmentFile) -> PathBuf {
    SegmentFileName::live(offset, file).path(directory)
}

/// Why a partition directory carries a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DirectoryState {
    /// `topic-0`.
    Live,
    /// `topic-0.<32 hex>-delete`: deletion is pending.
    Deleted,
    /// `topic-0.<32 hex>-future`: a replica being moved here.
    Future,
    /// `topic-0.<32 hex>-stray`: a replica nobody asked for.
    Stray,
}

impl DirectoryState {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Live => "",
            Self::Deleted => "-delete",
            Self::Future => "-future",
            Self::Stray => "-stray",
        }
    }
}

/// A partition directory's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionDirectoryName {
    /// Topic; cut short in a long `-delete` or `-stray` name.
    pub topic: String,
    /// Partition, never negative.
    pub partition: i32,
    /// Live, or marked.
    pub state: DirectoryState,
}

impl PartitionDirectoryName {
    /// Takes a directory name apart; `None` for anything else (`lost+found`, `topic1999`, `topic-1999a`, `topic--1`).
    pub fn parse(name: &str) -> Option<Self> {
        let suffixed = [
            DirectoryState::Deleted,
            DirectoryState::Future,
            DirectoryState::Stray,
        ]
        .into_iter()
        .find(|state| name.ends_with(state.suffix()));
        let (stem, state) = match suffixed {
            Some(state) => {
                // Everything from the last dot on is the marker; the topic itself may hold dots.
                let (stem, marker) = name.rsplit_once('.')?;
                let unique = marker.strip_suffix(state.suffix())?;
                if unique.trim().is_empty() {
                    return None;
                }
                (stem, state)
            }
            None => (name, DirectoryState::Live),
        };
        let (topic, partition) = stem.rsplit_once('-')?;
        if topic.trim().is_empty() || partition.is_empty() || !partition.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            topic: topic.to_owned(),
            partition: partition.parse().ok()?,
            state,
        })
    }
}

/// `topic-partition`.
pub fn partition_directory(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition}")
}

/// Name of a partition directory whose deletion is pending: `topic-partition.<32 hex>-delete`, the topic cut so
/// that the name has at most 255 bytes. `unique` is 32 hexadecimal digits.
pub fn deleted_directory(topic: &str, partition: i32, unique: &str) -> String {
    marked_directory(topic, partition, unique, DirectoryState::Deleted)
}

/// Name of a directory put aside because nobody asked for it: `topic-partition.<32 hex>-stray`, cut likewise.
pub fn stray_directory(topic: &str, partition: i32, unique: &str) -> String {
    marked_directory(topic, partition, unique, DirectoryState::Stray)
}

fn marked_directory(topic: &str, partition: i32, unique: &str, state: DirectoryState) -> String {
    let tail = format!("-{partition}.{unique}{}", state.suffix());
    let mut room = NAME_MAX.saturating_sub(tail.len()).min(topic.len());
    while !topic.is_char_boundary(room) {
        room -= 1;
    }
    format!("{}{tail}", topic.get(..room).unwrap_or(topic))
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
