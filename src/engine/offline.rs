//! The guard's verdict on a data directory at rest: no engine runs, and nothing in the directory is changed.
//!
//! Segments are looked at with [`crate::log::inspect`], positions come from a copy of the state store, and the judgement is
//! the one that a running engine makes. A directory that an engine holds is refused: it is the one to ask.
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::engine::guarded::apply::{check_partitions, plain_verdict, would_be_created};
use crate::engine::log_starts::DurableLogStarts;
use crate::engine::positions::Positions;
use crate::engine::readers::{Gate, ReaderInventory as _};
use crate::engine::refusal::Refusal;
use crate::engine::store::{Store, StoreError, Table};
use crate::engine::topics::alter;
use crate::engine::topics::record::{Layers, TopicRecord};
use crate::log::checkpoints;
use crate::log::error::LogError;
use crate::log::files::{DiskFiles, Files};
use crate::log::inspect::partition::PartitionReport;
use crate::log::inspect::{Depth, partition, plan};
use crate::log::names::partition_directory;
use crate::resource::contract::{DesiredTopic, Outcome, Verdict};
use crate::retention::{Outlook, PartitionView, Proposed, Rules, SegmentProfile, judge};
use crate::telemetry::clock::{Clock, millis};
use crate::wire::groups::GroupConfig;
use crate::wire::groups::topics::Topic as GroupTopic;

/// Why a directory at rest cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// It is not a data directory.
    #[error("{0} is no data directory: it holds no state.redb and no logs")]
    NoDataDirectory(PathBuf),
    /// An engine holds it.
    #[error("an engine runs on {0}: ask it with --control")]
    InUse(PathBuf),
    /// A call failed.
    #[error("{path}: {cause}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The failure.
        cause: std::io::Error,
    },
    /// The copy of the state store cannot be read.
    #[error("the state store cannot be read: {0}")]
    State(String),
    /// A log cannot be looked at.
    #[error(transparent)]
    Log(#[from] LogError),
    /// What is asked for makes no sense.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<StoreError> for OfflineError {
    fn from(error: StoreError) -> Self {
        Self::State(error.to_string())
    }
}

/// A data directory at rest, held so that no engine starts on it meanwhile.
#[derive(Debug)]
pub struct AtRest {
    data: PathBuf,
    scratch: PathBuf,
    store: Store,
    records: BTreeMap<String, TopicRecord>,
    log_starts: DurableLogStarts,
    positions: Positions,
    clock: Arc<dyn Clock>,
    check_interval: Duration,
    _lock: Option<fs::File>,
}

