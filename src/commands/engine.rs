//! `tidemark engine`: the storage engine by itself, as the sidecar of an operator or on its own.
use anyhow::Context;
use clap::Args;

use super::Outcome;
use super::engine_flags::EngineFlags;
use super::shared;
use crate::engine::Engine as StorageEngine;

const EXAMPLES: &str = "\
Examples:
  tidemark engine --data /var/lib/tidemark
  tidemark engine --listen 0.0.0.0:9092 --advertise broker.example.com:9092
  tidemark engine --default retention.ms=3d --default segment.ms=1h --durability ack
  TIDEMARK_DATA=/srv/tidemark tidemark engine --log-format json";

/// Own a data directory, serve Kafka clients, enforce retention
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
            // One for all tries: a signal that comes during a start is not forgotten.
            let stop = shared::stop_signal();
            tokio::pin!(stop);
            loop {
                match StorageEngine::start(config.clone()).await {
                    Ok(engine) => {
                        stop.await?;
                        engine.shutdown().await;
                        return Ok(Outcome::Done);
                    }
                    Err(error) => {
                        // Where another engine holds it whoever started this one has to decide, and a supervisor that tries again is right.
                        let Some(reason) = error.reason() else {
                            return Err(self.flags.helped(error));
                        };
                        tracing::error!(
                            reason,
                            "{error}; the engine does not start, answers only to say so, and tries again by itself"
                        );
                        tokio::select! {
                            explained = StorageEngine::explain(&config, &error) => explained.context("serve the control API")?,
                            told = &mut stop => {
                                told?;
                                return Err(self.flags.helped(error));
                            }
                        }
                    }
                }
            }
        })
    }
}
