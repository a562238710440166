//! A thousand Topics: how many requests one costs, and that a settled operator makes none. Run by
//! `cargo test --features peers --test operator scale -- --ignored`.
use crate::running::{NAMESPACE, Operator, install, manifest};
use crate::stub::Stub;
use crate::support::kube::KubeApi;
use crate::support::wait::until;
use std::time::Duration;

const TOPICS: usize = 1_000;

#[test]
#[ignore = "takes minutes"]
fn a_thousand_topics_cost_three_requests_each_and_nothing_when_settled() {
    let kube = KubeApi::start();
    install(&kube);
    let stub = Stub::start();
    let operator = Operator::start(&kube, &stub.control());
    let documents: Vec<String> = (0..TOPICS)
        .map(|number| {
            manifest(
                &format!("topic-{number}"),
                "{partitions: 3, config: {retention.ms: 7d, retention.bytes: 1Gi}}",
            )
        })
        .collect();
    kube.kubectl(["create", "-f", "-"])
        .run_with(documents.join("---\n").as_bytes());
    let settled =
        || operator.metric("tidemark_operator_topics{ready=\"True\",reason=\"Applied\"}") as usize == TOPICS;
    until("a thousand Topics to be ready", Duration::from_secs(600), settled);
    let requests = || {
        ["status", "event", "finalizer", "owner", "list"]
            .map(|kind| {
                operator.metric(&format!(
                    "tidemark_operator_api_requests_total{{request=\"{kind}\",result=\"ok\"}}"
                ))
            })
            .iter()
            .sum::<f64>()
    };
    let versions = || {
        kube.kubectl([
            "get",
            "topics",
            "-n",
            NAMESPACE,
            "-o",
            "jsonpath={.items[*].metadata.resourceVersion}",
        ])
        .run()
    };
    let (spent, before, rounds) = (requests(), versions(), operator.rounds());
    assert!(spent <= 3.0 * TOPICS as f64, "{spent} requests");
    // Every Topic is looked at once more.
    stub.tell("TopicChanged", "");
    until("a round for each", Duration::from_secs(300), || {
        operator.rounds() >= rounds + TOPICS as f64
    });
    assert_eq!(versions(), before);
    assert!(
        (requests() - spent).abs() < 0.5,
        "a settled operator asks nothing"
    );
    println!("{TOPICS} Topics: {spent} requests, {rounds} rounds");
}