impl AtRest {
    /// Opens `data` without changing it; `scratch` is an empty directory for the copy of the state store. Must be called
    /// within a runtime.
    ///
    /// # Errors
    /// When it is no data directory, an engine holds it, or it cannot be read.
    pub fn open(
        data: &Path,
        scratch: &Path,
        check_interval: Duration,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OfflineError> {
        let state = data.join("state.redb");
        if !state.is_file() || !data.join("logs").is_dir() {
            return Err(OfflineError::NoDataDirectory(data.to_owned()));
        }
        let lock = lock(data)?;
        let copy = scratch.join("state.redb");
        fs::copy(&state, &copy).map_err(|cause| OfflineError::Io { path: state, cause })?;
        let store = Store::open(&copy)?;
        let mut records = BTreeMap::new();
        for (name, value) in store.scan(Table::Topics)? {
            let name = String::from_utf8_lossy(&name).into_owned();
            let record = TopicRecord::decode(&value)
                .map_err(|error| OfflineError::State(format!("topic {name}: {error}")))?;
            records.insert(name, record);
        }
        let files: Arc<dyn Files> = DiskFiles::shared();
        let log_starts = DurableLogStarts::load(store.clone(), files, &data.join("logs"))?;
        let topics = records.values().map(|record| GroupTopic {
            name: Arc::from(record.name.as_str()),
            id: record.id,
            partitions: record.partitions,
        });
        let positions = Positions::start(
            store.clone(),
            Arc::clone(&clock),
            GroupConfig::default(),
            Arc::new(Gate::default()),
            topics.collect(),
        );
        let positions = positions.map_err(|error| OfflineError::State(error.to_string()))?;
        Ok(Self {
            data: data.to_owned(),
            scratch: scratch.to_owned(),
            store,
            records,
            log_starts,
            positions,
            clock,
            check_interval,
            _lock: lock,
        })
    }

    /// What a running engine would answer to this desired state.
    ///
    /// # Errors
    /// A setting that makes no sense, or a log that cannot be looked at.
    pub fn plan(&self, topic: &str, desired: &DesiredTopic) -> Result<Verdict, OfflineError> {
        let Some(record) = self.records.get(topic) else {
            let partitions = desired.partitions.unwrap_or(1);
            let message = would_be_created(topic, partitions);
            return Ok(plain_verdict(Outcome::Applied, "Applied", message, None));
        };
        let proposed = Layers {
            engine_defaults: record.layers.engine_defaults.clone(),
            config: alter::check(&desired.config, "config")?,
            partition_config: check_partitions(&desired.partition_config)?,
        };
        let now_ms = self.clock.wall_ms();
        let headroom_ms = desired
            .readers
            .headroom_ms
            .unwrap_or_else(|| millis(self.check_interval));
        let granted = record.granted();
        let mut outlooks = Vec::new();
        let mut reports = BTreeMap::new();
        for number in 0..record.partitions {
            let report = self.inspect(topic, number)?;
            outlooks.push(outlook(granted, &proposed, number, &report, now_ms, headroom_ms)?);
            reports.insert(number, report);
        }
        let readers = self.positions.readers(topic, record.id, record.partitions);
        let judgement = judge(&outlooks, &readers, &desired.readers, &mut |number, range| {
            reports.get(&number).and_then(|report| last_data(report, &range))
        });
        let mut verdict = judgement.verdict();
        for (reader, risk) in verdict.readers_at_risk.iter_mut().zip(&judgement.at_risk) {
            let unread = reports
                .get(&risk.partition)
                .and_then(|report| timestamp_from(report, risk.lost.start));
            reader.behind_ms = unread.map(|timestamp| now_ms.saturating_sub(timestamp).max(0));
        }
        if verdict.verdict == Outcome::Applied && proposed == record.layers {
            verdict.verdict = Outcome::Unchanged;
        }
        verdict.in_force = record.layers.in_force();
        verdict.topic_id = checkpoints::format_id(record.id);
        verdict.partition_count = record.partitions;
        Ok(verdict)
    }

    fn inspect(&self, topic: &str, number: i32) -> Result<PartitionReport, OfflineError> {
        let directory = self.data.join("logs").join(partition_directory(topic, number));
        let depth = Depth {
            batches: true,
            now_ms: self.clock.wall_ms(),
            ..Depth::default()
        };
        let mut report = partition::inspect(DiskFiles::shared().as_ref(), &directory, depth)?;
        report.log_start = report
            .log_start
            .max(self.log_starts.get(topic, number))
            .min(report.log_end);
        Ok(report)
    }
}

impl Drop for AtRest {
    fn drop(&mut self) {
        self.store.close();
        // The copy is of no use to anybody; what cannot be removed lies in the system's temporary directory.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Takes the lock that an engine would hold; `None` where there is no lock file, as on a copy.
fn lock(data: &Path) -> Result<Option<fs::File>, OfflineError> {
    let path = data.join("lock");
    let file = match fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(OfflineError::Io { path, cause }),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OfflineError::InUse(data.to_owned())),
        Err(errno) => Err(OfflineError::Io {
            path,
            cause: errno.into(),
        }),
    }
}

fn outlook(
    granted: &Layers,
    proposed: &Layers,
    number: i32,
    report: &PartitionReport,
    now_ms: i64,
    headroom_ms: i64,
) -> Result<Outlook, Refusal> {
    let rules = |layers: &Layers| {
        layers
            .settings(number)
            .map(|settings| Rules::from(&settings))
            .map_err(|error| Refusal::invalid("config", &error))
    };
    let profile: SegmentProfile = report.segments.iter().map(plan::facts).collect();
    let active = report.segments.last().filter(|segment| segment.size_bytes > 0);
    let view = PartitionView {
        partition: number,
        profile: &profile,
        log_start: report.log_start,
        high_watermark: report.log_end,
        log_end: report.log_end,
        last_stable_offset: report.log_end,
        // When its first record came is not in the files; its file was last written later, which makes it young.
        active_since_ms: active.map(|segment| segment.modified_ms),
        in_force: rules(granted)?,
        proposed: Proposed::Rules(rules(proposed)?),
    };
    Ok(Outlook::of(&view, now_ms, headroom_ms))
}

/// Offset of the last record within `range` that is no transaction marker.
fn last_data(report: &PartitionReport, range: &Range<i64>) -> Option<i64> {
    let batches = report
        .segments
        .iter()
        .rev()
        .flat_map(|segment| segment.batches.iter().flatten().rev());
    let data = batches.filter(|batch| !batch.control && batch.record_count != 0);
    data.filter(|batch| batch.base_offset < range.end && batch.last_offset >= range.start)
        .map(|batch| batch.last_offset.min(range.end - 1))
        .next()
}

/// Largest timestamp of the first batch of records at or after `offset`, where it has one.
fn timestamp_from(report: &PartitionReport, offset: i64) -> Option<i64> {
    let batches = report
        .segments
        .iter()
        .flat_map(|segment| segment.batches.iter().flatten());
    let mut unread = batches.filter(|batch| !batch.control && batch.last_offset >= offset);
    unread
        .next()
        .map(|batch| batch.max_timestamp)
        .filter(|timestamp| *timestamp >= 0)
}
