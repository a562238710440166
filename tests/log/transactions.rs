//! Reading what a broker with transactions wrote: the last stable offset, aborted transactions, their index.
use tidemark::log::files::DiskFiles;
use tidemark::log::read::Isolation;
use tidemark::log::txn_index::AbortedTxn;

use crate::bench::*;

fn data(base_offset: i64, producer: i64, sequence: i32) -> Vec<u8> {
    Maker {
        base_offset,
        transactional: true,
        ..Maker::default().producer(producer, 0, sequence).stamps(&[NOW])
    }
    .build()
}

fn marker(base_offset: i64, producer: i64, commit: bool) -> Vec<u8> {
    Maker {
        base_offset,
        transactional: true,
        control: true,
        ..Maker::default().producer(producer, 0, -1).record(
            NOW,
            Some(&[0, 0, 0, u8::from(commit)]),
            Some(&[0, 0, 0, 0, 0, 7]),
        )
    }
    .build()
}

/// Producer 1 aborts, producer 2 commits, producer 3 is still at it; then a plain record.
fn history() -> Bench {
    let mut bench = Bench::unopened(DiskFiles::shared(), &[("internal.segment.bytes", "100000")]);
    bench.put_log(
        0,
        &[data(0, 1, 0), data(1, 2, 0), data(2, 1, 1), marker(3, 1, false)],
    );
    let plain = Maker {
        base_offset: 6,
        ..Maker::default().stamps(&[NOW])
    }
    .build();
    bench.put_log(4, &[marker(4, 2, true), data(5, 3, 0), plain]);
    bench.open(false, 0).unwrap();
    bench
}

fn committed(bench: &Bench, offset: i64) -> (Vec<i64>, Vec<AbortedTxn>) {
    let slice = bench
        .log()
        .read(offset, 100_000, true, Isolation::ReadCommitted)
        .unwrap();
    (offsets_in(&slice.to_vec().unwrap()), slice.aborted)
}

const ABORTED: AbortedTxn = AbortedTxn {
    producer_id: 1,
    first_offset: 0,
    last_offset: 3,
    last_stable_offset: 1,
};

#[test]
fn an_open_transaction_holds_back_the_last_stable_offset() {
    let bench = history();
    let bounds = bench.log().bounds();
    assert_eq!((bounds.last_stable_offset, bounds.high_watermark), (5, 7));
    assert_eq!(bench.all_offsets(), (0..7).collect::<Vec<_>>());
    assert_eq!(committed(&bench, 4).0, [4]);
    assert_eq!(committed(&bench, 5).0, Vec::<i64>::new());
}

#[test]
fn aborted_transactions_are_named_where_they_overlap() {
    let mut bench = history();
    for _ in 0..2 {
        assert_eq!(committed(&bench, 0), (vec![0, 1, 2, 3], vec![ABORTED]));
        assert_eq!(committed(&bench, 2).1, [ABORTED]);
        assert_eq!(committed(&bench, 4), (vec![4], vec![]));
        let uncommitted = bench
            .log()
            .read(0, 1000, true, Isolation::ReadUncommitted)
            .unwrap();
        assert_eq!(uncommitted.aborted, []);
        assert_eq!(
            std::fs::read(bench.file("00000000000000000000.txnindex")).unwrap(),
            ABORTED.encode()
        );
        bench.restart();
    }
}

/// A fetch is told of what it touches, however much was aborted behind it.
#[test]
fn aborted_transactions_behind_what_is_read_are_not_named() {
    const TRANSACTIONS: i64 = 1_200;
    let settings = [
        ("internal.segment.bytes", "1000000"),
        ("index.interval.bytes", "1"),
    ];
    let mut bench = Bench::unopened(DiskFiles::shared(), &settings);
    let batches: Vec<Vec<u8>> = (0..TRANSACTIONS)
        .flat_map(|number| [data(2 * number, number, 0), marker(2 * number + 1, number, false)])
        .collect();
    bench.put_log(0, &batches);
    bench.open(false, 0).unwrap();
    // The entries of the index are in memory, and then in its file.
    for _ in 0..2 {
        for offset in (0..2 * TRANSACTIONS).step_by(62) {
            let slice = bench
                .log()
                .read(offset, 400, true, Isolation::ReadCommitted)
                .unwrap();
            let read = offsets_in(&slice.to_vec().unwrap());
            let named: Vec<i64> = slice.aborted.iter().map(|txn| txn.producer_id).collect();
            assert!(
                read.iter().all(|offset| named.contains(&(offset / 2))),
                "{read:?} {named:?}"
            );
            assert!(named.len() <= read.len() + 2, "{read:?} {named:?}");
        }
        bench.restart();
    }
}

