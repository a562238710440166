//! What Topics cost: `cargo bench --features peers --bench operator [-- TOPICS…]`, by default 1,000 and 10,000.
//!
//! A real API server and etcd, the operator as a process under its Role, and a control API in memory, so that the figures
//! are the operator's own. Requests and pages are checked; times, memory and processor time are printed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "what a measurement needs it takes, or fails; the tests use the rest"
)]

use std::time::Duration;

#[path = "../tests/operator/fleet.rs"]
mod fleet;
#[path = "../tests/operator/proxy.rs"]
mod proxy;
#[path = "../tests/operator/running.rs"]
mod running;
#[path = "../tests/operator/stub.rs"]
mod stub;
#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    let asked: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let sizes = if asked.is_empty() {
        vec![1_000, 10_000]
    } else {
        asked
    };
    let mut fleet = fleet::Fleet::start();
    for topics in sizes {
        let figures = fleet.grow_to(topics, Duration::from_secs(60));
        println!("{figures}");
        assert!(figures.requests_per_topic <= 3.0, "{figures}");
    }
}
