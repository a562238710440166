//! The operator on a real API server and etcd. Needs the peers: `tests/run operator`.
#[path = "../support/mod.rs"]
mod support;

mod api_server;
mod faults;
mod gitops;
mod permissions;
mod proxy;
mod running;
mod scenes;
mod schema;
mod stub;
mod with_engine;
