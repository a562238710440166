//! Rounds against a storage in memory: whatever happens, repeated rounds end in the same state.
use super::*;
use crate::operator::fake_storage::FakeStorage;
use crate::resource::contract::{DeletionPolicy, Health, OnLoss};
use crate::resource::topic::{FINALIZER, PAUSED_ANNOTATION, Topic};
use crate::telemetry::clock::ManualClock;

/// A resource, its storage, and how the source would behave around them.
struct Scene {
    topic: Topic,
    reconciler: Reconciler<FakeStorage>,
    clock: Arc<ManualClock>,
    notices: Vec<&'static str>,
    status_writes: usize,
    other_owner: Existence,
}

struct Answer(Existence);

impl Owners for Answer {
    async fn exists(&self, _: &Owner) -> Existence {
        self.0.clone()
    }
}

impl Scene {
    fn new(spec: &str) -> Self {
        let clock = Arc::new(ManualClock::at(1_700_000_000_000));
        let mut topic: Topic = serde_yaml::from_str(&format!(
            "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: orders, namespace: shop, uid: u1, generation: 1}}\nspec: {spec}\n"
        ))
        .expect("a Topic");
        topic.status = Some(TopicStatus {
            observed_generation: Some(-1),
            ..TopicStatus::default()
        });
        let storage = Arc::new(FakeStorage::default());
        Self {
            topic,
            reconciler: Reconciler::new(storage, Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>),
            clock,
            notices: Vec::new(),
            status_writes: 0,
            other_owner: Existence::Exists,
        }
    }

    fn edit(&mut self, spec: &str) {
        self.topic.spec = serde_yaml::from_str(spec).expect("a spec");
        self.topic.metadata.generation = self.topic.metadata.generation.map(|generation| generation + 1);
    }

    async fn round(&mut self) -> Round {
        self.clock.advance_ms(60_000);
        let us = Owner {
            uid: self.topic.metadata.uid.clone().expect("uid"),
            namespace: "shop".to_owned(),
            name: self.topic.metadata.name.clone().expect("name"),
        };
        let owners = Answer(self.other_owner.clone());
        let round = self.reconciler.round(&self.topic, &us, &owners, true).await;
        match round.finalizer {
            Some(Finalizer::Add) => self.topic.metadata.finalizers = Some(vec![FINALIZER.to_owned()]),
            Some(Finalizer::Remove) => self.topic.metadata.finalizers = None,
            None => {}
        }
        if let Some(status) = &round.status {
            self.topic.status = Some(status.clone());
            self.status_writes += 1;
        }
        self.notices
            .extend(round.notices.iter().map(|notice| notice.reason));
        round
    }

    /// Rounds until nothing changes any more.
    async fn settle(&mut self) {
        for _ in 0..10 {
            let writes = self.status_writes;
            let round = self.round().await;
            if self.status_writes == writes && round.finalizer.is_none() {
                return;
            }
        }
        panic!("does not settle: {:?}", self.topic.status);
    }

    fn storage(&self) -> &FakeStorage {
        self.reconciler.storage()
    }

    fn condition(&self, kind: &str) -> String {
        let condition = self
            .topic
            .status
            .as_ref()
            .and_then(|status| status.condition(kind));
        condition.map_or_else(
            || "absent".to_owned(),
            |found| format!("{}/{}", found.status, found.reason),
        )
    }

    fn transition(&self, kind: &str) -> String {
        let status = self.topic.status.as_ref().expect("a status");
        status
            .condition(kind)
            .expect("a condition")
            .last_transition_time
            .clone()
    }

    fn in_force(&self, key: &str) -> String {
        self.storage()
            .topics
            .lock()
            .get("orders")
            .expect("a topic")
            .in_force
            .config
            .get(key)
            .expect("a key")
            .value
            .clone()
    }

    fn changes(&self) -> usize {
        self.storage().calls.lock().len()
    }
}

