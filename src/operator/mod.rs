//! Reconciles Topics: observe, plan, act, tell.
//!
//! Level-triggered: whatever was missed, repeated or reordered, the next look at the resource and at storage decides alone.
//! The same code serves a cluster and a directory of manifests; storage is reached through [`storage::Storage`] only.
pub mod backoff;
pub mod control_client;
#[cfg(test)]
mod fake_storage;
pub mod lease;
pub mod metrics;
pub mod notices;
pub mod plan;
pub mod probes;
pub mod reconcile;
pub mod source;
pub mod status;
pub mod storage;
