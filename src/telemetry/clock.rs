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

    /// How long the machine has been up; `None` where it does not say. Unlike [`Self::monotonic`] it can be compared over a restart
    /// of the process.
    fn uptime(&self) -> Option<Uptime>;
}

/// How long a machine has been up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uptime {
    /// Names the boot: another one at every boot, the same for every process and container until the next. One word.
    pub boot: String,
    /// Time since then, with what the machine slept.
    pub elapsed: Duration,
}

/// Where Linux names the boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

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

    fn uptime(&self) -> Option<Uptime> {
        let boot = std::fs::read_to_string(BOOT_ID).ok()?.trim().to_owned();
        let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let elapsed = Duration::try_from(since).ok()?;
        (!boot.is_empty()).then_some(Uptime { boot, elapsed })
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicI64,
    boots: AtomicI64,
    booted_ms: AtomicI64,
}

impl ManualClock {
    /// A clock standing at `wall_ms`, with monotonic time zero.
    pub fn at(wall_ms: i64) -> Self {
        Self {
            wall_ms: AtomicI64::new(wall_ms),
            ..Self::default()
        }
    }

    /// Moves both clocks on by `ms`.
    pub fn advance_ms(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms.max(0), Ordering::SeqCst);
    }

    /// Boots the machine anew.
    pub fn reboot(&self) {
        self.boots.fetch_add(1, Ordering::SeqCst);
        let now_ms = self.monotonic_ms.load(Ordering::SeqCst);
        self.booted_ms.store(now_ms, Ordering::SeqCst);
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

    fn uptime(&self) -> Option<Uptime> {
        let booted_ms = self.booted_ms.load(Ordering::SeqCst);
        let booted = Duration::from_millis(u64::try_from(booted_ms).unwrap_or(0));
        Some(Uptime {
            boot: format!("boot-{}", self.boots.load(Ordering::SeqCst)),
            elapsed: self.monotonic().saturating_sub(booted),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_its_boot_and_how_long_ago_it_was() {
        let clock = SystemClock::new();
        let (first, second) = (clock.uptime().unwrap(), SystemClock::new().uptime().unwrap());
        assert_eq!(first.boot, second.boot);
        assert_eq!(first.boot.split_whitespace().count(), 1);
        assert!(Duration::ZERO < first.elapsed && first.elapsed <= second.elapsed);
    }

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
