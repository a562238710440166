//! Flags that several commands have in common, under one name and one environment variable each.
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::operator::control_client::ControlClient;

/// Where the data directory is.
#[derive(Debug, Clone, Args)]
pub struct DataFlag {
    /// The data directory
    #[arg(long, env = "TIDEMARK_DATA", default_value = "./data", value_name = "DIR")]
    pub data: PathBuf,
}

/// Which engine is asked.
#[derive(Debug, Clone, Args)]
pub struct EngineAddress {
    /// The engine's control API
    #[arg(
        long,
        env = "TIDEMARK_CONTROL",
        default_value = "http://127.0.0.1:9097",
        value_name = "URL",
        value_parser = control_url
    )]
    pub control: String,
    /// A file with the bearer token of the control API
    #[arg(long, env = "TIDEMARK_CONTROL_TOKEN_FILE", value_name = "FILE")]
    control_token_file: Option<PathBuf>,
}

impl EngineAddress {
    /// A client for it. The token is read when something is asked.
    ///
    /// # Errors
    /// When the address is no HTTP URL.
    pub fn client(&self) -> anyhow::Result<ControlClient> {
        Ok(ControlClient::new(
            &self.control,
            self.control_token_file.clone(),
        )?)
    }
}

fn control_url(text: &str) -> anyhow::Result<String> {
    ControlClient::new(text, None)
        .map_err(|_| anyhow!("a control API is at http://HOST:PORT, such as http://127.0.0.1:9097"))?;
    Ok(text.to_owned())
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One readable line an event
    Text,
    /// One JSON object an event
    Json,
}

/// What is logged, and how.
#[derive(Debug, Clone, Args)]
pub struct LoggingFlags {
    /// What to log: a level (error, warn, info, debug, trace) or filters such as `tidemark=debug,kube=info`;
    /// info where a command serves and its output is not a terminal, warnings or less elsewhere
    #[arg(
        long,
        env = "TIDEMARK_LOG",
        global = true,
        value_name = "FILTER",
        help_heading = "Logging"
    )]
    pub log: Option<String>,
    /// How to write log lines
    #[arg(
        long,
        env = "TIDEMARK_LOG_FORMAT",
        default_value = "text",
        global = true,
        value_enum,
        value_name = "FORMAT",
        help_heading = "Logging"
    )]
    pub log_format: LogFormat,
}

/// The bearer token in `file`, without the line end.
///
/// # Errors
/// When the file cannot be read or holds nothing.
pub fn read_token(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("--control-token-file: read the token in {}", file.display()))?;
    let token = text.trim();
    if token.is_empty() {
        bail!(
            "--control-token-file: {} is empty; put the bearer token of the control API in it",
            file.display()
        );
    }
    Ok(token.to_owned())
}

/// A runtime for a command that serves.
///
/// It has at least four threads, also on fewer cores: an append writes to the page cache on the thread of its connection, and a disk
/// that is slow to take it must not hold up everyone else.
///
/// # Errors
/// When its threads cannot be started.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(4))
        .enable_all()
        .build()
        .context("start the runtime")
}

/// What tells the process to stop: SIGTERM, or SIGINT as Ctrl-C sends it. They end the process until this is made.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Watches for them from now on. Must be called within a runtime.
    ///
    /// # Errors
    /// When signals cannot be watched.
    pub fn watch() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("watch for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("watch for SIGINT")?,
        })
    }

    /// Resolves when one has come.
    pub async fn come(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Resolves when the process is told to stop.
///
/// # Errors
/// When signals cannot be watched.
pub async fn stop_signal() -> anyhow::Result<()> {
    StopSignals::watch()?.come().await;
    Ok(())
}
