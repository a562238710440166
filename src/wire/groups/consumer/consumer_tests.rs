use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::wire::error_code::ErrorCode;
use crate::wire::groups::harness::*;
use crate::wire::groups::messages::*;

const GROUP: &str = "group";

fn orders() -> Uuid {
    Uuid::from_u128(1)
}

fn joining(member: &str) -> ConsumerHeartbeatRequest {
    ConsumerHeartbeatRequest {
        group_id: GROUP.to_owned(),
        member_id: member.to_owned(),
        member_epoch: 0,
        instance_id: None,
        rack_id: None,
        rebalance_timeout_ms: 300_000,
        subscribed_topics: Some(vec!["orders".to_owned()]),
        subscribed_regex: None,
        server_assignor: None,
        owned: Some(Vec::new()),
        client: client("client"),
        version: 1,
    }
}

/// A member that does as it is told.
struct Consumer {
    id: String,
    epoch: i32,
    owned: BTreeSet<i32>,
    instance: Option<String>,
    /// It missed an answer, so it says and asks everything once more.
    in_full: bool,
}

impl Consumer {
    fn join(harness: &mut Harness, id: &str) -> Self {
        Self::join_as(harness, joining(id))
    }

    fn join_as(harness: &mut Harness, request: ConsumerHeartbeatRequest) -> Self {
        let instance = request.instance_id.clone();
        let reply = harness.consumer(request).unwrap();
        let mut consumer = Self {
            id: reply.member_id.clone(),
            epoch: 0,
            owned: BTreeSet::new(),
            instance,
            in_full: false,
        };
        consumer.follow(reply);
        consumer
    }

    fn request(&self) -> ConsumerHeartbeatRequest {
        let owned = match self.owned.len() {
            0 => Vec::new(),
            _ => vec![(orders(), self.owned.iter().copied().collect())],
        };
        ConsumerHeartbeatRequest {
            member_epoch: self.epoch,
            instance_id: self.instance.clone(),
            rebalance_timeout_ms: if self.in_full { 300_000 } else { -1 },
            subscribed_topics: self.in_full.then(|| vec!["orders".to_owned()]),
            owned: Some(owned),
            ..joining(&self.id)
        }
    }

    fn follow(&mut self, reply: ConsumerHeartbeatReply) {
        self.epoch = reply.member_epoch;
        self.in_full = false;
        if let Some(assignment) = reply.assignment {
            self.owned = assignment
                .into_iter()
                .flat_map(|(topic, partitions)| {
                    assert_eq!(topic, orders());
                    partitions
                })
                .collect();
        }
    }

    fn beat(&mut self, harness: &mut Harness) {
        let reply = harness.consumer(self.request()).unwrap();
        self.follow(reply);
    }
}

fn settle(harness: &mut Harness, consumers: &mut [&mut Consumer]) {
    for _ in 0..6 {
        for consumer in consumers.iter_mut() {
            consumer.beat(harness);
        }
    }
}

#[test]
fn a_member_gets_everything_at_once_and_hears_nothing_new_then() {
    let mut harness = Harness::default();
    let consumer = Consumer::join(&mut harness, "a");
    assert_eq!(consumer.owned, (0..6).collect());
    assert_eq!(consumer.epoch, 1);
    assert_eq!(harness.state(GROUP), Some("Stable"));
    let reply = harness.consumer(consumer.request()).unwrap();
    assert_eq!((reply.member_epoch, reply.assignment), (1, None));
    assert_eq!(reply.heartbeat_interval_ms, 5_000);
    // A full request is answered in full.
    let full = ConsumerHeartbeatRequest {
        rebalance_timeout_ms: 300_000,
        subscribed_topics: Some(vec!["orders".to_owned()]),
        ..consumer.request()
    };
    let reply = harness.consumer(full).unwrap();
    assert_eq!(reply.assignment, Some(vec![(orders(), vec![0, 1, 2, 3, 4, 5])]));
}

