//! What the engine shows of itself: topics, readers, segments. Read from the logs at the moment of asking, never kept.
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::Engine;
use crate::engine::guarded::pending::Target;
use crate::engine::housekeeping::describe_blocked;
use crate::engine::refusal::Refusal;
use crate::engine::topics::catalog::{PartitionState, TopicState};
use crate::log::checkpoints::format_id;
use crate::log::partition::{PartitionLog, Phase};
use crate::resource::contract::{
    EngineEvent, Health, ObservedPartition, ObservedReader, ObservedSegment, ObservedTopic, PendingChange,
    ReaderKind, ReaderList, ReaderPosition, ReadersSummary, SegmentList, SlowestReader, TopicList,
};
use crate::retention::{Reader, Rules, Standing, expires_at_ms, matches, plan};

impl Engine {
    /// Every topic that clients can see, by name.
    pub fn observe_all(&self) -> TopicList {
        let topics = self.catalog.snapshot();
        TopicList {
            topics: topics.iter().map(|topic| self.observe_topic(topic)).collect(),
        }
    }

    /// The events after the one with this number, as far as they are kept.
    pub fn recent_events(&self, after: u64) -> Vec<EngineEvent> {
        self.events.listen_after(after).0
    }

    /// One topic.
    ///
    /// # Errors
    /// No such topic.
    pub fn observe(&self, name: &str) -> Result<ObservedTopic, Refusal> {
        let topic = self.known_topic(name)?;
        Ok(self.observe_topic(&topic))
    }

    fn observe_topic(&self, topic: &TopicState) -> ObservedTopic {
        let record = &topic.record;
        let pending = self.pending.get(&record.name).map(|pending| {
            let (config, partition_config) = match &pending.record.target {
                Target::Settings { .. } => {
                    let layers = self.layers_of(&pending.record.target);
                    (layers.config.clone(), layers.partition_overrides())
                }
                Target::Deletion => Default::default(),
            };
            PendingChange {
                request_id: pending.record.request_id,
                since_ms: pending.record.since_ms,
                deletion: pending.record.target == Target::Deletion,
                config,
                partition_config,
                verdict: pending.verdict,
            }
        });
        let now_ms = self.clock_guard.now_for_verdict();
        let partitions: Vec<ObservedPartition> = (0..)
            .zip(&topic.partitions)
            .map(|(partition, state)| self.observe_partition(&record.name, partition, state, now_ms))
            .collect();
        let engine_health = self.health.now();
        let health = if engine_health.is_healthy() {
            partitions
                .iter()
                .find_map(|partition| partition.unhealthy.clone())
                .unwrap_or_else(Health::healthy)
        } else {
            Health::clone(&engine_health)
        };
        ObservedTopic {
            name: record.name.clone(),
            id: format_id(record.id),
            owner: record.owner.clone(),
            readers_policy: record.readers.clone(),
            deletion_policy: record.deletion_policy,
            paused: record.paused,
            in_force: record.layers.in_force(),
            pending,
            readers: self.summarise(topic),
            partitions,
            health,
            volume: self.health.volume(),
            last_applied_ms: record.last_applied_ms,
            next_pass_ms: self.next_pass_ms.load(Ordering::Relaxed),
        }
    }

    fn observe_partition(
        &self,
        topic: &str,
        partition: i32,
        state: &PartitionState,
        now_ms: i64,
    ) -> ObservedPartition {
        let corrupt = |message: &str| Health {
            reason: "Corrupt".to_owned(),
            message: format!("partition {partition}: {message}"),
        };
        let Some(log) = &state.log else {
            return ObservedPartition {
                partition,
                log_start: -1,
                high_watermark: -1,
                log_end: -1,
                size_bytes: 0,
                segments: 0,
                oldest_segment_ms: -1,
                retention_blocked: None,
                unhealthy: Some(corrupt(state.offline.as_deref().unwrap_or("it is offline"))),
            };
        };
        let rules = Rules::from(&*log.settings());
        let unhealthy = match log.phase() {
            Phase::Open => None,
            Phase::Poisoned(what) => Some(corrupt(&what)),
            Phase::Closed | Phase::Deleted => Some(corrupt("it is closed")),
        };
        let blocked = log
            .plan(now_ms, &rules)
            .blocked
            .map(|found| describe_blocked(topic, partition, &found));
        let held = self
            .clock_held
            .load(Ordering::Relaxed)
            .then(|| "clock_jump".to_owned());
        log.with_profile(|profile, bounds| ObservedPartition {
            partition,
            log_start: bounds.log_start,
            high_watermark: bounds.high_watermark,
            log_end: bounds.log_end,
            size_bytes: profile.total_bytes(),
            segments: i32::try_from(profile.len()).unwrap_or(i32::MAX),
            oldest_segment_ms: profile.get(0).map_or(-1, |segment| segment.largest_timestamp),
            retention_blocked: blocked.or(held),
            unhealthy,
        })
    }

    fn summarise(&self, topic: &TopicState) -> ReadersSummary {
        let readers = self.counted_readers(topic);
        let slowest = readers
            .iter()
            .map(|reader| {
                let lag = topic
                    .logs()
                    .filter_map(|(partition, log)| lag(reader, partition, log))
                    .fold(0_i64, i64::saturating_add);
                (lag, reader)
            })
            .max_by(|(one, first), (other, second)| {
                one.cmp(other).then_with(|| second.name.cmp(&first.name))
            });
        ReadersSummary {
            checked: u32::try_from(readers.len()).unwrap_or(u32::MAX),
            slowest: slowest.map(|(lag, reader)| SlowestReader {
                kind: reader.kind,
                name: reader.name.to_string(),
                lag,
            }),
        }
    }

