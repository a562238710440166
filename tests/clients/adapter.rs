//! The far end of a client under test: a small program in that client's language that does what it is told, a JSON object a line.
//!
//! What is tested is written once, in `cells/`, and the programs (`python/`, `java/`, `go/`, `node/`) only translate. A reply holds what was asked
//! for, or `error` with what the client reported, or `cannot` with the reason why this client has no way to do it.
//!
//! | command | fields | reply |
//! |---|---|---|
//! | `create` | `topic`, `partitions`, `config` | |
//! | `partitions` | `topic` | `count` |
//! | `produce` | `topic`, `partition`, `values`, `codec`, `acks` (`0`, `1`, `all`), `idempotent`, `timestamp` (ms of the first; one more each) | `first`: offset, -1 when unknown |
//! | `open` | `id`, `topic`, `partition`, `from` (`beginning`, `end`, an offset, `{"timestamp": ms}`), `reset` (`earliest`, `latest`, `none`) | |
//! | `take` | `id`, `count` | `records`: `[[offset, value]…]`; waits for them |
//! | `poll` | `id` | `records`: what comes within half a second |
//! | `close` | `id` | |
//! | `join` | `id`, `group`, `topic`, `instance` (or null), `protocol` (`classic`, `consumer`) | |
//! | `member` | `id` | `partitions`: assigned, `first`: first offset read by partition, `count`: records read, `rebalances`: assignments so far |
//! | `commit` | `id` | commits what the member has read |
//! | `leave` | `id` | |
//! | `committed` | `group`, `topic`, `partition` | `offset`, -1 when none |
//! | `describe` | `topic`, `key` | `value` |
//! | `alter` | `topic`, `key`, `value` | |
//! | `delete-records` | `topic`, `partition`, `before` | |
//! | `digest` | `topic`, `partitions`, `count` | `count`, `sum`: of the CRC-32 of `partition:offset:value` over all records |
use crate::support::process::Start;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc;
use std::time::Duration;

/// No single command takes longer, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Why a cell did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The client has no way to do it.
    Cannot(String),
    /// It was refused or went wrong.
    Failed(String),
}

pub type Cell<T = ()> = Result<T, Outcome>;

/// Fails the cell with a message unless the condition holds.
pub fn ensure(condition: bool, message: impl FnOnce() -> String) -> Cell {
    if condition {
        Ok(())
    } else {
        Err(Outcome::Failed(message()))
    }
}

/// A running adapter.
#[derive(Debug)]
pub struct Adapter {
    child: Child,
    stdin: ChildStdin,
    replies: mpsc::Receiver<String>,
}

impl Adapter {
    #[track_caller]
    pub fn start(start: &Start) -> Self {
        let mut child = start.piped();
        let stdin = child.stdin.take().expect("piped");
        let stdout = child.stdout.take().expect("piped");
        let (sender, replies) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            stdin,
            replies,
        }
    }

    /// One command and its reply.
    pub fn ask(&mut self, command: Value) -> Cell<Value> {
        let failed = |reason: String| Err(Outcome::Failed(format!("{command}: {reason}")));
        if let Err(e) = writeln!(self.stdin, "{command}") {
            return failed(format!("the client's program has ended: {e}"));
        }
        let reply = loop {
            match self.replies.recv_timeout(PATIENCE) {
                // Libraries print what they like; replies are objects.
                Ok(line) if line.starts_with('{') => match serde_json::from_str::<Value>(&line) {
                    Ok(reply) => break reply,
                    Err(e) => return failed(format!("not a reply ({e}): {line}")),
                },
                Ok(line) => eprintln!("{line}"),
                Err(e) => return failed(format!("no reply: {e}")),
            }
        };
        match (reply["cannot"].as_str(), reply["error"].as_str()) {
            (Some(reason), _) => Err(Outcome::Cannot(reason.to_owned())),
            (_, Some(reason)) => failed(reason.to_owned()),
            _ => Ok(reply),
        }
    }

    pub fn create(&mut self, topic: &str, partitions: i32, config: &[(&str, &str)]) -> Cell {
        let config: serde_json::Map<String, Value> = config
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        self.ask(json!({"do": "create", "topic": topic, "partitions": partitions, "config": config}))
            .map(drop)
    }

    /// Produces with acks=all and no compression; answers the first offset.
    pub fn produce(&mut self, topic: &str, partition: i32, values: &[String]) -> Cell<i64> {
        let reply = self.ask(
            json!({"do": "produce", "topic": topic, "partition": partition, "values": values,
            "codec": "none", "acks": "all", "idempotent": false}),
        )?;
        Ok(reply["first"].as_i64().unwrap_or(-1))
    }

    pub fn open(&mut self, id: &str, topic: &str, partition: i32, from: Value, reset: &str) -> Cell {
        let command = json!({"do": "open", "id": id, "topic": topic, "partition": partition, "from": from, "reset": reset});
        self.ask(command).map(drop)
    }

    pub fn take(&mut self, id: &str, count: usize) -> Cell<Vec<(i64, String)>> {
        self.records(json!({"do": "take", "id": id, "count": count}))
    }

    pub fn poll(&mut self, id: &str) -> Cell<Vec<(i64, String)>> {
        self.records(json!({"do": "poll", "id": id}))
    }

    fn records(&mut self, command: Value) -> Cell<Vec<(i64, String)>> {
        let reply = self.ask(command)?;
        let records = serde_json::from_value(reply["records"].clone());
        records.map_err(|e| Outcome::Failed(format!("{reply}: {e}")))
    }

    pub fn close(&mut self, id: &str) -> Cell {
        self.ask(json!({"do": "close", "id": id})).map(drop)
    }

    /// Opens, takes and closes.
    pub fn read(
        &mut self,
        topic: &str,
        partition: i32,
        from: Value,
        count: usize,
    ) -> Cell<Vec<(i64, String)>> {
        self.open("read", topic, partition, from, "none")?;
        let records = self.take("read", count)?;
        self.close("read")?;
        Ok(records)
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        // Already ended, or ends now.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}
