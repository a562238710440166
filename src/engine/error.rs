//! Why an engine does not start.
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
