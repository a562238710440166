//! Messages of magic 0 and 1, as brokers before 0.11 wrote them and old directories still hold them.
//!
//! A compressed message wraps a set of inner ones. In magic 1 the inner offsets count from 0 and the wrapper has the offset of
//! the last; in magic 0 they are absolute. Read only: nothing here writes them.
use std::borrow::Cow;

use crate::log::batch::{BatchError, BatchHeader, PREFIX_LEN};
use crate::log::compression::{self, Codec};
use crate::log::record::{Reader, Record};

/// The inner message set of a compressed message, or the message itself.
pub(crate) fn payload<'a>(
    header: &BatchHeader,
    bytes: &'a [u8],
    cap: usize,
) -> Result<Cow<'a, [u8]>, BatchError> {
    let codec = header
        .codec()
        .map_err(|id| BatchError::BadCompression(format!("codec {id} is unknown")))?;
    if codec == Codec::None {
        return Ok(Cow::Borrowed(bytes));
    }
    let message = message(bytes, 0)?;
    let value = message.value.ok_or_else(|| BatchError::BadRecord {
        index: 0,
        what: "a compressed message without value".to_owned(),
    })?;
    let plain = match codec {
        Codec::Lz4 => compression::decompress_legacy_lz4(value, cap),
        codec => compression::decompress(codec, value, cap),
    };
    Ok(Cow::Owned(plain?))
}

/// See [`crate::log::records::Records`].
#[derive(Debug, Clone)]
pub struct LegacyRecords<'a> {
    rest: &'a [u8],
    index: i32,
    /// Added to each inner offset.
    shift: i64,
    /// Time of append, which then holds for every record of the set.
    append_time: Option<i64>,
    failed: bool,
}

impl<'a> LegacyRecords<'a> {
    pub(crate) fn new(header: &BatchHeader, payload: &'a [u8]) -> Self {
        let compressed = !matches!(header.codec(), Ok(Codec::None));
        let shift = if compressed && header.magic == 1 {
            let last = last_offset(payload).unwrap_or(header.base_offset);
            header.base_offset.saturating_sub(last)
        } else {
            0
        };
        Self {
            rest: payload,
            index: 0,
            shift,
            append_time: header.is_log_append_time().then_some(header.max_timestamp),
            failed: false,
        }
    }
}

impl<'a> Iterator for LegacyRecords<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.rest.is_empty() {
            return None;
        }
        let read = message(self.rest, self.index);
        let Ok(mut record) = read else {
            self.failed = true;
            return Some(read);
        };
        self.rest = whole(self.rest)
            .and_then(|message| self.rest.get(message.len()..))
            .unwrap_or(&[]);
        record.offset = record.offset.saturating_add(self.shift);
        record.timestamp = self.append_time.unwrap_or(record.timestamp);
        self.index = self.index.saturating_add(1);
        Some(Ok(record))
    }
}

/// The bytes of the first message, prefix included.
fn whole(bytes: &[u8]) -> Option<&[u8]> {
    let length = i32::from_be_bytes(bytes.get(8..PREFIX_LEN)?.try_into().ok()?);
    bytes.get(..usize::try_from(length).ok()?.checked_add(PREFIX_LEN)?)
}

fn last_offset(mut set: &[u8]) -> Option<i64> {
    let mut last = None;
    while let Some(message) = whole(set) {
        last = message
            .get(..8)
            .and_then(|bytes| bytes.try_into().ok())
            .map(i64::from_be_bytes);
        set = set.get(message.len()..)?;
    }
    last
}

fn message(bytes: &[u8], index: i32) -> Result<Record<'_>, BatchError> {
    let read = |bytes| {
        let mut reader = Reader(whole(bytes)?);
        let offset = i64::from_be_bytes(reader.array()?);
        reader.take(8)?; // length and checksum
        let magic = reader.array::<1>()?[0];
        let attributes = i8::from_be_bytes(reader.array()?);
        let timestamp = match magic {
            0 => -1,
            _ => i64::from_be_bytes(reader.array()?),
        };
        let mut field = || match usize::try_from(i32::from_be_bytes(reader.array()?)) {
            Ok(length) => reader.take(length).map(Some),
            Err(_) => Some(None),
        };
        let (key, value) = (field()?, field()?);
        Some(Record {
            index,
            offset,
            timestamp,
            attributes,
            key,
            value,
            header_count: 0,
            raw_headers: &[],
        })
    };
    read(bytes).ok_or_else(|| BatchError::BadRecord {
        index,
        what: "the message is cut off".to_owned(),
    })
}
