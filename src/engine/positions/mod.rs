//! Positions of readers: drives the group coordinator and keeps what it wants kept.
//!
//! The coordinator ([`crate::wire::groups`]) decides; this room gives it the time, makes its records durable before anybody is
//! answered, wakes it when something is due, and tells the guard who reads what. Invariant: a position that can be
//! seen, by a client or by the guard, is on stable storage.
mod codec;
pub mod fetchers;
mod inventory;
mod keeper;
mod remembered;
mod service;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use uuid::Uuid;

use self::codec::Unreadable;
use self::fetchers::Fetchers;
use self::keeper::Job;
use self::remembered::Entries;
use super::readers::{Gate, ReaderListener};
use super::store::{Store, StoreError, Table};
use crate::resource::contract::ReaderKind;
use crate::telemetry::clock::{Clock, millis};
use crate::wire::groups::output::{Now, Output, Reply, Token};
use crate::wire::groups::topics::Topic;
use crate::wire::groups::{Coordinator, GroupConfig};

/// How long the timer sleeps at most while something has a deadline: the clock need not run like the runtime's.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often fetchers are looked through for those that are gone.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// How long others that begin to fetch are waited for before one is stored: many come at once, and each look is at all of them.
const NEWS_TOGETHER: Duration = Duration::from_millis(50);

/// Why positions could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum PositionsError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry is damaged. Nothing is dropped silently: a reader that is forgotten is a reader that loses records.
    #[error("{0}")]
    Unreadable(#[from] Unreadable),
}

/// Groups, their positions, and consumers without a group; clones share them.
#[derive(Debug, Clone)]
pub struct Positions {
    shared: Arc<Shared>,
    tasks: Arc<Mutex<Option<Tasks>>>,
}

#[derive(Debug)]
struct Tasks {
    keeper: JoinHandle<()>,
    timer: JoinHandle<()>,
    fetchers: JoinHandle<()>,
}

struct Shared {
    coordinator: Mutex<Coordinator>,
    /// Requests that wait for an answer.
    waiting: Mutex<HashMap<Token, oneshot::Sender<Reply>>>,
    tokens: AtomicU64,
    /// Nobody may wait any more.
    draining: AtomicBool,
    /// Taken out at shutdown, which ends the keeper when all is written.
    jobs: RwLock<Option<mpsc::UnboundedSender<Job>>>,
    store: Store,
    clock: Arc<dyn Clock>,
    gate: Arc<Gate>,
    listener: RwLock<Option<Arc<dyn ReaderListener>>>,
    fetchers: Fetchers,
    /// What is stored of them.
    written: Mutex<Entries>,
    /// One of them is to be stored soon.
    fetched_anew: Notify,
    /// Names of topics by id, apart from the coordinator's so that a fetch does not wait for it.
    names: RwLock<HashMap<Uuid, Arc<str>>>,
    /// A deadline may have come closer.
    sooner: Notify,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Positions {
    /// Loads what the store holds and begins to work. Must be called within a runtime; `topics` are all there are.
    pub fn start(
        store: Store,
        clock: Arc<dyn Clock>,
        config: GroupConfig,
        gate: Arc<Gate>,
        topics: Vec<Topic>,
    ) -> Result<Self, PositionsError> {
        let mut coordinator = Coordinator::new(config);
        let names = topics
            .iter()
            .map(|topic| (topic.id, Arc::clone(&topic.name)))
            .collect();
        for topic in topics {
            coordinator.set_topic(topic);
        }
        load(&store, &mut coordinator, now(&*clock))?;
        let fetchers = Fetchers::default();
        let written = remembered::load(&store, &fetchers, now(&*clock))?;
        let (jobs, receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            coordinator: Mutex::new(coordinator),
            waiting: Mutex::default(),
            tokens: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            jobs: RwLock::new(Some(jobs)),
            store,
            clock,
            gate,
            listener: RwLock::new(None),
            fetchers,
            written: Mutex::new(written),
            fetched_anew: Notify::new(),
            names: RwLock::new(names),
            sooner: Notify::new(),
        });
        let tasks = Tasks {
            keeper: tokio::spawn(keeper::run(Arc::clone(&shared), receiver)),
            timer: tokio::spawn(run_timer(Arc::clone(&shared))),
            fetchers: tokio::spawn(keep_fetchers(Arc::clone(&shared))),
        };
        Ok(Self {
            shared,
            tasks: Arc::new(Mutex::new(Some(tasks))),
        })
    }

