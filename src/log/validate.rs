//! What a client's batch must satisfy before it is appended.
//!
//! Kafka's `UnifiedLog.analyzeAndValidateRecords` and `LogValidator`, as a pure function over the bytes as they came. An accepted
//! batch is stamped in place ([`Accepted::stamp`]); only where topic and batch disagree on the codec, or inner offsets are not
//! 0, 1, 2…, is it built anew.
//!
//! Compressed records are looked into only where a rule needs single records: keys on a compacted topic, a lower bound on
//! timestamps, another codec. Otherwise the header speaks for them. Uncompressed records are all checked; nothing is allocated for it.
//!
//! Kafka opens every compressed batch and computes the largest timestamp anew. Here a header that lies about it is believed: the upper bound on
//! timestamps holds for what it says, retention and time index go by the same number, and a producer gains nothing by it that it could not have
//! by stamping its records so. Opening every batch would cost each honest producer several times the work of the append itself.
use crate::log::batch::{self, BatchError, BatchHeader, BatchSlice, HEADER_LEN};
use crate::log::compression::{self, Codec};
use crate::log::error::{AppendError, MAX_RECORD_ERRORS, RecordError};
use crate::log::record::Record;
use crate::log::records::{OpenBatch, RecordWriter};
use crate::resource::settings::{CompressionType, TimestampType, TopicSettings};

/// The topic's settings as far as they bear on appending. Times in ms, sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendRules {
    /// Every record needs a key.
    pub compacted: bool,
    /// `max.message.bytes`, for the whole batch as it is stored.
    pub max_message_bytes: i64,
    /// Who stamps the records.
    pub timestamp_type: TimestampType,
    /// How much older than now a record may be; `i64::MAX` is no bound.
    pub before_max_ms: i64,
    /// How far ahead of now a record may be.
    pub after_max_ms: i64,
    /// The codec to store with, `None` for the producer's.
    pub codec: Option<Codec>,
    /// Level of that codec, `None` for its default.
    pub level: Option<i32>,
    /// Most bytes that a batch may decompress to.
    pub decompressed_cap: usize,
}

impl From<&TopicSettings> for AppendRules {
    fn from(settings: &TopicSettings) -> Self {
        let (codec, level) = match settings.compression_type {
            CompressionType::Producer => (None, None),
            CompressionType::Uncompressed => (Some(Codec::None), None),
            CompressionType::Gzip => (Some(Codec::Gzip), Some(settings.compression_gzip_level)),
            CompressionType::Snappy => (Some(Codec::Snappy), None),
            CompressionType::Lz4 => (Some(Codec::Lz4), Some(settings.compression_lz4_level)),
            CompressionType::Zstd => (Some(Codec::Zstd), Some(settings.compression_zstd_level)),
        };
        Self {
            compacted: settings.cleanup_policy.compact,
            max_message_bytes: settings.max_message_bytes,
            timestamp_type: settings.message_timestamp_type,
            before_max_ms: settings.message_timestamp_before_max_ms,
            after_max_ms: settings.message_timestamp_after_max_ms,
            codec,
            level,
            decompressed_cap: usize::try_from(settings.max_decompressed_message_bytes)
                .unwrap_or(usize::MAX)
                .min(compression::DEFAULT_CAP),
        }
    }
}

/// A batch that may be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The header as it will be stored, but for base offset, leader epoch and checksum.
    pub header: BatchHeader,
    /// The batch built anew, where it cannot be stored as it came.
    pub rebuilt: Option<Vec<u8>>,
}

impl Accepted {
    /// Makes `batch` (the accepted bytes, or [`Accepted::rebuilt`]) ready to be written and gives its final header.
    pub fn stamp(&self, batch: &mut [u8], base_offset: i64, leader_epoch: i32) -> BatchHeader {
        let mut header = self.header;
        batch::set_max_timestamp(batch, header.is_log_append_time(), header.max_timestamp);
        batch::set_base_offset(batch, base_offset);
        batch::set_leader_epoch(batch, leader_epoch);
        header.base_offset = base_offset;
        header.leader_epoch = leader_epoch;
        if let Ok(stored) = BatchHeader::parse(batch) {
            header.crc = stored.crc;
        }
        header
    }
}

