//! What the operator counts and times. Labels come from fixed sets; Topics are counted by reason, never by name.
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::telemetry::metrics::{Fixed, Seconds, build};
use prometheus_client::metrics::family::MetricConstructor as _;

/// Label `result` of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabel {
    /// See [`Round::result`](super::reconcile::Round::result).
    pub result: Fixed,
}

/// Label `request` to the Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabel {
    /// `status`, `finalizer`, `event`, `owner`, `lease`, `list`.
    pub request: Fixed,
    /// `ok` or `error`.
    pub result: Fixed,
}

/// Labels of Topics by their state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TopicsLabel {
    /// Status of `Ready`.
    pub ready: String,
    /// Reason of `Ready`.
    pub reason: String,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    rounds: Family<ResultLabel, Counter>,
    round_seconds: Histogram,
    running: Gauge,
    requests: Family<RequestLabel, Counter>,
    /// Times that the watch on Topics began anew with a list.
    pub relists: Counter,
    /// Wake-ups heard from the engine.
    pub engine_events: Counter,
    /// 1 while this process may write.
    pub leader: Gauge,
    topics: Family<TopicsLabel, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let metrics = Self {
            registry: Arc::new(Mutex::new(Registry::with_prefix("tidemark_operator"))),
            rounds: Family::default(),
            round_seconds: Seconds.new_metric(),
            running: Gauge::default(),
            requests: Family::default(),
            relists: Counter::default(),
            engine_events: Counter::default(),
            leader: Gauge::default(),
            topics: Family::default(),
        };
        let mut registry = metrics.registry.lock();
        registry.register("build", "The version that runs", build());
        registry.register("reconciles", "Rounds by result", metrics.rounds.clone());
        registry.register(
            "reconcile_seconds",
            "Time of a round",
            metrics.round_seconds.clone(),
        );
        registry.register(
            "reconciles_running",
            "Rounds that run now",
            metrics.running.clone(),
        );
        registry.register(
            "api_requests",
            "Requests to the Kubernetes API, the watch aside",
            metrics.requests.clone(),
        );
        registry.register("relists", "Lists that began a watch", metrics.relists.clone());
        registry.register(
            "engine_events",
            "Wake-ups heard from the engine",
            metrics.engine_events.clone(),
        );
        registry.register(
            "leader",
            "Whether this process holds the lease",
            metrics.leader.clone(),
        );
        registry.register(
            "topics",
            "Topics by state and reason of Ready",
            metrics.topics.clone(),
        );
        drop(registry);
        metrics
    }

    /// A round begins.
    pub fn round_began(&self) {
        self.running.inc();
    }

    /// A round is over.
    pub fn round_ended(&self, result: &'static str, took: Duration) {
        self.running.dec();
        self.rounds
            .get_or_create(&ResultLabel {
                result: Fixed(result),
            })
            .inc();
        self.round_seconds.observe(took.as_secs_f64());
    }

    /// A request to the Kubernetes API was answered.
    pub fn request(&self, request: &'static str, ok: bool) {
        let result = Fixed(if ok { "ok" } else { "error" });
        self.requests
            .get_or_create(&RequestLabel {
                request: Fixed(request),
                result,
            })
            .inc();
    }

    /// How many Topics are in which state, by status and reason of `Ready`.
    pub fn topics(&self, counts: &BTreeMap<(String, String), i64>) {
        self.topics.clear();
        for ((ready, reason), count) in counts {
            let label = TopicsLabel {
                ready: ready.clone(),
                reason: reason.clone(),
            };
            self.topics.get_or_create(&label).set(*count);
        }
    }

    /// Everything in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry.lock()) {
            let _infallible = write!(text, "# {error}");
        }
        text
    }
}
