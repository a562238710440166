//! What can go wrong with a partition's files.
//!
//! Every message names the file. Two questions decide what the engine does with a failure and are answered here,
//! once: is the disk full (reads and retention go on), and is the file system read-only.
use std::io;
use std::path::{Path, PathBuf};

/// A failure of the log's storage.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The verb: "open", "write", "fsync" and so on.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file is readable but does not hold what its format demands.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it: field, value and bound.
        what: String,
    },
    /// A batch in a log file is damaged.
    #[error("{}: damaged batch at position {position}: {source}", path.display())]
    Damaged {
        /// The `.log` file.
        path: PathBuf,
        /// Byte position of the first bad batch.
        position: u64,
        /// What is wrong with it.
        source: crate::log::batch::BatchError,
    },
    /// An earlier failed write or fsync left it unknown what is on disk; the partition takes no more writes.
    #[error("{}: storage failed earlier and takes no more writes until it is opened anew: {what}", path.display())]
    Poisoned {
        /// The partition directory.
        path: PathBuf,
        /// The first failure.
        what: String,
    },
}

impl LogError {
    /// A file whose content breaks its format.
    pub fn malformed(path: &Path, what: impl Into<String>) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// What the operating system said, if it was asked at all.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Malformed { .. } | Self::Damaged { .. } | Self::Poisoned { .. } => None,
        }
    }

    /// No space or no quota is left (ENOSPC, EDQUOT).
    pub fn is_full_disk(&self) -> bool {
        let full = [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT];
        self.errno().is_some_and(|errno| full.contains(&errno))
    }

    /// The file system is mounted read-only (EROFS).
    pub fn is_read_only(&self) -> bool {
        self.errno() == Some(rustix::io::Errno::ROFS)
    }

    /// The file or directory is not there (ENOENT).
    pub fn is_not_found(&self) -> bool {
        self.io_error()
            .is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    fn errno(&self) -> Option<rustix::io::Errno> {
        self.io_error()
            .and_then(io::Error::raw_os_error)
            .map(rustix::io::Errno::from_raw_os_error)
    }
}

/// Puts the file's name and what was tried on an I/O error.
pub trait PathContext<T> {
    /// `action` is a verb that fits "cannot ACTION PATH".
    fn at(self, action: &'static str, path: &Path) -> Result<T, LogError>;
}

impl<T> PathContext<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, LogError> {
        self.map_err(|source| LogError::Io {
            action,
            path: path.to_owned(),
            source,
        })
    }
}

/// Why an append was refused. Each variant has exactly one Kafka error code; the wire room maps them.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// INVALID_RECORD: structure, counts, keys, control flags.
    #[error("{message}")]
    InvalidRecord {
        /// What is wrong with the batch as a whole.
        message: String,
        /// The offending records, if single ones are to blame; at most [`MAX_RECORD_ERRORS`].
        records: Vec<RecordError>,
    },
    /// INVALID_TIMESTAMP: a record too old, too far ahead, or a type bit the topic does not take.
    #[error("{message}")]
    InvalidTimestamp {
        /// What is wrong.
        message: String,
        /// The offending records; at most [`MAX_RECORD_ERRORS`].
        records: Vec<RecordError>,
    },
    /// CORRUPT_MESSAGE: checksum, length or framing.
    #[error("the batch is damaged: {0}")]
    CorruptMessage(String),
    /// MESSAGE_TOO_LARGE: a batch above `max.message.bytes`.
    #[error("the batch has {size} bytes, max.message.bytes allows {max}")]
    MessageTooLarge {
        /// Size of the batch in bytes, header included.
        size: i64,
        /// The bound.
        max: i64,
    },
    /// RECORD_LIST_TOO_LARGE: more bytes in one append than a segment may hold.
    #[error("the append has {size} bytes, segment.bytes allows {max}")]
    RecordListTooLarge {
        /// Size of the append in bytes.
        size: i64,
        /// The bound.
        max: i64,
    },
    /// UNSUPPORTED_COMPRESSION_TYPE: a codec this request version or topic does not take.
    #[error("compression type {0} is not supported here")]
    UnsupportedCompressionType(i16),
    /// OUT_OF_ORDER_SEQUENCE_NUMBER.
    #[error("producer {producer_id}: sequence {sequence} does not follow {last_sequence}")]
    OutOfOrderSequence {
        /// The producer's id.
        producer_id: i64,
        /// First sequence of the refused batch.
        sequence: i32,
        /// Last sequence known, -1 if none.
        last_sequence: i32,
    },
    /// INVALID_PRODUCER_EPOCH: an older instance of the producer.
    #[error("producer {producer_id}: epoch {epoch} is older than {current}")]
    InvalidProducerEpoch {
        /// The producer's id.
        producer_id: i64,
        /// Epoch of the refused batch.
        epoch: i16,
        /// The newest epoch seen.
        current: i16,
    },
    /// INVALID_TXN_STATE: transactional data without a transaction, or the other way round.
    #[error("producer {producer_id}: {message}")]
    InvalidTxnState {
        /// The producer's id.
        producer_id: i64,
        /// What does not fit.
        message: &'static str,
    },
    /// KAFKA_STORAGE_ERROR: the disk, not the request.
    #[error(transparent)]
    Storage(#[from] LogError),
}

impl AppendError {
    /// An INVALID_RECORD for the whole batch.
    pub fn invalid_record(message: impl Into<String>) -> Self {
        Self::InvalidRecord {
            message: message.into(),
            records: Vec::new(),
        }
    }
}

/// How many offending records one refusal names.
pub const MAX_RECORD_ERRORS: usize = 100;

/// One offending record of a refused batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordError {
    /// Place of the record in its batch, from 0.
    pub index: i32,
    /// What is wrong with it.
    pub message: String,
}
