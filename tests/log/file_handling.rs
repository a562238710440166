//! Scenarios 57 to 69: files.
use crate::bench::*;

fn expired(delay_ms: &str) -> Bench {
    let bench = Bench::new(&[("retention.ms", "10000"), ("file.delete.delay.ms", delay_ms)]);
    bench.batches(100, NOW - 20_000);
    assert_eq!(bench.run().deleted.len(), 20);
    bench
}

fn deleted(bench: &Bench) -> usize {
    bench
        .names()
        .iter()
        .filter(|name| name.ends_with(".deleted"))
        .count()
}

#[test]
fn s057_files_are_renamed_now_and_unlinked_after_the_delay() {
    let bench = expired("1000");
    assert!(
        (0..100)
            .step_by(5)
            .all(|base| bench.exists(&format!("{base:020}.log.deleted")))
    );
    assert!(
        (0..100)
            .step_by(5)
            .all(|base| !bench.exists(&format!("{base:020}.log")))
    );
    bench.clock.advance_ms(999);
    assert_eq!(bench.log().unlink_due(), 0);
    // Nineteen snapshots: none is written at offset 0.
    assert_eq!(deleted(&bench), 20 * 3 + 19);
    bench.clock.advance_ms(1);
    assert_eq!(bench.log().unlink_due(), 20 * 3 + 19);
    assert_eq!(deleted(&bench), 0);
    assert_eq!(bench.log().pending_unlinks(), (0, None));
}

#[test]
fn s058_a_stop_before_the_delay_is_finished_by_the_next_start() {
    let mut bench = expired("1000");
    bench.crash();
    assert_eq!(deleted(&bench), 0);
    assert_eq!(bench.shape(), (100, vec![100]));
    assert_eq!(bench.log().load_report().tidied_files, 20 * 3 + 19);
}

#[test]
fn s059_without_a_delay_files_go_at_once() {
    let bench = expired("0");
    assert_eq!(deleted(&bench), 0);
    assert_eq!(bench.shape(), (100, vec![100]));
    bench.log().close().unwrap();
}

#[test]
fn s060_s079_an_empty_segment_without_room_in_its_index_is_begun_anew_in_place() {
    // Twelve bytes hold one entry of the time index, and that is the closing one: every append finds it full.
    let bench = Bench::new(&[("segment.index.bytes", "12")]);
    bench.batches(1, NOW);
    assert_eq!(bench.bases(), [0]);
    bench.batches(2, NOW);
    assert_eq!(bench.bases(), [0, 1, 2]);
    assert_eq!(bench.all_offsets(), [0, 1, 2]);
}

#[test]
fn s062_indexes_without_their_log_are_removed() {
    let mut bench = Bench::new(&[]);
    bench.batches(3, NOW);
    for name in [
        "00000000000000000005.index",
        "00000000000000000005.timeindex",
        "00000000000000000005.txnindex",
    ] {
        std::fs::write(bench.file(name), [0; 24]).unwrap();
    }
    bench.restart();
    assert!(
        !bench
            .names()
            .iter()
            .any(|name| name.starts_with("00000000000000000005"))
    );
    assert_eq!(bench.all_offsets(), [0, 1, 2]);
}

#[test]
fn s069_four_files_a_segment_and_one_for_the_epochs() {
    let bench = Bench::new(&[("retention.bytes", "2000"), ("file.delete.delay.ms", "0")]);
    bench.batches(200, NOW);
    bench.run();
    let names = bench.names();
    assert_eq!(bench.bases().len(), 4);
    assert_eq!(names.len(), 4 * 4 + 1, "{names:?}");
}

#[test]
fn a_fresh_partition_holds_its_log_and_both_indexes() {
    let bench = Bench::new(&[]);
    assert_eq!(
        bench.names(),
        [
            "00000000000000000000.index",
            "00000000000000000000.log",
            "00000000000000000000.timeindex"
        ]
    );
}

#[test]
fn a_clean_close_leaves_trimmed_indexes_and_a_snapshot_at_the_end() {
    let bench = Bench::new(&[("index.interval.bytes", "0"), ("preallocate", "true")]);
    bench.batches(3, NOW);
    assert_eq!(
        std::fs::metadata(bench.file("00000000000000000000.log"))
            .unwrap()
            .len(),
        500
    );
    bench.log().close().unwrap();
    let len = |name: &str| std::fs::metadata(bench.file(name)).unwrap().len();
    assert_eq!(len("00000000000000000000.log"), 300);
    assert_eq!(len("00000000000000000000.index"), 2 * 8);
    assert_eq!(len("00000000000000000000.timeindex"), 12);
    assert_eq!(len("00000000000000000003.snapshot"), 10);
    assert!(bench.exists("leader-epoch-checkpoint"));
}

#[test]
fn handles_stay_below_the_bound_with_many_segments() {
    let bench = Bench::new(&[("internal.segment.bytes", "100")]);
    bench.batches(300, NOW);
    assert_eq!(bench.bases().len(), 300);
    assert_eq!(bench.all_offsets(), (0..300).collect::<Vec<_>>());
    assert!(bench.handles.len() <= bench.handles.capacity());
}

#[test]
fn a_pass_with_nothing_to_delete_and_an_idle_roll_that_is_not_due_touch_no_file() {
    let bench = Bench::new(&[]);
    bench.batches(50, NOW);
    bench.log().flush().unwrap();
    // Without its directory any access to a file would fail.
    std::fs::rename(bench.path(), bench.path().with_extension("away")).unwrap();
    assert_eq!(bench.run().deleted.len(), 0);
    assert!(!bench.log().idle_roll(NOW).unwrap());
    assert_eq!(bench.log().unlink_due(), 0);
    bench.log().flush_closed().unwrap();
    std::fs::rename(bench.path().with_extension("away"), bench.path()).unwrap();
}
