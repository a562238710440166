//! The binary under test.
use super::ports::free_port;
use super::process::{ProcessGuard, Start};
use super::wait::{PATIENCE, eventually};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

pub const BINARY: &str = env!("CARGO_BIN_EXE_tidemark");

/// `tidemark ARGS`, to be run to its end. No setting of the machine's reaches it.
pub fn tidemark<A: Into<std::ffi::OsString>>(args: impl IntoIterator<Item = A>) -> Start {
    Start::new("tidemark", BINARY).env("NO_COLOR", "1").args(args)
}

/// Starts an engine on `home/data` that must not come up; answers what it says.
#[track_caller]
pub fn refused(home: &Path) -> String {
    let ended = tidemark([
        "engine",
        "--listen",
        "127.0.0.1:0",
        "--control",
        "127.0.0.1:0",
        "--data",
    ])
    .arg(home.join("data"))
    .output();
    assert_eq!(ended.status.code(), Some(1));
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

/// A running `tidemark engine` (or `run`), with ports of its own.
#[derive(Debug)]
pub struct Tidemark {
    process: Option<ProcessGuard>,
    start: Start,
    bootstrap: String,
    control: String,
    home: PathBuf,
}

impl Tidemark {
    /// `tidemark engine` on `home/data`, with flags added; ready when this returns.
    #[track_caller]
    pub fn engine(home: &Path, flags: &[&str]) -> Self {
        Self::serve("engine", home, flags)
    }

    /// The same, run by another program than the binary itself.
    #[track_caller]
    pub fn engine_by(program: Start, home: &Path, flags: &[&str]) -> Self {
        let mut engine = Self::prepare("engine", home, flags);
        engine.change(program, flags);
        engine.start_again();
        engine
    }

    /// `tidemark engine` that is not expected to become ready.
    #[track_caller]
    pub fn engine_unready(home: &Path, flags: &[&str]) -> Self {
        let mut engine = Self::prepare("engine", home, flags);
        engine.start_unready();
        engine
    }

    /// `tidemark run` on `home/data` and the manifests of `home/topics`.
    #[track_caller]
    pub fn run(home: &Path, flags: &[&str]) -> Self {
        let topics = home.join("topics");
        std::fs::create_dir_all(&topics).unwrap_or_else(|e| panic!("cannot make {}: {e}", topics.display()));
        let topics = topics.display().to_string();
        let flags: Vec<&str> = ["--topics", &topics]
            .into_iter()
            .chain(flags.iter().copied())
            .collect();
        Self::serve("run", home, &flags)
    }

    #[track_caller]
    fn serve(command: &str, home: &Path, flags: &[&str]) -> Self {
        let mut running = Self::prepare(command, home, flags);
        running.start_again();
        running
    }

    fn prepare(command: &str, home: &Path, flags: &[&str]) -> Self {
        let mut prepared = Self {
            process: None,
            start: tidemark([command]),
            bootstrap: format!("127.0.0.1:{}", free_port()),
            control: format!("127.0.0.1:{}", free_port()),
            home: home.to_path_buf(),
        };
        prepared.change(tidemark([command]), flags);
        prepared
    }

    /// How it is started from the next start on: by `program`, on the same data and ports, with these flags added.
    pub fn change(&mut self, program: Start, flags: &[&str]) {
        self.start = program
            .args(["--listen", &self.bootstrap, "--control", &self.control, "--data"])
            .arg(self.home.join("data"))
            .args(flags.iter().copied())
            .directory(&self.home);
    }

    /// Starts the stopped or killed process on the same data and ports, and waits until `/readyz` is 200.
    #[track_caller]
    pub fn start_again(&mut self) {
        self.start_unready();
        self.wait_ready();
    }

    /// The same without waiting.
    #[track_caller]
    pub fn start_unready(&mut self) {
        assert!(self.process.is_none(), "it already runs");
        self.process = Some(self.start.spawn(&self.home));
    }

    #[track_caller]
    pub fn wait_ready(&mut self) {
        let process = self.process.as_mut().expect("it runs");
        eventually("tidemark to be ready", PATIENCE, || {
            process.must_run()?;
            match request(&self.control, "GET", "/readyz", None, None) {
                Ok(Reply { status: 200, .. }) => Ok(()),
                Ok(reply) => Err(format!("{} {}", reply.status, reply.body)),
                Err(e) => Err(e.to_string()),
            }
        });
    }

    /// SIGTERM and the end: a clean stop.
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        self.process.take().expect("it runs").stop()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    pub fn process(&mut self) -> &mut ProcessGuard {
        self.process.as_mut().expect("it runs")
    }

    /// `host:port` for Kafka clients.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// `host:port` of the control API.
    pub fn control(&self) -> &str {
        &self.control
    }

    pub fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// The folder of one partition.
    pub fn partition(&self, topic: &str, partition: i32) -> PathBuf {
        self.data().join("logs").join(format!("{topic}-{partition}"))
    }

    /// A request to the control API; panics when it cannot be made, answers any status.
    #[track_caller]
    pub fn http(&self, method: &str, path: &str, body: Option<&str>) -> Reply {
        request(&self.control, method, path, None, body)
            .unwrap_or_else(|e| panic!("{method} {path} on {}: {e}", self.control))
    }

    /// The JSON that `GET path` answers with 200.
    #[track_caller]
    pub fn get(&self, path: &str) -> serde_json::Value {
        self.http("GET", path, None).json(200)
    }

    /// Runs the housekeeping pass now and answers what it did.
    #[track_caller]
    pub fn pass(&self) -> serde_json::Value {
        self.http("POST", "/v1/retention/pass", None).json(200)
    }
}

/// An HTTP reply.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    #[track_caller]
    pub fn json(&self, status: u16) -> serde_json::Value {
        assert_eq!(self.status, status, "{}", self.body);
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("not JSON ({e}): {}", self.body))
    }
}

/// One HTTP/1.1 request on a connection of its own.
pub fn request(
    address: &str,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&str>,
) -> std::io::Result<Reply> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = body.unwrap_or_default();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    if let Some(token) = token {
        write!(head, "authorization: Bearer {token}\r\n").expect("a String takes everything");
    }
    if !body.is_empty() {
        head.push_str("content-type: application/json\r\n");
    }
    write!(head, "content-length: {}\r\n\r\n", body.len()).expect("a String takes everything");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply)?;
    parse_reply(&reply).ok_or_else(|| std::io::Error::other("not an HTTP reply"))
}

fn parse_reply(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = (
        String::from_utf8_lossy(&bytes[..end]).into_owned(),
        &bytes[end + 4..],
    );
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunk(body)? } else { body.to_vec() };
    Some(Reply {
        status,
        head,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let line = bytes.windows(2).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).ok()?.trim(), 16).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(bytes.get(line + 2..line + 2 + length)?);
        bytes = bytes.get(line + 4 + length..)?;
    }
}
