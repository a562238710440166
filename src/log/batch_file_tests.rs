use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::log::batch::{attributes, encode};
use crate::log::compression::Codec;
use crate::log::faults::{Effect, Fault, FaultyFiles, Operation};
use crate::log::files::{DiskFiles, Files, OpenMode};

fn batch(base_offset: i64, records: usize) -> Vec<u8> {
    let header = BatchHeader {
        base_offset,
        size: 0,
        leader_epoch: 0,
        magic: 2,
        crc: 0,
        attributes: attributes(Codec::None, false, false, false),
        last_offset_delta: 0,
        base_timestamp: 1000,
        max_timestamp: 1000,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: 1,
    };
    encode(&header, &vec![7; records])
}

fn open(files: &dyn Files, path: &Path) -> Arc<dyn FileHandle> {
    files.open(path, OpenMode::Read).unwrap()
}

/// Batches of many sizes, so that headers fall on every kind of place relative to both windows.
fn many() -> (Vec<u8>, Vec<u64>) {
    let (mut bytes, mut positions) = (Vec::new(), Vec::new());
    for (offset, size) in [
        0,
        11,
        3000,
        4000,
        4096,
        100_000,
        262_144 - 61,
        262_144,
        600_000,
        1,
        2,
        3,
    ]
    .iter()
    .enumerate()
    {
        positions.push(bytes.len() as u64);
        bytes.extend(batch(offset as i64, *size));
    }
    (bytes, positions)
}

#[test]
fn both_walks_find_every_batch() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let (bytes, positions) = many();
    std::fs::write(&path, &bytes).unwrap();
    let file = open(&DiskFiles, &path);
    let end = bytes.len() as u64;
    for mut walk in [batches_in(&*file, 0, end), checked_batches_in(&*file, 0, end)] {
        let found: Vec<(i64, u64)> = walk
            .by_ref()
            .map(|batch| batch.unwrap())
            .map(|batch| (batch.header.base_offset, batch.position))
            .collect();
        let expected: Vec<(i64, u64)> = (0..).zip(positions.iter().copied()).collect();
        assert_eq!(found, expected);
        assert_eq!(walk.position(), end);
    }
    let one = batches_in(&*file, positions[4], end).next().unwrap().unwrap();
    let size = u64::from(one.header.size);
    let read = read_batch(&*file, &one, size).unwrap();
    assert_eq!(read, &bytes[positions[4] as usize..positions[5] as usize]);
    assert!(read_batch(&*file, &one, size - 1).is_err());
}

#[test]
fn torn_tails_end_the_walk_and_damage_is_found_by_the_checked_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let (bytes, positions) = many();
    let last = *positions.last().unwrap();
    for cut in [1, 2, 17, 18, 30, 60, 61, 62, 63] {
        std::fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
        let file = open(&DiskFiles, &path);
        let mut walk = checked_batches_in(&*file, 0, (bytes.len() - cut) as u64);
        assert_eq!(
            walk.by_ref().filter(|batch| batch.is_ok()).count(),
            positions.len() - 1
        );
        assert_eq!(walk.position(), last);
        // The same when the caller believes the file to be longer than it is.
        let mut walk = checked_batches_in(&*file, 0, bytes.len() as u64);
        assert_eq!(
            walk.by_ref().filter(|batch| batch.is_ok()).count(),
            positions.len() - 1
        );
        assert_eq!(walk.position(), last);
    }
    for (nth, position) in positions.iter().enumerate() {
        let mut bytes = bytes.clone();
        let at = positions.get(nth + 1).map_or(bytes.len(), |next| *next as usize) - 1;
        bytes[at] ^= 0x40;
        std::fs::write(&path, &bytes).unwrap();
        let file = open(&DiskFiles, &path);
        let end = bytes.len() as u64;
        assert!(batches_in(&*file, 0, end).all(|batch| batch.is_ok()));
        let mut walk = checked_batches_in(&*file, 0, end);
        assert_eq!(walk.by_ref().take_while(Result::is_ok).count(), nth);
        assert_eq!(walk.position(), *position);
    }
}

#[test]
fn zeros_after_the_last_batch_are_damage_at_their_first_byte() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let mut bytes = batch(0, 10);
    bytes.extend([0; 4096]);
    std::fs::write(&path, &bytes).unwrap();
    let file = open(&DiskFiles, &path);
    let mut walk = checked_batches_in(&*file, 0, bytes.len() as u64);
    walk.next().unwrap().unwrap();
    match walk.next().unwrap().unwrap_err() {
        WalkError::Damaged { position, source } => {
            assert_eq!((position, source), (71, BatchError::BadLength(0)))
        }
        WalkError::Io(error) => panic!("{error}"),
    }
    assert!(walk.next().is_none());
    assert_eq!(walk.position(), 71);
}

#[test]
fn read_errors_are_told_from_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let (bytes, _) = many();
    std::fs::write(&path, &bytes).unwrap();
    let files = FaultyFiles::new(DiskFiles::shared());
    let file = open(&files, &path);
    checked_batches_in(&*file, 0, bytes.len() as u64).for_each(drop);
    for nth in 0..files.count(Operation::Read) {
        let files = FaultyFiles::new(DiskFiles::shared());
        files.inject(Fault::nth(Operation::Read, nth, Effect::Eio));
        let file = open(&files, &path);
        let last = checked_batches_in(&*file, 0, bytes.len() as u64).last().unwrap();
        assert!(matches!(last, Err(WalkError::Io(_))), "read {nth}");
    }
}

#[test]
fn a_header_that_claims_two_gigabytes_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let mut bytes = batch(0, 10);
    bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let file = open(&DiskFiles, &path);
    assert!(checked_batches_in(&*file, 0, bytes.len() as u64).next().is_none());
    // Even a caller who believes in a huge range gets the end of the file, not an allocation.
    assert!(checked_batches_in(&*file, 0, u64::MAX).next().is_none());
}
