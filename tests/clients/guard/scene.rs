//! An engine whose events are listened to, and a topic on it that kcat reads.
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tidemark::wire::client::{Client, ClientRecord};

use crate::support::kcat::kcat;
use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;
use crate::support::wait::PATIENCE;

pub const MINUTE: i64 = 60_000;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;

pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// The stream of an engine's events.
pub struct Events(BufReader<TcpStream>);

impl Events {
    /// Everything from now on.
    pub fn of(engine: &Tidemark) -> Self {
        let mut stream = TcpStream::connect(engine.control()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET /v1/events HTTP/1.1\r\nhost: {}\r\n\r\n", engine.control());
        stream.write_all(request.as_bytes()).unwrap();
        let mut events = Self(BufReader::new(stream));
        // With the head of the answer the subscription stands.
        while events.line() != "\r\n" {}
        events
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.0.read_line(&mut line);
        assert!(matches!(read, Ok(1..)), "the stream of events ended: {read:?}");
        line
    }

    /// The next event of this kind about this topic.
    pub fn next(&mut self, kind: &str, topic: &str) -> Value {
        loop {
            let line = self.line();
            let Some(data) = line.strip_prefix("data:") else {
                continue;
            };
            let event: Value = serde_json::from_str(data.trim()).unwrap();
            if event["kind"] == kind && event["topic"] == topic {
                return event;
            }
        }
    }
}

/// An engine whose passes run when the test says so, and a topic `t` on it.
pub struct Scene {
    pub engine: Tidemark,
    pub events: Events,
    requests: u32,
    _home: TempDir,
}

impl Scene {
    pub fn new() -> Self {
        let home = TempDir::new("guard");
        let engine = Tidemark::engine(home.path(), &["--check-interval", "1h"]);
        let events = Events::of(&engine);
        Self {
            engine,
            events,
            requests: 0,
            _home: home,
        }
    }

    /// Ten days of records in partition 0 under `desired`, of which the group `billing` has read so many.
    pub fn with_billing_at(records: usize, desired: Value) -> Self {
        let mut scene = Self::new();
        scene.apply(desired);
        scene.ten_days(0);
        scene.read("billing", records);
        scene
    }

    /// Applies `desired` and answers the verdict; what it leaves out is as in most scenes.
    pub fn apply(&mut self, desired: Value) -> Value {
        self.requests += 1;
        let mut body = json!({
            "owner": {"uid": "uid-1", "namespace": "shop", "name": "orders"},
            "requestId": format!("request-{}", self.requests),
            "partitions": 1,
            "config": {"internal.segment.bytes": "6000", "retention.ms": "-1", "file.delete.delay.ms": "0"},
            "readers": {"headroomMs": 0},
        });
        merge(&mut body, desired);
        self.engine
            .http("PUT", "/v1/topics/t", Some(&body.to_string()))
            .json(200)
    }

    /// Ten segments of ten records in a partition, the oldest ten days old, each a day younger than the one before.
    pub fn ten_days(&self, partition: i32) {
        let segments: Vec<(i64, usize)> = (1..=10).rev().map(|age| (age * DAY, 10)).collect();
        self.segments(partition, &segments);
    }

    /// Segments of records of an age in ms.
    pub fn segments(&self, partition: i32, segments: &[(i64, usize)]) {
        run(async {
            let mut client = Client::connect(self.engine.bootstrap(), "filler").await.unwrap();
            for (age, count) in segments {
                let value = vec![b'v'; 2_950 / count];
                let record = ClientRecord::new(now_ms() - age, value);
                client
                    .produce("t", partition, &vec![record; *count])
                    .await
                    .unwrap();
            }
        });
    }

    /// kcat reads so many records as a member of the group, commits and leaves.
    pub fn read(&self, group: &str, records: usize) -> Vec<String> {
        let count = records.to_string();
        let args = [
            "-G",
            group,
            "-q",
            "-c",
            &count,
            "-f",
            "%p:%o\n",
            "-X",
            "auto.offset.reset=earliest",
            "t",
        ];
        let read = kcat(self.engine.bootstrap(), args).run();
        let read: Vec<String> = read.lines().map(str::to_owned).collect();
        assert_eq!(read.len(), records);
        read
    }

    pub fn observe(&self) -> Value {
        self.engine.get("/v1/topics/t")
    }

    pub fn in_force(&self) -> Value {
        self.observe()["inForce"].clone()
    }

    pub fn log_start(&self, partition: usize) -> i64 {
        self.observe()["partitions"][partition]["logStart"]
            .as_i64()
            .unwrap()
    }

    /// The change is refused for one reader on one partition, with all numbers in its message; and nothing is changed or
    /// deleted. Answers the would-be start.
    pub fn refused(&mut self, desired: Value, reason: &str, reader: &Reader<'_>) -> i64 {
        let before = self.in_force();
        let verdict = self.apply(desired);
        assert_eq!(
            (&verdict["verdict"], &verdict["reason"], &verdict["pending"]),
            (&json!("Refused"), &json!(reason), &json!(true)),
            "{verdict:#}"
        );
        let [risk] = verdict["readersAtRisk"].as_array().unwrap().as_slice() else {
            panic!("{verdict:#}");
        };
        assert_eq!(
            (&risk["name"], &risk["partition"], &risk["position"]),
            (
                &json!(reader.name),
                &json!(reader.partition),
                &reader.position.map_or(Value::Null, Value::from)
            )
        );
        assert_eq!(risk["recordsAtRisk"], reader.at_risk, "{verdict:#}");
        let start = verdict["partitions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|of| of["partition"] == reader.partition)
            .unwrap()["wouldBeStart"]
            .as_i64()
            .unwrap();
        let message = verdict["message"].as_str().unwrap();
        let position = match reader.position {
            Some(position) => format!("at offset {position}"),
            None => "position unknown".to_owned(),
        };
        for part in [
            &format!("group {}, partition {}", reader.name, reader.partition),
            &position,
            &format!("the log would start at {start}"),
            &format!("{} records", reader.at_risk),
        ] {
            assert!(message.contains(part), "{part:?} not in {message:?}");
        }
        self.events.next("Refused", "t");
        for _ in 0..2 {
            assert_eq!(self.engine.pass()["segmentsDeleted"], 0);
        }
        assert_eq!(self.log_start(usize::try_from(reader.partition).unwrap()), 0);
        assert_eq!(self.in_force(), before);
        start
    }

    /// What waited has gone in; the pass then deletes exactly to where the verdict said.
    pub fn goes_in_and_deletes(&mut self, partition: usize, start: i64) {
        self.events.next("Resumed", "t");
        assert_eq!(self.observe()["pending"], Value::Null);
        assert_eq!(self.log_start(partition), 0, "no pass has run yet");
        assert_eq!(self.engine.pass()["recordsDeleted"], start);
        assert_eq!(self.log_start(partition), start);
        assert_eq!(self.engine.pass()["recordsDeleted"], 0);
    }
}

/// Whom a refusal names.
pub struct Reader<'a> {
    pub name: &'a str,
    pub partition: i32,
    pub position: Option<i64>,
    pub at_risk: i64,
}

pub fn billing(position: i64, at_risk: i64) -> Reader<'static> {
    Reader {
        name: "billing",
        partition: 0,
        position: Some(position),
        at_risk,
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

pub fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}
