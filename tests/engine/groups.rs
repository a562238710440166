//! Consumer groups over the protocol: rebalances, static members, the newer protocol, commits over restarts, expiry.
use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest,
};
use tidemark::operator::storage::Storage;
use tidemark::resource::contract::{DeleteTopic, DeletionPolicy, Outcome};

use crate::members::{Consumer, Member, assignment, committed, group_id};
use crate::scene::{DAY, Desired, Scene, eventually};

const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const FENCED_INSTANCE_ID: i16 = 82;

fn address(scene: &Scene) -> SocketAddr {
    scene.engine.listening().unwrap()
}

/// Lets the time of the first rebalance pass until the answer is there.
pub async fn in_time<T>(scene: &Scene, answer: impl Future<Output = T>) -> T {
    let mut answer = std::pin::pin!(answer);
    // More than the delay of the first rebalance, less than any session: however long the engine takes to notice, none ends.
    let mut left_ms = 20_000;
    eventually("the rebalance to end", async || {
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(answer.as_mut().poll(context)));
        match polled.await {
            std::task::Poll::Ready(value) => Ok(value),
            std::task::Poll::Pending => {
                if left_ms > 0 && members_state(scene).await != "Stable" {
                    scene.clock.advance_ms(100);
                    left_ms -= 100;
                }
                Err("nobody answered")
            }
        }
    })
    .await
}

async fn members_state(scene: &Scene) -> String {
    let mut kafka = tidemark::wire::client::Client::connect(address(scene), "describer")
        .await
        .unwrap();
    let request = DescribeGroupsRequest::default().with_groups(vec![group_id("g")]);
    let reply = kafka.call(5, &request).await.unwrap();
    reply.groups[0].group_state.to_string()
}

/// A scene with topic `t` of four partitions.
async fn scene() -> Scene {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new().partitions(4)).await;
    scene
}

/// The only member of group g, which has partition 0.
async fn alone_in_g(scene: &Scene) -> Member {
    let mut member = Member::new(address(scene), "g", "t").await;
    in_time(scene, member.join()).await;
    member
        .sync(vec![(member.id.clone(), assignment("t", &[0]))])
        .await;
    member
}

#[tokio::test(flavor = "multi_thread")]
async fn members_join_share_and_leave() {
    let mut scene = scene().await;
    let mut first = Member::new(address(&scene), "g", "t").await;
    let mut second = Member::new(address(&scene), "g", "t").await;
    let (one, two) = in_time(&scene, async { tokio::join!(first.join(), second.join()) }).await;
    assert_eq!((one.generation_id, two.generation_id), (1, 1));
    assert_eq!(one.leader, two.leader);
    let (leader, follower) = if one.leader == one.member_id {
        (&mut first, &mut second)
    } else {
        (&mut second, &mut first)
    };
    let shares = vec![
        (leader.id.clone(), assignment("t", &[0, 1])),
        (follower.id.clone(), assignment("t", &[2, 3])),
    ];
    let (own, other) = tokio::join!(leader.sync(shares), follower.sync(Vec::new()));
    assert_eq!(own, assignment("t", &[0, 1]));
    assert_eq!(other, assignment("t", &[2, 3]));
    assert_eq!(leader.heartbeat().await, 0);
    assert_eq!(follower.commit(2, 20).await, 0);

    // A third one comes: everybody joins again.
    let mut third = Member::new(address(&scene), "g", "t").await;
    let (three, ()) = tokio::join!(third.join(), async {
        eventually("the rebalance to begin", async || {
            match leader.heartbeat().await {
                REBALANCE_IN_PROGRESS => Ok(()),
                code => Err(code),
            }
        })
        .await;
        tokio::join!(leader.join(), follower.join());
    });
    assert_eq!(three.generation_id, 2);
    let shares = vec![
        (leader.id.clone(), assignment("t", &[0])),
        (follower.id.clone(), assignment("t", &[2])),
        (third.id.clone(), assignment("t", &[1, 3])),
    ];
    let (_, _, new) = tokio::join!(
        leader.sync(shares),
        follower.sync(Vec::new()),
        third.sync(Vec::new())
    );
    assert_eq!(new, assignment("t", &[1, 3]));

    // Two leave, the last one carries on alone.
    third.leave().await;
    follower.leave().await;
    assert_eq!(leader.heartbeat().await, REBALANCE_IN_PROGRESS);
    let alone = leader.join().await;
    assert_eq!((alone.generation_id, alone.members.len()), (3, 1));
    leader
        .sync(vec![(leader.id.clone(), assignment("t", &[0, 1, 2, 3]))])
        .await;
    assert_eq!(leader.commit(3, 33).await, 0);
    leader.leave().await;
    assert_eq!(members_state(&scene).await, "Empty");
    assert_eq!(
        committed(&mut scene.kafka, "g", "t", 2).await,
        (20, -1, "noted".to_owned())
    );
    assert_eq!(committed(&mut scene.kafka, "g", "t", 3).await.0, 33);
    assert_eq!(committed(&mut scene.kafka, "g", "t", 0).await.0, -1);
}

