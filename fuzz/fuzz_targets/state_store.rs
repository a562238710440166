//! See `entry_points::state_store`.
#![no_main]
#![allow(missing_docs)]

use libfuzzer_sys::fuzz_target;

#[path = "../entry_points.rs"]
#[allow(dead_code)]
mod entry_points;

fuzz_target!(|bytes: &[u8]| entry_points::state_store(bytes));
