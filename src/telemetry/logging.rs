//! Log lines: to standard error, filtered by target and level, as text or as one JSON object a line.
//!
//! Requests are not logged; they are counted and timed in [`crate::telemetry::metrics`].
use tracing_subscriber::EnvFilter;

/// A filter that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("log filter {filter:?} is not a level or a list such as tidemark=debug,kube=info: {reason}")]
pub struct InvalidFilter {
    filter: String,
    reason: String,
}

/// Starts logging for the whole process; later calls change nothing.
pub fn init(filter: &str, json: bool) -> Result<(), InvalidFilter> {
    // To the parser a word alone is a target, so a misspelt level would silence everything without a word.
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let unclear = |part: &&str| {
        let part = part.trim();
        !part.contains(['=', '[']) && !levels.iter().any(|level| level.eq_ignore_ascii_case(part))
    };
    if let Some(part) = filter.split(',').find(unclear) {
        return Err(InvalidFilter {
            filter: filter.to_owned(),
            reason: format!("{:?} is none of {}", part.trim(), levels.join(", ")),
        });
    }
    let parsed = EnvFilter::try_new(filter).map_err(|error| InvalidFilter {
        filter: filter.to_owned(),
        reason: error.to_string(),
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr);
    // A second call, as tests make, finds a subscriber in place and leaves it.
    let _ = if json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.with_ansi(false).try_init()
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_filter_is_named() {
        let error = init("tidemark=loud", false).unwrap_err();
        assert!(error.to_string().contains("tidemark=loud"), "{error}");
        let error = init("info,inof", false).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("\"inof\" is none of off, error, warn, info"),
            "{error}"
        );
        init("warn,tidemark=error", false).unwrap();
    }
}
