use super::*;
use crate::log::files::{DiskFiles, Files, OpenMode};
use crate::log::index_file::Searched;

fn at(timestamp: i64, offset: i64) -> TimestampOffset {
    TimestampOffset { timestamp, offset }
}

fn scratch() -> (tempfile::TempDir, Arc<dyn FileHandle>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("00000000000000000000.timeindex");
    let handle = DiskFiles.open(&path, OpenMode::OpenOrCreate).unwrap();
    (directory, handle)
}

#[test]
fn an_entry_has_the_bytes_that_kafka_writes() {
    let bytes = [0, 0, 0, 0, 0, 0, 0x04, 0x1a, 0, 0, 0, 6];
    assert_eq!(at(1050, 6).encode(0), Some(bytes));
    assert_eq!(TimestampOffset::decode(100, &bytes), at(1050, 106));
}

#[test]
fn only_rising_timestamps_are_taken() {
    let mut index = TimeIndex::new(0, 1 << 20);
    for entry in [at(-1, 0), at(0, 1), at(0, 2), at(7, 3), at(5, 4), at(8, 5)] {
        index.offer(entry, false);
    }
    assert_eq!((index.len(), index.last()), (3, at(8, 5)));
}

#[test]
fn the_last_slot_is_kept_for_the_closing_entry() {
    let mut index = TimeIndex::new(0, 36);
    for n in 1..5 {
        index.offer(at(n, n), false);
    }
    assert_eq!((index.len(), index.is_full()), (2, true));
    index.offer(at(4, 4), true);
    assert_eq!((index.len(), index.last()), (3, at(4, 4)));
}

#[test]
fn every_timestamp_is_found_in_file_and_memory() {
    for stored in [0, 1, 300, 700] {
        let (_directory, handle) = scratch();
        let mut index = TimeIndex::new(50, 1 << 20);
        for n in 1..=700_i64 {
            index.offer(at(n * 10, 50 + n), false);
            if n == stored {
                index.store(handle.as_ref()).unwrap();
            }
        }
        for timestamp in (0..7_100).step_by(3) {
            let found = match index.search(timestamp) {
                Searched::Here(entry) => entry,
                Searched::InFile(count) => lookup(&handle, 50, Some(count), timestamp).unwrap(),
            };
            let entry = (timestamp / 10).min(700);
            let expected = if entry == 0 {
                TimestampOffset::none(50)
            } else {
                at(entry * 10, 50 + entry)
            };
            assert_eq!(found, expected, "timestamp {timestamp}, {stored} stored");
        }
    }
}

#[test]
fn zeros_are_an_entry_only_when_alone() {
    let (_directory, handle) = scratch();
    assert_eq!(
        resume(handle.as_ref(), 9).unwrap(),
        Some((0, TimestampOffset::none(9)))
    );
    // One batch stamped 1970 at the base: Kafka writes exactly this.
    handle.set_len(12).unwrap();
    assert_eq!(resume(handle.as_ref(), 9).unwrap(), Some((1, at(0, 9))));
    handle.set_len(10_485_756).unwrap();
    assert_eq!(resume(handle.as_ref(), 9).unwrap(), None);
}
