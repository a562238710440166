//! `tidemark status`: what `kubectl get topics` shows, without a cluster.
//!
//! It reads the statuses that `tidemark run` keeps beside the data; nothing needs to be running.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use notify::{RecursiveMode, Watcher};

use super::Outcome;
use super::shared::DataFlag;
use super::table::table;
use crate::resource::topic::Topic;

const EXAMPLES: &str = "\
Examples:
  tidemark status                    every Topic
  tidemark status orders -o yaml     one, with its whole status
  tidemark status --watch            every change as it comes";

/// How statuses are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The columns of `kubectl get topics`
    Table,
    /// More columns, the message among them
    Wide,
    /// The whole Topics as YAML
    Yaml,
    /// The whole Topics as a JSON list
    Json,
}

/// Shows Topics and their status.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Status {
    /// Show this Topic only: NAME, or NAMESPACE/NAME
    name: Option<String>,
    #[command(flatten)]
    data: DataFlag,
    /// How to show them
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
    /// Go on showing changes until interrupted
    #[arg(short, long)]
    watch: bool,
}

impl Status {
    /// Prints the statuses on standard output.
    ///
    /// # Errors
    /// When there is no status directory, a status cannot be read, or the named Topic is not there.
    pub fn run(self) -> anyhow::Result<Outcome> {
        let directory = self.data.data.join("status");
        if !directory.is_dir() {
            bail!(
                "there are no statuses in {}: `tidemark run` writes them; name its data directory with --data",
                directory.display()
            );
        }
        let mut shown = self.read(&directory)?;
        if let (Some(name), true) = (&self.name, shown.is_empty()) {
            bail!("there is no Topic {name} in {}", directory.display());
        }
        print!("{}", render(&shown, self.output)?);
        if self.watch {
            self.follow(&directory, &mut shown)?;
        }
        Ok(Outcome::Done)
    }

    fn read(&self, directory: &Path) -> anyhow::Result<BTreeMap<PathBuf, Topic>> {
        let mut topics = BTreeMap::new();
        for namespace in entries(directory)? {
            for file in entries(&namespace)? {
                if file.extension().is_none_or(|extension| extension != "yaml") {
                    continue;
                }
                // A status that goes between the listing and the read is a Topic that went.
                let Ok(text) = std::fs::read_to_string(&file) else {
                    continue;
                };
                let topic: Topic =
                    serde_yaml::from_str(&text).with_context(|| format!("read {}", file.display()))?;
                if self.name.as_deref().is_none_or(|wanted| is_named(&topic, wanted)) {
                    topics.insert(file, topic);
                }
            }
        }
        Ok(topics)
    }

    /// Prints what changed, whenever something does.
    fn follow(&self, directory: &Path, shown: &mut BTreeMap<PathBuf, Topic>) -> anyhow::Result<()> {
        let (sender, changes) = std::sync::mpsc::channel();
        let mut watcher = notify::recommended_watcher(sender).context("watch the status directory")?;
        watcher
            .watch(directory, RecursiveMode::Recursive)
            .context("watch the status directory")?;
        while let Ok(change) = changes.recv() {
            change.context("watch the status directory")?;
            while changes.try_recv().is_ok() {}
            let now = self.read(directory)?;
            let changed: BTreeMap<PathBuf, Topic> = now
                .iter()
                .filter(|(file, topic)| shown.get(*file) != Some(*topic))
                .map(|(file, topic)| (file.clone(), topic.clone()))
                .collect();
            if !changed.is_empty() {
                print!("{}", render(&changed, self.output)?);
            }
            *shown = now;
        }
        Ok(())
    }
}

/// What is in a directory, in the order of names.
fn entries(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let listing = std::fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))?;
    let mut paths = listing
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

fn is_named(topic: &Topic, wanted: &str) -> bool {
    let name = topic.metadata.name.as_deref().unwrap_or_default();
    let namespace = topic.metadata.namespace.as_deref().unwrap_or_default();
    match wanted.split_once('/') {
        Some((wanted_namespace, wanted_name)) => wanted_namespace == namespace && wanted_name == name,
        None => wanted == name,
    }
}

fn render(topics: &BTreeMap<PathBuf, Topic>, output: Format) -> anyhow::Result<String> {
    let topics: Vec<&Topic> = topics.values().collect();
    Ok(match output {
        Format::Table => table(
            [
                "NAME",
                "PARTITIONS",
                "RETENTION",
                "SIZE",
                "READY",
                "REASON",
                "SLOWEST READER",
            ],
            &topics.iter().map(|topic| columns(topic)).collect::<Vec<_>>(),
        ),
        Format::Wide => table(
            [
                "NAME",
                "PARTITIONS",
                "RETENTION",
                "SIZE",
                "READY",
                "REASON",
                "SLOWEST READER",
                "TOPIC",
                "SEGMENTS",
                "MESSAGE",
            ],
            &topics.iter().map(|topic| wide_columns(topic)).collect::<Vec<_>>(),
        ),
        Format::Yaml => topics
            .iter()
            .map(serde_yaml::to_string)
            .collect::<Result<Vec<_>, _>>()
            .context("write the Topics as YAML")?
            .join("---\n"),
        Format::Json => serde_json::to_string_pretty(&topics).context("write the Topics as JSON")? + "\n",
    })
}

fn columns(topic: &Topic) -> [String; 7] {
    let status = topic.status.clone().unwrap_or_default();
    let ready = status.condition("Ready");
    [
        topic.metadata.name.clone().unwrap_or_default(),
        status
            .partitions
            .map(|count| count.to_string())
            .unwrap_or_default(),
        status.retention.clone().unwrap_or_default(),
        status.retention_size.clone().unwrap_or_default(),
        ready
            .map(|condition| condition.status.clone())
            .unwrap_or_default(),
        ready
            .map(|condition| condition.reason.clone())
            .unwrap_or_default(),
        status
            .readers
            .clone()
            .and_then(|readers| readers.slowest)
            .unwrap_or_default(),
    ]
}

fn wide_columns(topic: &Topic) -> [String; 10] {
    let [name, partitions, retention, size, ready, reason, slowest] = columns(topic);
    let status = topic.status.clone().unwrap_or_default();
    let message = status
        .condition("Ready")
        .map(|condition| condition.message.clone())
        .unwrap_or_default();
    let topic_name = status.topic_name.clone().unwrap_or_default();
    let segment = status.segment.clone().unwrap_or_default();
    [
        name, partitions, retention, size, ready, reason, slowest, topic_name, segment, message,
    ]
}
