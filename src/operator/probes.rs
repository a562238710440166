//! `/healthz`, `/readyz` and `/metrics` of the operator, and `/engine/metrics`: those of its engine, whose control API is not
//! reachable from outside the pod.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::control_client::ControlClient;
use super::metrics::Metrics;

const OPENMETRICS: [(header::HeaderName, &str); 1] = [(
    header::CONTENT_TYPE,
    "application/openmetrics-text; version=1.0.0; charset=utf-8",
)];

/// Whether the operator works.
#[derive(Debug, Clone, Default)]
pub struct Health {
    ready: Arc<AtomicBool>,
}

impl Health {
    /// Topics have been listed, or another process holds the lease and this one stands by.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
}

/// Serves until `stop`.
///
/// # Errors
/// Those of the listener.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Metrics,
    engine: Arc<ControlClient>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let ready = move || async move {
        if health.is_ready() {
            (StatusCode::OK, "ok\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
        }
    };
    let scrape = move || async move { (OPENMETRICS, metrics.encode()).into_response() };
    let scrape_engine = move || async move {
        match engine.text("/metrics").await {
            Ok(text) => (OPENMETRICS, text).into_response(),
            Err(error) => (StatusCode::BAD_GATEWAY, format!("{error}\n")).into_response(),
        }
    };
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .route("/engine/metrics", get(scrape_engine));
    #[cfg(feature = "failpoints")]
    let router = router.route("/failpoints/{point}/{hits}", axum::routing::post(arm));
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

#[cfg(feature = "failpoints")]
async fn arm(axum::extract::Path((point, hits)): axum::extract::Path<(String, u32)>) -> StatusCode {
    if crate::telemetry::failpoints::arm(point, hits) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::BAD_REQUEST
    }
}
