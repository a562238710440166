//! The seam between the guard and whoever keeps the positions of readers.
//!
//! Positions reach the guard as a snapshot; that something moved reaches it as a call that costs one look-up where it cannot
//! matter. [`Gate`] puts the two in order: a change of settings looks at the positions, decides, is made durable and comes
//! into force while no commit takes effect and no retention pass runs.
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use uuid::Uuid;

use crate::resource::contract::ReaderKind;
use crate::retention::Reader;

/// Who reads what, as far as is known.
pub trait ReaderInventory: Send + Sync + 'static {
    /// Every reader of a topic with its positions on partitions `0..partitions`: groups with a commit or an assignment in any
    /// state, and consumers without a group that fetched in the last ten minutes. Positions of an earlier topic of that
    /// name are there as [`crate::retention::Known::EarlierTopic`].
    fn readers(&self, topic: &str, id: Uuid, partitions: i32) -> Vec<Reader>;
}

/// Told of everything that could change a verdict. Called after the change can be seen in the inventory; cheap, never
/// blocks, and may be called with locks held.
pub trait ReaderListener: Send + Sync + 'static {
    /// A reader committed, or a consumer without a group fetched: `position` is the next offset it will read.
    fn moved(&self, topic: &str, kind: ReaderKind, reader: &str, partition: i32, position: i64);

    /// A reader came or went, lost its assignment, its commits expired or were deleted.
    fn changed(&self, topic: &str, kind: ReaderKind, reader: &str);
}

/// Orders changes of settings against commits and passes.
///
/// A commit holds [`Gate::share`] while it takes effect in memory, a pass while it works on one partition; a change holds
/// [`Gate::change`] from looking to being in force, which takes as long as the disk does. Never held across an await, and never waited
/// for on a thread of the runtime.
///
/// Lock order: the gate comes before any lock of whoever keeps positions, because a change asks for the inventory while
/// it holds the gate. It is not taken twice by one thread.
#[derive(Debug, Default)]
pub struct Gate(RwLock<()>);

impl Gate {
    /// For what may go on side by side, but not during a change.
    pub fn share(&self) -> RwLockReadGuard<'_, ()> {
        self.0.read()
    }

    /// [`Self::share`] where no change is under way; `None` where it would have to be waited for.
    pub fn try_share(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.0.try_read()
    }

    /// For a change: nothing else that matters to it happens meanwhile.
    pub fn change(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.write()
    }
}
