//! `tidemark demo`.
pub mod picture;
