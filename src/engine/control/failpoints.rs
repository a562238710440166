//! Named points where a test has the process die, as a `kill -9` at exactly that moment would. No build without the
//! `failpoints` feature has this route.
use std::sync::atomic::{AtomicU32, Ordering};

use axum::extract::Path;
use axum::http::StatusCode;

/// `POST /v1/failpoints/{point}/{hits}`: the process aborts when it comes to `point` for the `hits`-th time from now.
pub(super) async fn arm(Path((point, hits)): Path<(String, u32)>) -> StatusCode {
    let left = AtomicU32::new(hits.max(1));
    let armed = fail::cfg_callback(point, move || {
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            std::process::abort();
        }
    });
    match armed {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::BAD_REQUEST,
    }
}
