//! A real Apache Kafka: one broker in KRaft mode on 127.0.0.1, and its command-line tools by class.
use super::peers;
use super::ports::free_port;
use super::process::{ProcessGuard, Start};
use super::temp::TempDir;
use super::wait::{PATIENCE, eventually};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// The cluster id of every broker that the tests format, as Kafka prints it (22 characters of URL-safe base64).
pub const CLUSTER_ID: &str = "dGlkZW1hcmstdGVzdHMtMQ";
/// The node id of every broker that the tests format.
pub const NODE_ID: i32 = 1;

/// A broker. Killed when dropped; its folders go away with the temporary folder it was given, if it was given none then with it.
#[derive(Debug)]
pub struct Kafka {
    process: Option<ProcessGuard>,
    bootstrap: String,
    properties: PathBuf,
    logs: PathBuf,
    /// Ended without telling its controller, which is itself.
    killed: bool,
    state: TempDir,
}

impl Kafka {
    /// A broker on fresh folders. `properties` are added to, or replace, the ones of [`Kafka::properties`].
    #[track_caller]
    pub fn start(properties: &[(&str, &str)]) -> Self {
        Self::start_on(None, properties)
    }

    /// A broker whose log directory is `logs` (`log.dirs`; made and formatted when it holds no `meta.properties`). The cluster's metadata
    /// lies elsewhere and is fresh: a topic in `logs` that was not made through this broker is unknown to it.
    #[track_caller]
    pub fn start_on(logs: Option<&Path>, properties: &[(&str, &str)]) -> Self {
        let mut kafka = Self::prepare(logs, properties);
        kafka.start_again();
        kafka
    }

    /// As [`Kafka::start_on`], without starting it.
    #[track_caller]
    pub fn prepare(logs: Option<&Path>, properties: &[(&str, &str)]) -> Self {
        let state = TempDir::new("kafka");
        let logs = logs.map_or_else(|| state.join("logs"), Path::to_path_buf);
        std::fs::create_dir_all(&logs).unwrap_or_else(|e| panic!("cannot make {}: {e}", logs.display()));
        let (client, controller) = (free_port(), free_port());
        let bootstrap = format!("127.0.0.1:{client}");
        let mut all = Self::properties(client, controller, &logs, &state.join("metadata"));
        all.extend(
            properties
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        );
        let text = all.iter().fold(String::new(), |mut text, (key, value)| {
            writeln!(text, "{key}={value}").expect("a String takes everything");
            text
        });
        let file = state.join("server.properties");
        std::fs::write(&file, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", file.display()));
        let kafka = Self {
            process: None,
            bootstrap,
            properties: file,
            logs,
            killed: false,
            state,
        };
        let config = kafka.properties.display().to_string();
        kafka.tool(
            "kafka.tools.StorageTool",
            [
                "format",
                "--ignore-formatted",
                "-t",
                CLUSTER_ID,
                "-c",
                config.as_str(),
            ],
        );
        kafka
    }

    fn properties(client: u16, controller: u16, logs: &Path, metadata: &Path) -> BTreeMap<String, String> {
        let text = [
            ("process.roles", "broker,controller".to_owned()),
            ("node.id", NODE_ID.to_string()),
            (
                "controller.quorum.voters",
                format!("{NODE_ID}@127.0.0.1:{controller}"),
            ),
            (
                "listeners",
                format!("PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}"),
            ),
            ("controller.listener.names", "CONTROLLER".to_owned()),
            ("log.dirs", logs.display().to_string()),
            ("metadata.log.dir", metadata.display().to_string()),
            ("auto.create.topics.enable", "false".to_owned()),
            ("offsets.topic.num.partitions", "1".to_owned()),
            ("offsets.topic.replication.factor", "1".to_owned()),
            ("transaction.state.log.num.partitions", "1".to_owned()),
            ("transaction.state.log.replication.factor", "1".to_owned()),
            ("transaction.state.log.min.isr", "1".to_owned()),
            ("share.coordinator.state.topic.num.partitions", "1".to_owned()),
            ("share.coordinator.state.topic.replication.factor", "1".to_owned()),
            ("share.coordinator.state.topic.min.isr", "1".to_owned()),
            // A broker that stood still for a while is the same one afterwards: a fenced one leads nothing and answers errors.
            ("broker.session.timeout.ms", "45000".to_owned()),
            ("broker.heartbeat.interval.ms", "500".to_owned()),
            ("initial.broker.registration.timeout.ms", "600000".to_owned()),
            // A transaction that a test leaves open stays open, however long the test takes.
            ("transaction.max.timeout.ms", "86400000".to_owned()),
            ("group.initial.rebalance.delay.ms", "0".to_owned()),
            // Passes can be watched closely.
            ("log.retention.check.interval.ms", "1000".to_owned()),
            ("log.initial.task.delay.ms", "500".to_owned()),
        ];
        text.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// Starts the stopped or killed broker on the same folders and ports, and waits until it serves clients.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(self.process.is_none(), "the broker already runs");
        let mut start = java("kafka", "broker.jsa", "kafka.Kafka")
            .arg(&self.properties)
            .directory(self.state.path());
        if std::mem::take(&mut self.killed) {
            // It may come back only when its old session is over.
            start = start.args(["--override", "broker.session.timeout.ms=10000"]);
        }
        let mut process = start.spawn(self.state.path());
        // Kafka opens its port before it can serve; it says so in a line of its own.
        let started = process.log().matches("Kafka Server started").count();
        eventually("Kafka to start", PATIENCE, || {
            process.must_run()?;
            if process.log().matches("Kafka Server started").count() > started {
                return Ok(());
            }
            Err("no line 'Kafka Server started' in its log".to_owned())
        });
        eventually("Kafka's port", PATIENCE, || {
            TcpStream::connect(&self.bootstrap).map(drop)
        });
        self.process = Some(process);
    }

    /// A clean stop: the broker writes its clean-shutdown marker.
    #[track_caller]
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop();
        }
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
            self.killed = true;
        }
    }

    /// `host:port` for clients.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The log directory, with `meta.properties`, the checkpoints and a folder for each partition.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// The folder of one partition.
    pub fn partition(&self, topic: &str, partition: i32) -> PathBuf {
        self.logs.join(format!("{topic}-{partition}"))
    }

    pub fn process(&mut self) -> &mut ProcessGuard {
        self.process.as_mut().expect("the broker runs")
    }

    /// A tool that takes no broker, such as `kafka.tools.StorageTool` or `org.apache.kafka.tools.DumpLogSegments`.
    #[track_caller]
    pub fn tool<'a>(&self, class: &str, args: impl IntoIterator<Item = &'a str>) -> String {
        tool(class).args(args).run()
    }

    /// `TopicCommand` against this broker.
    #[track_caller]
    pub fn topics<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        tool_on(&self.bootstrap, TOPICS).args(args).run()
    }

    /// `ConfigCommand` against this broker.
    #[track_caller]
    pub fn configs<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        tool_on(&self.bootstrap, CONFIGS).args(args).run()
    }
}

