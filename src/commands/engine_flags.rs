//! The flags of whatever runs an engine: `tidemark run` and `tidemark engine`.
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use super::output::Tip;
use super::shared::DataFlag;
use crate::engine::EngineError;
use crate::engine::config::{Advertised, Durability, EngineConfig};
use crate::engine::data_directory::DataDirectoryError;
use crate::resource::{keys, units};

/// How the engine is set up.
#[derive(Debug, Clone, Args)]
pub struct EngineFlags {
    #[command(flatten)]
    data: DataFlag,
    /// Where Kafka clients connect
    #[arg(
        long,
        env = "TIDEMARK_LISTEN",
        default_value = "127.0.0.1:9092",
        value_name = "ADDR",
        value_parser = address
    )]
    listen: SocketAddr,
    /// What clients are told to connect to; as listened when left out
    #[arg(long, env = "TIDEMARK_ADVERTISE", value_name = "HOST:PORT", value_parser = advertised)]
    advertise: Option<Advertised>,
    /// Where the control API is served
    #[arg(
        long,
        env = "TIDEMARK_CONTROL",
        default_value = "127.0.0.1:9097",
        value_name = "ADDR",
        value_parser = address
    )]
    pub control: SocketAddr,
    /// A file with the bearer token of the control API; required for an address that is not loopback
    #[arg(long, env = "TIDEMARK_CONTROL_TOKEN_FILE", value_name = "FILE")]
    control_token_file: Option<PathBuf>,
    /// Time between two retention passes, such as 30s or 5m; a plain number counts milliseconds
    #[arg(long, env = "TIDEMARK_CHECK_INTERVAL", default_value = "5m", value_name = "DURATION", value_parser = duration)]
    check_interval: Duration,
    /// An engine-wide default of a topic setting; may be repeated. Kafka's defaults otherwise
    #[arg(long = "default", env = "TIDEMARK_DEFAULT", value_name = "KEY=VALUE", value_delimiter = ';', value_parser = setting)]
    defaults: Vec<(String, String)>,
    /// Behave exactly as Kafka: no idle roll, no clock guard
    #[arg(long, env = "TIDEMARK_KAFKA_EXACT")]
    kafka_exact: bool,
    /// When an acknowledged record is on stable storage: page-cache, interval=DURATION, ack
    #[arg(long, env = "TIDEMARK_DURABILITY", default_value = "page-cache", value_name = "WHEN", value_parser = durability)]
    durability: Durability,
    /// Cluster id that the data directory must have; whatever it has when left out
    #[arg(long, env = "TIDEMARK_IDENTITY", value_name = "ID", value_parser = identity)]
    identity: Option<String>,
    /// Take over a data directory of another identity, with its data
    #[arg(long, env = "TIDEMARK_ADOPT_IDENTITY")]
    adopt_identity: bool,
    /// Create a topic when a client asks for one that is not there
    #[arg(long, env = "TIDEMARK_AUTO_CREATE_TOPICS")]
    auto_create_topics: bool,
    /// How long a group's committed offsets are kept after it became empty
    #[arg(long, env = "TIDEMARK_OFFSETS_RETENTION", default_value = "7d", value_name = "DURATION", value_parser = duration)]
    offsets_retention: Duration,
    /// Warn of a reader that would lose a record if it stopped for this long
    #[arg(long, env = "TIDEMARK_HEADROOM_ALERT", default_value = "1h", value_name = "DURATION", value_parser = duration)]
    headroom_alert: Duration,
}

