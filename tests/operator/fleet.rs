//! Many Topics: what one costs the API server until it is ready, and that a settled operator costs it nothing.
use std::time::{Duration, Instant};

use crate::proxy::Proxy;
use crate::running::{NAMESPACE, Operator, install, kubectl, manifest};
use crate::stub::Stub;
use crate::support::kube::KubeApi;
use crate::support::wait::until;

/// Topics on a page of a list, as the operator asks for them.
const PAGE: usize = 500;

/// For anything that happens to all of them.
const FLEET_PATIENCE: Duration = Duration::from_secs(1_200);

/// Ended in this order.
pub struct Fleet {
    operator: Operator,
    proxy: Proxy,
    stub: Stub,
    kube: KubeApi,
    topics: usize,
}

/// What was seen.
#[derive(Debug)]
pub struct Figures {
    pub topics: usize,
    /// Requests to the API server for each Topic from apply to Ready, lists and the lease aside.
    pub requests_per_topic: f64,
    /// From the first apply to the last Ready.
    pub ready_after: Duration,
    /// Resident memory of the operator when all are settled, bytes.
    pub resident_bytes: u64,
    /// Time on a processor while settled, in so much time.
    pub settled_cpu: (Duration, Duration),
    /// Pages of the list that the next process starts with.
    pub pages: usize,
}

impl std::fmt::Display for Figures {
    #[expect(clippy::cast_precision_loss, reason = "mebibytes to one digit")]
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} Topics: {:.2} requests each, all ready after {:.1} s, {:.1} MiB resident, {} ms CPU in {} s when settled, {} pages",
            self.topics,
            self.requests_per_topic,
            self.ready_after.as_secs_f64(),
            self.resident_bytes as f64 / f64::from(1 << 20),
            self.settled_cpu.0.as_millis(),
            self.settled_cpu.1.as_secs(),
            self.pages
        )
    }
}

impl Fleet {
    pub fn start() -> Self {
        let kube = KubeApi::start();
        install(&kube);
        let stub = Stub::start();
        let rights = kube.kubeconfig_of_service_account(NAMESPACE, "tidemark");
        let mut proxy = Proxy::start(&kube, &rights);
        let kubeconfig = proxy.kubeconfig(&kube);
        let operator = Operator::start_with(&kube, &stub.control(), kubeconfig, "fleet", &["--resync", "1h"]);
        Self {
            operator,
            proxy,
            stub,
            kube,
            topics: 0,
        }
    }

    /// So many Topics in all, from apply to settled, and the operator started anew over them.
    #[track_caller]
    pub fn grow_to(&mut self, topics: usize, watch_for: Duration) -> Figures {
        let spec = "{partitions: 3, config: {retention.ms: 7d, retention.bytes: 1Gi}}";
        let documents: Vec<String> = (self.topics..topics)
            .map(|number| manifest(&format!("topic-{number}"), spec))
            .collect();
        let more = documents.len();
        let (before, began) = (self.proxy.requests(), Instant::now());
        self.kube
            .kubectl(["create", "-f", "-"])
            .run_with(documents.join("---\n").as_bytes());
        self.topics = topics;
        self.all_ready();
        let (requests, ready_after) = (self.proxy.requests() - before, began.elapsed());
        self.silent_when_looked_at();
        let (cpu, settled) = (self.cpu(), Instant::now());
        std::thread::sleep(watch_for);
        let settled_cpu = (self.cpu().saturating_sub(cpu), settled.elapsed());
        let resident_bytes = self.resident_bytes();

        // The next process finds them all, in pages, and has nothing to write.
        let (writes, lists) = (self.proxy.writes().len(), self.proxy.lists());
        self.operator.stop();
        self.operator.start_again();
        self.all_ready();
        let pages = self.proxy.lists() - lists;
        assert_eq!(pages, topics.div_ceil(PAGE), "pages of {PAGE}");
        assert_eq!(
            self.proxy.writes().len(),
            writes,
            "a new process writes nothing for what is settled"
        );
        #[expect(clippy::cast_precision_loss, reason = "counts of thousands")]
        let requests_per_topic = requests as f64 / more as f64;
        Figures {
            topics,
            requests_per_topic,
            ready_after,
            resident_bytes,
            settled_cpu,
            pages,
        }
    }

    /// One round for one wake-up: neither what a round writes nor anything else wakes a Topic, and none of them changes.
    #[track_caller]
    pub fn wakes_only_when_told(&self) {
        let versions = || {
            let each = "jsonpath={range .items[*]}{.metadata.name}={.metadata.resourceVersion} {end}";
            kubectl(&self.kube, ["get", "topics", "-o", each]).run()
        };
        let (before, rounds) = (versions(), self.operator.rounds());
        self.silent_when_looked_at();
        self.stub.tell("TopicChanged", "topic-0");
        #[expect(clippy::cast_precision_loss, reason = "counts of thousands")]
        let wanted = rounds + self.topics as f64 + 1.0;
        until("the last round", FLEET_PATIENCE, || {
            self.operator.rounds() >= wanted
        });
        assert!(
            (self.operator.rounds() - wanted).abs() < f64::EPSILON,
            "woken by nobody"
        );
        assert_eq!(versions(), before);
    }

    #[track_caller]
    fn all_ready(&self) {
        let ready = "tidemark_operator_topics{ready=\"True\",reason=\"Applied\"}";
        #[expect(clippy::cast_precision_loss, reason = "counts of thousands")]
        until("all Topics to be ready", FLEET_PATIENCE, || {
            self.operator.metric(ready) >= self.topics as f64
                && self.operator.metric("tidemark_operator_reconciles_running") < 1.0
        });
    }

    /// Every Topic is looked at once more, and nothing is asked of the API server.
    #[track_caller]
    fn silent_when_looked_at(&self) {
        let (rounds, requests) = (self.operator.rounds(), self.proxy.requests());
        self.stub.tell("TopicChanged", "");
        #[expect(clippy::cast_precision_loss, reason = "counts of thousands")]
        until("a round for each", FLEET_PATIENCE, || {
            self.operator.rounds() >= rounds + self.topics as f64
        });
        assert_eq!(self.proxy.requests(), requests, "a settled operator asks nothing");
    }

    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.operator.pid())).expect("it runs");
        // Behind the name, which may hold anything: utime and stime are the 14th and 15th fields of all.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let ticks: u64 = [11, 12]
            .iter()
            .map(|at| fields[*at].parse::<u64>().expect("ticks"))
            .sum();
        // Linux tells these in hundredths of a second, whatever its own tick is.
        Duration::from_millis(ticks * 10)
    }

    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.operator.pid()));
        let status = status.expect("it runs");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.expect("a field").parse::<u64>().expect("a number") * 1_024
    }
}
