//! The header of a record batch, and walking over batches laid one after another.
//!
//! A batch is the unit that is written, sent and deleted; the broker looks at its first 61 bytes and leaves the rest
//! as the producer made it. Base offset and leader epoch lie outside the checksum, so they are stamped in place without
//! computing it again; timestamp type and largest timestamp lie inside.
//!
//! Batches of magic 0 and 1 (written before Kafka 0.11) can still lie in old directories. They are read here as one
//! "batch" per message, as Kafka does: the offset of a compressed one is that of its last inner message.
//!
//! Layout: Kafka's `DefaultRecordBatch` and `LegacyRecord`. All integers are big-endian.
use crate::log::compression::{Codec, CompressionError};

/// Bytes of a v2 header.
pub const HEADER_LEN: usize = 61;
/// Bytes before the length counts: base offset and the length itself.
pub const PREFIX_LEN: usize = 12;
/// Fewest bytes from which a batch's magic and length can be told (Kafka stops reading a file below 18).
pub const MIN_LEN: usize = 18;
/// Smallest value of the length field that Kafka's reader does not call corrupt: an empty magic 0 message.
const MIN_LENGTH_FIELD: i32 = 14;
/// Header bytes of the longest legacy message up to and with its timestamp.
const LEGACY_V1_LEN: usize = PREFIX_LEN + 14;

/// Offset of the checksum in a v2 batch.
const CRC_AT: usize = 17;
/// First byte that the checksum covers.
pub const CRC_FROM: usize = 21;
const ATTRIBUTES_AT: usize = 21;
const MAX_TIMESTAMP_AT: usize = 35;

const CODEC_MASK: i16 = 0b0111;
const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

/// What is wrong with a batch. Positions are relative to the start of the batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Fewer bytes than the header or the declared length needs.
    #[error("{have} bytes where the batch needs {need}")]
    Torn {
        /// Bytes that are there.
        have: u64,
        /// Bytes that the batch needs.
        need: u64,
    },
    /// A length field that no batch can have.
    #[error("length field {0} is out of bounds")]
    BadLength(i32),
    /// A magic byte that is none of 0, 1, 2.
    #[error("magic {0} is not 0, 1 or 2")]
    BadMagic(i8),
    /// Header fields that contradict each other.
    #[error("{0}")]
    BadHeader(String),
    /// The stored checksum is not that of the bytes.
    #[error("checksum {stored:#010x} is stored, {computed:#010x} computed")]
    BadChecksum {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// The records do not decompress, or not within the bound.
    #[error("cannot decompress: {0}")]
    BadCompression(String),
    /// The records break their own format.
    #[error("record {index}: {what}")]
    BadRecord {
        /// Place in the batch, from 0.
        index: i32,
        /// What is wrong.
        what: String,
    },
}

impl From<CompressionError> for BatchError {
    fn from(error: CompressionError) -> Self {
        Self::BadCompression(error.to_string())
    }
}