#[tokio::test]
async fn a_new_topic_is_made_and_then_left_alone() {
    let mut scene = Scene::new("{partitions: 3, config: {retention.ms: 7d, retention.bytes: 2Gi}}");
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
    assert_eq!(scene.condition("CapacityOk"), "True/Fits");
    let status = scene.topic.status.clone().expect("told");
    assert_eq!(
        (
            status.partitions,
            status.retention.as_deref(),
            status.retention_size.as_deref()
        ),
        (Some(3), Some("7d"), Some("2Gi"))
    );
    assert_eq!(status.observed_generation, Some(1));
    let (writes, changes) = (scene.status_writes, scene.changes());
    for _ in 0..50 {
        scene.round().await;
    }
    assert_eq!(
        (scene.status_writes, scene.changes()),
        (writes, changes),
        "a settled Topic is silent"
    );
    assert_eq!(scene.notices, ["Applied"]);
}

/// H11.
#[tokio::test]
async fn an_edit_that_changes_nothing_is_seen_without_a_call_or_a_transition() {
    let mut scene = Scene::new("{config: {retention.ms: 604800000}}");
    scene.settle().await;
    let (changes, before) = (scene.changes(), scene.transition("Ready"));
    scene.edit("{config: {retention.ms: '604800000'}}");
    scene.settle().await;
    assert_eq!(
        scene
            .topic
            .status
            .as_ref()
            .and_then(|status| status.observed_generation),
        Some(2)
    );
    assert_eq!((scene.changes(), scene.transition("Ready")), (changes, before));
}

#[tokio::test]
async fn a_refusal_stays_told_and_the_change_goes_in_when_the_reader_has_caught_up() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    scene.storage().behaviour.lock().reader_at = Some(40);
    scene.edit("{config: {retention.ms: 1d}}");
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "False/SlowReader");
    assert_eq!(scene.condition("Stalled"), "True/SlowReader");
    assert_eq!(scene.condition("Reconciling"), "absent");
    let plan = scene
        .topic
        .status
        .as_ref()
        .and_then(|status| status.plan.clone())
        .expect("a plan");
    assert_eq!(
        (plan.changes[0].from.as_str(), plan.changes[0].to.as_str()),
        ("604800000", "86400000")
    );
    assert_eq!(
        (
            plan.readers_at_risk[0].name.as_str(),
            plan.readers_at_risk[0].position
        ),
        ("billing", Some(40))
    );
    assert_eq!(scene.in_force("retention.ms"), "604800000");
    let (changes, since) = (scene.changes(), scene.transition("Ready"));
    scene.settle().await;
    assert_eq!(
        (scene.changes(), scene.transition("Ready")),
        (changes, since),
        "it waits, it does not ask again"
    );
    scene.storage().catch_up();
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
    assert_eq!(scene.condition("Stalled"), "absent");
    assert_eq!(scene.in_force("retention.ms"), "86400000");
    assert_eq!(scene.notices, ["Applied", "Refused", "Resumed"]);
}

#[tokio::test]
async fn a_revert_clears_what_waits_and_another_edit_replaces_it() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    scene.storage().behaviour.lock().reader_at = Some(40);
    for (spec, waits) in [("1d", Some("86400000")), ("2d", Some("172800000")), ("7d", None)] {
        scene.edit(&format!("{{config: {{retention.ms: {spec}}}}}"));
        scene.settle().await;
        let pending = scene.storage().topics.lock()["orders"].pending.clone();
        assert_eq!(
            pending
                .map(|pending| pending.config["retention.ms"].clone())
                .as_deref(),
            waits
        );
    }
    assert_eq!(scene.condition("Ready"), "True/Applied");
    assert_eq!(scene.in_force("retention.ms"), "604800000");
}

