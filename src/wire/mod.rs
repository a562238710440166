//! The Kafka protocol.
pub mod client;
pub mod groups;
