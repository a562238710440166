//! What runs Tidemark ends without a word, and comes back.
use crate::client::Client;
use crate::support::node::Node;
use crate::{another_pod_is_ready, pod_uid, topics_are_ready};

pub fn kill_the_engine(node: &Node) {
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

pub fn kill_the_pod(node: &Node) {
    let before = pod_uid(node);
    node.shell("kubectl -n tidemark delete pod tidemark-0 --grace-period=0 --force");
    another_pod_is_ready(node, &before);
    topics_are_ready(node);
}

/// containerd and the kubelet die and come back. The pods go on meanwhile, and nothing of theirs is lost.
pub fn kill_what_runs_the_pods(node: &Node, kept: &[String]) {
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
