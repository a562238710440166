use proptest::prelude::*;

use super::*;
use crate::log::batch::{attributes, batches, encode};
use crate::log::compression::{Codec, compress};

const CAP: usize = 1 << 20;

#[derive(Debug, Clone)]
struct Plain {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn header(count: i32, codec: Codec) -> BatchHeader {
    BatchHeader {
        base_offset: 100,
        size: 0,
        leader_epoch: 0,
        magic: 2,
        crc: 0,
        attributes: attributes(codec, false, false, false),
        last_offset_delta: (count - 1).max(0),
        base_timestamp: 5_000,
        max_timestamp: 9_000,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: count,
    }
}

fn encoded(records: &[Plain], codec: Codec) -> Vec<u8> {
    let mut writer = RecordWriter::default();
    for record in records {
        let mut headers = Vec::new();
        for (key, value) in &record.headers {
            put_varlong(&mut headers, key.len() as i64);
            headers.extend(key);
            put_varlong(
                &mut headers,
                value.as_ref().map_or(-1, |value| value.len() as i64),
            );
            headers.extend(value.iter().flatten());
        }
        writer.push(
            record.timestamp - 5_000,
            record.key.as_deref(),
            record.value.as_deref(),
            record.headers.len() as i32,
            &headers,
        );
    }
    let count = writer.count();
    let payload = compress(codec, &writer.into_bytes(), None).unwrap();
    encode(&header(count, codec), &payload)
}

fn slice(bytes: &[u8]) -> BatchSlice<'_> {
    batches(bytes).next().unwrap().unwrap()
}

fn timed(timestamps: &[i64]) -> Vec<u8> {
    let plain = |timestamp: &i64| Plain {
        timestamp: *timestamp,
        key: None,
        value: Some(b"v".to_vec()),
        headers: vec![],
    };
    encoded(&timestamps.iter().map(plain).collect::<Vec<_>>(), Codec::None)
}

#[test]
fn records_of_the_golden_batch() {
    let hex = "0000000000000005000000430000000302116421b200000000000100000000000003e8000000000000041affffffffffffffffffffffffffff0000000212000000026b047631000e006402026b0100";
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let open = OpenBatch::open(&slice(&bytes), CAP).unwrap();
    let records: Vec<_> = open.records().map(Result::unwrap).collect();
    let fields: Vec<_> = records
        .iter()
        .map(|record| (record.offset, record.timestamp, record.key, record.value))
        .collect();
    assert_eq!(
        fields,
        [
            (5, 1000, Some(&b"k"[..]), Some(&b"v1"[..])),
            (6, 1050, Some(&b"k"[..]), None)
        ]
    );
}

#[test]
fn the_golden_abort_marker() {
    let hex = "000000000000006e00000042000000000216ae8d5600300000000000000000000007d000000000000007d000000000000000090000ffffffff000000012000000008000000000c00000000000700";
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let marker = EndTxnMarker {
        aborted: true,
        coordinator_epoch: 7,
    };
    assert_eq!(end_txn_marker(&slice(&bytes)).unwrap(), Some(marker));
    assert!(
        !has_data_in(&slice(&bytes), 0, 1000, CAP).unwrap(),
        "a marker is no data"
    );
}

/// Scenario 93, inside one batch: the first record at or after a time, and never one below the start.
#[test]
fn lookups_by_time() {
    let bytes = timed(&[5_000, 5_010, 5_005, 5_020, 5_020]);
    let batch = slice(&bytes);
    let find = |timestamp, from| first_at_or_after(&batch, timestamp, from, CAP).unwrap();
    assert_eq!(find(0, 0), Some((100, 5_000)));
    assert_eq!(find(5_001, 0), Some((101, 5_010)));
    assert_eq!(find(5_005, 102), Some((102, 5_005)));
    assert_eq!(find(5_020, 104), Some((104, 5_020)));
    assert_eq!(find(5_021, 0), None);
    assert_eq!(find(0, 105), None);
    assert_eq!(
        largest_timestamp(&batch, CAP).unwrap(),
        Some((5_020, 103)),
        "the first that carries it"
    );
    assert_eq!(first_with_timestamp(&batch, 5_005, CAP).unwrap(), Some(102));
    assert_eq!(first_with_timestamp(&batch, 5_006, CAP).unwrap(), None);
}

