//! How long to wait before a Topic is tried again: for each Topic apart, doubling, bounded, with jitter.
//!
//! The jitter keeps a thousand Topics that failed together (an engine that restarts) from coming back together.
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::time::Duration;

use parking_lot::Mutex;

/// Failures in a row for each key.
#[derive(Debug)]
pub struct Backoff<K> {
    failures: Mutex<HashMap<K, u32>>,
    first: Duration,
    most: Duration,
    seed: RandomState,
}

impl<K: Hash + Eq + Clone> Backoff<K> {
    /// Waits `first`, then twice as long each time, up to `most`.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self {
            failures: Mutex::new(HashMap::new()),
            first,
            most,
            seed: RandomState::new(),
        }
    }

    /// Counts a failure and gives the time to wait: between half the step and the step.
    pub fn failed(&self, key: &K) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry(key.clone()).or_insert(0);
        *count = count.saturating_add(1);
        let step = self
            .first
            .saturating_mul(1_u32.checked_shl(*count - 1).unwrap_or(u32::MAX))
            .min(self.most);
        let random = u32::try_from(self.seed.hash_one((key, *count)) % 1_000).unwrap_or(0);
        step / 2 + step.saturating_mul(random) / 2_000
    }

    /// Forgets the failures of a key.
    pub fn succeeded(&self, key: &K) {
        self.failures.lock().remove(key);
    }

    /// Forgets every key that is no longer there.
    pub fn keep(&self, exists: impl Fn(&K) -> bool) {
        self.failures.lock().retain(|key, _| exists(key));
    }
}

/// A time within a tenth of `around`, so that what started together does not stay together.
pub fn spread(around: Duration, key: &impl Hash) -> Duration {
    let random = u32::try_from(RandomState::new().hash_one(key) % 1_000).unwrap_or(0);
    around.mul_f64(0.9) + around.mul_f64(0.2 * f64::from(random) / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_waits_longer_up_to_the_bound_and_starts_anew_after_success() {
        let backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
        let mut step = Duration::from_millis(500);
        for _ in 0..40 {
            let wait = backoff.failed(&"a");
            assert!(
                wait >= step / 2 && wait <= step,
                "{wait:?} for a step of {step:?}"
            );
            step = (step * 2).min(Duration::from_secs(30));
        }
        assert!(
            backoff.failed(&"b") <= Duration::from_millis(500),
            "keys do not share failures"
        );
        backoff.succeeded(&"a");
        assert!(backoff.failed(&"a") <= Duration::from_millis(500));
        backoff.keep(|key| *key != "a");
        assert!(backoff.failed(&"a") <= Duration::from_millis(500));
    }
}
