//! Tidemark on a whole Kubernetes node, by the commands that the documentation gives. Needs root and the peers: `tests/run node`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test needs it takes, or fails"
)]

#[path = "../support/mod.rs"]
mod support;

mod client;

use client::Client;
use std::path::{Path, PathBuf};
use support::node::{NODE_PATIENCE, Node};
use support::peers;
use support::process::Start;
use support::temp::TempDir;
use support::wait::eventually;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// One node, and a life on it in order: each step goes on where the one before ended.
#[test]
fn a_life_on_a_node() {
    let node = Node::start(build_images);
    give_a_disk(&node);
    install_as_the_readme_says(&node);
    let mut client = Client::start(&node);
    let kept = records("order", 3);
    assert_eq!(client.produce("Orders.v1", now_ms(), &kept), 0);
    assert_eq!(client.read("Orders.v1", 0, 3), kept);
    metrics_come_through_their_service(&node);
    a_slow_reader_holds_a_lowering(&node, &mut client);

    let claim = claim_uid(&node);
    kill_the_engine(&node);
    assert_eq!(client.read("Orders.v1", 0, 3), kept);
    kill_the_pod(&node);
    assert_eq!(client.read("Orders.v1", 0, 3), kept);
    drop(client);
    kill_what_runs_the_pods(&node, &kept);
    assert_eq!(claim_uid(&node), claim);
    let mut client = Client::start_again(&node);
    upgrade(&node);
    assert_eq!(client.read("Orders.v1", 0, 3), kept);
    drop(client);
    uninstall_and_come_back(&node);
    assert_eq!(claim_uid(&node), claim);
    let mut client = Client::start_again(&node);
    assert_eq!(client.read("Orders.v1", 0, 3), kept);
    a_foreground_deletion_ends(&node);
    the_namespace_is_deleted_with_everything_in_it(&node, &mut client);
}

/// The image of this version, and the next one.
fn build_images(folder: &Path) {
    let build = || {
        // A folder of its own: a static build shares nothing with that of the tests. It stays, so only the first run is slow.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("static");
        Start::new("deploy/image/build", peers::source("deploy/image/build"))
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_INCREMENTAL", "0")
            .env("RUSTFLAGS", "-C debuginfo=0")
            .args(["--profile", "dev"])
    };
    build().arg(folder.join("tidemark.tar")).run();
    build()
        .args(["--tag", "tidemark:next"])
        .arg(folder.join("next.tar"))
        .run();
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
    let service = "/api/v1/namespaces/tidemark/services/tidemark-metrics:metrics/proxy";
    let operator = node
        .kubectl(["get", "--raw", &format!("{service}/metrics")])
        .run();
    assert!(operator.contains("tidemark_operator_leader 1"), "{operator}");
    let engine = node
        .kubectl(["get", "--raw", &format!("{service}/engine/metrics")])
        .run();
    assert!(engine.contains("Orders.v1"), "{engine}");
}

fn a_slow_reader_holds_a_lowering(node: &Node, client: &mut Client) {
    let manifest = |retention: &str| {
        format!(
            "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: payments, namespace: tidemark}}\n\
             spec: {{partitions: 1, config: {{retention.ms: {retention}, segment.ms: 1h}}, readers: {{headroom: 10m}}}}\n"
        )
    };
    node.apply(&manifest("3d"));
    topics_are_ready(node);
    let two_days_ago = now_ms() - 2 * DAY_MS;
    client.produce("payments", two_days_ago, &records("read", 10));
    client.catch_up("billing", "payments", 10);
    client.produce("payments", two_days_ago, &records("unread", 1000));
    client.produce("payments", now_ms(), &records("new", 5));

    node.apply(&manifest("1d"));
    node.shell("kubectl -n tidemark wait --for=condition=Stalled topic/payments --timeout=3m");
    let shown = node.shell("kubectl -n tidemark get topics");
    let line = shown.lines().find(|line| line.starts_with("payments")).unwrap();
    let columns: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        columns[..7],
        [
            "payments",
            "1",
            "3d",
            "unlimited",
            "False",
            "SlowReader",
            "billing"
        ],
        "{shown}"
    );
    node.eventually(
        "the event that says what was refused",
        &["-n", "tidemark", "get", "events.events.k8s.io"],
        |events| {
            events.contains("group billing, partition 0: at offset 10") && events.contains("1000 records")
        },
    );

    client.catch_up("billing", "payments", 1005);
    node.shell("kubectl -n tidemark wait --for=condition=Ready topic/payments --timeout=3m");
    let shown = node.shell("kubectl -n tidemark get topic payments");
    assert!(shown.contains("1d"), "{shown}");
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

fn kill_the_engine(node: &Node) {
    node.kill_process("/tidemark engine");
    let engine =
        "jsonpath={.status.initContainerStatuses[0].restartCount} {.status.initContainerStatuses[0].ready}";
    node.eventually(
        "the engine to be ready again",
        &["-n", "tidemark", "get", "pod", "tidemark-0", "-o", engine],
        |status| status == "1 true",
    );
    topics_are_ready(node);
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
    topics_are_ready(node);
}

fn kill_the_pod(node: &Node) {
    let before = pod_uid(node);
    node.shell("kubectl -n tidemark delete pod tidemark-0 --grace-period=0 --force");
    another_pod_is_ready(node, &before);
}

