//! The engine: it owns a data directory, and nothing but the engine knows how to delete.
//!
//! Everything that could move a log start offset passes through here: retention passes, record deletion, topic
//! deletion and every change of settings. The invariant this room keeps: what decides about deletion is durable
//! before the first byte goes, and a full disk can always be freed.
pub mod clock_guard;
pub mod config;
pub mod data_directory;
pub mod events;
pub mod positions;
pub mod readers;
pub mod refusal;
pub mod store;
pub mod topics;