pub const TOPICS: &str = "org.apache.kafka.tools.TopicCommand";
pub const CONFIGS: &str = "org.apache.kafka.tools.ConfigCommand";
pub const GET_OFFSETS: &str = "org.apache.kafka.tools.GetOffsetShell";
pub const DELETE_RECORDS: &str = "org.apache.kafka.tools.DeleteRecordsCommand";
pub const LOG_DIRS: &str = "org.apache.kafka.tools.LogDirsCommand";
pub const CONSUMER_GROUPS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
pub const CONSOLE_PRODUCER: &str = "org.apache.kafka.tools.ConsoleProducer";
pub const CONSOLE_CONSUMER: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";
pub const PRODUCER_PERFORMANCE: &str = "org.apache.kafka.tools.ProducerPerformance";
pub const CONSUMER_PERFORMANCE: &str = "org.apache.kafka.tools.ConsumerPerformance";
pub const BROKER_API_VERSIONS: &str = "org.apache.kafka.tools.BrokerApiVersionsCommand";
pub const DUMP_LOG: &str = "org.apache.kafka.tools.DumpLogSegments";

/// One of Kafka's command-line tools, by class.
#[track_caller]
pub fn tool(class: &str) -> Start {
    let name = class.rsplit('.').next().unwrap_or(class);
    java(name, "tools.jsa", class)
}

/// The same with `--bootstrap-server`, for any broker, ours as well.
#[track_caller]
pub fn tool_on(bootstrap: &str, class: &str) -> Start {
    tool(class).args(["--bootstrap-server", bootstrap])
}

#[track_caller]
fn java(name: &str, archive: &str, class: &str) -> Start {
    let archive = peers::folder("kafka-classes").join(archive);
    jvm(name)
        .arg("-Xlog:disable")
        .arg(format!("-XX:SharedArchiveFile={}", archive.display()))
        .arg("-cp")
        .arg(format!("{}/*", peers::folder("kafka").display()))
        .arg(class)
}

/// A small JVM that leaves no file outside the tests' own folder; the class path and the class are still to be said.
pub fn jvm(name: &str) -> Start {
    let logging = peers::source("tests/peers/kafka/log4j2.properties");
    Start::new(name, "java")
        .args([
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "-Xshare:auto",
        ])
        .arg(format!("-Djava.io.tmpdir={}", super::temp::root().display()))
        .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
}
