use super::*;
use crate::log::files::{DiskFiles, Files, OpenMode};
use crate::log::index_file::Searched;

fn at(offset: i64, position: i64) -> OffsetPosition {
    OffsetPosition { offset, position }
}

fn scratch() -> (tempfile::TempDir, Arc<dyn FileHandle>) {
    let directory = tempfile::tempdir().unwrap();
    let handle = DiskFiles
        .open(
            &directory.path().join("00000000000000000000.index"),
            OpenMode::OpenOrCreate,
        )
        .unwrap();
    (directory, handle)
}

#[test]
fn an_entry_has_the_bytes_that_kafka_writes() {
    assert_eq!(at(5, 144).encode(0), Some([0, 0, 0, 5, 0, 0, 0, 0x90]));
    assert_eq!(
        OffsetPosition::decode(100, &[0, 0, 0, 5, 0, 0, 0, 0x90]),
        at(105, 144)
    );
}

#[test]
fn offsets_beyond_31_bits_and_before_the_base_have_no_entry() {
    assert!(at(i64::from(i32::MAX), 1).encode(0).is_some());
    assert_eq!(at(i64::from(i32::MAX) + 1, 1).encode(0), None);
    assert_eq!(at(4, 1).encode(5), None);
    assert_eq!(at(4, i64::from(i32::MAX) + 1).encode(0), None);
}

#[test]
fn every_offset_is_found_however_the_entries_are_spread_over_file_and_memory() {
    for stored in [0, 1, 2, 255, 256, 257, 300, 999, 1000] {
        let (_directory, handle) = scratch();
        let mut index = OffsetIndex::new(0, 1 << 20);
        for n in 1..=1000_i64 {
            index.append(at(n * 10, n * 100));
            if n == stored {
                index.store(handle.as_ref()).unwrap();
            }
        }
        for offset in (0..10_020).step_by(7) {
            let found = match index.search(offset) {
                Searched::Here(entry) => entry,
                Searched::InFile(count) => lookup(&handle, 0, Some(count), offset).unwrap(),
            };
            let entry = (offset / 10).min(1000);
            assert_eq!(
                found,
                at(entry * 10, entry * 100),
                "offset {offset}, {stored} stored"
            );
        }
    }
}

#[test]
fn a_full_index_takes_no_more_and_one_out_of_order_is_left_out() {
    let mut index = OffsetIndex::new(0, 25);
    assert_eq!((index.is_full(), index.is_empty()), (false, true));
    for entry in [at(5, 1), at(5, 2), at(4, 3), at(6, 4), at(7, 5), at(8, 6)] {
        index.append(entry);
    }
    assert_eq!(
        (index.len(), index.is_full(), index.last()),
        (3, true, Some(at(7, 5)))
    );
}

#[test]
fn trimming_leaves_exactly_the_entries() {
    let (_directory, handle) = scratch();
    handle.set_len(10_485_760).unwrap();
    let mut index = OffsetIndex::new(0, 10_485_760);
    index.append(at(5, 144));
    index.store(handle.as_ref()).unwrap();
    index.trim(handle.as_ref()).unwrap();
    assert_eq!(handle.info().unwrap().len, 8);
    assert_eq!(resume(handle.as_ref(), 0).unwrap(), Some((1, Some(at(5, 144)))));
}

#[test]
fn an_untrimmed_index_of_zeros_is_not_trusted() {
    let (_directory, handle) = scratch();
    assert_eq!(resume(handle.as_ref(), 2076).unwrap(), Some((0, None)));
    handle.set_len(10_485_760).unwrap();
    assert_eq!(resume(handle.as_ref(), 2076).unwrap(), None);
    let found = lookup(&handle, 2076, None, 2100);
    assert_eq!(found.unwrap_err().kind(), io::ErrorKind::InvalidData);
}
