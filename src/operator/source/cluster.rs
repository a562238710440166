//! Topics from a Kubernetes API server.
//!
//! The watch tells that something has changed, never what to do: each round looks at the resource and at storage. What
//! the operator writes is its status (server-side apply, under a field manager of its own), its finalizer where the
//! deletion policy needs one, and events; never the spec. A round that fails is repeated with back-off, for each Topic
//! apart.
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{StreamExt as _, TryStreamExt as _, future};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, WatchStreamExt as _, predicates, watcher};
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::patience::Patience;
use super::writes;
use crate::operator::backoff::{Backoff, spread};
use crate::operator::lease::{Elector, Times};
use crate::operator::metrics::Metrics;
use crate::operator::notices::{self, Notice};
use crate::operator::probes::Health;
use crate::operator::reconcile::{Existence, FIGURES_EVERY, Finalizer, Next, Owners, Reconciler};
use crate::operator::storage::Storage;
use crate::resource::contract::{EngineEvent, EventKind, Owner};
use crate::resource::status::TopicStatus;
use crate::resource::topic::Topic;
use crate::telemetry::clock::Clock;

/// Which Topics, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Namespaces whose Topics are kept; empty is all.
    pub namespaces: Vec<String>,
    /// Labels that select among them; empty is all.
    pub selector: Option<String>,
    /// Namespace of the lease.
    pub lease_namespace: String,
    /// Name of the lease: one for each engine.
    pub lease_name: String,
    /// Name of this process in the lease and in events: the pod's name.
    pub identity: String,
    /// Times of the lease.
    pub lease_times: Times,
    /// Rounds that may run at once.
    pub concurrency: u16,
    /// How often a settled Topic is looked at without a reason.
    pub resync: Duration,
}

impl Settings {
    /// All Topics of one namespace.
    pub fn new(namespace: &str, identity: &str) -> Self {
        Self {
            namespaces: vec![namespace.to_owned()],
            selector: None,
            lease_namespace: namespace.to_owned(),
            lease_name: "tidemark".to_owned(),
            identity: identity.to_owned(),
            lease_times: Times::default(),
            concurrency: 8,
            resync: Duration::from_secs(600),
        }
    }
}

/// What every round needs.
struct Context<S> {
    client: Client,
    reconciler: Reconciler<S>,
    settings: Settings,
    backoff: Backoff<ObjectRef<Topic>>,
    recorder: Recorder,
    metrics: Metrics,
    told: Mutex<HashMap<String, Told>>,
    wake: UnboundedSender<ObjectRef<Topic>>,
}

/// What was last written for a Topic, by its uid: the watch may still show what was before.
#[derive(Debug, Clone)]
struct Told {
    /// The version that the watch showed then.
    over: Option<String>,
    /// The version that it became.
    version: Option<String>,
    finalizers: Option<Vec<String>>,
    status: Option<TopicStatus>,
    /// When a status was last written.
    at: Option<Instant>,
}

/// Runs the operator until `stop`: stands by until the lease is held, and stands by again when it is lost.
pub async fn run<S: Storage>(
    client: Client,
    storage: Arc<S>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    metrics: Metrics,
    health: Health,
    stop: CancellationToken,
) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), &settings.lease_namespace);
    let (tell, mut held) = watch::channel(false);
    let quiet = CancellationToken::new();
    let elector = Elector::new(
        leases,
        settings.lease_name.clone(),
        settings.identity.clone(),
        settings.lease_times,
        metrics.clone(),
        Arc::clone(&clock),
    );
    let election = tokio::spawn(elector.run(tell, stop.clone(), quiet.clone()));
    // Standing by is being ready: the process is there to take over.
    health.set_ready(true);
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => break,
            led = held.wait_for(|held| *held) => if led.is_err() { break },
        }
        health.set_ready(false);
        let lost = stop.child_token();
        let until = {
            let lost = lost.clone();
            let mut held = held.clone();
            async move {
                let _closed = held.wait_for(|held| !*held).await;
                lost.cancel();
            }
        };
        let work = lead(
            client.clone(),
            Arc::clone(&storage),
            Arc::clone(&clock),
            settings.clone(),
            &metrics,
            &health,
            lost.clone(),
        );
        tokio::pin!(until);
        tokio::pin!(work);
        match future::select(work, until).await {
            future::Either::Left(_) => {}
            // The rounds that have begun end; new ones do not begin.
            future::Either::Right(((), work)) => work.await,
        }
        lost.cancel();
        health.set_ready(true);
    }
    quiet.cancel();
    if let Err(error) = election.await {
        tracing::warn!(%error, "the election did not end well");
    }
}

