//! The clock guard: deletion waits while wall time cannot be believed.
//!
//! Retention by time trusts the wall clock, and a node that boots with a wrong one, or a time daemon that steps it, would
//! expire everything at once. Monotonic time does not jump; where the wall clock moved far more than it, nothing
//! is deleted until the wall clock is back where it should be, a set time has gone by, or an operator says that
//! the new time is right. Over a restart the time last believed, which is kept durably, takes its place: a machine
//! that was off for long looks like one whose clock is wrong, and goes on in the same three ways.
//!
//! A clock that was set back deletes less, so it holds nothing up. But either way nobody knows which time is the right one, and
//! a lowering may look harmless at one of them and not at the other. So verdicts meanwhile are asked for at both.
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::telemetry::clock::{Clock, millis};

/// How far wall time may run ahead of or behind monotonic time between two looks.
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

/// The time, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// What to go by.
    pub now_ms: i64,
    /// What it may be instead: no verdict may be wrong at either.
    pub or_ms: Option<i64>,
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
    /// How far ahead it may be without doubt.
    tolerance_ms: i64,
    doubt: Option<Doubt>,
}

#[derive(Debug, Clone, Copy)]
struct Doubt {
    /// Monotonic time at which it began.
    since: Duration,
    /// How far the wall clock was ahead then.
    ahead_ms: i64,
}

/// What a look at both clocks comes to.
enum Look {
    Believed(i64),
    Doubted { jump: ClockJump, ahead: bool },
}

impl ClockGuard {
    /// A guard that doubts a clock for at most `hold`; `None` always believes it. `seen_ms` is the wall time that an
    /// earlier run believed last, where it is known.
    pub fn new(clock: Arc<dyn Clock>, hold: Option<Duration>, seen_ms: Option<i64>) -> Self {
        // Nothing was deleted while the engine was off. An absence no longer than the hold is not worth one.
        let absence_ms = seen_ms.map_or(0, |_| millis(hold.unwrap_or_default()));
        let state = State {
            wall_ms: seen_ms.unwrap_or_else(|| clock.wall_ms()),
            monotonic: clock.monotonic(),
            tolerance_ms: TOLERANCE_MS.max(absence_ms),
            doubt: None,
        };
        Self {
            clock,
            hold,
            state: Mutex::new(state),
        }
    }

    fn look(&self) -> Look {
        let wall_ms = self.clock.wall_ms();
        let Some(hold) = self.hold else {
            return Look::Believed(wall_ms);
        };
        let monotonic = self.clock.monotonic();
        let mut state = self.state.lock();
        let since = monotonic.saturating_sub(state.monotonic);
        let expected_ms = state.wall_ms.saturating_add(millis(since));
        let ahead_ms = wall_ms.saturating_sub(expected_ms);
        if ahead_ms > state.tolerance_ms || ahead_ms < -TOLERANCE_MS {
            // One doubt is not the other's: a clock that jumps again is doubted anew.
            let same = |doubt: &Doubt| ahead_ms.abs_diff(doubt.ahead_ms) <= TOLERANCE_MS.unsigned_abs();
            let begins = Doubt {
                since: monotonic,
                ahead_ms,
            };
            let doubt = state.doubt.filter(same).unwrap_or(begins);
            state.doubt = Some(doubt);
            let doubted = monotonic.saturating_sub(doubt.since);
            if doubted < hold {
                let jump = ClockJump {
                    wall_ms,
                    expected_ms,
                    remaining: hold.saturating_sub(doubted),
                };
                return Look::Doubted {
                    jump,
                    ahead: ahead_ms > 0,
                };
            }
        }
        *state = State::believing(wall_ms, monotonic);
        Look::Believed(wall_ms)
    }

    /// The time for deciding what to delete, or why nothing may be deleted now.
    pub fn now_for_deletion(&self) -> Result<i64, ClockJump> {
        match self.look() {
            Look::Doubted { jump, ahead: true } => Err(jump),
            Look::Doubted { jump, ahead: false } => Ok(jump.wall_ms),
            Look::Believed(wall_ms) => Ok(wall_ms),
        }
    }

    /// The time to show what retention comes to: the wall clock's, or what it should be where that is less.
    pub fn now_for_verdict(&self) -> i64 {
        self.times_for_verdict().now_ms
    }

    /// The time for giving a verdict, and the other one while it is in doubt.
    pub fn times_for_verdict(&self) -> Times {
        let (now_ms, or_ms) = match self.look() {
            Look::Believed(wall_ms) => (wall_ms, None),
            Look::Doubted { jump, ahead: true } => (jump.expected_ms, Some(jump.wall_ms)),
            Look::Doubted { jump, ahead: false } => (jump.wall_ms, Some(jump.expected_ms)),
        };
        Times { now_ms, or_ms }
    }

    /// The wall time, where it is believed: to be kept for the next run.
    pub fn believed_ms(&self) -> Option<i64> {
        match self.look() {
            Look::Believed(wall_ms) => Some(wall_ms),
            Look::Doubted { .. } => None,
        }
    }

    /// An operator's word that the wall clock is right.
    pub fn confirm(&self) {
        *self.state.lock() = State::believing(self.clock.wall_ms(), self.clock.monotonic());
    }
}

