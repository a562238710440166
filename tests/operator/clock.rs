//! Steps of the wall clock: nothing that the operator decides depends on it.
use std::sync::Arc;
use std::time::Duration;

use tidemark::operator::control_client::ControlClient;
use tidemark::operator::lease::Times;
use tidemark::operator::metrics::Metrics;
use tidemark::operator::probes::Health;
use tidemark::operator::source::cluster::{self, Settings};
use tidemark::telemetry::clock::ManualClock;
use tokio_util::sync::CancellationToken;

use crate::running::{NAMESPACE, PATIENCE, apply, condition, install, ready, topic};
use crate::stub::Stub;
use crate::support::kube::KubeApi;
use crate::support::wait::until;

const YEAR_MS: i64 = 365 * 24 * 60 * 60 * 1000;
/// 2026-11-30.
const NOW_MS: i64 = 1_796_000_000_000;

/// An operator in this process, with a clock that moves when told to.
struct Operator {
    clock: Arc<ManualClock>,
    metrics: Metrics,
    stop: CancellationToken,
}

impl Operator {
    fn start(runtime: &tokio::runtime::Runtime, kube: &KubeApi, stub: &Stub, identity: &str) -> Self {
        let kubeconfig = kube.kubeconfig_of_service_account(NAMESPACE, "tidemark");
        let operator = Self {
            clock: Arc::new(ManualClock::at(NOW_MS)),
            metrics: Metrics::new(),
            stop: CancellationToken::new(),
        };
        let storage = Arc::new(ControlClient::new(&stub.control(), None).expect("an address"));
        let mut settings = Settings::new(NAMESPACE, identity);
        // Too long to run out while the machine stands still: what moves here is the wall clock.
        settings.lease_times = Times {
            lasts: Duration::from_secs(600),
            renew_within: Duration::from_secs(500),
            ..Times::default()
        };
        let (clock, metrics) = (Arc::clone(&operator.clock), operator.metrics.clone());
        let stop = operator.stop.clone();
        runtime.spawn(async move {
            let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await;
            let client = kube::Client::try_from(config.expect("a cluster")).expect("a client");
            cluster::run(client, storage, clock, settings, metrics, Health::default(), stop).await;
        });
        operator
    }

    fn leads(&self) -> bool {
        self.metrics.leader.get() == 1
    }

