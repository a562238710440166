use super::*;

fn put(table: Table, key: &str, value: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(table, key, value);
    batch
}

#[test]
fn what_was_written_is_there_after_opening_again() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("state.redb");
    let store = Store::open(&path).unwrap();
    assert_eq!(store.scan(Table::Topics).unwrap(), []);
    store.write_blocking(put(Table::Topics, "a", "1")).unwrap();
    store.write_blocking(put(Table::Topics, "b", "2")).unwrap();
    store.close();
    assert!(matches!(
        store.write_blocking(put(Table::Topics, "c", "3")),
        Err(StoreError::Closed)
    ));
    let store = Store::open(&path).unwrap();
    assert_eq!(
        store.scan(Table::Topics).unwrap(),
        [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]
    );
    assert_eq!(store.get(Table::Topics, b"b").unwrap(), Some(b"2".to_vec()));
    assert_eq!(store.get(Table::Topics, b"c").unwrap(), None);
    assert_eq!(store.get(Table::Groups, b"a").unwrap(), None);
}

#[test]
fn a_prefix_takes_its_keys_and_no_other() {
    let temporary = tempfile::tempdir().unwrap();
    let store = Store::open(&temporary.path().join("state.redb")).unwrap();
    let mut batch = Batch::new();
    for key in ["f", "g", "ga", "gb", "h"] {
        batch.put(Table::CommittedOffsets, key, "");
    }
    store.write_blocking(batch).unwrap();
    let mut batch = Batch::new();
    batch
        .remove_prefix(Table::CommittedOffsets, "g")
        .remove(Table::CommittedOffsets, "zz");
    store.write_blocking(batch).unwrap();
    let keys: Vec<Vec<u8>> = store
        .scan(Table::CommittedOffsets)
        .unwrap()
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, [b"f".to_vec(), b"h".to_vec()]);
}

#[tokio::test]
async fn many_writers_share_transactions_and_all_are_answered() {
    let temporary = tempfile::tempdir().unwrap();
    let store = Store::open(&temporary.path().join("state.redb")).unwrap();
    let writes = (0..2_000).map(|number| {
        let store = store.clone();
        async move {
            store
                .write(put(Table::CommittedOffsets, &format!("{number:04}"), "x"))
                .await
        }
    });
    for result in futures::future::join_all(writes).await {
        result.unwrap();
    }
    assert_eq!(store.scan(Table::CommittedOffsets).unwrap().len(), 2_000);
}

#[test]
fn a_file_that_is_no_store_is_left_as_it_is() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("state.redb");
    for content in [&b"not a store at all"[..], &[0u8; 8192][..]] {
        std::fs::write(&path, content).unwrap();
        let error = Store::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
}

/// Whatever a page says, the answer is a refusal in words and no end of the process.
#[test]
fn damage_within_a_store_is_refused_or_read_around() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("state.redb");
    let store = Store::open(&path).unwrap();
    for number in 0..50 {
        let batch = put(Table::CommittedOffsets, &format!("{number:04}"), &"x".repeat(300));
        store.write_blocking(batch).unwrap();
    }
    store.close();
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for page in 1..whole.len() / 4096 {
        let mut damaged = whole.clone();
        let page = &mut damaged[page * 4096..(page + 1) * 4096];
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        page.fill(0xa5);
        std::fs::write(&path, &damaged).unwrap();
        let read = Store::open(&path).and_then(|store| {
            let read = store.scan(Table::CommittedOffsets);
            let written = store.write_blocking(put(Table::Engine, "a", "1"));
            store.close();
            read.and(written)
        });
        if let Err(error) = read {
            assert!(error.to_string().contains("state.redb"), "{error}");
            refused += 1;
        }
    }
    assert!(refused > 0, "no page of the file matters");
}

#[test]
fn a_half_made_store_is_made_anew() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("state.redb");
    std::fs::write(temporary.path().join("state.redb.creating"), "half").unwrap();
    let store = Store::open(&path).unwrap();
    store.write_blocking(put(Table::Engine, "a", "1")).unwrap();
    assert!(!temporary.path().join("state.redb.creating").exists());
}
