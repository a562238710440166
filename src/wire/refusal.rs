//! From what the log says to what a client is told: one exhaustive match per error of the rooms below.
use crate::log::error::{AppendError, LogError};
use crate::log::read::ReadError;
use crate::wire::broker::Refusal;
use crate::wire::error_code::ErrorCode;

/// The code of a failure of storage.
pub const fn storage_code(_error: &LogError) -> ErrorCode {
    // Retriable for every client: the partition may be whole again after a restart or once the disk has room.
    ErrorCode::KafkaStorageError
}

/// The code of a refused append.
pub const fn append_code(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::InvalidRecord { .. } => ErrorCode::InvalidRecord,
        AppendError::InvalidTimestamp { .. } => ErrorCode::InvalidTimestamp,
        AppendError::CorruptMessage(_) => ErrorCode::CorruptMessage,
        AppendError::MessageTooLarge { .. } => ErrorCode::MessageTooLarge,
        AppendError::RecordListTooLarge { .. } => ErrorCode::RecordListTooLarge,
        AppendError::UnsupportedCompressionType(_) => ErrorCode::UnsupportedCompressionType,
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        AppendError::InvalidTxnState { .. } => ErrorCode::InvalidTxnState,
        AppendError::Storage(error) => storage_code(error),
    }
}

/// The code of a read that failed.
pub const fn read_code(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OffsetOutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        // Not retriable: the bytes do not come back. A consumer is told where it stands and can seek behind them.
        ReadError::Damaged { .. } => ErrorCode::CorruptMessage,
        ReadError::Storage(error) => storage_code(error),
    }
}

impl From<&AppendError> for Refusal {
    fn from(error: &AppendError) -> Self {
        Self::new(append_code(error), error.to_string())
    }
}

impl From<&LogError> for Refusal {
    fn from(error: &LogError) -> Self {
        Self::new(storage_code(error), error.to_string())
    }
}
