//! Afterwards too: readers that ordinary retention is about to overtake are told of in time, and what it took is counted.
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::topics::catalog::TopicState;
use crate::engine::topics::open::LastStop;
use crate::log::partition::Phase;
use crate::resource::contract::{EventKind, ReaderKind};
use crate::retention::{Headroom, Reader, Rules, Standing, headroom, matches};
use crate::telemetry::clock::millis;
use crate::telemetry::metrics::TopicReader;

/// A reader on a partition.
pub(crate) type ReaderOnPartition = (String, Arc<str>, i32);

impl Engine {
    /// Counts, per reader, the records that a pass took before they were read. `lowered` is partition, log start before and
    /// after.
    pub(crate) fn count_lost(&self, topic: &TopicState, lowered: &[(i32, i64, i64)]) {
        let name = &topic.record.name;
        let mut lost_by: Vec<(Arc<str>, i64)> = Vec::new();
        for reader in self.counted_readers(topic) {
            let mut lost = 0_i64;
            for (partition, before, after) in lowered {
                let known = reader.position(*partition).known;
                let Some(standing) = Standing::of(known, false, i64::MAX) else {
                    continue;
                };
                if standing.is_unknown() {
                    continue;
                }
                let unread = standing.next_offset(*before)..*after;
                if unread.is_empty() {
                    continue;
                }
                lost = lost.saturating_add(unread.end - unread.start);
            }
            if lost > 0 {
                lost_by.push((reader.name, lost));
            }
        }
        for (reader, lost) in lost_by {
            self.metrics
                .reader_lost_records
                .get_or_create(&TopicReader {
                    topic: name.clone(),
                    reader: reader.to_string(),
                })
                .inc_by(u64::try_from(lost).unwrap_or(0));
            self.events.tell(
                EventKind::RecordsLost,
                name,
                topic.record.owner.as_ref(),
                format!("retention took up to {lost} records of topic {name} that {reader} had not read"),
            );
        }
    }

    /// Looks for readers with little time left; tells of each once, until it has caught up.
    pub(crate) fn watch_headroom(&self) {
        let now_ms = self.clock_guard.now_for_verdict();
        let mut low = BTreeSet::new();
        for topic in self.catalog.snapshot().iter() {
            let readers = self.counted_readers(topic);
            if readers.is_empty() {
                continue;
            }
            for (partition, log) in topic.logs() {
                let rules = Rules::from(&*log.settings());
                let Some(limit_ms) = rules.age_limit_ms() else {
                    continue;
                };
                // With a short retention everybody is always close to the end: a quarter of it is close.
                let alert_ms = millis(self.config.headroom_alert).min(limit_ms / 4);
                for reader in &readers {
                    let Some(left) = self.headroom_of(topic, partition, reader, now_ms) else {
                        continue;
                    };
                    if left.ms.is_some_and(|ms| ms < alert_ms) {
                        low.insert((topic.record.name.clone(), Arc::clone(&reader.name), partition));
                    }
                }
            }
        }
        let before = std::mem::replace(&mut *self.low_headroom.lock(), low.clone());
        for (topic, reader, partition) in low.difference(&before) {
            let Some(state) = self.catalog.by_name(topic) else {
                continue;
            };
            self.events.tell(
                EventKind::HeadroomLow,
                topic,
                state.record.owner.as_ref(),
                format!(
                    "{reader} is about to lose records of topic {topic} partition {partition}: retention reaches its \
                     position in less than the headroom that is watched for"
                ),
            );
        }
    }

    /// How long a reader may stop on a partition; `None` where it does not read it, or nobody knows where it stands.
    pub(crate) fn headroom_of(
        &self,
        topic: &TopicState,
        partition: i32,
        reader: &Reader,
        now_ms: i64,
    ) -> Option<Headroom> {
        let log = topic.partition(partition)?.log.as_ref()?;
        // A change that is in force in part takes nothing from a reader that the settings before it keep.
        let rules = match &topic.record.before {
            Some(before) => Rules::from(&before.settings(partition).ok()?),
            None => Rules::from(&*log.settings()),
        };
        log.with_profile(|profile, bounds| {
            let standing = Standing::of(reader.position(partition).known, false, bounds.log_end)?;
            if standing.is_unknown() {
                return None;
            }
            let position = standing.next_offset(bounds.log_start);
            Some(headroom(
                profile,
                bounds.log_start,
                bounds.log_end,
                now_ms,
                &rules,
                position,
            ))
        })
    }

    /// The readers of a topic that its policy does not leave out.
    pub(crate) fn counted_readers(&self, topic: &TopicState) -> Vec<Reader> {
        let mut readers = self.readers_of(topic);
        readers.retain(|reader| {
            reader.kind == ReaderKind::Fetcher
                || !topic
                    .record
                    .readers
                    .ignored
                    .iter()
                    .any(|ignored| matches(&ignored.group, &reader.name))
        });
        readers
    }

    /// Opens anew what failed while storage did not serve.
    pub(crate) fn reopen_failed(&self) {
        let Ok(_changes) = self.lock_changes() else {
            return;
        };
        for topic in self.catalog.snapshot().iter() {
            let failed = topic.partitions.iter().any(|state| match &state.log {
                Some(log) => matches!(log.phase(), Phase::Poisoned(_)),
                None => false,
            });
            if failed {
                self.reopen_topic(topic);
            }
        }
    }

    fn reopen_topic(&self, topic: &Arc<TopicState>) {
        let mut partitions = topic.partitions.clone();
        for (partition, state) in (0..).zip(&mut partitions) {
            let Some(log) = state.log.clone() else {
                continue;
            };
            if !matches!(log.phase(), Phase::Poisoned(_)) {
                continue;
            }
            let last_stop = LastStop {
                clean: false,
                recovery_point: log.recovery_point(),
            };
            let directory = log.directory().to_path_buf();
            log.retire();
            match self.open_partition(&topic.record, partition, directory, last_stop) {
                Ok(log) => {
                    tracing::info!(
                        topic = topic.record.name,
                        partition,
                        "opened anew after its storage failed"
                    );
                    state.log = Some(log);
                }
                Err(error) => {
                    tracing::error!(topic = topic.record.name, partition, %error, "the partition stays offline");
                    state.log = None;
                    state.offline = Some(Arc::from(error.to_string()));
                }
            }
        }
        let (state, _) = self.topic_state(topic.record.clone(), partitions);
        self.catalog.put(Arc::new(state));
    }
}
