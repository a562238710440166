//! What `tidemark run` shows on a terminal.
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use crate::commands::output::{self, BAD, GOOD, PARTLY, painted};
use crate::operator::source::Report;
use crate::resource::manifest;
use crate::resource::status::TopicStatus;

/// The first lines: where everything is, and how to connect.
///
/// The commands are for copying, so they name a topic that is declared, where there is one.
pub fn opening(kafka: Option<SocketAddr>, control: Option<SocketAddr>, topics: &Path, data: &Path) -> String {
    let topic = declared(topics).unwrap_or_else(|| "TOPIC".to_owned());
    let shown = |address: Option<SocketAddr>| address.map(|address| address.to_string()).unwrap_or_default();
    let kafka = shown(kafka);
    let mut text = String::new();
    let _ = writeln!(text, "tidemark {}", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "  Kafka clients   {kafka}");
    let _ = writeln!(text, "  control API     http://{}", shown(control));
    let _ = writeln!(text, "  manifests       {} (watched)", topics.display());
    let _ = writeln!(text, "  data            {}", data.display());
    let _ = writeln!(text, "\nTry, in another terminal:");
    let _ = writeln!(text, "  echo hello | kcat -b {kafka} -t {topic} -P");
    let _ = writeln!(text, "  kcat -b {kafka} -t {topic} -C -e");
    let _ = writeln!(text, "  tidemark status --data {}\n", data.display());
    text
}

/// The first topic that the manifests declare.
fn declared(topics: &Path) -> Option<String> {
    let mut files: Vec<_> = std::fs::read_dir(topics)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files.iter().find_map(|file| {
        let found = manifest::read(&std::fs::read_to_string(file).ok()?, "default");
        found
            .topics
            .first()
            .map(|located| located.topic.topic_name().to_owned())
    })
}

/// What happened, broken to `columns`; nothing where it is not worth a line.
pub fn line(report: &Report, columns: Option<usize>) -> Option<String> {
    let time = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
    let text = match report {
        Report::Fault { file, fault } => format!("! {file}: {fault}"),
        Report::Mended { file, there: true } => format!("  {file}: in order again"),
        Report::Mended { file, there: false } => format!("  {file}: gone"),
        Report::Notice { topic, notice } if notice.warning => {
            format!("! {}: {}: {}", short(topic), notice.reason, notice.note)
        }
        Report::Notice { topic, notice } => format!("  {}: {}", short(topic), notice.note),
        Report::Status { topic, status } => format!("  {}: {}", short(topic), status_line(status)?),
        Report::Gone { topic } => format!("  {}: gone", short(topic)),
        Report::Engine { reachable: true } => return None,
        Report::Engine { reachable: false } => "! the engine does not answer".to_owned(),
    };
    let (mark, text) = text.split_at_checked(2)?;
    let mark = match mark {
        "! " => painted(BAD, mark),
        _ => mark.to_owned(),
    };
    let lead = format!("{time} {mark}");
    Some(match columns {
        Some(columns) => output::wrapped(&lead, text, columns),
        None => lead + text,
    })
}

/// A topic without the namespace that manifests get where they name none.
fn short(topic: &str) -> &str {
    topic.strip_prefix("default/").unwrap_or(topic)
}

fn status_line(status: &TopicStatus) -> Option<String> {
    let ready = status.condition("Ready")?;
    let state = match ready.status.as_str() {
        "True" => painted(GOOD, "Ready"),
        "False" => painted(BAD, "not Ready"),
        _ => painted(PARTLY, "unknown"),
    };
    let limits = [status.retention.as_deref(), status.retention_size.as_deref()];
    let limits = limits.map(|limit| limit.unwrap_or("?")).join(" / ");
    Some(format!("{state} ({}), in force {limits}", ready.reason))
}
