use super::*;
use crate::log::files::{DiskFiles, OpenMode};

const GOLDEN: &str = "00000000000000000009000000000000006400000000000000680000000000000069";

fn aborted(producer_id: i64, first_offset: i64, last_offset: i64, last_stable_offset: i64) -> AbortedTxn {
    AbortedTxn {
        producer_id,
        first_offset,
        last_offset,
        last_stable_offset,
    }
}

#[test]
fn the_golden_entry() {
    let entry = aborted(9, 100, 104, 105);
    let hex: String = entry.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN);
    assert_eq!(AbortedTxn::decode(&entry.encode()), Ok(entry));
}

#[test]
fn a_file_is_read_back_and_damage_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("00000000000000000100.txnindex");
    assert_eq!(load(&DiskFiles, &path, 100).unwrap(), []);
    let entries = [aborted(1, 90, 104, 105), aborted(2, 101, 110, 111)];
    let file = DiskFiles.open(&path, OpenMode::CreateNew).unwrap();
    for (count, entry) in entries.iter().enumerate() {
        append(&*file, &path, count, entry).unwrap();
    }
    assert_eq!(load(&DiskFiles, &path, 100).unwrap(), entries);
    for (base, cut, what) in [(105, 0, "below 105"), (100, 1, "partial entry")] {
        let bytes = std::fs::read(&path).unwrap();
        let error = parse(&bytes[..bytes.len() - cut], base).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
    append(&*file, &path, 2, &aborted(3, 95, 110, 111)).unwrap();
    assert!(
        load(&DiskFiles, &path, 100)
            .unwrap_err()
            .to_string()
            .contains("110 is below 111")
    );
    file.write_all_at(&[0, 1], 0).unwrap();
    assert!(
        load(&DiskFiles, &path, 100)
            .unwrap_err()
            .to_string()
            .contains("version 1")
    );
}

#[test]
fn what_a_committed_read_must_know() {
    let entries = [
        aborted(1, 0, 10, 5),
        aborted(2, 5, 20, 21),
        aborted(3, 30, 40, 41),
    ];
    let search = |from, to| {
        let mut found = Vec::new();
        let complete = overlapping(&entries, from, to, &mut found);
        (
            found.iter().map(|txn| txn.producer_id).collect::<Vec<_>>(),
            complete,
        )
    };
    assert_eq!(search(0, 4), (vec![1], true));
    assert_eq!(search(0, 6), (vec![1, 2], true));
    assert_eq!(search(11, 22), (vec![2], true));
    assert_eq!(search(11, 30), (vec![2], true));
    assert_eq!(search(21, 31), (vec![3], true));
    assert_eq!(search(41, 50), (vec![], false));
}
