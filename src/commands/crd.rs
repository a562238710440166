//! `tidemark crd`: the CustomResourceDefinition, as `crds/` holds it.
use anyhow::Context;
use clap::Args;

use super::Outcome;
use super::output::show;
use crate::resource::crd;

/// Prints the CustomResourceDefinition of Topic as YAML.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidemark crd | kubectl apply --server-side -f -")]
pub struct Crd {}

impl Crd {
    /// Prints the definition on standard output.
    ///
    /// # Errors
    /// When the definition cannot be written as YAML.
    pub fn run(self) -> anyhow::Result<Outcome> {
        show(&crd::yaml().context("write the definition as YAML")?)?;
        Ok(Outcome::Done)
    }
}