#[tokio::test]
async fn allow_goes_through() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    scene.storage().behaviour.lock().reader_at = Some(40);
    scene.edit("{config: {retention.ms: 1d}}");
    scene.settle().await;
    scene.edit("{config: {retention.ms: 1d}, readers: {onLoss: Allow}}");
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
    let policy = scene.storage().topics.lock()["orders"].readers_policy.on_loss;
    assert_eq!(policy, OnLoss::Allow);
}

#[tokio::test]
async fn the_engine_away_is_unknown_and_the_generation_is_not_seen() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    scene.storage().behaviour.lock().away = true;
    scene.edit("{config: {retention.ms: 1d}}");
    assert_eq!(scene.round().await.next, Next::Retry);
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "Unknown/EngineUnreachable");
    assert_eq!(scene.condition("StorageHealthy"), "Unknown/EngineUnreachable");
    assert_eq!(scene.condition("Reconciling"), "True/EngineUnreachable");
    let status = scene.topic.status.clone().expect("told");
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(
        status.retention.as_deref(),
        Some("7d"),
        "the last known facts stay"
    );
    scene.storage().behaviour.lock().away = false;
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
    assert_eq!(scene.in_force("retention.ms"), "86400000");
}

/// F11 over its ten minutes: each round is a minute after the last.
#[tokio::test]
async fn ten_minutes_without_the_engine_are_told_once() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    scene.edit("{config: {retention.ms: 8d}}");
    scene.settle().await;
    scene.edit("{config: {retention.ms: 7d}}");
    scene.settle().await;
    let (writes, changes) = (scene.status_writes, scene.changes());
    scene.storage().behaviour.lock().away = true;
    scene.edit("{config: {retention.ms: 1d}}");
    scene.round().await;
    let told = scene.topic.status.clone().expect("told");
    for _ in 0..10 {
        assert_eq!(scene.round().await.next, Next::Retry);
    }
    assert_eq!(scene.topic.status.clone().expect("told"), told);
    assert_eq!((scene.status_writes, scene.changes()), (writes + 1, changes));
    assert_eq!(told.observed_generation, Some(3));
    scene.storage().behaviour.lock().away = false;
    scene.settle().await;
    let back = scene.topic.status.clone().expect("told");
    assert_eq!(back.observed_generation, Some(4));
    assert_eq!(scene.in_force("retention.ms"), "86400000");
}

#[tokio::test]
async fn a_lost_reply_does_no_harm() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.storage().behaviour.lock().replies_lost = true;
    assert_eq!(scene.round().await.next, Next::Retry);
    assert_eq!(scene.changes(), 1);
    scene.settle().await;
    assert_eq!(scene.changes(), 1, "the next round sees that it is done");
    assert_eq!(scene.condition("Ready"), "True/Applied");
}

/// H21.
#[tokio::test]
async fn an_engine_that_lies_is_never_believed() {
    let mut scene = Scene::new("{config: {retention.ms: 604800000}}");
    scene.settle().await;
    scene.storage().behaviour.lock().lies = true;
    scene.edit("{config: {retention.ms: 86400000}}");
    let round = scene.round().await;
    assert_eq!(scene.condition("RetentionApplied"), "False/Drift");
    assert_eq!(round.next, Next::Retry);
    let status = scene.topic.status.as_ref().expect("told");
    let message = status
        .condition("RetentionApplied")
        .expect("told")
        .message
        .clone();
    assert!(
        message.contains("asked 86400000") && message.contains("in force 604800000"),
        "{message}"
    );
    for _ in 0..5 {
        scene.round().await;
        assert_eq!(scene.condition("RetentionApplied"), "False/Drift");
        assert_eq!(scene.condition("Ready"), "False/Drift");
    }
}

#[tokio::test]
async fn drift_is_found_and_repaired() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    {
        let mut topics = scene.storage().topics.lock();
        let value = topics
            .get_mut("orders")
            .and_then(|topic| topic.in_force.config.get_mut("retention.ms"));
        value.expect("a value").value = "1".to_owned();
    }
    scene.settle().await;
    assert_eq!(scene.in_force("retention.ms"), "604800000");
    assert_eq!(scene.condition("Ready"), "True/Applied");
    assert!(scene.notices.contains(&"DriftRepaired"), "{:?}", scene.notices);
}

