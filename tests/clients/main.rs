//! Unmodified Kafka clients of every make against Tidemark. Needs the peers: `tests/run clients`.
#[path = "../support/mod.rs"]
mod support;

#[path = "../support/selftest.rs"]
mod selftest;
