//! Start: from what is remembered and what is on disk to topics that are served.
//!
//! A partition that cannot be opened stays offline with its reason; it takes nothing else with it. Logs are opened by several
//! threads, because after a crash each one reads its tail again.
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::engine::store::{Batch, Store, Table};
use crate::engine::topics::catalog::{PartitionState, TopicState};
use crate::engine::topics::inventory::{self, FoundDirectory, Inventory, PartitionStart, TopicStart};
use crate::engine::topics::record::{DeletionRecord, TopicRecord};
use crate::engine::{Engine, EngineError, config};
use crate::log::checkpoints::{self, Offsets};
use crate::log::error::{LogError, PathContext};
use crate::log::files::{FileKind, Files};
use crate::log::leader_epochs::LeaderEpochs;
use crate::log::names;
use crate::log::partition::{Durability, LogStarts, OpenLog, PartitionLog};
use crate::resource::names as topic_names;
use crate::telemetry::clock::millis;
use crate::wire::broker::Topic;
use crate::wire::partition::Partition;

/// Kafka's file of recovery points.
pub const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// Kafka's file with the topic id.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// Kafka's marker of a clean stop.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";

/// How a log is to be opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastStop {
    /// It was clean.
    pub clean: bool,
    /// The recovery point, 0 if there is none.
    pub recovery_point: i64,
}

/// What a start found, before anything is opened.
#[derive(Debug)]
pub(crate) struct Stock {
    inventory: Inventory,
    deletions: Vec<DeletionRecord>,
    clean: bool,
    recovery_points: Offsets,
}

impl Stock {
    /// Looks at the store and the log directory, and changes neither.
    pub fn take(
        config: &config::EngineConfig,
        files: &dyn Files,
        store: &Store,
        logs: &Path,
    ) -> Result<Self, EngineError> {
        let recovery_points = checkpoints::read_offsets(files, &logs.join(RECOVERY_POINTS)).unwrap_or_else(|error| {
            tracing::warn!(%error, "the checkpoint of recovery points cannot be read and counts as empty");
            Offsets::new()
        });
        let (records, deletions) = remembered(store)?;
        let found = found_directories(files, logs)?;
        let now_ms = config.clock.wall_ms();
        let inventory = inventory::take(records, &deletions, &found, config.max_partitions, now_ms);
        for (directory, why) in &inventory.left {
            tracing::warn!(directory, why, "left alone in the log directory");
        }
        Ok(Self {
            inventory,
            deletions,
            clean: false,
            recovery_points,
        })
    }

    /// Notes whether the last stop was a clean one. Its marker goes, so that a crash while loading counts as one.
    pub fn take_marker(&mut self, files: &dyn Files, logs: &Path) -> Result<(), EngineError> {
        self.clean = match checkpoints::take_clean_shutdown(files, &logs.join(CLEAN_SHUTDOWN)) {
            Ok(clean) => clean,
            // On a file system that takes no changes the engine comes up to read, and trusts nothing.
            Err(error) if error.is_read_only() => false,
            Err(error) => return Err(EngineError::Log(error)),
        };
        Ok(())
    }

    /// The checkpoint of recovery points.
    pub fn recovery_points(&self) -> &Offsets {
        &self.recovery_points
    }

    /// What is remembered of the topics that are about to be opened.
    pub fn records(&self) -> impl Iterator<Item = &TopicRecord> {
        self.inventory.topics.iter().map(|start| &start.record)
    }
}

fn remembered(store: &Store) -> Result<(Vec<TopicRecord>, Vec<DeletionRecord>), EngineError> {
    let unreadable = |table: Table, key: &[u8], error: serde_json::Error| EngineError::State {
        what: format!("{} {}: {error}", table.name(), String::from_utf8_lossy(key)),
    };
    let mut records = Vec::new();
    for (key, value) in store.scan(Table::Topics)? {
        let record = TopicRecord::decode(&value).map_err(|error| unreadable(Table::Topics, &key, error))?;
        records.push(record);
    }
    let mut deletions = Vec::new();
    for (key, value) in store.scan(Table::Deletions)? {
        let deletion: DeletionRecord =
            serde_json::from_slice(&value).map_err(|error| unreadable(Table::Deletions, &key, error))?;
        deletions.push(deletion);
    }
    Ok((records, deletions))
}

fn found_directories(files: &dyn Files, logs: &Path) -> Result<Vec<FoundDirectory>, EngineError> {
    let entries = files.list(logs).at("list", logs)?;
    let mut found = Vec::new();
    for entry in entries {
        if crate::engine::data_directory::is_known_file(&entry.name) {
            continue;
        }
        if entry.kind != FileKind::Directory {
            tracing::warn!(
                name = entry.name,
                "not a directory; left alone in the log directory"
            );
            continue;
        }
        let metadata = logs.join(&entry.name).join(PARTITION_METADATA);
        let topic_id = if names::PartitionDirectoryName::parse(&entry.name).is_some() {
            checkpoints::read_topic_id(files, &metadata).map_err(|error| error.to_string())
        } else {
            Ok(None)
        };
        found.push(FoundDirectory {
            name: entry.name,
            topic_id,
        });
    }
    Ok(found)
}

