//! The one loop that tends all partitions: idle roll, retention, unlinking, flushing, checkpoints, expiry.
//!
//! It looks once a second at what is due; each look at a partition with nothing due is a few instructions and touches no file.
//! A partition that fails is reported and left; the others are tended all the same.
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::engine::Engine;
use crate::engine::config::Durability;
use crate::engine::store::{Batch, Table};
use crate::engine::topics::catalog::TopicState;
use crate::engine::topics::open::RECOVERY_POINTS;
use crate::log::checkpoints::{self, Offsets};
use crate::log::error::LogError;
use crate::log::partition::{PartitionLog, Phase};
use crate::log::retain::RetentionOutcome;
use crate::resource::contract::{EventKind, PartitionPass, PassReport};
use crate::retention::{Blocked, FutureTime, Reason};
use crate::telemetry::clock::millis;

/// Kafka's file of high watermarks.
const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";

/// How often the loop looks for what is due.
const TICK: Duration = Duration::from_secs(1);
/// How often checkpoints are written where something changed.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);
/// How often commits and producers are looked through for those whose time is over.
const EXPIRE_EVERY: Duration = Duration::from_secs(600);
/// How often the wall time is kept for the next run.
const NOTE_CLOCK_EVERY: Duration = Duration::from_secs(300);
/// Where in the store it is kept.
pub(crate) const CLOCK_SEEN: &str = "wall-clock-seen-ms";

/// What the loop remembers between two looks.
#[derive(Debug, Default)]
pub struct Housekeeping {
    /// Wakes the loop early, and ends it.
    signal: Mutex<Signal>,
    woken: Condvar,
    /// One pass at a time, whoever asks for it.
    passes: Mutex<PassState>,
}

#[derive(Debug, Default)]
struct Signal {
    stop: bool,
    wake: bool,
}

#[derive(Debug, Default)]
struct PassState {
    /// Partitions whose retention was blocked by a time in the future when last looked at.
    blocked: BTreeSet<(String, i32)>,
    /// Whether the last pass was held back by the clock guard.
    held: bool,
}

#[derive(Debug)]
struct Due {
    pass: Duration,
    checkpoint: Duration,
    expire: Duration,
    flush: Duration,
    clock: Duration,
}

impl Housekeeping {
    fn wait(&self, tick: Duration) -> bool {
        let mut signal = self.signal.lock();
        if !signal.stop && !signal.wake {
            self.woken.wait_for(&mut signal, tick);
        }
        signal.wake = false;
        !signal.stop
    }

    /// Has the loop look now.
    pub fn wake(&self) {
        self.signal.lock().wake = true;
        self.woken.notify_all();
    }

    /// Ends the loop.
    pub fn stop(&self) {
        self.signal.lock().stop = true;
        self.woken.notify_all();
    }
}

impl Engine {
    /// The loop; returns when the engine stops.
    pub(crate) fn run_housekeeping(&self) {
        let start = self.config.clock.monotonic();
        let mut due = Due {
            pass: self.next_pass(start),
            checkpoint: start.saturating_add(CHECKPOINT_EVERY),
            expire: start.saturating_add(EXPIRE_EVERY),
            flush: start,
            clock: start.saturating_add(NOTE_CLOCK_EVERY),
        };
        while self.housekeeping.wait(TICK.min(self.config.check_interval)) {
            self.tend(&mut due);
        }
    }

    /// When the pass after one at `now` is due; tells it, too.
    fn next_pass(&self, now: Duration) -> Duration {
        let interval = self.config.check_interval;
        let next_ms = self.config.clock.wall_ms().saturating_add(millis(interval));
        self.next_pass_ms.store(next_ms, Ordering::Relaxed);
        now.saturating_add(interval)
    }

    fn tend(&self, due: &mut Due) {
        let now = self.config.clock.monotonic();
        self.probe_storage();
        if now >= due.pass {
            due.pass = self.next_pass(now);
            self.retention_pass();
        }
        self.wake_due_changes();
        self.free_full_disk();
        self.unlink_due();
        self.flush_due(now, &mut due.flush);
        if now >= due.checkpoint {
            due.checkpoint = now.saturating_add(CHECKPOINT_EVERY);
            self.write_checkpoints();
            self.store.restore_reserve();
        }
        if now >= due.clock {
            due.clock = now.saturating_add(NOTE_CLOCK_EVERY);
            self.note_clock();
        }
        // Commits age by the wall clock too, and one that expired by a wrong clock is a reader that nobody asks.
        if now >= due.expire && self.clock_guard.now_for_deletion().is_ok() {
            due.expire = now.saturating_add(EXPIRE_EVERY);
            self.expire_positions();
            self.expire_producers();
        }
    }

