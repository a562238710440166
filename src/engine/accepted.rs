//! What readers lost because somebody allowed it: counted over restarts too, so that the figure is that of the topic and
//! not of a process.
use crate::engine::Engine;
use crate::engine::store::{Batch, StoreError, Table};
use crate::retention::Losses;
use crate::telemetry::metrics::TopicReader;

/// What readers lose by a change that is about to be made.
#[derive(Debug, Default)]
pub(crate) struct AcceptedLosses(Vec<(TopicReader, u64)>);

impl AcceptedLosses {
    /// By reader.
    pub fn of(topic: &str, losses: &Losses) -> Self {
        let mut readers = std::collections::BTreeMap::new();
        for loss in losses.iter() {
            let sum: &mut u64 = readers.entry(&**loss.name).or_default();
            *sum = sum.saturating_add(u64::try_from(loss.records).unwrap_or(0));
        }
        let labels = |reader: &str| TopicReader {
            topic: topic.to_owned(),
            reader: reader.to_owned(),
        };
        let readers = readers.into_iter();
        Self(
            readers
                .map(|(reader, records)| (labels(reader), records))
                .collect(),
        )
    }
}

impl Engine {
    /// Writes the sums with the change that they are of, so that a crash leaves both or neither. The caller holds the lock on changes.
    pub(crate) fn write_accepted(&self, accepted: &AcceptedLosses, batch: &mut Batch) {
        for (labels, records) in &accepted.0 {
            let sum = self.metrics.loss_accepted_records.get_or_create(labels).get();
            batch.put(
                Table::AcceptedLosses,
                format!("{}\0{}", labels.topic, labels.reader),
                sum.saturating_add(*records).to_string(),
            );
        }
    }

    /// Counts them, once they are written.
    pub(crate) fn count_accepted(&self, accepted: &AcceptedLosses) {
        for (labels, records) in &accepted.0 {
            let counter = self.metrics.loss_accepted_records.get_or_create(labels);
            counter.inc_by(*records);
        }
    }

    /// Goes on counting from what was kept.
    pub(crate) fn restore_accepted(&self) -> Result<(), StoreError> {
        for (key, value) in self.store.scan(Table::AcceptedLosses)? {
            let key = String::from_utf8_lossy(&key).into_owned();
            let records = std::str::from_utf8(&value)
                .ok()
                .and_then(|value| value.parse().ok());
            if let (Some((topic, reader)), Some(records)) = (key.split_once('\0'), records) {
                let labels = TopicReader {
                    topic: topic.to_owned(),
                    reader: reader.to_owned(),
                };
                self.metrics
                    .loss_accepted_records
                    .get_or_create(&labels)
                    .inc_by(records);
            } else {
                tracing::warn!(key, "an accepted loss that cannot be read is not counted");
            }
        }
        Ok(())
    }
}
