//! The one door for everything that could take records from a reader: changes of settings, record deletion and topic
//! deletion, whoever asks.
//!
//! Invariants:
//! * A change is checked, made durable and brought into force while no commit takes effect, no pass runs and no other change is
//!   under way. A crash in between leaves the old or the new settings, entirely.
//! * New settings are durable before anything is deleted under them.
//! * A change that is held back is kept durably, is judged again when something happened that could matter, and goes in by
//!   itself. Asking for what is in force drops it. While a topic is paused it stays where it is.
//!
//! Topics that no resource owns behave as in Kafka: a wire request on them is not held back by anybody. A change through
//! the control API is always judged.
pub(crate) mod apply;
pub(crate) mod delete;
pub(crate) mod evaluate;
pub(crate) mod layers;
mod paused;
pub mod pending;
mod resume;
pub(crate) mod wire;

use std::sync::atomic::Ordering;

use crate::engine::Engine;
use crate::engine::refusal::Refusal;
use crate::engine::topics::create::Changes;

impl Engine {
    /// Takes the lock on changes.
    ///
    /// # Errors
    /// The engine is stopping.
    pub(crate) fn lock_changes(&self) -> Result<Changes<'_>, Refusal> {
        let changes = self.changes.lock();
        if self.stopping.load(Ordering::Acquire) {
            return Err(Refusal::Stopping);
        }
        Ok(changes)
    }
}