    /// Keeps the wall time for the next run, where it is believed.
    pub(crate) fn note_clock(&self) {
        let Some(seen) = self.clock_guard.believed() else {
            return;
        };
        let mut batch = Batch::new();
        batch.put(Table::Engine, CLOCK_SEEN, seen.encode());
        if let Err(error) = self.store.write_blocking(batch) {
            tracing::debug!(%error, "the wall time could not be kept");
        }
    }

    /// An operator's word that the wall clock is right; then the pass that had waited for it.
    pub(crate) fn confirm_clock(&self) -> PassReport {
        self.clock_guard.confirm();
        self.note_clock();
        self.wake_due_changes();
        self.retention_pass()
    }

    /// One pass over all partitions now: idle roll, then retention. Blocks.
    pub fn retention_pass(&self) -> PassReport {
        let started = self.config.clock.monotonic();
        let mut state = self.housekeeping.passes.lock();
        let mut report = PassReport {
            at_ms: self.config.clock.wall_ms(),
            ..PassReport::default()
        };
        let now_ms = match self.clock_guard.now_for_deletion() {
            Ok(now_ms) => {
                if std::mem::take(&mut state.held) {
                    tracing::info!("the wall clock is believed again; retention goes on");
                }
                Some(now_ms)
            }
            Err(jump) => {
                report.held = Some("clock_jump".to_owned());
                if !std::mem::replace(&mut state.held, true) {
                    let message = format!(
                        "the wall clock says {} where {} was expected; nothing is deleted for {} s, until the clock is back or \
                         POST /v1/retention/clock confirms it",
                        jump.wall_ms,
                        jump.expected_ms,
                        jump.remaining.as_secs()
                    );
                    self.events.tell(EventKind::RetentionBlocked, "", None, message);
                }
                None
            }
        };
        self.clock_held.store(now_ms.is_none(), Ordering::Relaxed);
        // After the pass's own time was taken: what is safe from now on is safe then.
        let unchecked = self.hold_what_is_in_part();
        let mut blocked = BTreeSet::new();
        for topic in self.catalog.snapshot().iter() {
            if unchecked.contains(&topic.record.name) {
                self.metrics.retention_errors.inc();
                continue;
            }
            let mut lowered = Vec::new();
            for (partition, log) in topic.logs() {
                report.partitions_checked += 1;
                let pass = self.pass_over(topic, partition, log, now_ms, &mut blocked, &mut lowered);
                if let Some(pass) = pass {
                    report.segments_deleted +=
                        u32::try_from(pass.deleted_by_start + pass.deleted_by_size + pass.deleted_by_time)
                            .unwrap_or(0);
                    report.records_deleted += pass.log_start.saturating_sub(pass.log_start_before);
                    report.partitions.push(pass);
                }
            }
            if !lowered.is_empty() {
                self.count_lost(topic, &lowered);
                self.pending.wake(&topic.record.name);
            }
        }
        self.tell_blocked(&state.blocked, &blocked);
        state.blocked.clone_from(&blocked);
        *self.blocked.lock() = blocked;
        drop(state);
        self.watch_headroom();
        let took = self.config.clock.monotonic().saturating_sub(started);
        self.metrics.retention_pass_seconds.observe(took.as_secs_f64());
        report
    }

    /// One partition's part of a pass; `None` where there is nothing to tell.
    fn pass_over(
        &self,
        topic: &TopicState,
        partition: i32,
        log: &Arc<PartitionLog>,
        now_ms: Option<i64>,
        blocked: &mut BTreeSet<(String, i32)>,
        lowered: &mut Vec<(i32, i64, i64)>,
    ) -> Option<PartitionPass> {
        let before = log.log_start();
        let mut pass = PartitionPass {
            topic: topic.record.name.clone(),
            partition,
            rolled: false,
            log_start_before: before,
            log_start: before,
            deleted_by_start: 0,
            deleted_by_size: 0,
            deleted_by_time: 0,
            bytes_freed: 0,
            left: None,
            message: None,
        };
        let Some(now_ms) = now_ms else {
            let plan = log.plan(self.config.clock.wall_ms(), &(&*log.settings()).into());
            pass.left = (!plan.is_empty()).then(|| "clock_jump".to_owned());
            return pass.left.is_some().then_some(pass);
        };
        let _share = self.gate.share();
        let result = self.roll_and_retain(log, now_ms, &mut pass.rolled);
        match result {
            Ok(outcome) => {
                self.count_deleted(&outcome);
                for (reason, segments, ..) in by_reason(&outcome) {
                    let count = i32::try_from(segments).unwrap_or(i32::MAX);
                    match reason {
                        Reason::Start => pass.deleted_by_start = count,
                        Reason::Size => pass.deleted_by_size = count,
                        Reason::Time => pass.deleted_by_time = count,
                    }
                }
                pass.bytes_freed = outcome.bytes();
                pass.log_start = outcome.new_log_start;
                if outcome.new_log_start > outcome.old_log_start {
                    lowered.push((partition, outcome.old_log_start, outcome.new_log_start));
                }
                if let Some(found) = &outcome.blocked {
                    blocked.insert((topic.record.name.clone(), partition));
                    pass.left = Some("future_timestamp".to_owned());
                    pass.message = Some(describe_blocked(&topic.record.name, partition, found));
                }
            }
            Err(error) => {
                if matches!(log.phase(), Phase::Closed | Phase::Deleted) {
                    return None;
                }
                self.metrics.retention_errors.inc();
                tracing::warn!(topic = topic.record.name, partition, %error, "the pass left this partition");
                pass.left = Some("error".to_owned());
                pass.message = Some(error.to_string());
            }
        }
        let quiet = !pass.rolled
            && pass.left.is_none()
            && pass.log_start == pass.log_start_before
            && pass.deleted_by_start + pass.deleted_by_size + pass.deleted_by_time == 0;
        (!quiet).then_some(pass)
    }