impl State {
    fn believing(wall_ms: i64, monotonic: Duration) -> Self {
        Self {
            wall_ms,
            monotonic,
            tolerance_ms: TOLERANCE_MS,
            doubt: None,
        }
    }
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
        let guard = ClockGuard::new(clock.clone(), hold, None);
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
    fn time_that_passes_and_small_steps_are_no_jump() {
        let (clock, guard) = guarded(Some(Duration::from_secs(3600)));
        clock.advance_ms(400 * DAY);
        assert_eq!(guard.now_for_deletion(), Ok(T + 400 * DAY));
        clock.step_wall_ms(10 * MINUTE);
        assert!(guard.now_for_deletion().is_ok());
        clock.step_wall_ms(-10 * MINUTE);
        let now_ms = T + 400 * DAY;
        assert_eq!(guard.times_for_verdict(), Times { now_ms, or_ms: None });
    }

    #[test]
    fn a_clock_that_was_set_back_holds_nothing_and_verdicts_are_asked_for_at_both_times() {
        let (clock, guard) = guarded(Some(Duration::from_secs(3600)));
        clock.step_wall_ms(-300 * DAY);
        assert_eq!(guard.now_for_deletion(), Ok(T - 300 * DAY));
        let doubted = Times {
            now_ms: T - 300 * DAY,
            or_ms: Some(T),
        };
        assert_eq!(guard.times_for_verdict(), doubted);
        assert_eq!(guard.believed_ms(), None);
        clock.advance_ms(60 * MINUTE);
        assert_eq!(guard.believed_ms(), Some(T - 300 * DAY + 60 * MINUTE));
        // And what it jumps ahead from there is a jump again.
        clock.step_wall_ms(300 * DAY);
        assert!(guard.now_for_deletion().is_err());
    }

    #[test]
    fn a_second_jump_is_held_for_as_long_as_the_first() {
        let (clock, guard) = guarded(Some(Duration::from_secs(3600)));
        clock.step_wall_ms(-DAY);
        assert!(guard.now_for_deletion().is_ok());
        clock.advance_ms(59 * MINUTE);
        clock.step_wall_ms(400 * DAY);
        let first = guard.now_for_deletion().unwrap_err();
        assert_eq!(first.remaining, Duration::from_secs(3600));
        clock.advance_ms(59 * MINUTE);
        clock.step_wall_ms(DAY);
        let second = guard.now_for_deletion().unwrap_err();
        assert_eq!(second.remaining, Duration::from_secs(3600));
    }

    #[test]
    fn a_machine_that_wakes_up_far_ahead_of_what_was_last_seen_waits_and_then_goes_on() {
        let clock = Arc::new(ManualClock::at(T));
        let restarted = |seen_ms| {
            let hold = Some(Duration::from_secs(3600));
            ClockGuard::new(clock.clone(), hold, Some(seen_ms))
        };
        let guard = restarted(T - 60 * MINUTE);
        assert_eq!(guard.now_for_deletion(), Ok(T), "off for no longer than the hold");
        let guard = restarted(T - 400 * DAY);
        let jump = guard.now_for_deletion().unwrap_err();
        assert_eq!((jump.expected_ms, jump.wall_ms), (T - 400 * DAY, T));
        let doubted = Times {
            now_ms: T - 400 * DAY,
            or_ms: Some(T),
        };
        assert_eq!(guard.times_for_verdict(), doubted);
        assert_eq!(guard.believed_ms(), None, "what is not believed is not kept");
        clock.advance_ms(60 * MINUTE);
        assert_eq!(guard.now_for_deletion(), Ok(T + 60 * MINUTE));
        assert_eq!(guard.believed_ms(), Some(T + 60 * MINUTE));
        // From here on the clock is watched as closely as ever.
        clock.step_wall_ms(11 * MINUTE);
        assert!(guard.now_for_deletion().is_err());
        let guard = restarted(T - 400 * DAY);
        guard.confirm();
        assert!(guard.now_for_deletion().is_ok());
    }

    #[test]
    fn a_machine_that_wakes_up_in_the_past_is_asked_about_what_was_last_seen_too() {
        let clock = Arc::new(ManualClock::at(0));
        let guard = ClockGuard::new(clock.clone(), Some(Duration::from_secs(3600)), Some(T));
        assert_eq!(guard.now_for_deletion(), Ok(0));
        let doubted = Times {
            now_ms: 0,
            or_ms: Some(T),
        };
        assert_eq!(guard.times_for_verdict(), doubted);
        // The time daemon comes up: no jump, that is where the clock should be.
        clock.advance_ms(MINUTE);
        clock.step_wall_ms(T);
        assert_eq!(guard.now_for_deletion(), Ok(T + MINUTE));
        assert_eq!(guard.believed_ms(), Some(T + MINUTE));
    }

    #[test]
    fn switched_off_it_believes_everything() {
        let (clock, guard) = guarded(None);
        clock.step_wall_ms(400 * DAY);
        assert_eq!(guard.now_for_deletion(), Ok(T + 400 * DAY));
        assert_eq!(guard.times_for_verdict().or_ms, None);
    }
}