/// H1.
#[tokio::test]
async fn fewer_partitions_stay_refused_on_every_look_and_the_rest_goes_on() {
    let mut scene = Scene::new("{partitions: 3}");
    scene.settle().await;
    scene.edit("{partitions: 2, config: {retention.ms: 9d}}");
    scene.settle().await;
    let since = scene.transition("Ready");
    for _ in 0..3 {
        scene.round().await;
        assert_eq!(scene.condition("Ready"), "False/PartitionDecrease");
        assert_eq!(scene.condition("Stalled"), "True/PartitionDecrease");
    }
    assert_eq!(scene.transition("Ready"), since);
    assert_eq!(scene.in_force("retention.ms"), "777600000");
    assert_eq!(scene.storage().topics.lock()["orders"].partitions.len(), 3);
    scene.edit("{partitions: 3, config: {retention.ms: 9d}}");
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
}

#[tokio::test]
async fn invalid_settings_leave_the_old_ones_in_force() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    scene.edit("{config: {retention.ms: 7x}}");
    scene.settle().await;
    assert_eq!(scene.condition("RetentionApplied"), "False/Invalid");
    assert_eq!(scene.condition("Stalled"), "True/Invalid");
    assert_eq!(scene.in_force("retention.ms"), "604800000");
    assert_eq!(
        scene
            .topic
            .status
            .as_ref()
            .and_then(|status| status.observed_generation),
        Some(2)
    );
}

/// H4.
#[tokio::test]
async fn the_owner_stays_the_owner_until_it_is_gone() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    let id = scene.storage().topics.lock()["orders"].id.clone();
    let first = scene.topic.clone();
    scene.topic.metadata.name = Some("second".to_owned());
    scene.topic.metadata.uid = Some("u2".to_owned());
    scene.topic.spec.topic_name = Some("orders".to_owned());
    scene.topic.status = None;
    let changes = scene.changes();
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "False/Conflict");
    assert!(
        scene
            .topic
            .status
            .as_ref()
            .is_some_and(|status| status.topic_id.is_none()),
        "nothing of the other's topic"
    );
    scene.other_owner = Existence::Unclear("403".to_owned());
    scene.settle().await;
    assert_eq!(
        (scene.condition("Ready"), scene.changes()),
        ("False/Conflict".to_owned(), changes)
    );
    scene.other_owner = Existence::Gone;
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
    assert_eq!(scene.storage().topics.lock()["orders"].id, id);
    assert!(scene.notices.contains(&"ExistingData"));
    assert_eq!(first.metadata.uid.as_deref(), Some("u1"));
}

#[tokio::test]
async fn a_resource_made_again_under_its_old_name_takes_its_topic_back() {
    let mut scene = Scene::new("{}");
    scene.settle().await;
    scene.topic.metadata.uid = Some("u9".to_owned());
    scene.topic.status = None;
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
    assert!(scene.notices.contains(&"ExistingData"));
    let owner = scene.storage().topics.lock()["orders"]
        .owner
        .clone()
        .expect("owned");
    assert_eq!(owner.uid, "u9");
}

/// H8.
#[tokio::test]
async fn a_topic_that_is_gone_is_told_and_made_again() {
    let mut scene = Scene::new("{}");
    scene.settle().await;
    let id = scene
        .topic
        .status
        .as_ref()
        .and_then(|status| status.topic_id.clone());
    scene.storage().topics.lock().clear();
    scene.storage().topics.lock().insert("x".to_owned(), other());
    scene.round().await;
    assert_eq!(scene.condition("Ready"), "False/TopicMissing");
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
    assert_ne!(
        scene
            .topic
            .status
            .as_ref()
            .and_then(|status| status.topic_id.clone()),
        id
    );
    assert!(scene.notices.contains(&"TopicMissing"));
}

