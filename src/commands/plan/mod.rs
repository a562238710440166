//! `tidemark plan`: what would this manifest delete, and who would lose what?
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::Outcome;
use super::engine_flags::duration;
use super::output::{self, Tip, show};
use super::shared::{EngineAddress, runtime};
use crate::engine::offline::AtRest;
use crate::operator::storage::{Storage, StorageError};
use crate::resource::contract::{self, DesiredTopic, Owner, Verdict};
use crate::resource::{desired, manifest};
use crate::telemetry::clock::SystemClock;

pub mod render;

const EXAMPLES: &str = "\
Examples:
  tidemark plan -f orders.yaml                 ask the engine on this machine
  tidemark plan -f topics/ --control http://engine:9097 -o json
  tidemark plan -f orders.yaml --data ./data   read a data directory at rest
  git diff --name-only | xargs tidemark plan -f

Exit code: 0 everything applies safely, 2 something would be refused, 1 error.";

/// How verdicts are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// One JSON list, an element a Topic
    Json,
}

/// Says what manifests would change, without changing anything.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Plan {
    /// Manifests, or directories of them
    #[arg(short, long = "file", required = true, num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    engine: EngineAddress,
    /// Read this data directory, on which no engine runs, instead of asking one; nothing in it is changed. What only a running engine knows
    /// is not in the verdict: a clock in doubt, and that a reader waits for an open transaction
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// With --data: the check interval, which a reader must survive where `readers.headroom` says nothing
    #[arg(long, env = "TIDEMARK_CHECK_INTERVAL", default_value = "5m", value_name = "DURATION", value_parser = duration)]
    check_interval: Duration,
    /// Namespace of manifests that name none
    #[arg(
        long,
        env = "TIDEMARK_NAMESPACE",
        default_value = "default",
        value_name = "NS"
    )]
    namespace: String,
    /// How to show the verdicts
    #[arg(short, long, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

/// The verdict on one Topic.
#[derive(Debug, Serialize)]
struct Planned {
    topic: String,
    file: String,
    line: usize,
    #[serde(flatten)]
    verdict: Verdict,
}

/// What one document of a manifest asks for.
#[derive(Debug)]
struct Asked {
    file: PathBuf,
    line: usize,
    topic: String,
    desired: DesiredTopic,
}

impl Plan {
    /// Prints a verdict for each Topic in the files.
    ///
    /// # Errors
    /// When a manifest has a fault, or the engine cannot be asked.
    pub fn run(self) -> anyhow::Result<Outcome> {
        let asked = self.read()?;
        let planned = match &self.data {
            Some(data) => runtime()?.block_on(async { read_at_rest(data, self.check_interval, asked) })?,
            None => {
                let storage = self.engine.client()?;
                runtime()?
                    .block_on(ask(&storage, asked))
                    .map_err(|error| self.helped(error))?
            }
        };
        match self.output {
            Format::Json => show(&(serde_json::to_string_pretty(&planned)? + "\n"))?,
            Format::Table => {
                let columns = output::columns();
                let texts = planned
                    .iter()
                    .map(|planned| render::verdict(&planned.topic, &planned.verdict, columns));
                show(&texts.collect::<Vec<_>>().join("\n"))?
            }
        };
        let refused = planned
            .iter()
            .any(|planned| planned.verdict.verdict == contract::Outcome::Refused);
        Ok(if refused {
            Outcome::WouldBeRefused
        } else {
            Outcome::Done
        })
    }

    /// What to do where there is no engine to ask.
    fn helped(&self, error: anyhow::Error) -> anyhow::Error {
        if !matches!(error.downcast_ref(), Some(StorageError::Unreachable(_))) {
            return error;
        }
        error
            .context(format!("ask the engine at {}", self.engine.control))
            .context(Tip(
                "start one with `tidemark run`, name another with --control URL, or read a data directory on which none runs with \
                 --data DIR"
                    .to_owned(),
            ))
    }

