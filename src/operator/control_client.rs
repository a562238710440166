//! [`Storage`] over the control API of an engine: HTTP/1.1 and JSON.
//!
//! Every call has a deadline and a bound on the size of the answer. The token is read from its file for each call, so a
//! rotated one is picked up without a restart. Nothing is retried here: the reconcile loop does that, with back-off.
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::storage::{Storage, StorageError, code};
use crate::resource::contract::{
    DeleteTopic, DesiredTopic, EngineEvent, ObservedTopic, Problem, TopicList, Verdict,
};

/// The longest that a call may take.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// The longest silence on the event stream before it counts as dead; the engine sends a comment at least every 15 s.
pub const SILENCE: Duration = Duration::from_secs(60);
/// The largest answer that is read.
const MOST_BYTES: usize = 64 << 20;
/// The longest line of the event stream.
const LONGEST_LINE: usize = 1 << 20;

/// Reaches one engine.
#[derive(Debug, Clone)]
pub struct ControlClient {
    base: String,
    token_file: Option<PathBuf>,
    deadline: Duration,
    http: Client<HttpConnector, Full<Bytes>>,
}

impl ControlClient {
    /// A client for the control API at `address`: `127.0.0.1:9097`, or `http://host:port`.
    ///
    /// # Errors
    /// An address that is no HTTP URL.
    pub fn new(address: &str, token_file: Option<PathBuf>) -> Result<Self, StorageError> {
        let base = if address.contains("://") {
            address.to_owned()
        } else {
            format!("http://{address}")
        };
        let base = base.trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|error| {
            StorageError::Garbled(format!("control address {address:?} is no URL: {error}"))
        })?;
        if uri.scheme_str() != Some("http") || uri.authority().is_none() {
            return Err(StorageError::Garbled(format!(
                "control address {address:?} must be http://HOST:PORT"
            )));
        }
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(Duration::from_secs(3)));
        connector.set_nodelay(true);
        let http = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(20))
            .build(connector);
        Ok(Self {
            base,
            token_file,
            deadline: DEADLINE,
            http,
        })
    }

    /// The same with another deadline for each call.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// `GET`s a path of the control API and reads the answer.
    ///
    /// # Errors
    /// As every call.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, StorageError> {
        self.call(Method::GET, path, None::<&()>).await
    }

    /// `GET`s a path of the control API and gives the text of a good answer.
    ///
    /// # Errors
    /// As every call.
    pub async fn text(&self, path: &str) -> Result<String, StorageError> {
        let late = || StorageError::Unreachable(format!("no answer within {} s", self.deadline.as_secs()));
        let (status, body) =
            tokio::time::timeout(self.deadline, self.exchange(Method::GET, path, None::<&()>))
                .await
                .unwrap_or_else(|_| Err(late()))?;
        if status.is_success() {
            Ok(String::from_utf8_lossy(&body).into_owned())
        } else {
            Err(refusal(status, &body))
        }
    }

    /// `POST`s to a path of the control API and reads the answer.
    ///
    /// # Errors
    /// As every call.
    pub async fn post<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<&B>,
    ) -> Result<T, StorageError> {
        self.call(Method::POST, path, body).await
    }

    async fn call<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<T, StorageError> {
        let late = || StorageError::Unreachable(format!("no answer within {} s", self.deadline.as_secs()));
        tokio::time::timeout(self.deadline, async {
            let (status, body) = self.exchange(method, path, body).await?;
            if status.is_success() {
                return serde_json::from_slice(&body)
                    .map_err(|error| StorageError::Garbled(error.to_string()));
            }
            Err(refusal(status, &body))
        })
        .await
        .unwrap_or_else(|_| Err(late()))
    }

    async fn exchange<B: Serialize + Sync>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<(StatusCode, Bytes), StorageError> {
        let response = self.send(method, path, body, "application/json").await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES)
            .collect()
            .await
            .map_err(|error| StorageError::Unreachable(error.to_string()))?
            .to_bytes();
        Ok((status, body))
    }

    async fn send<B: Serialize + Sync>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
        accept: &'static str,
    ) -> Result<http::Response<Incoming>, StorageError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(header::ACCEPT, accept);
        if let Some(token) = self.token()? {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                serde_json::to_vec(body).map_err(|error| StorageError::Garbled(error.to_string()))?
            }
            None => Vec::new(),
        };
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| StorageError::Garbled(error.to_string()))?;
        self.http
            .request(request)
            .await
            .map_err(|error| StorageError::Unreachable(with_cause(&error)))
    }

    fn token(&self) -> Result<Option<String>, StorageError> {
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        match std::fs::read_to_string(path) {
            Ok(token) => Ok(Some(token.trim().to_owned())),
            Err(error) => Err(StorageError::Unreachable(format!(
                "control token {}: {error}",
                path.display()
            ))),
        }
    }
}

