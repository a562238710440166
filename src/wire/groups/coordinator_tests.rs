use super::*;
use crate::wire::error_code::ErrorCode;
use crate::wire::groups::harness::*;
use crate::wire::groups::messages::*;
use crate::wire::groups::record::Gone;

#[test]
fn a_commit_is_seen_only_once_it_is_durable() {
    let mut harness = Harness {
        hold: true,
        ..Harness::default()
    };
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 7)), None);
    assert_eq!(harness.committed("g", "orders", 0), None);
    assert_eq!(harness.coordinator.readers_of("orders"), []);
    harness.settle(true);
    assert_eq!(harness.committed("g", "orders", 0), Some(7));
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 9)), None);
    harness.settle(false);
    assert_eq!(harness.committed("g", "orders", 0), Some(7));
}

#[test]
fn standalone_commits_go_in_while_the_group_is_empty() {
    let mut harness = Harness::default();
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 7)), None);
    assert_eq!(harness.state("g"), Some("Empty"));
    // Made-up member ids and the empty group id are taken as Kafka takes them.
    let made_up = CommitRequest {
        member_id: "nobody".to_owned(),
        ..commit_request("", "orders", 0, -7)
    };
    assert_eq!(harness.commit(made_up), None);
    assert_eq!(harness.committed("", "orders", 0), Some(-7));
    let (_, generation) = harness.stable("g", 1);
    let refused = harness.commit(commit_request("g", "orders", 0, 8));
    assert_eq!(refused, Some(ErrorCode::UnknownMemberId));
    let refused = harness.commit(CommitRequest {
        generation_or_epoch: generation,
        member_id: "nobody".to_owned(),
        ..commit_request("g", "orders", 0, 8)
    });
    assert_eq!(refused, Some(ErrorCode::UnknownMemberId));
    assert_eq!(harness.committed("g", "orders", 0), Some(7));
}

#[test]
fn commits_of_members_are_checked() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable("g", 2);
    let commit = |generation: i32, member: &str| CommitRequest {
        generation_or_epoch: generation,
        member_id: member.to_owned(),
        ..commit_request("g", "orders", 0, 3)
    };
    assert_eq!(harness.commit(commit(generation, &ids[0])), None);
    assert_eq!(
        harness.commit(commit(generation - 1, &ids[0])),
        Some(ErrorCode::IllegalGeneration)
    );
    // While a rebalance is prepared the old generation may still commit what it has read.
    let waiting = harness.join(JoinRequest {
        member_id: ids[0].clone(),
        ..join_request("g")
    });
    assert_eq!(harness.commit(commit(generation, &ids[1])), None);
    harness.join(JoinRequest {
        member_id: ids[1].clone(),
        ..join_request("g")
    });
    let generation = harness.joined(waiting).unwrap().generation_id;
    assert_eq!(
        harness.commit(commit(generation, &ids[0])),
        Some(ErrorCode::RebalanceInProgress)
    );
}

#[test]
fn what_an_unknown_group_is_told_depends_on_the_version() {
    let mut harness = Harness::default();
    for (version, error) in [(8, ErrorCode::IllegalGeneration), (9, ErrorCode::GroupIdNotFound)] {
        let refused = harness.commit(CommitRequest {
            generation_or_epoch: 1,
            member_id: "m".to_owned(),
            version,
            ..commit_request("none", "orders", 0, 3)
        });
        assert_eq!(refused, Some(error));
    }
}

