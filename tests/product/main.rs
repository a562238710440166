//! Tidemark as a product: what a newcomer meets, and the shape of the house.
mod architecture;
mod demo;
#[cfg(feature = "peers")]
mod embedded;
mod plan_at_rest;
mod readme;
mod reasons;
#[cfg(feature = "peers")]
#[path = "../support/mod.rs"]
mod support;
