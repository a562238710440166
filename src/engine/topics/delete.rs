//! Deleting a topic, so that a crash at any point leaves a topic that is gone, or one that is whole.
//!
//! The deletion is recorded and the topic's record dropped in one transaction: from then on the topic is never served again.
//! Its directories are marked by name and removed after `file.delete.delay.ms`; a start goes on where a crash stopped.
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::accepted::AcceptedLosses;
use crate::engine::refusal::Refusal;
use crate::engine::store::{Batch, Table};
use crate::engine::topics::catalog::TopicState;
use crate::engine::topics::create::Changes;
use crate::engine::topics::record::DeletionRecord;
use crate::log::names;
use crate::resource::contract::EventKind;

impl Engine {
    /// Deletes a topic without asking anybody; whoever calls has asked the guard.
    pub(crate) fn delete_checked(
        &self,
        _changes: &Changes<'_>,
        topic: &Arc<TopicState>,
        accepted: &AcceptedLosses,
    ) -> Result<(), Refusal> {
        let record = &topic.record;
        let delay_ms = topic
            .partitions
            .iter()
            .find_map(|partition| Some(partition.log.as_ref()?.settings().file_delete_delay_ms))
            .unwrap_or(0);
        let deletion = DeletionRecord {
            id: record.id,
            name: record.name.clone(),
            partitions: record.partitions,
            at_ms: self.config.clock.wall_ms(),
            delay_ms,
        };
        let mut batch = Batch::new();
        batch
            .remove(Table::Topics, record.name.as_bytes())
            .remove(Table::PendingChanges, record.name.as_bytes())
            .put(
                Table::Deletions,
                record.id.as_bytes().to_vec(),
                serde_json::to_vec(&deletion).unwrap_or_default(),
            );
        self.log_starts.forget(&record.name, &mut batch);
        self.write_accepted(accepted, &mut batch);
        if let Err(error) = self.store.write_blocking(batch) {
            // Where it failed late the topic is deleted all the same. Going on with it would acknowledge what the next start removes.
            let found = self.store.get(Table::Topics, record.name.as_bytes());
            if !matches!(found, Ok(None)) {
                return Err(error.into());
            }
            tracing::error!(topic = record.name, %error, "the deletion is written, and may come undone by a power loss");
        }
        self.count_accepted(accepted);
        fail::fail_point!("topics::deletion-recorded");
        self.unpublish_topic(topic);
        for (_, log) in topic.logs() {
            log.retire();
        }
        self.mark_directories(topic, delay_ms);
        self.events.tell(
            EventKind::TopicDeleted,
            &record.name,
            record.owner.as_ref(),
            format!("topic {} was deleted", record.name),
        );
        Ok(())
    }

    fn mark_directories(&self, topic: &TopicState, delay_ms: i64) {
        let logs = self.directory.logs();
        let due = self
            .config
            .clock
            .monotonic()
            .saturating_add(Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0)));
        let unique = topic.record.id.simple().to_string();
        for partition in 0..topic.record.partitions {
            let live = logs.join(names::partition_directory(&topic.record.name, partition));
            let marked = logs.join(names::deleted_directory(&topic.record.name, partition, &unique));
            match self.files.rename(&live, &marked) {
                Ok(()) => self.removals.add(marked, topic.record.id, due),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(directory = %live.display(), %error,
                        "a deleted partition could not be marked; it is removed at the next start");
                }
            }
            fail::fail_point!("topics::one-directory-marked");
        }
        if let Err(error) = self.files.sync_dir(&logs) {
            tracing::warn!(%error, "marks of a deleted topic may be undone by a power loss; the next start repeats them");
        }
    }

    /// Removes directories that have waited long enough, and the records of deletions that are done.
    pub(crate) fn run_removals(&self) {
        let finished = self
            .removals
            .run(self.files.as_ref(), self.config.clock.monotonic());
        let mut batch = Batch::new();
        for id in finished {
            batch.remove(Table::Deletions, id.as_bytes().to_vec());
        }
        if let Err(error) = self.store.write_blocking(batch) {
            tracing::debug!(%error, "records of finished deletions stay");
        }
    }
}
