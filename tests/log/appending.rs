//! Scenarios 96 to 107: appending and producers' state.
use tidemark::log::batch;
use tidemark::log::compression::Codec;
use tidemark::log::error::AppendError;
use tidemark::log::records::OpenBatch;

use crate::bench::*;

fn invalid_record<T: std::fmt::Debug>(result: Result<T, AppendError>) {
    assert!(
        matches!(result, Err(AppendError::InvalidRecord { .. })),
        "{result:?}"
    );
}

fn invalid_timestamp<T: std::fmt::Debug>(result: Result<T, AppendError>) {
    assert!(
        matches!(result, Err(AppendError::InvalidTimestamp { .. })),
        "{result:?}"
    );
}

#[test]
fn s096_a_client_s_batch_begins_at_offset_zero() {
    let bench = Bench::new(&[]);
    invalid_record(
        bench.append(
            &Maker {
                base_offset: 1,
                ..Maker::default().stamps(&[NOW])
            }
            .build(),
        ),
    );
    assert_eq!((bench.log().log_end(), bench.log().size_bytes()), (0, 0));
}

#[test]
fn s097_a_compacted_topic_takes_no_record_without_a_key() {
    let bench = Bench::new(&[("cleanup.policy", "compact")]);
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let batch = Maker {
            codec,
            ..Maker::default()
        }
        .record(NOW, Some(b"key"), Some(b"a"))
        .record(NOW, None, Some(b"b"))
        .build();
        let Err(AppendError::InvalidRecord { records, .. }) = bench.append(&batch) else {
            panic!("accepted with {codec:?}");
        };
        assert_eq!(records.iter().map(|record| record.index).collect::<Vec<_>>(), [1]);
    }
    assert_eq!(bench.log().size_bytes(), 0);
}

#[test]
fn s098_a_timestamp_may_lie_an_hour_ahead_and_no_more() {
    for codec in [Codec::None, Codec::Zstd] {
        let bench = Bench::new(&[]);
        let batch = |timestamp| {
            Maker {
                codec,
                ..Maker::default().stamps(&[NOW, timestamp])
            }
            .build()
        };
        invalid_timestamp(bench.append(&batch(NOW + HOUR + 1)));
        bench.append(&batch(NOW + HOUR)).unwrap();
    }
}

#[test]
fn s098_with_a_bound_on_the_past_old_records_are_refused() {
    let bench = Bench::new(&[("message.timestamp.before.max.ms", "1000")]);
    for codec in [Codec::None, Codec::Lz4] {
        let batch = |timestamp| {
            Maker {
                codec,
                ..Maker::default().stamps(&[NOW, timestamp])
            }
            .build()
        };
        invalid_timestamp(bench.append(&batch(NOW - 1001)));
        bench.append(&batch(NOW - 1000)).unwrap();
    }
}

#[test]
fn s099_no_timestamp_is_accepted() {
    let bench = Bench::new(&[("message.timestamp.before.max.ms", "1000")]);
    bench.batches(1, -1);
    assert_eq!(bench.log().segments()[0].largest_timestamp, -1);
}

fn from(producer: i64, epoch: i16, sequence: i32) -> Vec<u8> {
    Maker::default()
        .producer(producer, epoch, sequence)
        .stamps(&[NOW])
        .build()
}

fn out_of_order<T: std::fmt::Debug>(result: Result<T, AppendError>) {
    assert!(
        matches!(result, Err(AppendError::OutOfOrderSequence { .. })),
        "{result:?}"
    );
}

#[test]
fn s103_a_repeated_batch_is_answered_and_not_written() {
    let mut bench = Bench::new(&[]);
    bench.append(&from(1, 0, 0)).unwrap();
    let again = bench.append(&from(1, 0, 0)).unwrap();
    assert_eq!(
        (again.base_offset, again.duplicate, again.log_append_time_ms),
        (0, true, NOW)
    );
    assert_eq!(bench.log().log_end(), 1);
    out_of_order(bench.append(&from(1, 0, 2)));
    bench.append(&from(1, 0, 1)).unwrap();
    // What the last five batches were is known again after a crash, and the last one after a clean stop.
    bench.crash();
    assert!(bench.append(&from(1, 0, 0)).unwrap().duplicate);
    bench.restart();
    assert!(bench.append(&from(1, 0, 1)).unwrap().duplicate);
    assert_eq!(bench.append(&from(1, 0, 2)).unwrap().base_offset, 2);
}

#[test]
fn s104_only_the_last_five_batches_are_known() {
    let bench = Bench::new(&[]);
    for sequence in 0..6 {
        bench.append(&from(1, 0, sequence)).unwrap();
    }
    out_of_order(bench.append(&from(1, 0, 0)));
    assert!(bench.append(&from(1, 0, 1)).unwrap().duplicate);
}

#[test]
fn s105_a_producer_is_forgotten_exactly_when_its_time_is_over() {
    let bench = Bench::new(&[]);
    bench.append(&from(1, 0, 0)).unwrap();
    assert_eq!(bench.log().expire_producers(NOW + DAY - 1, DAY), 0);
    assert_eq!(bench.log().expire_producers(NOW + DAY, DAY), 1);
    // Nothing is known of it any more, so any sequence may come.
    bench.append(&from(1, 0, 17)).unwrap();
}

