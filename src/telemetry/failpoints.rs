//! Named points where a test has the process die, as a `kill -9` at exactly that moment would. No build without the
//! `failpoints` feature has them, or the routes that arm them.
use std::sync::atomic::{AtomicU32, Ordering};

/// From now on the process aborts when it comes to `point` for the `hits`-th time. False where that cannot be armed.
pub fn arm(point: String, hits: u32) -> bool {
    let left = AtomicU32::new(hits.max(1));
    fail::cfg_callback(point, move || {
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            std::process::abort();
        }
    })
    .is_ok()
}
