//! See `entry_points::state_store`.
#![no_main]
#![allow(missing_docs)]

use std::panic;
use std::sync::Once;

use libfuzzer_sys::fuzz_target;

#[path = "../entry_points.rs"]
#[allow(dead_code)]
mod entry_points;

static HOOK: Once = Once::new();

/// redb panics where a page holds what it never wrote, and the store makes a refusal of that: such a panic is no fault. Every other ends the run.
fn let_redb_panic() {
    let end_the_run = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let of_redb = |location: &panic::Location<'_>| location.file().contains("/redb-");
        if !info.location().is_some_and(of_redb) {
            end_the_run(info);
        }
    }));
}

fuzz_target!(|bytes: &[u8]| {
    HOOK.call_once(let_redb_panic);
    entry_points::state_store(bytes);
});