/// containerd and the kubelet die and come back. The pods go on meanwhile, and nothing of theirs is lost.
fn kill_what_runs_the_pods(node: &Node, kept: &[String]) {
    let pod = "jsonpath={.metadata.uid} {.status.initContainerStatuses[0].restartCount} {.status.containerStatuses[0].restartCount}";
    let pod = ["-n", "tidemark", "get", "pod", "tidemark-0", "-o", pod];
    let before = node.kubectl(pod).run();
    for command_line in [
        "containerd --config containerd.toml",
        "kubelet --config=kubelet.yaml --kubeconfig=kubeconfig --hostname-override=node --node-ip=10.98.0.1",
    ] {
        node.kill_process(command_line);
        // A new pod needs both of them; what it reads needs the pod that was there.
        assert_eq!(
            Client::start_again(node).read("Orders.v1", 0, 3),
            kept,
            "{command_line}"
        );
        node.kubectl(["wait", "--for=condition=Ready", "node/node", "--timeout=120s"])
            .run();
        topics_are_ready(node);
        assert_eq!(
            node.kubectl(pod).run(),
            before,
            "{command_line}: the same pod, not restarted"
        );
    }
}

fn upgrade(node: &Node) {
    let before = pod_uid(node);
    let overlay = TempDir::new("overlay");
    // Kustomize takes a base by a relative path only.
    let ups = overlay.path().canonicalize().unwrap().components().count() - 1;
    let base = format!("{}{}", "../".repeat(ups), &env!("CARGO_MANIFEST_DIR")[1..]);
    std::fs::write(
        overlay.join("kustomization.yaml"),
        format!("resources: [{base}/deploy]\nimages: [{{name: tidemark, newTag: next}}]\n"),
    )
    .unwrap();
    node.shell(&format!("kubectl apply -k {}", overlay.path().display()));
    another_pod_is_ready(node, &before);
    let image = node
        .kubectl([
            "-n",
            "tidemark",
            "get",
            "pod",
            "tidemark-0",
            "-o",
            "jsonpath={.spec.containers[*].image} {.spec.initContainers[*].image}",
        ])
        .run();
    assert_eq!(image, "tidemark:next tidemark:next");
}

fn uninstall_and_come_back(node: &Node) {
    node.shell("kubectl -n tidemark delete topics --all --timeout=3m");
    node.shell("kubectl delete -k deploy/ -l tidemark.dev/uninstall!=keep");
    eventually("the pod to be gone", NODE_PATIENCE, || {
        let pods = node
            .kubectl(["-n", "tidemark", "get", "pods", "-o", "name"])
            .run();
        if pods.is_empty() { Ok(()) } else { Err(pods) }
    });
    let log: PathBuf = node.volume().join("logs/Orders.v1-0/00000000000000000000.log");
    assert!(std::fs::metadata(log).unwrap().len() > 0);
    node.shell("kubectl apply -k deploy/");
    node.shell("kubectl -n tidemark rollout status statefulset/tidemark --timeout=5m");
    node.shell("kubectl -n tidemark apply -f deploy/examples/");
    topics_are_ready(node);
}

fn data_of(node: &Node, topic: &str) -> u64 {
    let folder = node.volume().join(format!("logs/{topic}-0"));
    let logs = std::fs::read_dir(folder).into_iter().flatten().flatten();
    logs.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "log"))
        .map(|entry| entry.metadata().map_or(0, |metadata| metadata.len()))
        .sum()
}

/// As a GitOps tool prunes: with the garbage collector's own finalizer on the resource.
fn a_foreground_deletion_ends(node: &Node) {
    let manifest = |policy: &str| {
        format!(
            "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: pruned, namespace: tidemark}}\n\
             spec: {{partitions: 1, deletionPolicy: {policy}}}\n"
        )
    };
    let folder = node.volume().join("logs/pruned-0");
    for (policy, stays) in [("Retain", true), ("Delete", false)] {
        node.apply(&manifest(policy));
        topics_are_ready(node);
        node.shell("kubectl -n tidemark delete topic pruned --cascade=foreground --timeout=60s");
        eventually("the data to be as the policy says", NODE_PATIENCE, || {
            (folder.exists() == stays).then_some(()).ok_or(policy)
        });
    }
}

/// The way that the documentation warns of: the namespace goes with the operator in it, while a Topic waits for a reader.
fn the_namespace_is_deleted_with_everything_in_it(node: &Node, client: &mut Client) {
    node.apply(
        "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {name: payments, namespace: tidemark}\n\
         spec: {partitions: 1, config: {retention.ms: 1d, segment.ms: 1h}, deletionPolicy: Delete}\n",
    );
    topics_are_ready(node);
    client.produce("payments", now_ms(), &records("unread", 7));
    let kept = [data_of(node, "payments"), data_of(node, "Orders.v1")];
    assert!(kept.iter().all(|bytes| *bytes > 0), "{kept:?}");
    node.shell("kubectl delete namespace tidemark --wait=false");
    node.eventually(
        "everything but Topics that wait to be gone",
        &["-n", "tidemark", "get", "pods,statefulsets,topics", "-o", "name"],
        |left| {
            // The example that asks for it may wait too, if the operator was ended before it came to it.
            let waits = |line: &str| line.starts_with("topic.tidemark.dev/");
            left.contains("topic.tidemark.dev/payments") && left.lines().all(waits)
        },
    );
    let documentation = std::fs::read_to_string(peers::source("deploy/docs/kubernetes.md")).unwrap();
    let command = documentation
        .split('`')
        .find(|text| text.contains("finalizers\":null"))
        .expect("the documentation gives one command");
    node.shell(command);
    eventually("the namespace to be gone", NODE_PATIENCE, || {
        let left = node
            .kubectl(["get", "namespace", "tidemark", "--ignore-not-found", "-o", "name"])
            .run();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    assert_eq!(
        [data_of(node, "payments"), data_of(node, "Orders.v1")],
        kept,
        "the volume keeps what was on it"
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
