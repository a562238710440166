//! Tidemark on a whole Kubernetes node, by the commands that the documentation gives. Needs root and the peers: `tests/run node`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test needs it takes, or fails"
)]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod documentation;
mod images;
mod outages;
mod policy;
mod slow_reader;
mod uninstall;
mod upgrade;

use client::Client;
use slow_reader::HeldEdit;
use support::node::Node;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// One node, and a life on it in order: each step goes on where the one before ended.
#[test]
fn a_life_on_a_node() {
    let node = Node::start(images::build);
    give_a_disk(&node);
    install_as_the_readme_says(&node);
    let mut client = Client::start(&node);
    let kept = records("order", 3);
    assert_eq!(client.produce("Orders.v1", now_ms(), &kept), 0);
    assert_eq!(client.read("Orders.v1", 0, 3), kept);
    metrics_come_through_their_service(&node);
    HeldEdit::new(&node, &mut client, "payments", "billing").goes_in(&node, &mut client);

    policy::is_enforced(&node);

    let claim = claim_uid(&node);
    outages::kill_the_engine(&node);
    assert_eq!(client.read("Orders.v1", 0, 3), kept);
    outages::kill_the_pod(&node);
    assert_eq!(client.read("Orders.v1", 0, 3), kept);
    drop(client);
    outages::kill_what_runs_the_pods(&node, &kept);
    assert_eq!(claim_uid(&node), claim);

    let mut client = Client::start_again(&node);
    upgrade::there_and_back(&node, &mut client);
    assert_eq!(client.read("Orders.v1", 0, 3), kept);
    drop(client);

    uninstall::a_foreground_deletion_ends(&node);
    uninstall::all_but_the_namespace(&node);
    assert_eq!(Client::start_again(&node).read("Orders.v1", 0, 3), kept);
    uninstall::the_namespace_last(&node);
    let mut client = Client::start_again(&node);
    assert_eq!(client.read("Orders.v1", 0, 3), kept);
    uninstall::the_namespace_with_everything_in_it(&node, &mut client);
}

/// What a cluster has before anybody installs something: a default storage class and a disk.
fn give_a_disk(node: &Node) {
    node.apply(&format!(
        r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: disk, annotations: {{storageclass.kubernetes.io/is-default-class: "true"}}}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk}}
spec:
  storageClassName: disk
  capacity: {{storage: 20Gi}}
  accessModes: [ReadWriteOnce]
  local: {{path: {}}}
  nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [node]}}]}}]}}}}
"#,
        node.volume().display()
    ));
}

fn install_as_the_readme_says(node: &Node) {
    let output = node
        .command("bash")
        .args(["-euc", "kubectl apply -k deploy/"])
        .output();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "", "nothing in deploy/ is warned about");
    node.shell("kubectl -n tidemark wait --for=jsonpath='{.status.readyReplicas}'=1 statefulset/tidemark --timeout=5m");
    node.shell("kubectl -n tidemark apply -f deploy/examples/");
    node.shell("kubectl -n tidemark get topics");
    topics_are_ready(node);
    let shown = node.shell("kubectl -n tidemark get topics");
    for topic in ["audit", "clicks", "orders"] {
        let line = shown.lines().find(|line| line.starts_with(topic)).unwrap();
        assert!(line.contains("True") && line.contains("Applied"), "{shown}");
    }
}

fn topics_are_ready(node: &Node) {
    node.shell("kubectl -n tidemark wait --for=condition=Ready topics --all --timeout=3m");
}

fn metrics_come_through_their_service(node: &Node) {
    let leads = |text: &str| text.contains("tidemark_operator_leader 1");
    metrics(node, "/metrics", "the operator's metrics", leads);
    let serves = |text: &str| text.contains("Orders.v1");
    metrics(node, "/engine/metrics", "the engine's metrics", serves);
}

/// What whoever scrapes gets, when it is something that `accept` takes.
fn metrics(node: &Node, path: &str, what: &str, accept: impl Fn(&str) -> bool) {
    let service = "/api/v1/namespaces/tidemark/services/tidemark-metrics:metrics/proxy";
    node.eventually(what, &["get", "--raw", &format!("{service}{path}")], accept);
}

/// A line `name=id` for each Topic.
fn topic_ids(node: &Node) -> String {
    let ids = "jsonpath={range .items[*]}{.metadata.name}={.status.topicId}{\"\\n\"}{end}";
    node.kubectl(["-n", "tidemark", "get", "topics", "-o", ids]).run()
}

fn topic_id(node: &Node, name: &str) -> String {
    let ids = topic_ids(node);
    let id = ids
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    id.filter(|id| !id.is_empty()).expect("it has one").to_owned()
}

fn claim_uid(node: &Node) -> String {
    node.kubectl([
        "-n",
        "tidemark",
        "get",
        "pvc",
        "data-tidemark-0",
        "-o",
        "jsonpath={.metadata.uid} {.status.phase}",
    ])
    .run()
}

fn pod_uid(node: &Node) -> String {
    node.kubectl([
        "-n",
        "tidemark",
        "get",
        "pod",
        "tidemark-0",
        "-o",
        "jsonpath={.metadata.uid}",
    ])
    .run()
}

/// The pod of that name is another one than before, and ready.
fn another_pod_is_ready(node: &Node, before: &str) {
    let ready = "jsonpath={.metadata.uid} {.status.conditions[?(@.type==\"Ready\")].status}";
    node.eventually(
        "another pod to be ready",
        &["-n", "tidemark", "get", "pod", "tidemark-0", "-o", ready],
        |status| status.ends_with(" True") && !status.starts_with(before),
    );
}

fn records(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{what} {n}")).collect()
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    i64::try_from(now.as_millis()).unwrap()
}
