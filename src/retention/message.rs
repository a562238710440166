//! The sentence a person reads: who, where, how much.
use std::fmt::Write as _;

use super::guard::{Cause, Decision, Judgement};
use super::losses::AtRisk;
use super::readers::{Standing, Unknown};
use crate::resource::contract::ReaderKind;

impl AtRisk {
    /// What the figures do not say, in words.
    pub fn detail(&self) -> Option<String> {
        Some(match self.standing {
            Standing::At(at) if self.held_by_transaction => {
                format!("an open transaction holds it at offset {at} if it reads committed records only")
            }
            Standing::At(_) => return None,
            Standing::FromStart => "reads this topic, has not committed here".to_owned(),
            Standing::Unknown(Unknown::EarlierTopic(at)) => {
                format!("committed offset {at} on an earlier topic of this name")
            }
            Standing::Unknown(Unknown::BeyondEnd(at)) => {
                format!("committed offset {at} is beyond the log end")
            }
            Standing::Unknown(Unknown::Negative(at)) => format!("committed offset {at} is negative"),
            Standing::Unknown(Unknown::Expired(Some(at))) => {
                format!("required, its commit has expired, last known at offset {at}")
            }
            Standing::Unknown(Unknown::Expired(None)) => "required, its commit has expired".to_owned(),
            Standing::Unknown(Unknown::NeverCommitted) => "required, has no commit here".to_owned(),
        })
    }

    /// One reader, one partition: `group billing, partition 3: at offset 250, the log would start at 600, …`.
    pub fn sentence(&self) -> String {
        let kind = match self.kind {
            ReaderKind::Group | ReaderKind::Required => "group",
            ReaderKind::Fetcher => "consumer without a group",
        };
        let mut text = format!("{kind} {}, partition {}: ", self.name, self.partition);
        match self.standing.position(self.log_start) {
            Some(position) => _ = write!(text, "at offset {position}"),
            None => text.push_str("position unknown"),
        }
        let seen = (self.updated_ms >= 0)
            .then(|| jiff::Timestamp::from_millisecond(self.updated_ms).ok())
            .flatten();
        match (self.detail(), seen) {
            (Some(detail), Some(seen)) => _ = write!(text, " ({detail}; {seen})"),
            (Some(detail), None) => _ = write!(text, " ({detail})"),
            (None, Some(seen)) => _ = write!(text, " since {seen}"),
            (None, None) => {}
        }
        let last = self.lost.end.saturating_sub(1);
        _ = write!(
            text,
            ", the log would start at {}, {} would go unread ({} to {last})",
            self.start,
            records(self.records()),
            self.lost.start
        );
        text
    }
}

impl Judgement {
    /// The verdict in words, with at most [`MOST_READERS_LISTED`](crate::resource::contract::MOST_READERS_LISTED) readers and a count of the rest.
    pub fn message(&self) -> String {
        let mut text = match (self.decision, self.cause) {
            (Decision::Apply, Cause::NoReadersKnown) => {
                "Applied without a check: 0 readers are known, so nobody was asked.".to_owned()
            }
            (Decision::Refuse, Cause::NoReadersKnown) => {
                "Not applied, nothing deleted: 0 readers are known, and readers.whenNone is Refuse."
                    .to_owned()
            }
            (Decision::Apply, Cause::LossAccepted) => {
                format!(
                    "Applied with readers.onLoss Allow although records are given up: {}.",
                    self.list()
                )
            }
            (Decision::Apply, _) => match self.readers_checked {
                1 => "Applied: 1 reader checked, it loses nothing.".to_owned(),
                checked => format!("Applied: {checked} readers checked, none loses a record."),
            },
            (Decision::Refuse, _) => format!("Not applied, nothing deleted: {}.", self.list()),
            (Decision::Clamp, _) => {
                format!(
                    "Applied as far as nothing is lost, and further as readers advance: {}.",
                    self.list()
                )
            }
        };
        if !self.already_lost.is_empty() {
            let lost = self
                .already_lost
                .iter()
                .fold(0_i64, |sum, lost| sum.saturating_add(lost.records));
            _ = write!(
                text,
                " Apart from this change, {} below the log start had gone unread before.",
                records(lost)
            );
        }
        if self.looks_like_seconds {
            text.push_str(
                " retention.ms would be a thousandth of the value in force: it is in milliseconds, are these seconds?",
            );
        }
        text
    }

    fn list(&self) -> String {
        let listed: Vec<String> = self.at_risk.iter().map(AtRisk::sentence).collect();
        let more = self.losses.len().saturating_sub(listed.len());
        let mut text = listed.join("; ");
        if more > 0 {
            _ = write!(text, "; and {more} more");
        }
        text
    }
}

fn records(count: i64) -> String {
    match count {
        1 => "1 record".to_owned(),
        count => format!("{count} records"),
    }
}
