//! What is measured and told: clocks, metrics, tracing.
pub mod clock;
pub mod logging;
pub mod metrics;
