use uuid::Uuid;

use super::*;
use crate::wire::fetch::request::AskedTopic;

fn request(session_id: i32, session_epoch: i32, topics: &[(&str, i32, i64)]) -> FetchRequest {
    let asked = topics.iter().map(|(name, partition, offset)| AskedTopic {
        key: TopicKey::Name(Arc::from(*name)),
        partitions: vec![Position {
            partition: *partition,
            current_leader_epoch: -1,
            fetch_offset: *offset,
            last_fetched_epoch: -1,
            max_bytes: 1_000,
        }],
    });
    FetchRequest {
        replica_id: -1,
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 1_000,
        read_committed: false,
        session_id,
        session_epoch,
        topics: asked.collect(),
        forgotten: Vec::new(),
        elements: 0,
    }
}

fn opened(sessions: &FetchSessions, topics: &[(&str, i32, i64)], now: Duration) -> Option<i32> {
    match sessions.enter(&request(0, 0, topics), false, now) {
        Scope::Session { session, full: true } => Some(session.lock().id),
        Scope::Sessionless => None,
        other => panic!("{other:?}"),
    }
}

fn followed(scope: Scope) -> Vec<(String, i64)> {
    let Scope::Session { session, full: false } = scope else {
        panic!("{scope:?}")
    };
    let session = session.lock();
    let name = |key: &TopicKey| match key {
        TopicKey::Name(name) => name.to_string(),
        TopicKey::Id(id) => id.to_string(),
    };
    let pairs = session.partitions.iter();
    pairs
        .map(|((key, _), followed)| (name(key), followed.position.fetch_offset))
        .collect()
}

#[test]
fn a_session_remembers_what_the_client_does_not_repeat() {
    let sessions = FetchSessions::new(10);
    let id = opened(&sessions, &[("a", 0, 5), ("b", 0, 6)], Duration::ZERO).unwrap();
    let moved = sessions.enter(&request(id, 1, &[("a", 0, 9)]), false, Duration::ZERO);
    assert_eq!(followed(moved), [("a".to_owned(), 9), ("b".to_owned(), 6)]);
    let mut forget = request(id, 2, &[("c", 1, 0)]);
    forget.forgotten = vec![(TopicKey::Name(Arc::from("a")), vec![0])];
    let changed = sessions.enter(&forget, false, Duration::ZERO);
    assert_eq!(followed(changed), [("b".to_owned(), 6), ("c".to_owned(), 0)]);
}

#[test]
fn a_wrong_epoch_an_unknown_session_and_a_change_of_naming_are_refused() {
    let sessions = FetchSessions::new(10);
    let id = opened(&sessions, &[("a", 0, 5)], Duration::ZERO).unwrap();
    for (id, epoch, by_id, code) in [
        (id, 2, false, ErrorCode::InvalidFetchSessionEpoch),
        (id.wrapping_add(1), 1, false, ErrorCode::FetchSessionIdNotFound),
        (id, 1, true, ErrorCode::FetchSessionTopicIdError),
    ] {
        match sessions.enter(&request(id, epoch, &[]), by_id, Duration::ZERO) {
            Scope::Refused(refused) => assert_eq!(refused, code),
            other => panic!("{other:?}"),
        }
    }
    // None of that used up the epoch.
    followed(sessions.enter(&request(id, 1, &[]), false, Duration::ZERO));
}

#[test]
fn the_final_epoch_ends_a_session_and_the_initial_one_replaces_it() {
    let sessions = FetchSessions::new(10);
    let id = opened(&sessions, &[("a", 0, 5)], Duration::ZERO).unwrap();
    let ended = sessions.enter(&request(id, -1, &[("a", 0, 5)]), false, Duration::ZERO);
    assert!(matches!(ended, Scope::Sessionless));
    assert_eq!(sessions.len(), 0);
    let id = opened(&sessions, &[("a", 0, 5)], Duration::ZERO).unwrap();
    let again = sessions.enter(&request(id, 0, &[("a", 0, 5)]), false, Duration::ZERO);
    assert!(matches!(again, Scope::Session { full: true, .. }));
    assert_eq!(sessions.len(), 1);
    // A session of nothing is not worth a slot.
    assert_eq!(opened(&sessions, &[], Duration::ZERO), None);
}

#[test]
fn a_full_cache_keeps_who_is_in_use() {
    let sessions = FetchSessions::new(2);
    let first = opened(&sessions, &[("a", 0, 0)], Duration::ZERO).unwrap();
    let second = opened(&sessions, &[("b", 0, 0)], Duration::from_secs(1)).unwrap();
    assert_eq!(opened(&sessions, &[("c", 0, 0)], EVICTABLE_AFTER), None);
    followed(sessions.enter(&request(first, 1, &[]), false, EVICTABLE_AFTER));
    let third = opened(
        &sessions,
        &[("c", 0, 0)],
        EVICTABLE_AFTER + Duration::from_secs(2),
    );
    assert!(third.is_some());
    followed(sessions.enter(&request(first, 2, &[]), false, EVICTABLE_AFTER));
    let gone = sessions.enter(&request(second, 1, &[]), false, EVICTABLE_AFTER);
    assert!(matches!(gone, Scope::Refused(ErrorCode::FetchSessionIdNotFound)));
}

#[test]
fn the_epoch_wraps_past_zero() {
    assert_eq!(epoch_after(i32::MAX), 1);
    assert_eq!(epoch_after(1), 2);
    assert_ne!(TopicKey::Id(Uuid::nil()), TopicKey::Name(Arc::from("")));
}

#[test]
fn sessions_hold_so_much_and_the_next_client_goes_without() {
    let mut sessions = FetchSessions::new(1_000);
    sessions.most = 4 * FOLLOWED + 100;
    let id = opened(&sessions, &[("a", 0, 0), ("a", 1, 0)], Duration::ZERO).unwrap();
    assert!(opened(&sessions, &[("b", 0, 0)], Duration::ZERO).is_some());
    assert_eq!(
        opened(&sessions, &[("c", 0, 0), ("c", 1, 0)], Duration::ZERO),
        None
    );
    sessions.most = 3 * FOLLOWED + 10;
    // What is followed already moves on, where there is no room for more; what would be too much ends the session, and the client asks anew.
    let moved = sessions.enter(&request(id, 1, &[("a", 0, 7)]), false, Duration::ZERO);
    assert_eq!(followed(moved).len(), 2);
    let more = request(id, 2, &[("d", 0, 0), ("d", 1, 0)]);
    assert!(matches!(
        sessions.enter(&more, false, Duration::ZERO),
        Scope::Refused(ErrorCode::FetchSessionIdNotFound)
    ));
    // Its room is free again, and so is that of what a client forgets.
    let id = opened(&sessions, &[("c", 0, 0), ("c", 1, 0)], Duration::ZERO).unwrap();
    let mut forget = request(id, 1, &[]);
    forget.forgotten = vec![(TopicKey::Name(Arc::from("c")), vec![0, 1])];
    sessions.enter(&forget, false, Duration::ZERO);
    assert!(opened(&sessions, &[("e", 0, 0), ("e", 1, 0)], Duration::ZERO).is_some());
}
