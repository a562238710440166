//! The table of APIs: what is served, what is advertised, who answers.
//!
//! An API is one file with a type that implements [`Api`] and one line in the list of its door. What ApiVersions
//! tells clients is derived from the table, so that it cannot drift from what is served.
use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request};
use thiserror::Error;

use crate::wire::broker::Client;
use crate::wire::frame;
use crate::wire::limits::Charge;
use crate::wire::reader::Reader;
use crate::wire::schema::{self, MAX_ELEMENTS, Malformed, Schema, Walked};

/// One request on its way through a handler.
#[derive(Debug)]
pub struct Call {
    /// The version asked for; within the API's range.
    pub version: i16,
    /// Goes back in the response.
    pub correlation_id: i32,
    /// Who asks.
    pub client: Arc<Client>,
    /// Room for the request in the budget of the connections. A handler that waits for other clients drops its call before, and
    /// keeps no part of the frame.
    pub room: Vec<Charge>,
}

/// An API whose messages come from the protocol crate.
///
/// `S` is what the handler needs to answer: a [`crate::wire::broker::Broker`], or the group door. A response must not set a field that the
/// version does not have, where the protocol crate refuses to encode it: the tests encode every version.
pub trait Api<S>: Sized + 'static {
    /// The request; its key and response follow from it.
    type Request: Request + Send;
    /// Its name, as Kafka's documentation writes it.
    const NAME: &'static str;
    /// The oldest version served.
    const MIN: i16;
    /// The newest version served.
    const MAX: i16;
    /// The oldest version advertised; lower than `MIN` only where a client looks for it.
    const SHOWN_FROM: i16 = Self::MIN;
    /// The request's shape, walked before it is decoded.
    const SCHEMA: Schema;

    /// Answers one request. Errors are answers; nothing here closes a connection.
    fn handle(
        service: Arc<S>,
        call: Call,
        request: Self::Request,
    ) -> impl Future<Output = Response<S, Self>> + Send;
}

/// The response that belongs to an API's request.
pub type Response<S, A> = <<A as Api<S>>::Request as Request>::Response;

/// Why a request got no response.
#[derive(Debug, Error)]
pub enum CallError {
    /// The request is not what its header says; the client's fault.
    #[error("malformed request: {0}")]
    Malformed(#[from] Malformed),
    /// The decoder found more than the walk did; also the client's fault.
    #[error("malformed request: {0}")]
    Decode(String),
    /// The response could not be written; ours.
    #[error("the response could not be encoded: {0}")]
    Encode(String),
}

/// A finished response frame.
pub type Answer = Result<BytesMut, CallError>;

/// How an entry is answered.
pub enum Action<S> {
    /// By a handler, as a whole frame.
    Answer(fn(Arc<S>, Call, Bytes) -> BoxFuture<'static, Answer>),
    /// From the table itself.
    ApiVersions,
    /// By the produce path, without decoding.
    Produce,
    /// By the fetch path, without encoding.
    Fetch,
}

/// One line of the table.
pub struct Entry<S> {
    /// The API's key.
    pub key: i16,
    /// Its name.
    pub name: &'static str,
    /// The oldest version served.
    pub min: i16,
    /// The newest version served.
    pub max: i16,
    /// The oldest version advertised.
    pub shown_from: i16,
    /// The request header's version for a version of the API; 2 means flexible.
    pub request_header: fn(i16) -> i16,
    /// The response header's version.
    pub response_header: fn(i16) -> i16,
    /// The request's shape, to be walked before it is decoded; empty where the handler walks by itself.
    pub schema: Schema,
    /// Reads a body as a handler would, and drops it: how many bytes were left. For tests and fuzzing.
    pub decodes: fn(i16, &[u8]) -> Result<usize, CallError>,
    /// Who answers.
    pub action: Action<S>,
}

impl<S> fmt::Debug for Action<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Answer(_) => "Answer",
            Self::ApiVersions => "ApiVersions",
            Self::Produce => "Produce",
            Self::Fetch => "Fetch",
        })
    }
}

impl<S> fmt::Debug for Entry<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} ({}) {}..={}",
            self.name, self.key, self.min, self.max
        )
    }
}

