//! What waits goes in by itself: judged again when woken, at start, and when engine defaults changed.
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::accepted::AcceptedLosses;
use crate::engine::guarded::apply::{Coming, Occasion, Waiting, outcome, seen};
use crate::engine::guarded::evaluate::Change;
use crate::engine::guarded::pending::{Due, Pending, PendingRecord, Target};
use crate::engine::refusal::Refusal;
use crate::engine::store::Table;
use crate::engine::topics::catalog::TopicState;
use crate::engine::topics::create::Changes;
use crate::engine::topics::record::Layers;
use crate::resource::contract::{EventKind, Outcome};
use crate::retention::{Cause, Decision};

impl Engine {
    /// The thread that judges again; returns when the engine stops.
    pub(crate) fn run_pending(&self) {
        while let Some(Due { topic, leave }) = self.pending.next() {
            if leave
                .is_some_and(|leave| self.has_members(&topic) && self.pending.wait_for_leave(&topic, leave))
            {
                continue;
            }
            if let Err(refusal) = self.reconsider(&topic) {
                tracing::warn!(topic, %refusal, "a change that waits could not be judged again");
            }
        }
    }

    /// Whether a member of any group reads the topic now.
    fn has_members(&self, topic: &str) -> bool {
        let groups = self.positions.groups_on(topic);
        groups
            .iter()
            .any(|group| group.members > 0 && (group.subscribed || !group.owned.is_empty()))
    }

    /// Wakes what waits for time, a clock that was set back, a roll, a deletion or an append.
    pub(crate) fn wake_due_changes(&self) {
        let times = self.clock_guard.times_for_verdict();
        self.pending.note_time(times);
        for name in self.pending.topics() {
            match self.catalog.by_name(&name) {
                Some(topic) => self.pending.wake_if_due(&name, times.now_ms, &seen(&topic)),
                None => self.pending.wake(&name),
            }
        }
    }

    /// Before a pass: judges changes again that are in force in part, so that no limit that has become too low is executed.
    /// Answers the topics where that failed; they are not to be touched.
    pub(crate) fn hold_what_is_in_part(&self) -> BTreeSet<String> {
        let mut unchecked = BTreeSet::new();
        for topic in self.catalog.snapshot().iter() {
            let name = &topic.record.name;
            if topic.record.before.is_some()
                && let Err(refusal) = self.reconsider(name)
            {
                tracing::warn!(topic = name, %refusal, "the pass leaves this topic: what is safe there could not be told");
                unchecked.insert(name.clone());
            }
        }
        unchecked
    }

    /// Judges what waits on a topic again.
    pub(crate) fn reconsider(&self, name: &str) -> Result<(), Refusal> {
        let changes = self.lock_changes()?;
        let Some(topic) = self.catalog.by_name(name) else {
            self.pending.remove(name);
            return Ok(());
        };
        let Some(pending) = self.pending.get(name) else {
            return self.take_back(&topic);
        };
        match &pending.record.target {
            Target::Deletion => self.reconsider_deletion(&changes, &topic),
            Target::Settings { .. } => self.reconsider_settings(&topic, &pending),
        }
    }

    fn reconsider_deletion(&self, changes: &Changes<'_>, topic: &Arc<TopicState>) -> Result<(), Refusal> {
        let gate = self.gate.change();
        let evaluation = self.evaluate(topic, Change::DeleteTopic, &topic.record.readers);
        if evaluation.decision() == Decision::Apply {
            self.delete_checked(changes, topic, &evaluation.accepted(topic))?;
            self.pending.remove(&topic.record.name);
            drop(gate);
            self.given_up(topic, &evaluation);
            return Ok(());
        }
        let mut verdict = evaluation.verdict(topic);
        verdict.pending = true;
        self.note_waiting(&topic.record.name, topic, &evaluation, &verdict, None);
        Ok(())
    }

    fn reconsider_settings(&self, topic: &Arc<TopicState>, pending: &Pending) -> Result<(), Refusal> {
        let proposed = self.layers_of(&pending.record.target);
        let gate = self.gate.change();
        let evaluation = self.evaluate(topic, Change::Settings(&proposed), &topic.record.readers);
        fail::fail_point!("guarded::checked");
        let mut verdict = evaluation.verdict(topic);
        let Coming {
            layers,
            waits,
            before,
        } = if topic.record.paused {
            self.outcome_under_pause(topic, &proposed, &mut verdict)
        } else {
            outcome(topic.record.granted(), &proposed, &evaluation)
        };
        let waiting = if waits { Waiting::Keep } else { Waiting::Drop };
        let settings_changed = layers != topic.record.layers;
        verdict.pending = waits;
        let mut state = Arc::clone(topic);
        if settings_changed || before != topic.record.before || !waits {
            let mut record = topic.record.clone();
            record.layers = layers;
            record.before = before;
            record.last_applied_ms = self.config.clock.wall_ms();
            let accepted = evaluation.accepted(topic);
            state = self.commit_record(topic, record, &waiting, &accepted)?;
        }
        verdict.in_force = state.record.layers.in_force();
        if waits {
            self.note_waiting(&topic.record.name, &state, &evaluation, &verdict, None);
        }
        drop(gate);
        let reason_changed = verdict.reason != pending.verdict.reason;
        // A refusal is told with its outcome.
        if waits && reason_changed && verdict.verdict != Outcome::Refused {
            let owner = topic.record.owner.as_ref();
            let message = format!("why the change waits is another reason now: {}", verdict.message);
            self.events
                .tell(EventKind::TopicChanged, &topic.record.name, owner, message);
        }
        self.tell_outcome(
            &state,
            &evaluation,
            &verdict,
            settings_changed,
            reason_changed,
            Occasion::Resumed,
        );
        Ok(())
    }

