use super::*;

#[test]
fn numbered_files_are_read_back_as_written() {
    for (text, offset, file, state) in [
        ("00000000000000000000.log", 0, SegmentFile::Log, FileState::Live),
        (
            "00000000000000000512.index",
            512,
            SegmentFile::OffsetIndex,
            FileState::Live,
        ),
        (
            "09223372036854775807.timeindex.deleted",
            i64::MAX,
            SegmentFile::TimeIndex,
            FileState::Deleted,
        ),
        (
            "00000000000000000005.txnindex.cleaned",
            5,
            SegmentFile::TxnIndex,
            FileState::Cleaned,
        ),
        (
            "00000000000000000015.snapshot.swap",
            15,
            SegmentFile::Snapshot,
            FileState::Swap,
        ),
    ] {
        let name = SegmentFileName::parse(text).unwrap();
        assert_eq!(name, SegmentFileName { offset, file, state });
        assert_eq!(name.to_string(), text);
    }
}

#[test]
fn what_only_looks_like_a_numbered_file_is_none() {
    for text in [
        "0.log",
        "0000000000000000000.log",
        "000000000000000000000.log",
        "+0000000000000000001.log",
        "-0000000000000000001.log",
        "99999999999999999999.log",
        "00000000000000000000.LOG",
        "00000000000000000000.logs",
        "00000000000000000000.log.",
        "00000000000000000000.log.deleted.deleted",
        "00000000000000000000",
        ".log",
        "",
        "partition.metadata",
        "٠0000000000000000000.log",
    ] {
        assert_eq!(SegmentFileName::parse(text), None, "{text}");
    }
}

#[test]
fn partition_directories() {
    let parsed = |name: &str| {
        let name = PartitionDirectoryName::parse(name)?;
        Some((name.topic, name.partition, name.state))
    };
    let some = |topic: &str, partition, state| Some((topic.to_owned(), partition, state));
    assert_eq!(parsed("orders-0"), some("orders", 0, DirectoryState::Live));
    assert_eq!(
        parsed("foo.bar-x-42"),
        some("foo.bar-x", 42, DirectoryState::Live)
    );
    // KAFKA-5232
    let unique = "0123456789abcdef0123456789abcdef";
    assert_eq!(
        parsed(&format!("foo.bar-x-42.{unique}-delete")),
        some("foo.bar-x", 42, DirectoryState::Deleted)
    );
    assert_eq!(
        parsed(&format!("a-1.{unique}-future")),
        some("a", 1, DirectoryState::Future)
    );
    assert_eq!(
        parsed(&format!("a-1.{unique}-stray")),
        some("a", 1, DirectoryState::Stray)
    );
    for none in [
        "lost+found",
        "test_topic1999",
        "topic-1999a",
        "topic-",
        "-1",
        "topic--1x",
        "topic-99999999999",
        "a-1-delete",
        "a-1.-delete",
        "nodash",
        "",
    ] {
        assert_eq!(parsed(none), None, "{none}");
    }
}

/// Scenario 63 (KAFKA-4893).
#[test]
fn long_topics_are_cut_in_marked_names_only() {
    let topic = "t".repeat(253);
    let unique = "0123456789abcdef0123456789abcdef";
    let name = deleted_directory(&topic, 0, unique);
    assert_eq!(name.len(), 255);
    let parsed = PartitionDirectoryName::parse(&name).unwrap();
    assert!(topic.starts_with(&parsed.topic));
    assert_eq!((parsed.partition, parsed.state), (0, DirectoryState::Deleted));
    assert_eq!(stray_directory("ä", 7, unique), format!("ä-7.{unique}-stray"));
}
