use super::*;
use crate::log::batch::{attributes, encode, set_base_offset, set_crc, set_max_timestamp};
use crate::log::compression::compress;

const NOW: i64 = 1_700_000_000_000;

fn rules() -> AppendRules {
    AppendRules::from(&TopicSettings::default())
}

/// A batch of records with these keys and timestamps, all of value "v".
fn batch_of(records: &[(Option<&[u8]>, i64)], codec: Codec) -> Vec<u8> {
    let mut writer = RecordWriter::default();
    for (key, timestamp) in records {
        writer.push(timestamp - records[0].1, *key, Some(b"v"), 0, &[]);
    }
    let count = writer.count();
    let header = BatchHeader {
        base_offset: 0,
        size: 0,
        leader_epoch: -1,
        magic: 2,
        crc: 0,
        attributes: attributes(codec, false, false, false),
        last_offset_delta: count - 1,
        base_timestamp: records[0].1,
        max_timestamp: records.iter().map(|record| record.1).max().unwrap(),
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: count,
    };
    encode(&header, &compress(codec, &writer.into_bytes(), None).unwrap())
}

fn timed(timestamps: &[i64]) -> Vec<u8> {
    let records: Vec<_> = timestamps.iter().map(|timestamp| (None, *timestamp)).collect();
    batch_of(&records, Codec::None)
}

fn run(bytes: &[u8], rules: &AppendRules) -> Result<Accepted, AppendError> {
    validate(&single_batch(bytes)?, rules, NOW)
}

/// The Kafka name of the refusal.
fn refusal(bytes: &[u8], rules: &AppendRules) -> &'static str {
    match run(bytes, rules).unwrap_err() {
        AppendError::InvalidRecord { .. } => "INVALID_RECORD",
        AppendError::InvalidTimestamp { .. } => "INVALID_TIMESTAMP",
        AppendError::CorruptMessage(_) => "CORRUPT_MESSAGE",
        AppendError::MessageTooLarge { .. } => "MESSAGE_TOO_LARGE",
        AppendError::UnsupportedCompressionType(_) => "UNSUPPORTED_COMPRESSION_TYPE",
        other => panic!("{other}"),
    }
}

fn with(mut bytes: Vec<u8>, at: usize, value: &[u8]) -> Vec<u8> {
    bytes[at..at + value.len()].copy_from_slice(value);
    set_crc(&mut bytes);
    bytes
}

#[test]
fn a_good_batch_is_only_stamped() {
    for codec in Codec::ALL {
        let mut bytes = batch_of(&[(None, NOW), (Some(b"k"), NOW + 5)], codec);
        let original = bytes.clone();
        let accepted = run(&bytes, &rules()).unwrap();
        assert_eq!(accepted.rebuilt, None, "{codec:?}");
        let stamped = accepted.stamp(&mut bytes, 4711, 3);
        assert_eq!(stamped, BatchHeader::parse(&bytes).unwrap());
        assert_eq!(
            (stamped.base_offset, stamped.leader_epoch, stamped.max_timestamp),
            (4711, 3, NOW + 5)
        );
        assert_eq!(
            bytes[16..],
            original[16..],
            "nothing that the checksum covers has changed"
        );
        stamped.check_crc(&bytes).unwrap();
    }
}

/// Scenario 96.
#[test]
fn s096_a_client_batch_starts_at_offset_zero() {
    let mut bytes = timed(&[NOW]);
    set_base_offset(&mut bytes, 1);
    assert_eq!(refusal(&bytes, &rules()), "INVALID_RECORD");
}

/// Scenario 97.
#[test]
fn s097_a_compacted_topic_needs_keys() {
    let mut rules = rules();
    rules.compacted = true;
    for codec in Codec::ALL {
        match run(&batch_of(&[(Some(b"k"), NOW), (None, NOW)], codec), &rules).unwrap_err() {
            AppendError::InvalidRecord { records, .. } => {
                assert_eq!(records.iter().map(|record| record.index).collect::<Vec<_>>(), [1]);
            }
            other => panic!("{other}"),
        }
        run(&batch_of(&[(Some(b"k"), NOW), (Some(b""), NOW)], codec), &rules).unwrap();
    }
}

/// Scenarios 98 and 99.
#[test]
fn s098_s099_timestamps_of_create_time() {
    let mut rules = rules();
    for codec in Codec::ALL {
        let at = |timestamp| batch_of(&[(None, timestamp)], codec);
        run(&at(NOW + 3_600_000), &rules).unwrap();
        assert_eq!(
            refusal(&at(NOW + 3_600_001), &rules),
            "INVALID_TIMESTAMP",
            "{codec:?}"
        );
        run(&at(-1), &rules).unwrap();
        run(&at(0), &rules).unwrap();
    }
    rules.before_max_ms = 1_000;
    for codec in Codec::ALL {
        let at = |timestamp| batch_of(&[(None, NOW), (None, timestamp)], codec);
        run(&at(NOW - 1_000), &rules).unwrap();
        assert_eq!(
            refusal(&at(NOW - 1_001), &rules),
            "INVALID_TIMESTAMP",
            "{codec:?}"
        );
        run(&at(-1), &rules).unwrap();
    }
}

