//! Who may ask.
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Control;
use super::problem::Failure;

/// Lets a request through that carries the token, or any where none is configured.
pub(super) async fn require_token(State(control): State<Control>, request: Request, next: Next) -> Response {
    let Some(token) = &control.shared.token else {
        return next.run(request).await;
    };
    let given = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, given)| given.trim());
    if given.is_some_and(|given| same(given.as_bytes(), token.as_bytes())) {
        return next.run(request).await;
    }
    Failure::unauthorized().into_response()
}

/// Compares without telling by its duration how much of it was right.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differing = one
        .iter()
        .zip(other)
        .fold(0, |bits, (one, other)| bits | (one ^ other));
    one.len() == other.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn only_the_whole_token_is_the_same() {
        assert!(same(b"secret", b"secret"));
        for wrong in [&b""[..], b"secre", b"secretX", b"Secret"] {
            assert!(!same(wrong, b"secret"));
        }
    }
}
