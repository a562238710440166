//! The route by which a test arms a point of the engine.
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
