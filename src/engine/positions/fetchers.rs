//! Consumers without a group: known by what they fetched in the last ten minutes.
//!
//! A fetch does not say on whose behalf it is made. It is put down to a group where a member of that group, or somebody who
//! commits for it, has the same client id and address and there are no more connections than such members; what is over
//! counts as a reader of its own. Positions are kept per connection, so that two consumers of one name do not hide each
//! other; those of a closed connection give way to the client's next one.
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::wire::groups::messages::{Client, FetchPosition};
use crate::wire::groups::output::Now;

/// How long a fetch says that somebody reads.
pub const REMEMBERED_MS: i64 = 600_000;
/// What all of it may hold in memory, bytes: about a million positions. Names are chosen by clients, so they are counted too.
const MOST_BYTES: usize = 128 << 20;
/// A client id and address without its texts, a connection, and a topic of one, in bytes.
const HOLDER: usize = 256;
/// A position, in bytes.
const POSITION: usize = 96;
const SHARDS: usize = 16;

/// A position a connection fetched from.
#[derive(Debug, Clone, Copy)]
struct Seen {
    offset: i64,
    /// Monotonic: a step of the wall clock must not make readers vanish.
    at_ms: i64,
    wall_ms: i64,
}

#[derive(Debug, Default)]
struct Connection {
    closed: bool,
    topics: HashMap<Uuid, BTreeMap<i32, Seen>>,
}

/// Somebody that speaks for a group: group id and member id, the latter empty for a standalone commit.
type Speaker = (Arc<str>, Arc<str>);

/// All connections of one client id and address.
#[derive(Debug)]
struct Source {
    name: Arc<str>,
    connections: HashMap<u64, Connection>,
    /// Where it was without a group before the engine started, by topic.
    before: HashMap<Uuid, BTreeMap<i32, Seen>>,
    /// Topic and speaker -> when.
    speakers: HashMap<(Arc<str>, Speaker), i64>,
}

#[derive(Debug, Default)]
struct Shard {
    sources: HashMap<(Arc<str>, Arc<str>), Source>,
    /// What the sources hold, bytes; told anew by each sweep.
    held: usize,
}

fn weight_of_source(client: &Client) -> usize {
    HOLDER + 2 * (client.id.len() + client.host.len())
}

fn weight_of_speaker(topic: &str, (group, member): &Speaker) -> usize {
    HOLDER + topic.len() + group.len() + member.len()
}

impl Source {
    fn weight(&self) -> usize {
        let topics = self
            .connections
            .values()
            .flat_map(|connection| connection.topics.values())
            .chain(self.before.values());
        let speakers = self.speakers.keys();
        HOLDER * (1 + self.connections.len())
            + 2 * self.name.len()
            + topics.map(|own| HOLDER + POSITION * own.len()).sum::<usize>()
            + speakers
                .map(|(topic, speaker)| weight_of_speaker(topic, speaker))
                .sum::<usize>()
    }
}

/// A fetch that moved on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The topic.
    pub topic_id: Uuid,
    /// The partition.
    pub partition: i32,
    /// Where it reads now.
    pub offset: i64,
}

/// A consumer that may have no group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetcher {
    /// Client id and address, `id@address`.
    pub name: Arc<str>,
    /// Client id.
    pub client_id: Arc<str>,
    /// Address as the protocol prints it.
    pub host: Arc<str>,
    /// Who committed on the topic from there, or left a group that read it.
    pub speakers: BTreeSet<Speaker>,
    /// Partition -> offset and wall-clock time of each connection's last fetch, the lowest offset first.
    pub positions: BTreeMap<i32, Vec<(i64, i64)>>,
    /// The same of before the engine started, where it had no group.
    pub before: BTreeMap<i32, (i64, i64)>,
}

/// Every fetcher.
#[derive(Debug)]
pub struct Fetchers {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    /// What all shards hold, bytes.
    held: AtomicUsize,
    /// [`MOST_BYTES`], or less in a test.
    most: usize,
    /// When a fetch could not be remembered for the last time, monotonic; negative when never.
    overflowed_ms: AtomicI64,
    /// Somebody came, or went back.
    news: AtomicBool,
}

impl Default for Fetchers {
    fn default() -> Self {
        Self::holding_at_most(MOST_BYTES)
    }
}

fn key(client: &Client) -> (Arc<str>, Arc<str>) {
    (Arc::clone(&client.id), Arc::clone(&client.host))
}

fn source(client: &Client) -> Source {
    let address = client.host.trim_start_matches('/');
    Source {
        name: Arc::from(format!("{}@{address}", client.id)),
        connections: HashMap::new(),
        before: HashMap::new(),
        speakers: HashMap::new(),
    }
}