impl Engine {
    /// Opens everything that was found; called once, before anybody is served.
    pub(crate) fn open_topics(&self, stock: Stock) {
        let logs = self.directory.logs();
        self.finish_deletions(&logs, &stock.inventory, &stock.deletions);
        let topics = self.open_all(&logs, stock.inventory, stock.clean, &stock.recovery_points);
        self.catalog.put_all(topics);
    }

    /// Marks and queues what recorded deletions left on disk, and drops the records of those that left nothing.
    fn finish_deletions(&self, logs: &Path, inventory: &Inventory, deletions: &[DeletionRecord]) {
        let now = self.config.clock.monotonic();
        for (directory, id) in &inventory.remove {
            let marked = match names::PartitionDirectoryName::parse(directory) {
                Some(name) if name.state == names::DirectoryState::Live => {
                    names::deleted_directory(&name.topic, name.partition, &id.simple().to_string())
                }
                _ => directory.clone(),
            };
            if marked != *directory
                && let Err(error) = self.files.rename(&logs.join(directory), &logs.join(&marked))
            {
                tracing::warn!(directory, %error, "a deleted partition could not be marked; it is not served and stays");
                continue;
            }
            let delay = deletions
                .iter()
                .find(|deletion| deletion.id == *id)
                .map_or(0, |found| found.delay_ms);
            let delay = std::time::Duration::from_millis(u64::try_from(delay).unwrap_or(0));
            self.removals
                .add(logs.join(marked), *id, now.saturating_add(delay));
        }
        let mut batch = Batch::new();
        for deletion in deletions {
            if !inventory.remove.iter().any(|(_, id)| *id == deletion.id) {
                batch.remove(Table::Deletions, deletion.id.as_bytes().to_vec());
            }
        }
        if let Err(error) = self.store.write_blocking(batch) {
            tracing::debug!(%error, "records of finished deletions stay");
        }
    }

