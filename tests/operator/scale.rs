//! Hundreds of Topics in the normal run; thousands in `cargo bench --features peers --bench operator`.
use std::time::Duration;

use crate::fleet::Fleet;

/// H12: fifty settled Topics.
#[test]
fn a_settled_operator_does_not_wake_itself() {
    let mut fleet = Fleet::start();
    fleet.grow_to(50, Duration::ZERO);
    fleet.wakes_only_when_told();
}

#[test]
fn a_topic_costs_at_most_three_requests_and_nothing_when_settled() {
    // More than one page of a list.
    let figures = Fleet::start().grow_to(600, Duration::ZERO);
    println!("{figures}");
    assert!(figures.requests_per_topic <= 3.0, "{figures}");
    assert_eq!(figures.pages, 2);
}
