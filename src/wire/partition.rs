//! A partition as the protocol holds it, and how a parked fetch is woken.
//!
//! A fetch that found too little registers its [`Waiter`] with every partition it asks for and looks again; whoever
//! changes a partition calls [`Partition::wake`] afterwards. Registering before looking means that no change is
//! missed. A registration is used up by the first wake, so that an idle connection costs a busy partition nothing.
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

static NEXT_WAITER: AtomicU64 = AtomicU64::new(0);

/// One connection's parked fetch.
#[derive(Debug)]
pub struct Waiter {
    id: u64,
    notify: Notify,
}

impl Waiter {
    /// A waiter of its own.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            id: NEXT_WAITER.fetch_add(1, Ordering::Relaxed),
            notify: Notify::new(),
        })
    }

    /// Waits for the next wake; one that came since the last wait counts.
    pub async fn woken(&self) {
        self.notify.notified().await;
    }
}

/// The waiters of one partition.
#[derive(Debug, Default)]
struct Watchers {
    any: AtomicBool,
    waiting: Mutex<HashMap<u64, Weak<Waiter>>>,
}

impl Watchers {
    fn register(&self, waiter: &Arc<Waiter>) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= 64 && waiting.len() == waiting.capacity() {
            waiting.retain(|_, waiter| waiter.strong_count() > 0);
        }
        waiting.insert(waiter.id, Arc::downgrade(waiter));
        self.any.store(true, Ordering::SeqCst);
    }

    fn wake(&self) {
        if !self.any.load(Ordering::SeqCst) {
            return;
        }
        let mut waiting = self.waiting.lock();
        self.any.store(false, Ordering::SeqCst);
        for waiter in waiting.drain().filter_map(|(_, waiter)| waiter.upgrade()) {
            waiter.notify.notify_one();
        }
    }
}

/// A partition of a topic.
#[derive(Debug)]
pub struct Partition {
    index: i32,
    leader_epoch: AtomicI32,
    watchers: Watchers,
}

impl Partition {
    /// Its number within the topic.
    pub fn index(&self) -> i32 {
        self.index
    }

    /// The epoch under which it is led; never goes back.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch.load(Ordering::Relaxed)
    }

    /// Has `waiter` woken by the next change.
    pub fn register(&self, waiter: &Arc<Waiter>) {
        self.watchers.register(waiter);
    }

    /// Wakes parked fetches. To be called after an append, a move of the log start or high watermark, and a deletion.
    pub fn wake(&self) {
        self.watchers.wake();
    }
}
