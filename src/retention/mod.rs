//! What a retention pass deletes, and who would lose by it: pure functions, no I/O, no clock inside.
//!
//! [`plan`] is the one place that knows Kafka's deletion rules. The pass executes its result and the guard calls
//! the very same function, so what a person is told before a change is what happens after it. Time, the log's
//! bounds and the segments come in as arguments; nothing here can block, fail or forget.
mod plan;
mod profile;
mod rules;

pub use plan::{Blocked, Deletion, FutureTime, Plan, Reason, plan};
pub use profile::{SegmentFacts, SegmentProfile};
pub use rules::Rules;
