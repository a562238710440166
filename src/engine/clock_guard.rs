//! The clock guard: deletion waits while wall time cannot be believed.
//!
//! Retention by time trusts the wall clock, and a node that boots with a wrong one, or a time daemon that steps it, would
//! expire everything at once. Monotonic time does not jump; where the wall clock moved far more than it, nothing
//! is deleted until the wall clock is back where it should be, a set time has gone by, or an operator says that
//! the new time is right. Over a restart the time last believed, which is kept durably, takes its place. While the machine has not
//! been booted since, the time since then is known as well as ever. Over a boot it is not: a machine that was off for long looks like
//! one whose clock is wrong, and goes on in the same three ways. So does one that should know what time it was, and does not.
//!
//! A clock that was set back deletes less, so it holds nothing up. But either way nobody knows which time is the right one, and
//! a lowering may look harmless at one of them and not at the other. So verdicts meanwhile are asked for at both.
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::telemetry::clock::{Clock, Uptime, millis};

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

/// When the wall clock was last believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What it said, ms.
    pub wall_ms: i64,
    /// How long the machine had been up then, where it said so.
    pub uptime: Option<Uptime>,
}

impl Seen {
    /// As stored: the time in ms, the boot, and ms since it.
    pub fn encode(&self) -> String {
        match &self.uptime {
            Some(Uptime { boot, elapsed }) => format!("{} {boot} {}", self.wall_ms, millis(*elapsed)),
            None => self.wall_ms.to_string(),
        }
    }

    /// From the store.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.split_whitespace();
        let wall_ms = words.next()?.parse().ok()?;
        let uptime = match (words.next(), words.next()) {
            (None, _) => None,
            (Some(boot), Some(elapsed_ms)) => Some(Uptime {
                boot: boot.to_owned(),
                elapsed: Duration::from_millis(elapsed_ms.parse().ok()?),
            }),
            (Some(_), None) => return None,
        };
        Some(Self { wall_ms, uptime })
    }
}

/// What an earlier run has left of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Earlier {
    /// There was none.
    Nothing,
    /// It is gone or cannot be read.
    Unknown,
    /// This.
    Seen(Seen),
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
    /// A guard that doubts a clock for at most `hold`; `None` always believes it.
    pub fn new(clock: Arc<dyn Clock>, hold: Option<Duration>, earlier: &Earlier) -> Self {
        let mut state = State::believing(clock.wall_ms(), clock.monotonic());
        match earlier {
            Earlier::Nothing => {}
            // Nothing says that it is any later.
            Earlier::Unknown => state.wall_ms = 0,
            Earlier::Seen(seen) => match since(seen, clock.uptime()) {
                Some(since) => state.wall_ms = seen.wall_ms.saturating_add(millis(since)),
                None => {
                    // Nothing was deleted while the machine was off. An absence no longer than the hold is not worth one.
                    state.wall_ms = seen.wall_ms;
                    state.tolerance_ms = TOLERANCE_MS.max(millis(hold.unwrap_or_default()));
                }
            },
        }
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
    pub fn believed(&self) -> Option<Seen> {
        match self.look() {
            Look::Believed(wall_ms) => Some(Seen {
                wall_ms,
                uptime: self.clock.uptime(),
            }),
            Look::Doubted { .. } => None,
        }
    }

    /// An operator's word that the wall clock is right.
    pub fn confirm(&self) {
        *self.state.lock() = State::believing(self.clock.wall_ms(), self.clock.monotonic());
    }
}

