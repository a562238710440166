use super::*;

fn claim(cluster_id: &str) -> Claim {
    Claim {
        cluster_id: Some(cluster_id.to_owned()),
        node_id: 1,
        adopt: false,
    }
}

fn snapshot(root: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let mut entries: Vec<_> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let content = fs::read(entry.path()).ok();
            (entry.file_name().into_string().unwrap(), content)
        })
        .filter(|(name, _)| name != "lock")
        .collect();
    entries.sort();
    entries
}

#[test]
fn a_fresh_directory_gets_an_identity_and_keeps_it() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("deep/data");
    let first = DataDirectory::open(&root, &Claim::default())
        .unwrap()
        .identity()
        .clone();
    assert_eq!(first.format_version, FORMAT_VERSION);
    assert_eq!(first.cluster_id.len(), 22);
    let second = DataDirectory::open(&root, &Claim::default())
        .unwrap()
        .identity()
        .clone();
    assert_eq!(first, second);
    let meta = fs::read_to_string(root.join("logs/meta.properties")).unwrap();
    assert!(
        meta.contains(&format!("cluster.id={}\n", first.cluster_id)),
        "{meta}"
    );
}

#[test]
fn a_second_engine_is_refused_and_told_who_holds_it() {
    let temporary = tempfile::tempdir().unwrap();
    let held = DataDirectory::open(temporary.path(), &Claim::default()).unwrap();
    let error = DataDirectory::open(temporary.path(), &Claim::default()).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.reason(), "InUse");
    assert!(
        text.contains(&format!("process {}", std::process::id())),
        "{text}"
    );
    assert!(
        text.contains(temporary.path().join("lock").to_str().unwrap()),
        "{text}"
    );
    drop(held);
    DataDirectory::open(temporary.path(), &Claim::default()).unwrap();
}

#[test]
fn a_stale_lock_file_is_no_obstacle() {
    let temporary = tempfile::tempdir().unwrap();
    fs::write(
        temporary.path().join("lock"),
        "process 99999999 on elsewhere, long dead\n",
    )
    .unwrap();
    DataDirectory::open(temporary.path(), &Claim::default()).unwrap();
    let line = fs::read_to_string(temporary.path().join("lock")).unwrap();
    assert!(
        line.starts_with(&format!("process {} on ", std::process::id())) && !line.contains("dead"),
        "{line}"
    );
}

#[test]
fn a_file_system_without_locks_is_named_and_nothing_is_touched() {
    for errno in [Errno::NOLCK, Errno::INVAL, Errno::NOTSUP] {
        let temporary = tempfile::tempdir().unwrap();
        let error =
            DataDirectory::open_with(temporary.path(), &Claim::default(), |_| Err(errno)).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.reason(), "LockUnsupported");
        assert!(
            text.contains("lock") && text.contains(&io::Error::from(errno).to_string()),
            "{text}"
        );
        assert_eq!(snapshot(temporary.path()), []);
    }
}

#[test]
fn another_identity_is_refused_until_adopted() {
    let temporary = tempfile::tempdir().unwrap();
    drop(DataDirectory::open(temporary.path(), &claim("A")).unwrap());
    let before = snapshot(temporary.path());
    let error = DataDirectory::open(temporary.path(), &claim("B")).unwrap_err();
    assert_eq!(error.reason(), "IdentityMismatch");
    let text = error.to_string();
    assert!(
        text.contains("identity A") && text.contains("configured as B"),
        "{text}"
    );
    assert_eq!(snapshot(temporary.path()), before);
    let adopted = Claim {
        adopt: true,
        ..claim("B")
    };
    let directory = DataDirectory::open(temporary.path(), &adopted).unwrap();
    assert_eq!(directory.identity().cluster_id, "B");
    drop(directory);
    assert_eq!(
        DataDirectory::open(temporary.path(), &claim("A"))
            .unwrap_err()
            .reason(),
        "IdentityMismatch"
    );
}

#[test]
fn the_identity_of_a_directory_that_kafka_wrote_is_taken_over() {
    let temporary = tempfile::tempdir().unwrap();
    fs::create_dir(temporary.path().join("logs")).unwrap();
    fs::write(
        temporary.path().join("logs/meta.properties"),
        "#\n#Mon Nov 30 06:45:00 UTC 2026\ncluster.id=4L6g3nShT-eMCtK--X86sw\nversion=1\nnode.id=7\n\
         directory.id=Mg2TzVUBTzWg1pIBkVNuRQ\n",
    )
    .unwrap();
    let error = DataDirectory::open(temporary.path(), &claim("other")).unwrap_err();
    assert_eq!(error.reason(), "IdentityMismatch");
    let taken = Claim {
        node_id: 7,
        ..Claim::default()
    };
    let directory = DataDirectory::open(temporary.path(), &taken).unwrap();
    assert_eq!(directory.identity().cluster_id, "4L6g3nShT-eMCtK--X86sw");
    assert_eq!(directory.identity().directory_id, "Mg2TzVUBTzWg1pIBkVNuRQ");
    let meta = fs::read_to_string(temporary.path().join("logs/meta.properties")).unwrap();
    assert!(
        meta.contains("06:45:00"),
        "an equal file is left as it was: {meta}"
    );
}

#[test]
fn what_cannot_be_read_is_left_as_it_is() {
    for (file, content) in [
        ("identity.json", "{\"formatVersion\": 1, \"clus"),
        (
            "identity.json",
            "{\"formatVersion\": 99, \"clusterId\": \"A\", \"nodeId\": 1, \"directoryId\": \"d\"}",
        ),
        ("logs/meta.properties", "version=9\ncluster.id=A\n"),
        ("logs/meta.properties", "version=1\n"),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        fs::create_dir(temporary.path().join("logs")).unwrap();
        fs::write(temporary.path().join(file), content).unwrap();
        let error = DataDirectory::open(temporary.path(), &Claim::default()).unwrap_err();
        assert_eq!(error.reason(), "Corrupt", "{error}");
        assert!(error.to_string().contains(file), "{error}");
        assert_eq!(fs::read_to_string(temporary.path().join(file)).unwrap(), content);
    }
}

#[test]
fn lost_and_found_and_foreign_entries_are_left_alone() {
    let temporary = tempfile::tempdir().unwrap();
    fs::create_dir(temporary.path().join("lost+found")).unwrap();
    fs::write(temporary.path().join("notes.txt"), "mine").unwrap();
    DataDirectory::open(temporary.path(), &Claim::default()).unwrap();
    assert!(temporary.path().join("lost+found").is_dir());
    assert_eq!(
        fs::read_to_string(temporary.path().join("notes.txt")).unwrap(),
        "mine"
    );
}

#[test]
fn links_are_not_followed() {
    for name in ["lock", "identity.json", "logs"] {
        let temporary = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let target = elsewhere.path().join("target");
        if name == "logs" {
            fs::create_dir(&target).unwrap();
        } else {
            fs::write(&target, "precious").unwrap();
        }
        std::os::unix::fs::symlink(&target, temporary.path().join(name)).unwrap();
        let error = DataDirectory::open(temporary.path(), &Claim::default()).unwrap_err();
        assert!(
            matches!(error, DataDirectoryError::Link { .. }),
            "{name}: {error}"
        );
        if name == "logs" {
            assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        } else {
            assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        }
    }
}
