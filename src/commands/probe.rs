//! `tidemark probe`: whether an engine lives, or is ready, as an exit code.
//!
//! For a kubelet: the control API stays on the pod's loopback, which only a command inside the container reaches.
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::Outcome;
use super::shared::{EngineAddress, runtime};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// `/healthz`: it need not be replaced
    Live,
    /// `/readyz`: it takes requests
    Ready,
}

/// Asks an engine whether it lives or is ready: exit code 0 if so, 1 if not.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidemark probe ready --control 127.0.0.1:9097")]
pub struct Probe {
    /// What to ask
    question: Question,
    #[command(flatten)]
    engine: EngineAddress,
}

impl Probe {
    /// Asks once.
    ///
    /// # Errors
    /// When the answer is no, or none comes within 4 s.
    pub fn run(self) -> anyhow::Result<Outcome> {
        let client = self.engine.client()?.with_deadline(Duration::from_secs(4));
        let path = match self.question {
            Question::Live => "/healthz",
            Question::Ready => "/readyz",
        };
        runtime()?
            .block_on(client.text(path))
            .with_context(|| format!("{path} of {}", self.engine.control))?;
        Ok(Outcome::Done)
    }
}