    fn open_all(
        &self,
        logs: &Path,
        inventory: Inventory,
        clean: bool,
        recovery_points: &Offsets,
    ) -> Vec<Arc<TopicState>> {
        struct Task {
            topic: usize,
            partition: i32,
            start: PartitionStart,
        }
        let mut starts: Vec<TopicStart> = inventory.topics;
        let mut tasks = Vec::new();
        for (topic, start) in starts.iter_mut().enumerate() {
            for (partition, start) in (0..).zip(std::mem::take(&mut start.partitions)) {
                tasks.push(Task {
                    topic,
                    partition,
                    start,
                });
            }
        }
        let opened: Vec<Mutex<Option<PartitionState>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(tasks.len().max(1));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let (Some(task), Some(slot)) = (tasks.get(index), opened.get(index)) else {
                            break;
                        };
                        let Some(topic) = starts.get(task.topic) else {
                            break;
                        };
                        let point = recovery_points.get(&(topic.record.name.clone(), task.partition));
                        let last_stop = LastStop {
                            clean,
                            recovery_point: point.copied().unwrap_or(0),
                        };
                        *slot.lock() = Some(self.start_partition(
                            logs,
                            &topic.record,
                            task.partition,
                            &task.start,
                            last_stop,
                        ));
                    }
                });
            }
        });
        let mut by_topic: Vec<Vec<PartitionState>> = starts.iter().map(|_| Vec::new()).collect();
        for (task, slot) in tasks.iter().zip(opened) {
            if let (Some(partitions), Some(state)) = (by_topic.get_mut(task.topic), slot.into_inner()) {
                partitions.push(state);
            }
        }
        let mut batch = Batch::new();
        let topics = starts
            .into_iter()
            .zip(by_topic)
            .map(|(start, partitions)| {
                if start.adopted {
                    tracing::info!(topic = start.record.name, id = %start.record.id, partitions = start.record.partitions,
                        "adopted; its settings did not come with it, so it keeps everything until it is told otherwise");
                }
                let (state, epoch_changed) = self.topic_state(start.record, partitions);
                if start.changed || epoch_changed {
                    batch.put(Table::Topics, state.record.name.as_bytes(), state.record.encode());
                }
                Arc::new(state)
            })
            .collect();
        if let Err(error) = self.store.write_blocking(batch) {
            tracing::warn!(%error, "what was found at start could not be recorded; it is found again at the next one");
        }
        topics
    }

    fn start_partition(
        &self,
        logs: &Path,
        record: &TopicRecord,
        partition: i32,
        start: &PartitionStart,
        last_stop: LastStop,
    ) -> PartitionState {
        let opened = match start {
            PartitionStart::Open { directory, write_id } => {
                let directory = logs.join(directory);
                if *write_id {
                    let metadata = directory.join(PARTITION_METADATA);
                    if let Err(error) = checkpoints::write_topic_id(self.files.as_ref(), &metadata, record.id)
                    {
                        tracing::warn!(%error, "the topic id could not be written into the partition");
                    }
                }
                self.open_partition(record, partition, directory, last_stop)
            }
            PartitionStart::Create => self.make_partition(logs, record, partition),
            PartitionStart::Offline { reason } => {
                tracing::error!(
                    topic = record.name,
                    partition,
                    reason,
                    "the partition stays offline"
                );
                return PartitionState::offline(reason);
            }
        };
        match opened {
            Ok(log) => PartitionState::online(log),
            Err(error) => {
                tracing::error!(topic = record.name, partition, %error, "the partition stays offline");
                PartitionState::offline(&error.to_string())
            }
        }
    }

    /// Makes a partition's directory and opens it.
    pub(crate) fn make_partition(
        &self,
        logs: &Path,
        record: &TopicRecord,
        partition: i32,
    ) -> Result<Arc<PartitionLog>, LogError> {
        let directory = logs.join(names::partition_directory(&record.name, partition));
        match self.files.create_dir(&directory) {
            Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(LogError::Io {
                    action: "create",
                    path: directory,
                    source,
                });
            }
            _ => {}
        }
        checkpoints::write_topic_id(
            self.files.as_ref(),
            &directory.join(PARTITION_METADATA),
            record.id,
        )?;
        let fresh = LastStop {
            clean: false,
            recovery_point: 0,
        };
        self.open_partition(record, partition, directory, fresh)
    }

    /// Opens a partition's directory.
    pub(crate) fn open_partition(
        &self,
        record: &TopicRecord,
        partition: i32,
        directory: PathBuf,
        last_stop: LastStop,
    ) -> Result<Arc<PartitionLog>, LogError> {
        let settings = record
            .layers
            .settings(partition)
            .map_err(|error| LogError::malformed(&directory, error.to_string()))?;
        let log = PartitionLog::open(OpenLog {
            files: Arc::clone(&self.files),
            directory,
            topic: record.name.clone(),
            partition,
            settings: Arc::new(settings),
            clock: Arc::clone(&self.config.clock),
            handles: Arc::clone(&self.handles),
            durability: durability(self.config.durability),
            log_starts: Arc::clone(&self.log_starts) as Arc<dyn LogStarts>,
            clean: last_stop.clean,
            recovery_point: last_stop.recovery_point,
            log_start: self.log_starts.get(&record.name, partition),
            producer_expiration_ms: millis(self.config.producer_id_expiration),
        })?;
        Ok(Arc::new(log))
    }

    /// Puts a topic together. Its leader epoch is the highest that it ever had; says whether that is news to the record.
    pub(crate) fn topic_state(
        &self,
        mut record: TopicRecord,
        partitions: Vec<PartitionState>,
    ) -> (TopicState, bool) {
        let written = partitions
            .iter()
            .filter_map(|partition| partition.log.as_ref())
            .filter_map(|log| {
                let path = log.directory().join("leader-epoch-checkpoint");
                LeaderEpochs::load(self.files.as_ref(), &path).ok()?.latest()
            })
            .map(|start| start.epoch)
            .max()
            .unwrap_or(0);
        let changed = written > record.leader_epoch;
        record.leader_epoch = record.leader_epoch.max(written);
        let wire = (0..)
            .zip(&partitions)
            .map(|(index, state)| match &state.log {
                Some(log) => Partition::online(index, record.leader_epoch, Arc::clone(log)),
                None => {
                    let reason = state.offline.as_deref().unwrap_or("it is offline");
                    Partition::offline(index, record.leader_epoch, reason)
                }
            })
            .collect();
        let topic = Arc::new(Topic {
            name: Arc::from(record.name.as_str()),
            id: record.id,
            internal: topic_names::is_internal(&record.name),
            partitions: wire,
        });
        (
            TopicState {
                record,
                topic,
                partitions,
            },
            changed,
        )
    }
}

impl PartitionState {
    /// A partition that is served.
    pub fn online(log: Arc<PartitionLog>) -> Self {
        Self {
            log: Some(log),
            offline: None,
        }
    }

    /// A partition that is not, and why.
    pub fn offline(reason: &str) -> Self {
        Self {
            log: None,
            offline: Some(Arc::from(reason)),
        }
    }
}

fn durability(of: config::Durability) -> Durability {
    match of {
        config::Durability::PageCache => Durability::PageCache,
        config::Durability::Interval(every) => Durability::IntervalMs(millis(every)),
        config::Durability::Ack => Durability::Ack,
    }
}
