//! What readers lost because somebody allowed it: counted over restarts too, so that the figure is that of the topic and
//! not of a process.
use crate::engine::Engine;
use crate::engine::store::{Batch, StoreError, Table};
use crate::retention::Losses;
use crate::telemetry::metrics::TopicReader;

impl Engine {
    /// Counts what a change takes from readers, and keeps the sums. The caller holds the lock on changes.
    pub(crate) fn count_accepted(&self, topic: &str, losses: &Losses) {
        let mut readers = std::collections::BTreeMap::new();
        for loss in losses.iter() {
            let sum: &mut u64 = readers.entry(&**loss.name).or_default();
            *sum = sum.saturating_add(u64::try_from(loss.records).unwrap_or(0));
        }
        let mut batch = Batch::new();
        for (reader, records) in readers {
            let labels = TopicReader {
                topic: topic.to_owned(),
                reader: reader.to_owned(),
            };
            let counter = self.metrics.loss_accepted_records.get_or_create(&labels);
            counter.inc_by(records);
            batch.put(
                Table::AcceptedLosses,
                format!("{topic}\0{reader}"),
                counter.get().to_string(),
            );
        }
        if let Err(error) = self.store.write_blocking(batch) {
            tracing::warn!(%error, topic, "the accepted loss is counted but not kept");
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