#[test]
fn no_partition_is_given_on_before_it_was_given_up() {
    let mut harness = Harness::default();
    let mut a = Consumer::join(&mut harness, "a");
    let mut b = Consumer::join(&mut harness, "b");
    assert_eq!((b.owned.len(), b.epoch), (0, 2));
    assert_eq!(harness.state(GROUP), Some("Reconciling"));
    // "a" is told to give three up and has not done so yet.
    let owned_before = a.owned.clone();
    a.beat(&mut harness);
    assert_eq!((a.owned.len(), a.epoch), (3, 1));
    b.beat(&mut harness);
    assert!(b.owned.is_empty());
    let kept = std::mem::replace(&mut a.owned, owned_before);
    a.beat(&mut harness);
    assert_eq!(a.epoch, 1, "it still owns what it is to give up");
    b.beat(&mut harness);
    assert!(b.owned.is_empty());
    // Now it has.
    a.owned = kept;
    a.beat(&mut harness);
    assert_eq!(a.epoch, 2);
    b.beat(&mut harness);
    assert_eq!(b.owned.len(), 3);
    assert!(a.owned.is_disjoint(&b.owned));
    assert_eq!(harness.state(GROUP), Some("Stable"));
}

#[test]
fn a_member_that_does_not_give_up_in_time_is_removed() {
    let mut harness = Harness::default();
    let mut a = Consumer::join(&mut harness, "a");
    let mut b = Consumer::join(&mut harness, "b");
    let owned = a.owned.clone();
    a.beat(&mut harness);
    for _ in 0..20 {
        harness.advance(14_999);
        a.owned = owned.clone();
        a.beat(&mut harness);
        b.beat(&mut harness);
    }
    assert!(b.owned.is_empty());
    harness.advance(20);
    let error = harness.consumer(a.request()).unwrap_err();
    assert_eq!(error.code, ErrorCode::UnknownMemberId);
    b.beat(&mut harness);
    assert_eq!(b.owned.len(), 6);
}

#[test]
fn a_silent_member_is_removed_and_its_partitions_are_taken_over() {
    let mut harness = Harness::default();
    let mut a = Consumer::join(&mut harness, "a");
    let mut b = Consumer::join(&mut harness, "b");
    settle(&mut harness, &mut [&mut a, &mut b]);
    harness.advance(30_000);
    b.beat(&mut harness);
    harness.advance(15_000);
    assert_eq!(harness.state(GROUP), Some("Assigning"));
    b.beat(&mut harness);
    assert_eq!(b.owned.len(), 6);
}

#[test]
fn a_member_that_leaves_hands_over_at_once() {
    let mut harness = Harness::default();
    let mut a = Consumer::join(&mut harness, "a");
    let mut b = Consumer::join(&mut harness, "b");
    settle(&mut harness, &mut [&mut a, &mut b]);
    let leaving = ConsumerHeartbeatRequest {
        member_epoch: -1,
        ..a.request()
    };
    assert_eq!(harness.consumer(leaving).unwrap().member_epoch, -1);
    b.beat(&mut harness);
    assert_eq!(b.owned.len(), 6);
    let leaving = ConsumerHeartbeatRequest {
        member_epoch: -1,
        ..b.request()
    };
    harness.consumer(leaving).unwrap();
    assert_eq!(harness.state(GROUP), Some("Empty"));
}