/// Keeps Topics until `stop`.
async fn lead<S: Storage>(
    client: Client,
    storage: Arc<S>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    metrics: &Metrics,
    health: &Health,
    stop: CancellationToken,
) {
    let reporter = Reporter {
        controller: writes::MANAGER.to_owned(),
        instance: Some(settings.identity.clone()),
    };
    let (wake, mut woken) = unbounded();
    let context = Arc::new(Context {
        recorder: Recorder::new(client.clone(), reporter),
        reconciler: Reconciler::new(storage, clock),
        backoff: Backoff::new(Duration::from_millis(300), Duration::from_secs(30)),
        metrics: metrics.clone(),
        told: Mutex::new(HashMap::new()),
        client: client.clone(),
        settings: settings.clone(),
        wake,
    });
    let mut stores = Vec::new();
    let mut controllers = Vec::new();
    let mut routes = BTreeMap::new();
    let namespaces: Vec<Option<String>> = match settings.namespaces.as_slice() {
        [] => vec![None],
        several => several.iter().cloned().map(Some).collect(),
    };
    for namespace in namespaces {
        let api = match &namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let (route, routed) = unbounded();
        let (store, running) = controller(api, Arc::clone(&context), routed, stop.clone());
        stores.push(store);
        controllers.push(running);
        routes.insert(namespace, route);
    }
    let dispatch = async move {
        while let Some(topic) = woken.next().await {
            let route = routes.get(&topic.namespace).or_else(|| routes.get(&None));
            if let Some(route) = route {
                // A controller that has ended needs no waking.
                let _ended = route.unbounded_send(topic);
            }
        }
    };
    let listed = async {
        future::join_all(stores.iter().map(Store::wait_until_ready)).await;
        health.set_ready(true);
        count(&stores, &context, stop.clone()).await;
    };
    let listening = listen(Arc::clone(&context), stores.clone());
    let helpers = future::join3(dispatch, listed, listening);
    let rounds = future::join_all(controllers);
    tokio::pin!(helpers);
    tokio::pin!(rounds);
    future::select(rounds, helpers).await;
}

/// A controller for one namespace, or all.
fn controller<S: Storage>(
    api: Api<Topic>,
    context: Arc<Context<S>>,
    woken: UnboundedReceiver<ObjectRef<Topic>>,
    stop: CancellationToken,
) -> (Store<Topic>, impl Future<Output = ()>) {
    let mut config = watcher::Config::default().page_size(500);
    if let Some(selector) = &context.settings.selector {
        config = config.labels(selector);
    }
    let (store, writer) = reflector::store();
    let seen = Arc::clone(&context);
    let known = store.clone();
    let changes = watcher(api, config)
        .backoff(Patience::default())
        .inspect_ok(move |event| match event {
            watcher::Event::Init => {
                seen.metrics.relists.inc();
                seen.metrics.request("list", true);
            }
            watcher::Event::Delete(gone) => wake_waiting(&known, gone.topic_name(), &seen.wake),
            _ => {}
        })
        .inspect_err(|error| tracing::warn!(%error, "watch on Topics"))
        .modify(|topic| {
            topic.metadata.managed_fields = None;
            topic
                .annotations_mut()
                .remove("kubectl.kubernetes.io/last-applied-configuration");
        })
        .reflect(writer)
        .applied_objects()
        // Our own status writes change none of these.
        .predicate_filter(
            kube::runtime::utils::Predicate::combine(
                kube::runtime::utils::Predicate::combine(predicates::generation, predicates::annotations),
                predicates::finalizers,
            ),
            kube::runtime::utils::PredicateConfig::default(),
        )
        // Errors are told and waited for above. The controller would answer one by not listening to wake-ups either.
        .filter_map(|change| future::ready(change.ok().map(Ok)));
    let running = Controller::for_stream(changes, store.clone())
        .with_config(ControllerConfig::default().concurrency(context.settings.concurrency))
        .reconcile_on(woken)
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(
            reconcile,
            |_, _: &kube::Error, _| Action::requeue(Duration::from_secs(5)),
            context,
        )
        .for_each(|result| {
            if let Err(error) = result {
                tracing::debug!(%error, "controller");
            }
            future::ready(())
        });
    (store, running)
}

