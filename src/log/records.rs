//! The records inside a batch.
//!
//! Needed where offsets and timestamps of single records matter: validation, time lookups, transaction markers, proof that a range
//! holds data. Reading is lazy and borrows: nothing is allocated per record, and only a compressed batch allocates at
//! all (its plain form, bounded by a cap). Counts and lengths are checked against the bytes that are really there.
//!
//! Layout: Kafka's `DefaultRecord`; varints are zig-zag LEB128.
use std::borrow::Cow;

use crate::log::batch::{BatchError, BatchHeader, BatchSlice, HEADER_LEN};
use crate::log::compression;
use crate::log::legacy;
use crate::log::record::{Reader, Record, record_headers};

/// A batch whose records can be read: compressed ones have been decompressed.
#[derive(Debug)]
pub struct OpenBatch<'a> {
    header: BatchHeader,
    payload: Cow<'a, [u8]>,
}

impl<'a> OpenBatch<'a> {
    /// Opens a whole batch, header included. At most `cap` bytes are allocated.
    ///
    /// # Errors
    /// [`BatchError::BadCompression`] if the codec is unknown, the records do not decompress, or to more than `cap` bytes.
    pub fn open(batch: &BatchSlice<'a>, cap: usize) -> Result<Self, BatchError> {
        let header = batch.header;
        let codec = header
            .codec()
            .map_err(|id| BatchError::BadCompression(format!("codec {id} is unknown")))?;
        let payload = if header.magic < 2 {
            legacy::payload(&header, batch.bytes, cap)?
        } else {
            let records = batch.bytes.get(HEADER_LEN..).unwrap_or(&[]);
            match codec {
                compression::Codec::None => Cow::Borrowed(records),
                codec => Cow::Owned(compression::decompress(codec, records, cap)?),
            }
        };
        Ok(Self { header, payload })
    }

    /// The batch's header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The encoded records, decompressed.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The records in order. The first malformed one is an error and ends the walk; so do bytes left over after the last.
    pub fn records(&self) -> Records<'_> {
        if self.header.magic < 2 {
            Records::Legacy(legacy::LegacyRecords::new(&self.header, &self.payload))
        } else {
            Records::Current(CurrentRecords {
                header: self.header,
                rest: &self.payload,
                index: 0,
            })
        }
    }
}

/// See [`OpenBatch::records`].
#[derive(Debug, Clone)]
pub enum Records<'a> {
    /// Magic 2.
    Current(CurrentRecords<'a>),
    /// Magic 0 and 1.
    Legacy(legacy::LegacyRecords<'a>),
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Current(records) => records.next(),
            Self::Legacy(records) => records.next(),
        }
    }
}

/// Records of a magic 2 batch.
#[derive(Debug, Clone)]
pub struct CurrentRecords<'a> {
    header: BatchHeader,
    rest: &'a [u8],
    index: i32,
}

impl<'a> CurrentRecords<'a> {
    fn read(&mut self) -> Result<Record<'a>, BatchError> {
        let index = self.index;
        let bad = |what: &str| BatchError::BadRecord {
            index,
            what: what.to_owned(),
        };
        let mut outer = Reader(self.rest);
        let length = outer.varint().ok_or_else(|| bad("its length is cut off"))?;
        let mut body = usize::try_from(length)
            .ok()
            .and_then(|length| outer.take(length))
            .map(Reader)
            .ok_or_else(|| bad("its length runs past the batch"))?;
        self.rest = outer.0;
        let record =
            Self::read_body(&self.header, index, &mut body).ok_or_else(|| bad("a field is cut off"))?;
        if record.header_count < 0 || record.header_count as usize > record.raw_headers.len() {
            return Err(bad("its header count does not fit its length"));
        }
        let mut headers = record_headers(&record);
        if headers.by_ref().any(|header| header.is_none()) || !headers.rest().is_empty() {
            return Err(bad("its headers do not fill its declared length exactly"));
        }
        Ok(record)
    }

    fn read_body(header: &BatchHeader, index: i32, body: &mut Reader<'a>) -> Option<Record<'a>> {
        let attributes = i8::from_be_bytes([*body.take(1)?.first()?]);
        let timestamp_delta = body.varlong()?;
        let offset_delta = body.varint()?;
        let key = body.bytes()?;
        let value = body.bytes()?;
        let header_count = body.varint()?;
        let timestamp = if header.is_log_append_time() {
            header.max_timestamp
        } else {
            header.base_timestamp.wrapping_add(timestamp_delta)
        };
        Some(Record {
            index,
            offset: header.base_offset.saturating_add(i64::from(offset_delta)),
            timestamp,
            attributes,
            key,
            value,
            header_count,
            raw_headers: body.0,
        })
    }
}

impl<'a> Iterator for CurrentRecords<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index < 0 {
            return None;
        }
        if self.index >= self.header.record_count {
            let left = self.rest.len();
            let index = std::mem::replace(&mut self.index, -1);
            let what = format!("{left} bytes are left over after the last record");
            return (left > 0).then_some(Err(BatchError::BadRecord { index, what }));
        }
        let record = self.read();
        self.index = if record.is_ok() {
            self.index.saturating_add(1)
        } else {
            -1
        };
        Some(record)
    }
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTxnMarker {
    /// Aborted, as opposed to committed.
    pub aborted: bool,
    /// Epoch of the transaction coordinator that wrote it.
    pub coordinator_epoch: i32,
}