#[test]
fn the_record_to_blame_is_named_in_a_compressed_batch_too() {
    for codec in Codec::ALL {
        let bytes = batch_of(&[(None, NOW), (None, NOW - 9), (None, NOW + 7_200_000)], codec);
        match run(&bytes, &rules()).unwrap_err() {
            AppendError::InvalidTimestamp { records, .. } => {
                let indexes: Vec<i32> = records.iter().map(|record| record.index).collect();
                assert_eq!(indexes, [2], "{codec:?}");
            }
            other => panic!("{codec:?}: {other}"),
        }
    }
}

#[test]
fn one_bad_timestamp_makes_the_whole_refusal_one_of_timestamps() {
    let mut rules = rules();
    rules.compacted = true;
    let bytes = batch_of(&[(None, NOW), (Some(b"k"), NOW + 7_200_000)], Codec::None);
    match run(&bytes, &rules).unwrap_err() {
        AppendError::InvalidTimestamp { records, message } => {
            assert_eq!(records.len(), 2);
            assert!(message.contains("record 0"), "{message}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn log_append_time_stamps_the_batch_and_takes_no_such_bit_from_a_producer() {
    let mut rules = rules();
    rules.timestamp_type = TimestampType::LogAppendTime;
    let mut bytes = timed(&[5, NOW * 2]);
    let accepted = run(&bytes, &rules).unwrap();
    let stamped = accepted.stamp(&mut bytes, 0, 0);
    assert!(stamped.is_log_append_time());
    assert_eq!(stamped.max_timestamp, NOW);
    assert_eq!(stamped, BatchHeader::parse(&bytes).unwrap());
    stamped.check_crc(&bytes).unwrap();

    for codec in Codec::ALL {
        let mut bytes = batch_of(&[(None, NOW)], codec);
        set_max_timestamp(&mut bytes, true, NOW);
        assert_eq!(refusal(&bytes, &rules), "INVALID_TIMESTAMP", "{codec:?}");
        // As seen on a running broker, a CreateTime topic takes it and clears the bit.
        let mut create_time = rules;
        create_time.timestamp_type = TimestampType::CreateTime;
        let accepted = run(&bytes, &create_time).unwrap();
        assert!(!accepted.stamp(&mut bytes, 0, 0).is_log_append_time());
    }
}

#[test]
fn the_largest_timestamp_is_that_of_the_records() {
    let mut bytes = with(timed(&[NOW - 10, NOW - 5]), 35, &NOW.to_be_bytes());
    let accepted = run(&bytes, &rules()).unwrap();
    assert_eq!(accepted.stamp(&mut bytes, 0, 0).max_timestamp, NOW - 5);
    assert_eq!(BatchHeader::parse(&bytes).unwrap().max_timestamp, NOW - 5);
}

#[test]
fn structure() {
    let good = || timed(&[NOW, NOW]);
    assert_eq!(refusal(&[], &rules()), "INVALID_RECORD");
    assert_eq!(refusal(&good()[..50], &rules()), "INVALID_RECORD");
    assert_eq!(refusal(&[good(), good()].concat(), &rules()), "INVALID_RECORD");
    run(&[good(), good()[..40].to_vec()].concat(), &rules()).unwrap();
    let mut flipped = good();
    let last = flipped.len() - 2;
    flipped[last] ^= 1;
    assert_eq!(refusal(&flipped, &rules()), "CORRUPT_MESSAGE");
    assert_eq!(
        refusal(&with(good(), 8, &13_i32.to_be_bytes()), &rules()),
        "CORRUPT_MESSAGE"
    );
    assert_eq!(refusal(&with(good(), 16, &[9]), &rules()), "CORRUPT_MESSAGE");
    assert_eq!(refusal(&with(good(), 16, &[1]), &rules()), "INVALID_RECORD");
    assert_eq!(
        refusal(&with(good(), 57, &3_i32.to_be_bytes()), &rules()),
        "INVALID_RECORD"
    );
    assert_eq!(
        refusal(&with(good(), 57, &(-1_i32).to_be_bytes()), &rules()),
        "INVALID_RECORD"
    );
    assert_eq!(
        refusal(&with(good(), 23, &2_i32.to_be_bytes()), &rules()),
        "INVALID_RECORD"
    );
    let control = attributes(Codec::None, false, false, true);
    assert_eq!(
        refusal(&with(good(), 21, &control.to_be_bytes()), &rules()),
        "INVALID_RECORD"
    );
    assert_eq!(
        refusal(&with(good(), 43, &7_i64.to_be_bytes()), &rules()),
        "INVALID_RECORD"
    );
    for codec in 5..8_i16 {
        assert_eq!(
            refusal(&with(good(), 21, &codec.to_be_bytes()), &rules()),
            "UNSUPPORTED_COMPRESSION_TYPE"
        );
    }
    // Counts agree, but only two records are there.
    let three = with(with(good(), 57, &3_i32.to_be_bytes()), 23, &2_i32.to_be_bytes());
    assert_eq!(refusal(&three, &rules()), "INVALID_RECORD");
}

#[test]
fn the_size_bound_comes_before_the_checksum_and_is_exact() {
    let mut rules = rules();
    let mut bytes = timed(&[NOW]);
    rules.max_message_bytes = bytes.len() as i64;
    run(&bytes, &rules).unwrap();
    rules.max_message_bytes -= 1;
    bytes[68] ^= 1;
    assert_eq!(refusal(&bytes, &rules), "MESSAGE_TOO_LARGE");
}

#[test]
fn another_codec_means_the_same_records_in_a_new_batch() {
    for from in Codec::ALL {
        for to in Codec::ALL {
            let rules = AppendRules {
                codec: Some(to),
                ..rules()
            };
            let sent = batch_of(&[(Some(b"k"), NOW), (None, NOW - 7), (None, NOW + 9)], from);
            let accepted = run(&sent, &rules).unwrap();
            assert_eq!(accepted.rebuilt.is_some(), from != to, "{from:?} to {to:?}");
            let mut stored = accepted.rebuilt.clone().unwrap_or_else(|| sent.clone());
            let header = accepted.stamp(&mut stored, 50, 2);
            assert_eq!(header, BatchHeader::parse(&stored).unwrap());
            assert_eq!(header.codec(), Ok(to));
            header.check_crc(&stored).unwrap();
            let slice = single_batch(&stored).unwrap();
            let open = OpenBatch::open(&slice, 1 << 20).unwrap();
            let records: Vec<_> = open
                .records()
                .map(Result::unwrap)
                .map(|r| (r.offset, r.timestamp, r.key))
                .collect();
            assert_eq!(
                records,
                [
                    (50, NOW, Some(&b"k"[..])),
                    (51, NOW - 7, None),
                    (52, NOW + 9, None)
                ]
            );
        }
    }
}

#[test]
fn a_rebuilt_batch_must_fit_too() {
    let value = vec![0; 10_000];
    let mut writer = RecordWriter::default();
    writer.push(0, None, Some(&value), 0, &[]);
    let mut header = BatchHeader::parse(&timed(&[NOW])).unwrap();
    header.attributes = Codec::Gzip.id();
    let sent = encode(
        &header,
        &compress(Codec::Gzip, &writer.into_bytes(), None).unwrap(),
    );
    let rules = AppendRules {
        codec: Some(Codec::None),
        max_message_bytes: 5_000,
        ..rules()
    };
    assert_eq!(refusal(&sent, &rules), "MESSAGE_TOO_LARGE");
    let bomb = AppendRules {
        codec: Some(Codec::None),
        decompressed_cap: 5_000,
        ..rules
    };
    assert_eq!(refusal(&sent, &bomb), "INVALID_RECORD");
}

/// Offsets inside the batch that are not 0, 1, 2… are put right.
#[test]
fn odd_inner_offsets_are_rewritten() {
    let mut writer = RecordWriter::default();
    for _ in 0..2 {
        writer.push(0, None, Some(b"v"), 0, &[]);
    }
    let mut payload = writer.into_bytes();
    payload[3] = 8; // offset delta 4 in the first record
    let header = BatchHeader::parse(&timed(&[NOW, NOW])).unwrap();
    let sent = encode(&header, &payload);
    let accepted = run(&sent, &rules()).unwrap();
    let mut stored = accepted.rebuilt.clone().unwrap();
    accepted.stamp(&mut stored, 10, 0);
    let slice = single_batch(&stored).unwrap();
    let open = OpenBatch::open(&slice, 1000).unwrap();
    let offsets: Vec<_> = open.records().map(|record| record.unwrap().offset).collect();
    assert_eq!(offsets, [10, 11]);
}

proptest::proptest! {
    #[test]
    fn hostile_batches_never_panic(at in 0_usize..200, value: u8, codec in 0_usize..5, fix_crc: bool, compacted: bool, target in 0_usize..6) {
        let mut bytes = batch_of(&[(Some(b"key"), NOW), (None, NOW)], Codec::ALL[codec]);
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
        if fix_crc {
            set_crc(&mut bytes);
        }
        let rules = AppendRules { compacted, codec: Codec::ALL.get(target).copied(), decompressed_cap: 10_000, ..rules() };
        if let Ok(accepted) = run(&bytes, &rules) {
            let mut stored = accepted.rebuilt.clone().unwrap_or_else(|| bytes.clone());
            stored.truncate(accepted.header.size as usize);
            let header = accepted.stamp(&mut stored, 7, 1);
            proptest::prop_assert_eq!(BatchHeader::parse(&stored), Ok(header));
            proptest::prop_assert!(header.check_crc(&stored).is_ok());
        }
    }
}
