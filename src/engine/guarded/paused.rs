//! A topic that is paused: nothing of what is asked for comes into force, and what is in force in part goes no further. Only
//! what has become too low for a reader gives way.
use crate::engine::Engine;
use crate::engine::guarded::apply::{Coming, outcome};
use crate::engine::guarded::evaluate::Change;
use crate::engine::topics::catalog::TopicState;
use crate::engine::topics::record::Layers;
use crate::resource::contract::{Outcome, Verdict};

impl Engine {
    /// What comes of a change to `proposed` while its topic is paused; a verdict by which it would go in says that it waits.
    /// The caller holds the gate.
    pub(crate) fn outcome_under_pause(
        &self,
        topic: &TopicState,
        proposed: &Layers,
        verdict: &mut Verdict,
    ) -> Coming {
        let granted = topic.record.granted();
        let waits = proposed != granted;
        let layers = if waits {
            self.kept_under_pause(topic)
        } else {
            granted.clone()
        };
        let before = (layers != *granted).then(|| granted.clone());
        let told = match verdict.verdict {
            Outcome::Refused => true,
            Outcome::Clamped => before.is_some(),
            Outcome::Applied | Outcome::Unchanged => !waits,
        };
        if !told {
            verdict.verdict = Outcome::Refused;
            "Paused".clone_into(&mut verdict.reason);
            "the topic is paused: the change is judged again when it goes on."
                .clone_into(&mut verdict.message);
        }
        Coming {
            layers,
            waits,
            before,
        }
    }

    /// What is in force; where that is part of a change, held against the settings before it like a change of its own.
    fn kept_under_pause(&self, topic: &TopicState) -> Layers {
        let (granted, in_force) = (topic.record.granted(), &topic.record.layers);
        if granted == in_force {
            return in_force.clone();
        }
        let evaluation = self.evaluate(topic, Change::Settings(in_force), &topic.record.readers);
        outcome(granted, in_force, &evaluation).layers
    }
}