    /// Every Topic that the files declare; a fault in any of them ends it, because a plan of half a change misleads.
    fn read(&self) -> anyhow::Result<Vec<Asked>> {
        let mut asked = Vec::new();
        let mut faults = Vec::new();
        for file in self.manifests()? {
            let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            let manifests = manifest::read(&text, &self.namespace);
            faults.extend(
                manifests
                    .faults
                    .iter()
                    .map(|fault| format!("{}: {fault}", file.display())),
            );
            for located in manifests.topics {
                let topic = located.topic.topic_name().to_owned();
                let line = located.line;
                match desired::desired(&located.topic, nobody()) {
                    Ok(desired) => asked.push(Asked {
                        file: file.clone(),
                        line,
                        topic,
                        desired,
                    }),
                    Err(violations) => faults.extend(
                        violations
                            .iter()
                            .map(|violation| format!("{}: line {line}: {violation}", file.display())),
                    ),
                }
            }
        }
        if !faults.is_empty() {
            bail!("the manifests cannot be taken:\n  {}", faults.join("\n  "));
        }
        if asked.is_empty() {
            let named: Vec<String> = self.files.iter().map(|path| path.display().to_string()).collect();
            bail!(
                "there is no Topic in {}: a manifest is a .yaml, .yml or .json file with `kind: Topic`",
                named.join(", ")
            );
        }
        Ok(asked)
    }

    /// The files, and the manifests in the directories, that `-f` names.
    fn manifests(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for path in &self.files {
            if !path.is_dir() {
                files.push(path.clone());
                continue;
            }
            let listing = std::fs::read_dir(path).with_context(|| format!("list {}", path.display()))?;
            let mut inside = listing
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<Vec<_>, _>>()?;
            inside.retain(|file| {
                file.extension()
                    .is_some_and(|kind| kind == "yaml" || kind == "yml" || kind == "json")
            });
            inside.sort();
            files.extend(inside);
        }
        Ok(files)
    }
}

/// The owner of a Topic that is only asked about.
fn nobody() -> Owner {
    Owner {
        uid: String::new(),
        namespace: String::new(),
        name: String::new(),
    }
}

fn read_at_rest(data: &Path, check_interval: Duration, asked: Vec<Asked>) -> anyhow::Result<Vec<Planned>> {
    let scratch = std::env::temp_dir().join(format!("tidemark-plan-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&scratch).with_context(|| format!("make {}", scratch.display()))?;
    let at_rest = AtRest::open(data, &scratch, check_interval, Arc::new(SystemClock::new()));
    // It is open, or of no use: without a name it goes with the process, however that ends.
    let _ = std::fs::remove_dir_all(&scratch);
    let at_rest = at_rest?;
    let plan = |asked: Asked| {
        let Asked {
            file,
            line,
            topic,
            desired,
        } = asked;
        let verdict = at_rest
            .plan(&topic, &desired)
            .with_context(|| format!("plan {}:{line}", file.display()))?;
        Ok(Planned {
            topic,
            file: file.display().to_string(),
            line,
            verdict,
        })
    };
    asked.into_iter().map(plan).collect()
}

async fn ask(storage: &impl Storage, asked: Vec<Asked>) -> anyhow::Result<Vec<Planned>> {
    let mut planned = Vec::with_capacity(asked.len());
    for Asked {
        file,
        line,
        topic,
        mut desired,
    } in asked
    {
        // Whoever has the topic keeps it: the question is what the settings would do.
        let observed = storage.observe(&topic).await?;
        desired.owner = observed.and_then(|observed| observed.owner);
        let verdict = storage
            .plan(&topic, &desired)
            .await
            .with_context(|| format!("plan {}:{line}", file.display()))?;
        planned.push(Planned {
            topic,
            file: file.display().to_string(),
            line,
            verdict,
        });
    }
    Ok(planned)
}
