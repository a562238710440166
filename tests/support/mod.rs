//! What every test tier shares: folders that go away, free ports, guarded processes, waiting for an event with a deadline, and the
//! real peers (Apache Kafka, a Kubernetes API server, kcat, the `tidemark` binary itself).
//!
//! Used with `#[path = "../support/mod.rs"] mod support;`. Everything here panics when it cannot do its work: a peer that is missing or
//! a process that does not come up fails the test that wanted it, with the end of that process's log in the message.
#![allow(dead_code, reason = "each tier uses its own part")]

pub mod kafka;
pub mod kcat;
pub mod kube;
pub mod node;
pub mod peers;
pub mod ports;
pub mod process;
pub mod temp;
pub mod tidemark;
pub mod volume;
pub mod wait;
