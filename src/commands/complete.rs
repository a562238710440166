//! `tidemark completions` and `tidemark man`: what a package installs beside the binary.
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::output::show;
use super::{Cli, Outcome};

/// Prints a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidemark completions bash > /etc/bash_completion.d/tidemark")]
pub struct Completions {
    /// The shell to complete in
    shell: Shell,
}

impl Completions {
    /// Prints the script on standard output.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn run(self) -> anyhow::Result<Outcome> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tidemark", &mut script);
        show(&String::from_utf8_lossy(&script))?;
        Ok(Outcome::Done)
    }
}

/// Writes one manual page per command.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidemark man /usr/local/share/man/man1")]
pub struct Man {
    /// The directory to write tidemark.1, tidemark-run.1 … to
    directory: PathBuf,
}

impl Man {
    /// Writes the pages, replacing older ones.
    ///
    /// # Errors
    /// When the directory cannot be made or written.
    pub fn run(self) -> anyhow::Result<Outcome> {
        std::fs::create_dir_all(&self.directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), &self.directory))
            .with_context(|| format!("write the manual pages to {}", self.directory.display()))?;
        Ok(Outcome::Done)
    }
}