#[test]
fn partitions_are_judged_one_by_one() {
    let mut harness = Harness::default();
    let partition = |partition: i32, metadata: usize| CommitPartition {
        partition,
        offset: 5,
        leader_epoch: 3,
        metadata: Some("x".repeat(metadata)),
    };
    let request = CommitRequest {
        topics: vec![
            (
                "orders".to_owned(),
                vec![
                    partition(0, 4_096),
                    partition(1, 4_097),
                    partition(6, 0),
                    partition(-1, 0),
                ],
            ),
            ("none".to_owned(), vec![partition(0, 0)]),
        ],
        ..commit_request("g", "orders", 0, 0)
    };
    let mut out = Output::new();
    let results = harness.coordinator.commit(harness.now, request, &mut out);
    harness.take(out);
    let unknown = Some(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(
        results,
        [
            (
                "orders".to_owned(),
                vec![
                    (0, None),
                    (1, Some(ErrorCode::OffsetMetadataTooLarge)),
                    (6, unknown),
                    (-1, unknown)
                ]
            ),
            ("none".to_owned(), vec![(0, unknown)]),
        ]
    );
    let reply = harness.coordinator.fetch_offsets(FetchOffsetsRequest {
        group_id: "g".to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: None,
    });
    let fetched = FetchedOffset {
        offset: 5,
        leader_epoch: 3,
        metadata: "x".repeat(4_096),
    };
    assert_eq!(reply, Ok(vec![("orders".to_owned(), vec![(0, Some(fetched))])]));
}

#[test]
fn offsets_of_unknown_groups_are_none_and_no_error() {
    let harness = Harness::default();
    let reply = harness.coordinator.fetch_offsets(FetchOffsetsRequest {
        group_id: "none".to_owned(),
        member_id: None,
        member_epoch: -1,
        topics: Some(vec![("orders".to_owned(), vec![0, 99])]),
    });
    assert_eq!(
        reply,
        Ok(vec![("orders".to_owned(), vec![(0, None), (99, None)])])
    );
}

#[test]
fn groups_are_deleted_only_without_members() {
    let mut harness = Harness::default();
    let (ids, _) = harness.stable("g", 1);
    let delete = |harness: &mut Harness, group: &str| {
        let mut out = Output::new();
        let result = harness.coordinator.delete_group(group, &mut out);
        harness.take(out);
        result
    };
    assert_eq!(delete(&mut harness, "g"), Err(ErrorCode::NonEmptyGroup));
    assert_eq!(delete(&mut harness, "none"), Err(ErrorCode::GroupIdNotFound));
    harness.leave("g", &[&ids[0]]).unwrap();
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 7)), None);
    assert_eq!(delete(&mut harness, "g"), Ok(()));
    assert_eq!(harness.committed("g", "orders", 0), None);
    assert_eq!(harness.state("g"), None);
    assert_eq!(harness.coordinator.readers_of("orders"), []);
    assert_eq!(harness.restarted().state("g"), None);
}

#[test]
fn a_commit_under_way_when_its_group_is_deleted_goes_with_it() {
    let mut harness = Harness {
        hold: true,
        ..Harness::default()
    };
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 7)), None);
    let mut out = Output::new();
    assert_eq!(harness.coordinator.delete_group("g", &mut out), Ok(()));
    harness.take(out);
    assert_eq!(harness.commit(commit_request("g", "orders", 1, 8)), None);
    harness.settle(true);
    assert_eq!(harness.committed("g", "orders", 0), None);
    assert_eq!(harness.committed("g", "orders", 1), Some(8));
    assert_eq!(harness.restarted().committed("g", "orders", 1), Some(8));
}

