use bytes::Bytes;

use crate::wire::error_code::ErrorCode;
use crate::wire::groups::config::GroupConfig;
use crate::wire::groups::harness::*;
use crate::wire::groups::messages::*;

const GROUP: &str = "group";

fn again(member: &str) -> JoinRequest {
    JoinRequest {
        member_id: member.to_owned(),
        ..join_request(GROUP)
    }
}

fn fixed(instance: &str) -> JoinRequest {
    JoinRequest {
        instance_id: Some(instance.to_owned()),
        ..join_request(GROUP)
    }
}

#[test]
fn a_dynamic_member_must_come_back_with_its_id() {
    let mut harness = Harness::default();
    let token = harness.join(join_request(GROUP));
    let reply = harness.joined(token).unwrap();
    assert_eq!(reply.error, Some(ErrorCode::MemberIdRequired));
    assert!(reply.member_id.starts_with("client-"), "{}", reply.member_id);
    assert_eq!(reply.generation_id, -1);

    let token = harness.join(again(&reply.member_id));
    assert_eq!(harness.joined(token), None, "the group waits for more members");
    harness.advance(2_999);
    assert_eq!(harness.joined(token), None);
    harness.advance(1);
    // A member came in the first wait, so that there is a second, and none in that.
    harness.advance(3_000);
    let joined = harness.joined(token).unwrap();
    assert_eq!(joined.error, None);
    assert_eq!(joined.generation_id, 1);
    assert_eq!(joined.leader, reply.member_id);
    assert_eq!(joined.members.len(), 1);
    assert_eq!(joined.members[0].metadata, subscription(&["orders"]));
    assert_eq!(joined.protocol_name.as_deref(), Some("range"));
    assert_eq!(joined.protocol_type.as_deref(), Some("consumer"));
}

#[test]
fn an_old_client_joins_at_once() {
    let mut harness = Harness::default();
    let request = JoinRequest {
        requires_known_member_id: false,
        ..join_request(GROUP)
    };
    let token = harness.join(request);
    harness.advance(300_000);
    assert_eq!(harness.joined(token).unwrap().error, None);
}

#[test]
fn an_id_that_is_never_used_is_forgotten() {
    let mut harness = Harness::default();
    let token = harness.join(join_request(GROUP));
    let id = harness.joined(token).unwrap().member_id;
    harness.advance(45_000);
    let token = harness.join(again(&id));
    let reply = harness.joined(token).unwrap();
    assert_eq!(reply.error, Some(ErrorCode::UnknownMemberId));
}

#[test]
fn requests_out_of_bounds_are_refused() {
    let mut harness = Harness::default();
    let cases = [
        (
            JoinRequest {
                group_id: String::new(),
                ..join_request(GROUP)
            },
            ErrorCode::InvalidGroupId,
        ),
        (
            JoinRequest {
                session_timeout_ms: 5_999,
                ..join_request(GROUP)
            },
            ErrorCode::InvalidSessionTimeout,
        ),
        (
            JoinRequest {
                session_timeout_ms: 1_800_001,
                ..join_request(GROUP)
            },
            ErrorCode::InvalidSessionTimeout,
        ),
        (again("stranger"), ErrorCode::UnknownMemberId),
        (
            JoinRequest {
                protocols: Vec::new(),
                ..join_request(GROUP)
            },
            ErrorCode::InconsistentGroupProtocol,
        ),
        (
            JoinRequest {
                protocol_type: String::new(),
                ..join_request(GROUP)
            },
            ErrorCode::InconsistentGroupProtocol,
        ),
    ];
    for (request, error) in cases {
        let token = harness.join(request);
        assert_eq!(harness.joined(token).unwrap().error, Some(error));
    }
}

#[test]
fn a_member_without_a_common_protocol_is_refused() {
    let mut harness = Harness::default();
    harness.stable(GROUP, 1);
    let mut request = join_request(GROUP);
    request.protocols[0].name = "sticky".to_owned();
    let token = harness.join(request);
    let reply = harness.joined(token).unwrap();
    assert_eq!(reply.error, Some(ErrorCode::InconsistentGroupProtocol));
    let token = harness.join(JoinRequest {
        protocol_type: "connect".to_owned(),
        ..join_request(GROUP)
    });
    let reply = harness.joined(token).unwrap();
    assert_eq!(reply.error, Some(ErrorCode::InconsistentGroupProtocol));
}

