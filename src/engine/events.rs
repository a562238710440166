//! Events: what happened, kept for a while and told to whoever listens.
//!
//! They wake the operator and inform people; nothing is decided by them, so losing one costs a little time and no data. A
//! listener that fell behind is told so by a gap in the sequence numbers and looks at the state instead.
use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::resource::contract::{EngineEvent, EventKind, Owner};
use crate::telemetry::clock::Clock;

/// How many past events a late listener can still read.
const KEPT: usize = 1_024;

/// The events of one run of the engine.
#[derive(Debug)]
pub struct Events {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    sender: broadcast::Sender<EngineEvent>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    kept: VecDeque<EngineEvent>,
}

impl Events {
    /// No event yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            sender: broadcast::Sender::new(KEPT),
        }
    }

    /// Tells one.
    pub fn tell(&self, kind: EventKind, topic: &str, owner: Option<&Owner>, message: impl Into<String>) {
        let message = message.into();
        if kind.is_warning() && owner.is_some() {
            // Also told by whoever reconciles the topic; a terminal shows it from there.
            tracing::warn!(target: "tidemark::engine::events::owned", ?kind, topic, "{message}");
        } else if kind.is_warning() {
            tracing::warn!(?kind, topic, "{message}");
        } else {
            tracing::info!(?kind, topic, "{message}");
        }
        let mut state = self.state.lock();
        state.last += 1;
        let event = EngineEvent {
            sequence: state.last,
            at_ms: self.clock.wall_ms(),
            kind,
            topic: topic.to_owned(),
            owner: owner.cloned(),
            message,
        };
        if state.kept.len() == KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(event.clone());
        // Sent under the lock, so that a listener that starts now gets each event either kept or live and in order.
        let _ = self.sender.send(event);
    }

    /// The kept events after `sequence`, and all that come.
    pub fn listen_after(&self, sequence: u64) -> (Vec<EngineEvent>, broadcast::Receiver<EngineEvent>) {
        let state = self.state.lock();
        let past = state
            .kept
            .iter()
            .filter(|event| event.sequence > sequence)
            .cloned()
            .collect();
        (past, self.sender.subscribe())
    }

    /// The number of the last event.
    pub fn last(&self) -> u64 {
        self.state.lock().last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::clock::ManualClock;

    #[test]
    fn a_listener_gets_what_was_and_what_comes_without_a_gap() {
        let events = Events::new(Arc::new(ManualClock::at(7)));
        for number in 1..=3 {
            events.tell(EventKind::Applied, "orders", None, format!("{number}"));
        }
        let (past, mut live) = events.listen_after(1);
        events.tell(EventKind::Refused, "orders", None, "4");
        let mut seen: Vec<u64> = past.iter().map(|event| event.sequence).collect();
        seen.push(live.try_recv().unwrap().sequence);
        assert_eq!(seen, [2, 3, 4]);
        assert_eq!(past[0].at_ms, 7);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let events = Events::new(Arc::new(ManualClock::at(0)));
        for _ in 0..KEPT + 10 {
            events.tell(EventKind::Applied, "t", None, "");
        }
        let (past, _) = events.listen_after(0);
        assert_eq!(past.len(), KEPT);
        assert_eq!(past[0].sequence, 11);
    }
}
