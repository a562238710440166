//! The routes by which a test arms a point of the engine, or has whoever comes there stand still, as a disk that does not answer would.
use axum::extract::Path;
use axum::http::StatusCode;

use crate::telemetry::failpoints;

/// `POST /v1/failpoints/{point}/{hits}`: the process aborts when it comes to `point` for the `hits`-th time from now.
pub(super) async fn arm(Path((point, hits)): Path<(String, u32)>) -> StatusCode {
    if failpoints::arm(point, hits) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::BAD_REQUEST
    }
}

/// `PUT /v1/failpoints/{point}/{hits}`: whoever comes to `point` fails there, for the next `hits` times.
pub(super) async fn fail_at(Path((point, hits)): Path<(String, u32)>) -> StatusCode {
    match fail::cfg(point, &format!("{hits}*panic->off")) {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

/// `PUT /v1/failpoints/{point}`: whoever comes to `point` from now on stands still there until it is released.
pub(super) async fn hold(Path(point): Path<String>) -> StatusCode {
    match fail::cfg(point, "pause") {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

/// `DELETE /v1/failpoints/{point}`: whoever stands still at `point` goes on.
pub(super) async fn release(Path(point): Path<String>) -> StatusCode {
    fail::remove(point);
    StatusCode::NO_CONTENT
}