    fn roll_and_retain(
        &self,
        log: &PartitionLog,
        now_ms: i64,
        rolled: &mut bool,
    ) -> Result<RetentionOutcome, LogError> {
        if !self.config.kafka_exact && matches!(log.phase(), Phase::Open) && self.health.now().is_healthy() {
            // A roll needs new bytes, retention does not: a roll that fails must not stop it.
            match log.idle_roll(now_ms) {
                Ok(did) => *rolled = did,
                Err(error) => tracing::warn!(topic = log.topic(), partition = log.partition(), %error,
                    "an idle segment could not be rolled"),
            }
        }
        log.retain(now_ms)
    }

    fn count_deleted(&self, outcome: &RetentionOutcome) {
        for (reason, segments, records, bytes) in by_reason(outcome) {
            self.metrics
                .retention_deleted(reason.as_str(), segments, records, bytes);
        }
    }

    fn tell_blocked(&self, before: &BTreeSet<(String, i32)>, now: &BTreeSet<(String, i32)>) {
        for (topic, partition) in now.difference(before) {
            let Some(state) = self.catalog.by_name(topic) else {
                continue;
            };
            let message = format!(
                "topic {topic} partition {partition}: a timestamp in the future keeps its segments from expiring; \
                 GET /v1/topics/{topic} names segment and value"
            );
            self.events.tell(
                EventKind::RetentionBlocked,
                topic,
                state.record.owner.as_ref(),
                message,
            );
        }
    }

    /// On a full disk a pass does not wait for its turn, and deleted segments do not wait for their delay.
    fn free_full_disk(&self) {
        if self.health.now().reason != "DiskFull" {
            return;
        }
        self.retention_pass();
        for topic in self.catalog.snapshot().iter() {
            for (_, log) in topic.logs() {
                log.unlink_now();
            }
        }
        self.removals.hurry();
        self.run_removals();
        self.probe_storage();
    }

    /// Forgets producers that have been idle for too long, as Kafka does; what is known of them costs memory and snapshots.
    fn expire_producers(&self) {
        let now_ms = self.config.clock.wall_ms();
        let expiration_ms = millis(self.config.producer_id_expiration);
        for topic in self.catalog.snapshot().iter() {
            for (_, log) in topic.logs() {
                log.expire_producers(now_ms, expiration_ms);
            }
        }
    }

    fn unlink_due(&self) {
        for topic in self.catalog.snapshot().iter() {
            for (_, log) in topic.logs() {
                log.unlink_due();
            }
        }
        if !self.removals.is_empty() {
            self.run_removals();
        }
    }

    fn flush_due(&self, now: Duration, next: &mut Duration) {
        let interval = match self.config.durability {
            Durability::Interval(every) if now >= *next => {
                *next = now.saturating_add(every);
                true
            }
            _ => false,
        };
        let wall_ms = self.config.clock.wall_ms();
        for topic in self.catalog.snapshot().iter() {
            for (partition, log) in topic.logs() {
                let flushed = if interval || log.flush_is_due(wall_ms) {
                    log.flush()
                } else {
                    log.flush_closed()
                };
                if let Err(error) = flushed
                    && matches!(log.phase(), Phase::Open)
                {
                    tracing::warn!(topic = topic.record.name, partition, %error, "could not flush");
                }
            }
        }
    }

