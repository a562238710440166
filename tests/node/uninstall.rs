//! Ways to take Tidemark off a cluster, and what stays on its volume.
use crate::client::Client;
use crate::documentation::command;
use crate::support::node::{NODE_PATIENCE, Node};
use crate::support::wait::eventually;
use crate::{claim_uid, now_ms, records, topic_id, topics_are_ready};

/// The Topics first, then all but the namespace: the claim stays, and what is installed again goes on with it.
pub fn all_but_the_namespace(node: &Node) {
    let before = (claim_uid(node), topic_id(node, "orders"));
    topics_and_the_rest(node);
    install_again(node);
    assert_eq!((claim_uid(node), topic_id(node, "orders")), before);
}

/// The same, and then the namespace. Nothing holds it; what is on the volume is kept, and taken up by a new installation.
pub fn the_namespace_last(node: &Node) {
    let before = topic_id(node, "orders");
    let kept = data_of(node, "Orders.v1");
    assert!(kept > 0);
    topics_and_the_rest(node);
    node.shell(&command("delete namespace"));
    let left = node
        .kubectl(["get", "namespace", "tidemark", "--ignore-not-found", "-o", "name"])
        .run();
    assert_eq!(left, "", "the command waits for its end");
    assert_eq!(
        data_of(node, "Orders.v1"),
        kept,
        "the volume keeps what was on it"
    );

    node.eventually(
        "the volume to be free of its claim",
        &["get", "pv", "disk", "-o", "jsonpath={.status.phase}"],
        |phase| phase == "Released",
    );
    node.shell(&command("claimRef").replace("NAME", "disk"));
    install_again(node);
    assert_eq!(topic_id(node, "orders"), before);
}

fn topics_and_the_rest(node: &Node) {
    node.shell(&command("delete topics --all"));
    node.shell(&command("tidemark.dev/uninstall"));
    eventually("the pod to be gone", NODE_PATIENCE, || {
        let pods = node
            .kubectl(["-n", "tidemark", "get", "pods", "-o", "name"])
            .run();
        if pods.is_empty() { Ok(()) } else { Err(pods) }
    });
    assert!(data_of(node, "Orders.v1") > 0);
}

fn install_again(node: &Node) {
    node.shell("kubectl apply -k deploy/");
    node.shell("kubectl -n tidemark rollout status statefulset/tidemark --timeout=5m");
    node.shell("kubectl -n tidemark apply -f deploy/examples/");
    topics_are_ready(node);
}

/// As a GitOps tool prunes: with the garbage collector's own finalizer on the resource.
pub fn a_foreground_deletion_ends(node: &Node) {
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
        node.shell("kubectl -n tidemark delete topic pruned --cascade=foreground");
        eventually("the data to be as the policy says", NODE_PATIENCE, || {
            (folder.exists() == stays).then_some(()).ok_or(policy)
        });
    }
}

/// The way that the documentation warns of: the namespace goes with the operator in it, while a Topic waits for a reader.
pub fn the_namespace_with_everything_in_it(node: &Node, client: &mut Client) {
    node.apply(
        "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {name: payments, namespace: tidemark}\n\
         spec: {partitions: 1, config: {retention.ms: 1d, segment.ms: 1h}, deletionPolicy: Delete}\n",
    );
    topics_are_ready(node);
    client.produce("payments", now_ms(), &records("unread", 7));
    node.shell("kubectl delete namespace tidemark --wait=false");
    node.eventually(
        "everything but Topics to be gone",
        &["-n", "tidemark", "get", "pods,statefulsets,topics", "-o", "name"],
        |left| left.lines().all(|line| line.starts_with("topic.tidemark.dev/")),
    );
    let waiting = "jsonpath={range .items[*]}{.metadata.name} {.metadata.finalizers}{\"\\n\"}{end}";
    node.eventually(
        "every Topic that nothing holds to be gone too",
        &["-n", "tidemark", "get", "topics", "-o", waiting],
        |left| {
            // The example that asks for it may wait too, if the operator was ended before it came to it.
            let waits = |line: &str| line.contains("tidemark.dev/");
            left.contains("payments ") && left.lines().all(waits)
        },
    );
    let data = || ["payments", "Orders.v1"].map(|topic| data_of(node, topic));
    let kept = data();
    assert!(kept.iter().all(|bytes| *bytes > 0), "{kept:?}");
    node.shell(&command("finalizers\":null"));
    eventually("the namespace to be gone", NODE_PATIENCE, || {
        let left = node
            .kubectl(["get", "namespace", "tidemark", "--ignore-not-found", "-o", "name"])
            .run();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    assert_eq!(data(), kept, "the volume keeps what was on it");
}

fn data_of(node: &Node, topic: &str) -> u64 {
    let folder = node.volume().join(format!("logs/{topic}-0"));
    let logs = std::fs::read_dir(folder).into_iter().flatten().flatten();
    logs.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "log"))
        .map(|entry| entry.metadata().map_or(0, |metadata| metadata.len()))
        .sum()
}
