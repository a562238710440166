//! A proxy between the operator and the API server that makes faults: answers instead of the server, cut watches, events of
//! a watch that has grown too old, requests held until the test says so.
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::{broadcast, watch};

use crate::support::kube::KubeApi;
use crate::support::peers;
use crate::support::ports::free_port;
use crate::support::process::{ProcessGuard, Start};
use crate::support::wait::{PATIENCE, until};

/// What becomes of a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// This status, with a `Status` object, and `Retry-After` where it is given.
    Answer(u16, Option<u32>),
    /// It is never answered.
    Hang,
    /// It is done, and its answer never comes.
    LoseAnswer,
    /// It is done once [`Proxy::heal`] is called.
    Hold,
}

/// How a watch ends.
#[derive(Debug, Clone)]
enum Cut {
    /// At once, or after these bytes more.
    Now(Option<Bytes>),
    /// When so many bytes more of what the server says have passed.
    After(usize),
}

/// A fault for requests that it fits.
#[derive(Debug, Clone)]
struct Rule {
    method: Method,
    part: String,
    fault: Fault,
    times: usize,
}

#[derive(Debug, Default)]
struct Faults {
    rules: Vec<Rule>,
    hits: usize,
    lists: usize,
    requests: usize,
    writes: Vec<String>,
}

/// See the module.
pub struct Proxy {
    faults: Arc<Mutex<Faults>>,
    cut: broadcast::Sender<Cut>,
    healed: broadcast::Sender<()>,
    frozen: watch::Sender<bool>,
    address: String,
    kubectl: ProcessGuard,
    _runtime: tokio::runtime::Runtime,
}

type Http = Client<HttpConnector, Body>;

#[derive(Clone)]
struct Shared {
    faults: Arc<Mutex<Faults>>,
    cut: broadcast::Sender<Cut>,
    healed: broadcast::Sender<()>,
    frozen: watch::Receiver<bool>,
    http: Http,
    upstream: String,
}

impl Proxy {
    /// In front of `kube`, with the rights of `kubeconfig`.
    #[track_caller]
    pub fn start(kube: &KubeApi, kubeconfig: &std::path::Path) -> Self {
        let upstream = format!("127.0.0.1:{}", free_port());
        let (host, port) = upstream.split_once(':').expect("host and port");
        // kubectl does the TLS and the token; what passes here is plain HTTP.
        let kubectl = Start::new("kubectl-proxy", peers::executable("kubectl"))
            .env("KUBECONFIG", kubeconfig)
            .args(["proxy", "--address", host, "--port", port])
            .spawn(kube.home());
        until("kubectl proxy", PATIENCE, || {
            std::net::TcpStream::connect(&upstream).is_ok()
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let faults = Arc::new(Mutex::new(Faults::default()));
        let (cut, _) = broadcast::channel(16);
        let (healed, _) = broadcast::channel(16);
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let http: Http = runtime.block_on(async { Client::builder(TokioExecutor::new()).build_http() });
        let (frozen, thaws) = watch::channel(false);
        let router = Router::new().fallback(pass).with_state(Shared {
            faults: Arc::clone(&faults),
            cut: cut.clone(),
            healed: healed.clone(),
            frozen: thaws,
            http,
            upstream,
        });
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self {
            faults,
            cut,
            healed,
            frozen,
            address,
            kubectl,
            _runtime: runtime,
        }
    }

    /// A kubeconfig file for what goes through the proxy.
    pub fn kubeconfig(&mut self, kube: &KubeApi) -> std::path::PathBuf {
        self.kubectl.must_run().expect("kubectl proxy runs");
        let file = kube.home().join("proxied.kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: p\nclusters: [{{name: p, cluster: {{server: 'http://{}'}}}}]\n\
             users: [{{name: p, user: {{}}}}]\ncontexts: [{{name: p, context: {{cluster: p, user: p, namespace: tidemark}}}}]\n",
            self.address
        );
        std::fs::write(&file, text).expect("a file in our own folder");
        file
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("no panic under the lock")
    }

    /// The next `times` requests of this method whose path and query contain `part` come to this.
    pub fn fail(&self, method: Method, part: &str, fault: Fault, times: usize) {
        self.faults().rules.push(Rule {
            method,
            part: part.to_owned(),
            fault,
            times,
        });
    }

    /// No more faults.
    pub fn heal(&self) {
        self.faults().rules.clear();
        // Nothing may be held.
        let _ = self.healed.send(());
    }

    /// How many requests met a fault.
    pub fn hits(&self) -> usize {
        self.faults().hits
    }

    /// How many requests are still to meet a fault.
    pub fn faults_left(&self) -> usize {
        self.faults().rules.iter().map(|rule| rule.times).sum()
    }

    /// How many lists of Topics were asked for.
    pub fn lists(&self) -> usize {
        self.faults().lists
    }

    /// How many requests there were, watches, lists of Topics and the lease's aside.
    pub fn requests(&self) -> usize {
        self.faults().requests
    }

    /// Every request that changed something, or tried to, the lease's aside: `PATCH /apis/…`.
    pub fn writes(&self) -> Vec<String> {
        self.faults().writes.clone()
    }

    /// How often the Topic itself was patched, its status aside.
    pub fn patches(&self, topic: &str) -> usize {
        let all = self.writes();
        let ours = |write: &&String| {
            let path = write.strip_prefix("PATCH ").unwrap_or_default();
            path.split('?')
                .next()
                .is_some_and(|path| path.ends_with(&format!("/topics/{topic}")))
        };
        all.iter().filter(ours).count()
    }

    /// Watches tell nothing until [`Self::thaw`]: whoever listens lives with what it knows.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    pub fn thaw(&self) {
        self.frozen.send_replace(false);
    }

    /// Ends every watch.
    pub fn cut(&self) {
        // Nobody may be watching.
        let _ = self.cut.send(Cut::Now(None));
    }

    /// Ends every watch when so many bytes more have passed, wherever that is.
    pub fn cut_after(&self, bytes: usize) {
        let _ = self.cut.send(Cut::After(bytes));
    }

    /// Ends every watch in the middle of an event.
    pub fn break_off(&self) {
        let half = r#"{"type":"MODIFIED","object":{"apiVersion":"tidemark.dev/v1alpha1","kind":"Topic","metadata":{"na"#;
        let _ = self.cut.send(Cut::Now(Some(Bytes::from(half))));
    }

    /// Ends every watch with an event that its version is too old.
    pub fn expire(&self) {
        let event = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;
        let _ = self.cut.send(Cut::Now(Some(Bytes::from(format!("{event}\n")))));
    }
}

fn refusal(code: u16, retry_after: Option<u32>) -> Response {
    let status = StatusCode::from_u16(code).expect("a status");
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let body = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault made by the test", "reason": reason, "code": code});
    let mut response = (status, axum::Json(body)).into_response();
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert("retry-after", HeaderValue::from(seconds));
    }
    response
}

