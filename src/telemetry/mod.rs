//! What is measured and told: clocks, metrics, tracing.
pub mod clock;
#[cfg(feature = "failpoints")]
pub mod failpoints;
pub mod logging;
pub mod metrics;
