//! One connection: frames in, answers out, strictly in order.
//!
//! One request is worked on at a time, as in Kafka: clients rely on answers in the order of their requests and open a
//! second connection for what may park. A frame that cannot be read, a version that is not served and a body that is
//! not what it claims end the connection, because no answer could be told apart.
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::net::TcpStream;

use crate::wire::apis::api_versions;
use crate::wire::broker::{Broker, Client};
use crate::wire::ended::Ended;
use crate::wire::frame::{self, LENGTH_BYTES, RequestPrefix};
use crate::wire::groups::GroupService;
use crate::wire::limits::{Charge, FREE_FRAME_BYTES};
use crate::wire::reader::Reader;
use crate::wire::registry::{Action, Call, CallError, Entry};
use crate::wire::reply::{Reply, Writer};
use crate::wire::server::Server;
use crate::wire::{fetch, produce};

/// Room for the first bytes of a request on a connection that was quiet.
const FIRST_READ: usize = 16 << 10;

/// Requests up to this size leave no buffer behind: the next one's first bytes are read on the stack, and kept in as much room as they
/// take. Ten thousand connections that say little then hold little, whatever an allocator does with what is freed.
const SMALL: usize = 4 << 10;

/// A frame up to this size gets its room at once; a larger one as it comes in, so that a claim alone costs nothing.
const ROOM_AT_ONCE: usize = 1 << 20;

/// A connection that is quiet for this long gives its buffer back.
const KEEP_BUFFER: Duration = Duration::from_millis(500);

/// A frame without its length, and the memory it is charged for.
struct Frame {
    body: BytesMut,
    charge: Charge,
}

/// One connection's state.
pub(crate) struct Connection<S> {
    server: Arc<Server<S>>,
    stream: TcpStream,
    peer: SocketAddr,
    client: Arc<Client>,
    input: BytesMut,
    /// There is no buffer to go on with.
    bare: bool,
    writer: Writer,
    fetch: fetch::FetchState,
}

impl<S: Broker + GroupService> Connection<S> {
    pub(crate) fn new(server: Arc<Server<S>>, stream: TcpStream, peer: SocketAddr, id: u64) -> Self {
        let client = Client {
            id: Arc::from(""),
            host: Arc::from(format!("/{}", peer.ip().to_canonical())),
            connection: id,
        };
        Self {
            server,
            stream,
            peer,
            client: Arc::new(client),
            input: BytesMut::new(),
            bare: true,
            writer: Writer::default(),
            fetch: fetch::FetchState::default(),
        }
    }

    /// Who is on the other end, as far as requests have told.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Serves until the connection ends, and says why it did.
    pub(crate) async fn run(&mut self) -> Ended {
        loop {
            let frame = match self.next_frame().await {
                Ok(frame) => frame,
                Err(ended) => return self.count(ended),
            };
            if let Err(ended) = self.answer(frame).await {
                return self.count(ended);
            }
            if self.server.stop.is_cancelled() {
                return Ended::Stopping;
            }
        }
    }

    fn count(&self, ended: Ended) -> Ended {
        match &ended {
            Ended::Frame(_) | Ended::Malformed(_) | Ended::Unsupported { .. } => {
                self.server.service.metrics().malformed_requests.inc();
            }
            Ended::Call(error @ CallError::Encode(_)) => {
                tracing::error!(peer = %self.peer, %error, "an answer could not be written");
            }
            Ended::Call(_) => {
                self.server.service.metrics().malformed_requests.inc();
            }
            _ => {}
        }
        ended
    }

    async fn next_frame(&mut self) -> Result<Frame, Ended> {
        if self.input.is_empty() {
            self.first_bytes().await?;
        }
        if self.input.len() < LENGTH_BYTES {
            let deadline = self.server.limits.frame_deadline;
            let prefix = tokio::time::timeout(deadline, self.fill(LENGTH_BYTES));
            prefix.await.map_err(|_| Ended::Slow(deadline))??;
        }
        let prefix = self
            .input
            .first_chunk::<LENGTH_BYTES>()
            .copied()
            .unwrap_or_default();
        let length = frame::frame_length(prefix, self.server.limits.max_frame_bytes)?;
        let whole = length + LENGTH_BYTES;
        let charge = if self.input.len() < whole || length > FREE_FRAME_BYTES {
            let time = self.server.limits.frame_time(length);
            let server = Arc::clone(&self.server);
            let arrival = async {
                let charge = server.budget.charge(length).await;
                self.fill(whole).await.map(|()| charge)
            };
            tokio::time::timeout(time, arrival)
                .await
                .map_err(|_| Ended::Slow(time))??
        } else {
            Charge::none()
        };
        let mut body = self.input.split_to(whole);
        let _ = body.split_to(LENGTH_BYTES);
        Ok(Frame { body, charge })
    }

    /// Waits for a request to begin. A quiet connection holds no buffer.
    async fn first_bytes(&mut self) -> Result<(), Ended> {
        let idle = self.server.limits.idle;
        let stop = self.server.stop.clone();
        let mut wait = if self.bare { idle } else { KEEP_BUFFER.min(idle) };
        loop {
            match self.try_fill() {
                Ok(0) => return Err(Ended::Closed),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(Ended::Stopping),
                ready = tokio::time::timeout(wait, self.stream.readable()) => match ready {
                    Ok(ready) => ready?,
                    Err(_) if !self.bare && wait < idle => {
                        self.give_buffer_back();
                        wait = idle;
                    }
                    Err(_) => return Err(Ended::Idle(idle)),
                },
            }
        }
    }

