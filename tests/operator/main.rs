//! The operator on a real API server and etcd. Needs the peers: `tests/run operator`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test needs it takes, or fails"
)]

#[path = "../support/mod.rs"]
mod support;

mod api_server;
mod cases;
mod clock;
mod faults;
mod fleet;
mod gitops;
mod kills;
mod monitoring;
mod outages;
mod permissions;
mod proxy;
mod running;
mod scale;
mod scenes;
mod schema;
mod stub;
mod volume;
mod with_engine;