/// How long ago something was seen, where the machine has not been booted since.
fn since(seen: &Seen, now: Option<Uptime>) -> Option<Duration> {
    let (then, now) = (seen.uptime.as_ref()?, now?);
    (then.boot == now.boot)
        .then(|| now.elapsed.checked_sub(then.elapsed))
        .flatten()
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
        let guard = ClockGuard::new(clock.clone(), hold, &Earlier::Nothing);
        (clock, guard)
    }

    fn seen_in_another_boot(wall_ms: i64) -> Earlier {
        let uptime = Some(Uptime {
            boot: "another".to_owned(),
            elapsed: Duration::ZERO,
        });
        Earlier::Seen(Seen { wall_ms, uptime })
    }

    fn believed_ms(guard: &ClockGuard) -> Option<i64> {
        guard.believed().map(|seen| seen.wall_ms)
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
        assert_eq!(guard.believed(), None);
        clock.advance_ms(60 * MINUTE);
        assert_eq!(believed_ms(&guard), Some(T - 300 * DAY + 60 * MINUTE));
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
        let restarted = |wall_ms| {
            let hold = Some(Duration::from_secs(3600));
            ClockGuard::new(clock.clone(), hold, &seen_in_another_boot(wall_ms))
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
        assert_eq!(guard.believed(), None, "what is not believed is not kept");
        clock.advance_ms(60 * MINUTE);
        assert_eq!(guard.now_for_deletion(), Ok(T + 60 * MINUTE));
        assert_eq!(believed_ms(&guard), Some(T + 60 * MINUTE));
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
        let earlier = seen_in_another_boot(T);
        let guard = ClockGuard::new(clock.clone(), Some(Duration::from_secs(3600)), &earlier);
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
        assert_eq!(believed_ms(&guard), Some(T + MINUTE));
    }

    /// The time since the boot bounds the wall clock, however long the engine was off and however little the clock is wrong.
    #[test]
    fn within_one_boot_the_time_since_it_was_last_seen_is_known() {
        let clock = Arc::new(ManualClock::at(T));
        let hold = Some(Duration::from_secs(3600));
        let first = ClockGuard::new(clock.clone(), hold, &Earlier::Nothing);
        let seen = first.believed().unwrap();
        let restarted = || ClockGuard::new(clock.clone(), hold, &Earlier::Seen(seen.clone()));
        clock.advance_ms(3 * DAY);
        assert_eq!(restarted().now_for_deletion(), Ok(T + 3 * DAY), "off for long");
        clock.step_wall_ms(11 * MINUTE);
        let jump = restarted().now_for_deletion().unwrap_err();
        assert_eq!(jump.expected_ms, T + 3 * DAY);
        clock.step_wall_ms(-22 * MINUTE);
        assert_eq!(restarted().times_for_verdict().or_ms, Some(T + 3 * DAY));
        clock.reboot();
        clock.step_wall_ms(-3 * DAY + 44 * MINUTE);
        assert!(
            restarted().now_for_deletion().is_ok(),
            "what is known of another boot is less"
        );
        clock.step_wall_ms(DAY);
        assert!(restarted().now_for_deletion().is_err());
    }

    #[test]
    fn what_should_be_known_and_is_not_is_a_doubt() {
        let clock = Arc::new(ManualClock::at(T));
        let guard = ClockGuard::new(clock.clone(), Some(Duration::from_secs(3600)), &Earlier::Unknown);
        let jump = guard.now_for_deletion().unwrap_err();
        assert_eq!(jump.remaining, Duration::from_secs(3600));
        clock.advance_ms(60 * MINUTE);
        assert!(guard.now_for_deletion().is_ok());
    }

    #[test]
    fn what_was_seen_survives_the_store() {
        for (text, boot) in [
            ("-5", None),
            ("1700000000000 b-1 86400000", Some(("b-1", 86_400))),
        ] {
            let seen = Seen::decode(text.as_bytes()).unwrap();
            let uptime = boot.map(|(boot, seconds)| Uptime {
                boot: boot.to_owned(),
                elapsed: Duration::from_secs(seconds),
            });
            assert_eq!(seen.uptime, uptime);
            assert_eq!(seen.encode(), text);
        }
        for wrong in ["", "x", "5 b-1", "5 b-1 x", "5 b-1 -1"] {
            assert_eq!(Seen::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn switched_off_it_believes_everything() {
        let (clock, guard) = guarded(None);
        clock.step_wall_ms(400 * DAY);
        assert_eq!(guard.now_for_deletion(), Ok(T + 400 * DAY));
        assert_eq!(guard.times_for_verdict().or_ms, None);
    }
}
