//! Answers on their way to the socket.
//!
//! An answer is bytes of ours with ranges of segment files in between. The ranges go from the page cache to the socket
//! without passing through this process (`sendfile`), in slices of [`SENDFILE_SLICE`]; where that cannot be done they
//! are read and written. A range keeps its file open, so that a segment deleted meanwhile is still sent whole. Its
//! length was promised in the frame, so a file that ends early ends the connection rather than shift what follows.
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::log::files::FileHandle;
use crate::wire::ended::Ended;

/// Bytes per `sendfile` call. Over loopback larger calls are slower than read and write, 32 KiB are nearly twice as fast.
pub const SENDFILE_SLICE: usize = 32 << 10;

/// A range up to this size is read into the answer instead: one call to the socket costs less than the copy saves.
pub const COPY_UP_TO: usize = 8 << 10;

/// The buffer of the path that reads and writes.
const COPY_BUFFER: usize = 256 << 10;

/// Slices sent before other connections of this thread get their turn.
const SLICES_PER_TURN: usize = 16;

/// A part of an answer.
#[derive(Debug)]
pub enum Part {
    /// Bytes of ours.
    Bytes(Bytes),
    /// A range of a segment file.
    File(FileRange),
}

/// A range of an open file.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// The file; open for as long as the range is held.
    pub file: Arc<dyn FileHandle>,
    /// Where the range starts.
    pub position: u64,
    /// Its length in bytes.
    pub length: usize,
}

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    /// Its parts in order; none for a request that wants no answer.
    pub parts: Vec<Part>,
    /// Whether it carries an error, for the metrics.
    pub failed: bool,
}

impl Reply {
    /// A frame of ours.
    pub fn whole(frame: BytesMut) -> Self {
        Self {
            parts: vec![Part::Bytes(frame.freeze())],
            failed: false,
        }
    }

    /// Bytes of ours in it.
    pub fn held_bytes(&self) -> usize {
        let parts = self.parts.iter();
        parts
            .map(|part| match part {
                Part::Bytes(bytes) => bytes.len(),
                Part::File(_) => 0,
            })
            .sum()
    }

    /// No answer.
    pub fn none() -> Self {
        Self {
            parts: Vec::new(),
            failed: false,
        }
    }
}

/// Writes answers to one socket.
#[derive(Debug, Default)]
pub struct Writer {
    /// The descriptor cannot take `sendfile`; read and write from now on.
    copy_only: bool,
}

impl Writer {
    /// Writes an answer as a whole. Gives up after `stall` without a byte taken.
    pub(crate) async fn write(
        &mut self,
        stream: &TcpStream,
        reply: Reply,
        stall: Duration,
    ) -> Result<(), Ended> {
        let mut parts = reply.parts.into_iter().peekable();
        while let Some(part) = parts.next() {
            let more = parts.peek().is_some();
            match part {
                Part::Bytes(bytes) => write_bytes(stream, bytes, more, stall).await?,
                Part::File(range) => self.write_range(stream, range, more, stall).await?,
            }
        }
        Ok(())
    }

    async fn write_range(
        &mut self,
        stream: &TcpStream,
        range: FileRange,
        more: bool,
        stall: Duration,
    ) -> Result<(), Ended> {
        let mut range = range;
        if !self.copy_only && range.length > COPY_UP_TO && range.file.fd().is_some() {
            match send_range(stream, &mut range, stall).await {
                Ok(()) => return Ok(()),
                Err(Ended::Io(error)) if cannot_send(&error) => self.copy_only = true,
                Err(ended) => return Err(ended),
            }
        }
        copy_range(stream, range, more, stall).await
    }
}

/// Whether `sendfile` is not to be had for this file or socket, as opposed to having failed.
fn cannot_send(error: &io::Error) -> bool {
    [
        rustix::io::Errno::INVAL,
        rustix::io::Errno::NOSYS,
        rustix::io::Errno::OPNOTSUPP,
    ]
    .iter()
    .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

async fn writable(stream: &TcpStream, stall: Duration) -> Result<(), Ended> {
    match tokio::time::timeout(stall, stream.writable()).await {
        Ok(ready) => Ok(ready?),
        Err(_) => Err(Ended::Stalled),
    }
}

async fn write_bytes(stream: &TcpStream, mut bytes: Bytes, more: bool, stall: Duration) -> Result<(), Ended> {
    let flags = if more {
        SendFlags::MORE | SendFlags::NOSIGNAL
    } else {
        SendFlags::NOSIGNAL
    };
    while bytes.has_remaining() {
        let sent = stream.try_io(Interest::WRITABLE, || {
            rustix::net::send(stream, &bytes, flags).map_err(io::Error::from)
        });
        match sent {
            Ok(sent) => bytes.advance(sent),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => writable(stream, stall).await?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends what it can of `range` and moves its start on, so that another way can take over.
async fn send_range(stream: &TcpStream, range: &mut FileRange, stall: Duration) -> Result<(), Ended> {
    let mut slices = 0;
    while range.length > 0 {
        let sent = stream.try_io(Interest::WRITABLE, || {
            let file = range.file.fd().ok_or(io::ErrorKind::Unsupported)?;
            let mut position = range.position;
            let count = range.length.min(SENDFILE_SLICE);
            rustix::fs::sendfile(stream.as_fd(), file, Some(&mut position), count).map_err(io::Error::from)
        });
        match sent {
            Ok(0) => return Err(Ended::ShortSegment),
            Ok(sent) => {
                range.position = range.position.saturating_add(sent as u64);
                range.length = range.length.saturating_sub(sent);
                slices += 1;
                if slices % SLICES_PER_TURN == 0 {
                    tokio::task::consume_budget().await;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => writable(stream, stall).await?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn copy_range(stream: &TcpStream, range: FileRange, more: bool, stall: Duration) -> Result<(), Ended> {
    let mut range = range;
    while range.length > 0 {
        let mut buffer = vec![0; range.length.min(COPY_BUFFER)];
        let read = range.file.read_full_at(&mut buffer, range.position)?;
        if read < buffer.len() {
            return Err(Ended::ShortSegment);
        }
        range.position = range.position.saturating_add(read as u64);
        range.length = range.length.saturating_sub(read);
        let more = more || range.length > 0;
        write_bytes(stream, Bytes::from(buffer), more, stall).await?;
    }
    Ok(())
}
