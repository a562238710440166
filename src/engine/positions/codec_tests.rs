use proptest::prelude::*;

use super::*;
use crate::engine::store::Operation;
use crate::wire::groups::record::ClassicSnapshot;

fn key(group: &str, topic: &str, partition: i32) -> PositionKey {
    PositionKey {
        group: group.into(),
        topic: topic.into(),
        partition,
    }
}

fn group_record(group: &str, generation: i32) -> Record {
    Record::Group {
        group: group.into(),
        snapshot: GroupSnapshot::Classic(ClassicSnapshot {
            protocol_type: None,
            generation,
            protocol_name: None,
            leader: None,
            state_since_ms: 0,
            members: Vec::new(),
            read_last: Default::default(),
        }),
    }
}

proptest! {
    #[test]
    fn keys_come_back(group in ".{0,20}", topic in "[a-z._-]{1,20}", partition in any::<i32>()) {
        let key = key(&group, &topic, partition);
        prop_assert_eq!(read_position_key(&position_key(&key)), Some(key));
    }

    #[test]
    fn commits_come_back(
        offset in any::<i64>(), leader_epoch in any::<i32>(), metadata in ".{0,40}", commit_ms in any::<i64>(),
        expire_ms in proptest::option::of(0..i64::MAX), id in any::<u128>(),
    ) {
        let value = CommittedOffset {
            offset, leader_epoch, metadata: metadata.into(), commit_ms, expire_ms, topic_id: Uuid::from_u128(id),
        };
        prop_assert_eq!(read_commit_value(&commit_value(&value)), Some(value));
    }

    #[test]
    fn no_groups_keys_begin_anothers(left in "[ab]{0,3}", right in "[ab]{0,3}") {
        let prefix = group_key(&left);
        let other = position_key(&key(&right, "t", 0));
        prop_assert_eq!(other.starts_with(&prefix), left == right);
    }
}

#[test]
fn cut_entries_are_refused() {
    let bytes = position_key(&key("group", "topic", 3));
    for cut in 0..bytes.len() {
        assert_eq!(read_position_key(&bytes[..cut]), None, "{cut} bytes");
    }
    assert_eq!(read_commit_value(&[0; COMMIT_BYTES - 1]), None);
    assert!(read_former(b"{}").is_err());
    assert!(read_group(&group_key("g"), b"{}").is_err());
    assert!(read_group(b"g", b"{}").is_err());
}

#[test]
fn of_several_states_of_a_group_the_last_is_written() {
    let gone = Record::GroupGone {
        group: "a".into(),
        forget_former: false,
    };
    let records = [
        group_record("a", 1),
        gone,
        group_record("a", 2),
        group_record("b", 1),
        group_record("a", 3),
    ];
    let batch = batch(records.iter()).unwrap();
    let puts: Vec<_> = batch
        .0
        .iter()
        .filter_map(|operation| match operation {
            Operation::Put { key, value, .. } => Some(read_group(key, value).unwrap()),
            _ => None,
        })
        .map(|(id, snapshot)| match snapshot {
            GroupSnapshot::Classic(snapshot) => (id, snapshot.generation),
            GroupSnapshot::Consumer(_) => panic!("not a consumer group"),
        })
        .collect();
    assert_eq!(puts, [("b".to_owned(), 1), ("a".to_owned(), 3)]);
    // The end of the first group comes before the second is written.
    assert!(matches!(batch.0[0], Operation::Remove { .. }));
}