#[test]
fn the_protocol_that_most_prefer_wins() {
    let mut harness = Harness::default();
    let offers: [&[&str]; 3] = [&["a", "b", "c"], &["b", "a"], &["b", "a", "c"]];
    let tokens: Vec<_> = offers
        .iter()
        .map(|names| {
            let protocols = names.iter().map(|name| OfferedProtocol {
                name: (*name).to_owned(),
                metadata: Bytes::from(name.as_bytes().to_vec()),
            });
            harness.join(JoinRequest {
                protocols: protocols.collect(),
                requires_known_member_id: false,
                ..join_request(GROUP)
            })
        })
        .collect();
    harness.advance(300_000);
    for token in tokens {
        assert_eq!(harness.joined(token).unwrap().protocol_name.as_deref(), Some("b"));
    }
}

#[test]
fn only_the_leader_is_given_the_members() {
    let mut harness = Harness::default();
    let tokens: Vec<_> = (0..3)
        .map(|_| {
            harness.join(JoinRequest {
                requires_known_member_id: false,
                ..join_request(GROUP)
            })
        })
        .collect();
    harness.advance(300_000);
    let replies: Vec<_> = tokens
        .into_iter()
        .map(|token| harness.joined(token).unwrap())
        .collect();
    for reply in &replies {
        let expected = if reply.member_id == reply.leader { 3 } else { 0 };
        assert_eq!(reply.members.len(), expected);
        assert_eq!(reply.leader, replies[0].leader);
    }
}

#[test]
fn the_first_wait_is_drawn_out_while_members_come_but_not_beyond_the_rebalance_timeout() {
    let mut harness = Harness::default();
    let request = || JoinRequest {
        requires_known_member_id: false,
        rebalance_timeout_ms: 7_000,
        ..join_request(GROUP)
    };
    let first = harness.join(request());
    for _ in 0..3 {
        harness.advance(2_000);
        harness.join(request());
    }
    harness.advance(999);
    assert_eq!(harness.joined(first), None);
    harness.advance(1);
    let reply = harness.joined(first).unwrap();
    assert_eq!(reply.members.len(), 4);
}

#[test]
fn a_group_that_became_empty_waits_again() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable(GROUP, 1);
    assert_eq!(harness.leave(GROUP, &[&ids[0]]), Ok(vec![None]));
    assert_eq!(harness.state(GROUP), Some("Empty"));
    let token = harness.join(join_request(GROUP));
    let id = harness.joined(token).unwrap().member_id;
    let token = harness.join(again(&id));
    assert_eq!(harness.joined(token), None);
    harness.advance(6_000);
    let reply = harness.joined(token).unwrap();
    // One generation for the empty group, one for the new member.
    assert_eq!(reply.generation_id, generation + 2);
}

#[test]
fn a_new_member_rebalances_a_stable_group() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable(GROUP, 2);
    let token = harness.join(join_request(GROUP));
    let newcomer = harness.joined(token).unwrap().member_id;
    assert_eq!(harness.heartbeat(GROUP, &ids[0], generation), Ok(()));
    let waiting = harness.join(again(&newcomer));
    assert_eq!(
        harness.heartbeat(GROUP, &ids[0], generation),
        Err(ErrorCode::RebalanceInProgress)
    );
    let tokens: Vec<_> = ids.iter().map(|id| harness.join(again(id))).collect();
    let reply = harness.joined(waiting).unwrap();
    assert_eq!(reply.generation_id, generation + 1);
    for token in tokens {
        assert_eq!(harness.joined(token).unwrap().generation_id, generation + 1);
    }
    assert_eq!(harness.state(GROUP), Some("CompletingRebalance"));
}

