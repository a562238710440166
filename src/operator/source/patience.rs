//! How long to wait before a watch that has failed is begun again.
use std::time::{Duration, Instant};

use kube::runtime::utils::Backoff;

use crate::operator::backoff::spread;

/// Waits between attempts to watch: doubling up to [`Patience::MOST`], from the start again after a quiet time. Success alone
/// does not count as quiet, because a watch that begins and ends at once would then spin.
#[derive(Debug, Default)]
pub(super) struct Patience {
    failures: u32,
    last: Option<Instant>,
}

impl Patience {
    const FIRST: Duration = Duration::from_millis(400);
    const MOST: Duration = Duration::from_secs(8);
    const QUIET: Duration = Duration::from_secs(30);
}

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.last.is_some_and(|last| last.elapsed() > Self::QUIET) {
            self.failures = 0;
        }
        let step = Self::FIRST
            .saturating_mul(1 << self.failures.min(10))
            .min(Self::MOST);
        self.failures = self.failures.saturating_add(1);
        self.last = Some(Instant::now());
        Some(spread(step, &self.failures))
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_its_bound_and_success_alone_does_not_reset_it() {
        let mut patience = Patience::default();
        let first = patience.next().expect("endless");
        assert!(first <= Patience::FIRST.mul_f64(1.1));
        for _ in 0..20 {
            patience.reset();
            assert!(patience.next().expect("endless") <= Patience::MOST.mul_f64(1.1));
        }
        assert!(patience.next().expect("endless") >= Patience::MOST.mul_f64(0.9));
    }
}
