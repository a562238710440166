use super::*;
use crate::log::files::{DiskFiles, Files, OpenMode};

fn key(owner: u64, base_offset: i64) -> HandleKey {
    HandleKey {
        owner,
        base_offset,
        file: SegmentFile::Log,
    }
}

#[test]
fn the_cache_never_holds_more_than_its_capacity() {
    let directory = tempfile::tempdir().unwrap();
    let cache = HandleCache::new(3);
    let open = |n: i64| DiskFiles.open(&directory.path().join(n.to_string()), OpenMode::OpenOrCreate);
    for n in 0..20 {
        cache.get(key(0, n), true, || open(n)).unwrap();
        // The first one is used all the time and so is never the one to go.
        cache.get(key(0, 0), true, || open(0)).unwrap();
        assert!(cache.len() <= 3, "{} handles", cache.len());
    }
    let still_there = cache.get(key(0, 0), true, || panic!("it was evicted though it was used"));
    assert!(still_there.is_ok());
}

#[test]
fn an_evicted_handle_still_reads() {
    let directory = tempfile::tempdir().unwrap();
    let cache = HandleCache::new(1);
    let path = directory.path().join("a");
    std::fs::write(&path, b"bytes").unwrap();
    let held = cache
        .get(key(0, 0), false, || DiskFiles.open(&path, OpenMode::Read))
        .unwrap();
    cache
        .get(key(0, 1), false, || DiskFiles.open(&path, OpenMode::Read))
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut buffer = [0; 5];
    held.read_exact_at(&mut buffer, 0).unwrap();
    assert_eq!(&buffer, b"bytes");
}

#[test]
fn a_read_only_handle_is_replaced_when_writing_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let cache = HandleCache::new(4);
    let path = directory.path().join("a");
    std::fs::write(&path, b"x").unwrap();
    cache
        .get(key(0, 0), false, || DiskFiles.open(&path, OpenMode::Read))
        .unwrap();
    let writable = cache
        .get(key(0, 0), true, || DiskFiles.open(&path, OpenMode::ReadWrite))
        .unwrap();
    writable.write_all_at(b"y", 0).unwrap();
    assert_eq!((cache.len(), std::fs::read(&path).unwrap()), (1, b"y".to_vec()));
}

#[test]
fn forgetting_a_partition_leaves_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let cache = HandleCache::new(10);
    let path = directory.path().join("a");
    std::fs::write(&path, b"x").unwrap();
    for (owner, base_offset) in [(0, 0), (0, 5), (1, 0)] {
        let open = || DiskFiles.open(&path, OpenMode::Read);
        cache.get(key(owner, base_offset), false, open).unwrap();
    }
    cache.forget_owner(0);
    assert_eq!(cache.len(), 1);
    cache.forget(1, 0);
    assert!(cache.is_empty());
}