/// An index is a hint: one that says too little is not believed.
#[test]
fn an_index_that_is_wrong_hides_no_aborted_transaction() {
    let settings = [
        ("internal.segment.bytes", "100000"),
        ("index.interval.bytes", "1"),
    ];
    let mut bench = Bench::unopened(DiskFiles::shared(), &settings);
    let batches: Vec<Vec<u8>> = (0..20)
        .flat_map(|number| [data(2 * number, number, 0), marker(2 * number + 1, number, false)])
        .collect();
    bench.put_log(0, &batches);
    bench.put_log(40, &[data(40, 50, 0), marker(41, 50, false)]);
    bench.open(false, 0).unwrap();
    let index = bench.file("00000000000000000000.index");
    let mut bytes = std::fs::read(&index).unwrap();
    assert!(bytes.len() > 80);
    // Every entry names an offset below those at its position.
    for entry in bytes.chunks_exact_mut(8) {
        entry[..4].copy_from_slice(&1_u32.to_be_bytes());
    }
    std::fs::write(&index, &bytes).unwrap();
    for offset in 0..20 {
        let slice = bench
            .log()
            .read(2 * offset, 400, true, Isolation::ReadCommitted)
            .unwrap();
        let named: Vec<i64> = slice.aborted.iter().map(|txn| txn.producer_id).collect();
        let read = offsets_in(&slice.to_vec().unwrap());
        assert!(
            read.iter().all(|offset| named.contains(&(offset / 2))),
            "{read:?} {named:?}"
        );
    }
}

#[test]
fn a_transaction_index_goes_with_its_segment_and_the_stable_offset_stays() {
    let bench = history();
    bench.log().delete_records(4).unwrap();
    bench.run();
    assert!(bench.exists("00000000000000000000.txnindex.deleted"));
    assert_eq!(bench.log().last_stable_offset(), 5);
    bench.batches(3, NOW);
    assert_eq!(bench.log().last_stable_offset(), 5);
    assert_eq!(bench.log().high_watermark(), 10);
}

#[test]
fn clients_cannot_write_into_a_transaction_that_is_not_theirs() {
    let bench = history();
    let stray = Maker {
        transactional: true,
        ..Maker::default().producer(8, 0, 0).stamps(&[NOW])
    };
    assert!(bench.append(&stray.build()).is_err());
    let plain_of_open = Maker::default().producer(3, 0, 1).stamps(&[NOW]);
    assert!(bench.append(&plain_of_open.build()).is_err());
    assert_eq!(bench.log().log_end(), 7);
}

/// What the guard asks: markers are no records of anybody.
#[test]
fn the_last_data_record_of_a_range_is_found_behind_markers_and_segments() {
    let bench = history();
    let last = |range| bench.log().last_data(range);
    assert_eq!(last(0..7), Some(6));
    assert_eq!(
        last(0..6),
        Some(5),
        "of a transaction that is open, and data all the same"
    );
    assert_eq!(last(0..5), Some(2), "behind a marker in each of two segments");
    assert_eq!(last(2..4), Some(2), "of a transaction that was aborted");
    assert_eq!(last(0..1), Some(0));
    for markers in [3..4, 4..5, 3..5] {
        assert_eq!(last(markers.clone()), None, "{markers:?}");
    }
    for empty in [0..0, 5..5, 7..9] {
        assert_eq!(last(empty.clone()), None, "{empty:?}");
    }
}

#[test]
fn a_long_run_of_markers_hides_no_record() {
    let mut bench = Bench::unopened(DiskFiles::shared(), &[("internal.segment.bytes", "100000")]);
    let long = Maker {
        base_offset: 0,
        ..Maker::default().stamps(&[NOW; 10])
    };
    let mut batches = vec![long.build()];
    batches.extend((10..500).map(|offset| marker(offset, 1, true)));
    bench.put_log(0, &batches);
    bench.open(false, 0).unwrap();
    let last = |range| bench.log().last_data(range);
    assert_eq!(last(0..500), Some(9));
    assert_eq!(last(0..4), Some(3), "within a batch that goes on");
    assert_eq!(last(10..500), None);
}

/// What cannot be looked at is taken to be data: the answer to doubt is no deletion.
#[test]
fn where_the_log_cannot_be_read_there_is_data() {
    let bench = history();
    assert_eq!(bench.log().last_data(3..5), None);
    let file = std::fs::File::options()
        .write(true)
        .open(bench.file("00000000000000000004.log"))
        .unwrap();
    file.set_len(30).unwrap();
    assert_eq!(bench.log().last_data(3..5), Some(4));
    assert_eq!(
        bench.log().last_data(0..4),
        Some(2),
        "the segment before it can be read"
    );
}
