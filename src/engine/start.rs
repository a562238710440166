//! Putting an engine together, and taking it apart in order.
//!
//! Start: directory, store, topics, positions, what waits, then the threads that tend them, then the listeners; whoever connects
//! finds everything there. Stop: no new work, drain, flush and close every log, checkpoints, and last the marker of a clean
//! stop, which is left only if every log closed without an error.
use std::collections::{BTreeSet, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::engine::clock_guard::{ClockGuard, Earlier, Seen};
use crate::engine::config::EngineConfig;
use crate::engine::control::Control;
use crate::engine::data_directory::{Claim, DataDirectory};
use crate::engine::events::Events;
use crate::engine::guarded::pending::PendingChanges;
use crate::engine::health::{AskFileSystem, StorageHealth};
use crate::engine::housekeeping::{CLOCK_SEEN, Housekeeping};
use crate::engine::log_starts::DurableLogStarts;
use crate::engine::positions::Positions;
use crate::engine::producer_ids::ProducerIds;
use crate::engine::readers::Gate;
use crate::engine::removals::Removals;
use crate::engine::scrape::Scrape;
use crate::engine::store::{Store, Table};
use crate::engine::topics::alter;
use crate::engine::topics::catalog::{Catalog, TopicState};
use crate::engine::topics::open::{CLEAN_SHUTDOWN, Stock};
use crate::engine::{Engine, EngineError};
use crate::log::checkpoints::{self, Offsets};
use crate::log::files::{DiskFiles, Files};
use crate::log::handles::HandleCache;
use crate::telemetry::clock::millis;
use crate::telemetry::metrics::Metrics;
use crate::wire::broker::Endpoint;
use crate::wire::groups::GroupConfig;
use crate::wire::groups::topics::Topic as GroupTopic;
use crate::wire::limits::Limits;
use crate::wire::listener;

/// The file system that an engine works on.
#[derive(Debug, Clone)]
pub struct Platform {
    /// Access to the logs.
    pub files: Arc<dyn Files>,
    /// How the volume is asked for its state.
    pub ask: AskFileSystem,
}

/// How often a data directory that cannot be used is tried again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The same for what is in one, which takes a whole start, where nothing changed.
const START_AGAIN: Duration = Duration::from_secs(300);

/// What changes where somebody puts another state store in the place of one that cannot be read.
fn looks_like(data: &Path) -> Option<(u64, u64, SystemTime)> {
    let found = std::fs::symlink_metadata(data.join("state.redb")).ok()?;
    Some((found.ino(), found.len(), found.modified().ok()?))
}

fn claim(config: &EngineConfig) -> Claim {
    Claim {
        cluster_id: config.identity.clone(),
        node_id: config.node_id,
        adopt: config.adopt,
    }
}

/// What has to be ended at a stop.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub threads: Vec<JoinHandle<()>>,
    pub servers: Vec<tokio::task::JoinHandle<()>>,
}