/// The one batch in what a client sent for a partition; a torn batch behind it is left out, as Kafka does.
///
/// # Errors
/// INVALID_RECORD if there is no batch, more than one, or one of magic 0 or 1; CORRUPT_MESSAGE if it cannot be one.
pub fn single_batch(bytes: &[u8]) -> Result<BatchSlice<'_>, AppendError> {
    let mut walk = batch::batches(bytes);
    let first = match walk.next() {
        Some(first) => first.map_err(refuse)?,
        None => return Err(AppendError::invalid_record("there is no record batch")),
    };
    if first.header.magic != 2 {
        return Err(AppendError::invalid_record(format!(
            "message format {} is no longer accepted, only 2 is",
            first.header.magic
        )));
    }
    match walk.next() {
        None => Ok(first),
        Some(Err(error)) => Err(refuse(error)),
        Some(Ok(_)) => Err(AppendError::invalid_record(
            "there is more than one record batch for the partition",
        )),
    }
}

/// Checks one batch that a client sent. `now_ms` is wall time.
///
/// # Errors
/// In Kafka's order: INVALID_RECORD (base offset), MESSAGE_TOO_LARGE, CORRUPT_MESSAGE (checksum), INVALID_RECORD (counts, control
/// records, sequence, single records), INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE.
pub fn validate(sent: &BatchSlice<'_>, rules: &AppendRules, now_ms: i64) -> Result<Accepted, AppendError> {
    let header = sent.header;
    if header.base_offset != 0 {
        return Err(AppendError::invalid_record(format!(
            "base offset {} of a client's batch must be 0",
            header.base_offset
        )));
    }
    check_size(i64::from(header.size), rules)?;
    header.check_crc(sent.bytes).map_err(refuse)?;
    check_header(&header)?;
    let codec = header.codec().map_err(AppendError::UnsupportedCompressionType)?;
    let target = rules.codec.unwrap_or(codec);

    let needs_records = codec == Codec::None
        || target != codec
        || rules.compacted
        || (rules.timestamp_type == TimestampType::CreateTime && rules.before_max_ms != i64::MAX);
    if !needs_records {
        let mut found = Findings::default();
        found.look_at_header(&header, rules, now_ms);
        // Which records are to blame only they can tell.
        if found.errors.is_empty() {
            return Ok(Accepted {
                header: stored_header(header, rules, now_ms, header.max_timestamp),
                rebuilt: None,
            });
        }
    }

    let open = OpenBatch::open(sent, rules.decompressed_cap).map_err(refuse)?;
    let mut found = Findings::default();
    for record in open.records() {
        found.look_at(&record.map_err(refuse)?, &header, rules, now_ms);
    }
    found.verdict()?;
    let header = stored_header(header, rules, now_ms, found.max_timestamp);
    if target == codec && found.in_order {
        return Ok(Accepted {
            header,
            rebuilt: None,
        });
    }
    rebuild(&open, header, target, rules)
}

/// Refuses a batch larger than `max.message.bytes`.
fn check_size(size: i64, rules: &AppendRules) -> Result<(), AppendError> {
    let max = rules.max_message_bytes;
    if size > max {
        return Err(AppendError::MessageTooLarge { size, max });
    }
    Ok(())
}

fn check_header(header: &BatchHeader) -> Result<(), AppendError> {
    let spanned = i64::from(header.last_offset_delta) + 1;
    if header.record_count <= 0 || i64::from(header.record_count) != spanned {
        return Err(AppendError::invalid_record(format!(
            "the batch counts {} records and spans {spanned} offsets",
            header.record_count
        )));
    }
    if header.is_control() {
        return Err(AppendError::invalid_record(
            "clients must not write control records",
        ));
    }
    if header.has_producer() && header.base_sequence < 0 {
        return Err(AppendError::invalid_record(format!(
            "base sequence {} of producer {} must not be negative",
            header.base_sequence, header.producer_id
        )));
    }
    Ok(())
}

/// The header as it is stored: timestamp type and largest timestamp as the topic has them.
fn stored_header(header: BatchHeader, rules: &AppendRules, now_ms: i64, max_timestamp: i64) -> BatchHeader {
    let append_time = rules.timestamp_type == TimestampType::LogAppendTime;
    let kept = header.attributes & !batch::attributes(Codec::None, true, false, false);
    BatchHeader {
        attributes: kept | batch::attributes(Codec::None, append_time, false, false),
        max_timestamp: if append_time { now_ms } else { max_timestamp },
        ..header
    }
}

