//! `tidemark explain REASON`: what a condition's reason means and what to do about it.
use anyhow::bail;
use clap::Args;

use super::Outcome;
use super::output::show;

/// Every reason with its page, in alphabetical order. The pages are `deploy/docs/reasons/*.md`.
pub const PAGES: &[(&str, &str)] = &[
    ("Applied", include_str!("../../deploy/docs/reasons/Applied.md")),
    ("Clamped", include_str!("../../deploy/docs/reasons/Clamped.md")),
    ("Conflict", include_str!("../../deploy/docs/reasons/Conflict.md")),
    ("Corrupt", include_str!("../../deploy/docs/reasons/Corrupt.md")),
    ("DiskFull", include_str!("../../deploy/docs/reasons/DiskFull.md")),
    ("Drift", include_str!("../../deploy/docs/reasons/Drift.md")),
    (
        "EngineUnreachable",
        include_str!("../../deploy/docs/reasons/EngineUnreachable.md"),
    ),
    (
        "ExistingData",
        include_str!("../../deploy/docs/reasons/ExistingData.md"),
    ),
    ("Fits", include_str!("../../deploy/docs/reasons/Fits.md")),
    ("Healthy", include_str!("../../deploy/docs/reasons/Healthy.md")),
    (
        "IdentityMismatch",
        include_str!("../../deploy/docs/reasons/IdentityMismatch.md"),
    ),
    (
        "Immutable",
        include_str!("../../deploy/docs/reasons/Immutable.md"),
    ),
    ("Invalid", include_str!("../../deploy/docs/reasons/Invalid.md")),
    (
        "LockUnsupported",
        include_str!("../../deploy/docs/reasons/LockUnsupported.md"),
    ),
    (
        "NameCollision",
        include_str!("../../deploy/docs/reasons/NameCollision.md"),
    ),
    (
        "NoReadersKnown",
        include_str!("../../deploy/docs/reasons/NoReadersKnown.md"),
    ),
    (
        "PartitionDecrease",
        include_str!("../../deploy/docs/reasons/PartitionDecrease.md"),
    ),
    ("Paused", include_str!("../../deploy/docs/reasons/Paused.md")),
    (
        "Progressing",
        include_str!("../../deploy/docs/reasons/Progressing.md"),
    ),
    ("ReadOnly", include_str!("../../deploy/docs/reasons/ReadOnly.md")),
    (
        "ReaderUnknown",
        include_str!("../../deploy/docs/reasons/ReaderUnknown.md"),
    ),
    (
        "Recovering",
        include_str!("../../deploy/docs/reasons/Recovering.md"),
    ),
    (
        "SlowReader",
        include_str!("../../deploy/docs/reasons/SlowReader.md"),
    ),
    (
        "TopicMissing",
        include_str!("../../deploy/docs/reasons/TopicMissing.md"),
    ),
    (
        "WorstCaseExceedsVolume",
        include_str!("../../deploy/docs/reasons/WorstCaseExceedsVolume.md"),
    ),
];

/// Prints what a condition's reason means and what to do about it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidemark explain SlowReader")]
pub struct Explain {
    /// The reason, as in a condition or in `tidemark status`; all reasons are listed when it is left out
    reason: Option<String>,
}

impl Explain {
    /// Prints the page of the reason, or the names of all.
    ///
    /// # Errors
    /// When there is no such reason.
    pub fn run(self) -> anyhow::Result<Outcome> {
        let Some(reason) = self.reason else {
            show(
                &PAGES
                    .iter()
                    .map(|(name, _)| format!("{name}\n"))
                    .collect::<String>(),
            )?;
            return Ok(Outcome::Done);
        };
        match PAGES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&reason)) {
            Some((_, page)) => show(page)?,
            None => bail!("no condition has the reason {reason:?}; `tidemark explain` lists those there are"),
        };
        Ok(Outcome::Done)
    }
}
