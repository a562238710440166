//! The engine: it owns a data directory, and nothing but the engine knows how to delete.
//!
//! Everything that could move a log start offset passes through here: retention passes, record deletion, topic
//! deletion and every change of settings. The invariant this room keeps: what decides about deletion is durable
//! before the first byte goes, and a full disk can always be freed.
mod accepted;
mod broker;
pub mod clock_guard;
pub mod config;
mod control;
pub mod data_directory;
mod error;
pub mod events;
mod group_service;
pub mod guarded;
pub mod health;
pub mod housekeeping;
pub mod log_starts;
mod observe;
pub mod offline;
pub mod positions;
pub mod producer_ids;
pub mod readers;
pub mod refusal;
pub mod removals;
mod scrape;
mod start;
pub mod store;
pub mod topics;
mod watch;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use error::EngineError;
pub use start::Platform;

use clock_guard::ClockGuard;
use config::EngineConfig;
use data_directory::DataDirectory;
use events::Events;
use guarded::pending::PendingChanges;
use health::StorageHealth;
use housekeeping::Housekeeping;
use log_starts::DurableLogStarts;
use positions::Positions;
use producer_ids::ProducerIds;
use readers::Gate;
use removals::Removals;
use store::Store;
use topics::catalog::Catalog;

use crate::log::checkpoints::Offsets;
use crate::log::files::Files;
use crate::log::handles::HandleCache;
use crate::telemetry::metrics::Metrics;
use crate::wire::broker::Endpoint;

/// A running engine. Its methods are in the files of this room that they belong to; those that block say so.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) directory: DataDirectory,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) store: Store,
    pub(crate) clock_guard: ClockGuard,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) health: StorageHealth,
    /// Commits and passes share it, a change has it alone.
    pub(crate) gate: Arc<Gate>,
    /// One change of topics or settings at a time. Taken before the gate.
    pub(crate) changes: Mutex<()>,
    pub(crate) catalog: Catalog,
    pub(crate) log_starts: Arc<DurableLogStarts>,
    pub(crate) handles: Arc<HandleCache>,
    pub(crate) producer_ids: ProducerIds,
    pub(crate) pending: Arc<PendingChanges>,
    pub(crate) removals: Removals,
    pub(crate) positions: Positions,
    pub(crate) housekeeping: Housekeeping,
    /// When the next pass is due, wall time in ms.
    pub(crate) next_pass_ms: AtomicI64,
    /// Whether the last pass was held back by the clock guard.
    pub(crate) clock_held: AtomicBool,
    /// Partitions that a time in the future kept from expiring at the last pass.
    pub(crate) blocked: Mutex<BTreeSet<(String, i32)>>,
    /// Readers with little time left at the last pass.
    pub(crate) low_headroom: Mutex<BTreeSet<watch::ReaderOnPartition>>,
    /// Recovery points and high watermarks as last written.
    pub(crate) checkpointed: Mutex<(Offsets, Offsets)>,
    pub(crate) endpoint: OnceLock<Endpoint>,
    pub(crate) listening: OnceLock<SocketAddr>,
    pub(crate) control: OnceLock<SocketAddr>,
    pub(crate) stop: CancellationToken,
    pub(crate) stopping: AtomicBool,
    pub(crate) tasks: Mutex<start::Tasks>,
    pub(crate) myself: Weak<Engine>,
}
