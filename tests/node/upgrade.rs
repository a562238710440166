//! From this release to the next one and back, by the command that the documentation gives.
use crate::client::Client;
use crate::images::{THIS, next, next_release};
use crate::slow_reader::HeldEdit;
use crate::support::node::Node;
use crate::support::peers;
use crate::{another_pod_is_ready, claim_uid, metrics, pod_uid, topic_ids, topics_are_ready};
use std::path::Path;

pub fn there_and_back(node: &Node, client: &mut Client) {
    runs(node, THIS);
    let held = HeldEdit::new(node, client, "invoices", "ledger");
    replace(node, client, &next_release(), &next(), held);
    let held = HeldEdit::new(node, client, "refunds", "returns");
    replace(node, client, &peers::source(""), THIS, held);
}

/// The release in `tree` takes the place of the one that runs. An edit that waits goes on waiting, and goes in when its time has come;
/// nothing else changes.
fn replace(node: &Node, client: &mut Client, tree: &Path, version: &str, held: HeldEdit) {
    let before = (claim_uid(node), topic_ids(node));
    let pod = pod_uid(node);
    node.shell(&format!("cd {} && kubectl apply -k deploy/", tree.display()));
    another_pod_is_ready(node, &pod);
    runs(node, version);
    held.waits(node);
    held.goes_in(node, client);
    topics_are_ready(node);
    assert_eq!((claim_uid(node), topic_ids(node)), before);
}

/// Engine and operator that answer are of this version.
fn runs(node: &Node, version: &str) {
    for (path, metric) in [
        ("/metrics", "tidemark_operator_build_info"),
        ("/engine/metrics", "tidemark_build_info"),
    ] {
        let wanted = format!("{metric}{{version=\"{version}\",");
        metrics(node, path, &wanted, |text| text.contains(&wanted));
    }
}
