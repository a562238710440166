//! Topics: what they are called, what they are set to, and the directories that hold them.
pub mod alter;
pub mod describe;
pub mod inventory;
pub mod record;