#[test]
fn members_that_do_not_come_back_are_out_after_the_rebalance_timeout() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable(GROUP, 2);
    let back = harness.join(again(&ids[0]));
    assert_eq!(harness.joined(back), None);
    // The other one sends heartbeats but does not join.
    for _ in 0..30 {
        harness.advance(10_000 - 1);
        let _ = harness.heartbeat(GROUP, &ids[1], generation);
    }
    harness.advance(30);
    let reply = harness.joined(back).unwrap();
    assert_eq!(reply.generation_id, generation + 1);
    assert_eq!(reply.members.len(), 1);
    assert_eq!(
        harness.heartbeat(GROUP, &ids[1], generation),
        Err(ErrorCode::UnknownMemberId)
    );
}

#[test]
fn a_silent_member_is_removed_when_its_session_ends() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable(GROUP, 2);
    harness.advance(44_000);
    assert_eq!(harness.heartbeat(GROUP, &ids[0], generation), Ok(()));
    harness.advance(1_000);
    assert_eq!(harness.state(GROUP), Some("PreparingRebalance"));
    let token = harness.join(again(&ids[0]));
    assert_eq!(harness.joined(token).unwrap().members.len(), 1);
}

#[test]
fn a_commit_keeps_the_session_alive() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable(GROUP, 1);
    for offset in 0..10 {
        harness.advance(40_000);
        let error = harness.commit(CommitRequest {
            member_id: ids[0].clone(),
            generation_or_epoch: generation,
            ..commit_request(GROUP, "orders", 0, offset)
        });
        assert_eq!(error, None);
    }
    assert_eq!(harness.state(GROUP), Some("Stable"));
}

#[test]
fn a_leader_that_never_assigns_is_removed_and_the_others_go_on() {
    let mut harness = Harness::default();
    let tokens: Vec<_> = (0..2)
        .map(|_| {
            harness.join(JoinRequest {
                requires_known_member_id: false,
                ..join_request(GROUP)
            })
        })
        .collect();
    harness.advance(6_000);
    let replies: Vec<_> = tokens
        .into_iter()
        .map(|token| harness.joined(token).unwrap())
        .collect();
    let (leader, follower): (Vec<_>, Vec<_>) = replies
        .iter()
        .map(|reply| reply.member_id.clone())
        .partition(|id| *id == replies[0].leader);
    let token = harness.sync(sync_request(GROUP, &follower[0], 1, Vec::new()));
    assert_eq!(harness.synced(token), None);
    // The leader is alive, it only does not assign.
    for _ in 0..30 {
        harness.advance(10_000);
        let _ = harness.heartbeat(GROUP, &leader[0], 1);
    }
    let reply = harness.synced(token).unwrap();
    assert_eq!(reply.error, Some(ErrorCode::RebalanceInProgress));
    let token = harness.join(again(&follower[0]));
    let reply = harness.joined(token).unwrap();
    assert_eq!((reply.generation_id, reply.members.len()), (2, 1));
    assert_eq!(reply.leader, follower[0]);
}

#[test]
fn sync_is_checked() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable(GROUP, 1);
    let member = ids[0].as_str();
    let good = || sync_request(GROUP, member, generation, Vec::new());
    let cases = [
        (
            SyncRequest {
                group_id: "other".to_owned(),
                ..good()
            },
            ErrorCode::UnknownMemberId,
        ),
        (
            SyncRequest {
                member_id: "stranger".to_owned(),
                ..good()
            },
            ErrorCode::UnknownMemberId,
        ),
        (
            SyncRequest {
                generation_id: generation - 1,
                ..good()
            },
            ErrorCode::IllegalGeneration,
        ),
        (
            SyncRequest {
                protocol_name: Some("other".to_owned()),
                ..good()
            },
            ErrorCode::InconsistentGroupProtocol,
        ),
        (
            SyncRequest {
                protocol_type: Some("connect".to_owned()),
                ..good()
            },
            ErrorCode::InconsistentGroupProtocol,
        ),
    ];
    for (request, error) in cases {
        let token = harness.sync(request);
        assert_eq!(harness.synced(token).unwrap().error, Some(error));
    }
    // Asking again in a stable group answers the same.
    let token = harness.sync(good());
    let reply = harness.synced(token).unwrap();
    assert_eq!(reply.assignment, assignment("orders", &[0]));
    assert_eq!(reply.protocol_name.as_deref(), Some("range"));
}