/// A thread of the engine: its name and what it does until the engine stops.
type Work = (&'static str, fn(&Engine));

impl Engine {
    /// Starts an engine on the real file system. Must be called within a runtime.
    ///
    /// # Errors
    /// [`EngineError`]; nothing is served then.
    pub async fn start(config: EngineConfig) -> Result<Arc<Self>, EngineError> {
        let platform = Platform {
            files: DiskFiles::shared(),
            ask: AskFileSystem::default(),
        };
        Self::start_on(config, platform).await
    }

    /// [`Self::start`] with the file system given.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_on(config: EngineConfig, platform: Platform) -> Result<Arc<Self>, EngineError> {
        // Whose the directory is comes first: nothing is listened on for a directory that is not ours.
        let directory = DataDirectory::open(&config.data, &claim(&config))?;
        let stop = CancellationToken::new();
        let control = Control::new(config.control_token.clone(), stop.clone());
        let serving = match config.control {
            Some(address) => Some(control.clone().serve(address).await?),
            None => None,
        };
        let engine = match Self::assemble(config, directory, platform, stop.clone()).await {
            Ok(engine) => engine,
            Err(error) => {
                stop.cancel();
                if let Some((_, task)) = serving {
                    let _ = task.await;
                }
                return Err(error);
            }
        };
        if let Some((address, task)) = serving {
            let _ = engine.control.set(address);
            engine.tasks.lock().servers.push(task);
        }
        control.show(&engine);
        Ok(engine)
    }

    /// Serves the control API only, which tells why there is no engine, until the directory can be had or what is in it has changed: a
    /// process that exits would be started again and again, and one that never looks again would wait for a person where the volume has
    /// long recovered by itself.
    ///
    /// # Errors
    /// The control address cannot be listened on.
    pub async fn explain(config: &EngineConfig, error: &EngineError) -> Result<(), EngineError> {
        let stop = CancellationToken::new();
        let control = Control::new(config.control_token.clone(), stop.clone());
        let reason = error.reason().unwrap_or("Corrupt");
        control.blocked(reason, error.advice(&config.data));
        let serving = match config.control {
            Some(address) => Some(control.clone().serve(address).await?),
            None => None,
        };
        if let EngineError::DataDirectory(_) = error {
            loop {
                tokio::time::sleep(LOOK_AGAIN).await;
                let (data, claim) = (config.data.clone(), claim(config));
                let found =
                    tokio::task::spawn_blocking(move || DataDirectory::open(&data, &claim).map(drop)).await;
                match found {
                    Ok(Err(error)) => control.blocked(error.reason(), error.to_string()),
                    Ok(Ok(())) | Err(_) => break,
                }
            }
        } else {
            let left = looks_like(&config.data);
            let tried = Instant::now();
            while looks_like(&config.data) == left && tried.elapsed() < START_AGAIN {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
        stop.cancel();
        if let Some((_, task)) = serving {
            let _ = task.await;
        }
        Ok(())
    }

    async fn assemble(
        config: EngineConfig,
        directory: DataDirectory,
        platform: Platform,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, EngineError> {
        let stopped = stop.clone();
        let engine = tokio::task::spawn_blocking(move || Self::load(config, directory, platform, stopped))
            .await
            .map_err(|error| EngineError::Thread {
                what: "the loader",
                cause: std::io::Error::other(error.to_string()),
            })??;
        match engine.serve(stop).await {
            Ok(()) => Ok(engine),
            Err(error) => {
                // Another start in this process finds the store closed.
                engine.positions.shutdown().await;
                let _ = tokio::task::spawn_blocking(move || engine.store.close()).await;
                Err(error)
            }
        }
    }

    /// Takes up what waits, and serves.
    async fn serve(self: &Arc<Self>, stop: CancellationToken) -> Result<(), EngineError> {
        let engine = self;
        engine.restore_accepted()?;
        engine.take_up_pending().map_err(|refusal| EngineError::State {
            what: refusal.to_string(),
        })?;
        let listener = listen(engine.config.listen).await?;
        let address = listener.local_addr().map_err(|cause| EngineError::Listen {
            address: engine.config.listen,
            cause,
        })?;
        let _ = engine.endpoint.set(advertised(&engine.config, address));
        let _ = engine.listening.set(address);
        engine.start_threads()?;
        let served = Arc::clone(engine);
        let task = tokio::spawn(listener::serve(listener, served, Limits::default(), stop));
        engine.tasks.lock().servers.push(task);
        tracing::info!(%address, cluster = engine.directory.identity().cluster_id,
            topics = engine.catalog.snapshot().iter().count(), "serving Kafka clients");
        Ok(())
    }

    /// Opens everything and serves nothing.
    fn load(
        mut config: EngineConfig,
        directory: DataDirectory,
        platform: Platform,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, EngineError> {
        let Platform { files, ask } = platform;
        config.defaults = alter::check(&config.defaults, "KEY").map_err(EngineError::Defaults)?;
        let store = Store::open(&directory.state())?;
        let logs = directory.logs();
        let log_starts = DurableLogStarts::load(store.clone(), Arc::clone(&files), &logs)?;
        // Beyond whatever an earlier store or broker can have handed out, unless this directory never held anything.
        let nothing_stored = store.scan(Table::Topics)?.is_empty();
        let fresh = nothing_stored
            && files.list(&logs).is_ok_and(|entries| {
                !entries
                    .iter()
                    .any(|entry| entry.kind == crate::log::files::FileKind::Directory)
            });
        let first_producer_id = if fresh {
            0
        } else {
            config.clock.wall_ms().max(0) << 10
        };
        let producer_ids = ProducerIds::load(store.clone(), first_producer_id)?;
        let mut stock = Stock::take(&config, files.as_ref(), &store, &logs)?;
        let gate = Arc::new(Gate::default());
        let pending = Arc::new(PendingChanges::default());
        let positions = start_positions(&config, &store, &gate, &stock)?;
        positions.listen(Arc::clone(&pending) as _);
        // Nothing is touched before all that is remembered could be read.
        stock.take_marker(files.as_ref(), &logs)?;
        let hold = (!config.kafka_exact).then_some(config.clock_jump_hold);
        let earlier = match store.get(Table::Engine, CLOCK_SEEN.as_bytes())? {
            Some(value) => Seen::decode(&value).map_or(Earlier::Unknown, Earlier::Seen),
            None if nothing_stored => Earlier::Nothing,
            None => Earlier::Unknown,
        };
        let handles = HandleCache::new(config.max_open_files);
        let engine = Arc::new_cyclic(|myself| Self {
            myself: myself.clone(),
            clock_guard: ClockGuard::new(Arc::clone(&config.clock), hold, &earlier),
            events: Events::new(Arc::clone(&config.clock)),
            metrics: Metrics::new(),
            health: StorageHealth::new(&logs, config.reserved_bytes, ask),
            gate,
            changes: Mutex::new(()),
            catalog: Catalog::default(),
            log_starts: Arc::new(log_starts),
            handles,
            producer_ids,
            pending,
            removals: Removals::default(),
            positions,
            stopping: AtomicBool::new(false),
            housekeeping: Housekeeping::default(),
            next_pass_ms: AtomicI64::new(0),
            clock_held: AtomicBool::new(false),
            blocked: Mutex::new(BTreeSet::new()),
            low_headroom: Mutex::new(BTreeSet::new()),
            checkpointed: Mutex::new((stock.recovery_points().clone(), Offsets::new())),
            endpoint: OnceLock::new(),
            listening: OnceLock::new(),
            control: OnceLock::new(),
            stop,
            tasks: Mutex::default(),
            config,
            directory,
            files,
            store,
        });
        engine.open_topics(stock);
        // From here on a start that does not find it knows that it is lost.
        engine.note_clock();
        engine.metrics.register(Box::new(Scrape(Arc::downgrade(&engine))));
        Ok(engine)
    }

    fn start_threads(self: &Arc<Self>) -> Result<(), EngineError> {
        let mut tasks = self.tasks.lock();
        let works: [Work; 2] = [
            ("housekeeping", Engine::run_housekeeping),
            ("pending-changes", Engine::run_pending),
        ];
        for (what, work) in works {
            let engine = Arc::clone(self);
            let thread = std::thread::Builder::new()
                .name(what.to_owned())
                .spawn(move || work(&engine))
                .map_err(|cause| EngineError::Thread { what, cause })?;
            tasks.threads.push(thread);
        }
        Ok(())
    }

    /// Stops: drains, flushes, leaves the marker of a clean stop. A second call waits for nothing and does nothing.
    pub async fn shutdown(&self) {
        if self.stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        self.stop.cancel();
        self.positions.drain();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for server in tasks.servers {
            let _ = server.await;
        }
        self.housekeeping.stop();
        self.pending.close();
        self.positions.shutdown().await;
        let Some(engine) = self.myself.upgrade() else {
            return;
        };
        let closed = tokio::task::spawn_blocking(move || {
            for thread in tasks.threads {
                let _ = thread.join();
            }
            engine.close_logs();
        });
        let _ = closed.await;
    }

    fn close_logs(&self) {
        // A change that was under way is done before the logs close.
        let _changes = self.changes.lock();
        let mut clean = true;
        for topic in self.catalog.snapshot().iter() {
            for (partition, log) in topic.logs() {
                if let Err(error) = log.close() {
                    tracing::warn!(topic = topic.record.name, partition, %error, "not closed in order");
                    clean = false;
                }
            }
            clean &= topic
                .partitions
                .iter()
                .all(|partition| partition.offline.is_none());
        }
        self.write_checkpoints();
        self.note_clock();
        if clean {
            let marker = self.directory.logs().join(CLEAN_SHUTDOWN);
            match checkpoints::mark_clean_shutdown(self.files.as_ref(), &marker) {
                Ok(()) => tracing::info!("stopped in order"),
                Err(error) => tracing::warn!(%error, "the next start reads the logs again"),
            }
        }
        self.store.close();
        self.directory.release();
    }

    /// Where Kafka clients are listened for.
    pub fn listening(&self) -> Option<std::net::SocketAddr> {
        self.listening.get().copied()
    }

    /// Where the control API is served.
    pub fn control_address(&self) -> Option<std::net::SocketAddr> {
        self.control.get().copied()
    }

    pub(crate) fn publish_topic(&self, topic: Arc<TopicState>) {
        self.positions
            .set_topic(&topic.record.name, topic.record.id, topic.record.partitions);
        self.catalog.put(topic);
    }

    pub(crate) fn unpublish_topic(&self, topic: &TopicState) {
        self.catalog.remove(&topic.record.name);
        self.pending.remove(&topic.record.name);
        // Before a topic of the same name can be made; nobody has to wait until it is durable.
        drop(self.positions.remove_topic(&topic.record.name));
    }

    pub(crate) fn expire_positions(&self) {
        let required: HashSet<(String, String)> = self
            .catalog
            .snapshot()
            .iter()
            .flat_map(|topic| {
                let groups = topic.record.readers.required.iter();
                groups.map(|group| (topic.record.name.clone(), group.clone()))
            })
            .collect();
        self.positions.expire(&required);
    }
}

fn start_positions(
    config: &EngineConfig,
    store: &Store,
    gate: &Arc<Gate>,
    stock: &Stock,
) -> Result<Positions, EngineError> {
    let topics = stock
        .records()
        .map(|record| GroupTopic {
            name: Arc::from(record.name.as_str()),
            id: record.id,
            partitions: record.partitions,
        })
        .collect();
    let group_config = GroupConfig {
        offsets_retention_ms: millis(config.offsets_retention),
        ..GroupConfig::default()
    };
    let clock = Arc::clone(&config.clock);
    Positions::start(store.clone(), clock, group_config, Arc::clone(gate), topics).map_err(|error| {
        EngineError::State {
            what: error.to_string(),
        }
    })
}

async fn listen(address: std::net::SocketAddr) -> Result<TcpListener, EngineError> {
    TcpListener::bind(address)
        .await
        .map_err(|cause| EngineError::Listen { address, cause })
}

fn advertised(config: &EngineConfig, listening: std::net::SocketAddr) -> Endpoint {
    let from_listening = || {
        let ip = listening.ip();
        let host = if ip.is_unspecified() {
            std::fs::read_to_string("/proc/sys/kernel/hostname")
                .map(|name| name.trim().to_owned())
                .unwrap_or_else(|_| "localhost".to_owned())
        } else {
            ip.to_string()
        };
        Endpoint {
            host,
            port: listening.port(),
        }
    };
    match &config.advertise {
        Some(advertised) => Endpoint {
            host: advertised.host.clone(),
            port: advertised.port.unwrap_or(listening.port()),
        },
        None => from_listening(),
    }
}
