//! The control API: HTTP and JSON for the operator, the command line and people with `curl`.
//!
//! It is up before the engine is, so that `/readyz` can say what the engine waits for, and stays up where the data directory may
//! not be touched, so that the reason can be read from a running process instead of from one that starts over and over.
//! Probes are open; everything else needs the bearer token where one is configured, and an address that is not
//! loopback must have one.
mod auth;
mod events;
#[cfg(feature = "failpoints")]
mod failpoints;
mod probes;
mod problem;
mod topics;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, EngineError};
use crate::resource::contract::Health;

/// The largest request body.
const MOST_BODY_BYTES: usize = 4 << 20;

/// What the routes share.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: OnceLock<Weak<Engine>>,
    /// Why there is no engine yet, or none at all.
    waiting: Mutex<Health>,
    token: Option<String>,
    stop: CancellationToken,
}

impl Control {
    /// Nothing to show yet.
    pub(crate) fn new(token: Option<String>, stop: CancellationToken) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine: OnceLock::new(),
                waiting: Mutex::new(Health {
                    reason: "Recovering".to_owned(),
                    message: "the data directory is being loaded".to_owned(),
                }),
                token,
                stop,
            }),
        }
    }

    /// From now on the engine is shown.
    pub(crate) fn show(&self, engine: &Arc<Engine>) {
        let _ = self.shared.engine.set(Arc::downgrade(engine));
    }

    /// There will be no engine, for this reason.
    pub(crate) fn blocked(&self, reason: &str, message: String) {
        *self.shared.waiting.lock() = Health {
            reason: reason.to_owned(),
            message,
        };
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.shared.engine.get().and_then(Weak::upgrade)
    }

    fn waiting(&self) -> Health {
        self.shared.waiting.lock().clone()
    }

    fn routes(self) -> Router {
        let guarded = Router::new()
            .route("/metrics", get(probes::metrics))
            .route("/v1/topics", get(topics::list))
            .route(
                "/v1/topics/{topic}",
                get(topics::show).put(topics::apply).delete(topics::delete),
            )
            .route("/v1/topics/{topic}/plan", post(topics::plan))
            .route("/v1/topics/{topic}/readers", get(topics::readers))
            .route(
                "/v1/topics/{topic}/partitions/{partition}/segments",
                get(topics::segments),
            )
            .route("/v1/retention/pass", post(topics::pass))
            .route("/v1/retention/clock", post(topics::confirm_clock))
            .route("/v1/events", get(events::stream));
        #[cfg(feature = "failpoints")]
        let guarded = guarded
            .route(
                "/v1/failpoints/{point}/{hits}",
                post(failpoints::arm).put(failpoints::fail_at),
            )
            .route(
                "/v1/failpoints/{point}",
                axum::routing::put(failpoints::hold).delete(failpoints::release),
            );
        let guarded = guarded.layer(axum::middleware::from_fn_with_state(
            self.clone(),
            auth::require_token,
        ));
        Router::new()
            .route("/healthz", get(probes::healthz))
            .route("/readyz", get(probes::readyz))
            .merge(guarded)
            .fallback(problem::no_such_route)
            .method_not_allowed_fallback(problem::no_such_method)
            .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
            .with_state(self)
    }

    /// Listens, and serves until told to stop. Answers the address and the task that serves it.
    pub(crate) async fn serve(
        self,
        address: SocketAddr,
    ) -> Result<(SocketAddr, tokio::task::JoinHandle<()>), EngineError> {
        if !address.ip().is_loopback() && self.shared.token.is_none() {
            return Err(EngineError::TokenRequired { address });
        }
        let failed = |cause| EngineError::Listen { address, cause };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let stop = self.shared.stop.clone();
        let routes = self.routes();
        let task = tokio::spawn(async move {
            let stopped = stop.clone();
            let serving = axum::serve(listener, routes)
                .with_graceful_shutdown(async move { stopped.cancelled().await });
            if let Err(error) = serving.await {
                tracing::error!(%error, "the control API ended");
            }
        });
        Ok((bound, task))
    }
}
