//! The clock guard: deletion waits while wall time cannot be believed.
//!
//! Retention by time trusts the wall clock, and a node that boots with a wrong one, or a time daemon that steps it, would
//! expire everything at once. Monotonic time does not jump; where the wall clock moved far more than it, nothing
//! is deleted until the wall clock is back where it should be, a set time has gone by, or an operator says that
//! the new time is right. Verdicts meanwhile are given for the time it should be, so that a jump cannot make a
//! lowering look harmless either.
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::telemetry::clock::Clock;

/// How far wall time may run ahead of monotonic time between two looks.
const TOLERANCE_MS: i64 = 10 * 60 * 1000;

/// Why deletion waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockJump {
    /// What the wall clock says, ms.
    pub wall_ms: i64,
    /// What it should say by monotonic time, ms.
    pub expected_ms: i64,
    /// How long deletion still waits, at most.
    pub remaining: Duration,
}

/// Watches the wall clock.
#[derive(Debug)]
pub struct ClockGuard {
    clock: Arc<dyn Clock>,
    /// `None` switches the guard off.
    hold: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Wall and monotonic time when the wall clock was last believed.
    wall_ms: i64,
    monotonic: Duration,
    /// Monotonic time of the jump, while one is held.
    held_since: Option<Duration>,
}

impl ClockGuard {
    /// A guard that holds deletion for at most `hold`; `None` always believes the clock.
    pub fn new(clock: Arc<dyn Clock>, hold: Option<Duration>) -> Self {
        let state = State {
            wall_ms: clock.wall_ms(),
            monotonic: clock.monotonic(),
            held_since: None,
        };
        Self {
            clock,
            hold,
            state: Mutex::new(state),
        }
    }

    /// The time for deciding what to delete, or why nothing may be deleted now.
    pub fn now_for_deletion(&self) -> Result<i64, ClockJump> {
        let wall_ms = self.clock.wall_ms();
        let Some(hold) = self.hold else {
            return Ok(wall_ms);
        };
        let monotonic = self.clock.monotonic();
        let mut state = self.state.lock();
        let since = monotonic.saturating_sub(state.monotonic);
        let expected_ms = state.wall_ms.saturating_add(millis(since));
        let ahead = wall_ms.saturating_sub(expected_ms) > TOLERANCE_MS;
        if ahead {
            let held_since = *state.held_since.get_or_insert(monotonic);
            let held = monotonic.saturating_sub(held_since);
            if held < hold {
                return Err(ClockJump {
                    wall_ms,
                    expected_ms,
                    remaining: hold.saturating_sub(held),
                });
            }
        }
        *state = State {
            wall_ms,
            monotonic,
            held_since: None,
        };
        Ok(wall_ms)
    }

    /// The time for giving a verdict: the wall clock's, or what it should be.
    pub fn now_for_verdict(&self) -> i64 {
        match self.now_for_deletion() {
            Ok(now) => now,
            Err(jump) => jump.expected_ms,
        }
    }

    /// An operator's word that the wall clock is right.
    pub fn confirm(&self) {
        *self.state.lock() = State {
            wall_ms: self.clock.wall_ms(),
            monotonic: self.clock.monotonic(),
            held_since: None,
        };
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::clock::ManualClock;

    const T: i64 = 1_700_000_000_000;
    const DAY: i64 = 86_400_000;
    const MINUTE: i64 = 60_000;

    fn guarded(hold: Option<Duration>) -> (Arc<ManualClock>, ClockGuard) {
        let clock = Arc::new(ManualClock::at(T));
        let guard = ClockGuard::new(clock.clone(), hold);
        (clock, guard)
    }

    #[test]
    fn a_year_in_a_minute_is_held_and_verdicts_use_the_time_it_should_be() {
        let (clock, guard) = guarded(Some(Duration::from_secs(3600)));
        clock.advance_ms(MINUTE);
        assert_eq!(guard.now_for_deletion(), Ok(T + MINUTE));
        clock.advance_ms(MINUTE);
        clock.step_wall_ms(400 * DAY);
        let jump = guard.now_for_deletion().unwrap_err();
        assert_eq!(jump.expected_ms, T + 2 * MINUTE);
        assert_eq!(jump.wall_ms, T + 2 * MINUTE + 400 * DAY);
        assert_eq!(jump.remaining, Duration::from_secs(3600));
        assert_eq!(guard.now_for_verdict(), T + 2 * MINUTE);
        clock.advance_ms(59 * MINUTE);
        assert_eq!(
            guard.now_for_deletion().unwrap_err().remaining,
            Duration::from_secs(60)
        );
        clock.advance_ms(MINUTE);
        assert_eq!(guard.now_for_deletion(), Ok(T + 62 * MINUTE + 400 * DAY));
    }

    #[test]
    fn an_operator_may_confirm_it() {
        let (clock, guard) = guarded(Some(Duration::from_secs(3600)));
        clock.step_wall_ms(DAY);
        assert!(guard.now_for_deletion().is_err());
        guard.confirm();
        assert_eq!(guard.now_for_deletion(), Ok(T + DAY));
    }

    #[test]
    fn a_clock_that_comes_back_is_believed_again() {
        let (clock, guard) = guarded(Some(Duration::from_secs(3600)));
        clock.step_wall_ms(DAY);
        assert!(guard.now_for_deletion().is_err());
        clock.step_wall_ms(-DAY);
        assert_eq!(guard.now_for_deletion(), Ok(T));
    }

    #[test]
    fn time_that_passes_and_small_or_backward_steps_are_no_jump() {
        let (clock, guard) = guarded(Some(Duration::from_secs(3600)));
        clock.advance_ms(400 * DAY);
        assert_eq!(guard.now_for_deletion(), Ok(T + 400 * DAY));
        clock.step_wall_ms(10 * MINUTE);
        assert!(guard.now_for_deletion().is_ok());
        clock.step_wall_ms(-300 * DAY);
        assert_eq!(guard.now_for_deletion(), Ok(T + 100 * DAY + 10 * MINUTE));
    }

    #[test]
    fn switched_off_it_believes_everything() {
        let (clock, guard) = guarded(None);
        clock.step_wall_ms(400 * DAY);
        assert_eq!(guard.now_for_deletion(), Ok(T + 400 * DAY));
    }
}
