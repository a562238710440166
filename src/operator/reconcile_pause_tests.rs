//! Pause: nothing is changed, neither by a round nor by what waits in the engine.
use super::*;

impl Scene {
    fn pause(&mut self, paused: bool) {
        let annotations = [(PAUSED_ANNOTATION.to_owned(), "true".to_owned())].into();
        self.topic.metadata.annotations = paused.then_some(annotations);
    }
}

#[tokio::test]
async fn pause_keeps_hands_off() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    let changes = scene.changes();
    scene.pause(true);
    scene.settle().await;
    assert_eq!(scene.condition("Paused"), "True/Paused");
    assert_eq!(
        scene.condition("Ready"),
        "True/Applied",
        "what is declared is in force"
    );
    scene.edit("{config: {retention.ms: 1d}}");
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "False/Paused");
    assert_eq!(
        (scene.condition("Stalled"), scene.changes()),
        ("absent".to_owned(), changes)
    );
    scene.pause(false);
    scene.settle().await;
    assert_eq!(
        (scene.condition("Ready"), scene.condition("Paused")),
        ("True/Applied".to_owned(), "absent".to_owned())
    );
}

#[tokio::test]
async fn what_waits_goes_in_after_the_pause_and_not_before() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    scene.storage().behaviour.lock().reader_at = Some(40);
    scene.edit("{config: {retention.ms: 1d}}");
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "False/SlowReader");
    let changes = scene.changes();
    scene.pause(true);
    scene.settle().await;
    assert_eq!(scene.changes(), changes + 1, "the engine is told once");
    assert_eq!(scene.condition("Ready"), "False/Paused");
    assert_eq!(scene.condition("RetentionApplied"), "False/SlowReader");
    // What is edited meanwhile is not asked for, the guard's settings as little as any other.
    scene.edit("{config: {retention.ms: 2d}, readers: {onLoss: Allow}}");
    scene.settle().await;
    scene.storage().catch_up();
    scene.settle().await;
    assert_eq!(scene.changes(), changes + 1);
    assert_eq!(scene.in_force("retention.ms"), "604800000");
    scene.pause(false);
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
    assert_eq!(scene.in_force("retention.ms"), "172800000");
    assert!(!scene.storage().topics.lock()["orders"].paused);
}

#[tokio::test]
async fn a_topic_that_goes_on_without_an_edit_asks_for_what_waited() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    scene.storage().behaviour.lock().reader_at = Some(40);
    scene.edit("{config: {retention.ms: 1d}}");
    scene.settle().await;
    scene.pause(true);
    scene.settle().await;
    scene.pause(false);
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "False/SlowReader", "judged again");
    assert!(!scene.storage().topics.lock()["orders"].paused);
    scene.storage().catch_up();
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
}

#[tokio::test]
async fn a_deletion_that_waits_in_the_engine_is_taken_back_until_the_pause_ends() {
    let mut scene = Scene::new("{deletionPolicy: Delete}");
    scene.settle().await;
    scene.topic.metadata.deletion_timestamp =
        Some(serde_json::from_value(serde_json::json!("2026-01-01T00:00:00Z")).expect("a time"));
    scene.storage().behaviour.lock().reader_at = Some(1);
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "False/SlowReader");
    let plan = scene.topic.status.clone().and_then(|status| status.plan);
    assert_eq!(
        plan.map(|plan| plan.changes),
        Some(Vec::new()),
        "no setting is asked for"
    );
    scene.pause(true);
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "False/Paused");
    scene.storage().catch_up();
    scene.settle().await;
    assert!(scene.storage().topics.lock().contains_key("orders"));
    scene.pause(false);
    assert_eq!(scene.round().await.finalizer, Some(Finalizer::Remove));
    assert!(!scene.storage().topics.lock().contains_key("orders"));
}

#[tokio::test]
async fn somebody_elses_topic_is_not_paused() {
    let mut scene = Scene::new("{config: {retention.ms: 7d}}");
    scene.settle().await;
    scene.storage().behaviour.lock().reader_at = Some(40);
    scene.edit("{config: {retention.ms: 1d}}");
    scene.settle().await;
    scene.topic.metadata.name = Some("second".to_owned());
    scene.topic.metadata.uid = Some("u2".to_owned());
    scene.topic.spec.topic_name = Some("orders".to_owned());
    scene.topic.status = None;
    scene.pause(true);
    let changes = scene.changes();
    scene.settle().await;
    assert_eq!(
        (scene.condition("Ready"), scene.changes()),
        ("False/Conflict".to_owned(), changes)
    );
}
