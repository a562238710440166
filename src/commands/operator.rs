//! `tidemark operator`: keeps the Topics of a cluster in force on one engine.
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Outcome;
use super::output::Tip;
use super::shared::{EngineAddress, runtime, stop_signal};
use crate::operator::metrics::Metrics;
use crate::operator::probes::{self, Health};
use crate::operator::source::cluster::{self, Settings};
use crate::telemetry::clock::SystemClock;

const EXAMPLES: &str = "\
Examples:
  tidemark operator                          Topics of its own namespace, engine in the same pod
  tidemark operator --selector engine=blue   only Topics with that label: one engine of several
  tidemark operator --control http://127.0.0.1:9097 --namespace shop --namespace web";

/// The longest that a stop waits for rounds that have begun.
const STOP_WITHIN: Duration = Duration::from_secs(20);

/// Keeps Topic resources in force on one engine.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Operator {
    #[command(flatten)]
    engine: EngineAddress,
    /// A namespace whose Topics are kept; may be repeated. Its own namespace when left out
    #[arg(
        long = "namespace",
        env = "TIDEMARK_NAMESPACE",
        value_name = "NS",
        value_delimiter = ','
    )]
    namespaces: Vec<String>,
    /// Keep the Topics of all namespaces
    #[arg(long, env = "TIDEMARK_ALL_NAMESPACES", conflicts_with = "namespaces")]
    all_namespaces: bool,
    /// Keep only Topics with these labels, as in `kubectl get -l`
    #[arg(long, env = "TIDEMARK_SELECTOR", value_name = "LABELS")]
    selector: Option<String>,
    /// Namespace of the lease; its own when left out
    #[arg(long, env = "TIDEMARK_LEASE_NAMESPACE", value_name = "NS")]
    lease_namespace: Option<String>,
    /// Name of the lease: one for each engine
    #[arg(long, env = "TIDEMARK_LEASE", default_value = "tidemark", value_name = "NAME")]
    lease: String,
    /// Name of this process in the lease and in events; another one for each process
    #[arg(long, env = "TIDEMARK_OPERATOR_IDENTITY", value_name = "NAME")]
    identity: Option<String>,
    /// Where /healthz, /readyz and /metrics are served
    #[arg(
        long,
        env = "TIDEMARK_PROBES",
        default_value = "127.0.0.1:9098",
        value_name = "ADDR",
        value_parser = super::engine_flags::address
    )]
    probes: SocketAddr,
    /// How often a settled Topic is looked at without a reason
    #[arg(long, env = "TIDEMARK_RESYNC", default_value = "10m", value_name = "DURATION", value_parser = super::engine_flags::duration)]
    resync: Duration,
}

impl Operator {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// When there is no way to a Kubernetes API server, or an address cannot be served.
    pub fn run(self) -> anyhow::Result<Outcome> {
        runtime()?.block_on(self.serve())?;
        Ok(Outcome::Done)
    }

    async fn serve(self) -> anyhow::Result<()> {
        let config = kube::Config::infer()
            .await
            .context("find a Kubernetes API server")
            .context(Tip(
                "name a cluster with KUBECONFIG or ~/.kube/config, or run in a pod of one; without a cluster there is `tidemark run`"
                    .to_owned(),
            ))?;
        let own = config.default_namespace.clone();
        let client = kube::Client::try_from(config).context("make a client of the Kubernetes API")?;
        let storage = Arc::new(self.engine.client()?);
        let identity = self
            .identity
            .clone()
            .or_else(|| std::env::var("HOSTNAME").ok())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| format!("operator-{}", std::process::id()));
        let mut settings = Settings::new(&own, &identity);
        if self.all_namespaces {
            settings.namespaces.clear();
        } else if !self.namespaces.is_empty() {
            settings.namespaces.clone_from(&self.namespaces);
        }
        settings.selector.clone_from(&self.selector);
        settings.lease_namespace = self.lease_namespace.clone().unwrap_or(own);
        settings.lease_name.clone_from(&self.lease);
        settings.resync = self.resync;

        let (metrics, health, stop) = (Metrics::new(), Health::default(), CancellationToken::new());
        let listener = TcpListener::bind(self.probes)
            .await
            .with_context(|| format!("serve on {}", self.probes))?;
        let serving = CancellationToken::new();
        let probes = tokio::spawn(probes::serve(
            listener,
            health.clone(),
            metrics.clone(),
            Arc::clone(&storage),
            serving.clone(),
        ));
        tracing::info!(control = self.engine.control, namespaces = ?settings.namespaces, probes = %self.probes, "operator starts");

        let clock = Arc::new(SystemClock::new());
        let work = cluster::run(client, storage, clock, settings, metrics, health, stop.clone());
        tokio::pin!(work);
        tokio::select! {
            () = &mut work => bail!("the operator has ended by itself"),
            signal = stop_signal() => signal?,
        }
        tracing::info!("operator stops");
        stop.cancel();
        if tokio::time::timeout(STOP_WITHIN, work).await.is_err() {
            tracing::warn!("rounds did not end in time");
        }
        serving.cancel();
        probes.await.context("serve probes")?.context("serve probes")?;
        Ok(())
    }
}
