//! One partition's log on disk, in Kafka's own format in both directions.
//!
//! From the bytes up: [`files`] is the only door to the file system; [`batch`], [`records`] and [`record`] know what a record batch is;
//! checkpoints, epochs, producers and transactions each have a file format of their own. [`partition`] puts them together: one
//! partition's log with its segments and indexes, with a file for each thing it does ([`append`], [`read`], [`retain`] and so on).
pub mod append;
pub mod batch;
pub mod batch_file;
pub mod checkpoints;
pub mod compression;
pub mod damage;
pub mod delete;
mod due;
pub mod error;
#[doc(hidden)]
pub mod faults;
pub mod files;
pub mod flush;
pub mod guard;
pub mod handles;
pub mod index;
pub mod index_file;
pub mod inspect;
pub mod leader_epochs;
mod leftovers;
pub mod legacy;
pub mod lookup;
pub mod names;
pub mod partition;
pub mod producer_state;
pub mod read;
pub mod record;
pub mod records;
pub mod recovery;
mod replay;
pub mod retain;
pub mod roll;
mod scan;
pub mod segment;
pub mod snapshot;
pub mod time_index;
pub mod txn_index;
pub mod validate;
pub mod waiters;