#[test]
fn under_log_append_time_the_header_stamps_every_record() {
    let mut bytes = timed(&[5_000, 5_010]);
    crate::log::batch::set_max_timestamp(&mut bytes, true, 77_000);
    let open = OpenBatch::open(&slice(&bytes), CAP).unwrap();
    assert!(open.records().all(|record| record.unwrap().timestamp == 77_000));
}

#[test]
fn data_in_a_range() {
    let bytes = timed(&[1, 2, 3]);
    let batch = slice(&bytes);
    for (from, to, expected) in [
        (0, 100, false),
        (0, 101, true),
        (102, 103, true),
        (103, 200, false),
        (101, 101, false),
    ] {
        assert_eq!(
            has_data_in(&batch, from, to, CAP).unwrap(),
            expected,
            "{from}..{to}"
        );
    }
    // Compaction took the middle record: offsets 100 and 102 are left.
    let mut writer = RecordWriter::default();
    writer.push(0, None, Some(b"a"), 0, &[]);
    let mut payload = writer.into_bytes();
    payload.extend([0x0e, 0, 0, 0x04, 0x01, 0x02, b'c', 0]);
    let mut gap = header(2, Codec::None);
    gap.last_offset_delta = 2;
    let bytes = encode(&gap, &payload);
    let batch = slice(&bytes);
    let offsets = OpenBatch::open(&batch, CAP).unwrap();
    let offsets: Vec<_> = offsets
        .records()
        .map(|record| record.map(|record| record.offset))
        .collect();
    assert_eq!(offsets, [Ok(100), Ok(102)]);
    for (from, to, expected) in [
        (101, 102, false),
        (101, 103, true),
        (100, 101, true),
        (0, 1000, true),
    ] {
        assert_eq!(
            has_data_in(&batch, from, to, CAP).unwrap(),
            expected,
            "{from}..{to} with a gap"
        );
    }
    let mut empty = header(0, Codec::None);
    empty.last_offset_delta = 4;
    assert!(
        !has_data_in(&slice(&encode(&empty, &[])), 0, 1000, CAP).unwrap(),
        "all records compacted away"
    );
}

#[test]
fn broken_records_are_errors_and_end_the_walk() {
    let good = timed(&[1, 2]);
    let with = |count: i32, payload: &[u8]| {
        let bytes = encode(&header(count, Codec::None), payload);
        let open = OpenBatch::open(&slice(&bytes), CAP).unwrap();
        open.records()
            .map(|record| record.map(|_| ()))
            .collect::<Vec<_>>()
    };
    let payload = &good[HEADER_LEN..];
    let bad = |result: Option<&Result<(), BatchError>>, what: &str| {
        assert!(
            result.unwrap().as_ref().unwrap_err().to_string().contains(what),
            "{what}: {result:?}"
        );
    };
    let left_over = with(1, payload);
    assert_eq!(left_over.len(), 2);
    bad(left_over.last(), "left over");
    let missing = with(3, payload);
    assert_eq!(missing.len(), 3);
    bad(missing.last(), "cut off");
    bad(
        with(1, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01]).last(),
        "length is cut off",
    );
    bad(with(1, &[0x01]).last(), "runs past");
    bad(with(1, &[0x7e, 0, 0]).last(), "runs past");
    bad(with(1, &[0x0c, 0, 0, 0, 1, 1, 0x7e]).last(), "header count");
    bad(with(1, &[0x0c, 0, 0, 0, 1, 1, 0x01]).last(), "header count");
    bad(with(1, &[0x0e, 0, 0, 0, 1, 1, 0, 0]).last(), "exactly");
    assert!(with(i32::MAX, payload).len() <= 3, "a count alone costs nothing");
}

