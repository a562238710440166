//! Flags that several commands have in common, under one name and one environment variable each.
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Where the data directory is.
#[derive(Debug, Clone, Args)]
pub struct DataFlag {
    /// The data directory
    #[arg(long, env = "TIDEMARK_DATA", default_value = "./data", value_name = "DIR")]
    pub data: PathBuf,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One readable line an event
    Text,
    /// One JSON object an event
    Json,
}

/// What is logged, and how.
#[derive(Debug, Clone, Args)]
pub struct LoggingFlags {
    /// What to log: a level (error, warn, info, debug, trace) or filters such as `tidemark=debug,kube=info`
    #[arg(
        long,
        env = "TIDEMARK_LOG",
        default_value = "info",
        global = true,
        value_name = "FILTER"
    )]
    pub log: String,
    /// How to write log lines
    #[arg(
        long,
        env = "TIDEMARK_LOG_FORMAT",
        default_value = "text",
        global = true,
        value_enum
    )]
    pub log_format: LogFormat,
}
