//! The Kafka protocol: frames, the table of APIs, one file per API, and the group coordinator.
//!
//! Nothing here knows how topics are kept; the engine stands behind [`broker::Broker`]. Every length that comes from
//! the network is checked before memory is taken for it.
pub mod apis;
pub mod broker;
pub mod client;
pub mod error_code;
pub mod frame;
pub mod groups;
pub mod limits;
pub mod partition;
pub mod reader;
pub mod registry;
pub mod schema;