/// Members, states, positions and lag as whoever watches the engine sees them.
#[tokio::test(flavor = "multi_thread")]
async fn groups_are_told_by_protocol_state_members_and_lag() {
    let mut scene = scene().await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("simple", "t", 0, 5).await.unwrap();
    let long = "x".repeat(300);
    scene.kafka.commit(&long, "t", 0, 5).await.unwrap();
    let mut member = Member::new(address(&scene), "g", "t").await;
    in_time(&scene, member.join()).await;
    let all = assignment("t", &[0, 1, 2, 3]);
    member.sync(vec![(member.id.clone(), all)]).await;
    assert_eq!(member.commit(0, 90).await, 0);
    let mut newer = Consumer::join(address(&scene), "new", "n", "t").await;
    newer.beat().await;
    let metrics = scene.metrics().await;
    for line in [
        "group_count{protocol=\"classic\",state=\"Stable\"} 1",
        "group_count{protocol=\"classic\",state=\"Empty\"} 2",
        "group_count{protocol=\"classic\",state=\"PreparingRebalance\"} 0",
        "group_count{protocol=\"consumer\",state=\"Stable\"} 1",
        "group_members{group=\"g\"} 1",
        "group_members{group=\"new\"} 1",
        "group_members{group=\"simple\"} 0",
        "group_committed_offset{group=\"simple\",topic=\"t\",partition=\"0\"} 5",
        "group_lag{group=\"simple\",topic=\"t\",partition=\"0\"} 95",
        "group_lag{group=\"g\",topic=\"t\",partition=\"0\"} 10",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    // A name without end is no label; that something is left out is told.
    assert!(!metrics.contains(&long));
    let left_out = metrics
        .lines()
        .find_map(|line| line.strip_prefix("series_left_out "));
    assert!(left_out.unwrap().parse::<i64>().unwrap() > 0);
}

/// A session ends by the engine's clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_member_is_removed() {
    let scene = scene().await;
    let mut member = alone_in_g(&scene).await;
    scene.clock.advance_ms(44_999);
    assert_eq!(member.heartbeat().await, 0);
    scene.clock.advance_ms(45_000);
    eventually("the member to be removed", async || {
        match members_state(&scene).await.as_str() {
            "Empty" => Ok(()),
            state => Err(state.to_owned()),
        }
    })
    .await;
    assert_eq!(member.heartbeat().await, UNKNOWN_MEMBER_ID);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_keeps_its_place_over_restarts_of_itself_and_of_the_engine() {
    let mut scene = scene().await;
    let mut old = Member::new(address(&scene), "g", "t").await;
    old.instance = Some("pod-0".to_owned());
    let joined = in_time(&scene, old.join()).await;
    assert!(joined.member_id.starts_with("pod-0-"), "{}", joined.member_id);
    let share = assignment("t", &[0, 1, 2, 3]);
    old.sync(vec![(old.id.clone(), share.clone())]).await;
    assert_eq!(old.commit(0, 5).await, 0);

    scene.restart(|_| {}).await;
    let mut new = Member::new(address(&scene), "g", "t").await;
    new.instance = Some("pod-0".to_owned());
    let joined = new.join().await;
    assert_eq!(joined.generation_id, 1, "no rebalance");
    assert!(joined.skip_assignment);
    assert_ne!(new.id, old.id);
    assert_eq!(new.sync(Vec::new()).await, share);
    old.reconnect(address(&scene)).await;
    assert_eq!(old.heartbeat().await, FENCED_INSTANCE_ID);
    assert_eq!(old.commit(0, 6).await, FENCED_INSTANCE_ID);
    assert_eq!(new.commit(0, 7).await, 0);
    assert_eq!(committed(&mut scene.kafka, "g", "t", 0).await.0, 7);
}

/// A stop of the engine does not wait for members that wait for others.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_a_rebalance() {
    let mut scene = scene().await;
    let mut member = Member::new(address(&scene), "g", "t").await;
    member.instance = Some("pod-0".to_owned());
    let joining = tokio::spawn(async move { member.join_code().await });
    eventually("the member to wait", async || {
        match members_state(&scene).await.as_str() {
            "PreparingRebalance" => Ok(()),
            state => Err(state.to_owned()),
        }
    })
    .await;
    scene.restart(|_| {}).await;
    // COORDINATOR_NOT_AVAILABLE: try again.
    assert_eq!(joining.await.unwrap(), 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_the_newer_protocol_share_and_go_on_after_a_restart() {
    let mut scene = scene().await;
    let mut a = Consumer::join(address(&scene), "g", "a", "t|u.*").await;
    assert_eq!(a.partitions(), [0, 1, 2, 3]);
    let mut b = Consumer::join(address(&scene), "g", "b", "t").await;
    assert!(b.partitions().is_empty());
    for _ in 0..3 {
        a.beat().await;
        b.beat().await;
    }
    assert_eq!((a.partitions().len(), b.partitions().len()), (2, 2));
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group_id("g")]);
    let described = scene.kafka.call(1, &request).await.unwrap();
    assert_eq!(&*described.groups[0].group_state, "Stable");
    assert_eq!(described.groups[0].members.len(), 2);
    assert_eq!(
        described.groups[0].members[0].subscribed_topic_regex.as_deref(),
        Some("t|u.*")
    );

    scene.restart(|_| {}).await;
    let (before_a, before_b) = (a.partitions(), b.partitions());
    for member in [&mut a, &mut b] {
        member.kafka = tidemark::wire::client::Client::connect(address(&scene), "consumer")
            .await
            .unwrap();
    }
    for _ in 0..3 {
        a.beat().await;
        b.beat().await;
    }
    assert_eq!((a.partitions(), b.partitions()), (before_a, before_b));
    // A topic that matches the pattern of "a" alone.
    scene.apply("users", &Desired::new()).await;
    a.beat().await;
    b.beat().await;
    assert_eq!(a.owned.len() + b.owned.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_expire_seven_days_after_the_group_became_empty_and_are_remembered() {
    let mut scene = scene().await;
    scene.ten_days("t", 0).await;
    let mut member = alone_in_g(&scene).await;
    assert_eq!(member.commit(0, 30).await, 0);
    member.leave().await;
    scene.clock.advance_ms(7 * DAY - 60_000);
    scene.restart(|_| {}).await;
    assert_eq!(committed(&mut scene.kafka, "g", "t", 0).await.0, 30);
    scene.clock.advance_ms(660_000);
    eventually("the commit to expire", async || {
        scene.clock.advance_ms(60_000);
        match committed(&mut scene.kafka, "g", "t", 0).await.0 {
            -1 => Ok(()),
            offset => Err(offset),
        }
    })
    .await;
    let listed = scene.kafka.call(5, &ListGroupsRequest::default()).await.unwrap();
    assert!(listed.groups.is_empty(), "{:?}", listed.groups);

    // D7: nobody can promise anything to an undeclared group that expired.
    let lower = Desired::new().partitions(4).set("retention.ms", DAY);
    let plan = scene.control.plan("t", &lower.0).await.unwrap();
    assert_eq!(plan.verdict, Outcome::Applied, "{}", plan.message);
    // A declared one is unknown, with the position it had; even after a restart.
    scene.restart(|_| {}).await;
    let declared = lower.readers(|readers| readers.required = vec!["g".to_owned()]);
    let plan = scene.apply("t", &declared).await;
    assert_eq!(
        (plan.verdict, plan.reason.as_str()),
        (Outcome::Refused, "ReaderUnknown")
    );
    assert_eq!(plan.readers_at_risk[0].name, "g");
    assert!(
        plan.message.contains("30"),
        "the last known position is in: {}",
        plan.message
    );
    assert_eq!(scene.log_start("t", 0).await, 0);
    // It comes back and commits: the change goes in by itself.
    for partition in 0..4 {
        let end = if partition == 0 { 100 } else { 0 };
        scene.kafka.commit("g", "t", partition, end).await.unwrap();
    }
    scene.resumed("t").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_group_is_gone_after_a_restart() {
    let mut scene = scene().await;
    scene.kafka.commit("g", "t", 0, 3).await.unwrap();
    scene.kafka.commit("h", "t", 0, 4).await.unwrap();
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id("g"), group_id("none")]);
    let reply = scene.kafka.call(2, &request).await.unwrap();
    let codes: Vec<i16> = reply.results.iter().map(|result| result.error_code).collect();
    assert_eq!(codes, [0, 69]);
    scene.restart(|_| {}).await;
    assert_eq!(committed(&mut scene.kafka, "g", "t", 0).await.0, -1);
    assert_eq!(committed(&mut scene.kafka, "h", "t", 0).await.0, 4);
}

/// A group that has members and no commit yet reads from the start, as far as the guard is concerned.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_a_commit_holds_a_lowering_back() {
    let mut scene = scene().await;
    scene.ten_days("t", 0).await;
    let mut member = alone_in_g(&scene).await;
    let lower = Desired::new()
        .partitions(4)
        .set("retention.ms", 4 * DAY + DAY / 2);
    let verdict = scene.judged("t", &lower, Outcome::Refused, "SlowReader").await;
    assert_eq!(verdict.readers_at_risk[0].records_at_risk, 60);
    // It commits what it read, and then all of it.
    assert_eq!(member.commit(0, 40).await, 0);
    assert!(scene.observe("t").await.pending.is_some());
    assert_eq!(member.commit(0, 60).await, 0);
    scene.resumed("t").await;
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
}

/// A deletion that waited for a commit waits for the member's way out too, however long that takes on a busy machine.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_outlives_the_member_whose_commit_its_deletion_waited_for() {
    let mut scene = scene().await;
    scene.ten_days("t", 0).await;
    let mut member = alone_in_g(&scene).await;
    let request = DeleteTopic {
        owner: "uid-1".to_owned(),
        policy: Some(DeletionPolicy::Delete),
        request_id: "d".to_owned(),
    };
    let verdict = scene.control.delete("t", &request).await.unwrap();
    assert!(verdict.pending, "{}", verdict.message);
    let began = Instant::now();
    assert_eq!(member.commit(0, 100).await, 0);
    // It is given ten seconds at most: what is seen after half of them says nothing.
    while began.elapsed() < Duration::from_secs(2) {
        let there = scene.engine.observe("t").is_ok();
        if began.elapsed() < Duration::from_secs(5) {
            assert!(there, "it went before the member did");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    member.leave().await;
    eventually("the topic to be gone", async || match scene.engine.observe("t") {
        Ok(_) => Err("it is there"),
        Err(_) => Ok(()),
    })
    .await;
}
