use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::routing::get;

use super::*;

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

#[tokio::test]
async fn answers_refusals_and_silence_are_told_apart() {
    let problem =
        r#"{"type":"about:blank","title":"t","status":404,"detail":"no topic x","code":"topicNotFound"}"#;
    let router = Router::new()
        .route(
            "/v1/topics/x",
            get(move || async move { (StatusCode::NOT_FOUND, problem).into_response() }),
        )
        .route(
            "/v1/topics/y",
            get(|| async { (StatusCode::BAD_GATEWAY, "a proxy").into_response() }),
        )
        .route("/v1/topics/z", get(|| async { "not json" }))
        .route("/v1/topics/slow", get(std::future::pending::<&'static str>));
    let address = serve(router).await;
    let client = ControlClient::new(&address, None).expect("client");
    let client = client.with_deadline(Duration::from_secs(240));
    assert!(
        client
            .observe("x")
            .await
            .expect("not found is an answer")
            .is_none()
    );
    assert!(
        matches!(client.observe("y").await, Err(StorageError::Unreachable(text)) if text.contains("502"))
    );
    assert!(matches!(client.observe("z").await, Err(StorageError::Garbled(_))));
    let hasty = ControlClient::new(&address, None).expect("client");
    let hasty = hasty.with_deadline(Duration::from_millis(300));
    assert!(matches!(
        hasty.observe("slow").await,
        Err(StorageError::Unreachable(_))
    ));
    let nobody = ControlClient::new("127.0.0.1:1", None).expect("client");
    assert!(matches!(
        nobody.observe("x").await,
        Err(StorageError::Unreachable(_))
    ));
    assert!(ControlClient::new("https://x", None).is_err());
    assert!(ControlClient::new("", None).is_err());
}

#[tokio::test]
async fn the_token_is_read_anew_for_each_call() {
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let heard = Arc::clone(&seen);
    let router = Router::new().route(
        "/v1/topics",
        get(move |headers: HeaderMap| async move {
            let token = headers
                .get("authorization")
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default();
            heard.lock().push(token.to_owned());
            r#"{"topics":[]}"#
        }),
    );
    let file = tempfile::NamedTempFile::new().expect("file");
    let client = ControlClient::new(&serve(router).await, Some(file.path().to_owned())).expect("client");
    for token in ["one\n", "two\n"] {
        std::fs::write(file.path(), token).expect("writes");
        client.list().await.expect("lists");
    }
    assert_eq!(*seen.lock(), ["Bearer one", "Bearer two"]);
}

#[tokio::test]
async fn events_are_read_across_chunks_and_comments() {
    let router = Router::new().route(
        "/v1/events",
        get(|| async {
            let event = r#"{"sequence":7,"atMs":1,"kind":"Resumed","topic":"orders","message":"m"}"#;
            let (head, tail) = event.split_at(20);
            let chunks = [
                ": hello\n\n".to_owned(),
                format!("event: x\ndata: {head}"),
                format!("{tail}\n"),
                "\n".to_owned(),
            ];
            let body = stream::iter(chunks.map(Ok::<_, std::convert::Infallible>));
            axum::body::Body::from_stream(body)
        }),
    );
    let client = ControlClient::new(&serve(router).await, None).expect("client");
    let events: Vec<_> = client.watch().await.expect("a stream").collect().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].as_ref().expect("an event").sequence, 7);
}

#[test]
fn no_name_becomes_another_path() {
    assert_eq!(segment("My_Topic.v1-x"), "My_Topic.v1-x");
    assert_eq!(segment(".."), "%2E%2E");
    assert_eq!(segment("a/b?c"), "a%2Fb%3Fc");
}