async fn pass(State(shared): State<Shared>, mut request: Request) -> Response {
    let Shared {
        faults,
        cut,
        healed,
        frozen,
        http,
        upstream,
    } = shared;
    let path = request
        .uri()
        .path_and_query()
        .map_or_else(String::new, ToString::to_string);
    let watching = path.contains("watch=");
    let mut healed = healed.subscribe();
    let fault = {
        let mut faults = faults.lock().expect("no panic under the lock");
        let lists = request.method() == Method::GET && path.contains("/topics?") && !watching;
        faults.lists += usize::from(lists);
        faults.requests += usize::from(!lists && !watching && !path.contains("/leases"));
        if request.method() != Method::GET && !path.contains("/leases") {
            faults.writes.push(format!("{} {path}", request.method()));
        }
        let fits = |rule: &&mut Rule| {
            rule.times > 0 && rule.method == *request.method() && path.contains(&rule.part)
        };
        let found = faults.rules.iter_mut().find(fits).map(|rule| {
            rule.times -= 1;
            rule.fault.clone()
        });
        faults.hits += usize::from(found.is_some());
        found
    };
    match &fault {
        Some(Fault::Answer(code, retry_after)) => return refusal(*code, *retry_after),
        Some(Fault::Hang) => return std::future::pending().await,
        // An error is the end of the test.
        Some(Fault::Hold) => drop(healed.recv().await),
        Some(Fault::LoseAnswer) | None => {}
    }
    let uri = format!("http://{upstream}{path}");
    *request.uri_mut() = uri.parse().expect("a URL");
    request.headers_mut().remove("host");
    let response = match http.request(request).await {
        Ok(response) => response,
        Err(error) => return (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    };
    if matches!(fault, Some(Fault::LoseAnswer)) {
        return std::future::pending().await;
    }
    let (head, body) = response.into_parts();
    let frames = body
        .into_data_stream()
        .map(|chunk| chunk.map_err(|error| error.to_string()));
    if !watching {
        return Response::from_parts(head, Body::from_stream(frames));
    }
    let (frames, cut) = (Box::pin(frames), cut.subscribe());
    // What comes from the server until the cut, then what the cut says, then the end.
    let merged = futures::stream::unfold(Some((frames, cut, frozen, None)), |state| async move {
        let (mut frames, mut cut, mut frozen, mut left) = state?;
        loop {
            let next = async {
                let chunk = frames.next().await;
                // An error is the end of the test.
                let _ = frozen.wait_for(|frozen| !*frozen).await;
                chunk
            };
            tokio::select! {
                chunk = next => {
                    let mut chunk: Result<Bytes, String> = chunk?;
                    if let (Ok(bytes), Some(rest)) = (&mut chunk, left) {
                        if bytes.len() >= rest {
                            bytes.truncate(rest);
                            return Some((chunk, None));
                        }
                        left = Some(rest - bytes.len());
                    }
                    return Some((chunk, Some((frames, cut, frozen, left))));
                }
                event = cut.recv() => match event.ok()? {
                    Cut::Now(bytes) => return bytes.map(|bytes| (Ok(bytes), None)),
                    Cut::After(bytes) => left = Some(bytes),
                }
            }
        }
    });
    Response::from_parts(head, Body::from_stream(merged))
}
