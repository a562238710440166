//! Produce (0): records from the socket to the log, without decoding them.
//!
//! The envelope is walked by hand; each partition's records are a slice of the frame as it came in, and go to the log
//! from there. The whole envelope is read before the first append, so that a malformed request changes nothing.
//! Versions 0 to 2 are advertised and not served: librdkafka compresses only where it sees version 0 (KAFKA-18659).
use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use uuid::Uuid;

use crate::log::append::{Appended, Origin};
use crate::log::batch::{self, HEADER_LEN};
use crate::log::error::{AppendError, RecordError};
use crate::log::validate;
use crate::wire::broker::{Broker, Refusal, Topic};
use crate::wire::encode;
use crate::wire::ended::Ended;
use crate::wire::error_code::ErrorCode;
use crate::wire::frame;
use crate::wire::partition::Partition;
use crate::wire::reader::Reader;
use crate::wire::registry::{Action, Call, CallError, Entry};
use crate::wire::reply::Reply;
use crate::wire::schema::Malformed;

/// The oldest version served.
const MIN: i16 = 3;
/// The newest version served.
const MAX: i16 = 13;
const WITH_LOG_START: i16 = 5;
/// The first version whose clients may send zstd.
const WITH_ZSTD: i16 = 7;
const WITH_RECORD_ERRORS: i16 = 8;
const FLEXIBLE_FROM: i16 = 9;
const WITH_TOPIC_IDS: i16 = 13;

/// Where the attributes lie in a batch.
const ATTRIBUTES_AT: usize = 21;
const CODEC_MASK: u16 = 0b111;
const CODEC_ZSTD: u16 = 4;
const TRANSACTIONAL: u16 = 1 << 4;

/// What a producer of transactions is told.
const NO_TRANSACTIONS: &str =
    "Transactions are not supported by this server; produce without a transactional.id.";

/// The line of the table.
pub fn entry<S>() -> Entry<S> {
    Entry {
        key: 0,
        name: "Produce",
        min: MIN,
        max: MAX,
        shown_from: 0,
        request_header: |version| if version >= FLEXIBLE_FROM { 2 } else { 1 },
        response_header: |version| i16::from(version >= FLEXIBLE_FROM),
        schema: &[],
        decodes: |version, body| Ok(read(version, body).map(|_| 0)?),
        action: Action::Produce,
    }
}

/// How a request names a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TopicKey<'a> {
    Name(&'a str),
    Id(Uuid),
}

#[derive(Debug)]
struct Asked<'a> {
    transactional: bool,
    acks: i16,
    topics: Vec<AskedTopic<'a>>,
    partitions: Vec<AskedPartition>,
}

#[derive(Debug)]
struct AskedTopic<'a> {
    key: TopicKey<'a>,
    /// Its partitions within [`Asked::partitions`].
    partitions: Range<usize>,
}

#[derive(Debug)]
struct AskedPartition {
    index: i32,
    /// Its records within the body.
    records: Option<Range<usize>>,
}

fn read(version: i16, body: &[u8]) -> Result<Asked<'_>, Malformed> {
    let mut reader = Reader::new(body, version >= FLEXIBLE_FROM);
    let transactional = reader.nullable_string()?.is_some();
    let acks = reader.int16()?;
    let _timeout_ms = reader.int32()?;
    let topic_count = reader.array_length()?;
    let mut asked = Asked {
        transactional,
        acks,
        topics: Vec::with_capacity(topic_count.min(16)),
        partitions: Vec::with_capacity(topic_count.min(16)),
    };
    for _ in 0..topic_count {
        let key = if version >= WITH_TOPIC_IDS {
            TopicKey::Id(reader.uuid()?)
        } else {
            TopicKey::Name(reader.string()?)
        };
        let first = asked.partitions.len();
        for _ in 0..reader.array_length()? {
            let index = reader.int32()?;
            let records = reader.nullable_bytes_range()?;
            reader.end_structure()?;
            asked.partitions.push(AskedPartition { index, records });
        }
        reader.end_structure()?;
        asked.topics.push(AskedTopic {
            key,
            partitions: first..asked.partitions.len(),
        });
    }
    reader.end_structure()?;
    Ok(asked)
}

/// Why one partition's records were not taken.
#[derive(Debug)]
struct Rejected {
    refusal: Refusal,
    records: Vec<RecordError>,
    /// Log start offset, -1 where the log was not asked or Kafka does not tell it.
    log_start: i64,
}

impl From<Refusal> for Rejected {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            records: Vec::new(),
            log_start: -1,
        }
    }
}

impl From<AppendError> for Rejected {
    fn from(error: AppendError) -> Self {
        let refusal = Refusal::from(&error);
        let records = match error {
            AppendError::InvalidRecord { records, .. } | AppendError::InvalidTimestamp { records, .. } => {
                records
            }
            _ => Vec::new(),
        };
        Self {
            refusal,
            records,
            log_start: -1,
        }
    }
}