#[test]
fn epochs_fence() {
    let mut harness = Harness::default();
    let mut a = Consumer::join(&mut harness, "a");
    let mut b = Consumer::join(&mut harness, "b");
    settle(&mut harness, &mut [&mut a, &mut b]);
    let ahead = ConsumerHeartbeatRequest {
        member_epoch: a.epoch + 1,
        ..a.request()
    };
    assert_eq!(
        harness.consumer(ahead).unwrap_err().code,
        ErrorCode::FencedMemberEpoch
    );
    // The answer with the new epoch got lost: the old one may go on with what it has.
    let missed = ConsumerHeartbeatRequest {
        member_epoch: a.epoch - 1,
        ..a.request()
    };
    let reply = harness.consumer(missed.clone()).unwrap();
    assert_eq!(reply.member_epoch, a.epoch);
    let owns_too_much = ConsumerHeartbeatRequest {
        owned: Some(vec![(orders(), vec![0, 1, 2, 3, 4, 5])]),
        ..missed
    };
    assert_eq!(
        harness.consumer(owns_too_much).unwrap_err().code,
        ErrorCode::FencedMemberEpoch
    );
    let stranger = ConsumerHeartbeatRequest {
        member_id: "stranger".to_owned(),
        ..a.request()
    };
    assert_eq!(
        harness.consumer(stranger).unwrap_err().code,
        ErrorCode::UnknownMemberId
    );
    let other_group = ConsumerHeartbeatRequest {
        group_id: "other".to_owned(),
        ..a.request()
    };
    assert_eq!(
        harness.consumer(other_group).unwrap_err().code,
        ErrorCode::GroupIdNotFound
    );
}

#[test]
fn requests_are_checked_before_anything_is_made() {
    let mut harness = Harness::default();
    let base = || joining("a");
    let invalid = [
        ConsumerHeartbeatRequest {
            group_id: String::new(),
            ..base()
        },
        ConsumerHeartbeatRequest {
            member_id: String::new(),
            ..base()
        },
        ConsumerHeartbeatRequest {
            instance_id: Some(String::new()),
            ..base()
        },
        ConsumerHeartbeatRequest {
            rack_id: Some(String::new()),
            ..base()
        },
        ConsumerHeartbeatRequest {
            rebalance_timeout_ms: -1,
            ..base()
        },
        ConsumerHeartbeatRequest {
            owned: None,
            ..base()
        },
        ConsumerHeartbeatRequest {
            owned: Some(vec![(orders(), vec![0])]),
            ..base()
        },
        ConsumerHeartbeatRequest {
            subscribed_topics: None,
            ..base()
        },
        ConsumerHeartbeatRequest {
            member_epoch: -2,
            ..base()
        },
        ConsumerHeartbeatRequest {
            member_epoch: -3,
            ..base()
        },
    ];
    for request in invalid {
        let shown = format!("{request:?}");
        let error = harness.consumer(request).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest, "{shown}");
    }
    let error = harness
        .consumer(ConsumerHeartbeatRequest {
            server_assignor: Some("sticky".to_owned()),
            ..base()
        })
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::UnsupportedAssignor);
    assert!(error.message.contains("uniform, range"), "{}", error.message);
    let error = harness
        .consumer(ConsumerHeartbeatRequest {
            subscribed_regex: Some("(".to_owned()),
            ..base()
        })
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRegularExpression);
    assert_eq!(harness.state(GROUP), None);
    // Version 0 may leave the choice of its id to the coordinator.
    let reply = harness.consumer(ConsumerHeartbeatRequest {
        member_id: String::new(),
        version: 0,
        ..base()
    });
    assert!(!reply.unwrap().member_id.is_empty());
}

#[test]
fn a_pattern_matches_whole_names_and_topics_that_come_later() {
    let mut harness = Harness::default();
    let request = ConsumerHeartbeatRequest {
        subscribed_topics: None,
        subscribed_regex: Some("ord.*|new".to_owned()),
        ..joining("a")
    };
    let reply = harness.consumer(request).unwrap();
    assert_eq!(reply.assignment, Some(vec![(orders(), vec![0, 1, 2, 3, 4, 5])]));
    harness.topic("new", 2, 1);
    harness.topic("newer", 3, 1);
    let beat = ConsumerHeartbeatRequest {
        member_epoch: reply.member_epoch,
        rebalance_timeout_ms: -1,
        subscribed_topics: None,
        owned: None,
        ..joining("a")
    };
    let reply = harness.consumer(beat).unwrap();
    assert_eq!(
        reply.assignment,
        Some(vec![
            (orders(), vec![0, 1, 2, 3, 4, 5]),
            (Uuid::from_u128(2), vec![0])
        ])
    );
    let readers = harness.coordinator.readers_of("new");
    assert!(readers[0].subscribed && readers[0].owned == BTreeSet::from([0]));
    assert_eq!(harness.coordinator.readers_of("newer"), []);
}

