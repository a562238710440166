//! Fetch (1): records from segment files to the socket.
//!
//! The answer's envelope is written by hand and its records stay where they are: each partition contributes a range of a
//! segment file that the connection sends from the page cache. Rules: the batch that contains the offset comes first
//! even if it starts below; the first batch of the first partition with data is sent whatever the limits say (KIP-74);
//! an error anywhere is answered at once; otherwise a request parks until there are `min_bytes`, and is woken by what
//! happens to its partitions. Partitions take turns in being first.
pub(crate) mod request;
mod response;
pub(crate) mod session;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::log::partition::{PartitionLog, Phase};
use crate::log::read::{Isolation, ReadError};
use crate::wire::broker::{Broker, Topic};
use crate::wire::ended::Ended;
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::request::{FetchRequest, Position, TopicKey, WITH_TOPIC_IDS};
use crate::wire::fetch::session::{Scope, Session, Told};
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::FetchPosition;
use crate::wire::limits::{Charge, ELEMENT_BYTES, FREE_FRAME_BYTES};
use crate::wire::partition::Partition;
use crate::wire::refusal;
use crate::wire::registry::{Action, Call, CallError, Entry};
use crate::wire::reply::{FileRange, Reply};
use crate::wire::schema::MAX_ELEMENTS;
use crate::wire::server::Server;

/// The oldest version served.
const MIN: i16 = 4;
/// The newest version served.
const MAX: i16 = 17;
/// The first version with sessions.
const WITH_SESSIONS: i16 = 7;

/// The line of the table.
pub fn entry<S>() -> Entry<S> {
    Entry {
        key: 1,
        name: "Fetch",
        min: MIN,
        max: MAX,
        shown_from: MIN,
        request_header: |version| if version >= request::FLEXIBLE_FROM { 2 } else { 1 },
        response_header: |version| i16::from(version >= request::FLEXIBLE_FROM),
        schema: &[],
        decodes: |version, body| Ok(request::read(version, body).map(|_| 0)?),
        action: Action::Fetch,
    }
}

/// What a connection keeps from one fetch to the next.
#[derive(Debug, Default)]
pub(crate) struct FetchState {
    waiter: Option<Arc<Notify>>,
}

/// One partition of a request, with what its topic's name or id leads to.
#[derive(Debug)]
struct Asked {
    key: TopicKey,
    position: Position,
    topic: Option<Arc<Topic>>,
    /// What the client knows already; only within a session.
    told: Option<Told>,
    /// Answered even if nothing is new.
    always: bool,
}

impl Asked {
    fn partition(&self) -> Option<&Arc<Partition>> {
        self.topic
            .as_ref()
            .and_then(|topic| topic.partition(self.position.partition))
    }
}

/// What was found for one partition.
#[derive(Debug)]
pub(crate) struct Found {
    code: ErrorCode,
    high_watermark: i64,
    last_stable_offset: i64,
    log_start: i64,
    /// The largest epoch at or below the client's, and its end, where that is below the offset asked for.
    diverging: Option<(i32, i64)>,
    /// Aborted transactions in the range: producer id and first offset. `None` for read_uncommitted.
    aborted: Option<Vec<(i64, i64)>>,
    records: Option<FileRange>,
}

impl Found {
    fn failed(code: ErrorCode) -> Self {
        Self {
            code,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start: -1,
            diverging: None,
            aborted: None,
            records: None,
        }
    }

    fn bytes(&self) -> usize {
        self.records.as_ref().map_or(0, |records| records.length)
    }
}

/// What was found for a request as a whole.
#[derive(Debug)]
struct Findings {
    found: Vec<Found>,
    bytes: usize,
    /// Not to be waited with: an error, or a log that parted ways.
    at_once: bool,
}

impl Findings {
    fn suffice(&self, min_bytes: i32) -> bool {
        self.at_once || i64::try_from(self.bytes).unwrap_or(i64::MAX) >= i64::from(min_bytes)
    }
}