    /// A change of which part is in force does not wait any more, because what was kept of it cannot be read or is gone: nobody can tell
    /// what it would come to, so nothing of it stays in force.
    fn take_back(&self, topic: &Arc<TopicState>) -> Result<(), Refusal> {
        let mut record = topic.record.clone();
        let Some(before) = record.before.take() else {
            return Ok(());
        };
        record.layers = before;
        record.last_applied_ms = self.config.clock.wall_ms();
        let gate = self.gate.change();
        self.commit_record(topic, record, &Waiting::Keep, &AcceptedLosses::default())?;
        drop(gate);
        let message = format!(
            "topic {}: part of a change was in force that nobody can read any more; the settings from before it are in force again, until \
             somebody asks for it anew",
            topic.record.name
        );
        self.events.tell(
            EventKind::ChangeDropped,
            &topic.record.name,
            topic.record.owner.as_ref(),
            message,
        );
        Ok(())
    }

    /// At start: takes up what waits, and passes changed engine defaults through the guard. Topics without an owner take the new
    /// defaults at once; on the others the old ones stay in force until no reader loses by the change.
    pub(crate) fn take_up_pending(&self) -> Result<(), Refusal> {
        for (key, value) in self.store.scan(Table::PendingChanges)? {
            let name = String::from_utf8_lossy(&key).into_owned();
            match serde_json::from_slice::<PendingRecord>(&value) {
                Ok(record) => self.wait_anew(&name, record),
                Err(error) => {
                    let owner = self
                        .catalog
                        .by_name(&name)
                        .and_then(|topic| topic.record.owner.clone());
                    let message = format!(
                        "a change that waits on topic {name} cannot be read ({error}); it has to be asked for again"
                    );
                    self.events
                        .tell(EventKind::ChangeDropped, &name, owner.as_ref(), message);
                }
            }
        }
        for topic in self.catalog.snapshot().iter() {
            if self.pending.get(&topic.record.name).is_none()
                && let Err(refusal) = self.take_back(topic)
            {
                tracing::warn!(topic = topic.record.name, %refusal, "passes leave this topic until it can be written down");
            }
        }
        for topic in self.catalog.snapshot().iter() {
            if topic.record.layers.engine_defaults == self.config.defaults {
                continue;
            }
            let changed = if topic.record.owner.is_none() {
                self.take_defaults(topic)
            } else if self.pending.get(&topic.record.name).is_none() {
                self.defaults_changed(topic)
            } else {
                Ok(())
            };
            if let Err(refusal) = changed {
                tracing::warn!(topic = topic.record.name, %refusal, "the old engine defaults stay in force");
            }
        }
        self.pending.note_time(self.clock_guard.times_for_verdict());
        self.pending.wake_all();
        Ok(())
    }

    fn wait_anew(&self, name: &str, record: PendingRecord) {
        let Some(topic) = self.catalog.by_name(name) else {
            return;
        };
        let proposed = self.layers_of(&record.target);
        let change = match &record.target {
            Target::Deletion => Change::DeleteTopic,
            Target::Settings { .. } => Change::Settings(&proposed),
        };
        let evaluation = self.evaluate(&topic, change, &topic.record.readers);
        let mut verdict = evaluation.verdict(&topic);
        verdict.pending = true;
        self.note_waiting(name, &topic, &evaluation, &verdict, Some(record));
    }

    fn take_defaults(&self, topic: &Arc<TopicState>) -> Result<(), Refusal> {
        let mut record = topic.record.clone();
        record.layers.engine_defaults = self.config.defaults.clone();
        let _gate = self.gate.change();
        self.commit_record(topic, record, &Waiting::Keep, &AcceptedLosses::default())?;
        Ok(())
    }

    fn defaults_changed(&self, topic: &Arc<TopicState>) -> Result<(), Refusal> {
        let name = &topic.record.name;
        let target = Target::Settings {
            config: topic.record.layers.config.clone(),
            partition_config: topic.record.layers.partition_config.clone(),
        };
        let proposed: Layers = self.layers_of(&target);
        let gate = self.gate.change();
        let evaluation = self.evaluate(topic, Change::Settings(&proposed), &topic.record.readers);
        let Coming {
            layers,
            waits,
            before,
        } = outcome(topic.record.granted(), &proposed, &evaluation);
        let mut record = topic.record.clone();
        record.layers = layers;
        record.before = before;
        let record_of_change = PendingRecord {
            target,
            request_id: String::new(),
            since_ms: self.config.clock.wall_ms(),
        };
        let waiting = if waits {
            Waiting::Put(record_of_change.clone())
        } else {
            Waiting::Keep
        };
        let state = self.commit_record(topic, record, &waiting, &evaluation.accepted(topic))?;
        let mut verdict = evaluation.verdict(&state);
        verdict.pending = waits;
        if waits {
            self.note_waiting(name, &state, &evaluation, &verdict, Some(record_of_change));
        }
        drop(gate);
        if waits {
            let message = format!("a changed engine default waits: {}", verdict.message);
            self.events
                .tell(EventKind::Refused, name, topic.record.owner.as_ref(), message);
        } else if evaluation.judgement.cause == Cause::LossAccepted {
            self.tell_accepted(&state, &evaluation);
        }
        Ok(())
    }
}