#[test]
fn offsets_of_a_subscribed_topic_are_not_deleted() {
    let mut harness = Harness::default();
    harness.topic("other", 2, 1);
    let (ids, generation) = harness.stable("g", 1);
    for topic in ["orders", "other"] {
        let error = harness.commit(CommitRequest {
            generation_or_epoch: generation,
            member_id: ids[0].clone(),
            ..commit_request("g", topic, 0, 3)
        });
        assert_eq!(error, None);
    }
    let delete = |harness: &mut Harness, group: &str| {
        let topics = vec![
            ("orders".to_owned(), vec![0, 1]),
            ("other".to_owned(), vec![0, 5]),
        ];
        let mut out = Output::new();
        let result = harness.coordinator.delete_offsets(group, topics, &mut out);
        harness.take(out);
        result
    };
    let subscribed = Some(ErrorCode::GroupSubscribedToTopic);
    let unknown = Some(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(
        delete(&mut harness, "g"),
        Ok(vec![
            ("orders".to_owned(), vec![(0, subscribed), (1, subscribed)]),
            ("other".to_owned(), vec![(0, None), (5, unknown)]),
        ])
    );
    assert_eq!(harness.committed("g", "orders", 0), Some(3));
    assert_eq!(harness.committed("g", "other", 0), None);
    assert_eq!(delete(&mut harness, "none"), Err(ErrorCode::GroupIdNotFound));
}

#[test]
fn lists_are_filtered_without_regard_to_case() {
    let mut harness = Harness::default();
    harness.stable("stable", 1);
    assert_eq!(harness.commit(commit_request("simple", "orders", 0, 1)), None);
    let names = |states: &[&str], kinds: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let listed = harness.coordinator.list(&owned(states), &owned(kinds));
        listed
            .into_iter()
            .map(|group| (group.group_id, group.protocol_type))
            .collect::<Vec<_>>()
    };
    let stable = ("stable".to_owned(), "consumer".to_owned());
    let simple = ("simple".to_owned(), String::new());
    assert_eq!(names(&[], &[]), [simple.clone(), stable.clone()]);
    assert_eq!(names(&["stable"], &["CLASSIC"]), [stable]);
    assert_eq!(names(&["EMPTY"], &[]), [simple]);
    assert_eq!(names(&[], &["consumer"]), []);
    assert_eq!(names(&["NoSuchState"], &[]), []);
}

// Expiry, kafka-log.md 8.2.

#[test]
fn standalone_commits_expire_by_their_own_age_even_if_the_consumer_lives() {
    let mut harness = Harness::default();
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 1)), None);
    harness.advance(DAY_MS);
    assert_eq!(harness.commit(commit_request("g", "orders", 1, 1)), None);
    harness.advance(6 * DAY_MS - 1);
    harness.expire();
    assert_eq!(harness.committed("g", "orders", 0), Some(1));
    harness.advance(1);
    harness.expire();
    assert_eq!(harness.committed("g", "orders", 0), None);
    assert_eq!(harness.committed("g", "orders", 1), Some(1));
    assert_eq!(harness.state("g"), Some("Empty"));
    harness.advance(DAY_MS);
    harness.expire();
    assert_eq!(harness.state("g"), None);
}

#[test]
fn commits_of_a_group_age_from_when_it_became_empty() {
    let mut harness = Harness::default();
    let (ids, generation) = harness.stable("g", 1);
    let commit = CommitRequest {
        generation_or_epoch: generation,
        member_id: ids[0].clone(),
        ..commit_request("g", "orders", 0, 3)
    };
    assert_eq!(harness.commit(commit), None);
    // Alive and subscribed for 30 days: nothing expires.
    for _ in 0..30 {
        for _ in 0..(DAY_MS / 40_000) {
            harness.advance(40_000);
            let _ = harness.heartbeat("g", &ids[0], generation);
        }
        harness.expire();
    }
    assert_eq!(harness.committed("g", "orders", 0), Some(3));
    harness.leave("g", &[&ids[0]]).unwrap();
    harness.advance(7 * DAY_MS - 1);
    harness.expire();
    assert_eq!(harness.committed("g", "orders", 0), Some(3));
    // Not even a restart starts the seven days anew.
    let mut harness = harness.restarted();
    harness.advance(1);
    harness.expire();
    assert_eq!(harness.committed("g", "orders", 0), None);
    assert_eq!(harness.state("g"), None);
}

#[test]
fn commits_on_topics_nobody_subscribes_to_expire_in_a_stable_group() {
    let mut harness = Harness::default();
    harness.topic("old", 2, 1);
    assert_eq!(harness.commit(commit_request("g", "old", 0, 5)), None);
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 5)), None);
    harness.stable("g", 1);
    let since = harness.now;
    harness.now.wall_ms += 7 * DAY_MS;
    harness.expire();
    assert_eq!(harness.committed("g", "old", 0), None);
    assert_eq!(harness.committed("g", "orders", 0), Some(5));
    // While it rebalances nothing expires.
    harness.now = since;
    assert_eq!(harness.state("g"), Some("Stable"));
}