/// The fields of a batch header.
///
/// For magic 0 and 1 what the format lacks is filled in: one message, no producer (-1), no leader epoch (-1), and for
/// magic 0 no timestamp (-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record; for magic 0 and 1 that of the message itself.
    pub base_offset: i64,
    /// The whole batch in bytes, prefix and header included.
    pub size: u32,
    /// Leader epoch, -1 if unknown.
    pub leader_epoch: i32,
    /// Format: 0, 1 or 2.
    pub magic: i8,
    /// Stored checksum: CRC-32C in magic 2, CRC-32 before.
    pub crc: u32,
    /// Attribute bits.
    pub attributes: i16,
    /// Last offset minus base offset.
    pub last_offset_delta: i32,
    /// Timestamp of the first record in ms, or the delete horizon.
    pub base_timestamp: i64,
    /// Largest timestamp of the batch in ms, -1 if its records have none.
    pub max_timestamp: i64,
    /// Producer id, -1 if none.
    pub producer_id: i64,
    /// Producer epoch, -1 if none.
    pub producer_epoch: i16,
    /// Sequence of the first record, -1 if none.
    pub base_sequence: i32,
    /// Number of records; -1 where only the records themselves tell (magic 0 and 1).
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`, which may hold more or less than the whole batch.
    ///
    /// # Errors
    /// [`BatchError::Torn`] if fewer bytes are there than the header has, [`BatchError::BadLength`],
    /// [`BatchError::BadMagic`] and [`BatchError::BadHeader`] for what no batch can say. Checksum and records are not
    /// looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let (Some(length), Some(magic)) = (i32_at(bytes, 8), bytes.get(16)) else {
            return Err(torn(bytes, MIN_LEN));
        };
        let magic = i8::from_be_bytes([*magic]);
        if length < MIN_LENGTH_FIELD {
            return Err(BatchError::BadLength(length));
        }
        match magic {
            0 | 1 => Self::parse_legacy(bytes, length, magic),
            2 => Self::parse_v2(bytes, length).unwrap_or_else(|| Err(torn(bytes, HEADER_LEN))),
            _ => Err(BatchError::BadMagic(magic)),
        }
    }

    fn parse_v2(bytes: &[u8], length: i32) -> Option<Result<Self, BatchError>> {
        let header = Self {
            base_offset: i64_at(bytes, 0)?,
            size: total_size(length),
            leader_epoch: i32_at(bytes, 12)?,
            magic: 2,
            crc: u32_at(bytes, CRC_AT)?,
            attributes: i16_at(bytes, ATTRIBUTES_AT)?,
            last_offset_delta: i32_at(bytes, 23)?,
            base_timestamp: i64_at(bytes, 27)?,
            max_timestamp: i64_at(bytes, MAX_TIMESTAMP_AT)?,
            producer_id: i64_at(bytes, 43)?,
            producer_epoch: i16_at(bytes, 51)?,
            base_sequence: i32_at(bytes, 53)?,
            record_count: i32_at(bytes, 57)?,
        };
        Some(if (header.size as usize) < HEADER_LEN {
            Err(BatchError::BadLength(length))
        } else if header.record_count < 0 || header.last_offset_delta < 0 {
            Err(BatchError::BadHeader(format!(
                "record count {} and last offset delta {} must not be negative",
                header.record_count, header.last_offset_delta
            )))
        } else if header.base_offset < 0
            || header
                .base_offset
                .checked_add(i64::from(header.last_offset_delta) + 1)
                .is_none()
        {
            Err(BatchError::BadHeader(format!(
                "base offset {} is out of bounds",
                header.base_offset
            )))
        } else {
            Ok(header)
        })
    }

    fn parse_legacy(bytes: &[u8], length: i32, magic: i8) -> Result<Self, BatchError> {
        let timestamp = match magic {
            0 => Some(-1),
            _ => i64_at(bytes, 18),
        };
        let (Some(base_offset), Some(crc), Some(attributes), Some(timestamp)) =
            (i64_at(bytes, 0), u32_at(bytes, 12), bytes.get(17), timestamp)
        else {
            return Err(torn(bytes, LEGACY_V1_LEN));
        };
        if !(0..i64::MAX).contains(&base_offset) {
            return Err(BatchError::BadHeader(format!(
                "offset {base_offset} is out of bounds"
            )));
        }
        Ok(Self {
            base_offset,
            size: total_size(length),
            leader_epoch: -1,
            magic,
            crc,
            attributes: i16::from(*attributes),
            last_offset_delta: 0,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: -1,
        })
    }

    /// Offset of the last record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// The offset after the last record.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// It spans more offsets than it holds records, as compaction leaves it.
    pub fn lacks_records(&self) -> bool {
        self.magic >= 2 && i64::from(self.record_count) != i64::from(self.last_offset_delta) + 1
    }

    /// Sequence of the last record; sequences wrap from 2^31-1 to 0. -1 if the batch has none.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        sequence_after(self.base_sequence, self.last_offset_delta)
    }

    /// Compression codec.
    ///
    /// # Errors
    /// The number in the attributes if it names no codec.
    pub fn codec(&self) -> Result<Codec, i16> {
        Codec::from_id(self.attributes & CODEC_MASK)
    }

    /// The records carry the broker's time of append, which is `max_timestamp`.
    pub fn is_log_append_time(&self) -> bool {
        self.magic >= 1 && self.attributes & LOG_APPEND_TIME != 0
    }

    /// Part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.magic >= 2 && self.attributes & TRANSACTIONAL != 0
    }

    /// Holds control records (transaction markers), which are no data.
    pub fn is_control(&self) -> bool {
        self.magic >= 2 && self.attributes & CONTROL != 0
    }

    /// `base_timestamp` is the time after which tombstones and markers may go, not that of the first record.
    pub fn has_delete_horizon(&self) -> bool {
        self.magic >= 2 && self.attributes & DELETE_HORIZON != 0
    }

    /// Written by an idempotent or transactional producer.
    pub fn has_producer(&self) -> bool {
        self.producer_id >= 0
    }

    /// First byte that the checksum covers.
    pub fn checksum_from(&self) -> usize {
        if self.magic >= 2 { CRC_FROM } else { 16 }
    }

    /// Compares the stored checksum with that of `bytes`, the whole batch and nothing else.
    pub fn check_crc(&self, bytes: &[u8]) -> Result<(), BatchError> {
        let covered = bytes
            .get(self.checksum_from()..)
            .ok_or_else(|| torn(bytes, HEADER_LEN))?;
        let mut checksum = Checksum::new(self.magic);
        checksum.update(covered);
        self.check_computed(checksum.finish())
    }

    /// Compares the stored checksum with one computed elsewhere.
    pub fn check_computed(&self, computed: u32) -> Result<(), BatchError> {
        if computed == self.crc {
            return Ok(());
        }
        Err(BatchError::BadChecksum {
            stored: self.crc,
            computed,
        })
    }
}

/// The checksum of a batch, fed piece by piece: CRC-32C for magic 2, CRC-32 for what came before.
#[derive(Debug)]
pub enum Checksum {
    /// Castagnoli's polynomial.
    Castagnoli(u32),
    /// The polynomial of zlib.
    Zlib(flate2::Crc),
}

impl Checksum {
    /// The kind of checksum that batches of this magic have.
    pub fn new(magic: i8) -> Self {
        if magic >= 2 {
            Self::Castagnoli(0)
        } else {
            Self::Zlib(flate2::Crc::new())
        }
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Castagnoli(crc) => *crc = crc32c::crc32c_append(*crc, bytes),
            Self::Zlib(crc) => crc.update(bytes),
        }
    }

    /// The checksum of all bytes so far.
    pub fn finish(&self) -> u32 {
        match self {
            Self::Castagnoli(crc) => *crc,
            Self::Zlib(crc) => crc.sum(),
        }
    }
}

/// The sequence `by` records after `sequence`; 2^31-1 is followed by 0.
pub fn sequence_after(sequence: i32, by: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(by);
    i32::try_from(sum % (i64::from(i32::MAX) + 1)).unwrap_or(0)
}

/// Stamps the base offset into a batch of any magic; the checksum does not cover it.
pub fn set_base_offset(batch: &mut [u8], base_offset: i64) {
    put(batch, 0, &base_offset.to_be_bytes());
}

/// Stamps the leader epoch into a v2 batch; the checksum does not cover it.
pub fn set_leader_epoch(batch: &mut [u8], leader_epoch: i32) {
    put(batch, PREFIX_LEN, &leader_epoch.to_be_bytes());
}

/// Sets timestamp type and largest timestamp of a v2 batch. The checksum is computed again only if one of them changes.
///
/// `batch` is exactly one batch. `max_timestamp` is in ms, -1 for none.
pub fn set_max_timestamp(batch: &mut [u8], log_append_time: bool, max_timestamp: i64) {
    let (Some(attributes), Some(old)) = (i16_at(batch, ATTRIBUTES_AT), i64_at(batch, MAX_TIMESTAMP_AT))
    else {
        return;
    };
    let wanted = if log_append_time {
        attributes | LOG_APPEND_TIME
    } else {
        attributes & !LOG_APPEND_TIME
    };
    if wanted == attributes && old == max_timestamp {
        return;
    }
    put(batch, ATTRIBUTES_AT, &wanted.to_be_bytes());
    put(batch, MAX_TIMESTAMP_AT, &max_timestamp.to_be_bytes());
    set_crc(batch);
}

/// Computes and stores the checksum of exactly one v2 batch.
pub fn set_crc(batch: &mut [u8]) {
    if let Some(covered) = batch.get(CRC_FROM..) {
        let crc = crc32c::crc32c(covered);
        put(batch, CRC_AT, &crc.to_be_bytes());
    }
}

/// Writes a v2 header in front of `records` (already compressed as `attributes` say), checksum included.
/// `header.size` and `header.crc` are computed, not taken.
pub fn encode(header: &BatchHeader, records: &[u8]) -> Vec<u8> {
    let mut batch = Vec::with_capacity(HEADER_LEN + records.len());
    let length = i32::try_from(HEADER_LEN - PREFIX_LEN + records.len()).unwrap_or(i32::MAX);
    batch.extend_from_slice(&header.base_offset.to_be_bytes());
    batch.extend_from_slice(&length.to_be_bytes());
    batch.extend_from_slice(&header.leader_epoch.to_be_bytes());
    batch.push(2);
    batch.extend_from_slice(&[0; 4]);
    batch.extend_from_slice(&header.attributes.to_be_bytes());
    batch.extend_from_slice(&header.last_offset_delta.to_be_bytes());
    batch.extend_from_slice(&header.base_timestamp.to_be_bytes());
    batch.extend_from_slice(&header.max_timestamp.to_be_bytes());
    batch.extend_from_slice(&header.producer_id.to_be_bytes());
    batch.extend_from_slice(&header.producer_epoch.to_be_bytes());
    batch.extend_from_slice(&header.base_sequence.to_be_bytes());
    batch.extend_from_slice(&header.record_count.to_be_bytes());
    batch.extend_from_slice(records);
    set_crc(&mut batch);
    batch
}

/// Attribute bits of a v2 batch.
pub fn attributes(codec: Codec, log_append_time: bool, transactional: bool, control: bool) -> i16 {
    let bit = |set: bool, bit: i16| if set { bit } else { 0 };
    codec.id()
        | bit(log_append_time, LOG_APPEND_TIME)
        | bit(transactional, TRANSACTIONAL)
        | bit(control, CONTROL)
}

/// One batch in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSlice<'a> {
    /// Its header.
    pub header: BatchHeader,
    /// All its bytes, header included.
    pub bytes: &'a [u8],
    /// Where it starts in the buffer.
    pub position: usize,
}

/// Walks over the batches laid one after another in `bytes`.
///
/// A torn tail (fewer than 18 bytes, or a batch longer than what is left) ends the walk silently, as in Kafka;
/// [`Batches::position`] then tells how far the whole batches reach. A header that no batch can have is an error and
/// ends the walk. Checksums are not looked at.
pub fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { bytes, position: 0 }
}

/// See [`batches`].
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Batches<'_> {
    /// The end of the last whole batch seen so far.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchSlice<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.position..)?;
        if rest.len() < MIN_LEN {
            return None;
        }
        let header = match BatchHeader::parse(rest) {
            Ok(header) => header,
            Err(BatchError::Torn { .. }) => return None,
            Err(error) => {
                self.bytes = &[];
                return Some(Err(error));
            }
        };
        let bytes = rest.get(..header.size as usize)?;
        let position = self.position;
        self.position += bytes.len();
        Some(Ok(BatchSlice {
            header,
            bytes,
            position,
        }))
    }
}

fn torn(bytes: &[u8], need: usize) -> BatchError {
    BatchError::Torn {
        have: bytes.len() as u64,
        need: need as u64,
    }
}

/// `length` is not negative here, so the sum fits.
fn total_size(length: i32) -> u32 {
    length.unsigned_abs().saturating_add(PREFIX_LEN as u32)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(target) = bytes.get_mut(at..at.saturating_add(value.len())) {
        target.copy_from_slice(value);
    }
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn i16_at(bytes: &[u8], at: usize) -> Option<i16> {
    array_at(bytes, at).map(i16::from_be_bytes)
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    array_at(bytes, at).map(i32::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_be_bytes)
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    array_at(bytes, at).map(i64::from_be_bytes)
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