impl<S: Send + Sync + 'static> Entry<S> {
    /// Checks that a body holds all it claims to, and no more elements than one request may carry.
    pub fn walk(&self, version: i16, body: &[u8]) -> Result<Walked, Malformed> {
        if self.schema.is_empty() {
            return Ok(Walked {
                length: body.len(),
                elements: 0,
            });
        }
        let flexible = (self.request_header)(version) >= 2;
        schema::walk(self.schema, version, flexible, body, MAX_ELEMENTS)
    }

    /// The line of an [`Api`].
    pub fn of<A: Api<S>>() -> Self {
        Self {
            key: A::Request::KEY,
            name: A::NAME,
            min: A::MIN,
            max: A::MAX,
            shown_from: A::SHOWN_FROM,
            request_header: A::Request::header_version,
            response_header: Response::<S, A>::header_version,
            schema: A::SCHEMA,
            decodes: |version, body| {
                let mut body = Bytes::copy_from_slice(body);
                A::Request::decode(&mut body, version)
                    .map_err(|error| CallError::Decode(error.to_string()))?;
                Ok(body.len())
            },
            action: Action::Answer(|service, call, body| Box::pin(answer::<S, A>(service, call, body))),
        }
    }
}

async fn answer<S: Send + Sync + 'static, A: Api<S>>(service: Arc<S>, call: Call, body: Bytes) -> Answer {
    let (version, correlation_id) = (call.version, call.correlation_id);
    let request = decode::<A::Request>(version, body)?;
    let response = A::handle(service, call, request).await;
    encode(&response, version, correlation_id)
}

/// Decodes a request body that was walked ([`Entry::walk`]).
pub fn decode<R: Request>(version: i16, mut body: Bytes) -> Result<R, CallError> {
    R::decode(&mut body, version).map_err(|error| CallError::Decode(error.to_string()))
}

/// A response as a whole frame.
pub fn encode<R: Encodable + HeaderVersion>(response: &R, version: i16, correlation_id: i32) -> Answer {
    let size = response
        .compute_size(version)
        .map_err(|error| CallError::Encode(error.to_string()))?;
    let mut out = BytesMut::with_capacity(size.saturating_add(16));
    let start = frame::start_response(&mut out, correlation_id, R::header_version(version));
    response
        .encode(&mut out, version)
        .map_err(|error| CallError::Encode(error.to_string()))?;
    frame::finish_response(&mut out, start, 0).map_err(|error| CallError::Encode(error.to_string()))?;
    Ok(out)
}

/// The APIs by key.
pub struct Table<S> {
    entries: Vec<Entry<S>>,
}

impl<S> fmt::Debug for Table<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.entries).finish()
    }
}

impl<S: Send + Sync + 'static> Table<S> {
    /// Reads the body of a frame (without its length) as a connection would: header, walk, decoder. What it is answered
    /// is not asked for. The entry point of the fuzz targets.
    ///
    /// # Errors
    /// What a connection would be closed for.
    pub fn examine(&self, frame: &[u8]) -> Result<(), CallError> {
        let mut header = Reader::new(frame, false);
        let prefix = frame::request_prefix(&mut header)?;
        let entry = self
            .get(prefix.key)
            .ok_or_else(|| CallError::Decode("no such API".to_owned()))?;
        if !(entry.min..=entry.max).contains(&prefix.version) {
            return Err(CallError::Decode("no such version".to_owned()));
        }
        frame::client_id(&mut header, (entry.request_header)(prefix.version))?;
        let body = frame.get(header.position()..).unwrap_or_default();
        let walked = entry.walk(prefix.version, body)?;
        let left = (entry.decodes)(prefix.version, body)?;
        if !entry.schema.is_empty() && left != body.len() - walked.length {
            return Err(CallError::Encode(format!(
                "{} v{}: the walk takes {} bytes, the decoder leaves {left} of {}",
                entry.name,
                prefix.version,
                walked.length,
                body.len()
            )));
        }
        Ok(())
    }
}

impl<S> Table<S> {
    /// A table of these entries. Of two with one key the later one holds.
    pub fn new(entries: impl IntoIterator<Item = Entry<S>>) -> Self {
        let mut table: Vec<Entry<S>> = Vec::new();
        for entry in entries {
            match table.binary_search_by_key(&entry.key, |known| known.key) {
                Ok(at) => table[at] = entry,
                Err(at) => table.insert(at, entry),
            }
        }
        Self { entries: table }
    }

    /// The entry with this key.
    pub fn get(&self, key: i16) -> Option<&Entry<S>> {
        let at = self.entries.binary_search_by_key(&key, |entry| entry.key).ok()?;
        self.entries.get(at)
    }

    /// All entries, by key.
    pub fn entries(&self) -> &[Entry<S>] {
        &self.entries
    }
}
