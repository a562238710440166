//! Tidemark: Kafka topics whose retention never takes a record that a reader has not read.
// A print panics when its reader has gone; `commands::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]
pub mod commands;
pub mod engine;
pub mod log;
pub mod operator;
pub mod resource;
pub mod retention;
pub mod telemetry;
pub mod wire;