#[test]
fn an_older_epoch_is_refused_and_a_newer_one_begins_at_zero() {
    let bench = Bench::new(&[]);
    bench.append(&from(1, 3, 0)).unwrap();
    let refused = bench.append(&from(1, 2, 1));
    assert!(
        matches!(refused, Err(AppendError::InvalidProducerEpoch { .. })),
        "{refused:?}"
    );
    out_of_order(bench.append(&from(1, 4, 1)));
    bench.append(&from(1, 4, 0)).unwrap();
}

#[test]
fn s106_a_damaged_snapshot_is_removed_and_the_state_replayed() {
    for damage in [&b""[..], b"\0\x01\0\0\0\0\0\0\0\0", b"\0\x01"] {
        let mut bench = Bench::new(&[]);
        for sequence in 0..3 {
            bench.append(&from(7, 0, sequence)).unwrap();
            bench.roll();
        }
        bench.log().close().unwrap();
        std::fs::write(bench.file("00000000000000000003.snapshot"), damage).unwrap();
        bench.open(true, 0).unwrap();
        assert_eq!(bench.log().producer_ids(), [7]);
        assert!(bench.append(&from(7, 0, 2)).unwrap().duplicate);
    }
}

#[test]
fn s107_snapshots_that_belong_to_no_segment_are_removed() {
    let mut bench = Bench::new(&[]);
    bench
        .batches(1, NOW)
        .roll()
        .batches(1, NOW)
        .roll()
        .batches(2, NOW);
    bench.log().close().unwrap();
    std::fs::copy(
        bench.file("00000000000000000002.snapshot"),
        bench.file("00000000000000000003.snapshot"),
    )
    .unwrap();
    bench.open(true, 0).unwrap();
    let snapshots: Vec<String> = bench
        .names()
        .into_iter()
        .filter_map(|name| name.strip_suffix(".snapshot").map(str::to_owned))
        .collect();
    let numbers: Vec<i64> = snapshots.iter().map(|name| name.parse().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 4]);
}

#[test]
fn every_codec_is_carried_through_byte_for_byte() {
    let bench = Bench::new(&[("internal.segment.bytes", "100000")]);
    let mut expected = Vec::new();
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let sent = Maker {
            codec,
            ..Maker::default().stamps(&[NOW, NOW - 5, NOW + 5])
        }
        .build();
        let appended = bench.append(&sent).unwrap();
        let mut stored = sent.clone();
        batch::set_base_offset(&mut stored, appended.base_offset);
        batch::set_leader_epoch(&mut stored, 0);
        expected.extend_from_slice(&stored);
    }
    assert_eq!(
        std::fs::read(bench.file("00000000000000000000.log")).unwrap(),
        expected
    );
}

#[test]
fn another_codec_is_used_where_the_topic_asks_for_it() {
    let bench = Bench::new(&[("compression.type", "zstd"), ("internal.segment.bytes", "100000")]);
    let sent = Maker {
        codec: Codec::Gzip,
        ..Maker::default().producer(5, 0, 0).stamps(&[NOW, NOW + 3])
    };
    bench.append(&sent.build()).unwrap();
    let bytes = std::fs::read(bench.file("00000000000000000000.log")).unwrap();
    let stored = batch::batches(&bytes).next().unwrap().unwrap();
    stored.header.check_crc(stored.bytes).unwrap();
    assert_eq!(stored.header.codec(), Ok(Codec::Zstd));
    assert_eq!((stored.header.producer_id, stored.header.base_sequence), (5, 0));
    let opened = OpenBatch::open(&stored, 1 << 20).unwrap();
    let stamps: Vec<i64> = opened.records().map(|record| record.unwrap().timestamp).collect();
    assert_eq!(stamps, [NOW, NOW + 3]);
}

#[test]
fn what_no_producer_may_send_is_refused_and_leaves_no_trace() {
    let bench = Bench::new(&[("max.message.bytes", "400")]);
    let control = Maker {
        control: true,
        ..Maker::default().stamps(&[NOW])
    };
    invalid_record(bench.append(&control.build()));
    invalid_record(bench.append(&Maker::default().producer(1, 0, -1).stamps(&[NOW]).build()));
    invalid_record(bench.append(&[one(NOW), one(NOW)].concat()));
    let refused = bench.append(&sized(NOW, 401));
    assert!(
        matches!(refused, Err(AppendError::MessageTooLarge { size: 401, max: 400 })),
        "{refused:?}"
    );
    let mut flipped = one(NOW);
    flipped[80] ^= 1;
    assert!(matches!(
        bench.append(&flipped),
        Err(AppendError::CorruptMessage(_))
    ));
    // A message of magic 1, as clients before 0.11 sent.
    let mut old = vec![0; 34];
    old[11] = 22;
    old[16] = 1;
    invalid_record(bench.append(&old));
    assert_eq!((bench.log().log_end(), bench.log().size_bytes()), (0, 0));
    assert_eq!(
        std::fs::metadata(bench.file("00000000000000000000.log"))
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn every_append_wakes_whoever_waits() {
    let bench = Bench::new(&[("retention.ms", "10000")]);
    let waiter = std::sync::Arc::new(tokio::sync::Notify::new());
    let registration = bench.log().wake_on_change(&waiter);
    let woken = || {
        use std::future::Future;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(waiter.notified()).poll(&mut context).is_ready()
    };
    assert!(!woken());
    bench.batches(1, NOW - 20_000);
    assert!(woken());
    assert!(!woken());
    bench.run();
    assert!(woken(), "a moved log start wakes too");
    bench.log().retire();
    assert!(woken(), "and so does the end of the partition");
    drop(registration);
}