#[test]
fn nothing_expires_in_a_rebalance_or_under_another_protocol_type() {
    let mut harness = Harness::default();
    harness.topic("old", 2, 1);
    assert_eq!(harness.commit(commit_request("g", "old", 0, 5)), None);
    let (ids, _) = harness.stable("g", 2);
    harness.join(JoinRequest {
        member_id: ids[0].clone(),
        ..join_request("g")
    });
    assert_eq!(harness.state("g"), Some("PreparingRebalance"));
    harness.now.wall_ms += 30 * DAY_MS;
    harness.expire();
    assert_eq!(harness.committed("g", "old", 0), Some(5));

    let mut harness = Harness::default();
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 5)), None);
    let token = harness.join(JoinRequest {
        protocol_type: "connect".to_owned(),
        requires_known_member_id: false,
        ..join_request("g")
    });
    harness.advance(6_000);
    let member = harness.joined(token).unwrap().member_id;
    let request = SyncRequest {
        protocol_type: None,
        ..sync_request("g", &member, 1, Vec::new())
    };
    let token = harness.sync(request);
    assert_eq!(harness.synced(token).unwrap().error, None);
    harness.now.wall_ms += 30 * DAY_MS;
    harness.expire();
    assert_eq!(harness.committed("g", "orders", 0), Some(5));
}

#[test]
fn a_retention_of_its_own_decides_alone() {
    let mut harness = Harness::default();
    let short = CommitRequest {
        retention_time_ms: 1_000,
        ..commit_request("g", "orders", 0, 1)
    };
    let long = CommitRequest {
        retention_time_ms: 30 * DAY_MS,
        ..commit_request("g", "orders", 1, 1)
    };
    assert_eq!((harness.commit(short), harness.commit(long)), (None, None));
    harness.advance(999);
    harness.expire();
    assert_eq!(harness.committed("g", "orders", 0), Some(1));
    harness.advance(1);
    harness.expire();
    assert_eq!(harness.committed("g", "orders", 0), None);
    harness.advance(29 * DAY_MS);
    harness.expire();
    assert_eq!(harness.committed("g", "orders", 1), Some(1));
}

#[test]
fn a_commit_under_way_keeps_its_group_from_expiring() {
    let mut harness = Harness::default();
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 1)), None);
    harness.advance(8 * DAY_MS);
    harness.hold = true;
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 2)), None);
    harness.expire();
    harness.settle(true);
    assert_eq!(harness.committed("g", "orders", 0), Some(2));
}

#[test]
fn an_expired_position_is_remembered() {
    let mut harness = Harness::default();
    assert_eq!(harness.commit(commit_request("batch", "orders", 0, 300)), None);
    let committed_ms = harness.now.wall_ms;
    harness.advance(7 * DAY_MS);
    harness.expire();
    let mut harness = harness.restarted();
    let readers = harness.coordinator.readers_of("orders");
    assert_eq!(readers.len(), 1);
    assert!(readers[0].committed.is_empty());
    let former = &readers[0].former[&0];
    assert_eq!(
        (former.last.offset, former.last.commit_ms, former.why),
        (300, committed_ms, Gone::Expired)
    );
    // It stays however long it takes, until the group commits again or a person deletes it.
    harness.advance(400 * DAY_MS);
    harness.expire();
    assert_eq!(harness.coordinator.readers_of("orders")[0].former.len(), 1);
    assert_eq!(harness.commit(commit_request("batch", "orders", 0, 310)), None);
    assert!(harness.coordinator.readers_of("orders")[0].former.is_empty());
    assert!(
        harness.restarted().coordinator.readers_of("orders")[0]
            .former
            .is_empty()
    );
}