/// The transaction marker in a control batch; `None` for control records of other types, or none at all.
pub fn end_txn_marker(batch: &BatchSlice<'_>) -> Result<Option<EndTxnMarker>, BatchError> {
    /// Control batches hold a few bytes.
    const CAP: usize = 64 * 1024;
    let open = OpenBatch::open(batch, CAP)?;
    let Some(record) = open.records().next().transpose()? else {
        return Ok(None);
    };
    let word = |bytes: Option<&[u8]>, at: usize| {
        let bytes = bytes?.get(at..at + 2)?;
        Some(i16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let aborted = match word(record.key, 2) {
        Some(0) => true,
        Some(1) => false,
        _ => return Ok(None),
    };
    let coordinator_epoch = record
        .value
        .and_then(|value| value.get(2..6))
        .and_then(|bytes| bytes.try_into().ok())
        .map(i32::from_be_bytes)
        .ok_or_else(|| BatchError::BadRecord {
            index: 0,
            what: "a transaction marker without coordinator epoch".to_owned(),
        })?;
    Ok(Some(EndTxnMarker {
        aborted,
        coordinator_epoch,
    }))
}

/// The first record of the batch with timestamp >= `timestamp` and offset >= `from_offset`: its offset and timestamp.
pub fn first_at_or_after(
    batch: &BatchSlice<'_>,
    timestamp: i64,
    from_offset: i64,
    cap: usize,
) -> Result<Option<(i64, i64)>, BatchError> {
    for record in OpenBatch::open(batch, cap)?.records() {
        let record = record?;
        if record.timestamp >= timestamp && record.offset >= from_offset {
            return Ok(Some((record.offset, record.timestamp)));
        }
    }
    Ok(None)
}

/// The first record of the batch that carries `timestamp`: its offset.
pub fn first_with_timestamp(
    batch: &BatchSlice<'_>,
    timestamp: i64,
    cap: usize,
) -> Result<Option<i64>, BatchError> {
    for record in OpenBatch::open(batch, cap)?.records() {
        let record = record?;
        if record.timestamp == timestamp {
            return Ok(Some(record.offset));
        }
    }
    Ok(None)
}

/// The largest timestamp of the batch and the first record that carries it; `None` if the batch holds no record.
pub fn largest_timestamp(batch: &BatchSlice<'_>, cap: usize) -> Result<Option<(i64, i64)>, BatchError> {
    let mut largest: Option<(i64, i64)> = None;
    for record in OpenBatch::open(batch, cap)?.records() {
        let record = record?;
        if largest.is_none_or(|(timestamp, _)| record.timestamp > timestamp) {
            largest = Some((record.timestamp, record.offset));
        }
    }
    Ok(largest)
}

/// Whether the batch holds a data record (no transaction marker) in `from..to`. Decompresses only if a bound cuts through the
/// batch and compaction has left gaps in it.
pub fn has_data_in(batch: &BatchSlice<'_>, from: i64, to: i64, cap: usize) -> Result<bool, BatchError> {
    let header = &batch.header;
    if header.is_control() || header.record_count == 0 || header.last_offset() < from || from >= to {
        return Ok(false);
    }
    // Where a compressed message of magic 0 or 1 begins, only its records tell.
    if header.magic >= 2 && header.base_offset >= to {
        return Ok(false);
    }
    let whole = header.magic >= 2 && header.base_offset >= from && header.last_offset() < to;
    let dense =
        header.magic >= 2 && i64::from(header.record_count) == i64::from(header.last_offset_delta) + 1;
    if whole || dense {
        return Ok(true);
    }
    for record in OpenBatch::open(batch, cap)?.records() {
        if (from..to).contains(&record?.offset) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Encodes records of one magic 2 batch, offsets 0, 1, 2… from its base. Used where a batch is rebuilt, and by tests.
#[derive(Debug, Default)]
pub struct RecordWriter {
    bytes: Vec<u8>,
    count: i32,
}

impl RecordWriter {
    /// Appends a record; `raw_headers` is what [`Record::raw_headers`] gives.
    pub fn push(
        &mut self,
        timestamp_delta: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        header_count: i32,
        raw_headers: &[u8],
    ) {
        let mut body = vec![0];
        put_varlong(&mut body, timestamp_delta);
        put_varlong(&mut body, i64::from(self.count));
        for field in [key, value] {
            put_varlong(&mut body, field.map_or(-1, |field| field.len() as i64));
            body.extend_from_slice(field.unwrap_or(&[]));
        }
        put_varlong(&mut body, i64::from(header_count));
        body.extend_from_slice(raw_headers);
        put_varlong(&mut self.bytes, body.len() as i64);
        self.bytes.extend_from_slice(&body);
        self.count = self.count.saturating_add(1);
    }

    /// Number of records so far.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// The encoded records.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Appends a zig-zag varint; for values that fit an i32 the varint and varlong encodings agree.
pub fn put_varlong(bytes: &mut Vec<u8>, value: i64) {
    let mut raw = (value << 1) as u64 ^ (value >> 63) as u64;
    while raw >= 0x80 {
        bytes.push((raw & 0x7f) as u8 | 0x80);
        raw >>= 7;
    }
    bytes.push(raw as u8);
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