/// Answers one fetch; may take as long as the request allows.
pub(crate) async fn answer<S: Broker + GroupService>(
    server: &Arc<Server<S>>,
    state: &mut FetchState,
    call: &Call,
    body: Bytes,
    frame: Charge,
) -> Result<Reply, Ended> {
    // Charged for as much as the bytes could hold until it is known how much they do.
    let most = (body.len() / request::SMALLEST_ELEMENT).min(MAX_ELEMENTS);
    let mut charge = server.budget.charge_elements(most).await;
    let request = request::read(call.version, &body)?;
    // What waits may wait for long: it keeps no frame, and no room that others wait for.
    drop((body, frame));
    if request.elements.saturating_mul(ELEMENT_BYTES) <= FREE_FRAME_BYTES {
        charge = Charge::none();
    }
    let by_id = call.version >= WITH_TOPIC_IDS;
    let scope = if call.version >= WITH_SESSIONS {
        server
            .sessions
            .enter(&request, by_id, server.service.clock().monotonic())
    } else {
        Scope::Sessionless
    };
    let (asked, session) = match scope {
        Scope::Refused(code) => return response::refused(call, code).map_err(Ended::from),
        Scope::Sessionless => (asked_by_request(&*server.service, &request), None),
        Scope::Session { session, full } => {
            let asked = asked_by_session(&*server.service, &session.lock(), full);
            (asked, Some(session))
        }
    };
    if request.replica_id < 0 {
        report(&*server.service, call, &asked);
    }
    let found = find_or_wait(server, state, &request, &asked, charge).await;
    let session_id = session.as_ref().map_or(0, |session| session.lock().id);
    if let Some(session) = &session {
        remember(session, &asked, &found);
    }
    count(server, call, &asked, &found);
    response::write(call, session_id, &asked, found)
        .map_err(|error| Ended::Call(CallError::Encode(error.to_string())))
}

fn asked_by_request<S: Broker>(broker: &S, request: &FetchRequest) -> Vec<Asked> {
    let mut asked = Vec::new();
    for topic in &request.topics {
        let known = resolve(broker, &topic.key);
        asked.extend(topic.partitions.iter().map(|position| Asked {
            key: topic.key.clone(),
            position: *position,
            topic: known.clone(),
            told: None,
            always: true,
        }));
    }
    asked
}

fn asked_by_session<S: Broker>(broker: &S, session: &Session, full: bool) -> Vec<Asked> {
    let count = session.partitions.len();
    let order = (session.first..count).chain(0..session.first.min(count));
    let mut last: Option<(TopicKey, Option<Arc<Topic>>)> = None;
    let mut asked = Vec::with_capacity(count);
    for index in order {
        let Some(((key, _), followed)) = session.partitions.get_index(index) else {
            continue;
        };
        let topic = match &last {
            Some((known, topic)) if known == key => topic.clone(),
            _ => resolve(broker, key),
        };
        last = Some((key.clone(), topic.clone()));
        asked.push(Asked {
            key: key.clone(),
            position: followed.position,
            topic,
            told: followed.told,
            always: full || followed.told.is_none(),
        });
    }
    asked
}

fn resolve<S: Broker>(broker: &S, key: &TopicKey) -> Option<Arc<Topic>> {
    match key {
        TopicKey::Name(name) => broker.topic(name),
        TopicKey::Id(id) => broker.topic_by_id(*id),
    }
}

/// Tells the group room where this client reads.
fn report<S: GroupService>(service: &S, call: &Call, asked: &[Asked]) {
    let positions: Vec<FetchPosition> = asked
        .iter()
        .filter_map(|asked| {
            Some(FetchPosition {
                topic_id: asked.topic.as_ref()?.id,
                partition: asked.partition()?.index(),
                offset: asked.position.fetch_offset,
            })
        })
        .collect();
    if !positions.is_empty() {
        service.fetched(&call.client, &positions);
    }
}

async fn find_or_wait<S: Broker + GroupService>(
    server: &Server<S>,
    state: &mut FetchState,
    request: &FetchRequest,
    asked: &[Asked],
    charge: Charge,
) -> Vec<Found> {
    let limit = server.limits.max_fetch_bytes;
    let findings = find(request, asked, limit);
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    if findings.suffice(request.min_bytes) || wait.is_zero() || asked.is_empty() {
        return findings.found;
    }
    let Some(_parked) = server.budget.park(asked.len().saturating_mul(ELEMENT_BYTES)) else {
        return findings.found;
    };
    drop(charge);
    let waiter = state.waiter.get_or_insert_default();
    // Registered before the second look, so that what happens from now on wakes this fetch.
    let _registrations: Vec<_> = asked
        .iter()
        .filter_map(|asked| asked.partition().and_then(|partition| partition.log()))
        .map(|log| log.wake_on_change(waiter))
        .collect();
    let deadline = Instant::now() + wait;
    loop {
        let findings = find(request, asked, limit);
        if findings.suffice(request.min_bytes) {
            return findings.found;
        }
        tokio::select! {
            biased;
            () = server.stop.cancelled() => return findings.found,
            () = waiter.notified() => {}
            () = tokio::time::sleep_until(deadline) => return findings.found,
        }
    }
}

fn find(request: &FetchRequest, asked: &[Asked], limit: i32) -> Findings {
    let mut findings = Findings {
        found: Vec::with_capacity(asked.len()),
        bytes: 0,
        at_once: false,
    };
    let mut left = request.max_bytes.min(limit).max(0);
    for asked in asked {
        let found = find_one(request, asked, left, findings.bytes == 0);
        let bytes = found.bytes();
        findings.bytes = findings.bytes.saturating_add(bytes);
        left = left
            .saturating_sub(i32::try_from(bytes).unwrap_or(i32::MAX))
            .max(0);
        findings.at_once |= found.code.is_error() || found.diverging.is_some();
        findings.found.push(found);
    }
    findings
}

