use super::*;
use crate::log::batch::attributes;
use crate::log::compression::Codec;

fn data(producer_id: i64, epoch: i16, sequence: i32, offset: i64, records: i32) -> BatchHeader {
    BatchHeader {
        base_offset: offset,
        size: 100,
        leader_epoch: 0,
        magic: 2,
        crc: 0,
        attributes: 0,
        last_offset_delta: records - 1,
        base_timestamp: 1000,
        max_timestamp: 1000 + offset,
        producer_id,
        producer_epoch: epoch,
        base_sequence: sequence,
        record_count: records,
    }
}

fn in_txn(mut header: BatchHeader) -> BatchHeader {
    header.attributes = attributes(Codec::None, false, true, false);
    header
}

fn end(states: &mut ProducerStates, producer_id: i64, offset: i64, aborted: bool) -> Option<CompletedTxn> {
    let mut header = data(producer_id, 0, -1, offset, 1);
    header.attributes = attributes(Codec::None, false, true, true);
    let coordinator_epoch = 3;
    states.apply(
        &header,
        Some(EndTxnMarker {
            aborted,
            coordinator_epoch,
        }),
    )
}

fn check(states: &ProducerStates, header: BatchHeader) -> Result<SequenceCheck, String> {
    states.check(&header).map_err(|error| match error {
        AppendError::OutOfOrderSequence { .. } => "out of order".to_owned(),
        AppendError::InvalidProducerEpoch { .. } => "epoch".to_owned(),
        AppendError::InvalidTxnState { .. } => "txn state".to_owned(),
        other => other.to_string(),
    })
}

fn fresh() -> Result<SequenceCheck, String> {
    Ok(SequenceCheck::Fresh)
}

fn refused(what: &str) -> Result<SequenceCheck, String> {
    Err(what.to_owned())
}

/// Scenario 103.
#[test]
fn s103_a_repeated_batch_is_answered_with_the_first_offsets() {
    let mut states = ProducerStates::default();
    states.apply(&data(1, 0, 0, 40, 1), None);
    match check(&states, data(1, 0, 0, 0, 1)).unwrap() {
        SequenceCheck::Duplicate(batch) => assert_eq!(
            (batch.first_offset(), batch.last_offset, batch.timestamp),
            (40, 40, 1040)
        ),
        SequenceCheck::Fresh => panic!("not recognised"),
    }
    assert_eq!(check(&states, data(1, 0, 2, 0, 1)), refused("out of order"));
    assert_eq!(check(&states, data(1, 0, 1, 0, 1)), fresh());
}

/// Scenario 104.
#[test]
fn s104_only_the_last_five_batches_are_remembered() {
    let mut states = ProducerStates::default();
    for sequence in 0..6 {
        states.apply(&data(1, 0, sequence, i64::from(sequence), 1), None);
    }
    assert_eq!(check(&states, data(1, 0, 0, 0, 1)), refused("out of order"));
    for sequence in 1..6 {
        assert!(matches!(
            check(&states, data(1, 0, sequence, 0, 1)),
            Ok(SequenceCheck::Duplicate(_))
        ));
    }
}

#[test]
fn a_duplicate_needs_the_same_first_and_last_sequence() {
    let mut states = ProducerStates::default();
    states.apply(&data(1, 0, 0, 0, 5), None);
    assert_eq!(check(&states, data(1, 0, 0, 0, 4)), refused("out of order"));
    assert_eq!(check(&states, data(1, 0, 1, 0, 4)), refused("out of order"));
    assert!(matches!(
        check(&states, data(1, 0, 0, 0, 5)),
        Ok(SequenceCheck::Duplicate(_))
    ));
    assert_eq!(
        check(&states, data(1, 1, 0, 0, 5)),
        fresh(),
        "another epoch, another batch"
    );
}

#[test]
fn sequences_wrap() {
    let mut states = ProducerStates::default();
    states.apply(&data(1, 0, i32::MAX - 1, 0, 2), None);
    assert_eq!(check(&states, data(1, 0, 0, 0, 1)), fresh());
    states.apply(&data(1, 0, i32::MAX, 2, 3), None);
    assert_eq!(states.producers()[&1].last_sequence(), 1);
    let batch = states.producers()[&1].batches()[1];
    assert_eq!((batch.first_sequence(), batch.first_offset()), (i32::MAX, 2));
    assert!(matches!(
        check(&states, data(1, 0, i32::MAX, 0, 3)),
        Ok(SequenceCheck::Duplicate(_))
    ));
    assert_eq!(check(&states, data(1, 0, 2, 0, 1)), fresh());
}

