//! Consumer groups: who reads what, and how far.
//!
//! The coordinator is a state machine without I/O. Requests and the time go in; answers, records to keep
//! and the next deadline come out. Whoever drives it (`engine::positions`) keeps the records durably,
//! sends the answers and wakes it in time, so every rule here can be tested without a clock or a socket.
pub mod messages;
pub mod service;

pub use service::GroupService;
