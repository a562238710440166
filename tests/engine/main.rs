//! The engine as a whole: a real one on a temporary directory, with a clock that the test moves, reached as its users reach it: over the
//! Kafka protocol and the control API. No peers are needed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test needs it takes, or fails"
)]

#[path = "../../fuzz/entry_points.rs"]
#[allow(dead_code, reason = "shared with the fuzz targets, which use the rest")]
mod entry_points;
#[path = "../support/mod.rs"]
mod support;

mod away;
mod changes;
mod clock;
mod control;
#[cfg(feature = "failpoints")]
mod crash;
mod disk;
mod doors;
mod future;
mod fuzz;
mod groups;
mod guard;
#[cfg(feature = "failpoints")]
mod hammer;
mod hostile;
mod kill;
mod kill_load;
mod log_directory;
mod members;
mod open_transaction;
mod paused;
mod readers;
mod remembered;
mod scene;
mod segments;
#[cfg(feature = "failpoints")]
mod slow_disk;