    fn figure(&self, series: &str) -> f64 {
        let text = self.metrics.encode();
        let lines = text.lines().filter(|line| line.starts_with(series));
        lines
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

fn moved(topic: &serde_json::Value, kind: &str) -> String {
    let all = topic["status"]["conditions"].as_array().expect("a list");
    let found = all.iter().find(|condition| condition["type"] == kind);
    found.expect("the condition")["lastTransitionTime"]
        .as_str()
        .expect("a time")
        .to_owned()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// F11: ten minutes without an engine are told once. What was known keeps its time, the edit is not seen, and nothing is decided.
#[test]
fn ten_minutes_without_an_engine_are_told_once() {
    const MINUTE_MS: i64 = 60_000;
    let runtime = runtime();
    let kube = KubeApi::start();
    install(&kube);
    let stub = Stub::start();
    let operator = Operator::start(&runtime, &kube, &stub, "only");
    for days in [9, 8, 7] {
        apply(&kube, "orders", &format!("{{config: {{retention.ms: {days}d}}}}"));
        ready(&kube, "orders", "True/Applied");
    }
    let before = topic(&kube, "orders");
    assert_eq!(before["status"]["observedGeneration"], 3);
    let changes = stub.engine().changes.len();
    stub.engine().away = true;
    operator.clock.advance_ms(MINUTE_MS);
    apply(&kube, "orders", "{config: {retention.ms: 1d}}");
    let gone = ready(&kube, "orders", "Unknown/EngineUnreachable");
    assert_eq!(gone["metadata"]["generation"], 4);
    let mut asked = stub.engine().requests;
    for minute in 1..=10 {
        operator.clock.advance_ms(MINUTE_MS);
        // Whatever wakes a round: the back-off, and an event of the engine that was still under way.
        stub.tell("TopicChanged", "orders");
        let rounds = operator.figure("tidemark_operator_reconciles_total");
        until("a round", PATIENCE, || {
            operator.figure("tidemark_operator_reconciles_total") > rounds && stub.engine().requests > asked
        });
        asked = stub.engine().requests;
        let now = topic(&kube, "orders");
        assert_eq!(now["status"], gone["status"], "minute {minute}");
        assert_eq!(
            now["metadata"]["resourceVersion"], gone["metadata"]["resourceVersion"],
            "minute {minute}: told once"
        );
    }
    assert_eq!(gone["status"]["observedGeneration"], 3);
    for known in ["inForce", "retention", "lastAppliedTime", "topicId", "partitions"] {
        assert_eq!(gone["status"][known], before["status"][known], "{known}");
    }
    for kind in ["Ready", "StorageHealthy"] {
        assert_eq!(condition(&gone, kind), "Unknown/EngineUnreachable");
        assert_ne!(
            moved(&gone, kind),
            moved(&before, kind),
            "since when it is not known"
        );
    }
    let told = gone["status"]["conditions"].to_string();
    assert!(told.contains("as it was before lastTransitionTime"), "{told}");
    assert_eq!(
        stub.engine().changes.len(),
        changes,
        "nothing is decided by what was known"
    );
    assert_eq!(stub.value("orders", "retention.ms"), "604800000");

    stub.engine().away = false;
    stub.tell("TopicChanged", "orders");
    let back = ready(&kube, "orders", "True/Applied");
    assert_eq!(back["status"]["observedGeneration"], 4);
    assert_eq!(stub.value("orders", "retention.ms"), "86400000");
    assert_eq!(stub.engine().changes.len(), changes + 1);
    operator.stop.cancel();
    runtime.shutdown_timeout(Duration::from_secs(20));
}

#[test]
fn steps_of_the_clock_change_nothing() {
    let runtime = runtime();
    let kube = KubeApi::start();
    install(&kube);
    let stub = Stub::start();
    let first = Operator::start(&runtime, &kube, &stub, "first");
    until("the first to lead", PATIENCE, || first.leads());
    apply(&kube, "orders", "{config: {retention.ms: 7d}}");
    let before = ready(&kube, "orders", "True/Applied");
    assert!(moved(&before, "Ready").starts_with("2026-"), "{before}");

    // The second lives a year later, by its own clock, and then a year before.
    let second = Operator::start(&runtime, &kube, &stub, "second");
    for step in [YEAR_MS, -2 * YEAR_MS, YEAR_MS] {
        first.clock.step_wall_ms(-step);
        second.clock.step_wall_ms(step);
        // Several looks at the lease.
        let looks = second.figure("tidemark_operator_api_requests_total{request=\"lease\"");
        until("looks at the lease", PATIENCE, || {
            second.figure("tidemark_operator_api_requests_total{request=\"lease\"") >= looks + 3.0
        });
        assert!(
            first.leads() && !second.leads(),
            "a lease does not run out by a wall clock"
        );
        // A round of a settled Topic writes nothing, whatever year it is.
        let writes = first.figure("tidemark_operator_api_requests_total{request=\"status\"");
        let rounds = first.figure("tidemark_operator_reconciles_total");
        stub.tell("TopicChanged", "orders");
        until("a round", PATIENCE, || {
            first.figure("tidemark_operator_reconciles_total") > rounds
        });
        let after = first.figure("tidemark_operator_api_requests_total{request=\"status\"");
        assert!((after - writes).abs() < f64::EPSILON, "{step}");
    }
    assert_eq!(
        topic(&kube, "orders")["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );

    // An edit in a wrong year is an edit; a transition is a transition, and nothing else moves.
    first.clock.step_wall_ms(-YEAR_MS);
    apply(&kube, "orders", "{config: {retention.ms: 8d}}");
    let edited = ready(&kube, "orders", "True/Applied");
    assert_eq!(edited["status"]["retention"], "8d");
    assert_eq!(moved(&edited, "Ready"), moved(&before, "Ready"));
    stub.engine().reader_at = Some(40);
    apply(&kube, "orders", "{config: {retention.ms: 1d}}");
    let refused = ready(&kube, "orders", "False/SlowReader");
    assert!(moved(&refused, "Ready").starts_with("2025-"), "{refused}");
    assert_eq!(
        moved(&refused, "StorageHealthy"),
        moved(&before, "StorageHealthy")
    );
    first.clock.step_wall_ms(YEAR_MS);
    stub.catch_up();
    let resumed = ready(&kube, "orders", "True/Applied");
    assert_eq!(condition(&resumed, "Stalled"), "absent");
    assert!(moved(&resumed, "Ready").starts_with("2026-"), "{resumed}");

    // The second takes over when the first has gone, in whatever year that is.
    second.clock.step_wall_ms(-5 * YEAR_MS);
    first.stop.cancel();
    until("the second to lead", PATIENCE, || second.leads());
    apply(&kube, "orders", "{config: {retention.ms: 9d}}");
    ready(&kube, "orders", "True/Applied");
    second.stop.cancel();
    runtime.shutdown_timeout(Duration::from_secs(20));
}
