//! Topics: what they are called, what they are set to, and the directories that hold them.
pub mod alter;
pub mod catalog;
pub mod create;
pub mod delete;
pub mod describe;
pub mod inventory;
pub mod open;
pub mod record;
