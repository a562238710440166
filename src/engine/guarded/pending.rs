//! Changes that wait for a reader: kept durably, and judged again when something happened that could matter.
//!
//! A commit on a topic without a waiting change costs one load of a counter; one on a topic with a waiting change a look-up
//! in its [`Watch`]. Nothing is polled: whoever moves wakes the thread that judges.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use crate::engine::clock_guard::Times;
use crate::engine::readers::ReaderListener;
use crate::resource::contract::{Outcome, ReaderKind, Verdict};
use crate::resource::settings::Overrides;
use crate::retention::Watch;

/// How long a topic whose deletion waited for a commit outlives it. A consumer commits as its last act but one: then it leaves its
/// group and fetches no more, and librdkafka for one may wait for ever for a partition that goes at that very moment.
const TIME_TO_LEAVE: Duration = Duration::from_millis(500);
/// How long at most, while members of groups still read it: one on a busy machine takes its time to leave, another one never does.
const MOST_TIME_TO_LEAVE: Duration = Duration::from_secs(10);

/// How old a verdict gets while a reader that it lists moves without being out of the way: what it says of where, and why, is to be true.
const FRESH_FOR: Duration = Duration::from_secs(5);

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Target {
    /// These overrides, over the engine's configured defaults.
    #[serde(rename_all = "camelCase")]
    Settings {
        /// The topic's.
        config: Overrides,
        /// Those of single partitions.
        partition_config: BTreeMap<i32, Overrides>,
    },
    /// That the topic is gone.
    Deletion,
}

/// A change that waits, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingRecord {
    /// What is asked for.
    pub target: Target,
    /// The request that asked for it; empty for a changed engine default.
    pub request_id: String,
    /// Since when, ms.
    pub since_ms: i64,
}

/// A change that waits, with what was last found about it.
#[derive(Debug, Clone)]
pub struct Pending {
    /// As stored.
    pub record: PendingRecord,
    /// The last verdict.
    pub verdict: Verdict,
    /// What it waits for.
    pub watch: Watch,
    /// Whether any reader at all would make a difference.
    pub any_reader: bool,
    /// What each partition was like when it was last judged.
    pub seen: Vec<Seen>,
    /// When that was.
    pub judged: Instant,
    /// Whether a reader that the verdict lists has moved since.
    pub moved: bool,
}

/// What a roll, a deletion, a pass or an append changes of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The partition.
    pub partition: i32,
    /// Number of its segments.
    pub segments: usize,
    /// Its log start offset.
    pub log_start: i64,
    /// Bytes of its segments.
    pub size_bytes: i64,
    /// Its log end offset.
    pub log_end: i64,
}

impl Pending {
    /// Whether the verdict says something else of this reader. What is in force in part is judged before each pass as it is.
    fn is_outdated_by(&self, kind: ReaderKind, reader: &str, partition: i32, position: i64) -> bool {
        let of_fetcher = kind == ReaderKind::Fetcher;
        self.verdict.verdict == Outcome::Refused
            && self.verdict.readers_at_risk.iter().any(|risk| {
                risk.partition == partition
                    && risk.position != Some(position)
                    && (risk.kind == ReaderKind::Fetcher) == of_fetcher
                    && risk.name == reader
            })
    }

    /// Whether a partition has come to be such that the change should be judged again.
    fn is_due(&self, now_ms: i64, seen: &[Seen]) -> bool {
        let moved = |(now, before): (&Seen, &Seen)| {
            (now.partition, now.segments, now.log_start)
                != (before.partition, before.segments, before.log_start)
                || (now.log_end != before.log_end
                    && self.watch.appended(now.partition, now.size_bytes, now.log_end))
        };
        self.watch.wake_at_ms().is_some_and(|at| at <= now_ms)
            || (self.moved && self.judged.elapsed() >= FRESH_FOR)
            || seen.len() != self.seen.len()
            || seen.iter().zip(&self.seen).any(moved)
    }
}

impl ReaderListener for PendingChanges {
    fn moved(&self, topic: &str, kind: ReaderKind, reader: &str, partition: i32, position: i64) {
        self.reader_moved(topic, kind, reader, partition, position);
    }

    fn changed(&self, topic: &str, _kind: ReaderKind, _reader: &str) {
        // Rare beside commits, and a reader that nobody waited for can matter too: it may be the first one.
        self.wake(topic);
    }
}

/// All changes that wait.
#[derive(Debug, Default)]
pub struct PendingChanges {
    count: AtomicUsize,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct State {
    by_topic: HashMap<String, Pending>,
    dirty: BTreeSet<String>,
    /// Deletions that are to be judged again.
    later: BTreeMap<String, Leave>,
    /// The time at the last look.
    times: Option<Times>,
    closed: bool,
}

/// Time for the readers of a topic to leave it before its deletion is judged again.
#[derive(Debug, Clone, Copy)]
pub struct Leave {
    /// When to look whether they have.
    due: Instant,
    /// When not to wait for them any more.
    end: Instant,
}

/// A topic whose change is to be judged again.
#[derive(Debug)]
pub struct Due {
    /// Its name.
    pub topic: String,
    /// Of a deletion: the time that its readers had.
    pub leave: Option<Leave>,
}

impl PendingChanges {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The change that waits on a topic.
    pub fn get(&self, topic: &str) -> Option<Pending> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.state.lock().by_topic.get(topic).cloned()
    }

