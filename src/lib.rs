//! Tidemark: Kafka topics whose retention never takes a record that a reader has not read.
pub mod commands;
pub mod engine;
pub mod log;
pub mod operator;
pub mod resource;
pub mod retention;
pub mod telemetry;
pub mod wire;