fn with_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A problem document, or whatever a proxy in between has answered.
fn refusal(status: StatusCode, body: &[u8]) -> StorageError {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => StorageError::Refused(Box::new(problem)),
        Err(_) if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN => {
            StorageError::Unreachable(format!("the control token is refused ({status})"))
        }
        Err(_) => {
            let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
            StorageError::Unreachable(format!("{status}: {text}"))
        }
    }
}

/// A topic name as a path segment. Kafka's names need no escaping; anything else must not become another path.
fn segment(topic: &str) -> String {
    let mut escaped = String::new();
    for byte in topic.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || (byte == b'.' && topic.len() > 2) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

impl Storage for ControlClient {
    async fn observe(&self, topic: &str) -> Result<Option<ObservedTopic>, StorageError> {
        match self.get(&format!("/v1/topics/{}", segment(topic))).await {
            Ok(observed) => Ok(Some(observed)),
            Err(error) if error.code() == Some(code::TOPIC_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list(&self) -> Result<Vec<ObservedTopic>, StorageError> {
        self.get::<TopicList>("/v1/topics").await.map(|list| list.topics)
    }

    async fn plan(&self, topic: &str, desired: &DesiredTopic) -> Result<Verdict, StorageError> {
        self.post(&format!("/v1/topics/{}/plan", segment(topic)), Some(desired))
            .await
    }

    async fn apply(&self, topic: &str, desired: &DesiredTopic) -> Result<Verdict, StorageError> {
        self.call(
            Method::PUT,
            &format!("/v1/topics/{}", segment(topic)),
            Some(desired),
        )
        .await
    }

    async fn delete(&self, topic: &str, request: &DeleteTopic) -> Result<Verdict, StorageError> {
        let policy = match request.policy {
            Some(policy) => format!("&policy={policy:?}"),
            None => String::new(),
        };
        let path = format!(
            "/v1/topics/{}?owner={}{policy}&requestId={}",
            segment(topic),
            segment(&request.owner),
            segment(&request.request_id)
        );
        self.call(Method::DELETE, &path, None::<&()>).await
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<EngineEvent, StorageError>>, StorageError> {
        let response = tokio::time::timeout(
            self.deadline,
            self.send(Method::GET, "/v1/events", None::<&()>, "text/event-stream"),
        )
        .await
        .unwrap_or_else(|_| Err(StorageError::Unreachable("no event stream in time".to_owned())))?;
        if !response.status().is_success() {
            let status = response.status();
            return Err(StorageError::Unreachable(format!("event stream: {status}")));
        }
        Ok(events(response.into_body()).boxed())
    }
}

/// Reads server-sent events: `data:` lines up to an empty line; comments and other fields pass by.
fn events(body: Incoming) -> impl stream::Stream<Item = Result<EngineEvent, StorageError>> + Send + 'static {
    struct Reading {
        body: Incoming,
        unread: Vec<u8>,
        data: String,
    }
    let reading = Reading {
        body,
        unread: Vec::new(),
        data: String::new(),
    };
    stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        loop {
            while let Some(end) = reading.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = reading.unread.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_end_matches(['\r', '\n']);
                if let Some(data) = line.strip_prefix("data:") {
                    reading.data.push_str(data.strip_prefix(' ').unwrap_or(data));
                } else if line.is_empty() && !reading.data.is_empty() {
                    let data = std::mem::take(&mut reading.data);
                    let event =
                        serde_json::from_str(&data).map_err(|error| StorageError::Garbled(error.to_string()));
                    return Some((event, Some(reading)));
                }
            }
            if reading.unread.len() + reading.data.len() > LONGEST_LINE {
                return Some((
                    Err(StorageError::Garbled("an event without end".to_owned())),
                    None,
                ));
            }
            match tokio::time::timeout(SILENCE, reading.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        reading.unread.extend_from_slice(&data);
                    }
                }
                Ok(Some(Err(error))) => {
                    return Some((Err(StorageError::Unreachable(error.to_string())), None));
                }
                Ok(None) => return None,
                Err(_) => {
                    return Some((
                        Err(StorageError::Unreachable("the event stream is silent".to_owned())),
                        None,
                    ));
                }
            }
        }
    })
}

#[cfg(test)]
#[path = "control_client_tests.rs"]
mod tests;
