//! Changes that arrive from Kafka clients. On a topic that a resource owns they pass the same guard and get their answer at
//! once: in, or POLICY_VIOLATION with reader, partition and numbers. They never wait.
use crate::engine::Engine;
use crate::engine::accepted::AcceptedLosses;
use crate::engine::guarded::apply::{Occasion, Waiting};
use crate::engine::guarded::evaluate::Change;
use crate::engine::refusal::Refusal;
use crate::engine::store::Batch;
use crate::engine::topics::alter;
use crate::engine::topics::create::storage;
use crate::log::delete::{DeleteRecordsError, HIGH_WATERMARK};
use crate::resource::contract::{Outcome, Verdict};
use crate::retention::{Cause, Decision};
use crate::wire::broker::ConfigChange;

impl Engine {
    /// `AlterConfigs` and `IncrementalAlterConfigs`. Blocks.
    ///
    /// # Errors
    /// Invalid settings; a reader that would lose records.
    pub(crate) fn alter_topic(
        &self,
        name: &str,
        change: &ConfigChange,
        validate_only: bool,
    ) -> Result<(), Refusal> {
        let _changes = self.lock_changes()?;
        let topic = self.known_topic(name)?;
        let mut record = topic.record.clone();
        record.layers = topic.record.granted().clone();
        record.layers.config = alter::apply(&record.layers.config, change)?;
        // What waits goes on from here.
        record.before = record.before.map(|_| record.layers.clone());
        let gate = self.gate.change();
        let evaluation = match &record.owner {
            Some(_) => Some(self.evaluate(&topic, Change::Settings(&record.layers), &record.readers)),
            None => None,
        };
        if let Some(evaluation) = &evaluation
            && evaluation.decision() != Decision::Apply
        {
            self.metrics.verdict("Refused");
            return Err(refused(evaluation.verdict(&topic)));
        }
        if validate_only || record.layers == topic.record.layers {
            return Ok(());
        }
        record.last_applied_ms = self.config.clock.wall_ms();
        let accepted = evaluation.as_ref().map(|evaluation| evaluation.accepted(&topic));
        let state = self.commit_record(&topic, record, &Waiting::Keep, &accepted.unwrap_or_default())?;
        drop(gate);
        if let Some(evaluation) = evaluation {
            let mut verdict = evaluation.verdict(&state);
            verdict.message = format!("settings were changed by a Kafka client. {}", verdict.message);
            self.tell_outcome(&state, &evaluation, &verdict, true, false, Occasion::Asked);
            // What waits was judged against other settings.
            self.pending.wake(name);
        }
        Ok(())
    }

    /// `DeleteTopics`. Blocks.
    ///
    /// # Errors
    /// No such topic; a reader that would lose records.
    pub(crate) fn delete_topic_over_wire(&self, name: &str) -> Result<(), Refusal> {
        let changes = self.lock_changes()?;
        let topic = self.known_topic(name)?;
        if topic.record.owner.is_none() {
            return self.delete_checked(&changes, &topic, &AcceptedLosses::default());
        }
        let gate = self.gate.change();
        let evaluation = self.evaluate(&topic, Change::DeleteTopic, &topic.record.readers);
        if evaluation.decision() != Decision::Apply {
            self.metrics.verdict("Refused");
            return Err(refused(evaluation.verdict(&topic)));
        }
        self.delete_checked(&changes, &topic, &evaluation.accepted(&topic))?;
        drop(gate);
        self.given_up(&topic, &evaluation);
        Ok(())
    }

    /// `DeleteRecords`; answers the new log start. Blocks.
    ///
    /// # Errors
    /// No such partition; an offset that is not there; a reader that would lose records.
    pub(crate) fn delete_records_over_wire(
        &self,
        name: &str,
        partition: i32,
        offset: i64,
    ) -> Result<i64, Refusal> {
        let _changes = self.lock_changes()?;
        let topic = self.known_topic(name)?;
        let unknown = || Refusal::UnknownPartition {
            name: name.to_owned(),
            partition,
            count: topic.record.partitions,
        };
        let state = topic.partition(partition).ok_or_else(unknown)?;
        let log = state.log.as_ref().ok_or_else(|| Refusal::Storage {
            reason: "Corrupt",
            message: format!(
                "partition {partition} of topic {name} is offline: {}",
                state.offline.as_deref().unwrap_or_default()
            ),
        })?;
        let high_watermark = log.high_watermark();
        if offset < HIGH_WATERMARK || offset > high_watermark {
            return Err(delete_records_refusal(&DeleteRecordsError::OffsetOutOfRange {
                offset,
                high_watermark,
            }));
        }
        let gate = self.gate.change();
        let evaluation = topic.record.owner.as_ref().map(|_| {
            let change = Change::DeleteRecords { partition, offset };
            self.evaluate(&topic, change, &topic.record.readers)
        });
        if let Some(evaluation) = &evaluation
            && evaluation.decision() != Decision::Apply
        {
            self.metrics.verdict("Refused");
            return Err(refused(evaluation.verdict(&topic)));
        }
        let log_start = log
            .delete_records(offset)
            .map_err(|error| delete_records_refusal(&error))?;
        drop(gate);
        if let Some(evaluation) = evaluation
            && evaluation.judgement.cause == Cause::LossAccepted
        {
            // The log start is durable already, in a write of its own: a crash right here loses the count.
            let accepted = evaluation.accepted(&topic);
            let mut batch = Batch::new();
            self.write_accepted(&accepted, &mut batch);
            if let Err(error) = self.store.write_blocking(batch) {
                tracing::warn!(%error, topic = name, "the accepted loss is counted but not kept");
            }
            self.count_accepted(&accepted);
            self.tell_accepted(&topic, &evaluation);
        }
        self.pending.wake(name);
        Ok(log_start)
    }

    pub(crate) fn known_topic(
        &self,
        name: &str,
    ) -> Result<std::sync::Arc<crate::engine::topics::catalog::TopicState>, Refusal> {
        self.catalog.by_name(name).ok_or_else(|| Refusal::UnknownTopic {
            name: name.to_owned(),
        })
    }
}

fn refused(mut verdict: Verdict) -> Refusal {
    // A client cannot wait for a reader: a clamp is a refusal to it.
    verdict.verdict = Outcome::Refused;
    verdict.pending = false;
    Refusal::Guarded(Box::new(verdict))
}

fn delete_records_refusal(error: &DeleteRecordsError) -> Refusal {
    match error {
        DeleteRecordsError::Storage(error) => storage(error),
        DeleteRecordsError::CompactOnly => Refusal::Policy(error.to_string()),
        DeleteRecordsError::OffsetOutOfRange { .. } => Refusal::OffsetOutOfRange(error.to_string()),
    }
}
