//! `tidemark engine`: the storage engine by itself, as the sidecar of an operator or on its own.
use anyhow::Context;
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::Outcome;
use super::engine_flags::EngineFlags;
use super::shared;
use crate::engine::data_directory::DataDirectoryError;
use crate::engine::{Engine as StorageEngine, EngineError};

/// Own a data directory, serve Kafka clients, enforce retention
#[derive(Debug, Args)]
pub struct Engine {
    #[command(flatten)]
    flags: EngineFlags,
}

impl Engine {
    /// Serves until told to stop.
    ///
    /// # Errors
    /// When the engine does not start.
    pub fn run(self) -> anyhow::Result<Outcome> {
        let config = self.flags.config()?;
        shared::runtime()?.block_on(async move {
            match StorageEngine::start(config.clone()).await {
                Ok(engine) => {
                    shared::stop_signal().await?;
                    engine.shutdown().await;
                    Ok(Outcome::Done)
                }
                // Another engine holds it: whoever started this one has to decide, and a supervisor that tries again is right.
                Err(EngineError::DataDirectory(error @ DataDirectoryError::InUse { .. })) => {
                    Err(error.into())
                }
                Err(EngineError::DataDirectory(error)) => {
                    tracing::error!(reason = error.reason(), "{error}");
                    let stop = CancellationToken::new();
                    let explaining = StorageEngine::explain(&config, &error, stop.clone());
                    tokio::select! {
                        ended = explaining => ended.context("serve the control API")?,
                        told = shared::stop_signal() => told?,
                    }
                    stop.cancel();
                    Err(error.into())
                }
                Err(error) => Err(error.into()),
            }
        })
    }
}
