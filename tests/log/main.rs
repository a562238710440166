//! The partition log held to Kafka's rules: numbered scenarios, worked examples, a model, faults.
//!
//! The numbers are those of the scenario tables that the README of this folder lists, together with the ones that lie outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test needs it takes, or fails"
)]

mod bench;

mod appending;
mod cases;
mod faults;
mod file_handling;
mod gaps;
mod inspect_command;
mod kill;
mod log_start;
mod model;
mod power_loss;
mod random_damage;
mod reading;
mod recovery;
mod rolling;
mod size_retention;
mod stress;
mod time_retention;
mod transactions;
mod volatile;
mod worked_examples;
