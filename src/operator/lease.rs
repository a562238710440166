//! The lease that keeps two operators from driving one engine.
//!
//! A holder renews; another process takes over only when the lease has not changed for its whole duration by that
//! process's own monotonic clock, so steps of wall clocks and clocks that differ do no harm. Every write names the
//! version that it replaces. A holder that cannot renew stops being one before anybody else can have taken over.
//! There is no fence in the API server, which is why the engine takes repeated and late requests without harm.
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use crate::telemetry::clock::Clock;

/// Times of a lease.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// How long a lease lasts without renewal.
    pub lasts: Duration,
    /// How long a holder goes on without having renewed; less than `lasts`.
    pub renew_within: Duration,
    /// How often a holder renews and another one looks.
    pub every: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lasts: Duration::from_secs(15),
            renew_within: Duration::from_secs(10),
            every: Duration::from_secs(3),
        }
    }
}

/// Takes part in the election for one lease.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    name: String,
    identity: String,
    times: Times,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
    seen: Option<(String, Instant)>,
}

impl Elector {
    /// `identity` must be another one for each process: the pod's name. The clock is for the times that people read; nothing
    /// is decided by it.
    pub fn new(
        api: Api<Lease>,
        name: String,
        identity: String,
        times: Times,
        metrics: Metrics,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            api,
            name,
            identity,
            times,
            metrics,
            clock,
            seen: None,
        }
    }

    /// Runs until `stop`, telling `held`; then gives the lease back, once `done` says that nothing is written any more.
    pub async fn run(mut self, held: watch::Sender<bool>, stop: CancellationToken, done: CancellationToken) {
        let mut renewed = Instant::now();
        loop {
            match tokio::time::timeout(self.times.renew_within, self.attempt()).await {
                Ok(Ok(true)) => {
                    renewed = Instant::now();
                    if !held.send_replace(true) {
                        tracing::info!(lease = self.name, identity = self.identity, "lease is held");
                    }
                }
                Ok(Ok(false)) => {
                    if held.send_replace(false) {
                        tracing::warn!(lease = self.name, "lease is lost to another process");
                    }
                }
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "lease cannot be renewed"),
                Err(_) => tracing::warn!(lease = self.name, "lease is not answered in time"),
            }
            if *held.borrow() && renewed.elapsed() >= self.times.renew_within {
                held.send_replace(false);
                tracing::warn!(
                    lease = self.name,
                    "lease is given up: it could not be renewed in time"
                );
            }
            self.metrics.leader.set(i64::from(*held.borrow()));
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(self.times.every) => {}
            }
        }
        done.cancelled().await;
        if *held.borrow() {
            self.release().await;
        }
    }

    /// Renews, takes, or looks. Whether the lease is ours afterwards.
    async fn attempt(&mut self) -> Result<bool, kube::Error> {
        let current = self.api.get_opt(&self.name).await;
        self.metrics.request("lease", current.is_ok());
        let Some(mut lease) = current? else {
            let fresh = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.held(0)),
            };
            return self.written(self.api.create(&PostParams::default(), &fresh).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() {
            let unchanged = self
                .seen
                .as_ref()
                .filter(|(seen, _)| *seen == version)
                .map(|(_, since)| *since);
            let since = unchanged.unwrap_or_else(Instant::now);
            self.seen = Some((version, since));
            let promised = spec
                .lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok());
            let lasts = promised
                .map_or(self.times.lasts, Duration::from_secs)
                .max(self.times.lasts);
            if since.elapsed() < lasts {
                return Ok(false);
            }
        }
        let transitions = spec.lease_transitions.unwrap_or(0);
        let mut ours = self.held(if holder == self.identity {
            transitions
        } else {
            transitions.saturating_add(1)
        });
        if holder == self.identity {
            ours.acquire_time = spec.acquire_time;
        }
        lease.spec = Some(ours);
        lease.metadata.managed_fields = None;
        self.written(self.api.replace(&self.name, &PostParams::default(), &lease).await)
    }

    /// Another process that was quicker is no error: it holds the lease.
    fn written(&self, result: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
        self.metrics.request("lease", result.is_ok());
        match result {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn held(&self, transitions: i32) -> LeaseSpec {
        let now = jiff::Timestamp::from_millisecond(self.clock.wall_ms()).unwrap_or_default();
        let now = MicroTime(now);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.times.lasts.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    async fn release(&self) {
        let Ok(Some(mut lease)) = self.api.get_opt(&self.name).await else {
            return;
        };
        let Some(spec) = lease
            .spec
            .as_mut()
            .filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity))
        else {
            return;
        };
        spec.holder_identity = Some(String::new());
        lease.metadata.managed_fields = None;
        match self.api.replace(&self.name, &PostParams::default(), &lease).await {
            Ok(_) => tracing::info!(lease = self.name, "lease is given back"),
            Err(error) => {
                tracing::warn!(lease = self.name, %error, "lease cannot be given back; it runs out by itself")
            }
        }
    }
}
