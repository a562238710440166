//! A bounded cache of open files.
//!
//! The number of open descriptors must not follow the number of segments (engines that keep every segment open die
//! of EMFILE after some months of retention). So every segment file is opened through this cache, which holds at
//! most `capacity` handles for all partitions together and closes the ones not used for longest (second chance:
//! one bit per handle instead of a list that every read would have to relink).
//!
//! Invariant: evicting a handle never disturbs anyone who holds it; a range being sent keeps its own `Arc`, and the
//! descriptor closes when the last of them is gone. That is also why a deleted segment stays readable for those who
//! had started.
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::log::files::FileHandle;
use crate::log::names::SegmentFile;

/// Handles kept open when nothing else is asked for.
pub const DEFAULT_CAPACITY: usize = 512;

/// Names one file of one segment of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandleKey {
    /// The partition, as told by [`HandleCache::new_owner`].
    pub owner: u64,
    /// Base offset of the segment.
    pub base_offset: i64,
    /// Which file of it.
    pub file: SegmentFile,
}

#[derive(Debug)]
struct Slot {
    handle: Arc<dyn FileHandle>,
    writable: bool,
    used: AtomicBool,
}

#[derive(Debug, Default)]
struct Slots {
    by_key: HashMap<HandleKey, Slot>,
    order: VecDeque<HandleKey>,
}

/// The cache; one per process, shared by all partitions.
#[derive(Debug)]
pub struct HandleCache {
    capacity: usize,
    owners: AtomicU64,
    slots: RwLock<Slots>,
}

impl HandleCache {
    /// A cache of at most `capacity` handles, at least 1.
    pub fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            capacity: capacity.max(1),
            owners: AtomicU64::new(0),
            slots: RwLock::new(Slots::default()),
        })
    }

    /// A number no other partition has.
    pub fn new_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// The handle of `key`, opened with `open` if it is not here. A handle opened for reading only does not
    /// satisfy `writable`.
    ///
    /// # Errors
    /// What `open` fails with.
    pub fn get(
        &self,
        key: HandleKey,
        writable: bool,
        open: impl FnOnce() -> io::Result<Arc<dyn FileHandle>>,
    ) -> io::Result<Arc<dyn FileHandle>> {
        if let Some(slot) = self.slots.read().by_key.get(&key)
            && (slot.writable || !writable)
        {
            slot.used.store(true, Ordering::Relaxed);
            return Ok(Arc::clone(&slot.handle));
        }
        let handle = open()?;
        self.insert(key, writable, Arc::clone(&handle));
        Ok(handle)
    }

    /// Keeps a handle that was opened elsewhere, as a segment's creation does.
    pub fn insert(&self, key: HandleKey, writable: bool, handle: Arc<dyn FileHandle>) {
        let slot = Slot {
            handle,
            writable,
            used: AtomicBool::new(false),
        };
        let mut evicted = Vec::new();
        let mut slots = self.slots.write();
        match slots.by_key.insert(key, slot) {
            Some(replaced) => evicted.push(replaced),
            None => slots.order.push_back(key),
        }
        while slots.by_key.len() > self.capacity {
            let Some(oldest) = slots.order.pop_front() else {
                break;
            };
            let spared = match slots.by_key.get(&oldest) {
                Some(slot) => oldest == key || slot.used.swap(false, Ordering::Relaxed),
                None => continue,
            };
            if spared {
                slots.order.push_back(oldest);
            } else {
                evicted.extend(slots.by_key.remove(&oldest));
            }
        }
        drop(slots);
        // Closing a file can take a while; nobody waits for it.
        drop(evicted);
    }

    /// Lets go of all handles of one segment, because its files were renamed or replaced.
    pub fn forget(&self, owner: u64, base_offset: i64) {
        let mut gone = Vec::new();
        let mut slots = self.slots.write();
        for file in SegmentFile::ALL {
            let key = HandleKey {
                owner,
                base_offset,
                file,
            };
            if let Some(slot) = slots.by_key.remove(&key) {
                slots.order.retain(|other| *other != key);
                gone.push(slot);
            }
        }
        drop(slots);
        drop(gone);
    }

    /// Lets go of all handles of one partition, because it is closed or deleted.
    pub fn forget_owner(&self, owner: u64) {
        let mut slots = self.slots.write();
        let keys: Vec<HandleKey> = slots
            .by_key
            .keys()
            .filter(|key| key.owner == owner)
            .copied()
            .collect();
        let gone: Vec<Slot> = keys.iter().filter_map(|key| slots.by_key.remove(key)).collect();
        slots.order.retain(|key| key.owner != owner);
        drop(slots);
        drop(gone);
    }

    /// Handles held now.
    pub fn len(&self) -> usize {
        self.slots.read().by_key.len()
    }

    /// Whether no handle is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most handles held at any time.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

#[cfg(test)]
#[path = "handles_tests.rs"]
mod tests;
