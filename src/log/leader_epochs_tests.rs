use super::*;
use crate::log::files::DiskFiles;

fn epochs(pairs: &[(i32, i64)]) -> LeaderEpochs {
    let entries = pairs
        .iter()
        .map(|&(epoch, start_offset)| EpochStart { epoch, start_offset })
        .collect();
    LeaderEpochs { entries }
}

/// The worked example of kafka-log 1.5 (`UnifiedLogTest`).
#[test]
fn truncation_from_the_start_keeps_the_epoch_that_reaches_across() {
    type Pairs = &'static [(i32, i64)];
    let cases: [(Pairs, i64, Pairs); 6] = [
        (&[(0, 0), (1, 7), (2, 10)], 5, &[(0, 5), (1, 7), (2, 10)]),
        (&[(0, 0), (1, 7), (2, 10)], 7, &[(1, 7), (2, 10)]),
        (&[(0, 0), (1, 7), (2, 10)], 9, &[(1, 9), (2, 10)]),
        (&[(0, 0), (1, 7)], 100, &[(1, 100)]),
        (&[(3, 10)], 5, &[(3, 10)]),
        (&[], 5, &[]),
    ];
    for (before, start, after) in cases {
        let mut list = epochs(before);
        let changed = list.truncate_from_start(start);
        assert_eq!(list, epochs(after), "{before:?} from {start}");
        assert_eq!(changed, before != after, "{before:?} from {start}");
        assert!(!list.truncate_from_start(start), "twice is once");
    }
}

#[test]
fn truncation_from_the_end() {
    let mut list = epochs(&[(0, 0), (1, 7), (2, 10)]);
    assert!(!list.truncate_from_end(11));
    assert!(list.truncate_from_end(10));
    assert_eq!(list, epochs(&[(0, 0), (1, 7)]));
    assert!(list.truncate_from_end(0));
    assert_eq!(list, epochs(&[]));
}

#[test]
fn an_assignment_removes_what_it_contradicts() {
    let mut list = epochs(&[]);
    assert!(list.assign(0, 0));
    assert!(!list.assign(0, 5), "the same epoch goes on");
    assert!(list.assign(2, 10));
    assert!(list.assign(3, 10), "an epoch without records is replaced");
    assert_eq!(list, epochs(&[(0, 0), (3, 10)]));
    assert!(list.assign(1, 12));
    assert_eq!(list, epochs(&[(0, 0), (1, 12)]));
    assert!(list.assign(1, 4));
    assert_eq!(list, epochs(&[(0, 0), (1, 4)]));
    assert!(!list.assign(-1, 50) && !list.assign(9, -1));
    assert_eq!(
        (list.epoch_of(3), list.epoch_of(4), epochs(&[(4, 8)]).epoch_of(7)),
        (Some(0), Some(1), None)
    );
}

/// As a running Kafka 4.4.0 answers, also below the oldest epoch.
#[test]
fn where_an_epoch_ends() {
    let list = epochs(&[(2, 5), (4, 20)]);
    let cases = [
        (4, (4, 33)),
        (3, (2, 20)),
        (2, (2, 20)),
        (1, (1, 5)),
        (0, (0, 5)),
        (5, (-1, -1)),
        (-1, (-1, -1)),
    ];
    for (epoch, expected) in cases {
        assert_eq!(list.end_offset_for(epoch, 33), expected, "epoch {epoch}");
    }
    assert_eq!(epochs(&[]).end_offset_for(0, 33), (-1, -1));
}

#[test]
fn the_file_is_kafkas_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leader-epoch-checkpoint");
    assert_eq!(LeaderEpochs::load(&DiskFiles, &path).unwrap(), epochs(&[]));
    let list = epochs(&[(0, 0), (3, 4711)]);
    list.store(&DiskFiles, &path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "0\n2\n0 0\n3 4711\n");
    assert_eq!(LeaderEpochs::load(&DiskFiles, &path).unwrap(), list);
    std::fs::write(&path, "").unwrap();
    assert_eq!(LeaderEpochs::load(&DiskFiles, &path).unwrap(), epochs(&[]));
    for bad in [
        "1\n0\n",
        "0\n1\n",
        "0\n1\n5\n",
        "0\n1\n5 6 7\n",
        "0\n1\nx 6\n",
        "0\n1\n-1 6\n",
        "x\n",
    ] {
        std::fs::write(&path, bad).unwrap();
        let error = LeaderEpochs::load(&DiskFiles, &path).unwrap_err();
        assert!(
            error.to_string().contains("leader-epoch-checkpoint"),
            "{bad:?}: {error}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn epochs_and_offsets_always_grow(steps in proptest::collection::vec((0_u8..4, 0_i32..20, 0_i64..50), 0..40)) {
        let mut list = LeaderEpochs::default();
        for (step, epoch, offset) in steps {
            let before = list.clone();
            let changed = match step {
                0 | 1 => list.assign(epoch, offset),
                2 => list.truncate_from_end(offset),
                _ => list.truncate_from_start(offset),
            };
            proptest::prop_assert_eq!(changed, list != before);
            let sorted = list.entries.windows(2).all(|pair| pair[0].epoch < pair[1].epoch && pair[0].start_offset < pair[1].start_offset);
            proptest::prop_assert!(sorted, "{:?}", list);
            proptest::prop_assert_eq!(LeaderEpochs::parse(&list.to_text()), Ok(list.clone()));
        }
    }
}
