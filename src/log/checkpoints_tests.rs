use super::*;
use crate::log::faults::FaultyFiles;
use crate::log::files::DiskFiles;

fn offsets(entries: &[(&str, i32, i64)]) -> Offsets {
    let entries = entries.iter();
    entries
        .map(|(topic, partition, offset)| (((*topic).to_owned(), *partition), *offset))
        .collect()
}

#[test]
fn an_offset_checkpoint_is_kafkas_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recovery-point-offset-checkpoint");
    assert_eq!(read_offsets(&DiskFiles, &path).unwrap(), offsets(&[]));
    let written = offsets(&[("topicA", 0, 4711), ("topicA", 1, 99), ("b.c_d-e", 10, i64::MAX)]);
    write_offsets(&DiskFiles, &path, &written).unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "0\n3\nb.c_d-e 10 9223372036854775807\ntopicA 0 4711\ntopicA 1 99\n"
    );
    assert_eq!(read_offsets(&DiskFiles, &path).unwrap(), written);
}

#[test]
fn what_is_tolerated_and_what_is_not() {
    for empty in ["", "0", "0\n", "0\n0\n", "0\n0", "0\r\n0\r\n"] {
        assert_eq!(parse_offsets(empty), Ok(offsets(&[])), "{empty:?}");
    }
    for one in [
        "0\n1\na 1 2",
        "0\n1\na 1 2\n",
        "0\n1\na\t1  2\n\n",
        "0\r\n1\r\na 1 2\r\n",
    ] {
        assert_eq!(parse_offsets(one), Ok(offsets(&[("a", 1, 2)])), "{one:?}");
    }
    for (bad, what) in [
        ("1\n0\n", "version 1"),
        ("x\n0\n", "version is not a number"),
        ("0\n1\n", "0 entries are there, 1 announced"),
        ("0\n-1\n", "number of entries"),
        ("0\n1\na 1 2\nb 1 2\n", "2 entries are there, 1 announced"),
        ("0\n1\na 1\n", "2 words instead of 3"),
        ("0\n1\na 1 2 3\n", "4 words instead of 3"),
        ("0\n1\na x 2\n", "partition is not a number"),
        ("0\n1\na 1 9223372036854775808\n", "offset is not a number"),
        ("0\n99999999999\na 1 2\n", "announced"),
    ] {
        let error = parse_offsets(bad).unwrap_err();
        assert!(error.contains(what), "{bad:?}: {error}");
    }
}

#[test]
fn a_binary_checkpoint_is_an_error_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log-start-offset-checkpoint");
    std::fs::write(&path, [0xff, 0xfe, 0]).unwrap();
    let error = read_offsets(&DiskFiles, &path).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("log-start-offset-checkpoint: it is not UTF-8"),
        "{error}"
    );
}

#[test]
fn topic_ids() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("partition.metadata");
    assert_eq!(read_topic_id(&DiskFiles, &path).unwrap(), None);
    let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    write_topic_id(&DiskFiles, &path, id).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text, "version: 0\ntopic_id: ASNFZ4mrze8BI0VniavN7w",
        "two lines, no newline at the end"
    );
    assert_eq!(read_topic_id(&DiskFiles, &path).unwrap(), Some(id));
    std::fs::write(&path, "").unwrap();
    assert_eq!(read_topic_id(&DiskFiles, &path).unwrap(), None);
    for (bad, what) in [
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "zero"),
        ("version: 0\ntopic_id: short", "22 characters"),
        ("version: 0\n", "missing"),
        ("topic_id: ASNFZ4mrze8BI0VniavN7w", "missing"),
        ("version: -1\ntopic_id: ASNFZ4mrze8BI0VniavN7w", "negative"),
        ("version 0\n", "colon"),
        ("version: 0\nother: 1", "unknown field"),
    ] {
        assert!(parse_topic_id(bad).unwrap_err().contains(what), "{bad:?}");
    }
    assert_eq!(
        parse_topic_id("version: 7\ntopic_id: ASNFZ4mrze8BI0VniavN7w"),
        Ok(id)
    );
}