#[test]
fn the_oldest_remembered_positions_go_first() {
    let mut harness = Harness::with(GroupConfig {
        max_former_positions: 2,
        ..GroupConfig::default()
    });
    for partition in 0..4 {
        let request = commit_request("g", "orders", partition, 1);
        assert_eq!(harness.commit(request), None);
        harness.advance(1_000);
    }
    harness.advance(7 * DAY_MS - 4_000);
    for _ in 0..6 {
        harness.expire();
        harness.advance(1_000);
    }
    harness.expire();
    let former = &harness.coordinator.readers_of("orders")[0].former;
    assert_eq!(former.keys().copied().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_required_group_is_remembered_however_many_there_are_and_however_old_it_is() {
    let mut harness = Harness::with(GroupConfig {
        max_former_positions: 2,
        ..GroupConfig::default()
    });
    for (group, partition) in [
        ("batch", 0),
        ("batch", 1),
        ("batch", 2),
        ("a", 0),
        ("b", 0),
        ("c", 0),
    ] {
        assert_eq!(
            harness.commit(commit_request(group, "orders", partition, 1)),
            None
        );
        harness.advance(1_000);
    }
    harness.advance(7 * DAY_MS);
    let required = [("orders", "batch"), ("clicks", "a")];
    harness.expire_but(&required);
    harness.expire_but(&required);
    let remembered = |harness: &Harness| {
        let readers = harness.coordinator.readers_of("orders");
        let of = readers.iter().filter(|reader| !reader.former.is_empty());
        of.map(|reader| (reader.group.to_string(), reader.former.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        remembered(&harness),
        [("batch".to_owned(), 3)],
        "the older ones of others went in its place"
    );
    harness.delete_topic("orders");
    harness.topic("orders", 77, 6);
    harness.advance(400 * DAY_MS);
    harness.expire_but(&required);
    assert_eq!(remembered(&harness.restarted()), [("batch".to_owned(), 3)]);
    harness.expire();
    assert_eq!(remembered(&harness.restarted()), [("batch".to_owned(), 2)]);
}

#[test]
fn commits_end_with_their_topic_and_are_remembered_as_of_that_topic() {
    let mut harness = Harness::default();
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 10)), None);
    harness.delete_topic("orders");
    harness.topic("orders", 77, 6);
    assert_eq!(harness.committed("g", "orders", 0), None);
    let readers = harness.coordinator.readers_of("orders");
    let former = &readers[0].former[&0];
    assert_eq!((former.last.offset, former.why), (10, Gone::TopicDeleted));
    assert_eq!(former.last.topic_id, Uuid::from_u128(1));
    harness.advance(7 * DAY_MS);
    harness.expire();
    assert_eq!(harness.coordinator.readers_of("orders"), []);
}

#[test]
fn a_commit_under_way_when_its_topic_is_made_anew_does_not_count_for_the_new_one() {
    let mut harness = Harness {
        hold: true,
        ..Harness::default()
    };
    assert_eq!(harness.commit(commit_request("g", "orders", 0, 10)), None);
    harness.delete_topic("orders");
    harness.topic("orders", 77, 6);
    harness.settle(true);
    assert_eq!(harness.committed("g", "orders", 0), None);
    let readers = harness.coordinator.readers_of("orders");
    assert_eq!(readers[0].committed[&0].topic_id, Uuid::from_u128(1));
}

#[test]
fn readers_are_committers_members_and_owners() {
    let mut harness = Harness::default();
    assert_eq!(harness.commit(commit_request("simple", "orders", 3, 30)), None);
    harness.stable("live", 2);
    harness.topic("other", 5, 1);
    let readers = harness.coordinator.readers_of("orders");
    let shown: Vec<_> = readers
        .iter()
        .map(|reader| {
            let owned: Vec<_> = reader.owned.iter().copied().collect();
            (
                &*reader.group,
                reader.state,
                reader.members,
                reader.subscribed,
                owned,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("live", "Stable", 2, true, vec![0, 1]),
            ("simple", "Empty", 0, false, vec![])
        ]
    );
    assert_eq!(readers[1].committed[&3].offset, 30);
    assert_eq!(harness.coordinator.readers_of("other"), []);
}
