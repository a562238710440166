//! Hundreds of Topics in the normal run; thousands in `cargo bench --features peers --bench operator`.
use std::time::Duration;

use crate::fleet::Fleet;

#[test]
fn a_topic_costs_at_most_three_requests_and_nothing_when_settled() {
    // More than one page of a list.
    let figures = Fleet::start().grow_to(600, Duration::ZERO);
    println!("{figures}");
    assert!(figures.requests_per_topic <= 3.0, "{figures}");
    assert_eq!(figures.pages, 2);
}
