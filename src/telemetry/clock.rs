//! Time as everything here sees it.
//!
//! Retention decides by the wall clock, waits by the monotonic one, and a test by neither: whoever needs the
//! time is handed a [`Clock`].
use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of wall and monotonic time.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Milliseconds since 1970-01-01T00:00:00Z; negative before that.
    fn wall_ms(&self) -> i64;

    /// Time since an arbitrary fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's own clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts at zero now.
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

/// A duration in the unit of Kafka's settings, ms.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A moment in ms since 1970, below zero before it.
pub fn since_epoch_ms(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => millis(since),
        Err(before) => millis(before.duration()).saturating_neg(),
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> i64 {
        since_epoch_ms(SystemTime::now())
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicI64,
}

impl ManualClock {
    /// A clock standing at `wall_ms`, with monotonic time zero.
    pub fn at(wall_ms: i64) -> Self {
        Self {
            wall_ms: AtomicI64::new(wall_ms),
            monotonic_ms: AtomicI64::new(0),
        }
    }

    /// Moves both clocks on by `ms`.
    pub fn advance_ms(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms.max(0), Ordering::SeqCst);
    }

    /// Moves the wall clock alone, as a step of the time daemon does.
    pub fn step_wall_ms(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.monotonic_ms.load(Ordering::SeqCst)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_step_leaves_monotonic_time_alone() {
        let clock = ManualClock::at(1_000);
        clock.advance_ms(5);
        clock.step_wall_ms(-900);
        assert_eq!(
            (clock.wall_ms(), clock.monotonic()),
            (105, Duration::from_millis(5))
        );
    }
}
