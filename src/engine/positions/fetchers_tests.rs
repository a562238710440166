use super::*;

const TOPIC: Uuid = Uuid::from_u128(1);

fn client(name: &str, connection: u64) -> Client {
    Client {
        id: name.into(),
        host: "/192.0.2.1".into(),
        connection,
    }
}

fn at(ms: i64) -> Now {
    Now {
        monotonic_ms: ms,
        wall_ms: 1_000_000 + ms,
    }
}

fn fetch(fetchers: &Fetchers, client: &Client, partition: i32, offset: i64, ms: i64) -> usize {
    let position = FetchPosition {
        topic_id: TOPIC,
        partition,
        offset,
    };
    let moved = fetchers.fetched(client, &[position], at(ms));
    moved.map_or(0, |(_, moved)| moved.len())
}

/// Name of a fetcher and, by partition, its offsets.
type Shown = (String, Vec<(i32, Vec<i64>)>);

fn offsets(fetchers: &Fetchers, ms: i64) -> Vec<Shown> {
    let found = fetchers.on("t", TOPIC, ms);
    found
        .into_iter()
        .map(|fetcher| {
            let positions = fetcher.positions.into_iter().map(|(partition, connections)| {
                (
                    partition,
                    connections.into_iter().map(|(offset, _)| offset).collect(),
                )
            });
            (fetcher.name.to_string(), positions.collect())
        })
        .collect()
}

#[test]
fn the_last_fetch_counts_for_ten_minutes() {
    let fetchers = Fetchers::default();
    let kcat = client("kcat", 1);
    assert_eq!(fetch(&fetchers, &kcat, 0, 5, 0), 1);
    assert_eq!(fetch(&fetchers, &kcat, 0, 5, 10), 0, "it did not move");
    assert_eq!(fetch(&fetchers, &kcat, 0, 9, 20), 1);
    assert_eq!(fetch(&fetchers, &kcat, 0, 2, 30), 1, "backwards is a move too");
    let expected = vec![("kcat@192.0.2.1".to_owned(), vec![(0, vec![2])])];
    assert_eq!(offsets(&fetchers, REMEMBERED_MS + 29), expected);
    assert_eq!(offsets(&fetchers, REMEMBERED_MS + 30), []);
    assert!(fetchers.sweep(REMEMBERED_MS + 29).is_empty());
    let gone = fetchers.sweep(REMEMBERED_MS + 30);
    assert_eq!(
        gone.into_iter().collect::<Vec<_>>(),
        [(TOPIC, "kcat@192.0.2.1".into())]
    );
    assert!(fetchers.is_empty());
    assert_eq!(fetchers.held.load(Ordering::Relaxed), 0);
}

#[test]
fn two_consumers_of_one_name_do_not_hide_each_other() {
    let fetchers = Fetchers::default();
    fetch(&fetchers, &client("kcat", 1), 0, 900, 0);
    fetch(&fetchers, &client("kcat", 2), 0, 250, 0);
    fetch(&fetchers, &client("kcat", 1), 0, 950, 1);
    let expected = vec![("kcat@192.0.2.1".to_owned(), vec![(0, vec![250, 950])])];
    assert_eq!(offsets(&fetchers, 2), expected);
}

#[test]
fn a_closed_connection_gives_way_to_the_next_that_is_no_further_back() {
    let fetchers = Fetchers::default();
    let (first, second) = (client("kcat", 1), client("kcat", 2));
    fetch(&fetchers, &first, 0, 100, 0);
    fetch(&fetchers, &first, 1, 100, 0);
    fetchers.disconnected(&first);
    // It still counts: its owner may come back.
    let expected = vec![("kcat@192.0.2.1".to_owned(), vec![(0, vec![100]), (1, vec![100])])];
    assert_eq!(offsets(&fetchers, 1), expected);
    fetch(&fetchers, &second, 0, 100, 2);
    fetch(&fetchers, &second, 1, 99, 2);
    let expected = vec![(
        "kcat@192.0.2.1".to_owned(),
        vec![(0, vec![100]), (1, vec![99, 100])],
    )];
    assert_eq!(offsets(&fetchers, 3), expected);
    fetch(&fetchers, &second, 1, 100, 4);
    let expected = vec![("kcat@192.0.2.1".to_owned(), vec![(0, vec![100]), (1, vec![100])])];
    assert_eq!(offsets(&fetchers, 5), expected);
    let held = fetchers.held.load(Ordering::Relaxed);
    fetchers.sweep(0);
    assert!(held >= fetchers.held.load(Ordering::Relaxed));
    // An open connection never gives way.
    fetch(&fetchers, &client("kcat", 3), 0, 500, 6);
    assert_eq!(offsets(&fetchers, 7)[0].1[0].1, [100, 500]);
}

#[test]
fn who_speaks_for_a_group_is_known_by_topic() {
    let fetchers = Fetchers::default();
    let kcat = client("kcat", 1);
    fetch(&fetchers, &kcat, 0, 100, 0);
    let speaker = (Arc::from("g"), Arc::from("m"));
    fetchers.speaks(&kcat, &speaker, ["t"], 0);
    fetchers.speaks(&kcat, &(Arc::from("h"), Arc::from("m")), ["other"], 0);
    let speakers = |ms| fetchers.on("t", TOPIC, ms)[0].speakers.clone();
    assert_eq!(speakers(1), BTreeSet::from([speaker]));
    fetch(&fetchers, &kcat, 0, 101, REMEMBERED_MS - 1);
    assert_eq!(speakers(REMEMBERED_MS), BTreeSet::new());
}

#[test]
fn names_without_end_are_not_all_remembered() {
    let most = 64 << 10;
    let fetchers = Fetchers::holding_at_most(most);
    let known = client("known", 0);
    assert_eq!(fetch(&fetchers, &known, 0, 1, 0), 1);
    assert!(!fetchers.overflowed(0));
    for number in 0..2_000 {
        let other = client(&format!("{number}-{}", "x".repeat(500)), number);
        fetch(&fetchers, &other, 0, 1, 0);
        let speaker = (Arc::from("g".repeat(500)), Arc::from(""));
        fetchers.speaks(&other, &speaker, [number.to_string().as_str()], 0);
    }
    let held = fetchers.held.load(Ordering::Relaxed);
    assert!((most / 2..=most).contains(&held), "{held}");
    // Who was there before is still followed.
    assert_eq!(fetch(&fetchers, &known, 0, 7, 1), 1);
    let of_known = |fetchers: &Fetchers| {
        let all = offsets(fetchers, 1);
        all.into_iter().find(|(name, _)| name.starts_with("known@"))
    };
    assert_eq!(of_known(&fetchers).unwrap().1, [(0, vec![7])]);
    // That somebody is missing is known for as long as it would have been remembered.
    assert!(fetchers.overflowed(REMEMBERED_MS - 1));
    assert!(!fetchers.overflowed(REMEMBERED_MS));
    // Room comes back with time.
    fetchers.sweep(REMEMBERED_MS);
    assert_eq!(fetch(&fetchers, &client("later", 1), 0, 1, REMEMBERED_MS), 1);
}

#[test]
fn who_comes_or_goes_back_is_news() {
    let fetchers = Fetchers::default();
    let kcat = client("kcat", 1);
    let mut news = |offset| {
        fetch(&fetchers, &kcat, 0, offset, 0);
        fetchers.take_news()
    };
    assert_eq!([5, 5, 9, 2, 3].map(&mut news), [true, false, false, true, false]);
}
