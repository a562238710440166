//! What is measured and told: clocks, metrics, tracing.
pub mod clock;