    /// Writes Kafka's checkpoint files where they changed.
    pub(crate) fn write_checkpoints(&self) {
        let logs = self.directory.logs();
        let mut last = self.checkpointed.lock();
        // Looked at under the lock, so that a topic that is about to be made finds nothing of one that is gone.
        let mut recovery_points = Offsets::new();
        let mut high_watermarks = Offsets::new();
        for topic in self.catalog.snapshot().iter() {
            for (partition, log) in topic.logs() {
                let key = || (topic.record.name.clone(), partition);
                recovery_points.insert(key(), log.recovery_point());
                high_watermarks.insert(key(), log.high_watermark());
            }
        }
        let (last_points, last_marks) = &mut *last;
        for (file, offsets, written) in [
            (RECOVERY_POINTS, recovery_points, last_points),
            (HIGH_WATERMARKS, high_watermarks, last_marks),
        ] {
            if *written == offsets {
                continue;
            }
            match checkpoints::write_offsets(self.files.as_ref(), &logs.join(file), &offsets) {
                Ok(()) => *written = offsets,
                Err(error) => tracing::warn!(%error, "a checkpoint could not be written"),
            }
        }
        drop(last);
        let starts = |known: &Offsets| {
            let mut starts = Offsets::new();
            for topic in self.catalog.snapshot().iter() {
                for (partition, state) in (0..).zip(&topic.partitions) {
                    let key = (topic.record.name.clone(), partition);
                    let kept = known.get(&key).copied();
                    let start = match &state.log {
                        Some(log) => log.log_start_to_checkpoint(kept),
                        // What it cannot say itself stays as it was.
                        None => kept,
                    };
                    if let Some(start) = start {
                        starts.insert(key, start);
                    }
                }
            }
            starts
        };
        if let Err(error) = self.log_starts.checkpoint(starts) {
            tracing::warn!(%error, "the checkpoint of log starts could not be written");
        }
    }

    /// Has Kafka's checkpoint files say nothing of a topic that is about to be made: they name topics and not their ids, and what they say
    /// of an earlier one of this name would be taken for this one's at the next start.
    pub(crate) fn begin_checkpoints(&self, topic: &str) -> Result<(), LogError> {
        self.log_starts.begin(topic)?;
        let mut last = self.checkpointed.lock();
        let (points, _) = &mut *last;
        if checkpoints::names_topic(points, topic) {
            let mut without = points.clone();
            without.retain(|(known, _), _| known != topic);
            let path = self.directory.logs().join(RECOVERY_POINTS);
            checkpoints::write_offsets(self.files.as_ref(), &path, &without)?;
            *points = without;
        }
        Ok(())
    }

    /// Looks at the volume; tells of a change, and opens anew what failed while it did not serve.
    pub(crate) fn probe_storage(&self) {
        if let Some(bytes) = self.health.resized() {
            let message = format!("the volume is {bytes} bytes now");
            self.events.tell(EventKind::StorageChanged, "", None, message);
        }
        let Some((old, new)) = self.health.probe(self.config.clock.wall_ms()) else {
            return;
        };
        let message = if new.is_healthy() {
            format!("storage serves again (it was {})", old.reason)
        } else {
            new.message.clone()
        };
        self.events.tell(EventKind::StorageChanged, "", None, message);
        if new.is_healthy() {
            self.reopen_failed();
            self.pending.wake_all();
        }
    }
}

/// Segments, records and bytes of a pass by reason.
fn by_reason(outcome: &RetentionOutcome) -> [(Reason, u64, u64, u64); 3] {
    let mut counts = [Reason::Start, Reason::Size, Reason::Time].map(|reason| (reason, 0_u64, 0_u64, 0_u64));
    for (index, deletion) in outcome.deleted.iter().enumerate() {
        let base = deletion.segment.base_offset.max(outcome.old_log_start);
        let end = outcome
            .deleted
            .get(index + 1)
            .map_or(outcome.new_log_start, |next| next.segment.base_offset);
        let Some(count) = counts.iter_mut().find(|(reason, ..)| *reason == deletion.reason) else {
            continue;
        };
        count.1 += 1;
        count.2 += u64::try_from(end.saturating_sub(base)).unwrap_or(0);
        count.3 += u64::try_from(deletion.segment.size_bytes).unwrap_or(0);
    }
    counts
}

/// What stops retention on a partition, in a sentence.
pub(crate) fn describe_blocked(topic: &str, partition: i32, blocked: &Blocked) -> String {
    let (what, value, way_out) = match blocked.time {
        FutureTime::RecordTimestamp(value) => (
            "its largest timestamp",
            value,
            "; tidemark.ignore.timestamps.ahead.ms is the way out",
        ),
        FutureTime::ModifiedTime(value) => {
            ("its modification time (its records have no timestamp)", value, "")
        }
    };
    format!(
        "topic {topic} partition {partition}: segment {} cannot expire, {what} is {value}, {} ms in the future{way_out}",
        blocked.base_offset, blocked.ahead_ms
    )
}