fn other() -> crate::resource::contract::ObservedTopic {
    serde_json::from_value(serde_json::json!({
        "name": "x", "id": "x", "owner": null, "inForce": {}, "pending": null, "partitions": [],
        "readers": {}, "health": {"reason": "Healthy", "message": ""},
    }))
    .expect("a topic")
}

/// G7, where the resource's rules are not at work.
#[tokio::test]
async fn a_rename_is_refused_and_heals_by_revert() {
    let mut scene = Scene::new("{topicName: orders}");
    scene.settle().await;
    let changes = scene.changes();
    scene.edit("{topicName: b}");
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "False/Immutable");
    assert_eq!(
        scene
            .topic
            .status
            .as_ref()
            .and_then(|status| status.topic_name.as_deref()),
        Some("orders")
    );
    assert!(!scene.storage().topics.lock().contains_key("b"));
    scene.edit("{topicName: orders}");
    scene.settle().await;
    assert_eq!(
        (scene.condition("Ready"), scene.changes()),
        ("True/Applied".to_owned(), changes)
    );
}

/// G2.
#[tokio::test]
async fn a_name_collision_heals_without_an_edit() {
    let mut scene = Scene::new("{}");
    scene.storage().behaviour.lock().collides = true;
    let round = scene.round().await;
    assert_eq!(round.next, Next::After(CONFLICT_EVERY));
    assert_eq!(scene.condition("Ready"), "False/NameCollision");
    scene.storage().behaviour.lock().collides = false;
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
}

#[tokio::test]
async fn storage_that_is_not_well_is_told() {
    let mut scene = Scene::new("{}");
    scene.settle().await;
    let set = |reason: &str| {
        let health = Health {
            reason: reason.to_owned(),
            message: "no space left".to_owned(),
        };
        scene
            .reconciler
            .storage()
            .topics
            .lock()
            .get_mut("orders")
            .expect("a topic")
            .health = health;
    };
    set("DiskFull");
    scene.settle().await;
    assert_eq!(scene.condition("StorageHealthy"), "False/DiskFull");
    assert_eq!(scene.condition("Ready"), "False/DiskFull");
    assert_eq!(scene.condition("RetentionApplied"), "True/Applied");
}

#[tokio::test]
async fn the_worst_case_is_measured_against_the_volume() {
    let mut scene = Scene::new("{partitions: 4, config: {retention.bytes: 30Gi}}");
    scene.settle().await;
    assert_eq!(scene.condition("CapacityOk"), "False/WorstCaseExceedsVolume");
    assert_eq!(scene.condition("Ready"), "True/Applied", "a warning");
    scene.edit("{partitions: 4, config: {retention.bytes: -1}}");
    scene.settle().await;
    assert_eq!(
        scene.condition("CapacityOk"),
        "absent",
        "without a limit there is no worst case"
    );
}

/// F12: measured by the file system, whatever a claim asks for.
#[tokio::test]
async fn a_volume_that_has_not_grown_yet_is_warned_of_until_it_has() {
    let mut scene = Scene::new("{partitions: 1, config: {retention.bytes: 150Gi}}");
    scene.storage().behaviour.lock().volume_bytes = Some(98 << 30);
    scene.settle().await;
    assert_eq!(scene.condition("CapacityOk"), "False/WorstCaseExceedsVolume");
    assert_eq!(scene.condition("Ready"), "True/Applied", "a warning");
    scene.storage().behaviour.lock().volume_bytes = Some(200 << 30);
    scene.settle().await;
    assert_eq!(scene.condition("CapacityOk"), "True/Fits", "without an edit");
}

#[path = "reconcile_deletion_tests.rs"]
mod deletion;

#[path = "reconcile_pause_tests.rs"]
mod pause;
