//! The command line: one file a command, and what they share.
//!
//! A command turns its flags into a call of a room below and its result into text and an exit code; it
//! decides nothing itself. Exit codes are stable: 0 done (for `plan`: applies safely), 1 error, 2 (`plan`
//! only) would be refused.
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod complete;
pub mod crd;
pub mod demo;
pub mod engine;
pub mod engine_flags;
pub mod explain;
pub mod inspect;
pub mod operator;
pub mod output;
pub mod plan;
pub mod probe;
pub mod run;
pub mod shared;
pub mod status;
mod table;

/// The version that `--version` prints: the release and the commit it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("TIDEMARK_COMMIT"), ")");

const EXAMPLES: &str = "\
Examples:
  tidemark run --topics deploy/examples  engine and reconcile loop in one process
  tidemark status                        what is in force, what is held back, by whom
  tidemark plan -f orders.yaml           what would go, and who would lose what?
  tidemark demo                          the whole story in under a minute";

/// Kafka topics whose retention never takes a record that a reader has not read.
#[derive(Debug, Parser)]
#[command(name = "tidemark", version = VERSION, about, after_help = EXAMPLES, propagate_version = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    logging: shared::LoggingFlags,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Play the whole story in under a minute, on a temporary directory
    Demo(demo::Demo),
    /// Own a data directory, serve Kafka clients, enforce retention
    Engine(Box<engine::Engine>),
    /// Run engine and reconcile loop in one process, over a directory of manifests
    Run(run::Run),
    /// Keep the Topics of a Kubernetes cluster in force on one engine
    Operator(operator::Operator),
    /// Say what a manifest would delete and who would lose what, changing nothing
    Plan(plan::Plan),
    /// Show Topics and their status, as `kubectl get topics` does
    Status(status::Status),
    /// Print the CustomResourceDefinition of Topic
    Crd(crd::Crd),
    /// Say what a condition's reason means and what to do about it
    Explain(explain::Explain),
    /// Look into partition directories, Kafka's or our own, without changing anything
    Inspect(inspect::Inspect),
    /// Ask an engine whether it lives or is ready, as a kubelet does
    #[command(hide = true)]
    Probe(probe::Probe),
    /// Print a completion script for a shell
    Completions(complete::Completions),
    /// Write the manual pages to a directory
    #[command(hide = true)]
    Man(complete::Man),
}

impl Command {
    /// The log filter of a command where none is given: what a person at a terminal is told already is not logged too.
    fn usual_log(&self) -> &'static str {
        match self {
            Self::Run(_) if std::io::stdout().is_terminal() => "warn,tidemark::engine::events::owned=off",
            Self::Run(_) | Self::Engine(_) | Self::Operator(_) => "info",
            _ => "error",
        }
    }
}

/// How a command ended, where that is neither an error nor plain success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Exit code 0.
    Done,
    /// Exit code 2: what was asked would be refused.
    WouldBeRefused,
}

/// Parses `arguments`, runs the command and returns the process's exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(message) => {
            let failed = message.use_stderr();
            // Nobody is left to tell when even the terminal is gone.
            let _ = message.print();
            return if failed {
                ExitCode::from(1)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match dispatch(cli) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::WouldBeRefused) => ExitCode::from(2),
        Err(error) => {
            output::complain(&error);
            ExitCode::from(1)
        }
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<Outcome> {
    let filter = cli
        .logging
        .log
        .as_deref()
        .unwrap_or_else(|| cli.command.usual_log());
    crate::telemetry::logging::init(filter, cli.logging.log_format == shared::LogFormat::Json)?;
    match cli.command {
        Command::Demo(command) => command.run(),
        Command::Engine(command) => command.run(),
        Command::Run(command) => command.run(),
        Command::Operator(command) => command.run(),
        Command::Plan(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Crd(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Probe(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
    }
}