/// Whether the answer to a failed append still tells the log start offset: for what is wrong with records and sequences it does, for
/// sizes, checksums and storage it does not (`ReplicaManager.appendRecordsToLocalLog`).
fn tells_log_start(error: &AppendError) -> bool {
    match error {
        AppendError::InvalidRecord { .. }
        | AppendError::InvalidTimestamp { .. }
        | AppendError::UnsupportedCompressionType(_)
        | AppendError::OutOfOrderSequence { .. }
        | AppendError::InvalidProducerEpoch { .. }
        | AppendError::InvalidTxnState { .. } => true,
        AppendError::CorruptMessage(_)
        | AppendError::MessageTooLarge { .. }
        | AppendError::RecordListTooLarge { .. }
        | AppendError::Storage(_) => false,
    }
}

fn rejected(code: ErrorCode, message: impl Into<String>) -> Rejected {
    Refusal::new(code, message).into()
}

/// Appends and answers one request.
pub(crate) async fn answer<S: Broker>(service: &Arc<S>, call: &Call, body: &[u8]) -> Result<Reply, Ended> {
    let asked = read(call.version, body)?;
    let mut outcomes = Vec::with_capacity(asked.partitions.len());
    let mut appended = Vec::new();
    let mut bytes = 0_u64;
    let refused = refuse_all(&**service, &asked);
    for topic in &asked.topics {
        let known = match topic.key {
            TopicKey::Name(name) => service.topic(name),
            TopicKey::Id(id) => service.topic_by_id(id),
        };
        for partition in asked.partitions.get(topic.partitions.clone()).unwrap_or_default() {
            let records = partition
                .records
                .clone()
                .and_then(|range| body.get(range))
                .unwrap_or_default();
            let outcome = match &refused {
                Some(refusal) => Err(refusal.clone().into()),
                None => append(
                    call.version,
                    asked.acks,
                    topic.key,
                    known.as_deref(),
                    partition.index,
                    records,
                ),
            };
            if let Ok((partition, done)) = &outcome {
                bytes = bytes.saturating_add(records.len() as u64);
                appended.push((Arc::clone(partition), done.last_offset.saturating_add(1)));
            }
            outcomes.push(outcome.map(|(_, done)| done));
        }
    }
    service.metrics().bytes_in.inc_by(bytes);
    let mut durable = flush_where_wanted(&appended).await;
    if asked.acks != 0 && !appended.is_empty() && durable.is_ok() {
        durable = service.make_durable(&appended).await;
    }
    if let Err(refusal) = durable {
        for outcome in &mut outcomes {
            if outcome.is_ok() {
                *outcome = Err(refusal.clone().into());
            }
        }
    }
    let failed = outcomes.iter().any(Result::is_err);
    if asked.acks == 0 {
        // No answer was asked for; a closed connection is how the producer learns of it.
        return if failed {
            Err(Ended::NoAnswer)
        } else {
            Ok(Reply::none())
        };
    }
    write(call, &asked, &outcomes, failed).map_err(Ended::from)
}

/// Flushes where `flush.messages` asks for it, on threads that may wait for a disk: those of the connections serve others meanwhile.
async fn flush_where_wanted(appended: &[(Arc<Partition>, i64)]) -> Result<(), Refusal> {
    let wanted = appended.iter().filter_map(|(partition, log_end)| {
        let log = partition.log()?;
        log.flush_is_wanted().then(|| (Arc::clone(log), *log_end))
    });
    let flushes: Vec<_> = wanted
        .map(|(log, log_end)| tokio::task::spawn_blocking(move || log.commit(log_end)))
        .collect();
    for flush in flushes {
        match flush.await {
            Ok(flushed) => flushed.map_err(|error| Refusal::from(&error))?,
            Err(error) => return Err(Refusal::new(ErrorCode::KafkaStorageError, error.to_string())),
        }
    }
    Ok(())
}

/// What keeps a request from being taken as a whole.
fn refuse_all<S: Broker>(service: &S, asked: &Asked<'_>) -> Option<Refusal> {
    if asked.transactional {
        return Some(Refusal::new(ErrorCode::InvalidRequest, NO_TRANSACTIONS));
    }
    service.accepts_produce().err()
}

