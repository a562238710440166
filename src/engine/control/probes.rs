//! Liveness, readiness and metrics.
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::Control;
use super::problem::Failure;
use crate::resource::contract::Health;

/// How long storage may fail before a restart of the process is worth trying, ms.
const LIVENESS_PATIENCE_MS: i64 = 5 * 60 * 1000;

/// Alive: a process that waits for its directory is. One whose volume is read-only or gone for minutes is not, because a new
/// pod may get it mounted right; a full volume is no reason, a restart frees nothing.
pub(super) async fn healthz(State(control): State<Control>) -> Response {
    let Some(engine) = control.engine() else {
        return answer(StatusCode::OK, &control.waiting());
    };
    let health = engine.health.now();
    let since_ms = engine.health.unhealthy_since_ms();
    let failing = !health.is_healthy() && health.reason != "DiskFull";
    let waited_ms = since_ms.map_or(0, |since| engine.config.clock.wall_ms().saturating_sub(since));
    if failing && waited_ms > LIVENESS_PATIENCE_MS {
        return answer(StatusCode::SERVICE_UNAVAILABLE, &health);
    }
    answer(StatusCode::OK, &health)
}

/// Ready: loaded, and the volume takes records.
pub(super) async fn readyz(State(control): State<Control>) -> Response {
    let Some(engine) = control.engine() else {
        return answer(StatusCode::SERVICE_UNAVAILABLE, &control.waiting());
    };
    let health = engine.health.now();
    let status = if health.is_healthy() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    answer(status, &health)
}

fn answer(status: StatusCode, health: &Health) -> Response {
    let body = Json(json!({"reason": health.reason, "message": health.message}));
    (status, body).into_response()
}

pub(super) async fn metrics(State(control): State<Control>) -> Result<Response, Failure> {
    let Some(engine) = control.engine() else {
        return Err(Failure::not_ready(&control.waiting()));
    };
    let text = tokio::task::spawn_blocking(move || engine.metrics.encode())
        .await
        .map_err(|error| Failure::internal(error.to_string()))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}
