//! Tidemark: Kafka topics whose retention never takes a record that a reader has not read.
//!
//! The rooms, from top to bottom; each imports only from those below it:
//!
//! | room | what it is |
//! |---|---|
//! | [`commands`] | the command line |
//! | [`operator`] | keeps declared Topics in force on one engine, which it reaches through one narrow trait |
//! | [`engine`] | owns a data directory; nothing else knows how to delete |
//! | [`wire`] | the Kafka protocol and the group coordinator |
//! | [`log`] | one partition on disk, in Kafka's own format |
//! | [`retention`] | pure: what a pass deletes, and who would lose by a change |
//! | [`resource`] | pure: the Topic resource, its settings and units, and the words that engine and operator share |
//! | [`telemetry`] | clocks, metrics, tracing |
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
