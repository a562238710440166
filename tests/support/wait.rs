//! Waiting for an event: never a fixed sleep, always a deadline that fails the test.
use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long anything that should come is waited for: minutes, so that a machine which stands still for half of one fails no test.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Asks again and again until `probe` answers; panics with its last reason after `patience`.
#[track_caller]
pub fn eventually<T, E: Display>(
    what: &str,
    patience: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> T {
    attempt(patience, &mut probe).unwrap_or_else(|reason| panic!("waited {patience:?} for {what}: {reason}"))
}

/// Asks again and again until `probe` answers; answers its last reason after `patience`.
pub fn attempt<T, E>(patience: Duration, mut probe: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_millis(5);
    loop {
        match probe() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(pause),
            answer => return answer,
        }
        pause = (pause * 3 / 2).min(Duration::from_millis(200));
    }
}

/// [`eventually`] for a condition.
#[track_caller]
pub fn until(what: &str, patience: Duration, mut condition: impl FnMut() -> bool) {
    eventually(what, patience, || {
        condition().then_some(()).ok_or("it did not come")
    });
}
