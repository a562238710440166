//! `tidemark operator` as a process of its own, under the Role of `deploy/`.
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::support::kube::KubeApi;
use crate::support::peers;
use crate::support::ports::free_port;
use crate::support::process::{ProcessGuard, Start};
use crate::support::tidemark::{BINARY, Reply, request};
use crate::support::wait::{eventually, until};

/// Longer than a Topic takes to be tried again after the longest back-off, on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Namespace of `deploy/`.
pub const NAMESPACE: &str = "tidemark";

/// What a test needs of `deploy/`: everything but the pod, which has no node to run on.
pub fn install(kube: &KubeApi) {
    let deploy = peers::source("deploy").display().to_string();
    let output = kube.kubectl(["apply", "-k", &deploy]).output();
    let told = String::from_utf8_lossy(&output.stderr);
    // A pod template that the `restricted` Pod Security Standard does not admit would be warned of.
    assert!(output.status.success() && !told.contains("PodSecurity"), "{told}");
    let crd = [
        "wait",
        "--for=condition=Established",
        "--timeout=300s",
        "crd/topics.tidemark.dev",
    ];
    kube.kubectl(crd).run();
}

/// A running operator.
#[derive(Debug)]
pub struct Operator {
    process: Option<ProcessGuard>,
    start: Start,
    probes: String,
    home: PathBuf,
}

impl Operator {
    /// With the rights of the ServiceAccount of `deploy/`, on the engine at `control`.
    #[track_caller]
    pub fn start(kube: &KubeApi, control: &str) -> Self {
        let kubeconfig = kube.kubeconfig_of_service_account(NAMESPACE, "tidemark");
        Self::start_with(kube, control, kubeconfig, "operator", &[])
    }

    /// With another kubeconfig, name and more flags.
    #[track_caller]
    pub fn start_with(
        kube: &KubeApi,
        control: &str,
        kubeconfig: PathBuf,
        name: &str,
        flags: &[&str],
    ) -> Self {
        let mut operator = Self::new(kube, control, kubeconfig, name, flags);
        operator.start_again();
        operator
    }

    /// Without waiting until it is ready.
    #[track_caller]
    pub fn start_unready(kube: &KubeApi, control: &str, kubeconfig: PathBuf, name: &str) -> Self {
        let mut operator = Self::new(kube, control, kubeconfig, name, &[]);
        operator.process = Some(operator.start.spawn(&operator.home));
        operator
    }

    fn new(kube: &KubeApi, control: &str, kubeconfig: PathBuf, name: &str, flags: &[&str]) -> Self {
        let probes = format!("127.0.0.1:{}", free_port());
        let start = Start::new(name, BINARY)
            .env("KUBECONFIG", kubeconfig)
            .env("NO_COLOR", "1")
            .env("TIDEMARK_LOG", "info,tidemark=debug")
            .args([
                "operator",
                "--control",
                control,
                "--probes",
                &probes,
                "--identity",
                name,
            ])
            .args(["--lease-namespace", NAMESPACE])
            .args(flags.iter().copied());
        let start = if flags.contains(&"--all-namespaces") {
            start
        } else {
            start.args(["--namespace", NAMESPACE])
        };
        Self {
            process: None,
            start,
            probes,
            home: kube.home().to_owned(),
        }
    }

    #[track_caller]
    pub fn start_again(&mut self) {
        self.process = Some(self.start.spawn(&self.home));
        let process = self.process.as_mut().expect("just started");
        eventually("the operator to be ready", PATIENCE, || {
            process.must_run()?;
            match request(&self.probes, "GET", "/readyz", None, None) {
                Ok(Reply { status: 200, .. }) => Ok(()),
                Ok(reply) => Err(reply.body),
                Err(error) => Err(error.to_string()),
            }
        });
    }

    pub fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// The process aborts when a round next comes to this point.
    #[track_caller]
    pub fn arm(&self, point: &str) {
        let reply = request(
            &self.probes,
            "POST",
            &format!("/failpoints/{point}/1"),
            None,
            None,
        );
        assert_eq!(reply.expect("an answer").status, 204, "{point}");
    }

    /// Waits until the process has ended by itself.
    #[track_caller]
    pub fn wait_for_death(&mut self, what: &str) {
        let process = self.process.as_mut().expect("it runs");
        until(what, PATIENCE, || process.ended().is_some());
        self.process = None;
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("it runs").pid()
    }

    /// SIGTERM; it must end well.
    #[track_caller]
    pub fn stop(&mut self) {
        let status = self.process.take().expect("it runs").stop();
        assert!(status.success(), "{status}");
    }

    /// The figure of a metric with these labels, as they stand in the text.
    pub fn metric(&self, series: &str) -> f64 {
        // A process that has only just started may not answer yet.
        let Ok(reply) = request(&self.probes, "GET", "/metrics", None, None) else {
            return 0.0;
        };
        let line = reply.body.lines().find(|line| line.starts_with(series));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or(0.0)
    }

    /// What the probes' port answers.
    pub fn get(&self, path: &str) -> Reply {
        request(&self.probes, "GET", path, None, None).expect("an answer")
    }

    /// Rounds so far, of any result.
    pub fn rounds(&self) -> f64 {
        self.sum("tidemark_operator_reconciles_total{", "")
    }

    /// Requests so far by which the operator changed something in the cluster, or tried to; the lease aside.
    pub fn writes(&self) -> f64 {
        let requests = "tidemark_operator_api_requests_total{";
        ["status", "finalizer", "event"]
            .iter()
            .map(|kind| self.sum(requests, &format!("request=\"{kind}\"")))
            .sum()
    }

