//! One partition's log on disk, in Kafka's own format in both directions.
//!
//! From the bytes up: [`files`] is the only door to the file system; [`batch`] and [`records`] know what a record batch is;
//! checkpoints, epochs, producers and transactions each have a file format of their own.
pub mod batch;
pub mod batch_file;
pub mod checkpoints;
pub mod compression;
pub mod error;
#[doc(hidden)]
pub mod faults;
pub mod files;
pub mod leader_epochs;
pub mod legacy;
pub mod names;
pub mod producer_state;
pub mod records;
pub mod snapshot;
pub mod txn_index;
pub mod validate;
