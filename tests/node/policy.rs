//! `deploy/networkpolicy.yaml` on a cluster that enforces what it says.
use crate::metrics;
use crate::support::node::{NODE_PATIENCE, Node, Place};
use crate::support::process::ProcessGuard;
use crate::support::temp::TempDir;
use crate::support::wait::eventually;

const CLIENT: Place = Place::Container("client");
const KAFKA: u16 = 9092;
const METRICS: u16 = 9098;
/// No port of Tidemark's: a second operator in the pod listens there, which leaves the work to the first.
const OTHER: u16 = 9100;

const ALLOWED: [(Place, u16); 2] = [(CLIENT, KAFKA), (CLIENT, METRICS)];
const FORBIDDEN: [(Place, u16); 2] = [(CLIENT, OTHER), (Place::Outside, KAFKA)];

/// The same connections with and without the policy, and with and without somebody who enforces it.
pub fn is_enforced(node: &Node) {
    let address = "jsonpath={.status.podIP}";
    let address = node
        .kubectl(["-n", "tidemark", "get", "pod", "tidemark-0", "-o", address])
        .run();
    let logs = TempDir::new("policy");
    let _listener = listen_on_another_port(node, &logs);
    let all = |places: [(Place, u16); 2], wanted: bool| {
        for (from, port) in places {
            eventually("connections as the policy says", NODE_PATIENCE, || {
                let found = node.connects(from, &address, port);
                (found == wanted)
                    .then_some(())
                    .ok_or(format!("{from:?}, port {port}: {found}"))
            });
        }
    };
    let everything_is_open = || {
        all(ALLOWED, true);
        all(FORBIDDEN, true);
    };
    let the_policy_holds = || {
        all(FORBIDDEN, false);
        all(ALLOWED, true);
        for (from, port) in FORBIDDEN {
            assert!(!node.connects(from, &address, port), "{from:?}, port {port}");
        }
        metrics(node, "/metrics", "the node's own way in", |text| {
            text.contains("tidemark_operator_leader 1")
        });
    };
    everything_is_open();
    let mut enforcing = node.enforce_policies();
    the_policy_holds();
    node.shell("kubectl -n tidemark delete networkpolicy tidemark");
    everything_is_open();
    node.shell("kubectl apply -k deploy/");
    the_policy_holds();
    assert!(enforcing.stop().success());
    everything_is_open();
}

fn listen_on_another_port(node: &Node, logs: &TempDir) -> ProcessGuard {
    let probes = format!("0.0.0.0:{OTHER}");
    node.kubectl(["-n", "tidemark", "exec", "tidemark-0", "-c", "operator", "--"])
        .args([
            "/tidemark",
            "operator",
            "--identity",
            "second",
            "--probes",
            &probes,
        ])
        .spawn(logs.path())
}