fn rebuild(
    open: &OpenBatch<'_>,
    header: BatchHeader,
    target: Codec,
    rules: &AppendRules,
) -> Result<Accepted, AppendError> {
    let mut writer = RecordWriter::default();
    let mut base_timestamp = None;
    for record in open.records() {
        let record = record.map_err(refuse)?;
        let base = *base_timestamp.get_or_insert(record.timestamp);
        writer.push(
            record.timestamp.wrapping_sub(base),
            record.key,
            record.value,
            record.header_count,
            record.raw_headers,
        );
    }
    let records = compression::compress(target, &writer.into_bytes(), rules.level).map_err(|error| {
        AppendError::invalid_record(format!("cannot compress with {}: {error}", target.name()))
    })?;
    let size = (HEADER_LEN as u64).saturating_add(records.len() as u64);
    check_size(i64::try_from(size).unwrap_or(i64::MAX), rules)?;
    let codec_bits = 0b0111;
    let header = BatchHeader {
        attributes: (header.attributes & !codec_bits) | target.id(),
        base_timestamp: base_timestamp.unwrap_or(header.base_timestamp),
        size: u32::try_from(size).unwrap_or(u32::MAX),
        ..header
    };
    Ok(Accepted {
        header,
        rebuilt: Some(batch::encode(&header, &records)),
    })
}

/// What the records of a batch amount to.
#[derive(Debug)]
struct Findings {
    max_timestamp: i64,
    in_order: bool,
    next_offset: i64,
    bad_timestamp: bool,
    errors: Vec<RecordError>,
    count: usize,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            max_timestamp: -1,
            in_order: true,
            next_offset: 0,
            bad_timestamp: false,
            errors: Vec::new(),
            count: 0,
        }
    }
}

impl Findings {
    fn look_at(&mut self, record: &Record<'_>, header: &BatchHeader, rules: &AppendRules, now_ms: i64) {
        self.in_order &= record.offset == self.next_offset;
        self.next_offset = self.next_offset.saturating_add(1);
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        if rules.compacted && record.key.is_none() {
            self.note(record.index, || {
                "a compacted topic takes no record without key".to_owned()
            });
        } else {
            self.look_at_timestamp(record.index, record.timestamp, header, rules, now_ms);
        }
    }

    /// For a compressed batch that nothing else makes us open, the header stands for all records: the largest timestamp is the one
    /// that can lie too far ahead.
    fn look_at_header(&mut self, header: &BatchHeader, rules: &AppendRules, now_ms: i64) {
        self.look_at_timestamp(0, header.max_timestamp, header, rules, now_ms);
    }

    fn look_at_timestamp(
        &mut self,
        index: i32,
        timestamp: i64,
        header: &BatchHeader,
        rules: &AppendRules,
        now_ms: i64,
    ) {
        if rules.timestamp_type == TimestampType::CreateTime && timestamp != -1 {
            let (age, ahead) = (now_ms.saturating_sub(timestamp), timestamp.saturating_sub(now_ms));
            if age > rules.before_max_ms || ahead > rules.after_max_ms {
                self.bad_timestamp = true;
                let (before, after) = (rules.before_max_ms, rules.after_max_ms);
                self.note(index, || {
                    format!(
                        "timestamp {timestamp} is out of range: now is {now_ms}, allowed are {before} ms before and {after} ms after"
                    )
                });
            }
        } else if header.is_log_append_time() {
            self.bad_timestamp = true;
            self.note(index, || {
                "a producer must not set the timestamp type to LogAppendTime".to_owned()
            });
        }
    }

    fn note(&mut self, index: i32, message: impl FnOnce() -> String) {
        self.count += 1;
        if self.errors.len() < MAX_RECORD_ERRORS {
            let message = message();
            self.errors.push(RecordError { index, message });
        }
    }

    /// One offending record refuses the whole batch, and one timestamp among the reasons makes it a matter of timestamps.
    fn verdict(&mut self) -> Result<(), AppendError> {
        let Some(first) = self.errors.first() else {
            return Ok(());
        };
        let message = format!(
            "{} of the records are refused, first record {}: {}",
            self.count, first.index, first.message
        );
        let records = std::mem::take(&mut self.errors);
        Err(if self.bad_timestamp {
            AppendError::InvalidTimestamp { message, records }
        } else {
            AppendError::InvalidRecord { message, records }
        })
    }
}

/// The Kafka error class of a batch that cannot be read.
fn refuse(error: BatchError) -> AppendError {
    match error {
        BatchError::Torn { .. }
        | BatchError::BadLength(_)
        | BatchError::BadMagic(_)
        | BatchError::BadChecksum { .. } => AppendError::CorruptMessage(error.to_string()),
        BatchError::BadHeader(_) | BatchError::BadCompression(_) => {
            AppendError::invalid_record(error.to_string())
        }
        BatchError::BadRecord { index, ref what } => AppendError::InvalidRecord {
            message: error.to_string(),
            records: vec![RecordError {
                index,
                message: what.clone(),
            }],
        },
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
