//! Scenarios 37 to 56: log start, DeleteRecords, checkpoints.
use tidemark::log::delete::DeleteRecordsError;

use crate::bench::*;

fn fifteen(settings: &[(&str, &str)]) -> Bench {
    let bench = Bench::new(settings);
    bench.batches(15, NOW);
    bench
}

#[test]
fn s037_a_start_inside_the_first_segment_deletes_nothing() {
    let bench = fifteen(&[]);
    assert_eq!(bench.log().delete_records(1).unwrap(), 1);
    assert_eq!(bench.after_run(), (1, vec![0, 5, 10], 0));
}

#[test]
fn s038_segments_wholly_below_the_start_go() {
    let bench = fifteen(&[]);
    bench.log().delete_records(6).unwrap();
    assert_eq!(bench.after_run(), (6, vec![5, 10], 1));
}

#[test]
fn s039_the_active_segment_is_never_taken_by_the_start() {
    let bench = fifteen(&[]);
    bench.log().delete_records(15).unwrap();
    assert_eq!(bench.after_run(), (15, vec![10], 2));
    assert_eq!(bench.fetch(15).unwrap(), Vec::<i64>::new());
    assert!(out_of_range(bench.fetch(14)));
}

fn watermark_twelve() -> Bench {
    let bench = Bench::lagging(&[]);
    bench.hidden(12, NOW);
    bench.log().commit(12).unwrap();
    bench.hidden(3, NOW);
    bench
}

#[test]
fn s040_not_past_the_high_watermark() {
    let bench = watermark_twelve();
    let refused = bench.log().delete_records(13);
    assert!(
        matches!(refused, Err(DeleteRecordsError::OffsetOutOfRange { .. })),
        "{refused:?}"
    );
    assert!(matches!(
        bench.log().delete_records(-2),
        Err(DeleteRecordsError::OffsetOutOfRange { .. })
    ));
    assert_eq!(bench.log().log_start(), 0);
}

#[test]
fn s041_an_offset_below_the_start_succeeds_and_moves_nothing() {
    let bench = fifteen(&[]);
    bench.log().delete_records(6).unwrap();
    assert_eq!(bench.log().delete_records(3).unwrap(), 6);
    assert_eq!(bench.log().log_start(), 6);
}

#[test]
fn s042_minus_one_is_the_high_watermark() {
    let bench = watermark_twelve();
    assert_eq!(bench.log().delete_records(-1).unwrap(), 12);
    assert_eq!(bench.log().log_start(), 12);
}

#[test]
fn s043_a_compacted_topic_takes_no_deletion() {
    let bench = Bench::new(&[("cleanup.policy", "compact")]);
    assert!(matches!(
        bench.log().delete_records(0),
        Err(DeleteRecordsError::CompactOnly)
    ));
}

fn keyed(bench: &Bench, count: i64, timestamp: i64) {
    for _ in 0..count {
        let batch = Maker::default()
            .record(timestamp, Some(b"k"), Some(&[b'v'; 31]))
            .build();
        assert_eq!(batch.len(), 100, "five to a segment");
        bench.append(&batch).unwrap();
    }
}

#[test]
fn s044_compaction_alone_still_frees_what_lies_below_the_start() {
    let mut bench = Bench::new(&[("cleanup.policy", "compact,delete")]);
    keyed(&bench, 15, NOW);
    bench.log().delete_records(5).unwrap();
    bench.set("cleanup.policy", "compact");
    assert_eq!(bench.after_run(), (5, vec![5, 10], 1));
}

#[test]
fn s045_compaction_alone_deletes_nothing_by_age() {
    let bench = Bench::new(&[("cleanup.policy", "compact"), ("retention.ms", "10000")]);
    keyed(&bench, 15, NOW - 20_000);
    assert_eq!(bench.after_run(), (0, vec![0, 5, 10], 0));
}

#[test]
fn s046_both_policies_delete_by_size_and_by_age() {
    let bench = Bench::new(&[
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "10000"),
        ("retention.bytes", "1000"),
    ]);
    keyed(&bench, 15, NOW - 20_000);
    assert_eq!(bench.after_run(), (15, vec![15], 3));
}

#[test]
fn s047_no_policy_runs_the_start_offset_pass_only() {
    let bench = Bench::new(&[("cleanup.policy", ""), ("retention.ms", "10000")]);
    bench.batches(15, NOW - 20_000);
    bench.log().delete_records(6).unwrap();
    assert_eq!(bench.after_run(), (6, vec![5, 10], 1));
}

