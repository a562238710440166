//! `tidemark plan`.
pub mod render;
