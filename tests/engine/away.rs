//! Readers that are away, or that an engine which has just started has not heard of yet: they count as before.
use tidemark::resource::contract::{Outcome, Verdict};

use crate::groups::in_time;
use crate::members::{Consumer, Member, assignment};
use crate::scene::{DAY, Desired, Scene, eventually};

/// Readers at risk: name, partition, position, records.
fn risks(verdict: &Verdict) -> Vec<(String, i32, Option<i64>, i64)> {
    let risks = verdict.readers_at_risk.iter();
    let mut risks: Vec<_> = risks
        .map(|risk| {
            (
                risk.name.clone(),
                risk.partition,
                risk.position,
                risk.records_at_risk,
            )
        })
        .collect();
    risks.sort();
    risks
}

fn lower() -> Desired {
    Desired::new()
        .partitions(3)
        .set("retention.ms", 4 * DAY + DAY / 2)
}

/// Held back because of group `g` on two partitions where it has not committed, before and after a restart; until it has.
async fn holds_the_uncommitted_partitions(mut scene: Scene) {
    for partition in 1..3 {
        scene.ten_days("t", partition).await;
    }
    let unread = |partition| ("g".to_owned(), partition, Some(0), 60);
    for _ in 0..2 {
        let verdict = scene.apply("t", &lower()).await;
        assert_eq!(verdict.reason, "SlowReader", "{}", verdict.message);
        assert_eq!(risks(&verdict), [unread(1), unread(2)]);
        scene.restart(|_| {}).await;
        scene.pass().await;
        assert_eq!(scene.log_start("t", 1).await, 0);
    }
    for partition in 1..3 {
        scene.kafka.commit("g", "t", partition, 60).await.unwrap();
    }
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 2).await, 60);
}

/// A client commits nothing of a partition in which it found nothing, and partitions are added while it is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_left_counts_where_it_had_nothing_to_commit() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new().partitions(2)).await;
    scene.ten_days("t", 0).await;
    let mut member = Member::new(scene.engine.listening().unwrap(), "g", "t").await;
    in_time(&scene, member.join()).await;
    let both = assignment("t", &[0, 1]);
    member.sync(vec![(member.id.clone(), both)]).await;
    assert_eq!(member.commit(0, 100).await, 0);
    member.leave().await;
    scene.apply("t", &Desired::new().partitions(3)).await;
    holds_the_uncommitted_partitions(scene).await;
}

/// The same with the newer protocol, and a member whose session ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_the_newer_protocol_that_is_gone_counts_where_it_had_nothing_to_commit() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new().partitions(3)).await;
    scene.ten_days("t", 0).await;
    let mut member = Consumer::join(scene.engine.listening().unwrap(), "g", "m", "t").await;
    member.beat().await;
    assert_eq!(member.partitions(), [0, 1, 2]);
    scene.clock.advance_ms(60_000);
    // Somebody who is no member may commit once there are none.
    eventually("the session to end", async || {
        scene.kafka.commit("g", "t", 0, 100).await
    })
    .await;
    holds_the_uncommitted_partitions(scene).await;
}

/// Somebody who assigned itself one partition has nothing to do with the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_members_ever_counts_only_where_it_committed() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new().partitions(3)).await;
    scene.ten_days("t", 0).await;
    scene.ten_days("t", 1).await;
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    let verdict = scene.apply("t", &lower()).await;
    assert_eq!(verdict.verdict, Outcome::Applied, "{}", verdict.message);
}

/// A consumer without a group has no commit that outlives the engine; the engine has what it saw.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_without_a_group_is_a_reader_over_a_restart() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new().partitions(3)).await;
    scene.ten_days("t", 0).await;
    scene.kafka.fetch("t", 0, 20, 0).await.unwrap();
    let verdict = scene.apply("t", &lower()).await;
    let at_risk = risks(&verdict);
    assert_eq!((at_risk[0].1, at_risk[0].2, at_risk[0].3), (0, Some(20), 40));
    scene.restart(|_| {}).await;
    let verdict = scene.apply("t", &lower()).await;
    assert_eq!(risks(&verdict), at_risk);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 0);
    // It is back, and reads on.
    scene.kafka.fetch("t", 0, 60, 0).await.unwrap();
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
}
