//! `tidemark run`: engine and reconcile loop in one process, over a directory of manifests.
//!
//! The loop reaches the engine through its control API like an operator in a cluster does; only the address is known
//! without asking.
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::Outcome;
use super::engine_flags::EngineFlags;
use super::output::{self, Tip, show};
use super::shared::{runtime, stop_signal};
use crate::engine::Engine;
use crate::operator::control_client::ControlClient;
use crate::operator::source::directory::{DirectorySource, Reporter, Settings};
use crate::operator::source::{self, Report};

mod screen;

const EXAMPLES: &str = "\
Examples:
  tidemark run --topics deploy/examples
  tidemark run --topics ./topics --data /var/lib/tidemark --listen 127.0.0.1:19092
  tidemark run --default retention.ms=3d --check-interval 30s

Then, in another terminal:
  echo hello | kcat -b 127.0.0.1:9092 -t orders -P
  kcat -b 127.0.0.1:9092 -t orders -C -e
  tidemark status";

/// Runs engine and reconcile loop in one process; no cluster is needed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    #[command(flatten)]
    engine: EngineFlags,
    /// The directory of Topic manifests, or one file of them, watched for changes
    #[arg(long, env = "TIDEMARK_TOPICS", default_value = "./topics", value_name = "DIR")]
    topics: PathBuf,
}

impl Run {
    /// Runs until it is told to stop, then drains and closes cleanly.
    ///
    /// # Errors
    /// When there is no directory of manifests or the engine cannot start.
    pub fn run(self) -> anyhow::Result<Outcome> {
        if !self.topics.exists() {
            let error = anyhow!(
                "the directory of manifests, {}, is not there",
                self.topics.display()
            );
            return Err(error.context(Tip(
                "make it and put Topic manifests in it, or name another with --topics DIR; `tidemark run --help` shows how".to_owned(),
            )));
        }
        runtime()?.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<Outcome> {
        let config = self.engine.config()?;
        let (data, clock) = (config.data.clone(), Arc::clone(&config.clock));
        let engine = Engine::start(config)
            .await
            .map_err(|error| self.engine.helped(error))?;
        let control = engine
            .control_address()
            .context("the engine serves no control API")?;
        let token_file = self.engine.control_token_file().map(Path::to_owned);
        let client = ControlClient::new(&reachable(control).to_string(), token_file)?;
        let settings = Settings::new(self.topics.clone(), data.join("status"));
        let report = reporter(&engine, &self.topics, &data);
        let source = DirectorySource::new(settings, Arc::new(client), clock, report);
        let stop = CancellationToken::new();
        let reconciling = tokio::spawn(source.run(stop.clone()));
        stop_signal().await?;
        let stopping = "stopping: requests are finished, logs are closed";
        tracing::info!("{stopping}");
        if std::io::stdout().is_terminal() {
            let _ = show(&format!("\n{stopping}\n"));
        }
        stop.cancel();
        let reconciled = reconciling.await;
        engine.shutdown().await;
        reconciled.context("the reconcile loop ended by itself")?;
        Ok(Outcome::Done)
    }
}

/// The address to connect to for what listens on `address`: loopback where it listens on all.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Tells a terminal in lines for people, and anything else in the log.
fn reporter(engine: &Engine, topics: &Path, data: &Path) -> Reporter {
    if !std::io::stdout().is_terminal() {
        tracing::info!(
            kafka = engine.listening().map(|address| address.to_string()),
            control = engine.control_address().map(|address| address.to_string()),
            topics = %topics.display(),
            data = %data.display(),
            "ready"
        );
        return Arc::new(|report: Report| source::log(&report));
    }
    let opening = screen::opening(engine.listening(), engine.control_address(), topics, data);
    let _ = show(&opening);
    Arc::new(|report: Report| {
        if let Some(line) = screen::line(&report, output::columns()) {
            // The engine goes on where the terminal has gone.
            let _ = show(&format!("{line}\n"));
        }
    })
}
