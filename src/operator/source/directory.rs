//! Topics from a directory of manifests, watched.
//!
//! Editors write a file in halves, or rename another one over it, so a look that misses a Topic is not believed at once:
//! only a Topic that stays away for [`Settings::removal_after`], from a directory that is still the same place and
//! whose files can all be read, has been removed. It then gets a deletion mark, as an API server would set one, and
//! `deletionPolicy` decides. A manifest that is gone when the process starts has no mark: nothing is deleted for it.
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::ResourceExt as _;
use notify::Watcher as _;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Report;
use super::records::Records;
use super::scan::{self, Key, Scan};
use crate::operator::backoff::{Backoff, spread};
use crate::operator::notices;
use crate::operator::reconcile::{Existence, FIGURES_EVERY, Finalizer, Next, Owners, Reconciler, Round};
use crate::operator::status;
use crate::operator::storage::{Storage, StorageError};
use crate::resource::contract::{EngineEvent, EventKind, Owner};
use crate::resource::manifest::Fault;
use crate::resource::topic::{FINALIZER, Topic};
use crate::telemetry::clock::Clock;

/// Where and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory of manifests, or one file.
    pub manifests: PathBuf,
    /// Where records are kept: `DATA/status`.
    pub records: PathBuf,
    /// Namespace of Topics that name none.
    pub namespace: String,
    /// How long a directory must be quiet before it is looked at.
    pub quiet: Duration,
    /// How long a Topic must be away before it counts as removed.
    pub removal_after: Duration,
    /// How often everything is looked at without a reason.
    pub resync: Duration,
}

impl Settings {
    /// The usual times.
    pub fn new(manifests: PathBuf, records: PathBuf) -> Self {
        Self {
            manifests,
            records,
            namespace: "default".to_owned(),
            quiet: Duration::from_millis(150),
            removal_after: Duration::from_secs(2),
            resync: Duration::from_secs(300),
        }
    }
}

/// Told of everything that is worth telling.
pub type Reporter = Arc<dyn Fn(Report) + Send + Sync>;

/// Keeps the Topics of a directory.
pub struct DirectorySource<S> {
    settings: Settings,
    reconciler: Reconciler<S>,
    clock: Arc<dyn Clock>,
    records: Records,
    report: Reporter,
    topics: BTreeMap<Key, Entry>,
    identity: Option<(u64, u64)>,
    faults: BTreeMap<String, Vec<Fault>>,
    /// Whether the list of them is of this run.
    told_faults: bool,
    named: BTreeSet<Key>,
    listed: bool,
    backoff: Backoff<Key>,
    engine: Option<bool>,
}

impl<S> std::fmt::Debug for DirectorySource<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DirectorySource")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Entry {
    topic: Topic,
    due: Option<Instant>,
    figures: Option<Instant>,
    away_since: Option<Instant>,
}

/// The uid of a Topic from a directory: the same in every run.
fn uid(key: &Key) -> String {
    format!("directory/{}/{}", key.0, key.1)
}

fn shown(key: &Key) -> String {
    format!("{}/{}", key.0, key.1)
}

/// What is declared at present, for [`Owners`].
struct Declared<'a> {
    named: &'a BTreeSet<Key>,
    kept: BTreeSet<Key>,
    listed: bool,
}

impl Owners for Declared<'_> {
    async fn exists(&self, owner: &Owner) -> Existence {
        let key = (owner.namespace.clone(), owner.name.clone());
        if owner.uid != uid(&key) {
            return Existence::Unclear("it is a resource of a cluster, not of this directory".to_owned());
        }
        if self.named.contains(&key) || self.kept.contains(&key) {
            return Existence::Exists;
        }
        if self.listed {
            Existence::Gone
        } else {
            Existence::Unclear("the directory cannot be read".to_owned())
        }
    }
}