    /// The sum of all series that begin like this and have this label.
    fn sum(&self, name: &str, label: &str) -> f64 {
        let reply = request(&self.probes, "GET", "/metrics", None, None).expect("metrics");
        let lines = reply.body.lines();
        lines
            .filter(|line| line.starts_with(name) && line.contains(label))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// What there is left to do gets done; then every Topic is looked at once more and nothing is written at all.
    #[track_caller]
    pub fn settles(&self, kube: &KubeApi) {
        let mut look = 0;
        eventually("a round of every Topic without a write", PATIENCE, || {
            look += 1;
            let (rounds, writes) = (self.rounds(), self.writes());
            let annotation = format!("tests/look={look}");
            let args = ["annotate", "topics", "--all", "--overwrite", &annotation];
            let topics = kubectl(kube, args).run().lines().count();
            let topics = f64::from(u32::try_from(topics).expect("a handful"));
            until("a round for each", PATIENCE, || self.rounds() >= rounds + topics);
            let more = self.writes() - writes;
            if more < 1.0 {
                Ok(())
            } else {
                Err(format!("{more} writes"))
            }
        });
    }
}

/// A Topic of the namespace as JSON.
#[track_caller]
pub fn topic(kube: &KubeApi, name: &str) -> Value {
    let text = kubectl(kube, ["get", "topic", name, "-o", "json"]).run();
    serde_json::from_str(&text).expect("JSON")
}

/// `STATUS/REASON` of a condition, or `absent`.
pub fn condition(topic: &Value, kind: &str) -> String {
    let all = topic["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    match all.iter().find(|condition| condition["type"] == kind) {
        Some(found) => format!(
            "{}/{}",
            found["status"].as_str().unwrap_or(""),
            found["reason"].as_str().unwrap_or("")
        ),
        None => "absent".to_owned(),
    }
}

/// Waits until `Ready` of a Topic is `STATUS/REASON` and about its present generation; answers the Topic.
#[track_caller]
pub fn ready(kube: &KubeApi, name: &str, wanted: &str) -> Value {
    let kubectl = kubectl(kube, ["get", "topic", name, "-o", "json"]);
    eventually(&format!("Topic {name} to be {wanted}"), PATIENCE, || {
        let output = kubectl.output();
        let topic: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let current = topic["status"]["observedGeneration"] == topic["metadata"]["generation"];
        let unseen = wanted.starts_with("Unknown");
        if condition(&topic, "Ready") == wanted && (current || unseen) {
            Ok(topic)
        } else {
            Err(topic["status"].to_string())
        }
    })
}

/// kubectl in the namespace of `deploy/`.
#[track_caller]
pub fn kubectl<'a>(kube: &KubeApi, args: impl IntoIterator<Item = &'a str>) -> Start {
    kube.kubectl(["-n", NAMESPACE]).args(args)
}

/// Marks a Topic for deletion, and does not wait for its end.
#[track_caller]
pub fn delete(kube: &KubeApi, name: &str) {
    kubectl(kube, ["delete", "topic", name, "--wait=false"]).run();
}

/// Merges this into a Topic.
#[track_caller]
pub fn patch(kube: &KubeApi, name: &str, merge: &str) {
    kubectl(kube, ["patch", "topic", name, "--type=merge", "-p", merge]).run();
}

/// Pauses a Topic, or lets it go on.
#[track_caller]
pub fn pause(kube: &KubeApi, name: &str, paused: bool) {
    let annotation = if paused {
        "tidemark.dev/paused=true"
    } else {
        "tidemark.dev/paused-"
    };
    kubectl(kube, ["annotate", "topic", name, annotation]).run();
}

/// Applies a Topic with this spec in flow style.
#[track_caller]
pub fn apply(kube: &KubeApi, name: &str, spec: &str) {
    kube.apply(&manifest(name, spec));
}

pub fn manifest(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: {name}, namespace: {NAMESPACE}}}\nspec: {spec}\n"
    )
}

/// Reasons of the events about a Topic, in alphabetical order.
#[track_caller]
pub fn events(kube: &KubeApi, name: &str) -> Vec<String> {
    let told = events_about(kube, name).into_iter();
    let mut reasons: Vec<String> = told.map(|(reason, _)| reason).collect();
    reasons.sort();
    reasons
}

/// Waits for an event about a Topic with this reason; answers its note.
#[track_caller]
pub fn event(kube: &KubeApi, name: &str, reason: &str) -> String {
    eventually(&format!("an event {reason} of {name}"), PATIENCE, || {
        let told = events_about(kube, name);
        let found = told.iter().find(|(found, _)| found == reason);
        found.map(|(_, note)| note.clone()).ok_or(format!("{told:?}"))
    })
}

/// Reasons and notes of the events about a Topic.
#[track_caller]
fn events_about(kube: &KubeApi, name: &str) -> Vec<(String, String)> {
    let text = kubectl(kube, ["get", "events.events.k8s.io", "-o", "json"]).run();
    let list: Value = serde_json::from_str(&text).expect("JSON");
    let all = list["items"].as_array().cloned().unwrap_or_default();
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    all.iter()
        .filter(|event| event["regarding"]["name"] == name)
        .map(|event| (text(event, "reason"), text(event, "note")))
        .collect()
}

/// Waits until a Topic is gone.
#[track_caller]
pub fn gone(kube: &KubeApi, name: &str) {
    let kubectl = kubectl(kube, ["get", "topic", name]);
    until(&format!("Topic {name} to be gone"), PATIENCE, || {
        let output = kubectl.output();
        String::from_utf8_lossy(&output.stderr).contains("NotFound")
    });
}
