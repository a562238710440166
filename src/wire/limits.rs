//! Bounds on what clients can make this process hold, and the budget that frames are charged to.
//!
//! A frame larger than [`FREE_FRAME_BYTES`] waits for its share of a budget before memory is taken for it. Very large
//! frames have a budget of their own, so that whoever claims many of them keeps only others of that size waiting.
//! What a frame is decoded into has pools of its own, which are asked for after the frame's: whoever holds of them waits for no other
//! room, so that no two can wait for each other.
//! Nothing that waits for something else than memory, a parked fetch or a member in a rebalance, holds room that others wait for: what
//! it keeps has a budget that nobody waits for. The same goes for answers that their peer does not take.
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Frames up to this size are not charged: there is one per connection.
pub const FREE_FRAME_BYTES: usize = 64 << 10;

/// Frames beyond this size are charged to the budget for large ones.
pub const LARGE_FRAME_BYTES: usize = 2 << 20;

/// What a decoded element is charged with, in bytes: about what the structures of a request take.
pub const ELEMENT_BYTES: usize = 128;

/// The bounds of one listener.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest request frame in bytes (`socket.request.max.bytes`).
    pub max_frame_bytes: usize,
    /// Connections served at once; one more is closed at once.
    pub max_connections: usize,
    /// Bytes of frames between [`FREE_FRAME_BYTES`] and [`LARGE_FRAME_BYTES`] in flight.
    pub frame_budget_bytes: usize,
    /// Bytes of larger frames in flight; at least `max_frame_bytes`.
    pub large_frame_budget_bytes: usize,
    /// Bytes that parked fetches beyond [`FREE_FRAME_BYTES`] hold; one that finds no room is answered at once.
    pub parked_budget_bytes: usize,
    /// Bytes of answers beyond [`FREE_FRAME_BYTES`] under way; beyond that a peer has `crowded_write` to take its answer.
    pub answer_budget_bytes: usize,
    /// How long an answer may take that finds no room among those under way.
    pub crowded_write: Duration,
    /// A connection without a request for this long is closed (`connections.max.idle.ms`).
    pub idle: Duration,
    /// A frame that was begun has to be there after this long, plus the time its size takes at `slowest_bytes_per_second`.
    pub frame_deadline: Duration,
    /// The slowest rate at which a frame may come in.
    pub slowest_bytes_per_second: u64,
    /// A client that takes nothing of its answer for this long is given up.
    pub write_stall: Duration,
    /// How long requests under way may take once the server stops.
    pub drain: Duration,
    /// The most record bytes one fetch is answered with (`fetch.max.bytes` of the broker).
    pub max_fetch_bytes: i32,
    /// Fetch sessions kept (`max.incremental.fetch.session.cache.slots`).
    pub fetch_sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame_bytes: 100 << 20,
            max_connections: 16_384,
            frame_budget_bytes: 64 << 20,
            large_frame_budget_bytes: 128 << 20,
            parked_budget_bytes: 64 << 20,
            answer_budget_bytes: 128 << 20,
            crowded_write: Duration::from_secs(1),
            idle: Duration::from_secs(600),
            frame_deadline: Duration::from_secs(20),
            slowest_bytes_per_second: 64 << 10,
            write_stall: Duration::from_secs(600),
            drain: Duration::from_secs(5),
            max_fetch_bytes: 55 << 20,
            fetch_sessions: 1_000,
        }
    }
}

impl Limits {
    /// How long a frame of `size` bytes may take from its first byte to its last.
    pub fn frame_time(&self, size: usize) -> Duration {
        let seconds = (size as u64)
            .checked_div(self.slowest_bytes_per_second)
            .unwrap_or(0);
        self.frame_deadline.saturating_add(Duration::from_secs(seconds))
    }
}