    /// Every reader of a topic, those left out by its policy too.
    ///
    /// # Errors
    /// No such topic.
    pub fn observe_readers(&self, name: &str) -> Result<ReaderList, Refusal> {
        let topic = self.known_topic(name)?;
        let now_ms = self.clock_guard.now_for_verdict();
        let pending = self.pending.get(name);
        let at_risk = |kind: ReaderKind, name: &str| {
            pending.as_ref().is_some_and(|pending| {
                let listed = &pending.verdict.readers_at_risk;
                pending.watch.holds_back(kind, name)
                    || listed
                        .iter()
                        .any(|reader| reader.kind == kind && reader.name == name)
            })
        };
        let mut readers: Vec<ObservedReader> = self
            .readers_of(&topic)
            .iter()
            .map(|reader| {
                let in_the_way = at_risk(reader.kind, &reader.name);
                self.observe_reader(&topic, reader, in_the_way, now_ms)
            })
            .collect();
        for required in &topic.record.readers.required {
            if !readers.iter().any(|reader| reader.name == *required) {
                readers.push(ObservedReader {
                    kind: ReaderKind::Required,
                    name: required.clone(),
                    at_risk: at_risk(ReaderKind::Required, required),
                    ignored: None,
                    positions: Vec::new(),
                });
            }
        }
        readers.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        Ok(ReaderList { readers })
    }

    fn observe_reader(
        &self,
        topic: &TopicState,
        reader: &Reader,
        in_the_way: bool,
        now_ms: i64,
    ) -> ObservedReader {
        let required = topic
            .record
            .readers
            .required
            .iter()
            .any(|group| **group == *reader.name);
        let positions: Vec<ReaderPosition> = topic
            .logs()
            .filter_map(|(partition, log)| {
                let position = reader.position(partition);
                let bounds = log.bounds();
                let standing = Standing::of(position.known, required, bounds.log_end)?;
                let next = standing.position(bounds.log_start);
                let left = self.headroom_of(topic, partition, reader, now_ms);
                Some(ReaderPosition {
                    partition,
                    position: next,
                    lag: next.map(|next| {
                        bounds
                            .high_watermark
                            .saturating_sub(next.max(bounds.log_start))
                            .max(0)
                    }),
                    headroom_ms: left.and_then(|left| left.ms),
                    headroom_bytes: left.and_then(|left| left.bytes),
                    already_lost: next.map_or(0, |next| bounds.log_start.saturating_sub(next).max(0)),
                    updated_ms: position.updated_ms,
                })
            })
            .collect();
        let ignored = topic
            .record
            .readers
            .ignored
            .iter()
            .find(|ignored| {
                reader.kind != ReaderKind::Fetcher && !required && matches(&ignored.group, &reader.name)
            })
            .map(|ignored| ignored.reason.clone());
        let soon = positions.iter().any(|position| position.headroom_ms == Some(0));
        ObservedReader {
            kind: reader.kind,
            name: reader.name.to_string(),
            at_risk: soon || in_the_way,
            ignored,
            positions,
        }
    }

    /// The segments of a partition, when each expires and what would take it now.
    ///
    /// # Errors
    /// No such topic or partition, or one that is offline.
    pub fn observe_segments(&self, name: &str, partition: i32) -> Result<SegmentList, Refusal> {
        let topic = self.known_topic(name)?;
        let state = topic
            .partition(partition)
            .ok_or_else(|| Refusal::UnknownPartition {
                name: name.to_owned(),
                partition,
                count: topic.record.partitions,
            })?;
        let Some(log) = &state.log else {
            return Err(Refusal::Storage {
                reason: "Corrupt",
                message: state
                    .offline
                    .as_deref()
                    .unwrap_or("the partition is offline")
                    .to_owned(),
            });
        };
        let now_ms = self.clock_guard.now_for_verdict();
        let rules = Rules::from(&*log.settings());
        let segments = log.with_profile(|profile, bounds| {
            let plan = plan(
                profile,
                bounds.log_start,
                bounds.high_watermark,
                bounds.log_end,
                now_ms,
                &rules,
            );
            let reasons: Vec<&'static str> = plan
                .deletions(profile)
                .map(|deletion| deletion.reason.as_str())
                .collect();
            profile
                .iter()
                .enumerate()
                .map(|(index, segment)| ObservedSegment {
                    base_offset: segment.base_offset,
                    size_bytes: segment.size_bytes,
                    first_timestamp: -1,
                    largest_timestamp: segment.largest_timestamp,
                    active: index + 1 == profile.len(),
                    expires_ms: expires_at_ms(
                        profile,
                        bounds.log_start,
                        bounds.log_end,
                        now_ms,
                        &rules,
                        index,
                    ),
                    deletable: reasons.get(index).map(|reason| (*reason).to_owned()),
                })
                .collect::<Vec<_>>()
        });
        Ok(SegmentList {
            segments: segments
                .into_iter()
                .map(|segment| ObservedSegment {
                    first_timestamp: log.first_timestamp_of(segment.base_offset),
                    ..segment
                })
                .collect(),
        })
    }
}

fn lag(reader: &Reader, partition: i32, log: &Arc<PartitionLog>) -> Option<i64> {
    let bounds = log.bounds();
    let standing = Standing::of(reader.position(partition).known, false, bounds.log_end)?;
    let next = standing.next_offset(bounds.log_start);
    Some(bounds.high_watermark.saturating_sub(next).max(0))
}
