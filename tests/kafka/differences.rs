//! Where our answers to a script are meant to differ from Apache Kafka's, each with its reason. Everything else must be equal.
//!
//! Not asked at all: former leader epochs, since a single node that is restarted elects a new leader twice in Kafka and none here.
use crate::script::Step;

/// A wanted difference.
struct Wanted {
    #[allow(dead_code, reason = "for those who read the table")]
    reason: &'static str,
    /// Whether the two answers, Kafka's and ours, are this difference.
    is: fn(&Step, &str, &str) -> bool,
}

const WANTED: &[Wanted] = &[
    Wanted {
        reason: "where the broker's clock stamps records, which ones share the newest millisecond is chance",
        is: |step, kafka, ours| {
            let newest = step.is_newest();
            newest && kafka.contains(" time now ") && ours.contains(" time now ")
        },
    },
    Wanted {
        reason: "whoever fetches out of range is told where the log starts, so that it can see how much it lost; Kafka says -1",
        is: |step, kafka, ours| {
            let start = |answer: &str| {
                let (before, behind) = answer.split_once(": 1 start ")?;
                let (start, rest) = behind.split_once(' ')?;
                Some((before.to_owned(), start.parse::<i64>().ok()?, rest.to_owned()))
            };
            let (Some(kafka), Some(ours)) = (start(kafka), start(ours)) else {
                return false;
            };
            let is_fetch = matches!(step, Step::Fetch { .. });
            is_fetch && kafka.1 == -1 && ours.1 >= 0 && kafka.0 == ours.0 && kafka.2 == ours.2
        },
    },
];

/// Kafka's passes come by themselves, ours when they are asked for: before a pass, what ours would take from the front may be gone
/// there. Only segments below a log start that DeleteRecords moved can be; the log starts themselves are compared.
pub fn drop_what_passes_took(kafka: &[(i64, u64)], ours: &mut Vec<(i64, u64)>) {
    if let Some((first, _)) = kafka.first() {
        ours.retain(|(base, _)| base >= first);
    }
}

/// Whether the answers may differ so.
pub fn is_wanted(step: &Step, kafka: &str, ours: &str) -> bool {
    WANTED.iter().any(|wanted| (wanted.is)(step, kafka, ours))
}