#[test]
fn identity_of_a_log_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("meta.properties");
    assert_eq!(MetaProperties::load(&DiskFiles, &path).unwrap(), None);
    let directory_id = Uuid::from_u128(42);
    let meta = MetaProperties {
        cluster_id: Some("cluster:with=odd\\chars".to_owned()),
        node_id: Some(1),
        directory_id: Some(directory_id),
    };
    meta.store(&DiskFiles, &path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("cluster.id=cluster\\:with\\=odd\\\\chars\n"),
        "{text}"
    );
    assert_eq!(MetaProperties::load(&DiskFiles, &path).unwrap(), Some(meta));

    let kafka = "#\n#Mon Nov 30 07:00:00 UTC 2026\ncluster.id=4L6g3nShT-eMCtK--X86sw\nversion=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAKg\nnode.id=1\n";
    let read = MetaProperties::parse(kafka).unwrap();
    assert_eq!(read.cluster_id.as_deref(), Some("4L6g3nShT-eMCtK--X86sw"));
    assert_eq!((read.node_id, read.directory_id), (Some(1), Some(directory_id)));
    let legacy = MetaProperties::parse("version=0\nbroker.id=7\n").unwrap();
    assert_eq!((legacy.node_id, legacy.cluster_id), (Some(7), None));
    assert_eq!(MetaProperties::parse("").unwrap(), MetaProperties::default());
    for (bad, what) in [
        ("version=1\nnode.id=1", "cluster.id is missing"),
        ("version=1\ncluster.id=a", "node.id is missing"),
        ("version=2", "version 2 is unknown"),
        ("version=1\ncluster.id=a\nnode.id=x", "node.id is not a number"),
        ("version=1\ncluster.id=a\\", "continued"),
        ("version=1\ncluster.id=\\u0041", "\\u escape"),
    ] {
        assert!(MetaProperties::parse(bad).unwrap_err().contains(what), "{bad:?}");
    }
}

#[test]
fn java_properties_in_their_odd_forms() {
    let parsed = parse_properties("  a = 1 \nb:2\nc 3\n! no\nd=\ne==x\nf\\=g = h\\ti\n").unwrap();
    let pairs: Vec<(&str, &str)> = parsed
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("a", "1 "),
            ("b", "2"),
            ("c", "3"),
            ("d", ""),
            ("e", "=x"),
            ("f=g", "h\ti")
        ]
    );
}

/// KAFKA-10471: the marker counts once.
#[test]
fn a_clean_stop_is_believed_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".kafka_cleanshutdown");
    assert!(!take_clean_shutdown(&DiskFiles, &path).unwrap());
    mark_clean_shutdown(&DiskFiles, &path).unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        r#"{"version":0,"brokerEpoch":-1}"#
    );
    assert!(take_clean_shutdown(&DiskFiles, &path).unwrap());
    assert!(!take_clean_shutdown(&DiskFiles, &path).unwrap());
    std::fs::write(&path, "").unwrap();
    assert!(
        take_clean_shutdown(&DiskFiles, &path).unwrap(),
        "content does not matter"
    );

    mark_clean_shutdown(&DiskFiles, &path).unwrap();
    let files = FaultyFiles::new(DiskFiles::shared());
    files.set_read_only(true);
    assert!(take_clean_shutdown(&files, &path).unwrap_err().is_read_only());
}

proptest::proptest! {
    #[test]
    fn offsets_survive(entries in proptest::collection::btree_map(("[a-zA-Z0-9._-]{1,20}", 0_i32..1000), proptest::num::i64::ANY, 0..20)) {
        let entries: Offsets = entries;
        proptest::prop_assert_eq!(parse_offsets(&format_offsets(&entries)), Ok(entries));
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = parse_offsets(&text);
        let _ = parse_topic_id(&text);
        let _ = MetaProperties::parse(&text);
    }
}
