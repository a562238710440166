//! The listener: who is let in, and how it ends.
//!
//! Connections beyond the limit are closed at once, so that those that are there go on being served. A stop lets the
//! requests under way finish and answers parked fetches early; what takes longer than the drain time is cut off.
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::wire::apis;
use crate::wire::broker::Broker;
use crate::wire::connection::Connection;
use crate::wire::ended::Ended;
use crate::wire::groups::GroupService;
use crate::wire::limits::Limits;
use crate::wire::registry::Table;
use crate::wire::server::Server;

/// Unlike for any two connections of this process.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// How long to wait after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is unused on a connection for this long before the kernel asks whether the peer is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Serves `listener` until `stop`, then drains. Returns once every connection is closed.
pub async fn serve<S: Broker + GroupService>(
    listener: TcpListener,
    service: Arc<S>,
    limits: Limits,
    stop: CancellationToken,
) {
    let drain = limits.drain;
    let room = Arc::new(Semaphore::new(limits.max_connections));
    let table = Table::new(apis::all::<S>());
    let server = Server::new(service, table, limits, stop.clone());
    let tracker = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => match Arc::clone(&room).try_acquire_owned() {
                Ok(place) => {
                    let server = Arc::clone(&server);
                    tracker.spawn(async move {
                        serve_connection(server, stream, peer).await;
                        drop(place);
                    });
                }
                Err(_) => {
                    server.service.metrics().connections_refused.inc();
                    tracing::debug!(%peer, "too many connections; this one is closed");
                }
            },
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    tracker.close();
    if tokio::time::timeout(drain, tracker.wait()).await.is_err() {
        tracing::warn!(
            left = tracker.len(),
            "connections still busy after the drain time are cut off"
        );
    }
}

/// Whether an accept failed because of the connection that was to be accepted.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

async fn serve_connection<S: Broker + GroupService>(
    server: Arc<Server<S>>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%peer, %error, "cannot set options on the socket");
        return;
    }
    server.service.metrics().connections.inc();
    let id = NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed);
    let mut connection = Connection::new(Arc::clone(&server), stream, peer, id);
    let ended = tokio::select! {
        biased;
        ended = connection.run() => ended,
        () = server.cut.cancelled() => Ended::Stopping,
    };
    tracing::debug!(%peer, connection = id, %ended, "connection closed");
    server.service.disconnected(connection.client());
    server.service.metrics().connections.dec();
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
    Ok(())
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
