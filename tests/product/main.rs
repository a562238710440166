//! Tidemark as a product: what a newcomer meets, and the shape of the house.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test needs it takes, or fails"
)]

mod architecture;
mod demo;
#[cfg(feature = "peers")]
mod embedded;
mod manners;
mod plan_at_rest;
mod readme;
mod reasons;
mod runner;
#[path = "../support/mod.rs"]
mod support;
