//! What a retention pass deletes, and who would lose by it: pure functions, no I/O, no clock inside.
//!
//! [`plan`](plan()) is the one place that knows Kafka's deletion rules. The pass executes its result and the guard calls
//! the very same function, so what a person is told before a change is what happens after it. Time, the log's
//! bounds and the segments come in as arguments; nothing here can block, fail or forget.
//!
//! The guard in three steps: an [`Outlook`] for each partition, taken under that partition's lock; [`judge`] over all of them
//! and all readers; where it says so, [`clamp`](clamp()) for the partitions that are held. A change that has to wait is
//! judged again when its [`Watch`] says so.
mod clamp;
mod guard;
mod headroom;
mod losses;
mod message;
mod outlook;
mod plan;
mod profile;
mod readers;
mod rules;
#[cfg(test)]
mod test_profile;
mod watch;

#[cfg(test)]
mod future_tests;

pub use clamp::{Clamped, Look, clamp, step};
pub use guard::{AlreadyLost, Cause, Decision, Held, Judgement, LastData, judge};
pub use headroom::{Headroom, expires_at_ms, headroom};
pub use losses::{AtRisk, Loss, Losses};
pub use outlook::{Eases, Outlook, PartitionView, Proposed};
pub use plan::{Blocked, Deletion, FutureTime, Plan, Reason, plan};
pub use profile::{CLOCK_TOLERANCE_MS, SegmentFacts, SegmentProfile, WithoutFuture};
pub use readers::{Known, Position, Reader, Standing, Unknown, matches};
pub use rules::Rules;
pub use watch::Watch;
