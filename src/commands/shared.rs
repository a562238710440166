//! Flags that several commands have in common, under one name and one environment variable each.
use clap::{Args, ValueEnum};

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
