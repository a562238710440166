//! Deletion: what waits, what ends it, and the ways out.
use super::*;

async fn marked(policy: &str) -> Scene {
    let mut scene = Scene::new(&format!("{{deletionPolicy: {policy}}}"));
    scene.settle().await;
    scene.topic.metadata.deletion_timestamp =
        Some(serde_json::from_value(serde_json::json!("2026-01-01T00:00:00Z")).expect("a time"));
    scene
}

#[tokio::test]
async fn only_delete_needs_a_finalizer_and_it_comes_before_the_topic() {
    let mut scene = Scene::new("{deletionPolicy: Delete}");
    let round = scene.round().await;
    assert_eq!((round.finalizer, scene.changes()), (Some(Finalizer::Add), 0));
    scene.settle().await;
    assert_eq!(scene.condition("Ready"), "True/Applied");
    scene.topic.metadata.finalizers = Some(Vec::new());
    scene.settle().await;
    assert_eq!(
        scene.topic.metadata.finalizers,
        Some(Vec::new()),
        "taken off by others: not fought over"
    );
    scene.edit("{deletionPolicy: Retain}");
    scene.topic.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    scene.settle().await;
    assert_eq!(scene.topic.metadata.finalizers, None);
}

#[tokio::test]
async fn delete_takes_the_topic_and_lets_the_resource_go() {
    let mut scene = marked("Delete").await;
    let round = scene.round().await;
    assert_eq!(round.finalizer, Some(Finalizer::Remove));
    assert!(scene.storage().topics.lock().is_empty());
    assert_eq!(scene.notices.last(), Some(&"Deleted"));
}

#[tokio::test]
async fn a_reader_behind_holds_the_deletion_and_retain_is_the_way_out() {
    let mut scene = marked("Delete").await;
    scene.storage().behaviour.lock().reader_at = Some(1);
    for _ in 0..3 {
        assert_eq!(scene.round().await.finalizer, None);
    }
    assert_eq!(scene.condition("Ready"), "False/SlowReader");
    assert_eq!(
        scene
            .notices
            .iter()
            .filter(|reason| **reason == "DeletionHeld")
            .count(),
        1
    );
    scene.topic.spec.deletion_policy = Some(DeletionPolicy::Retain);
    assert_eq!(scene.round().await.finalizer, Some(Finalizer::Remove));
    let topics = scene.storage().topics.lock();
    assert!(
        topics["orders"].owner.is_none(),
        "the data stays, without an owner"
    );
}

#[tokio::test]
async fn the_engine_away_holds_a_deletion_but_not_a_release() {
    let mut scene = marked("Delete").await;
    scene.storage().behaviour.lock().away = true;
    let round = scene.round().await;
    assert_eq!((round.finalizer, round.next), (None, Next::Retry));
    scene.topic.spec.deletion_policy = Some(DeletionPolicy::Retain);
    assert_eq!(scene.round().await.finalizer, Some(Finalizer::Remove));
}

/// I6.
#[tokio::test]
async fn a_topic_that_is_not_there_or_not_ours_lets_the_resource_go() {
    let mut scene = marked("Delete").await;
    scene.storage().topics.lock().clear();
    assert_eq!(scene.round().await.finalizer, Some(Finalizer::Remove));
    let mut scene = marked("Delete").await;
    scene
        .storage()
        .topics
        .lock()
        .get_mut("orders")
        .expect("a topic")
        .owner = Some(Owner {
        uid: "other".to_owned(),
        namespace: "shop".to_owned(),
        name: "t2".to_owned(),
    });
    assert_eq!(scene.round().await.finalizer, Some(Finalizer::Remove));
    assert!(
        scene.storage().topics.lock().contains_key("orders"),
        "somebody else's topic stays"
    );
}

#[tokio::test]
async fn without_our_finalizer_a_deletion_is_none_of_our_business() {
    let mut scene = marked("Retain").await;
    let changes = scene.changes();
    scene.settle().await;
    assert_eq!(scene.changes(), changes);
    assert!(scene.storage().topics.lock().contains_key("orders"));
}

#[tokio::test]
async fn pause_holds_a_deletion() {
    let mut scene = marked("Delete").await;
    scene.topic.metadata.annotations = Some([(PAUSED_ANNOTATION.to_owned(), "true".to_owned())].into());
    assert_eq!(scene.round().await.finalizer, None);
    assert!(scene.storage().topics.lock().contains_key("orders"));
}
