//! `tidemark status`: what `kubectl get topics` shows, without a cluster.
//!
//! It reads the statuses that `tidemark run` keeps beside the data; nothing needs to be running.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use notify::{RecursiveMode, Watcher};

use super::Outcome;
use super::output::{self, BAD, GOOD, PARTLY, painted, show};
use super::shared::DataFlag;
use super::table::Layout;
use crate::engine::data_directory;
use crate::operator::source::records::FAULTS;
use crate::resource::columns::{self, Column};
use crate::resource::manifest::Fault;
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
    #[arg(short, long, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
    /// Go on showing changes until interrupted
    #[arg(short, long)]
    watch: bool,
}

type Shown = BTreeMap<PathBuf, Topic>;

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
            let faults = self.faults(&directory)?;
            bail!(
                "there is no Topic {name} in {}; `tidemark status` lists those there are{}{}",
                directory.display(),
                if faults.is_empty() { "" } else { "\n" },
                faults.trim_end()
            );
        }
        let for_people = matches!(self.output, Format::Table | Format::Wide);
        if for_people && !data_directory::is_in_use(&self.data.data) {
            output::note(&format!(
                "nothing runs on {}; this is how it was when `tidemark run` stopped",
                self.data.data.display()
            ));
        }
        let none_taken = directory.join(FAULTS).exists();
        if for_people && shown.is_empty() && !none_taken && !self.watch {
            output::note(
                "there is no Topic yet: write a manifest into the directory that `tidemark run` watches",
            );
            return Ok(Outcome::Done);
        }
        let mut screen = Screen::new(self.output);
        let mut text = screen.first(&shown)?;
        if for_people {
            text.push_str(&self.faults(&directory)?);
        }
        let mut read_on = show(&text)?;
        if self.watch && read_on {
            let (sender, changes) = std::sync::mpsc::channel();
            let mut watcher = notify::recommended_watcher(sender).context("watch the status directory")?;
            watcher
                .watch(&directory, RecursiveMode::Recursive)
                .context("watch the status directory")?;
            // What came between the first look and the watch is seen by a look of its own.
            let mut again = true;
            while read_on {
                if !again {
                    let Ok(change) = changes.recv() else { break };
                    change.context("watch the status directory")?;
                    while changes.try_recv().is_ok() {}
                }
                again = false;
                let now = self.read(&directory)?;
                let changed: Shown = now
                    .iter()
                    .filter(|(file, topic)| shown.get(*file) != Some(*topic))
                    .map(|(file, topic)| (file.clone(), topic.clone()))
                    .collect();
                if !changed.is_empty() {
                    read_on = show(&screen.next(&changed)?)?;
                }
                shown = now;
            }
        }
        Ok(Outcome::Done)
    }

    /// The manifests that are not taken, and why, as paragraphs.
    fn faults(&self, directory: &Path) -> anyhow::Result<String> {
        let path = directory.join(FAULTS);
        let Ok(text) = std::fs::read_to_string(&path) else {
            return Ok(String::new());
        };
        let faults: BTreeMap<String, Vec<Fault>> =
            serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
        let asked = |fault: &&Fault| match (&self.name, &fault.topic) {
            (Some(wanted), Some(topic)) => {
                topic == wanted || topic.split_once('/').is_some_and(|(_, name)| name == wanted)
            }
            (Some(_), None) => false,
            (None, _) => true,
        };
        let mut text = String::new();
        for (file, faults) in &faults {
            for fault in faults.iter().filter(asked) {
                text.push('\n');
                text.push_str(&paragraph(&format!("{file}: "), &format!("not taken: {fault}")));
            }
        }
        Ok(text)
    }

    fn read(&self, directory: &Path) -> anyhow::Result<Shown> {
        let mut topics = Shown::new();
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

/// Puts Topics into text: all of them first, then, while watching, those that change.
#[derive(Debug)]
enum Screen {
    Table(Table),
    Wide(Table),
    Yaml,
    Json,
}

/// The columns that `kubectl` prints, and how wide they are once rows have been shown.
#[derive(Debug)]
struct Table {
    columns: Vec<Column>,
    layout: Option<Layout>,
}

impl Screen {
    fn new(format: Format) -> Self {
        match format {
            Format::Table => Self::Table(Table::of(|column| !column.wide)),
            Format::Wide => Self::Wide(Table::of(|_| true)),
            Format::Yaml => Self::Yaml,
            Format::Json => Self::Json,
        }
    }

    fn first(&mut self, topics: &Shown) -> anyhow::Result<String> {
        Ok(match self {
            Self::Table(table) => table.rows(topics)? + &reasons(topics),
            Self::Wide(table) => table.rows(topics)?,
            Self::Yaml => topics
                .values()
                .map(serde_yaml::to_string)
                .collect::<Result<Vec<_>, _>>()
                .context("write the Topics as YAML")?
                .join("---\n"),
            Self::Json => {
                let topics: Vec<&Topic> = topics.values().collect();
                serde_json::to_string_pretty(&topics).context("write the Topics as JSON")? + "\n"
            }
        })
    }

    /// Those that have changed: rows under the same headers, further documents of the same stream.
    fn next(&mut self, topics: &Shown) -> anyhow::Result<String> {
        let text = self.first(topics)?;
        Ok(match self {
            Self::Yaml => format!("---\n{text}"),
            _ => text,
        })
    }
}

impl Table {
    fn of(shown: impl Fn(&Column) -> bool) -> Self {
        let columns = columns::printed().into_iter().filter(shown).collect();
        Self {
            columns,
            layout: None,
        }
    }

    /// Headers the first time, and rows in columns as wide as then.
    fn rows(&mut self, topics: &Shown) -> anyhow::Result<String> {
        let rows = topics
            .values()
            .map(|topic| self.row(topic))
            .collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(layout) = &self.layout {
            return Ok(layout.lines(&rows));
        }
        let names = self.columns.iter().map(|column| column.name.to_uppercase());
        let headers: Vec<String> = std::iter::once("NAME".to_owned()).chain(names).collect();
        let layout = self.layout.insert(Layout::of(&headers, &rows));
        Ok(layout.lines(&[headers]) + &layout.lines(&rows))
    }

    fn row(&self, topic: &Topic) -> anyhow::Result<Vec<String>> {
        let name = topic.metadata.name.clone().unwrap_or_default();
        let topic = serde_json::to_value(topic).context("read a Topic")?;
        let cells = self.columns.iter().map(|column| match column.cell(&topic) {
            state if column.name == "Ready" && !state.is_empty() => ready_in_colour(&state),
            cell => cell,
        });
        Ok(std::iter::once(name).chain(cells).collect())
    }
}

/// Why those that are not ready are not, each in a paragraph below the table.
fn reasons(topics: &Shown) -> String {
    let mut text = String::new();
    for topic in topics.values() {
        let Some(ready) = topic.status.as_ref().and_then(|status| status.condition("Ready")) else {
            continue;
        };
        if ready.status == "True" || ready.message.is_empty() {
            continue;
        }
        let name = topic.metadata.name.as_deref().unwrap_or_default();
        text.push('\n');
        text.push_str(&paragraph(&format!("{name}: "), &ready.message));
    }
    text
}

fn paragraph(lead: &str, sentence: &str) -> String {
    let text = match output::columns() {
        Some(columns) => output::wrapped(lead, sentence, columns),
        None => format!("{lead}{sentence}"),
    };
    text + "\n"
}

fn ready_in_colour(state: &str) -> String {
    let style = match state {
        "True" => GOOD,
        "False" => BAD,
        _ => PARTLY,
    };
    painted(style, state)
}
