use proptest::prelude::*;

use super::*;
use crate::log::files::DiskFiles;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn one() -> ProducerStates {
    let batch = ProducedBatch {
        last_sequence: 4,
        last_offset: 104,
        offset_delta: 4,
        timestamp: 1000,
    };
    let mut states = ProducerStates::default();
    states.restore(9, ProducerEntry::restored(0, -1, 1000, None, Some(batch)));
    states
}

#[test]
fn golden_snapshots() {
    assert_eq!(hex(&encode(&ProducerStates::default())), "000148674bc700000000");
    let bytes = encode(&one());
    assert_eq!(
        hex(&bytes),
        "0001da15b88100000001000000000000000900000000000400000000000000680000000400000000000003e8ffffffffffffffffffffffff"
    );
    let mut read = ProducerStates::default();
    for (producer_id, entry) in decode(&bytes).unwrap() {
        read.restore(producer_id, entry);
    }
    assert_eq!(read, one());
}

#[test]
fn damage_is_told() {
    let good = encode(&one());
    for cut in 1..=good.len() {
        assert!(decode(&good[..good.len() - cut]).is_err(), "{cut} bytes cut");
    }
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        assert!(decode(&bytes).is_err(), "byte {at} flipped");
    }
    // A count that promises two billion entries, with a right checksum.
    let mut bytes = good[..10].to_vec();
    bytes[6..10].copy_from_slice(&i32::MAX.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[6..]);
    bytes[2..6].copy_from_slice(&crc.to_be_bytes());
    assert!(decode(&bytes).unwrap_err().contains("do not fit"));
}

/// Scenario 106.
#[test]
fn s106_a_damaged_snapshot_gives_way_to_the_next_older() {
    for damage in [&b""[..], b"00", &encode(&one())[..30]] {
        let dir = tempfile::tempdir().unwrap();
        write(&DiskFiles, dir.path(), 100, &one()).unwrap();
        write(&DiskFiles, dir.path(), 200, &ProducerStates::default()).unwrap();
        let newer = segment_path(dir.path(), 200, SegmentFile::Snapshot);
        std::fs::write(&newer, damage).unwrap();
        let (offset, states) = load_newest(&DiskFiles, dir.path(), 0, 500, 1000, 100)
            .unwrap()
            .unwrap();
        assert_eq!((offset, states), (100, one()));
        assert!(!newer.exists(), "the damaged file is gone");
    }
}

#[test]
fn only_snapshots_between_start_and_end_count_and_the_idle_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    for offset in [10, 20, 30] {
        write(&DiskFiles, dir.path(), offset, &one()).unwrap();
    }
    std::fs::write(dir.path().join("00000000000000000025.snapshot.deleted"), b"x").unwrap();
    assert_eq!(list(&DiskFiles, dir.path()).unwrap(), [10, 20, 30]);
    let newest = |above, up_to| {
        let found = load_newest(&DiskFiles, dir.path(), above, up_to, 1000, 100).unwrap();
        found.map(|(offset, _)| offset)
    };
    assert_eq!(newest(0, 30), Some(30));
    assert_eq!(newest(0, 29), Some(20));
    assert_eq!(newest(20, 29), None);
    let (_, states) = load_newest(&DiskFiles, dir.path(), 0, 30, 1100, 100)
        .unwrap()
        .unwrap();
    assert!(
        states.producers().is_empty(),
        "idle for exactly the expiration time"
    );
}

/// Scenario 107.
#[test]
fn s107_snapshots_without_a_segment_go() {
    assert_eq!(strays(&[1, 2, 3, 4], &[0, 1, 2]), [3]);
    assert_eq!(strays(&[1, 2], &[0, 1, 2]), Vec::<i64>::new());
    assert_eq!(strays(&[1, 3, 5], &[0, 5]), [1, 3]);
    assert_eq!(strays(&[1, 3], &[0, 5]), [1, 3]);
    assert_eq!(strays(&[7], &[]), Vec::<i64>::new());
}

fn entry() -> impl Strategy<Value = ProducerEntry> {
    let batch = (0..i32::MAX, 0..i64::MAX, any::<i32>());
    (
        0_i16..i16::MAX,
        any::<i32>(),
        any::<i64>(),
        proptest::option::of(0..i64::MAX),
        proptest::option::of(batch),
    )
        .prop_map(|(epoch, coordinator_epoch, timestamp, open_txn_from, batch)| {
            let batch = batch.map(|(last_sequence, last_offset, offset_delta)| ProducedBatch {
                last_sequence,
                last_offset,
                offset_delta,
                timestamp,
            });
            ProducerEntry::restored(epoch, coordinator_epoch, timestamp, open_txn_from, batch)
        })
}

proptest! {
    #[test]
    fn snapshots_survive(producers in proptest::collection::btree_map(0..i64::MAX, entry(), 0..20)) {
        let mut states = ProducerStates::default();
        for (producer_id, entry) in &producers {
            states.restore(*producer_id, entry.clone());
        }
        let read = decode(&encode(&states)).unwrap();
        prop_assert_eq!(read, producers.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&bytes).is_err());
    }
}