impl Fetchers {
    fn holding_at_most(most: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            held: AtomicUsize::new(0),
            most,
            overflowed_ms: AtomicI64::new(-1),
            news: AtomicBool::new(false),
        }
    }

    /// Whether somebody fetched lately and could not be remembered: then nobody can say where all readers are.
    pub fn overflowed(&self, now_ms: i64) -> bool {
        let at_ms = self.overflowed_ms.load(Ordering::Relaxed);
        at_ms >= 0 && now_ms.saturating_sub(at_ms) < REMEMBERED_MS
    }

    /// Notes that somebody fetches who cannot be remembered.
    pub fn not_remembered(&self, now: Now) {
        self.overflowed_ms.fetch_max(now.monotonic_ms, Ordering::Relaxed);
    }

    /// Whether somebody came, or went back, since this was last asked.
    pub fn take_news(&self) -> bool {
        self.news.swap(false, Ordering::Relaxed)
    }

    /// Puts back where a consumer without a group was before the engine started: partition -> offset and wall-clock time.
    pub fn restore(&self, client: &Client, topic_id: Uuid, positions: &BTreeMap<i32, (i64, i64)>, now: Now) {
        let mut shard = self.shard(client).lock();
        let Shard { sources, held } = &mut *shard;
        if !self.take(held, HOLDER + POSITION * positions.len()) {
            self.not_remembered(now);
            return;
        }
        let Some(source) = self.source(sources, held, client) else {
            self.not_remembered(now);
            return;
        };
        let seen = positions.iter().map(|(partition, (offset, wall_ms))| {
            let seen = Seen {
                offset: *offset,
                at_ms: now.monotonic_ms,
                wall_ms: *wall_ms,
            };
            (*partition, seen)
        });
        source.before.insert(topic_id, seen.collect());
    }

    /// Every topic that somebody fetched from lately.
    pub fn topics(&self) -> BTreeSet<Uuid> {
        let mut topics = BTreeSet::new();
        for shard in &self.shards {
            for source in shard.lock().sources.values() {
                let live = source
                    .connections
                    .values()
                    .flat_map(|connection| connection.topics.keys());
                topics.extend(live.chain(source.before.keys()));
            }
        }
        topics
    }

    /// Takes room for `bytes`, if there is so much left.
    fn take(&self, held: &mut usize, bytes: usize) -> bool {
        if self.held.load(Ordering::Relaxed).saturating_add(bytes) > self.most {
            return false;
        }
        self.held.fetch_add(bytes, Ordering::Relaxed);
        *held += bytes;
        true
    }

    fn give_back(&self, held: &mut usize, bytes: usize) {
        let bytes = bytes.min(*held);
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        *held -= bytes;
    }

    fn shard(&self, client: &Client) -> &Mutex<Shard> {
        let hash = self.hasher.hash_one((&client.id, &client.host));
        let index = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        &self.shards[index]
    }

    /// Nobody fetched lately.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().sources.is_empty())
    }

    /// Takes note of a fetch. Answers the name it is known by, and where it moved.
    pub fn fetched(
        &self,
        client: &Client,
        positions: &[FetchPosition],
        now: Now,
    ) -> Option<(Arc<str>, Vec<Moved>)> {
        let mut shard = self.shard(client).lock();
        let Shard { sources, held } = &mut *shard;
        let Some(source) = self.source(sources, held, client) else {
            self.not_remembered(now);
            return None;
        };
        let others_closed = source
            .connections
            .iter()
            .any(|(id, connection)| connection.closed && *id != client.connection);
        let connection = match source.connections.entry(client.connection) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if !self.take(held, HOLDER) => {
                self.not_remembered(now);
                return None;
            }
            Entry::Vacant(free) => free.insert(Connection::default()),
        };
        connection.closed = false;
        let mut moved = Vec::new();
        for position in positions {
            let partitions = match connection.topics.entry(position.topic_id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(_) if !self.take(held, HOLDER) => {
                    self.not_remembered(now);
                    continue;
                }
                Entry::Vacant(free) => free.insert(BTreeMap::new()),
            };
            let seen = Seen {
                offset: position.offset,
                at_ms: now.monotonic_ms,
                wall_ms: now.wall_ms,
            };
            let before = match partitions.get_mut(&position.partition) {
                Some(known) => Some(std::mem::replace(known, seen)),
                None if !self.take(held, POSITION) => {
                    self.not_remembered(now);
                    continue;
                }
                None => partitions.insert(position.partition, seen),
            };
            if before.is_none_or(|before| before.offset > position.offset) {
                self.news.store(true, Ordering::Relaxed);
            }
            if before.is_none_or(|before| before.offset != position.offset) {
                moved.push(Moved {
                    topic_id: position.topic_id,
                    partition: position.partition,
                    offset: position.offset,
                });
            }
        }
        if others_closed {
            let removed = supersede(source, client.connection, positions);
            self.give_back(held, removed * POSITION);
        }
        (!moved.is_empty()).then(|| (Arc::clone(&source.name), moved))
    }

    /// The connection ended.
    pub fn disconnected(&self, client: &Client) {
        let mut shard = self.shard(client).lock();
        if let Some(source) = shard.sources.get_mut(&key(client))
            && let Some(connection) = source.connections.get_mut(&client.connection)
        {
            connection.closed = true;
        }
    }

    /// Somebody at this client speaks for a group that reads the topics.
    pub fn speaks<'a>(
        &self,
        client: &Client,
        speaker: &Speaker,
        topics: impl IntoIterator<Item = &'a str>,
        now_ms: i64,
    ) {
        let mut shard = self.shard(client).lock();
        let Shard { sources, held } = &mut *shard;
        let Some(source) = self.source(sources, held, client) else {
            return;
        };
        for topic in topics {
            match source.speakers.entry((Arc::from(topic), speaker.clone())) {
                Entry::Occupied(mut known) => drop(known.insert(now_ms)),
                Entry::Vacant(free) => {
                    if self.take(held, weight_of_speaker(topic, speaker)) {
                        free.insert(now_ms);
                    }
                }
            }
        }
    }

    /// The source of a client; `None` where there is no room for one more.
    fn source<'a>(
        &self,
        sources: &'a mut HashMap<(Arc<str>, Arc<str>), Source>,
        held: &mut usize,
        client: &Client,
    ) -> Option<&'a mut Source> {
        match sources.entry(key(client)) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if !self.take(held, weight_of_source(client)) => None,
            Entry::Vacant(free) => Some(free.insert(source(client))),
        }
    }

    /// Everybody who fetched from the topic lately; `now_ms` is monotonic, as in [`Self::speaks`] and [`Self::sweep`].
    pub fn on(&self, topic: &str, topic_id: Uuid, now_ms: i64) -> Vec<Fetcher> {
        let since_ms = now_ms.saturating_sub(REMEMBERED_MS);
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            for ((client_id, host), source) in &shard.sources {
                let mut positions: BTreeMap<i32, Vec<(i64, i64)>> = BTreeMap::new();
                for connection in source.connections.values() {
                    for (partition, seen) in connection.topics.get(&topic_id).into_iter().flatten() {
                        if seen.at_ms > since_ms {
                            positions
                                .entry(*partition)
                                .or_default()
                                .push((seen.offset, seen.wall_ms));
                        }
                    }
                }
                let before: BTreeMap<i32, (i64, i64)> = source
                    .before
                    .get(&topic_id)
                    .into_iter()
                    .flatten()
                    .filter(|(_, seen)| seen.at_ms > since_ms)
                    .map(|(partition, seen)| (*partition, (seen.offset, seen.wall_ms)))
                    .collect();
                if positions.is_empty() && before.is_empty() {
                    continue;
                }
                for connections in positions.values_mut() {
                    connections.sort_unstable();
                }
                let speakers = source
                    .speakers
                    .iter()
                    .filter(|((spoken_of, _), at_ms)| **spoken_of == *topic && **at_ms > since_ms)
                    .map(|((_, speaker), _)| speaker.clone());
                found.push(Fetcher {
                    name: Arc::clone(&source.name),
                    client_id: Arc::clone(client_id),
                    host: Arc::clone(host),
                    speakers: speakers.collect(),
                    positions,
                    before,
                });
            }
        }
        found.sort_by(|left, right| left.name.cmp(&right.name));
        found
    }

    /// Drops what is too old; answers topic and name of each fetcher that is gone from it.
    pub fn sweep(&self, now_ms: i64) -> BTreeSet<(Uuid, Arc<str>)> {
        let since_ms = now_ms.saturating_sub(REMEMBERED_MS);
        let mut gone = BTreeSet::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            let Shard { sources, held } = &mut *shard;
            sources.retain(|_, source| {
                for connection in source.connections.values_mut() {
                    connection.topics.retain(|topic, partitions| {
                        let before = partitions.len();
                        partitions.retain(|_, seen| seen.at_ms > since_ms);
                        if partitions.len() < before {
                            gone.insert((*topic, Arc::clone(&source.name)));
                        }
                        !partitions.is_empty()
                    });
                }
                source.before.retain(|topic, partitions| {
                    partitions.retain(|_, seen| seen.at_ms > since_ms);
                    if partitions.is_empty() {
                        gone.insert((*topic, Arc::clone(&source.name)));
                    }
                    !partitions.is_empty()
                });
                source
                    .connections
                    .retain(|_, connection| !connection.topics.is_empty());
                source.speakers.retain(|_, at_ms| *at_ms > since_ms);
                !source.connections.is_empty() || !source.speakers.is_empty() || !source.before.is_empty()
            });
            let (before, now) = (*held, sources.values().map(Source::weight).sum());
            *held = now;
            self.held.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
        gone
    }
}

/// A closed connection's positions give way to those of the client's next connection that are no lower.
fn supersede(source: &mut Source, by: u64, positions: &[FetchPosition]) -> usize {
    let mut removed = 0;
    for (id, connection) in &mut source.connections {
        if *id == by || !connection.closed {
            continue;
        }
        for position in positions {
            if let Entry::Occupied(mut topic) = connection.topics.entry(position.topic_id) {
                let partitions = topic.get_mut();
                if partitions
                    .get(&position.partition)
                    .is_some_and(|seen| seen.offset <= position.offset)
                {
                    partitions.remove(&position.partition);
                    removed += 1;
                }
                if partitions.is_empty() {
                    topic.remove();
                }
            }
        }
    }
    source
        .connections
        .retain(|id, connection| *id == by || !connection.topics.is_empty());
    removed
}

#[cfg(test)]
#[path = "fetchers_tests.rs"]
mod tests;