#[test]
fn a_lost_answer_costs_no_rebalance() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable(GROUP, 3);
    // A follower that joins again with the same protocols is told the generation there is.
    let token = harness.join(again(&ids[1]));
    let reply = harness.joined(token).unwrap();
    assert_eq!((reply.error, reply.generation_id), (None, generation));
    assert!(reply.members.is_empty());
    assert_eq!(harness.state(GROUP), Some("Stable"));
    // The leader rebalances in any case: it may have seen new partitions.
    let token = harness.join(again(&ids[0]));
    assert_eq!(harness.joined(token), None);
    assert_eq!(harness.state(GROUP), Some("PreparingRebalance"));
}

#[test]
fn a_follower_with_another_subscription_rebalances() {
    let mut harness = Harness::default();
    let (ids, _) = harness.stable(GROUP, 2);
    let mut request = again(&ids[1]);
    request.protocols[0].metadata = subscription(&["orders", "more"]);
    let token = harness.join(request);
    assert_eq!(harness.joined(token), None);
    assert_eq!(harness.state(GROUP), Some("PreparingRebalance"));
}

#[test]
fn several_members_leave_at_once() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable(GROUP, 3);
    let reply = harness.leave(GROUP, &[&ids[0], "stranger", &ids[2]]);
    assert_eq!(reply, Ok(vec![None, Some(ErrorCode::UnknownMemberId), None]));
    let token = harness.join(again(&ids[1]));
    let reply = harness.joined(token).unwrap();
    assert_eq!((reply.generation_id, reply.members.len()), (generation + 1, 1));
    assert_eq!(reply.leader, ids[1]);
    assert_eq!(
        harness.leave("other", &["m"]),
        Ok(vec![Some(ErrorCode::UnknownMemberId)])
    );
    assert_eq!(harness.leave("", &["m"]), Err(ErrorCode::InvalidGroupId));
}

#[test]
fn a_static_member_comes_back_without_a_rebalance_and_fences_its_former_self() {
    let mut harness = Harness::default();
    let token = harness.join(fixed("one"));
    harness.advance(6_000);
    let old = harness.joined(token).unwrap();
    assert!(old.member_id.starts_with("one-"), "{}", old.member_id);
    let token = harness.sync(SyncRequest {
        instance_id: Some("one".to_owned()),
        ..sync_request(
            GROUP,
            &old.member_id,
            1,
            vec![(old.member_id.clone(), assignment("orders", &[0, 1]))],
        )
    });
    assert_eq!(harness.synced(token).unwrap().error, None);

    let token = harness.join(fixed("one"));
    let new = harness.joined(token).unwrap();
    assert_eq!((new.error, new.generation_id), (None, 1));
    assert_ne!(new.member_id, old.member_id);
    assert_eq!(new.leader, new.member_id);
    assert!(new.skip_assignment);
    assert_eq!(new.members.len(), 1);
    let token = harness.sync(SyncRequest {
        instance_id: Some("one".to_owned()),
        ..sync_request(GROUP, &new.member_id, 1, Vec::new())
    });
    assert_eq!(
        harness.synced(token).unwrap().assignment,
        assignment("orders", &[0, 1])
    );

    let beat = |harness: &mut Harness, member: &str| {
        let request = HeartbeatRequest {
            group_id: GROUP.to_owned(),
            generation_id: 1,
            member_id: member.to_owned(),
            instance_id: Some("one".to_owned()),
        };
        harness.coordinator.heartbeat(harness.now, &request)
    };
    assert_eq!(
        beat(&mut harness, &old.member_id),
        Err(ErrorCode::FencedInstanceId)
    );
    assert_eq!(beat(&mut harness, &new.member_id), Ok(()));
    let error = harness.commit(CommitRequest {
        member_id: old.member_id.clone(),
        instance_id: Some("one".to_owned()),
        generation_or_epoch: 1,
        ..commit_request(GROUP, "orders", 0, 5)
    });
    assert_eq!(error, Some(ErrorCode::FencedInstanceId));
}

