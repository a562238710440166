//! Deletion through the control API, and what is given up by it.
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::accepted::AcceptedLosses;
use crate::engine::guarded::apply::{Waiting, plain_verdict};
use crate::engine::guarded::evaluate::{Change, Evaluation};
use crate::engine::guarded::pending::{PendingRecord, Target};
use crate::engine::refusal::Refusal;
use crate::engine::topics::catalog::TopicState;
use crate::engine::topics::create::Changes;
use crate::resource::contract::{DeleteTopic, DeletionPolicy, EventKind, Outcome, Verdict};
use crate::retention::{Cause, Decision};

impl Engine {
    /// The resource of a topic is deleted. With `Retain` the topic stays, without an owner; with `Delete` it goes, once no
    /// reader is behind. Blocks.
    ///
    /// # Errors
    /// The topic belongs to somebody else, or nothing can be stored.
    pub fn delete(&self, name: &str, request: &DeleteTopic) -> Result<Verdict, Refusal> {
        let changes = self.lock_changes()?;
        let Some(topic) = self.catalog.by_name(name) else {
            let message = format!("there is no topic {name}; nothing is left to delete.");
            return Ok(plain_verdict(Outcome::Unchanged, "Applied", message, None));
        };
        match &topic.record.owner {
            Some(owner) if owner.uid == request.owner => {}
            Some(owner) => {
                return Err(Refusal::Conflict {
                    name: name.to_owned(),
                    owner: owner.clone(),
                });
            }
            // Released already: by this very request, whose answer was lost, or by a topic that never was its own.
            None => {
                let message = format!("topic {name} has no owner; its data stays.");
                return Ok(plain_verdict(
                    Outcome::Unchanged,
                    "Applied",
                    message,
                    Some(&topic),
                ));
            }
        }
        match request.policy.unwrap_or(topic.record.deletion_policy) {
            DeletionPolicy::Retain => self.release(&topic),
            DeletionPolicy::Delete => self.delete_guarded(&changes, &topic, &request.request_id),
        }
    }

    fn release(&self, topic: &Arc<TopicState>) -> Result<Verdict, Refusal> {
        let mut record = topic.record.clone();
        record.owner = None;
        record.paused = false;
        // What was in force in part was so for as long as somebody watched over it.
        record.layers = topic.record.granted().clone();
        record.before = None;
        let gate = self.gate.change();
        let released = self.commit_record(topic, record, &Waiting::Drop, &AcceptedLosses::default())?;
        drop(gate);
        let name = &topic.record.name;
        let message =
            format!("topic {name} has no owner any more; its data stays under the settings in force.");
        self.events.tell(
            EventKind::TopicChanged,
            name,
            topic.record.owner.as_ref(),
            message.clone(),
        );
        Ok(plain_verdict(
            Outcome::Applied,
            "Applied",
            message,
            Some(&released),
        ))
    }

    fn delete_guarded(
        &self,
        changes: &Changes<'_>,
        topic: &Arc<TopicState>,
        request_id: &str,
    ) -> Result<Verdict, Refusal> {
        let name = &topic.record.name;
        let gate = self.gate.change();
        let evaluation = self.evaluate(topic, Change::DeleteTopic, &topic.record.readers);
        let mut verdict = evaluation.verdict(topic);
        self.metrics.verdict(match evaluation.decision() {
            Decision::Apply => "Applied",
            Decision::Refuse | Decision::Clamp => "Refused",
        });
        if evaluation.decision() == Decision::Apply {
            self.delete_checked(changes, topic, &evaluation.accepted(topic))?;
            drop(gate);
            self.given_up(topic, &evaluation);
            return Ok(verdict);
        }
        verdict.pending = true;
        let before = self.pending.get(name);
        let newly = !before.is_some_and(|before| before.record.target == Target::Deletion);
        let record = newly.then(|| PendingRecord {
            target: Target::Deletion,
            request_id: request_id.to_owned(),
            since_ms: self.config.clock.wall_ms(),
        });
        let mut topic = Arc::clone(topic);
        if let Some(record) = &record {
            // It takes the place of a change that may be in force in part.
            let mut whole = topic.record.clone();
            whole.layers = topic.record.granted().clone();
            whole.before = None;
            let waiting = Waiting::Put(record.clone());
            topic = self.commit_record(&topic, whole, &waiting, &AcceptedLosses::default())?;
        }
        self.note_waiting(name, &topic, &evaluation, &verdict, record);
        drop(gate);
        if newly {
            let message = format!("deletion waits: {}", verdict.message);
            self.events
                .tell(EventKind::Refused, name, topic.record.owner.as_ref(), message);
        }
        Ok(verdict)
    }

    /// Tells what a deletion took from readers.
    pub(crate) fn given_up(&self, topic: &TopicState, evaluation: &Evaluation) {
        if evaluation.judgement.cause != Cause::LossAccepted {
            return;
        }
        self.events.tell(
            EventKind::DeletedBehindReader,
            &topic.record.name,
            topic.record.owner.as_ref(),
            evaluation.judgement.verdict().message,
        );
    }

    /// Tells what a change with `onLoss: Allow` takes from readers.
    pub(crate) fn tell_accepted(&self, topic: &TopicState, evaluation: &Evaluation) {
        self.events.tell(
            EventKind::LossAccepted,
            &topic.record.name,
            topic.record.owner.as_ref(),
            evaluation.judgement.verdict().message,
        );
    }
}
