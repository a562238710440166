//! The control API as HTTP: who may ask, how errors look, and the stream of events.
use futures::StreamExt as _;
use tidemark::engine::{Engine, EngineError};
use tidemark::operator::control_client::ControlClient;
use tidemark::operator::storage::Storage;
use tidemark::resource::contract::{EventKind, Problem};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::scene::{DAY, Desired, Scene, T};
use crate::support::wait::PATIENCE;

async fn exchange(address: &str, request: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply
}

async fn ask(scene: &Scene, method: &str, path: &str, headers: &str, body: &str) -> String {
    let address = scene.engine.control_address().unwrap().to_string();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    exchange(&address, &request).await
}

fn problem(reply: &str) -> Problem {
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/problem+json"), "{head}");
    let problem: Problem = serde_json::from_str(body).unwrap();
    assert!(
        head.starts_with(&format!("HTTP/1.1 {}", problem.status)),
        "{head}"
    );
    problem
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_is_a_problem_with_a_stable_code() {
    let mut scene = Scene::new().await;
    scene.apply("a.b", &Desired::new()).await;
    let json = "content-type: application/json\r\n";
    for (method, path, headers, body, code) in [
        ("GET", "/v1/topics/nowhere", "", "", "topicNotFound"),
        (
            "GET",
            "/v1/topics/a.b/partitions/7/segments",
            "",
            "",
            "partitionNotFound",
        ),
        (
            "GET",
            "/v1/topics/a.b/partitions/x/segments",
            "",
            "",
            "invalidRequest",
        ),
        ("GET", "/v2/topics", "", "", "routeNotFound"),
        ("PATCH", "/v1/topics/a.b", "", "", "methodNotAllowed"),
        ("PUT", "/v1/topics/t", json, "{\"partitions\": ", "invalidRequest"),
        (
            "PUT",
            "/v1/topics/t",
            json,
            "{\"partitions\": 1, \"retention\": 5}",
            "invalid",
        ),
        ("PUT", "/v1/topics/t", json, "{\"partitions\": 0}", "invalid"),
        (
            "PUT",
            "/v1/topics/t",
            json,
            "{\"config\": {\"retention.ms\": \"1.5\"}}",
            "invalid",
        ),
        ("PUT", "/v1/topics/bad%20name", json, "{}", "invalid"),
        ("PUT", "/v1/topics/a_b", json, "{}", "nameCollision"),
        ("PUT", "/v1/topics/t", "", "{}", "invalidRequest"),
        ("DELETE", "/v1/topics/a.b?owner=somebody", "", "", "conflict"),
    ] {
        let reply = ask(&scene, method, path, headers, body).await;
        let problem = problem(&reply);
        assert_eq!(problem.code, code, "{method} {path} {body}: {}", problem.detail);
    }
    let reply = ask(
        &scene,
        "PUT",
        "/v1/topics/t",
        json,
        "{\"config\": {\"log.retention.ms\": \"1\"}}",
    )
    .await;
    let problem = problem(&reply);
    assert_eq!(problem.field.as_deref(), Some("config.log.retention.ms"));
    assert!(problem.detail.contains("retention.ms"), "{}", problem.detail);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_for_where_one_is_configured_and_required_where_others_can_reach() {
    let scene = Scene::with(|config| config.control_token = Some("secret".to_owned())).await;
    for (path, headers, status) in [
        ("/healthz", "", "200"),
        ("/readyz", "", "200"),
        ("/v1/topics", "", "401"),
        ("/metrics", "", "401"),
        ("/v1/topics", "authorization: Bearer wrong\r\n", "401"),
        ("/v1/topics", "authorization: Basic secret\r\n", "401"),
        ("/v1/topics", "authorization: Bearer secret\r\n", "200"),
        ("/metrics", "Authorization: bearer secret\r\n", "200"),
    ] {
        let reply = ask(&scene, "GET", path, headers, "").await;
        assert!(
            reply.starts_with(&format!("HTTP/1.1 {status}")),
            "{path} {headers}: {reply}"
        );
    }
    let reply = ask(&scene, "GET", "/v1/topics", "", "").await;
    assert_eq!(problem(&reply).code, "unauthorized");
    let mut open = scene.config.clone();
    open.data = open.data.join("elsewhere");
    open.control = Some(([0, 0, 0, 0], 0).into());
    open.control_token = None;
    match Engine::start(open).await {
        Err(EngineError::TokenRequired { address }) => assert!(address.ip().is_unspecified()),
        other => panic!("{other:?}"),
    }
}

/// The operator's wake-ups: a refusal, and that the change went in by itself.
#[tokio::test(flavor = "multi_thread")]
async fn events_tell_of_a_refusal_and_of_its_end() {
    let mut scene = Scene::read_to("g", 0, &Desired::new()).await;
    let address = scene.engine.control_address().unwrap().to_string();
    let client = ControlClient::new(&address, None).unwrap();
    let mut events = client.watch().await.unwrap();
    scene
        .apply("t", &Desired::new().set("retention.ms", 4 * DAY))
        .await;
    scene.kafka.commit("g", "t", 0, 100).await.unwrap();
    let mut kinds = Vec::new();
    while kinds.last() != Some(&EventKind::Resumed) {
        let event = tokio::time::timeout(PATIENCE, events.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!((event.topic.as_str(), event.at_ms), ("t", T));
        assert_eq!(event.owner, Some(crate::scene::owner("uid-1")));
        kinds.push(event.kind);
    }
    assert_eq!(kinds, [EventKind::Refused, EventKind::Resumed]);
    // What was missed is sent again from the number on that the listener knows.
    let reply = tokio::time::timeout(PATIENCE, async {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let request = format!("GET /v1/events HTTP/1.1\r\nhost: {address}\r\nlast-event-id: 1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        while !reply.contains("Resumed") {
            let mut part = vec![0; 4096];
            let read = stream.read(&mut part).await.unwrap();
            reply.push_str(&String::from_utf8_lossy(&part[..read]));
        }
        reply
    })
    .await
    .unwrap();
    assert!(reply.contains("id: 2\n") && !reply.contains("id: 1\n"), "{reply}");
}

/// The stop is not held up by those who listen.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_streams_and_leaves_the_mark_of_a_clean_stop() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.segment("t", 0, 10, T).await;
    let mut events = scene.control.watch().await.unwrap();
    tokio::time::timeout(PATIENCE, scene.engine.shutdown())
        .await
        .unwrap();
    assert!(events.next().await.is_none_or(|event| event.is_err()));
    assert!(scene.config.data.join("logs/.kafka_cleanshutdown").exists());
    scene.restart(|_| {}).await;
    assert!(!scene.config.data.join("logs/.kafka_cleanshutdown").exists());
    assert_eq!(scene.observe("t").await.partitions[0].log_end, 10);
}
