//! The Kafka protocol.
pub mod client;