#[test]
fn epochs() {
    let mut states = ProducerStates::default();
    assert_eq!(
        check(&states, data(1, 3, 17, 0, 1)),
        fresh(),
        "nothing known: any sequence"
    );
    states.apply(&data(1, 3, 17, 0, 1), None);
    assert_eq!(check(&states, data(1, 2, 18, 0, 1)), refused("epoch"));
    assert_eq!(check(&states, data(1, 4, 18, 0, 1)), refused("out of order"));
    assert_eq!(check(&states, data(1, 4, 0, 0, 1)), fresh());
    states.apply(&data(1, 4, 0, 1, 1), None);
    assert_eq!(
        states.producers()[&1].batches().len(),
        1,
        "an older epoch's batches are forgotten"
    );
    assert_eq!(
        check(&states, data(-1, -1, -1, 0, 1)),
        fresh(),
        "no producer, no check"
    );
    // As seen on a running broker: an id with epoch -1 is taken with any sequence.
    states.apply(&data(7, -1, 5, 2, 1), None);
    assert_eq!(check(&states, data(7, -1, 9, 0, 1)), fresh());
}

/// Scenario 105.
#[test]
fn s105_idle_producers_expire_at_the_exact_time_unless_in_a_transaction() {
    let mut states = ProducerStates::default();
    states.apply(&data(1, 0, 0, 0, 1), None);
    states.apply(&in_txn(data(2, 0, 0, 0, 1)), None);
    assert_eq!(states.expire(1000 + 99, 100), 0);
    assert_eq!(states.expire(1000 + 100, 100), 1);
    assert_eq!(states.producers().keys().collect::<Vec<_>>(), [&2]);
    end(&mut states, 2, 5, false);
    assert_eq!(states.expire(1005 + 99, 100), 0);
    assert_eq!(states.expire(1005 + 100, 100), 1);
}

#[test]
fn clients_write_inside_a_transaction_only_if_it_is_open() {
    let mut states = ProducerStates::default();
    assert_eq!(check(&states, in_txn(data(1, 0, 0, 0, 1))), refused("txn state"));
    states.apply(&in_txn(data(1, 0, 0, 0, 1)), None);
    assert_eq!(check(&states, in_txn(data(1, 0, 1, 0, 1))), fresh());
    assert_eq!(check(&states, data(1, 0, 1, 0, 1)), refused("txn state"));
}

#[test]
fn the_last_stable_offset_and_aborted_transactions() {
    let mut states = ProducerStates::default();
    assert_eq!(states.last_stable_offset(10, 0), 10);
    states.apply(&in_txn(data(1, 0, 0, 10, 5)), None);
    states.apply(&in_txn(data(2, 0, 0, 15, 5)), None);
    states.apply(&in_txn(data(1, 0, 5, 20, 1)), None);
    assert_eq!(states.last_stable_offset(21, 0), 10);
    assert_eq!(states.last_stable_offset(21, 12), 12, "never below the log start");
    let completed = end(&mut states, 1, 21, true).unwrap();
    assert_eq!(
        completed.aborted_txn(),
        Some(AbortedTxn {
            producer_id: 1,
            first_offset: 10,
            last_offset: 21,
            last_stable_offset: 15
        })
    );
    assert_eq!(
        states.last_stable_offset(21, 0),
        10,
        "the marker is not below the high watermark yet"
    );
    states.on_high_watermark(22);
    assert_eq!(states.last_stable_offset(22, 0), 15);
    let completed = end(&mut states, 2, 22, false).unwrap();
    assert_eq!(
        (completed.aborted_txn(), completed.last_stable_offset),
        (None, 23)
    );
    states.on_high_watermark(23);
    assert_eq!(
        (states.first_unstable_offset(), states.last_stable_offset(23, 0)),
        (None, 23)
    );
    assert_eq!(
        end(&mut states, 2, 23, true),
        None,
        "no transaction, nothing completed"
    );
    assert_eq!(states.producers()[&2].coordinator_epoch, 3);
}

/// KAFKA-7190.
#[test]
fn moving_the_log_start_forgets_no_producer() {
    let mut states = ProducerStates::default();
    states.apply(&data(1, 0, 0, 0, 1), None);
    states.on_log_start(1000);
    assert_eq!(check(&states, data(1, 0, 5, 0, 1)), refused("out of order"));
}

#[test]
fn after_a_marker_alone_a_producer_starts_at_zero() {
    let mut states = ProducerStates::default();
    end(&mut states, 1, 10, false);
    assert_eq!(check(&states, data(1, 0, 3, 0, 1)), refused("out of order"));
    assert_eq!(check(&states, data(1, 0, 0, 0, 1)), fresh());
}