/// A share of a budget; given back when dropped.
#[derive(Debug)]
pub struct Charge(#[allow(dead_code, reason = "held for its drop")] Option<OwnedSemaphorePermit>);

impl Charge {
    /// No charge at all.
    pub const fn none() -> Self {
        Self(None)
    }
}

/// The bytes all connections of a listener may hold.
#[derive(Debug)]
pub struct Budget {
    ordinary: Pool,
    large: Pool,
    elements: Pool,
    many_elements: Pool,
    parked: Pool,
    answers: Pool,
}

#[derive(Debug)]
struct Pool {
    semaphore: Arc<Semaphore>,
    kib: u32,
}

impl Pool {
    fn new(bytes: usize) -> Self {
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX).clamp(1, 1 << 28);
        Self {
            semaphore: Arc::new(Semaphore::new(kib as usize)),
            kib,
        }
    }

    /// The charge if there is room for it now.
    fn try_charge(&self, bytes: usize) -> Option<Charge> {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).ok()?;
        let permit = Arc::clone(&self.semaphore).try_acquire_many_owned(kib).ok()?;
        Some(Charge(Some(permit)))
    }

    async fn charge(&self, bytes: usize) -> Charge {
        // A single charge beyond the whole pool would wait for ever; it is let through alone instead.
        let kib = u32::try_from(bytes.div_ceil(1 << 10))
            .unwrap_or(u32::MAX)
            .min(self.kib);
        Charge(Arc::clone(&self.semaphore).acquire_many_owned(kib).await.ok())
    }
}

impl Budget {
    /// The budget these limits give.
    pub fn new(limits: &Limits) -> Self {
        Self {
            ordinary: Pool::new(limits.frame_budget_bytes),
            large: Pool::new(limits.large_frame_budget_bytes.max(limits.max_frame_bytes)),
            elements: Pool::new(limits.frame_budget_bytes),
            many_elements: Pool::new(limits.large_frame_budget_bytes),
            parked: Pool::new(limits.parked_budget_bytes),
            answers: Pool::new(limits.answer_budget_bytes),
        }
    }

    /// Room for a request of `bytes` to wait in, if there is some.
    pub fn park(&self, bytes: usize) -> Option<Charge> {
        if bytes <= FREE_FRAME_BYTES {
            Some(Charge(None))
        } else {
            self.parked.try_charge(bytes)
        }
    }

    /// Room for an answer of `bytes` to be under way, if there is some.
    pub fn answer(&self, bytes: usize) -> Option<Charge> {
        if bytes <= FREE_FRAME_BYTES {
            Some(Charge(None))
        } else {
            self.answers.try_charge(bytes)
        }
    }

    /// Waits for room for what a frame of `count` elements is decoded into.
    pub async fn charge_elements(&self, count: usize) -> Charge {
        let bytes = count.saturating_mul(ELEMENT_BYTES);
        if bytes <= FREE_FRAME_BYTES {
            Charge(None)
        } else if bytes <= LARGE_FRAME_BYTES {
            self.elements.charge(bytes).await
        } else {
            self.many_elements.charge(bytes).await
        }
    }

    /// Waits for room for a frame of `bytes`.
    pub async fn charge(&self, bytes: usize) -> Charge {
        if bytes <= FREE_FRAME_BYTES {
            Charge(None)
        } else if bytes <= LARGE_FRAME_BYTES {
            self.ordinary.charge(bytes).await
        } else {
            self.large.charge(bytes).await
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn hostile_claims_of_large_frames_leave_ordinary_ones_room() {
        let limits = Limits {
            frame_budget_bytes: 1 << 20,
            large_frame_budget_bytes: 8 << 20,
            max_frame_bytes: 8 << 20,
            ..Limits::default()
        };
        let budget = Budget::new(&limits);
        let hostile = budget.charge(8 << 20).await;
        assert!(budget.charge(4 << 20).now_or_never().is_none());
        let half = budget.charge(512 << 10).now_or_never().unwrap();
        let other_half = budget.charge(512 << 10).now_or_never().unwrap();
        assert!(budget.charge(FREE_FRAME_BYTES + 1).now_or_never().is_none());
        assert!(budget.charge(FREE_FRAME_BYTES).now_or_never().is_some());
        drop((half, other_half, hostile));
        assert!(budget.charge(8 << 20).now_or_never().is_some());
        assert!(budget.charge(64 << 20).now_or_never().is_some());
    }

    #[test]
    fn a_large_frame_has_more_time_than_a_small_one() {
        let limits = Limits {
            frame_deadline: Duration::from_secs(10),
            slowest_bytes_per_second: 1_000,
            ..Limits::default()
        };
        assert_eq!(limits.frame_time(10), Duration::from_secs(10));
        assert_eq!(limits.frame_time(5_000), Duration::from_secs(15));
    }
}
