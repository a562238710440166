//! (room)
pub mod contract;