    /// Puts one in, in the place of what waited before.
    pub fn put(&self, topic: &str, pending: Pending) {
        let mut state = self.state.lock();
        state.by_topic.insert(topic.to_owned(), pending);
        self.count.store(state.by_topic.len(), Ordering::Release);
    }

    /// Drops what waits on a topic.
    pub fn remove(&self, topic: &str) -> Option<Pending> {
        let mut state = self.state.lock();
        let removed = state.by_topic.remove(topic);
        state.dirty.remove(topic);
        state.later.remove(topic);
        self.count.store(state.by_topic.len(), Ordering::Release);
        removed
    }

    /// Topics on which something waits.
    pub fn topics(&self) -> Vec<String> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.state.lock().by_topic.keys().cloned().collect()
    }

    /// Has the change on a topic judged again if time, or what its partitions are like now, could matter to it.
    pub fn wake_if_due(&self, topic: &str, now_ms: i64, seen: &[Seen]) {
        let mut state = self.state.lock();
        if state
            .by_topic
            .get(topic)
            .is_some_and(|pending| pending.is_due(now_ms, seen))
        {
            self.wake_locked(&mut state, topic);
        }
    }

    fn reader_moved(&self, topic: &str, kind: ReaderKind, reader: &str, partition: i32, position: i64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.state.lock();
        let Some(pending) = state.by_topic.get_mut(topic) else {
            return;
        };
        pending.moved |= pending.is_outdated_by(kind, reader, partition, position);
        if pending.watch.moved(kind, reader, partition, position) || pending.any_reader {
            self.wake_locked(&mut state, topic);
        }
    }

    /// Has the change on a topic judged again.
    pub fn wake(&self, topic: &str) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.state.lock();
        if state.by_topic.contains_key(topic) {
            self.wake_locked(&mut state, topic);
        }
    }

    /// Has all of them judged again.
    pub fn wake_all(&self) {
        self.wake_all_locked(&mut self.state.lock());
    }

    /// Notes what time it is. A clock that was set back can end any refusal, and so can a doubt that begins or ends.
    pub fn note_time(&self, times: Times) {
        let mut state = self.state.lock();
        let before = state.times.replace(times);
        let anew = before.is_some_and(|before| {
            times.now_ms < before.now_ms || times.or_ms.is_some() != before.or_ms.is_some()
        });
        if anew {
            self.wake_all_locked(&mut state);
        }
    }

    fn wake_all_locked(&self, state: &mut State) {
        let topics: Vec<String> = state.by_topic.keys().cloned().collect();
        state.dirty.extend(topics);
        self.woken.notify_all();
    }

    fn wake_locked(&self, state: &mut State, topic: &str) {
        let waiting = state.by_topic.get(topic);
        if waiting.is_some_and(|pending| pending.record.target == Target::Deletion) {
            let now = Instant::now();
            let leave = Leave {
                due: now + TIME_TO_LEAVE,
                end: now + MOST_TIME_TO_LEAVE,
            };
            state.later.entry(topic.to_owned()).or_insert(leave);
        } else {
            state.dirty.insert(topic.to_owned());
        }
        self.woken.notify_one();
    }

    /// Gives readers that have not left yet some more time, if there is any; answers whether.
    pub fn wait_for_leave(&self, topic: &str, mut leave: Leave) -> bool {
        let now = Instant::now();
        if now >= leave.end {
            return false;
        }
        leave.due = leave.end.min(now + TIME_TO_LEAVE);
        // Whoever has woken it meanwhile has begun no new time.
        self.state.lock().later.insert(topic.to_owned(), leave);
        true
    }

    /// Waits for a topic whose change is to be judged again; `None` once closed.
    pub fn next(&self) -> Option<Due> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(topic) = state.dirty.pop_first() {
                return Some(Due { topic, leave: None });
            }
            let now = Instant::now();
            let first = state.later.iter().min_by_key(|(_, leave)| leave.due);
            let wait = match first.map(|(topic, leave)| (topic.clone(), *leave)) {
                Some((topic, leave)) if leave.due <= now => {
                    state.later.remove(&topic);
                    let leave = Some(leave);
                    return Some(Due { topic, leave });
                }
                Some((_, leave)) => leave.due.saturating_duration_since(now),
                None => Duration::from_secs(60),
            };
            self.woken.wait_for(&mut state, wait);
        }
    }

    /// Ends [`Self::next`].
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.woken.notify_all();
    }
}
