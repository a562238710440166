//! Errors as `application/problem+json` (RFC 9457), each with a stable code.
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::engine::refusal::Refusal;
use crate::resource::contract::{Health, Problem};

/// An answer that is a problem.
#[derive(Debug)]
pub(super) struct Failure(Problem);

impl Failure {
    fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self(Problem {
            kind: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            reason: None,
            field: None,
            owner: None,
        })
    }

    pub fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "this needs the bearer token of --control-token-file",
        )
    }

    /// There is no engine to ask.
    pub fn not_ready(why: &Health) -> Self {
        let code = match why.reason.as_str() {
            "IdentityMismatch" => "identityMismatch",
            "LockUnsupported" => "lockUnsupported",
            "Recovering" => "notReady",
            _ => "storage",
        };
        let mut failure = Self::new(StatusCode::SERVICE_UNAVAILABLE, code, why.message.clone());
        failure.0.reason = Some(why.reason.clone());
        failure
    }

    pub fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.0)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.problem())
    }
}

impl From<JsonRejection> for Failure {
    fn from(rejection: JsonRejection) -> Self {
        let code = match &rejection {
            JsonRejection::JsonDataError(_) => "invalid",
            _ => "invalidRequest",
        };
        Self::new(rejection.status(), code, rejection.body_text())
    }
}

impl From<PathRejection> for Failure {
    fn from(rejection: PathRejection) -> Self {
        Self::new(rejection.status(), "invalidRequest", rejection.body_text())
    }
}

impl From<QueryRejection> for Failure {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), "invalidRequest", rejection.body_text())
    }
}

pub(super) async fn no_such_route(uri: Uri) -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "routeNotFound",
        format!("there is no {}", uri.path()),
    )
}

pub(super) async fn no_such_method(method: Method, uri: Uri) -> Failure {
    Failure::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "methodNotAllowed",
        format!("{} does not take {method}", uri.path()),
    )
}
