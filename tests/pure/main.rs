//! The pure core of retention: no file, no socket, no clock. Everything here is held against a second implementation
//! that was written from the description of Kafka's behaviour, record by record, and shares no code with the first.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test needs it takes, or fails"
)]

mod cases;
mod histories;
mod log;
mod naive;
mod oracle;
mod partition;
mod properties;
mod random;
mod scenarios;
mod world;
