//! Waking those who wait for a partition to change.
//!
//! A fetch that has to wait covers many partitions, so it brings one [`Notify`] and hangs it on each of them; the first
//! change anywhere wakes it. `Notify` keeps one permit, so a change between looking at the partitions and going to
//! sleep is never lost: register first, look second, sleep third.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Everyone waiting on one partition. An append without waiters costs one atomic load.
#[derive(Debug, Default)]
pub struct Waiters {
    count: AtomicUsize,
    list: Mutex<Vec<Arc<Notify>>>,
}

impl Waiters {
    /// Wakes `waiter` at every change until the registration is dropped.
    pub fn register(self: &Arc<Self>, waiter: &Arc<Notify>) -> Registration {
        let mut list = self.list.lock();
        list.push(Arc::clone(waiter));
        self.count.store(list.len(), Ordering::SeqCst);
        Registration {
            waiters: Arc::clone(self),
            waiter: Arc::clone(waiter),
        }
    }

    /// Wakes everyone.
    pub fn wake(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            for waiter in self.list.lock().iter() {
                waiter.notify_one();
            }
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Being woken by one partition; ends when dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the registration"]
pub struct Registration {
    waiters: Arc<Waiters>,
    waiter: Arc<Notify>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut list = self.waiters.list.lock();
        if let Some(index) = list.iter().position(|other| Arc::ptr_eq(other, &self.waiter)) {
            list.swap_remove(index);
        }
        self.waiters.count.store(list.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_before_going_to_sleep_is_not_lost() {
        let waiters = Arc::new(Waiters::default());
        let waiter = Arc::new(Notify::new());
        let registration = waiters.register(&waiter);
        waiters.wake();
        waiter.notified().await;
        drop(registration);
        assert!(waiters.is_empty());
    }

    #[test]
    fn dropping_one_registration_leaves_the_others() {
        let waiters = Arc::new(Waiters::default());
        let (one, two) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let first = waiters.register(&one);
        let second = waiters.register(&two);
        drop(first);
        assert_eq!(waiters.len(), 1);
        drop(second);
        assert!(waiters.is_empty());
    }
}
