//! ApiVersions (18): the table as clients see it.
//!
//! The first request of every connection. A client newer than this server gets a version 0 answer that names the
//! versions of ApiVersions there are, and asks again (KIP-511). Client names are checked as in Kafka.
use bytes::{BufMut, BytesMut};

use crate::wire::encode;
use crate::wire::error_code::ErrorCode;
use crate::wire::frame;
use crate::wire::reader::Reader;
use crate::wire::registry::{Action, Answer, Call, CallError, Entry, Table};
use crate::wire::schema::Malformed;

/// The API's key.
pub const KEY: i16 = 18;
const MAX: i16 = 4;
/// The first version that names the client's software, and the first flexible one.
const WITH_SOFTWARE: i16 = 3;

/// The line of the table.
pub fn entry<S>() -> Entry<S> {
    Entry {
        key: KEY,
        name: "ApiVersions",
        min: 0,
        max: MAX,
        shown_from: 0,
        request_header: |version| if version >= WITH_SOFTWARE { 2 } else { 1 },
        response_header: |_| 0,
        schema: &[],
        decodes: |version, body| Ok(software(version, body).map(|_| 0)?),
        action: Action::ApiVersions,
    }
}

/// Answers a version that is served.
pub fn answer<S>(table: &Table<S>, call: &Call, body: &[u8]) -> Answer {
    let code = match software(call.version, body)? {
        true => ErrorCode::None,
        false => ErrorCode::InvalidRequest,
    };
    write(table.entries(), call.version, call.correlation_id, code)
}

/// Answers a version that is not served: in version 0, with the versions of this API that are.
pub fn unsupported<S>(table: &Table<S>, correlation_id: i32) -> Answer {
    let own = table.entries().iter().filter(|entry| entry.key == KEY);
    write(own, 0, correlation_id, ErrorCode::UnsupportedVersion)
}

/// Whether the client's software name and version are ones Kafka accepts.
fn software(version: i16, body: &[u8]) -> Result<bool, Malformed> {
    if version < WITH_SOFTWARE {
        return Ok(true);
    }
    let mut reader = Reader::new(body, true);
    Ok(is_software_word(reader.string()?) && is_software_word(reader.string()?))
}

/// Letters and digits, with dots and dashes inside (`ApiVersionsRequest`).
fn is_software_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.' || *byte == b'-';
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && bytes.iter().all(inner)
        }
        _ => false,
    }
}

fn write<'a, S: 'a>(
    entries: impl IntoIterator<Item = &'a Entry<S>>,
    version: i16,
    correlation_id: i32,
    code: ErrorCode,
) -> Answer {
    let entries: Vec<&Entry<S>> = entries.into_iter().collect();
    let flexible = version >= WITH_SOFTWARE;
    let mut out = BytesMut::with_capacity(32 + entries.len() * 8);
    let start = frame::start_response(&mut out, correlation_id, 0);
    out.put_i16(code.code());
    encode::array_length(&mut out, entries.len(), flexible);
    for entry in entries {
        out.put_i16(entry.key);
        out.put_i16(entry.shown_from);
        out.put_i16(entry.max);
        encode::no_tagged_fields(&mut out, flexible);
    }
    if version >= 1 {
        out.put_i32(0);
    }
    encode::no_tagged_fields(&mut out, flexible);
    frame::finish_response(&mut out, start, 0).map_err(|error| CallError::Encode(error.to_string()))?;
    Ok(out)
}
