//! Unmodified Kafka clients of every make against Tidemark. Needs the peers: `tests/run clients`.
//!
//! `cells/` says once what is tested; `adapter` talks to the program of each client; `matrix` runs all cells with all clients and holds
//! the list of what a client cannot do. kcat and Kafka's own tools have their cells in `kcat` and `tools`. With
//! `TIDEMARK_CLIENTS_AGAINST=kafka` the same cells run against Apache Kafka: that is how one knows that a cell is right.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test needs it takes, or fails"
)]

#[path = "../support/mod.rs"]
mod support;

mod adapter;
mod broker;
mod cells;
mod guard;
mod kcat;
mod matrix;
mod sasl;
mod tools;
mod transactions;

#[path = "../support/selftest.rs"]
mod selftest;
