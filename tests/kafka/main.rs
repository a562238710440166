//! Apache Kafka 4.4.0 as the judge: what it does with the same records, settings and directories. Needs the peers: `tests/run kafka`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test needs it takes, or fails"
)]

#[path = "../support/mod.rs"]
mod support;

mod broker;
mod committed;
mod deleted_topic;
mod differences;
mod directory;
mod from_kafka;
mod group_side;
mod groups;
mod pair;
mod script;
mod script_side;
mod scripts;
mod to_kafka;
