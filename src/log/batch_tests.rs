use super::*;

/// base 0, epoch 0, CreateTime, timestamps 1000, one record null -> "test"
const ONE: &str = "00000000000000000000003c0000000002b36be24400000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff000000011400000001087465737400";
/// base 5, epoch 3, timestamps 1000 and 1050, records k -> "v1" and k -> null
const TWO: &str = "0000000000000005000000430000000302116421b200000000000100000000000003e8000000000000041affffffffffffffffffffffffffff0000000212000000026b047631000e006402026b0100";
/// abort marker: base 110, ts 2000, producer 9 epoch 0
const ABORT: &str = "000000000000006e00000042000000000216ae8d5600300000000000000000000007d000000000000007d000000000000000090000ffffffff000000012000000008000000000c00000000000700";

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

#[test]
fn golden_batches_are_read_field_by_field() {
    let bytes = unhex(TWO);
    let header = BatchHeader::parse(&bytes).unwrap();
    assert_eq!(
        header,
        BatchHeader {
            base_offset: 5,
            size: 79,
            leader_epoch: 3,
            magic: 2,
            crc: 0x1164_21b2,
            attributes: 0,
            last_offset_delta: 1,
            base_timestamp: 1000,
            max_timestamp: 1050,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: 2,
        }
    );
    assert_eq!((header.last_offset(), header.next_offset()), (6, 7));
    header.check_crc(&bytes).unwrap();

    let bytes = unhex(ABORT);
    let header = BatchHeader::parse(&bytes).unwrap();
    assert!(header.is_control() && header.is_transactional() && header.has_producer());
    assert_eq!(
        (header.base_offset, header.producer_id, header.last_sequence()),
        (110, 9, -1)
    );
    header.check_crc(&bytes).unwrap();
}

#[test]
fn golden_batches_are_written_byte_for_byte() {
    for vector in [ONE, TWO, ABORT] {
        let bytes = unhex(vector);
        let header = BatchHeader::parse(&bytes).unwrap();
        assert_eq!(encode(&header, &bytes[HEADER_LEN..]), bytes);
    }
}

#[test]
fn crc_of_the_check_string() {
    let mut checksum = Checksum::new(2);
    checksum.update(b"12345");
    checksum.update(b"6789");
    assert_eq!(checksum.finish(), 0xe306_9283);
    let mut checksum = Checksum::new(1);
    checksum.update(b"123456789");
    assert_eq!(checksum.finish(), 0xcbf4_3926);
}

#[test]
fn offset_and_epoch_are_stamped_without_touching_the_checksum() {
    let mut bytes = unhex(ONE);
    set_base_offset(&mut bytes, 4711);
    set_leader_epoch(&mut bytes, 12);
    let header = BatchHeader::parse(&bytes).unwrap();
    assert_eq!(
        (header.base_offset, header.leader_epoch, header.crc),
        (4711, 12, 0xb36b_e244)
    );
    header.check_crc(&bytes).unwrap();
}

#[test]
fn a_new_timestamp_type_gets_a_new_checksum_and_the_same_one_none() {
    let mut bytes = unhex(ONE);
    set_max_timestamp(&mut bytes, false, 1000);
    assert_eq!(bytes, unhex(ONE));
    set_max_timestamp(&mut bytes, true, 5000);
    let header = BatchHeader::parse(&bytes).unwrap();
    assert!(header.is_log_append_time());
    assert_eq!(header.max_timestamp, 5000);
    assert_ne!(header.crc, 0xb36b_e244);
    header.check_crc(&bytes).unwrap();
    set_max_timestamp(&mut bytes, false, 1000);
    assert_eq!(bytes, unhex(ONE), "and back again to the same bytes");
}

#[test]
fn sequences_wrap_to_zero() {
    assert_eq!(sequence_after(i32::MAX, 0), i32::MAX);
    assert_eq!(sequence_after(i32::MAX, 1), 0);
    assert_eq!(sequence_after(i32::MAX - 1, 3), 1);
    assert_eq!(sequence_after(i32::MAX, i32::MAX), i32::MAX - 1);
}

