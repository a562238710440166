//! Conditions by the conventions of Kubernetes: a list keyed by type, each with the generation that it is about, and a
//! transition time that moves only when the status does.
//!
//! `Reconciling` and `Stalled` follow kstatus: present only while true, and never both, because kstatus takes the
//! first of the two that it meets.
use super::status::Condition;

/// Everything declared is in force.
pub const READY: &str = "Ready";
/// kstatus: being worked on.
pub const RECONCILING: &str = "Reconciling";
/// kstatus: stuck until somebody or a reader does something.
pub const STALLED: &str = "Stalled";
/// The retention settings declared are in force.
pub const RETENTION_APPLIED: &str = "RetentionApplied";
/// Storage works.
pub const STORAGE_HEALTHY: &str = "StorageHealthy";
/// The worst case fits on the volume.
pub const CAPACITY_OK: &str = "CapacityOk";
/// The pause annotation is set.
pub const PAUSED: &str = "Paused";

/// The order in which conditions are listed.
const ORDER: &[&str] = &[
    READY,
    RECONCILING,
    STALLED,
    RETENTION_APPLIED,
    STORAGE_HEALTHY,
    CAPACITY_OK,
    PAUSED,
];

/// `status` of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell.
    Unknown,
}

impl State {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its type.
    pub kind: &'static str,
    /// Whether it holds.
    pub state: State,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

impl Finding {
    /// A finding.
    pub fn new(
        kind: &'static str,
        state: State,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            state,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// The longest message of a condition, in characters.
const LONGEST_MESSAGE: usize = 2_048;

/// The conditions after the ones in `before`: exactly the findings, in a fixed order. `now` is in RFC 3339.
pub fn conditions(before: &[Condition], findings: &[Finding], generation: i64, now: &str) -> Vec<Condition> {
    let mut after: Vec<Condition> = findings
        .iter()
        .map(|finding| {
            let state = finding.state.text();
            let unchanged = before
                .iter()
                .find(|old| old.kind == finding.kind && old.status == state);
            Condition {
                kind: finding.kind.to_owned(),
                status: state.to_owned(),
                observed_generation: generation,
                last_transition_time: unchanged
                    .map_or_else(|| now.to_owned(), |old| old.last_transition_time.clone()),
                reason: finding.reason.clone(),
                message: bounded(&finding.message),
            }
        })
        .collect();
    after.sort_by_key(|condition| ORDER.iter().position(|kind| *kind == condition.kind));
    after
}

fn bounded(message: &str) -> String {
    match message.char_indices().nth(LONGEST_MESSAGE) {
        Some((at, _)) => format!("{}…", message.get(..at).unwrap_or_default()),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let ready = |state, reason: &str| vec![Finding::new(READY, state, reason, "")];
        let first = conditions(&[], &ready(State::False, "SlowReader"), 1, "t1");
        let second = conditions(&first, &ready(State::False, "ReaderUnknown"), 2, "t2");
        assert_eq!(second[0].last_transition_time, "t1");
        assert_eq!(
            (second[0].reason.as_str(), second[0].observed_generation),
            ("ReaderUnknown", 2)
        );
        let third = conditions(&second, &ready(State::True, "Applied"), 2, "t3");
        assert_eq!(third[0].last_transition_time, "t3");
    }

    #[test]
    fn conditions_that_no_longer_hold_go_and_the_order_is_fixed() {
        let before = conditions(
            &[],
            &[
                Finding::new(PAUSED, State::True, "Paused", ""),
                Finding::new(STALLED, State::True, "SlowReader", ""),
                Finding::new(READY, State::False, "SlowReader", ""),
            ],
            1,
            "t",
        );
        let kinds: Vec<&str> = before.iter().map(|condition| condition.kind.as_str()).collect();
        assert_eq!(kinds, [READY, STALLED, PAUSED]);
        let after = conditions(
            &before,
            &[Finding::new(READY, State::True, "Applied", "")],
            1,
            "t",
        );
        assert_eq!(after.len(), 1);
    }
}
