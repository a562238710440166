//! Fetch sessions (KIP-227): a consumer of many partitions names only what changed since its last fetch, and is answered
//! only where something is new.
//!
//! What sessions follow is bounded in bytes as well: a client that wants more goes without.
//!
//! Rules are those of Kafka's `FetchManager`: epoch 0 asks for a session, -1 ends one, any other must be the next one.
//! The cache is bounded; a session unused for [`EVICTABLE_AFTER`] gives way when the cache is full, otherwise the
//! newcomer goes without, which clients understand as session id 0.
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;

use kafka_protocol::indexmap::IndexMap;
use parking_lot::Mutex;

use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::request::{FetchRequest, Position, TopicKey};

/// How long a session must have been unused to be given up for another (`min.incremental.fetch.session.eviction.ms`).
pub(crate) const EVICTABLE_AFTER: Duration = Duration::from_secs(120);

/// What all sessions may hold in memory, bytes: half a million partitions and more.
const MOST_BYTES: usize = 128 << 20;
/// A followed partition without its topic's name, in bytes.
const FOLLOWED: usize = 192;

/// The epoch that asks for a new session.
const INITIAL_EPOCH: i32 = 0;
/// The epoch that ends a session, or asks for none.
const FINAL_EPOCH: i32 = -1;

/// What a client was last told about a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    pub high_watermark: i64,
    pub log_start: i64,
    pub failed: bool,
}

/// One partition of a session.
#[derive(Debug, Clone)]
pub(crate) struct Followed {
    pub position: Position,
    /// Nothing yet: answered in any case.
    pub told: Option<Told>,
}

/// What a client follows.
#[derive(Debug)]
pub(crate) struct Session {
    pub id: i32,
    /// The epoch its next request must have.
    next_epoch: i32,
    /// Topics are named by id.
    by_id: bool,
    pub partitions: IndexMap<(TopicKey, i32), Followed>,
    /// Where the next answer starts, so that no partition starves the others.
    pub first: usize,
    /// What its partitions hold, bytes.
    weight: usize,
    /// What those of all sessions hold, this one's among them.
    held: Arc<AtomicUsize>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.held.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

fn weight(key: &TopicKey) -> usize {
    match key {
        TopicKey::Name(name) => FOLLOWED + name.len(),
        TopicKey::Id(_) => FOLLOWED,
    }
}

/// What a request may add to a session.
fn weight_of_request(request: &FetchRequest) -> usize {
    let topics = request.topics.iter();
    topics
        .map(|topic| weight(&topic.key).saturating_mul(topic.partitions.len()))
        .fold(0, usize::saturating_add)
}

impl Session {
    /// What the request would add to what is followed already.
    fn added_by(&self, request: &FetchRequest) -> usize {
        let keys = request.topics.iter().flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions.map(|position| (topic.key.clone(), position.partition))
        });
        keys.filter(|key| !self.partitions.contains_key(key))
            .map(|(topic, _)| weight(&topic))
            .fold(0, usize::saturating_add)
    }

    fn apply(&mut self, request: &FetchRequest) {
        for topic in &request.topics {
            for position in &topic.partitions {
                let key = (topic.key.clone(), position.partition);
                match self.partitions.get_mut(&key) {
                    Some(followed) => followed.position = *position,
                    None => {
                        let told = None;
                        self.weight += weight(&key.0);
                        self.held.fetch_add(weight(&key.0), Ordering::Relaxed);
                        self.partitions.insert(
                            key,
                            Followed {
                                position: *position,
                                told,
                            },
                        );
                    }
                }
            }
        }
        for (key, partitions) in &request.forgotten {
            for partition in partitions {
                if self.partitions.shift_remove(&(key.clone(), *partition)).is_some() {
                    self.weight -= weight(key);
                    self.held.fetch_sub(weight(key), Ordering::Relaxed);
                }
            }
        }
        if self.first >= self.partitions.len() {
            self.first = 0;
        }
    }
}