#[test]
fn s048_a_start_inside_a_batch_serves_the_whole_batch() {
    let bench = Bench::new(&[]);
    bench
        .append(&Maker::default().stamps(&[NOW; 10]).build())
        .unwrap();
    bench.log().delete_records(4).unwrap();
    assert_eq!(bench.fetch(4).unwrap(), (0..10).collect::<Vec<_>>());
    assert!(out_of_range(bench.fetch(3)));
    assert_eq!(bench.log().log_start(), 4);
}

#[test]
fn s049_s050_a_start_is_checkpointed_only_while_no_file_name_implies_it() {
    let bench = Bench::new(&[("internal.segment.bytes", "1000")]);
    bench.batches(11, NOW).roll();
    for _ in 0..3 {
        bench.batches(10, NOW).roll();
    }
    bench.batches(9, NOW);
    bench.log().delete_records(31).unwrap();
    assert_eq!(bench.log().log_start_to_checkpoint(None), Some(31));
    bench.run();
    assert_eq!(bench.bases().first(), Some(&31));
    assert_eq!(bench.log().log_start_to_checkpoint(Some(31)), None);
}

#[test]
fn a_start_that_is_durable_already_is_never_checkpointed_lower() {
    let bench = Bench::new(&[]);
    bench.batches(10, NOW);
    // An acknowledgement is on its way: durable, and not in memory yet.
    assert_eq!(bench.log().log_start_to_checkpoint(Some(4)), Some(4));
    bench.log().delete_records(2).unwrap();
    assert_eq!(bench.log().log_start_to_checkpoint(Some(4)), Some(4));
    assert_eq!(bench.log().log_start_to_checkpoint(Some(1)), Some(2));
}

#[test]
fn s051_an_acknowledged_deletion_survives_a_crash_better_than_in_kafka() {
    // Kafka goes back to 0 here: its checkpoint of log starts is written once a minute.
    let mut bench = fifteen(&[]);
    bench.log().delete_records(6).unwrap();
    bench.crash();
    assert_eq!(bench.shape(), (6, vec![0, 5, 10]));
    assert!(out_of_range(bench.fetch(5)));
}

#[test]
fn s052_a_checkpointed_start_survives_a_restart() {
    let mut bench = fifteen(&[]);
    bench.log().delete_records(6).unwrap();
    bench.restart();
    assert_eq!(bench.shape(), (6, vec![0, 5, 10]));
}

#[test]
fn s053_a_log_that_ends_below_its_start_begins_anew_there() {
    let mut bench = Bench::unopened(tidemark::log::files::DiskFiles::shared(), &[]);
    bench.put_log(0, &[one(NOW)]);
    bench.starts.0.lock().insert(("t".to_owned(), 0), 4);
    bench.open(false, 0).unwrap();
    assert_eq!(bench.shape(), (4, vec![4]));
    assert_eq!(bench.log().log_end(), 4);
    assert_eq!(bench.append(&one(NOW)).unwrap().base_offset, 4);
}

#[test]
fn s054_without_a_checkpoint_the_first_file_name_is_the_start() {
    let mut bench = Bench::unopened(tidemark::log::files::DiskFiles::shared(), &[]);
    for base in 5..10 {
        let batch = Maker {
            base_offset: base,
            ..Maker::default().stamps(&[NOW])
        };
        bench.put_log(base, &[batch.build()]);
    }
    bench.open(false, 0).unwrap();
    assert_eq!(bench.shape(), (5, vec![5, 6, 7, 8, 9]));
    assert_eq!(bench.log().log_end(), 10);
}

#[test]
fn s055_producers_outlive_their_records_but_not_a_restart() {
    let mut bench = Bench::new(&[]);
    let from = |id: i64| Maker::default().producer(id, 0, 0).stamps(&[NOW]).build();
    bench.append(&from(1)).unwrap();
    bench.roll();
    bench.append(&from(2)).unwrap();
    bench.log().delete_records(1).unwrap();
    bench.run();
    assert_eq!(bench.log().producer_ids(), [1, 2]);
    bench.crash();
    assert_eq!(bench.log().producer_ids(), [2]);
}

#[test]
fn s056_a_policy_that_changes_to_delete_is_followed_by_the_next_run() {
    let mut bench = Bench::new(&[("cleanup.policy", "compact"), ("retention.ms", "10000")]);
    keyed(&bench, 15, NOW - 20_000);
    assert_eq!(bench.after_run(), (0, vec![0, 5, 10], 0));
    bench.set("cleanup.policy", "delete");
    assert_eq!(bench.after_run(), (15, vec![15], 3));
}
