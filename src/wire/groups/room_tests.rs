use bytes::Bytes;

use crate::wire::error_code::ErrorCode;
use crate::wire::groups::config::GroupConfig;
use crate::wire::groups::harness::*;
use crate::wire::groups::messages::*;

fn bounded(max_groups: usize, max_group_bytes: usize, max_bytes: usize) -> Harness {
    Harness::with(GroupConfig {
        max_groups,
        max_group_bytes,
        max_bytes,
        ..GroupConfig::default()
    })
}

fn large_join(group: &str, bytes: usize) -> JoinRequest {
    JoinRequest {
        protocols: vec![OfferedProtocol {
            name: "range".to_owned(),
            metadata: Bytes::from(vec![0; bytes]),
        }],
        ..join_request(group)
    }
}

fn error_of(harness: &mut Harness, request: JoinRequest) -> Option<ErrorCode> {
    let token = harness.join(request);
    harness.joined(token).and_then(|reply| reply.error)
}

fn beat(group: &str, member: &str, topics: Vec<String>) -> ConsumerHeartbeatRequest {
    ConsumerHeartbeatRequest {
        group_id: group.to_owned(),
        member_id: member.to_owned(),
        member_epoch: 0,
        instance_id: None,
        rack_id: None,
        rebalance_timeout_ms: 300_000,
        subscribed_topics: Some(topics),
        subscribed_regex: None,
        server_assignor: None,
        owned: Some(Vec::new()),
        client: client("client"),
        version: 1,
    }
}

#[test]
fn one_group_too_many_is_refused_by_every_way_in_and_the_others_go_on() {
    let mut harness = bounded(2, 1 << 20, 1 << 20);
    let (ids, generation) = harness.stable("a", 1);
    assert_eq!(harness.commit(commit_request("b", "orders", 0, 7)), None);

    let refused = Some(ErrorCode::GroupMaxSizeReached);
    assert_eq!(error_of(&mut harness, join_request("c")), refused);
    let reply = harness.consumer(beat("c", "m", vec!["orders".to_owned()]));
    let refusal = reply.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::GroupMaxSizeReached);
    assert!(
        refusal.message.contains("There are 2 groups"),
        "{}",
        refusal.message
    );
    assert_eq!(
        harness.commit(commit_request("c", "orders", 0, 7)),
        Some(ErrorCode::InvalidCommitOffsetSize)
    );
    assert_eq!(harness.state("c"), None);

    assert_eq!(harness.heartbeat("a", &ids[0], generation), Ok(()));
    assert_eq!(harness.commit(commit_request("b", "orders", 0, 9)), None);
    assert_eq!(harness.commit(commit_request("b", "orders", 1, 9)), None);
    // A group that is over makes room.
    let mut out = crate::wire::groups::output::Output::new();
    harness.coordinator.delete_group("b", &mut out).unwrap();
    harness.take(out);
    assert_eq!(harness.commit(commit_request("c", "orders", 0, 7)), None);
}

#[test]
fn a_group_holds_so_much_metadata_and_no_more() {
    let mut harness = bounded(10, 100 << 10, 1 << 20);
    let (ids, _) = harness.stable("a", 1);
    assert_eq!(
        error_of(&mut harness, large_join("a", 120 << 10)),
        Some(ErrorCode::GroupMaxSizeReached)
    );
    // A member that is there cannot grow beyond the bound either, and stays what it was.
    let grown = JoinRequest {
        member_id: ids[0].clone(),
        ..large_join("a", 120 << 10)
    };
    assert_eq!(
        error_of(&mut harness, grown),
        Some(ErrorCode::GroupMaxSizeReached)
    );
    assert_eq!(harness.state("a"), Some("Stable"));
    // Another group has a bound of its own.
    assert_eq!(
        error_of(&mut harness, large_join("b", 90 << 10)),
        Some(ErrorCode::MemberIdRequired)
    );
}

#[test]
fn an_assignment_that_is_too_large_is_refused() {
    let mut harness = bounded(10, 20 << 10, 1 << 20);
    let (ids, generation) = harness.stable("a", 1);
    let token = harness.join(JoinRequest {
        member_id: ids[0].clone(),
        ..large_join("a", 10)
    });
    harness.advance(10_000);
    let generation = match harness.joined(token) {
        Some(reply) => reply.generation_id,
        None => generation,
    };
    let huge = vec![(ids[0].clone(), Bytes::from(vec![0; 30 << 10]))];
    let token = harness.sync(sync_request("a", &ids[0], generation, huge));
    assert_eq!(
        harness.synced(token).unwrap().error,
        Some(ErrorCode::UnknownServerError)
    );
    let token = harness.sync(sync_request("a", &ids[0], generation, Vec::new()));
    assert_eq!(harness.synced(token).unwrap().error, None);
}

