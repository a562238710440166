//! What a topic is asked to be: the Topic resource, names, settings, units, and the words that engine and operator share.
//!
//! Everything here is pure. The engine, the operator and the command line read the same table of keys and the same
//! parser, so that a value means one thing wherever it is written.
pub mod columns;
pub mod conditions;
pub mod contract;
pub mod crd;
pub mod desired;
pub mod keys;
pub mod manifest;
pub mod names;
pub mod schema;
pub mod settings;
mod slips;
pub mod status;
pub mod topic;
pub mod units;
pub mod value;
