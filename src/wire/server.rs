//! What the connections of one listener share.
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::wire::fetch::session::FetchSessions;
use crate::wire::limits::{Budget, Limits};
use crate::wire::registry::Table;

/// The service, what it answers, and the bounds that hold for all connections together.
#[derive(Debug)]
pub(crate) struct Server<S> {
    pub(crate) service: Arc<S>,
    pub(crate) table: Table<S>,
    pub(crate) limits: Limits,
    pub(crate) budget: Budget,
    pub(crate) sessions: FetchSessions,
    pub(crate) stop: CancellationToken,
    /// Ends connections wherever they are, once the drain time is over.
    pub(crate) cut: CancellationToken,
}

impl<S> Server<S> {
    /// A server that answers what is in `table` through `service`.
    pub fn new(service: Arc<S>, table: Table<S>, limits: Limits, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            table,
            budget: Budget::new(&limits),
            sessions: FetchSessions::new(limits.fetch_sessions),
            service,
            limits,
            stop,
            cut: CancellationToken::new(),
        })
    }
}