    /// Reads until the buffer holds `whole` bytes.
    async fn fill(&mut self, whole: usize) -> Result<(), Ended> {
        while self.input.len() < whole {
            let missing = whole - self.input.len();
            let room = if whole <= ROOM_AT_ONCE {
                missing
            } else {
                missing.min(self.input.len().max(ROOM_AT_ONCE))
            };
            self.input.reserve(room);
            match self.try_fill() {
                Ok(0) => return Err(Ended::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.readable().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn give_buffer_back(&mut self) {
        self.input = BytesMut::new();
        self.bare = true;
    }

    fn try_fill(&mut self) -> io::Result<usize> {
        if self.bare {
            let mut first = [0; SMALL];
            let read = self.stream.try_read(&mut first)?;
            self.input.extend_from_slice(&first[..read]);
            self.bare = false;
            return Ok(read);
        }
        if self.input.capacity() == self.input.len() {
            self.input.reserve(FIRST_READ);
        }
        self.stream.try_read_buf(&mut self.input)
    }

    async fn answer(&mut self, frame: Frame) -> Result<(), Ended> {
        let started = Instant::now();
        let mut header = Reader::new(&frame.body, false);
        let prefix = frame::request_prefix(&mut header)?;
        let server = Arc::clone(&self.server);
        let Some(entry) = entry_for(&server, prefix)? else {
            let reply = Reply::whole(api_versions::unsupported(&server.table, prefix.correlation_id)?);
            return self.write(reply).await;
        };
        let header_version = (entry.request_header)(prefix.version);
        let client_id = frame::client_id(&mut header, header_version)?.unwrap_or_default();
        if client_id != &*self.client.id {
            let mut client = Client::clone(&self.client);
            client.id = Arc::from(client_id);
            self.client = Arc::new(client);
        }
        let body_at = header.position();
        let call = Call {
            version: prefix.version,
            correlation_id: prefix.correlation_id,
            client: Arc::clone(&self.client),
            room: Vec::new(),
        };
        let reply = self.reply(&server, entry, call, frame, body_at).await?;
        let failed = reply.failed;
        let written = self.write(reply).await;
        server
            .service
            .metrics()
            .request(entry.name, started.elapsed().as_secs_f64(), failed);
        written
    }

    async fn reply(
        &mut self,
        server: &Arc<Server<S>>,
        entry: &Entry<S>,
        mut call: Call,
        frame: Frame,
        body_at: usize,
    ) -> Result<Reply, Ended> {
        let Frame { mut body, charge } = frame;
        if body.len() <= SMALL && self.input.is_empty() {
            self.give_buffer_back();
        }
        body.advance(body_at);
        // What waits for others gives its frame back; bytes behind it would hold on to all of it.
        if body.len() > FREE_FRAME_BYTES && !matches!(entry.action, Action::Produce) {
            self.input = BytesMut::from(&self.input[..]);
        }
        match &entry.action {
            Action::ApiVersions => Ok(Reply::whole(api_versions::answer(&server.table, &call, &body)?)),
            Action::Produce => {
                let answered = produce::answer(&server.service, &call, &body).await;
                drop(charge);
                answered
            }
            Action::Fetch => {
                let fetch = fetch::answer(server, &mut self.fetch, &call, body.freeze(), charge);
                unless_gone(&self.stream, fetch).await
            }
            Action::Answer(handler) => {
                let walked = entry.walk(call.version, &body)?;
                call.room = vec![charge, server.budget.charge_elements(walked.elements).await];
                let answer = handler(Arc::clone(&server.service), call, body.freeze());
                let answer = async { answer.await.map_err(Ended::from) };
                Ok(Reply::whole(unless_gone(&self.stream, answer).await?))
            }
        }
    }

    async fn write(&mut self, reply: Reply) -> Result<(), Ended> {
        let limits = &self.server.limits;
        let room = self.server.budget.answer(reply.held_bytes());
        let written = self.writer.write(&self.stream, reply, limits.write_stall);
        if room.is_some() {
            return written.await;
        }
        // So many answers are held by peers that do not take them that this one may not become another of those.
        match tokio::time::timeout(limits.crowded_write, written).await {
            Ok(written) => written,
            Err(_) => Err(Ended::Stalled),
        }
    }
}

/// The entry that serves a request; `None` for a version of ApiVersions that is answered with the versions there are.
fn entry_for<S>(server: &Server<S>, prefix: RequestPrefix) -> Result<Option<&Entry<S>>, Ended> {
    let unsupported = || Ended::Unsupported {
        key: prefix.key,
        version: prefix.version,
    };
    let entry = server.table.get(prefix.key).ok_or_else(unsupported)?;
    if (entry.min..=entry.max).contains(&prefix.version) {
        Ok(Some(entry))
    } else if matches!(entry.action, Action::ApiVersions) {
        Ok(None)
    } else {
        Err(unsupported())
    }
}

/// Waits for `work`, unless the peer goes away meanwhile: a parked request must not outlive who asked.
async fn unless_gone<T>(
    stream: &TcpStream,
    work: impl Future<Output = Result<T, Ended>>,
) -> Result<T, Ended> {
    tokio::select! {
        biased;
        done = work => done,
        gone = gone(stream) => Err(gone),
    }
}

async fn gone(stream: &TcpStream) -> Ended {
    match stream.peek(&mut [0]).await {
        Ok(0) => Ended::Closed,
        // More requests are there already. Whether the peer is, shows once they are read.
        Ok(_) => std::future::pending().await,
        Err(error) => Ended::Io(error),
    }
}