#[test]
fn new_partitions_are_assigned_and_topics_that_are_gone_are_not() {
    let mut harness = Harness::default();
    let mut a = Consumer::join(&mut harness, "a");
    harness.topic("orders", 1, 8);
    a.beat(&mut harness);
    assert_eq!((a.owned.len(), a.epoch), (8, 2));
    harness.delete_topic("orders");
    a.beat(&mut harness);
    assert!(a.owned.is_empty());
}

fn fixed(member: &str) -> ConsumerHeartbeatRequest {
    ConsumerHeartbeatRequest {
        instance_id: Some("one".to_owned()),
        ..joining(member)
    }
}

#[test]
fn a_static_member_that_is_away_keeps_its_partitions() {
    let mut harness = Harness::default();
    let mut one = Consumer::join_as(&mut harness, fixed("a"));
    let mut b = Consumer::join(&mut harness, "b");
    settle(&mut harness, &mut [&mut one, &mut b]);
    let epoch = b.epoch;
    let error = harness.consumer(fixed("c")).unwrap_err();
    assert_eq!(error.code, ErrorCode::UnreleasedInstanceId);
    let away = ConsumerHeartbeatRequest {
        member_epoch: -2,
        ..one.request()
    };
    assert_eq!(harness.consumer(away).unwrap().member_epoch, -2);
    b.beat(&mut harness);
    assert_eq!((b.owned.len(), b.epoch), (3, epoch));
    let back = Consumer::join_as(&mut harness, fixed("c"));
    assert_eq!((&back.owned, back.epoch), (&one.owned, epoch));
    assert_eq!(harness.state(GROUP), Some("Stable"));
    // The former self is fenced.
    let error = harness.consumer(one.request()).unwrap_err();
    assert_eq!(error.code, ErrorCode::FencedInstanceId);
}

#[test]
fn a_static_member_that_stays_away_is_removed() {
    let mut harness = Harness::default();
    let mut one = Consumer::join_as(&mut harness, fixed("a"));
    let mut b = Consumer::join(&mut harness, "b");
    settle(&mut harness, &mut [&mut one, &mut b]);
    let away = ConsumerHeartbeatRequest {
        member_epoch: -2,
        ..one.request()
    };
    harness.consumer(away).unwrap();
    for _ in 0..3 {
        harness.advance(15_000);
        b.beat(&mut harness);
    }
    assert_eq!(b.owned.len(), 6);
    // Its instance id is free again.
    let reply = harness.consumer(fixed("c"));
    assert!(reply.is_ok());
}

