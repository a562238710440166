//! The Kafka protocol: frames, the table of APIs, one file per API, and the group coordinator.
//!
//! Nothing here knows how topics are kept; the engine stands behind [`broker::Broker`]. Every length that comes from
//! the network is checked before memory is taken for it.
pub mod apis;
pub mod broker;
pub mod client;
mod connection;
mod encode;
mod ended;
pub mod error_code;
mod fetch;
pub mod frame;
pub mod groups;
#[cfg(test)]
mod hostile_tests;
pub mod limits;
pub mod listener;
pub mod partition;
mod produce;
pub mod reader;
pub mod refusal;
pub mod registry;
pub mod reply;
pub mod schema;
mod server;
#[cfg(test)]
mod test_broker;
#[cfg(test)]
mod test_requests;