fn append(
    version: i16,
    acks: i16,
    key: TopicKey<'_>,
    topic: Option<&Topic>,
    index: i32,
    records: &[u8],
) -> Result<(Arc<Partition>, Appended), Rejected> {
    let Some(topic) = topic else {
        return Err(match key {
            TopicKey::Name(name) => Refusal::unknown_topic(name).into(),
            TopicKey::Id(id) => rejected(ErrorCode::UnknownTopicId, format!("No topic has the id {id}.")),
        });
    };
    let partition = topic
        .partition(index)
        .ok_or_else(|| Refusal::unknown_partition(&topic.name, index))?;
    check_request(version, records)?;
    if !(-1..=1).contains(&acks) {
        let message = format!("acks is {acks}, where -1, 0 and 1 are known.");
        return Err(rejected(ErrorCode::InvalidRequiredAcks, message));
    }
    if topic.internal {
        let message = format!(
            "The topic {} is internal and takes no records from clients.",
            topic.name
        );
        return Err(rejected(ErrorCode::InvalidTopicException, message));
    }
    let log = partition.log().ok_or_else(|| {
        let reason = partition.offline_reason().unwrap_or_default();
        rejected(
            ErrorCode::KafkaStorageError,
            format!("Partition {}-{index} is offline: {reason}", topic.name),
        )
    })?;
    match log.append_buffered(records, partition.leader_epoch(), Origin::Client) {
        Ok(appended) => Ok((Arc::clone(partition), appended)),
        Err(error) => {
            let log_start = if tells_log_start(&error) {
                log.log_start()
            } else {
                -1
            };
            Err(Rejected {
                log_start,
                ..error.into()
            })
        }
    }
}

/// What a Produce request may hold for one partition, beyond what the log checks of every batch.
fn check_request(version: i16, records: &[u8]) -> Result<(), Rejected> {
    let Some(header) = records.first_chunk::<HEADER_LEN>() else {
        validate::single_batch(records)?;
        return Ok(());
    };
    let attributes = u16::from_be_bytes([header[ATTRIBUTES_AT], header[ATTRIBUTES_AT + 1]]);
    let is_there = batch::batches(records).next().is_some();
    if is_there && attributes & CODEC_MASK == CODEC_ZSTD && version < WITH_ZSTD {
        return Err(rejected(
            ErrorCode::UnsupportedCompressionType,
            format!("Produce version {version} does not know zstd; {WITH_ZSTD} is the first that does."),
        ));
    }
    if attributes & TRANSACTIONAL != 0 {
        return Err(rejected(ErrorCode::InvalidRequest, NO_TRANSACTIONS));
    }
    validate::single_batch(records)?;
    Ok(())
}

fn write(
    call: &Call,
    asked: &Asked<'_>,
    outcomes: &[Result<Appended, Rejected>],
    failed: bool,
) -> Result<Reply, CallError> {
    let flexible = call.version >= FLEXIBLE_FROM;
    let mut out = BytesMut::with_capacity(64 + asked.topics.len() * 32 + outcomes.len() * 48);
    let start = frame::start_response(&mut out, call.correlation_id, i16::from(flexible));
    encode::array_length(&mut out, asked.topics.len(), flexible);
    for topic in &asked.topics {
        match topic.key {
            TopicKey::Name(name) => encode::string(&mut out, name, flexible),
            TopicKey::Id(id) => out.put_slice(id.as_bytes()),
        }
        encode::array_length(&mut out, topic.partitions.len(), flexible);
        for at in topic.partitions.clone() {
            if let (Some(partition), Some(outcome)) = (asked.partitions.get(at), outcomes.get(at)) {
                write_partition(&mut out, call.version, partition.index, outcome);
            }
        }
        encode::no_tagged_fields(&mut out, flexible);
    }
    out.put_i32(0);
    encode::no_tagged_fields(&mut out, flexible);
    frame::finish_response(&mut out, start, 0).map_err(|error| CallError::Encode(error.to_string()))?;
    let mut reply = Reply::whole(out);
    reply.failed = failed;
    Ok(reply)
}

fn write_partition(out: &mut BytesMut, version: i16, index: i32, outcome: &Result<Appended, Rejected>) {
    let flexible = version >= FLEXIBLE_FROM;
    let (code, base_offset, time, log_start) = match outcome {
        Ok(done) => (
            ErrorCode::None,
            done.base_offset,
            done.log_append_time_ms,
            done.log_start_offset,
        ),
        Err(rejected) => (rejected.refusal.code, -1, -1, rejected.log_start),
    };
    out.put_i32(index);
    out.put_i16(code.code());
    out.put_i64(base_offset);
    out.put_i64(time);
    if version >= WITH_LOG_START {
        out.put_i64(log_start);
    }
    if version >= WITH_RECORD_ERRORS {
        let (records, message) = match outcome {
            Ok(_) => (&[][..], None),
            Err(rejected) => (
                rejected.records.as_slice(),
                Some(rejected.refusal.message.as_str()),
            ),
        };
        encode::array_length(out, records.len(), flexible);
        for record in records {
            out.put_i32(record.index);
            encode::nullable_string(out, Some(&record.message), flexible);
            encode::no_tagged_fields(out, flexible);
        }
        encode::nullable_string(out, message, flexible);
    }
    encode::no_tagged_fields(out, flexible);
}

#[cfg(test)]
#[path = "produce_tests.rs"]
mod tests;