fn epoch_after(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

/// What a request is about.
#[derive(Debug)]
pub(crate) enum Scope {
    /// What it names, and nothing is remembered.
    Sessionless,
    /// A session's partitions. `full` for the first answer, which names all of them.
    Session {
        session: Arc<Mutex<Session>>,
        full: bool,
    },
    /// An answer without partitions.
    Refused(ErrorCode),
}

#[derive(Debug)]
struct Slot {
    session: Arc<Mutex<Session>>,
    used: Duration,
}

/// All sessions of a server.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    slots: usize,
    next_id: AtomicI32,
    cache: Mutex<HashMap<i32, Slot>>,
    held: Arc<AtomicUsize>,
    /// [`MOST_BYTES`], or less in a test.
    most: usize,
}

impl FetchSessions {
    /// A cache of at most `slots` sessions.
    pub(crate) fn new(slots: usize) -> Self {
        // Ids start anywhere, so that one of an earlier process is most likely unknown rather than another client's.
        let seed = uuid::Uuid::new_v4().as_u128() as i32 & i32::MAX;
        Self {
            slots,
            next_id: AtomicI32::new(seed.max(1)),
            cache: Mutex::new(HashMap::new()),
            held: Arc::default(),
            most: MOST_BYTES,
        }
    }

    /// Finds or makes the session of a request and brings it up to date. `now` is monotonic.
    pub(crate) fn enter(&self, request: &FetchRequest, by_id: bool, now: Duration) -> Scope {
        match request.session_epoch {
            FINAL_EPOCH | INITIAL_EPOCH => {
                if request.session_id != 0 {
                    self.cache.lock().remove(&request.session_id);
                }
                if request.session_epoch == INITIAL_EPOCH {
                    self.create(request, by_id, now)
                } else {
                    Scope::Sessionless
                }
            }
            epoch => self.resume(request, epoch, by_id, now),
        }
    }

    fn create(&self, request: &FetchRequest, by_id: bool, now: Duration) -> Scope {
        if request.topics.is_empty() || !self.has_room(weight_of_request(request)) {
            return Scope::Sessionless;
        }
        let mut cache = self.cache.lock();
        if cache.len() >= self.slots {
            let oldest = cache
                .iter()
                .min_by_key(|(_, slot)| slot.used)
                .map(|(id, slot)| (*id, slot.used));
            match oldest {
                Some((id, used)) if now.saturating_sub(used) > EVICTABLE_AFTER => {
                    cache.remove(&id);
                }
                _ => return Scope::Sessionless,
            }
        }
        let id = loop {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if id != 0 && !cache.contains_key(&id) {
                break id;
            }
        };
        let mut session = Session {
            id,
            next_epoch: epoch_after(INITIAL_EPOCH),
            by_id,
            partitions: IndexMap::new(),
            first: 0,
            weight: 0,
            held: Arc::clone(&self.held),
        };
        session.apply(request);
        let session = Arc::new(Mutex::new(session));
        let slot = Slot {
            session: Arc::clone(&session),
            used: now,
        };
        cache.insert(id, slot);
        Scope::Session { session, full: true }
    }

    fn resume(&self, request: &FetchRequest, epoch: i32, by_id: bool, now: Duration) -> Scope {
        let found = {
            let mut cache = self.cache.lock();
            cache.get_mut(&request.session_id).map(|slot| {
                slot.used = now;
                Arc::clone(&slot.session)
            })
        };
        let Some(found) = found else {
            return Scope::Refused(ErrorCode::FetchSessionIdNotFound);
        };
        let mut session = found.lock();
        if session.next_epoch != epoch {
            return Scope::Refused(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.by_id != by_id {
            return Scope::Refused(ErrorCode::FetchSessionTopicIdError);
        }
        if !self.has_room(weight_of_request(request)) && !self.has_room(session.added_by(request)) {
            // Without its session the client asks for everything it follows, and is served without one.
            drop(session);
            self.cache.lock().remove(&request.session_id);
            return Scope::Refused(ErrorCode::FetchSessionIdNotFound);
        }
        session.next_epoch = epoch_after(epoch);
        session.apply(request);
        drop(session);
        Scope::Session {
            session: found,
            full: false,
        }
    }

    /// Whether so many bytes more could be held.
    fn has_room(&self, added: usize) -> bool {
        added == 0 || self.held.load(Ordering::Relaxed).saturating_add(added) <= self.most
    }

    /// How many sessions there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.cache.lock().len()
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
