//! `tidemark inspect DIR`: what lies in a partition's files, and what a retention pass would do to them.
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};

use super::Outcome;
use super::output::show;
use crate::log::files::DiskFiles;
use crate::log::inspect::{self, Depth, text};
use crate::resource::keys;
use crate::resource::settings::{Overrides, TopicSettings};
use crate::telemetry::clock::{Clock, SystemClock};

const EXAMPLES: &str = "\
Examples:
  tidemark inspect /data/logs/orders-0
  tidemark inspect /var/lib/kafka/data --verify -o json
  tidemark inspect /data --plan --set retention.ms=3d --set retention.bytes=2Gi";

/// Look into partition directories, Kafka's or our own, without changing anything
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Inspect {
    /// A partition directory, a log directory, or a data directory
    directory: PathBuf,
    /// List every batch
    #[arg(long)]
    batches: bool,
    /// Read everything and check every checksum; exit code 1 if anything is wrong
    #[arg(long)]
    verify: bool,
    /// Say what a retention pass would delete, segment by segment, and why
    #[arg(long)]
    plan: bool,
    /// A setting for the plan, Kafka's default for all others; units such as 7d and 2Gi are understood
    #[arg(long, value_name = "KEY=VALUE", requires = "plan")]
    set: Vec<String>,
    /// Plan for this time instead of now, ms since 1970
    #[arg(long, value_name = "MS")]
    at: Option<i64>,
    /// How to print
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Tables for people
    Text,
    /// One JSON document
    Json,
}

impl Inspect {
    /// Prints the report.
    ///
    /// # Errors
    /// When the directory cannot be read, a setting is none, or (with `--verify`) something is wrong with the files.
    pub fn run(self) -> anyhow::Result<Outcome> {
        let settings = self.settings()?;
        let now_ms = self.at.unwrap_or_else(|| SystemClock::new().wall_ms());
        let depth = Depth {
            batches: self.batches,
            verify: self.verify,
            now_ms,
        };
        let mut report = inspect::inspect(&DiskFiles, &self.directory, depth)?;
        if self.plan {
            for partition in &mut report.partitions {
                partition.plan = Some(partition.planned(&settings, now_ms));
            }
        }
        match self.output {
            Output::Text => show(&text::render(&report, now_ms))?,
            Output::Json => show(&(serde_json::to_string_pretty(&report)? + "\n"))?,
        };
        if self.verify && !report.is_sound() {
            bail!("the files are damaged; the report says where");
        }
        Ok(Outcome::Done)
    }

    fn settings(&self) -> anyhow::Result<TopicSettings> {
        let mut overrides = Overrides::new();
        for set in &self.set {
            let (key, value) = set
                .split_once('=')
                .ok_or_else(|| anyhow!("--set {set}: expected KEY=VALUE"))?;
            let value = keys::parse_with_units(key, value).with_context(|| format!("--set {set}"))?;
            overrides.insert(key.to_owned(), value);
        }
        TopicSettings::resolve(&[&overrides]).context("the settings given with --set")
    }
}