#[test]
fn messages_of_magic_1_inside_a_compressed_one() {
    let message = |offset: i64, timestamp: i64, codec: i16, value: &[u8]| {
        let mut body = vec![1, codec as u8];
        body.extend(timestamp.to_be_bytes());
        body.extend((-1_i32).to_be_bytes());
        body.extend((value.len() as i32).to_be_bytes());
        body.extend(value);
        let mut bytes = offset.to_be_bytes().to_vec();
        bytes.extend((body.len() as i32 + 4).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes
    };
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        let inner = [
            message(0, 10, 0, b"a"),
            message(1, 30, 0, b"b"),
            message(2, 20, 0, b"c"),
        ]
        .concat();
        let bytes = message(12, 30, codec.id(), &compress(codec, &inner, None).unwrap());
        let open = OpenBatch::open(&slice(&bytes), CAP).unwrap();
        let found: Vec<_> = open
            .records()
            .map(Result::unwrap)
            .map(|r| (r.offset, r.timestamp, r.value))
            .collect();
        assert_eq!(
            found,
            [
                (10, 10, Some(&b"a"[..])),
                (11, 30, Some(&b"b"[..])),
                (12, 20, Some(&b"c"[..]))
            ]
        );
        assert!(has_data_in(&slice(&bytes), 11, 12, CAP).unwrap());
        assert!(
            OpenBatch::open(&slice(&bytes), 10).is_err(),
            "the cap holds here too"
        );
    }
    let bytes = message(7, 99, 0, b"x");
    let open = OpenBatch::open(&slice(&bytes), CAP).unwrap();
    let found: Vec<_> = open
        .records()
        .map(Result::unwrap)
        .map(|r| (r.offset, r.timestamp, r.value))
        .collect();
    assert_eq!(found, [(7, 99, Some(&b"x"[..]))]);
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..most)
}

fn plain() -> impl Strategy<Value = Plain> {
    (
        0_i64..1 << 50,
        proptest::option::of(bytes(10)),
        proptest::option::of(bytes(100)),
        proptest::collection::vec((bytes(5), proptest::option::of(bytes(5))), 0..3),
    )
        .prop_map(|(timestamp, key, value, headers)| Plain {
            timestamp,
            key,
            value,
            headers,
        })
}

proptest! {
    #[test]
    fn records_survive_writing_and_reading(records in proptest::collection::vec(plain(), 1..8), codec in 0_usize..5) {
        let bytes = encoded(&records, Codec::ALL[codec]);
        let open = OpenBatch::open(&slice(&bytes), CAP).unwrap();
        let read: Vec<Record<'_>> = open.records().map(Result::unwrap).collect();
        prop_assert_eq!(read.len(), records.len());
        for (index, (read, plain)) in read.iter().zip(&records).enumerate() {
            prop_assert_eq!((read.index as usize, read.offset), (index, 100 + index as i64));
            prop_assert_eq!(read.timestamp, plain.timestamp);
            prop_assert_eq!(read.key, plain.key.as_deref());
            prop_assert_eq!(read.value, plain.value.as_deref());
            let headers: Vec<_> = record_headers(read).map(Option::unwrap).collect();
            let expected: Vec<_> = plain.headers.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
            prop_assert_eq!(headers, expected);
        }
    }

    #[test]
    fn varints_survive(value: i64, small: i32) {
        let mut bytes = Vec::new();
        put_varlong(&mut bytes, value);
        put_varlong(&mut bytes, i64::from(small));
        let mut reader = Reader(&bytes);
        prop_assert_eq!(reader.varlong(), Some(value));
        prop_assert_eq!(reader.varint(), Some(small));
        prop_assert!(reader.0.is_empty());
    }

    #[test]
    fn hostile_records_never_panic(payload in bytes(200), count: i32, attributes in 0_i16..128, magic in 0_i8..3) {
        let mut header = header(count.max(0), Codec::None);
        header.attributes = attributes;
        let mut bytes = encode(&header, &payload);
        bytes[16] = magic as u8;
        if let Some(Ok(batch)) = batches(&bytes).next() {
            let _ = end_txn_marker(&batch);
            let _ = first_at_or_after(&batch, 0, 0, 10_000);
            let _ = largest_timestamp(&batch, 10_000);
            let _ = has_data_in(&batch, 101, 102, 10_000);
        }
    }
}