fn find_one(request: &FetchRequest, asked: &Asked, left: i32, first: bool) -> Found {
    let position = &asked.position;
    let Some(partition) = asked.partition() else {
        let unknown = match asked.key {
            TopicKey::Id(_) if asked.topic.is_none() => ErrorCode::UnknownTopicId,
            _ => ErrorCode::UnknownTopicOrPartition,
        };
        return Found::failed(unknown);
    };
    if let Err(code) = partition.check_leader_epoch(position.current_leader_epoch) {
        return Found::failed(code);
    }
    let Some(log) = partition.log() else {
        return Found::failed(ErrorCode::KafkaStorageError);
    };
    let isolation = match (request.replica_id >= 0, request.read_committed) {
        (true, _) | (false, false) => Isolation::ReadUncommitted,
        (false, true) => Isolation::ReadCommitted,
    };
    let max_bytes = i64::from(position.max_bytes.min(left).max(0));
    let slice = match log.read(position.fetch_offset, max_bytes, first, isolation) {
        Ok(slice) => slice,
        Err(error) => return out_of_reach(failure(&error, log), log),
    };
    let diverging = match diverging(log, position) {
        Ok(diverging) => diverging,
        Err(code) => return Found::failed(code),
    };
    let aborted = slice
        .aborted
        .iter()
        .map(|aborted| (aborted.producer_id, aborted.first_offset));
    Found {
        code: ErrorCode::None,
        high_watermark: slice.bounds.high_watermark,
        last_stable_offset: slice.bounds.last_stable_offset,
        log_start: slice.bounds.log_start,
        aborted: request.read_committed.then(|| aborted.collect()),
        records: slice
            .file
            .filter(|_| diverging.is_none() && slice.len > 0)
            .map(|file| FileRange {
                file,
                position: slice.position,
                length: slice.len,
            }),
        diverging,
    }
}

/// Whoever reads out of range is told where the log starts, which Kafka leaves out: how much it lost can be seen in the answer.
fn out_of_reach(code: ErrorCode, log: &PartitionLog) -> Found {
    let mut found = Found::failed(code);
    if code == ErrorCode::OffsetOutOfRange {
        found.log_start = log.log_start();
    }
    found
}

fn failure(error: &ReadError, log: &PartitionLog) -> ErrorCode {
    match log.phase() {
        // Deleted while the fetch was parked: its topic was known, also by id, when it came.
        Phase::Deleted => ErrorCode::UnknownTopicOrPartition,
        _ => refusal::read_code(error),
    }
}

/// Where the client's last record's epoch ended, if that is below the offset it goes on from (KIP-595). An epoch of which nothing is
/// known is an offset out of range, as in Kafka.
fn diverging(log: &PartitionLog, position: &Position) -> Result<Option<(i32, i64)>, ErrorCode> {
    if position.last_fetched_epoch < 0 {
        return Ok(None);
    }
    let (epoch, end) = log.end_offset_for_epoch(position.last_fetched_epoch);
    if epoch < 0 || end < 0 {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let parted = epoch < position.last_fetched_epoch || end < position.fetch_offset;
    Ok(parted.then_some((epoch, end)))
}

/// Whether a client in a session is told about this partition.
fn is_news(asked: &Asked, found: &Found) -> bool {
    asked.always
        || found.bytes() > 0
        || found.code.is_error()
        || found.diverging.is_some()
        || asked.told != Some(told(found))
}

fn told(found: &Found) -> Told {
    Told {
        high_watermark: found.high_watermark,
        log_start: found.log_start,
        failed: found.code.is_error(),
    }
}

fn remember(session: &Mutex<Session>, asked: &[Asked], found: &[Found]) {
    let mut session = session.lock();
    let mut first = None;
    for (asked, found) in asked.iter().zip(found) {
        let key = (asked.key.clone(), asked.position.partition);
        if let Some((index, _, followed)) = session.partitions.get_full_mut(&key) {
            followed.told = Some(told(found));
            if found.bytes() > 0 {
                first = Some(index.saturating_add(1));
            }
        }
    }
    if let Some(first) = first {
        session.first = if first < session.partitions.len() {
            first
        } else {
            0
        };
    }
}

fn count<S: Broker>(server: &Server<S>, call: &Call, asked: &[Asked], found: &[Found]) {
    let metrics = server.service.metrics();
    let bytes: usize = found.iter().map(Found::bytes).sum();
    metrics.bytes_out.inc_by(bytes as u64);
    for (asked, found) in asked.iter().zip(found) {
        if found.code == ErrorCode::OffsetOutOfRange
            && let Some(log) = asked.partition().and_then(|partition| partition.log())
            && asked.position.fetch_offset < log.log_start()
        {
            metrics.fetched_below_log_start(log.topic(), &call.client.id);
        }
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
