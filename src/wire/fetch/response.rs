//! The Fetch response, written by hand around ranges of segment files.
use bytes::{BufMut, BytesMut};

use crate::wire::encode;
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::request::{FLEXIBLE_FROM, TopicKey};
use crate::wire::fetch::{Asked, Found, is_news};
use crate::wire::frame::{self, ResponseTooLarge};
use crate::wire::registry::{Call, CallError};
use crate::wire::reply::{COPY_UP_TO, FileRange, Part, Reply};

/// The first version with sessions and an error of its own.
const WITH_SESSIONS: i16 = 7;
/// The first version with the log start offset.
const WITH_LOG_START: i16 = 5;
/// The first version with a preferred replica.
const WITH_PREFERRED_REPLICA: i16 = 11;

/// Bytes an answer takes per partition, records aside.
const PARTITION_BYTES: usize = 64;

/// An answer without partitions.
pub(crate) fn refused(call: &Call, code: ErrorCode) -> Result<Reply, CallError> {
    let mut out = BytesMut::with_capacity(32);
    let start = begin(&mut out, call, code, 0);
    let flexible = call.version >= FLEXIBLE_FROM;
    encode::array_length(&mut out, 0, flexible);
    encode::no_tagged_fields(&mut out, flexible);
    frame::finish_response(&mut out, start, 0).map_err(|error| CallError::Encode(error.to_string()))?;
    let mut reply = Reply::whole(out);
    reply.failed = true;
    Ok(reply)
}

/// The answer to `asked`, with what was found for each in the same order.
pub(crate) fn write(
    call: &Call,
    session_id: i32,
    asked: &[Asked],
    found: Vec<Found>,
) -> Result<Reply, ResponseTooLarge> {
    let flexible = call.version >= FLEXIBLE_FROM;
    let mut told: Vec<(&Asked, Found)> = asked
        .iter()
        .zip(found)
        .filter(|(asked, found)| is_news(asked, found))
        .collect();
    let failed = told.iter().any(|(_, found)| found.code.is_error());
    let mut body = Body {
        out: BytesMut::with_capacity(64 + told.len() * PARTITION_BYTES),
        ranges: Vec::new(),
    };
    let start = begin(&mut body.out, call, ErrorCode::None, session_id);
    encode::array_length(&mut body.out, told.chunk_by(same_topic).count(), flexible);
    let mut index = 0;
    while let Some(rest) = told.get_mut(index..).filter(|rest| !rest.is_empty()) {
        let run = rest.chunk_by(same_topic).next().map_or(rest.len(), <[_]>::len);
        let (topic, _) = rest.split_at_mut(run);
        if let Some((asked, _)) = topic.first() {
            match &asked.key {
                TopicKey::Name(name) => encode::string(&mut body.out, name, flexible),
                TopicKey::Id(id) => body.out.put_slice(id.as_bytes()),
            }
        }
        encode::array_length(&mut body.out, run, flexible);
        for (asked, found) in topic {
            body.partition(call.version, asked, found);
        }
        encode::no_tagged_fields(&mut body.out, flexible);
        index += run;
    }
    encode::no_tagged_fields(&mut body.out, flexible);
    body.finish(start, failed)
}

fn same_topic(one: &(&Asked, Found), other: &(&Asked, Found)) -> bool {
    one.0.key == other.0.key
}

fn begin(out: &mut BytesMut, call: &Call, code: ErrorCode, session_id: i32) -> usize {
    let start = frame::start_response(out, call.correlation_id, i16::from(call.version >= FLEXIBLE_FROM));
    out.put_i32(0);
    if call.version >= WITH_SESSIONS {
        out.put_i16(code.code());
        out.put_i32(session_id);
    }
    start
}

/// Bytes of ours, and where in them ranges of files belong.
struct Body {
    out: BytesMut,
    ranges: Vec<(usize, FileRange)>,
}

impl Body {
    fn partition(&mut self, version: i16, asked: &Asked, found: &mut Found) {
        let flexible = version >= FLEXIBLE_FROM;
        let before = self.out.len();
        self.partition_head(version, asked, found);
        let Some(range) = found.records.take() else {
            encode::bytes_length(&mut self.out, 0, flexible);
            self.partition_tail(flexible, found);
            return;
        };
        encode::bytes_length(&mut self.out, range.length, flexible);
        if range.length > COPY_UP_TO {
            self.ranges.push((self.out.len(), range));
        } else if !self.copy(&range) {
            self.out.truncate(before);
            let mut unreadable = Found::failed(ErrorCode::KafkaStorageError);
            self.partition_head(version, asked, &unreadable);
            encode::bytes_length(&mut self.out, 0, flexible);
            self.partition_tail(flexible, &mut unreadable);
            return;
        }
        self.partition_tail(flexible, found);
    }

    fn partition_head(&mut self, version: i16, asked: &Asked, found: &Found) {
        let flexible = version >= FLEXIBLE_FROM;
        let out = &mut self.out;
        out.put_i32(asked.position.partition);
        out.put_i16(found.code.code());
        out.put_i64(found.high_watermark);
        out.put_i64(found.last_stable_offset);
        if version >= WITH_LOG_START {
            out.put_i64(found.log_start);
        }
        match &found.aborted {
            Some(aborted) => {
                encode::array_length(out, aborted.len(), flexible);
                for (producer_id, first_offset) in aborted {
                    out.put_i64(*producer_id);
                    out.put_i64(*first_offset);
                    encode::no_tagged_fields(out, flexible);
                }
            }
            None => encode::null_array(out, flexible),
        }
        if version >= WITH_PREFERRED_REPLICA {
            out.put_i32(-1);
        }
    }

    fn partition_tail(&mut self, flexible: bool, found: &mut Found) {
        match found.diverging.take() {
            // Tag 0: epoch and end offset, as a structure of twelve bytes and no tags of its own.
            Some((epoch, end)) if flexible => {
                self.out.put_slice(&[1, 0, 13]);
                self.out.put_i32(epoch);
                self.out.put_i64(end);
                self.out.put_u8(0);
            }
            _ => encode::no_tagged_fields(&mut self.out, flexible),
        }
    }

    /// Reads a short range into the answer; the connection then needs one call instead of two.
    fn copy(&mut self, range: &FileRange) -> bool {
        let at = self.out.len();
        self.out.resize(at + range.length, 0);
        let Some(room) = self.out.get_mut(at..) else {
            return false;
        };
        matches!(range.file.read_full_at(room, range.position), Ok(read) if read == range.length)
    }

    fn finish(mut self, start: usize, failed: bool) -> Result<Reply, ResponseTooLarge> {
        let beyond = self
            .ranges
            .iter()
            .fold(0_usize, |sum, (_, range)| sum.saturating_add(range.length));
        frame::finish_response(&mut self.out, start, beyond)?;
        let mut parts = Vec::with_capacity(self.ranges.len() * 2 + 1);
        let mut written = 0;
        for (at, range) in self.ranges {
            parts.push(Part::Bytes(self.out.split_to(at - written).freeze()));
            parts.push(Part::File(range));
            written = at;
        }
        if !self.out.is_empty() {
            parts.push(Part::Bytes(self.out.freeze()));
        }
        Ok(Reply { parts, failed })
    }
}