impl<S: Storage> DirectorySource<S> {
    /// A source over `storage`.
    pub fn new(settings: Settings, storage: Arc<S>, clock: Arc<dyn Clock>, report: Reporter) -> Self {
        Self {
            records: Records::new(settings.records.clone()),
            reconciler: Reconciler::new(storage, Arc::clone(&clock)),
            settings,
            clock,
            report,
            topics: BTreeMap::new(),
            identity: None,
            faults: BTreeMap::new(),
            told_faults: false,
            named: BTreeSet::new(),
            listed: false,
            backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(15)),
            engine: None,
        }
    }

    /// Runs until it is told to stop; a round that has begun is finished.
    pub async fn run(mut self, stop: CancellationToken) {
        for (key, topic) in self.records.load() {
            // Without its manifest a record waits for nothing but the end of a deletion that has begun.
            if topic.metadata.deletion_timestamp.is_some() {
                self.topics.insert(key, Entry::due(topic));
            }
        }
        let (changed, mut changes) = mpsc::channel(1);
        let watcher = self.watch_directory(changed);
        let look_every = if watcher.is_some() {
            Duration::from_secs(30)
        } else {
            Duration::from_secs(1)
        };
        let mut events: Option<BoxStream<'static, Result<EngineEvent, StorageError>>> = None;
        let mut listen_at = Instant::now();
        self.look();
        let mut look_at = Instant::now() + look_every;
        loop {
            if events.is_none() && Instant::now() >= listen_at {
                events = self.reconciler.storage().watch().await.ok();
                listen_at = Instant::now() + Duration::from_secs(2);
                if events.is_some() {
                    self.wake_all();
                }
            }
            let mut until = self.next_due().unwrap_or(look_at).min(look_at);
            if events.is_none() {
                until = until.min(listen_at);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(()) = changes.recv() => look_at = Instant::now() + self.settings.quiet,
                event = next_event(&mut events) => match event {
                    Some(Ok(event)) => self.hear(&event),
                    Some(Err(_)) | None => events = None,
                },
                () = tokio::time::sleep_until(until) => {
                    if Instant::now() >= look_at {
                        self.look();
                        look_at = Instant::now() + if self.someone_away() { self.settings.removal_after } else { look_every };
                    }
                    self.run_due(&stop).await;
                }
            }
        }
    }

    fn watch_directory(&self, changed: mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a file is an event as well, and would wake us for our own looks.
            if event.is_ok_and(|event| !event.kind.is_access()) {
                // A full channel means that a look is due anyway.
                let _full = changed.try_send(());
            }
        })
        .inspect_err(
            |error| tracing::warn!(%error, "directory cannot be watched; it is looked at every second"),
        )
        .ok()?;
        watcher
            .watch(&self.settings.manifests, notify::RecursiveMode::NonRecursive)
            .inspect_err(
                |error| tracing::warn!(%error, "directory cannot be watched; it is looked at every second"),
            )
            .ok()?;
        Some(watcher)
    }

    fn next_due(&self) -> Option<Instant> {
        self.topics.values().filter_map(|entry| entry.due).min()
    }

    fn someone_away(&self) -> bool {
        self.topics
            .values()
            .any(|entry| entry.away_since.is_some() && entry.topic.metadata.deletion_timestamp.is_none())
    }

    fn wake_all(&mut self) {
        let now = Instant::now();
        for entry in self.topics.values_mut() {
            entry.due = Some(now);
        }
    }

    /// A wake-up of the engine.
    fn hear(&mut self, event: &EngineEvent) {
        let now = Instant::now();
        for (key, entry) in &mut self.topics {
            let named = entry.topic.topic_name() == event.topic;
            let blocked = entry
                .topic
                .status
                .as_ref()
                .and_then(|status| status.condition("Ready"))
                .is_some_and(|ready| matches!(ready.reason.as_str(), "NameCollision" | "Conflict"));
            let freed = blocked && matches!(event.kind, EventKind::TopicDeleted | EventKind::TopicChanged);
            if named || freed || event.topic.is_empty() {
                entry.due = Some(now);
            }
            if named && let Some(notice) = notices::of_engine(event) {
                (self.report)(Report::Notice {
                    topic: shown(key),
                    notice,
                });
            }
        }
    }

    /// Looks at the directory and takes up what has changed.
    fn look(&mut self) {
        let scan = match scan::scan(&self.settings.manifests, &self.settings.namespace) {
            Ok(scan) => scan,
            Err(error) => {
                if self.listed || self.identity.is_none() {
                    tracing::warn!(directory = %self.settings.manifests.display(), %error, "directory cannot be read; nothing is changed");
                }
                (self.listed, self.identity) = (false, self.identity.or(Some((0, 0))));
                return;
            }
        };
        let same_place = self.identity == Some(scan.identity);
        self.identity = Some(scan.identity);
        self.listed = scan.unreadable.is_empty();
        self.tell_faults(&scan);
        self.named.clone_from(&scan.named);
        let now = Instant::now();
        for (key, (topic, _)) in &scan.topics {
            self.take_up(key, topic, now);
        }
        for (key, entry) in &mut self.topics {
            if self.named.contains(key) {
                entry.away_since = None;
                continue;
            }
            if entry.topic.metadata.deletion_timestamp.is_some() {
                continue;
            }
            if !same_place || !self.listed {
                // Another directory under the same path, or a file that nobody can read: absence says nothing.
                entry.away_since = Some(now);
                continue;
            }
            let since = *entry.away_since.get_or_insert(now);
            if now.duration_since(since) >= self.settings.removal_after {
                entry.mark_deleted(&status::time(self.clock.wall_ms()));
                entry.due = Some(now);
                keep(&self.records, key, &entry.topic);
            }
        }
    }

    /// Takes a manifest as an API server takes an apply: the generation grows when the spec is another one.
    fn take_up(&mut self, key: &Key, manifest: &Topic, now: Instant) {
        let before = self
            .topics
            .get(key)
            .map(|entry| entry.topic.clone())
            .or_else(|| self.records.read(key));
        let mut topic = manifest.clone();
        let old = before.as_ref();
        topic.status = old.and_then(|old| old.status.clone());
        topic.metadata.uid = Some(uid(key));
        topic.metadata.resource_version = None;
        topic.metadata.managed_fields = None;
        topic.metadata.deletion_timestamp = None;
        topic.metadata.finalizers = old.and_then(|old| old.metadata.finalizers.clone());
        topic.metadata.creation_timestamp = old
            .and_then(|old| old.metadata.creation_timestamp.clone())
            .or_else(|| serde_json::from_value(status::time(self.clock.wall_ms()).into()).ok());
        let generation = old.and_then(|old| old.metadata.generation).unwrap_or(0);
        let edited = old.is_none_or(|old| old.spec != topic.spec);
        topic.metadata.generation = Some(if edited { generation + 1 } else { generation.max(1) });
        if old == Some(&topic) && self.topics.contains_key(key) {
            return;
        }
        keep(&self.records, key, &topic);
        let entry = self
            .topics
            .entry(key.clone())
            .or_insert_with(|| Entry::due(topic.clone()));
        entry.topic = topic;
        entry.due = Some(now);
        self.backoff.succeeded(key);
    }

    fn tell_faults(&mut self, scan: &Scan) {
        for (file, faults) in &scan.faults {
            for fault in faults
                .iter()
                .filter(|fault| !self.faults.get(file).is_some_and(|told| told.contains(fault)))
            {
                (self.report)(Report::Fault {
                    file: file.clone(),
                    fault: fault.clone(),
                });
            }
        }
        for file in self.faults.keys().filter(|file| !scan.faults.contains_key(*file)) {
            (self.report)(Report::Mended {
                file: file.clone(),
                there: self.settings.manifests.is_file() || self.settings.manifests.join(file).exists(),
            });
        }
        if !self.told_faults || self.faults != scan.faults {
            self.told_faults = true;
            if let Err(error) = self.records.write_faults(&scan.faults) {
                tracing::warn!(%error, "the manifests that are not taken cannot be listed");
            }
        }
        self.faults.clone_from(&scan.faults);
    }

    async fn run_due(&mut self, stop: &CancellationToken) {
        let now = Instant::now();
        let due: Vec<Key> = self
            .topics
            .iter()
            .filter(|(_, entry)| entry.due.is_some_and(|due| due <= now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            if stop.is_cancelled() {
                return;
            }
            let Some(entry) = self.topics.get(&key) else {
                continue;
            };
            let figures_due = entry.figures.is_none_or(|at| at.elapsed() >= FIGURES_EVERY);
            let us = Owner {
                uid: uid(&key),
                namespace: key.0.clone(),
                name: key.1.clone(),
            };
            let owners = Declared {
                named: &self.named,
                kept: self.topics.keys().cloned().collect(),
                listed: self.listed,
            };
            let round = self
                .reconciler
                .round(&entry.topic, &us, &owners, figures_due)
                .await;
            self.conclude(&key, round);
        }
    }

    fn conclude(&mut self, key: &Key, round: Round) {
        let Some(entry) = self.topics.get_mut(key) else {
            return;
        };
        let deleting = entry.topic.metadata.deletion_timestamp.is_some();
        match round.finalizer {
            Some(Finalizer::Add) => entry.topic.metadata.finalizers = Some(vec![FINALIZER.to_owned()]),
            Some(Finalizer::Remove) => {
                entry
                    .topic
                    .finalizers_mut()
                    .retain(|finalizer| finalizer != FINALIZER);
                entry.topic.metadata.finalizers = entry
                    .topic
                    .metadata
                    .finalizers
                    .take()
                    .filter(|all| !all.is_empty());
            }
            None => {}
        }
        for notice in round.notices {
            (self.report)(Report::Notice {
                topic: shown(key),
                notice,
            });
        }
        if deleting && round.finalizer == Some(Finalizer::Remove) {
            self.topics.remove(key);
            self.backoff.succeeded(key);
            if let Err(error) = self.records.remove(key) {
                tracing::warn!(topic = shown(key), %error, "record cannot be removed");
            }
            (self.report)(Report::Gone { topic: shown(key) });
            return;
        }
        let wait = match round.next {
            Next::Settled => {
                self.backoff.succeeded(key);
                spread(self.settings.resync, key)
            }
            Next::After(wait) => {
                self.backoff.succeeded(key);
                wait
            }
            Next::Retry => self.backoff.failed(key),
        };
        entry.due = Some(Instant::now() + wait);
        let changed = round.status.is_some() || round.finalizer.is_some();
        if let Some(status) = round.status {
            entry.figures = Some(Instant::now());
            entry.topic.status = Some(status.clone());
            (self.report)(Report::Status {
                topic: shown(key),
                status: Box::new(status),
            });
        }
        if changed {
            keep(&self.records, key, &entry.topic);
        }
        let away = entry
            .topic
            .status
            .as_ref()
            .and_then(|status| status.condition("StorageHealthy"))
            .is_some_and(|storage| storage.reason == "EngineUnreachable");
        if self.engine != Some(!away) {
            self.engine = Some(!away);
            (self.report)(Report::Engine { reachable: !away });
        }
    }
}

impl Entry {
    fn due(topic: Topic) -> Self {
        Self {
            topic,
            due: Some(Instant::now()),
            figures: None,
            away_since: None,
        }
    }

    /// As an API server marks a resource whose deletion waits for a finalizer.
    fn mark_deleted(&mut self, now: &str) {
        self.topic.metadata.deletion_timestamp = serde_json::from_value(now.into()).ok();
        self.topic.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    }
}

/// Writes a record; a full disk must not stop the rounds, so a failure is told and made good at the next change.
fn keep(records: &Records, key: &Key, topic: &Topic) {
    if let Err(error) = records.write(key, topic) {
        tracing::warn!(topic = shown(key), %error, "record cannot be written");
    }
}

async fn next_event(
    events: &mut Option<BoxStream<'static, Result<EngineEvent, StorageError>>>,
) -> Option<Result<EngineEvent, StorageError>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