/// Wakes the Topics that wait for another one to go.
fn wake_waiting(store: &Store<Topic>, gone: &str, wake: &UnboundedSender<ObjectRef<Topic>>) {
    for topic in store.state() {
        let waits = topic
            .status
            .as_ref()
            .and_then(|status| status.condition("Ready"))
            .is_some_and(|ready| {
                ready.reason == "NameCollision" || (ready.reason == "Conflict" && topic.topic_name() == gone)
            });
        if waits {
            let _ended = wake.unbounded_send(ObjectRef::from_obj(&*topic));
        }
    }
}

impl<S: Storage> Owners for Context<S> {
    async fn exists(&self, owner: &Owner) -> Existence {
        let api: Api<Topic> = Api::namespaced(self.client.clone(), &owner.namespace);
        let found = api.get_metadata_opt(&owner.name).await;
        self.metrics.request("owner", found.is_ok());
        match found {
            Ok(Some(found)) if found.metadata.uid.as_ref() == Some(&owner.uid) => Existence::Exists,
            Ok(_) => Existence::Gone,
            Err(error) => Existence::Unclear(error.to_string()),
        }
    }
}

/// One round, and what it has to write.
async fn reconcile<S: Storage>(topic: Arc<Topic>, context: Arc<Context<S>>) -> Result<Action, kube::Error> {
    let began = Instant::now();
    context.metrics.round_began();
    let reference = ObjectRef::from_obj(&*topic);
    let (result, action) = match round(&topic, &context).await {
        Ok((result, next)) => {
            let wait = match next {
                Next::Settled => spread(context.settings.resync, &reference),
                Next::After(wait) => wait,
                Next::Retry => context.backoff.failed(&reference),
            };
            if next != Next::Retry {
                context.backoff.succeeded(&reference);
            }
            (result, Action::requeue(wait))
        }
        Err(error) => {
            tracing::warn!(topic = %reference, %error, "round is repeated");
            ("error", Action::requeue(context.backoff.failed(&reference)))
        }
    };
    context.metrics.round_ended(result, began.elapsed());
    Ok(action)
}

async fn round<S: Storage>(topic: &Topic, context: &Context<S>) -> Result<(&'static str, Next), kube::Error> {
    let uid = topic.uid().unwrap_or_default();
    let us = Owner {
        uid: uid.clone(),
        namespace: topic.namespace().unwrap_or_default(),
        name: topic.name_any(),
    };
    let over = topic.metadata.resource_version.clone();
    let told = context.told.lock().get(&uid).cloned();
    let mut topic = topic.clone();
    let mut written = told.as_ref().and_then(|told| told.at);
    if let Some(told) = told.filter(|told| told.over == over) {
        // The watch has not come to what we wrote over this version.
        topic.status = told.status;
        topic.metadata.finalizers = told.finalizers;
        topic.metadata.resource_version = told.version;
    }
    let figures_due = written.is_none_or(|at| at.elapsed() >= FIGURES_EVERY);
    fail::fail_point!("round::began");
    let mut round = context.reconciler.round(&topic, &us, context, figures_due).await;
    let api: Api<Topic> = Api::namespaced(context.client.clone(), &us.namespace);
    let remember = |topic: &Topic, at| {
        let told = Told {
            over: over.clone(),
            version: topic.metadata.resource_version.clone(),
            finalizers: topic.metadata.finalizers.clone(),
            status: topic.status.clone(),
            at,
        };
        context.told.lock().insert(uid.clone(), told);
    };
    if let Some(finalizer) = round.finalizer {
        let changed = writes::finalizer(&api, &topic, finalizer, &context.metrics).await?;
        fail::fail_point!("round::finalizer-changed");
        let leaves = finalizer == Finalizer::Remove && topic.metadata.deletion_timestamp.is_some();
        let Some(changed) = changed.filter(|_| !leaves) else {
            // Whatever comes next for it, the watch brings.
            context.told.lock().remove(&uid);
            tell(context, &topic, &round.notices).await;
            return Ok((round.result, Next::Settled));
        };
        topic.metadata.finalizers = changed.finalizers;
        topic.metadata.resource_version = changed.resource_version;
        remember(&topic, written);
        if finalizer == Finalizer::Add {
            // The watch may take its time to show it: the round goes on with what the API server has answered.
            round = context.reconciler.round(&topic, &us, context, figures_due).await;
        }
    }
    if let Some(status) = round.status.take() {
        if let Some(version) = writes::status(&api, &topic, &status, &context.metrics).await? {
            written = Some(Instant::now());
            topic.metadata.resource_version = Some(version);
            topic.status = Some(status);
            remember(&topic, written);
        }
        fail::fail_point!("round::status-written");
    }
    tell(context, &topic, &round.notices).await;
    Ok((round.result, round.next))
}