#[test]
fn ids_that_nobody_comes_back_for_are_bounded() {
    let mut harness = Harness::with(GroupConfig {
        max_size: 3,
        ..GroupConfig::default()
    });
    for _ in 0..3 {
        assert_eq!(
            error_of(&mut harness, join_request("a")),
            Some(ErrorCode::MemberIdRequired)
        );
    }
    assert_eq!(
        error_of(&mut harness, join_request("a")),
        Some(ErrorCode::GroupMaxSizeReached)
    );
    harness.advance(45_000);
    assert_eq!(
        error_of(&mut harness, join_request("a")),
        Some(ErrorCode::MemberIdRequired)
    );
}

/// Whatever clients send, what is held stays within the bound and the overshoot of one request.
#[test]
fn groups_members_and_positions_without_end_stay_within_the_bound() {
    let most = 512 << 10;
    let mut harness = bounded(1_000_000, most, most);
    let (ids, generation) = harness.stable("member", 1);
    assert_eq!(harness.commit(commit_request("honest", "orders", 0, 1)), None);
    let mut refused = 0;
    for number in 0..2_000 {
        let group = format!("{number}-{}", "g".repeat(300));
        let results = [
            error_of(&mut harness, large_join(&group, 900)),
            harness
                .consumer(beat(&format!("{group}-new"), "m", vec!["x".repeat(900)]))
                .err()
                .map(|refusal| refusal.code),
            harness.commit(CommitRequest {
                topics: vec![(
                    "orders".to_owned(),
                    vec![CommitPartition {
                        partition: 0,
                        offset: 1,
                        leader_epoch: -1,
                        metadata: Some("n".repeat(4_000)),
                    }],
                )],
                ..commit_request(&format!("{group}-commits"), "orders", 0, 1)
            }),
        ];
        let full = [ErrorCode::GroupMaxSizeReached, ErrorCode::InvalidCommitOffsetSize];
        refused += results
            .iter()
            .flatten()
            .filter(|error| full.contains(error))
            .count();
    }
    let held = harness.coordinator.held_bytes();
    assert!((most / 2..most + 8_192).contains(&held), "{held}");
    assert!(refused > 5_000, "{refused}");
    // Who was there goes on, and the weights add up again once everything is over.
    for offset in 0..10 {
        assert_eq!(
            harness.commit(commit_request("honest", "orders", 0, offset)),
            None
        );
    }
    assert_eq!(harness.heartbeat("member", &ids[0], generation), Ok(()));
    harness.advance(1_000_000);
    harness.now.wall_ms += 30 * DAY_MS;
    harness.expire();
    let topics = harness.coordinator.held_bytes();
    assert!(topics < most, "{topics}");
    assert_eq!(
        error_of(&mut harness, join_request("next")),
        Some(ErrorCode::MemberIdRequired)
    );
}

#[test]
fn weights_come_back_when_everything_is_gone() {
    let mut harness = Harness::default();
    let empty = harness.coordinator.held_bytes();
    let (ids, _) = harness.stable("a", 3);
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    harness
        .consumer(beat("b", "m", vec!["orders".to_owned()]))
        .unwrap();
    for group in ["c", "d"] {
        assert_eq!(harness.commit(commit_request(group, "orders", 2, 7)), None);
        assert_eq!(harness.commit(commit_request(group, "orders", 2, 8)), None);
    }
    assert!(harness.coordinator.held_bytes() > empty + 4_000);
    let reply = harness.leave("a", &ids);
    assert!(reply.unwrap().iter().all(Option::is_none));
    let mut away = beat("b", "m", Vec::new());
    away.member_epoch = -1;
    harness.consumer(away).unwrap();
    for group in ["a", "b", "c", "d"] {
        let mut out = crate::wire::groups::output::Output::new();
        harness.coordinator.delete_group(group, &mut out).unwrap();
        harness.take(out);
    }
    assert_eq!(harness.coordinator.held_bytes(), empty);
}
