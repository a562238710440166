//! What `tidemark run` shows on a terminal.
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use crate::operator::source::Report;
use crate::resource::status::TopicStatus;

/// The first lines: where everything is, and how to connect.
pub fn opening(kafka: Option<SocketAddr>, control: Option<SocketAddr>, topics: &Path, data: &Path) -> String {
    let shown = |address: Option<SocketAddr>| address.map(|address| address.to_string()).unwrap_or_default();
    let kafka = shown(kafka);
    let mut text = String::new();
    let _ = writeln!(text, "tidemark {}", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "  Kafka clients   {kafka}");
    let _ = writeln!(text, "  control API     http://{}", shown(control));
    let _ = writeln!(text, "  manifests       {} (watched)", topics.display());
    let _ = writeln!(text, "  data            {}", data.display());
    let _ = writeln!(text, "\nTry, in another terminal:");
    let _ = writeln!(text, "  echo hello | kcat -b {kafka} -t TOPIC -P");
    let _ = writeln!(text, "  kcat -b {kafka} -t TOPIC -C -e");
    let _ = writeln!(text, "  tidemark status --data {}\n", data.display());
    text
}

/// One line about what happened; none where it is not worth one.
pub fn line(report: &Report) -> Option<String> {
    let time = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
    let text = match report {
        Report::Fault { file, fault } => format!("! {file}: {fault}"),
        Report::Mended { file } => format!("  {file}: in order again"),
        Report::Notice { topic, notice } => {
            let mark = if notice.warning { '!' } else { ' ' };
            format!("{mark} {topic}: {} ({})", notice.note, notice.reason)
        }
        Report::Status { topic, status } => format!("  {topic}: {}", status_line(status)?),
        Report::Gone { topic } => format!("  {topic}: gone"),
        Report::Engine { reachable: true } => return None,
        Report::Engine { reachable: false } => "! the engine does not answer".to_owned(),
    };
    Some(format!("{time} {text}"))
}

fn status_line(status: &TopicStatus) -> Option<String> {
    let ready = status.condition("Ready")?;
    let state = match ready.status.as_str() {
        "True" => "Ready",
        "False" => "not Ready",
        _ => "unknown",
    };
    let limits = [status.retention.as_deref(), status.retention_size.as_deref()];
    let limits = limits.map(|limit| limit.unwrap_or("?")).join(" / ");
    Some(format!("{state} ({}), in force {limits}", ready.reason))
}