async fn tell<S: Storage>(context: &Context<S>, topic: &Topic, notices: &[Notice]) {
    for notice in notices {
        writes::event(&context.recorder, topic, notice, &context.metrics).await;
        fail::fail_point!("round::told");
    }
}

/// Listens to the engine and wakes the Topics that it names; after every (re)connection, and when the engine stays away, all.
async fn listen<S: Storage>(context: Arc<Context<S>>, stores: Vec<Store<Topic>>) {
    let mut failures = 0_u32;
    loop {
        match context.reconciler.storage().watch().await {
            Ok(mut events) => {
                failures = 0;
                wake(&context, &stores, |_| true);
                while let Some(Ok(event)) = events.next().await {
                    context.metrics.engine_events.inc();
                    hear(&context, &stores, &event).await;
                }
            }
            Err(error) => {
                failures += 1;
                // Once more every half minute: an engine that was back for a moment may have been seen by a round alone,
                // and its Topics would look well until the next resync.
                if failures % 10 == 3 {
                    tracing::warn!(%error, "the engine cannot be reached");
                    wake(&context, &stores, |_| true);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(if failures > 5 { 3_000 } else { 500 })).await;
    }
}

async fn hear<S: Storage>(context: &Context<S>, stores: &[Store<Topic>], event: &EngineEvent) {
    let freed = matches!(event.kind, EventKind::TopicDeleted | EventKind::TopicChanged);
    wake(context, stores, |topic| {
        let waits = || {
            let ready = topic.status.as_ref().and_then(|status| status.condition("Ready"));
            ready.is_some_and(|ready| matches!(ready.reason.as_str(), "NameCollision" | "Conflict"))
        };
        event.topic.is_empty() || topic.topic_name() == event.topic || (freed && waits())
    });
    let Some(notice) = notices::of_engine(event) else {
        return;
    };
    let owned = stores
        .iter()
        .flat_map(Store::state)
        .find(|topic| match &event.owner {
            Some(owner) => topic.metadata.uid.as_ref() == Some(&owner.uid),
            None => topic.topic_name() == event.topic,
        });
    if let Some(topic) = owned {
        writes::event(&context.recorder, &topic, &notice, &context.metrics).await;
    }
}

fn wake<S>(context: &Context<S>, stores: &[Store<Topic>], wanted: impl Fn(&Topic) -> bool) {
    for topic in stores.iter().flat_map(Store::state).filter(|topic| wanted(topic)) {
        let _ended = context.wake.unbounded_send(ObjectRef::from_obj(&*topic));
    }
}

/// Counts Topics by state and sweeps what is kept for those that are gone: a watch that was cut may have missed their end.
async fn count<S: Storage>(stores: &[Store<Topic>], context: &Context<S>, stop: CancellationToken) {
    loop {
        let topics: Vec<Arc<Topic>> = stores.iter().flat_map(Store::state).collect();
        let mut counts = BTreeMap::new();
        for topic in &topics {
            let ready = topic.status.as_ref().and_then(|status| status.condition("Ready"));
            let (status, reason) = ready.map_or(("Unknown", "Progressing"), |ready| {
                (ready.status.as_str(), ready.reason.as_str())
            });
            *counts.entry((status.to_owned(), reason.to_owned())).or_insert(0) += 1;
        }
        context.metrics.topics(&counts);
        let uids: std::collections::HashSet<&str> = topics
            .iter()
            .filter_map(|topic| topic.metadata.uid.as_deref())
            .collect();
        context.told.lock().retain(|uid, _| uids.contains(uid.as_str()));
        let references: std::collections::HashSet<ObjectRef<Topic>> =
            topics.iter().map(|topic| ObjectRef::from_obj(&**topic)).collect();
        context.backoff.keep(|reference| references.contains(reference));
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(15)) => {}
        }
    }
}