impl EngineFlags {
    /// What the engine is started with.
    ///
    /// # Errors
    /// When the token file cannot be read, or a control address that others can reach has no token.
    pub fn config(&self) -> anyhow::Result<EngineConfig> {
        let control_token = self.control_token()?;
        if control_token.is_none() && !self.control.ip().is_loopback() {
            bail!(
                "--control {} can be reached from other machines: give it a token with --control-token-file, or a loopback address",
                self.control
            );
        }
        let mut config = EngineConfig::new(&self.data.data);
        config.listen = self.listen;
        config.advertise.clone_from(&self.advertise);
        config.control = Some(self.control);
        config.control_token = control_token;
        config.check_interval = self.check_interval;
        config.defaults = self.defaults.iter().cloned().collect::<BTreeMap<_, _>>();
        config.kafka_exact = self.kafka_exact;
        config.durability = self.durability;
        config.identity.clone_from(&self.identity);
        config.adopt = self.adopt_identity;
        config.auto_create_topics = self.auto_create_topics;
        config.offsets_retention = self.offsets_retention;
        config.headroom_alert = self.headroom_alert;
        Ok(config)
    }

    /// An engine that does not start, with what to do about it.
    pub fn helped(&self, error: EngineError) -> anyhow::Error {
        let tip = match &error {
            EngineError::Listen { address, cause } => {
                let flag = if *address == self.control {
                    "--control"
                } else {
                    "--listen"
                };
                match cause.kind() {
                    ErrorKind::AddrInUse => {
                        format!(
                            "another process has that port: stop it, or choose another with {flag}; port 0 takes a free one"
                        )
                    }
                    ErrorKind::AddrNotAvailable => format!(
                        "this machine has no such address: choose one that it has with {flag}, or 0.0.0.0 for all of them"
                    ),
                    _ => format!("choose another address with {flag}"),
                }
            }
            EngineError::DataDirectory(DataDirectoryError::Io { cause, .. })
                if cause.kind() == ErrorKind::StorageFull =>
            {
                return error.into();
            }
            EngineError::DataDirectory(
                DataDirectoryError::Io { .. } | DataDirectoryError::ReadOnly { .. },
            ) => {
                format!(
                    "{} must be a directory that this user may write to; choose another with --data",
                    self.data.data.display()
                )
            }
            _ => return error.into(),
        };
        anyhow::Error::new(error).context(Tip(tip))
    }

    /// The file with the token of the control API, if one is configured.
    pub fn control_token_file(&self) -> Option<&Path> {
        self.control_token_file.as_deref()
    }

    /// The token of the control API, if one is configured.
    ///
    /// # Errors
    /// When the file cannot be read or is empty.
    pub fn control_token(&self) -> anyhow::Result<Option<String>> {
        self.control_token_file
            .as_deref()
            .map(super::shared::read_token)
            .transpose()
    }
}

/// Reads an address to listen on. Names are not looked up: what a server listens on should not hang on a resolver.
pub(super) fn address(text: &str) -> anyhow::Result<SocketAddr> {
    text.parse().ok().context(
        "an address is written IP:PORT, such as 127.0.0.1:9092 for this machine only or 0.0.0.0:9092 for everyone",
    )
}

/// Reads a duration such as `5m` or a number of milliseconds.
pub(super) fn duration(text: &str) -> anyhow::Result<Duration> {
    let ms = units::parse_duration_ms(text)?;
    let ms = u64::try_from(ms)
        .ok()
        .filter(|ms| *ms >= 1)
        .context("it must be 1 ms or more")?;
    Ok(Duration::from_millis(ms))
}

fn setting(text: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = text.split_once('=').context("a default is written KEY=VALUE")?;
    Ok((key.to_owned(), keys::parse_with_units(key, value)?))
}

fn advertised(text: &str) -> anyhow::Result<Advertised> {
    Ok(Advertised::parse(text)?)
}

/// An empty one is a variable that was not filled in, and must not pass for leave to take whatever is there.
fn identity(text: &str) -> anyhow::Result<String> {
    if text.trim().is_empty() {
        bail!("an identity is not empty; leave it out to take the one that the data directory has");
    }
    Ok(text.to_owned())
}

fn durability(text: &str) -> anyhow::Result<Durability> {
    Ok(Durability::parse(text, |part| duration(part).ok())?)
}