#[test]
fn a_walk_ends_silently_at_a_torn_tail_and_says_where() {
    let mut bytes = unhex(ONE);
    bytes.extend(unhex(TWO));
    let whole = bytes.len();
    for cut in 0..=79 {
        let mut walk = batches(&bytes[..whole - cut]);
        let sizes: Vec<u32> = walk.by_ref().map(|batch| batch.unwrap().header.size).collect();
        let (expected, end) = if cut == 0 {
            (vec![72, 79], 151)
        } else {
            (vec![72], 72)
        };
        assert_eq!((sizes, walk.position()), (expected, end), "{cut} bytes cut");
    }
}

#[test]
fn headers_no_batch_can_have_are_errors() {
    let with = |at: usize, value: &[u8]| {
        let mut bytes = unhex(TWO);
        bytes[at..at + value.len()].copy_from_slice(value);
        BatchHeader::parse(&bytes).unwrap_err()
    };
    assert_eq!(with(8, &13_i32.to_be_bytes()), BatchError::BadLength(13));
    assert_eq!(with(8, &(-1_i32).to_be_bytes()), BatchError::BadLength(-1));
    assert_eq!(with(8, &48_i32.to_be_bytes()), BatchError::BadLength(48));
    assert_eq!(with(16, &[3]), BatchError::BadMagic(3));
    assert_eq!(with(16, &[0xff]), BatchError::BadMagic(-1));
    assert!(matches!(with(57, &[0xff]), BatchError::BadHeader(_)));
    assert!(matches!(with(23, &[0xff]), BatchError::BadHeader(_)));
    assert!(matches!(
        with(0, &i64::MAX.to_be_bytes()),
        BatchError::BadHeader(_)
    ));
    let zeros = [0_u8; 100];
    assert_eq!(BatchHeader::parse(&zeros), Err(BatchError::BadLength(0)));
    assert_eq!(batches(&zeros).next(), Some(Err(BatchError::BadLength(0))));
    assert_eq!(batches(&zeros[..17]).next(), None);
}

#[test]
fn every_flipped_bit_of_the_covered_part_is_noticed() {
    let good = unhex(TWO);
    for at in CRC_FROM..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            let noticed = BatchHeader::parse(&bytes).and_then(|header| header.check_crc(&bytes));
            assert!(noticed.is_err(), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn messages_of_magic_0_and_1_are_read_as_one_batch_each() {
    // magic 1: offset 7, attributes 0, timestamp 99, null key, value "x"
    let mut body = vec![1, 0];
    body.extend(99_i64.to_be_bytes());
    body.extend((-1_i32).to_be_bytes());
    body.extend(1_i32.to_be_bytes());
    body.push(b'x');
    let mut checksum = Checksum::new(1);
    checksum.update(&body);
    let mut bytes = 7_i64.to_be_bytes().to_vec();
    bytes.extend((4 + body.len() as i32).to_be_bytes());
    bytes.extend(checksum.finish().to_be_bytes());
    bytes.extend(&body);
    let header = BatchHeader::parse(&bytes).unwrap();
    assert_eq!(
        (header.base_offset, header.last_offset(), header.max_timestamp),
        (7, 7, 99)
    );
    assert_eq!(
        (header.size as usize, header.record_count, header.producer_id),
        (bytes.len(), -1, -1)
    );
    header.check_crc(&bytes).unwrap();
    let last = bytes.len() - 1;
    bytes[last] = b'y';
    assert!(header.check_crc(&bytes).is_err());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_walked_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        let mut walk = batches(&bytes);
        for batch in walk.by_ref().flatten() {
            let _ = batch.header.check_crc(batch.bytes);
        }
        proptest::prop_assert!(walk.position() <= bytes.len());
    }

    #[test]
    fn a_header_survives_writing_and_reading(
        base_offset in 0..i64::MAX / 2, leader_epoch: i32, attributes in 0_i16..128, last_offset_delta in 0..i32::MAX,
        base_timestamp: i64, max_timestamp: i64, producer_id: i64, producer_epoch: i16, base_sequence: i32,
        record_count in 0..i32::MAX, records in proptest::collection::vec(proptest::num::u8::ANY, 0..50),
    ) {
        let mut header = BatchHeader {
            base_offset, size: 0, leader_epoch, magic: 2, crc: 0, attributes, last_offset_delta, base_timestamp,
            max_timestamp, producer_id, producer_epoch, base_sequence, record_count,
        };
        let bytes = encode(&header, &records);
        let read = BatchHeader::parse(&bytes).unwrap();
        read.check_crc(&bytes).unwrap();
        header.size = bytes.len() as u32;
        header.crc = read.crc;
        proptest::prop_assert_eq!(read, header);
    }
}