#[test]
fn an_old_client_is_told_of_the_old_leader_so_that_it_does_not_assign() {
    let mut harness = Harness::default();
    let token = harness.join(fixed("one"));
    harness.advance(6_000);
    let old = harness.joined(token).unwrap().member_id;
    let token = harness.sync(sync_request(GROUP, &old, 1, Vec::new()));
    assert_eq!(harness.synced(token).unwrap().error, None);
    let token = harness.join(JoinRequest {
        supports_skip_assignment: false,
        ..fixed("one")
    });
    let reply = harness.joined(token).unwrap();
    assert_eq!(reply.leader, old);
    assert!(reply.members.is_empty() && !reply.skip_assignment);
}

#[test]
fn a_waiting_request_of_the_former_self_is_fenced() {
    let mut harness = Harness::default();
    let first = harness.join(fixed("one"));
    let second = harness.join(fixed("one"));
    let reply = harness.joined(first).unwrap();
    assert_eq!(reply.error, Some(ErrorCode::FencedInstanceId));
    harness.advance(6_000);
    assert_eq!(harness.joined(second).unwrap().members.len(), 1);
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance_id() {
    let mut harness = Harness::default();
    let token = harness.join(fixed("one"));
    harness.advance(6_000);
    assert_eq!(harness.joined(token).unwrap().error, None);
    let leaving = |member: &str, instance: &str| LeavingMember {
        member_id: member.to_owned(),
        instance_id: Some(instance.to_owned()),
        reason: None,
    };
    let reply = harness.leave_as(GROUP, &[leaving("wrong", "one"), leaving("", "two")]);
    assert_eq!(
        reply,
        Ok(vec![
            Some(ErrorCode::FencedInstanceId),
            Some(ErrorCode::UnknownMemberId)
        ])
    );
    assert_eq!(harness.leave_as(GROUP, &[leaving("", "one")]), Ok(vec![None]));
    assert_eq!(harness.state(GROUP), Some("Empty"));
}

#[test]
fn a_full_group_takes_nobody() {
    let mut harness = Harness::with(GroupConfig {
        max_size: 2,
        ..GroupConfig::default()
    });
    harness.stable(GROUP, 2);
    let token = harness.join(join_request(GROUP));
    let reply = harness.joined(token).unwrap();
    assert_eq!(reply.error, Some(ErrorCode::GroupMaxSizeReached));
    assert_eq!(harness.state(GROUP), Some("Stable"));
}

#[test]
fn members_survive_a_restart_and_get_a_session_to_be_heard_of() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable(GROUP, 2);
    harness.advance(40_000);
    let mut harness = harness.restarted();
    assert_eq!(harness.state(GROUP), Some("Stable"));
    harness.advance(40_000);
    for id in &ids {
        assert_eq!(harness.heartbeat(GROUP, id, generation), Ok(()));
    }
    let token = harness.sync(sync_request(GROUP, &ids[1], generation, Vec::new()));
    assert!(!harness.synced(token).unwrap().assignment.is_empty());
    harness.advance(45_000);
    assert_eq!(harness.state(GROUP), Some("Empty"));
}

#[test]
fn a_description_shows_metadata_and_assignments_of_a_stable_group_only() {
    let mut harness = Harness::default();
    let (ids, _) = harness.stable(GROUP, 1);
    let group = harness.coordinator.describe(GROUP).unwrap();
    assert_eq!((group.state, group.protocol.as_str()), ("Stable", "range"));
    assert_eq!(group.members[0].assignment, assignment("orders", &[0]));
    assert_eq!(group.members[0].client_host, "/192.0.2.1");
    harness.join(again(&ids[0]));
    harness.join(join_request(GROUP));
    harness.join(again(&ids[0]));
    let group = harness.coordinator.describe(GROUP).unwrap();
    assert_eq!(
        (group.state, group.protocol.as_str()),
        ("CompletingRebalance", "")
    );
    assert!(group.members[0].assignment.is_empty());
    let error = harness.coordinator.describe("other").unwrap_err();
    assert_eq!(error.code, ErrorCode::GroupIdNotFound);
}
