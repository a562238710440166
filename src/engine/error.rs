//! Why an engine does not start.
use std::path::Path;

use crate::engine::data_directory::DataDirectoryError;
use crate::engine::refusal::Refusal;
use crate::engine::store::StoreError;
use crate::log::error::LogError;

/// Why an engine does not start. Nothing of the data was changed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    /// The state store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry of the state store cannot be read.
    #[error("the state store holds what this build cannot read: {what}")]
    State {
        /// Table, key and reason.
        what: String,
    },
    /// The log directory cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// `--default` names what is no setting, or gives it a value it does not take.
    #[error("--default {0}")]
    Defaults(Refusal),
    /// An address that cannot be listened on.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// A control address that everybody can reach, without a token.
    #[error("the control address {address} is not loopback; it needs a bearer token (--control-token-file)")]
    TokenRequired {
        /// The address.
        address: std::net::SocketAddr,
    },
    /// A thread or runtime could not be started.
    #[error("cannot start {what}: {cause}")]
    Thread {
        /// Its name.
        what: &'static str,
        /// Why.
        cause: std::io::Error,
    },
}

impl EngineError {
    /// The reason as it appears in `StorageHealthy`, where it is the data that an engine cannot start on: a person or the volume has
    /// to change something, and an exit would only have the process started again and again. `None` where the process is to end.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::DataDirectory(DataDirectoryError::InUse { .. }) => None,
            Self::DataDirectory(error) => Some(error.reason()),
            Self::Store(StoreError::Full { .. }) => Some("DiskFull"),
            Self::Store(StoreError::ReadOnly { .. }) => Some("ReadOnly"),
            Self::Store(_) | Self::State { .. } => Some("Corrupt"),
            Self::Log(error) if error.is_full_disk() => Some("DiskFull"),
            Self::Log(error) if error.is_read_only() => Some("ReadOnly"),
            Self::Log(_) => Some("Corrupt"),
            Self::Defaults(_) | Self::Listen { .. } | Self::TokenRequired { .. } | Self::Thread { .. } => {
                None
            }
        }
    }

    /// The error, and what to do about a state store that cannot be read; `data` is the data directory.
    pub fn advice(&self, data: &Path) -> String {
        match self {
            Self::Store(_) | Self::State { .. } => format!(
                "{self}. Settings, owners and the positions of readers are in {}: restore that file from a copy, or see to it that it can be \
                 read; until then nothing is served and nothing is deleted",
                data.join("state.redb").display()
            ),
            _ => self.to_string(),
        }
    }
}