    /// Who is told when readers move or change.
    pub fn listen(&self, listener: Arc<dyn ReaderListener>) {
        *self.shared.listener.write() = Some(listener);
    }

    /// A topic was created or grew. To be called before anybody is told of it.
    pub fn set_topic(&self, name: &str, id: Uuid, partitions: i32) {
        let topic = Topic {
            name: Arc::from(name),
            id,
            partitions,
        };
        self.shared.names.write().insert(id, Arc::clone(&topic.name));
        self.shared.coordinator.lock().set_topic(topic);
    }

    /// A topic was deleted: commits on it end. Who had read how far is remembered. From here on a topic may be made anew under
    /// the name; the answer can be awaited by who wants to know that all of it is durable.
    pub fn remove_topic(&self, name: &str) -> Durable {
        let now = self.shared.now();
        let (_, durable) = self.shared.step(|coordinator, out| {
            if let Some(topic) = coordinator.topics().by_name(name) {
                self.shared.names.write().remove(&topic.id);
            }
            coordinator.remove_topic(name, now, out);
        });
        // If it could not be kept, the topic id still tells that the commits are of an earlier topic.
        durable
    }

    /// Ends commits and groups whose time is over. For the housekeeping loop; `required` are topics with groups that they
    /// require.
    pub fn expire(&self, required: &HashSet<(String, String)>) {
        let now = self.shared.now();
        self.shared
            .step(|coordinator, out| coordinator.expire(now, required, out));
        self.shared.sweep();
    }

    /// Does what is due now. The timer does so by itself; for a clock that a test moves.
    pub fn run_due(&self) {
        self.shared.run_due();
        self.shared.sweep();
    }

    /// Sends everybody away who waits for others, a rebalance for example, now and from now on: the engine is about to stop, and a
    /// client that is told so finds the next one sooner than one whose connection is cut.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
        self.shared.waiting.lock().clear();
    }

    /// Waits until everything asked for so far is durable, and stops.
    pub async fn shutdown(&self) {
        self.drain();
        drop(self.shared.jobs.write().take());
        let tasks = self.tasks.lock().take();
        if let Some(tasks) = tasks {
            tasks.timer.abort();
            tasks.fetchers.abort();
            let _ = tasks.keeper.await;
            self.shared.remember().await;
        }
    }
}

/// Tells whether the records of a step are durable.
#[derive(Debug)]
pub struct Durable(Option<oneshot::Receiver<bool>>);

impl Durable {
    /// Waits for it.
    pub async fn wait(self) -> bool {
        match self.0 {
            None => true,
            Some(receiver) => receiver.await.unwrap_or(false),
        }
    }
}

fn now(clock: &dyn Clock) -> Now {
    Now {
        monotonic_ms: millis(clock.monotonic()),
        wall_ms: clock.wall_ms(),
    }
}

fn load(store: &Store, coordinator: &mut Coordinator, now: Now) -> Result<(), PositionsError> {
    let damaged = |table: Table| Unreadable {
        table: table.name(),
        reason: "the entry is too short or not UTF-8".to_owned(),
    };
    for (key, value) in store.scan(Table::CommittedOffsets)? {
        let key = codec::read_position_key(&key).ok_or_else(|| damaged(Table::CommittedOffsets))?;
        let value = codec::read_commit_value(&value).ok_or_else(|| damaged(Table::CommittedOffsets))?;
        coordinator.load_commit(&key, value, now);
    }
    for (key, value) in store.scan(Table::FormerPositions)? {
        let key = codec::read_position_key(&key).ok_or_else(|| damaged(Table::FormerPositions))?;
        coordinator.load_former(&key, codec::read_former(&value)?);
    }
    for (key, value) in store.scan(Table::Groups)? {
        let (id, snapshot) = codec::read_group(&key, &value)?;
        coordinator.load_group(&id, snapshot, now);
    }
    Ok(())
}

