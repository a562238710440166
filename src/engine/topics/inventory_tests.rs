use super::*;

const ID: Uuid = Uuid::from_u128(0x11);
const OTHER: Uuid = Uuid::from_u128(0x22);

fn found(name: &str, id: Option<Uuid>) -> FoundDirectory {
    FoundDirectory {
        name: name.to_owned(),
        topic_id: Ok(id),
    }
}

fn record(name: &str, id: Uuid, partitions: i32, directories: i32) -> TopicRecord {
    let mut record = TopicRecord::new(name, id, partitions, Layers::default(), 1);
    record.directories = directories;
    record
}

fn deletion(name: &str, id: Uuid, partitions: i32) -> DeletionRecord {
    DeletionRecord {
        id,
        name: name.to_owned(),
        partitions,
        at_ms: 0,
        delay_ms: 0,
    }
}

fn opens(directory: &str) -> PartitionStart {
    PartitionStart::Open {
        directory: directory.to_owned(),
        write_id: false,
    }
}

fn offline(start: &PartitionStart, needle: &str) -> bool {
    matches!(start, PartitionStart::Offline { reason } if reason.contains(needle))
}

#[test]
fn what_is_remembered_and_there_is_opened() {
    let inventory = take(
        vec![record("t", ID, 2, 2)],
        &[],
        &[found("t-0", Some(ID)), found("t-1", Some(ID))],
        100,
        0,
    );
    assert_eq!(inventory.topics.len(), 1);
    assert_eq!(inventory.topics[0].partitions, [opens("t-0"), opens("t-1")]);
    assert!(!inventory.topics[0].changed && !inventory.topics[0].adopted);
    assert_eq!((inventory.remove.len(), inventory.left.len()), (0, 0));
}

#[test]
fn a_creation_that_was_cut_short_is_finished_and_a_loss_is_not_covered_up() {
    let inventory = take(
        vec![record("new", ID, 3, 1), record("old", OTHER, 2, 2)],
        &[],
        &[found("new-0", Some(ID)), found("old-1", Some(OTHER))],
        100,
        0,
    );
    let new = &inventory.topics[0];
    assert_eq!(
        new.partitions,
        [opens("new-0"), PartitionStart::Create, PartitionStart::Create]
    );
    assert_eq!((new.changed, new.record.directories), (true, 3));
    let old = &inventory.topics[1];
    assert!(offline(&old.partitions[0], "old-0 is missing"), "{old:?}");
    assert_eq!(old.partitions[1], opens("old-1"));
}

#[test]
fn a_recorded_deletion_is_finished_however_far_it_had_come() {
    let inventory = take(
        Vec::new(),
        &[deletion("orders", ID, 3)],
        &[
            found(&format!("orders-0.{}-delete", ID.simple()), Some(ID)),
            found("orders-1", Some(ID)),
            found("orders-2", None),
        ],
        100,
        0,
    );
    assert_eq!(inventory.topics, []);
    let names: Vec<&str> = inventory.remove.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(inventory.remove.iter().all(|(_, id)| *id == ID));
}

#[test]
fn a_marked_directory_without_a_record_is_kept_and_reported() {
    let marked = format!("orders-0.{}-delete", OTHER.simple());
    let inventory = take(
        Vec::new(),
        &[deletion("else", ID, 1)],
        &[found(&marked, Some(OTHER)), found("t-0.00ff-stray", None)],
        100,
        0,
    );
    assert_eq!(inventory.remove, []);
    assert_eq!(inventory.left.len(), 2);
    assert!(inventory.left[0].1.contains("recorded"), "{:?}", inventory.left);
}

#[test]
fn a_topic_made_again_is_not_taken_for_the_deleted_one() {
    let inventory = take(
        vec![record("t", OTHER, 1, 0)],
        &[deletion("t", ID, 2)],
        &[found("t-0", Some(OTHER)), found("t-1", Some(ID))],
        100,
        0,
    );
    assert_eq!(inventory.topics[0].partitions, [opens("t-0")]);
    assert_eq!(inventory.remove, [("t-1".to_owned(), ID)]);
}

#[test]
fn a_directory_of_another_topic_id_is_not_served() {
    let inventory = take(
        vec![record("t", ID, 1, 1)],
        &[],
        &[found("t-0", Some(OTHER))],
        100,
        0,
    );
    assert!(offline(&inventory.topics[0].partitions[0], &OTHER.to_string()));
}

#[test]
fn directories_that_kafka_wrote_are_adopted_and_keep_everything() {
    let inventory = take(
        Vec::new(),
        &[],
        &[
            found("__cluster_metadata-0", None),
            found("__consumer_offsets-0", Some(OTHER)),
            found("a.b_c-1", Some(ID)),
            found("a.b_c-0", Some(ID)),
            found("a.b_c-3", Some(OTHER)),
        ],
        100,
        9,
    );
    assert_eq!(inventory.left, []);
    let offsets = &inventory.topics[0];
    assert_eq!(offsets.record.layers.config["cleanup.policy"], "compact");
    let adopted = &inventory.topics[1];
    assert!(adopted.adopted && adopted.changed);
    assert_eq!((adopted.record.id, adopted.record.partitions), (ID, 4));
    assert_eq!(adopted.record.layers.settings(0).unwrap().retention_ms, -1);
    assert_eq!(adopted.partitions[..2], [opens("a.b_c-0"), opens("a.b_c-1")]);
    assert!(offline(&adopted.partitions[2], "missing"));
    assert!(offline(&adopted.partitions[3], "belongs to topic id"));
}

#[test]
fn a_directory_beyond_the_recorded_count_is_data_and_wins() {
    let inventory = take(
        vec![record("t", ID, 1, 1)],
        &[],
        &[found("t-0", Some(ID)), found("t-1", Some(ID))],
        100,
        0,
    );
    assert_eq!(inventory.topics[0].record.partitions, 2);
    assert!(inventory.topics[0].changed);
}

#[test]
fn hostile_names_are_left_alone() {
    let inventory = take(
        Vec::new(),
        &[],
        &[
            found("x-2147483647", None),
            found("x-99999999999", None),
            found("lost+found", None),
            found("bad name-0", None),
            found("-0", None),
        ],
        100,
        0,
    );
    assert_eq!(inventory.topics, []);
    assert_eq!(inventory.left.len(), 5);
}

#[test]
fn an_unreadable_id_takes_only_its_partition_offline() {
    let broken = FoundDirectory {
        name: "t-1".to_owned(),
        topic_id: Err("partition.metadata: version is x".to_owned()),
    };
    let inventory = take(
        vec![record("t", ID, 2, 2)],
        &[],
        &[found("t-0", Some(ID)), broken],
        100,
        0,
    );
    assert_eq!(inventory.topics[0].partitions[0], opens("t-0"));
    assert!(offline(&inventory.topics[0].partitions[1], "version is x"));
}
