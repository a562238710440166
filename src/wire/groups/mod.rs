//! Consumer groups: who reads what, and how far.
//!
//! The coordinator is a state machine without I/O. Requests and the time go in; answers, records to keep
//! and the next deadline come out. Whoever drives it (`engine::positions`) keeps the records durably,
//! sends the answers and wakes it in time, so every rule here can be tested without a clock or a socket.
pub mod classic;
pub mod commits;
pub mod config;
pub mod consumer;
pub mod coordinator;
#[cfg(test)]
mod harness;
pub mod member_protocol;
pub mod messages;
pub mod offsets;
pub mod output;
pub mod readers;
pub mod record;
mod room;
pub mod service;
pub mod topics;
mod weight;

pub use config::GroupConfig;
pub use coordinator::Coordinator;
pub use service::GroupService;