#[test]
fn members_commit_and_fetch_with_their_epoch() {
    let mut harness = Harness::default();
    let a = Consumer::join(&mut harness, "a");
    let commit = |epoch: i32, member: &str, version: i16| CommitRequest {
        generation_or_epoch: epoch,
        member_id: member.to_owned(),
        version,
        ..commit_request(GROUP, "orders", 0, 3)
    };
    assert_eq!(harness.commit(commit(a.epoch, "a", 9)), None);
    for (request, error) in [
        (commit(a.epoch + 1, "a", 9), ErrorCode::StaleMemberEpoch),
        (commit(a.epoch, "b", 9), ErrorCode::UnknownMemberId),
        (commit(a.epoch, "a", 8), ErrorCode::UnsupportedVersion),
        (commit(-1, "", 9), ErrorCode::UnknownMemberId),
    ] {
        assert_eq!(harness.commit(request), Some(error));
    }
    let fetch = |member: Option<&str>, epoch: i32| {
        harness.coordinator.fetch_offsets(FetchOffsetsRequest {
            group_id: GROUP.to_owned(),
            member_id: member.map(str::to_owned),
            member_epoch: epoch,
            topics: None,
        })
    };
    assert!(fetch(None, -1).is_ok());
    assert!(fetch(Some("a"), a.epoch).is_ok());
    assert_eq!(fetch(Some("a"), a.epoch + 1), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(fetch(Some("b"), a.epoch), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn protocols_do_not_mix_but_an_empty_group_changes_over_with_its_commits() {
    let mut harness = Harness::default();
    let (ids, _) = harness.stable(GROUP, 1);
    let error = harness.consumer(joining("a")).unwrap_err();
    assert_eq!(error.code, ErrorCode::GroupIdNotFound);
    harness.leave(GROUP, &[&ids[0]]).unwrap();
    assert_eq!(harness.commit(commit_request(GROUP, "orders", 0, 3)), None);
    let a = Consumer::join(&mut harness, "a");
    assert_eq!(harness.committed(GROUP, "orders", 0), Some(3));
    let token = harness.join(join_request(GROUP));
    assert_eq!(
        harness.joined(token).unwrap().error,
        Some(ErrorCode::InconsistentGroupProtocol)
    );
    let leaving = ConsumerHeartbeatRequest {
        member_epoch: -1,
        ..a.request()
    };
    harness.consumer(leaving).unwrap();
    let token = harness.join(join_request(GROUP));
    assert_eq!(
        harness.joined(token).unwrap().error,
        Some(ErrorCode::MemberIdRequired)
    );
    assert_eq!(harness.committed(GROUP, "orders", 0), Some(3));
}

#[test]
fn commits_age_from_the_commit_as_soon_as_nobody_subscribes() {
    let mut harness = Harness::default();
    let mut a = Consumer::join(&mut harness, "a");
    let commit = CommitRequest {
        generation_or_epoch: a.epoch,
        member_id: "a".to_owned(),
        version: 9,
        ..commit_request(GROUP, "orders", 0, 3)
    };
    assert_eq!(harness.commit(commit), None);
    for _ in 0..(8 * DAY_MS / 40_000) {
        harness.advance(40_000);
        a.beat(&mut harness);
    }
    harness.expire();
    assert_eq!(harness.committed(GROUP, "orders", 0), Some(3));
    let leaving = ConsumerHeartbeatRequest {
        member_epoch: -1,
        ..a.request()
    };
    harness.consumer(leaving).unwrap();
    harness.expire();
    assert_eq!(harness.committed(GROUP, "orders", 0), None);
    assert_eq!(harness.state(GROUP), None);
}

#[test]
fn a_group_survives_a_restart() {
    let mut harness = Harness::default();
    let mut a = Consumer::join(&mut harness, "a");
    let mut b = Consumer::join(&mut harness, "b");
    settle(&mut harness, &mut [&mut a, &mut b]);
    let (owned, epoch) = (a.owned.clone(), a.epoch);
    let mut harness = harness.restarted();
    settle(&mut harness, &mut [&mut a, &mut b]);
    assert_eq!(a.owned, owned);
    assert!(a.epoch >= epoch);
    assert_eq!(harness.state(GROUP), Some("Stable"));
    let described = harness.coordinator.consumer_describe(GROUP).unwrap();
    assert_eq!(described.members.len(), 2);
    assert_eq!(described.members[0].subscribed_topics, ["orders"]);
    assert_eq!(described.members[0].assignment[0].1, "orders");
    assert_eq!(
        described.members[0].target[0].2,
        owned.into_iter().collect::<Vec<_>>()
    );
}

#[path = "random_tests.rs"]
mod random;