async fn run_timer(shared: Arc<Shared>) {
    let mut swept = shared.clock.monotonic();
    loop {
        let now_ms = shared.now().monotonic_ms;
        let deadline = shared.coordinator.lock().next_deadline();
        let wait = deadline
            .map(|at_ms| Duration::from_millis(u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0)));
        let wait = match wait {
            Some(wait) => wait.min(LOOK_EVERY),
            // Fetchers come without a word to this task, so it looks now and then.
            None => SWEEP_EVERY,
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shared.sooner.notified() => {}
        }
        shared.run_due();
        if shared.clock.monotonic().saturating_sub(swept) >= SWEEP_EVERY {
            swept = shared.clock.monotonic();
            shared.sweep();
        }
    }
}

async fn keep_fetchers(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWEEP_EVERY) => {}
            () = shared.fetched_anew.notified() => tokio::time::sleep(NEWS_TOGETHER).await,
        }
        shared.remember().await;
    }
}

impl Shared {
    fn now(&self) -> Now {
        now(&*self.clock)
    }

    /// One input to the coordinator. Its records are queued under the same lock, so that they are kept in the order they
    /// came about.
    fn step<T>(&self, input: impl FnOnce(&mut Coordinator, &mut Output) -> T) -> (T, Durable) {
        let mut out = Output::new();
        let mut coordinator = self.coordinator.lock();
        let before = coordinator.next_deadline();
        let result = input(&mut coordinator, &mut out);
        let sooner = match (before, coordinator.next_deadline()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(before), Some(after)) => after < before,
        };
        let durable = if out.records.is_empty() {
            drop(coordinator);
            self.answer(out.replies);
            self.tell(out.changed);
            Durable(None)
        } else {
            let (done, receiver) = oneshot::channel();
            let job = Job {
                records: out.records,
                replies: out.replies,
                changed: out.changed,
                done: Some(done),
            };
            let refused = match &*self.jobs.read() {
                Some(jobs) => jobs.send(job).err().map(|error| error.0),
                None => Some(job),
            };
            if let Some(job) = refused {
                coordinator.settled(&job.records, false);
                drop(coordinator);
                self.answer(job.replies);
            }
            Durable(Some(receiver))
        };
        if sooner {
            self.sooner.notify_one();
        }
        (result, durable)
    }

    fn run_due(&self) {
        let now = self.now();
        let due = self.coordinator.lock().next_deadline();
        if due.is_some_and(|at_ms| at_ms <= now.monotonic_ms) {
            self.step(|coordinator, out| coordinator.tick(now, out));
        }
    }

    fn sweep(&self) {
        let gone = self.fetchers.sweep(self.now().monotonic_ms);
        let Some(listener) = self.listener.read().clone() else {
            return;
        };
        for (topic_id, name) in gone {
            let topic = self.names.read().get(&topic_id).cloned();
            if let Some(topic) = topic {
                listener.changed(&topic, ReaderKind::Fetcher, &name);
            }
        }
    }

    fn answer(&self, replies: Vec<(Token, Reply)>) {
        if replies.is_empty() {
            return;
        }
        let mut waiting = self.waiting.lock();
        for (token, reply) in replies {
            if let Some(sender) = waiting.remove(&token) {
                // The client may have gone away.
                let _ = sender.send(reply);
            }
        }
    }

    fn tell(&self, changed: BTreeSet<(Arc<str>, Arc<str>)>) {
        if changed.is_empty() {
            return;
        }
        let listener = self.listener.read().clone();
        if let Some(listener) = listener {
            for (topic, group) in &changed {
                listener.changed(topic, ReaderKind::Group, group);
            }
        }
    }

    fn token(&self) -> (Token, oneshot::Receiver<Reply>) {
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().insert(token, sender);
        (token, receiver)
    }
}

#[cfg(test)]
#[path = "positions_tests.rs"]
mod tests;
