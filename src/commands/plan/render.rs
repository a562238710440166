//! A verdict for people: what would go, and who would lose what, at a glance.
use std::fmt::Write;

use crate::commands::output::{self, BAD, GOOD, PARTLY, painted};
use crate::commands::table::table;
use crate::resource::contract::{Outcome, PartitionVerdict, ReaderAtRisk, ReaderKind, Verdict};
use crate::resource::units;

/// What `tidemark plan` prints about one topic.
///
/// Sentences are broken to `columns`, where that is known.
pub fn verdict(topic: &str, verdict: &Verdict, columns: Option<usize>) -> String {
    let fitted = |sentence: &str| {
        columns.map_or_else(
            || sentence.to_owned(),
            |columns| output::wrapped("", sentence, columns),
        )
    };
    let mut text = String::new();
    let _ = match verdict.verdict {
        Outcome::Applied | Outcome::Unchanged if verdict.reason == "Applied" => {
            writeln!(text, "{topic}: {}", headline(verdict.verdict))
        }
        outcome => writeln!(text, "{topic}: {} ({})", headline(outcome), verdict.reason),
    };
    if !verdict.message.is_empty() {
        let _ = writeln!(text, "{}", fitted(&verdict.message));
    }
    let moved: Vec<[String; 5]> = verdict.partitions.iter().map(partition).collect();
    if !moved.is_empty() {
        let headers = [
            "PARTITION",
            "START NOW",
            "START AFTER",
            "RECORDS GONE",
            "BYTES GONE",
        ];
        let _ = write!(text, "\n{}", indented(&table(headers, &moved)));
    }
    let at_risk: Vec<[String; 6]> = verdict.readers_at_risk.iter().map(reader).collect();
    if at_risk.iter().any(|[.., why]| !why.is_empty()) {
        let headers = [
            "READER",
            "PARTITION",
            "POSITION",
            "RECORDS LOST",
            "BEHIND BY",
            "WHY",
        ];
        let _ = write!(text, "\n{}", indented(&table(headers, &at_risk)));
    } else if !at_risk.is_empty() {
        let headers = ["READER", "PARTITION", "POSITION", "RECORDS LOST", "BEHIND BY"];
        let at_risk: Vec<[String; 5]> = at_risk
            .into_iter()
            .map(|[reader, partition, position, lost, behind, _]| [reader, partition, position, lost, behind])
            .collect();
        let _ = write!(text, "\n{}", indented(&table(headers, &at_risk)));
    }
    if verdict.more_readers_at_risk > 0 {
        let _ = writeln!(text, "  and {} more readers", verdict.more_readers_at_risk);
    }
    for part in &verdict.not_applied {
        let sentence = format!("Apart from that: {} ({})", part.message, part.reason);
        let _ = writeln!(text, "\n{}", fitted(&sentence));
    }
    text
}

fn headline(outcome: Outcome) -> String {
    let (style, words) = match outcome {
        Outcome::Applied => (GOOD, "applies safely"),
        Outcome::Unchanged => (GOOD, "changes nothing"),
        Outcome::Refused => (BAD, "would be refused"),
        Outcome::Clamped => (PARTLY, "would be applied in part"),
    };
    painted(style, words)
}

fn partition(partition: &PartitionVerdict) -> [String; 5] {
    [
        partition.partition.to_string(),
        partition.log_start.to_string(),
        partition.would_be_start.to_string(),
        partition
            .would_be_start
            .saturating_sub(partition.log_start)
            .max(0)
            .to_string(),
        units::about_bytes(partition.bytes_freed),
    ]
}

fn reader(reader: &ReaderAtRisk) -> [String; 6] {
    let kind = match reader.kind {
        ReaderKind::Group => "group",
        ReaderKind::Required => "required group",
        ReaderKind::Fetcher => "fetcher",
    };
    [
        format!("{kind} {}", reader.name),
        reader.partition.to_string(),
        reader
            .position
            .map_or_else(|| "unknown".to_owned(), |position| position.to_string()),
        reader.records_at_risk.to_string(),
        reader
            .behind_ms
            .map_or_else(String::new, units::about_duration_ms),
        reader.detail.clone().unwrap_or_default(),
    ]
}

fn indented(table: &str) -> String {
    table.lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::contract::InForce;

    #[test]
    fn a_refusal_names_reader_position_and_loss() {
        let refused = Verdict {
            verdict: Outcome::Refused,
            reason: "SlowReader".to_owned(),
            message: "group billing would lose 350 records".to_owned(),
            readers_checked: 1,
            partitions: vec![PartitionVerdict {
                partition: 0,
                log_start: 0,
                would_be_start_in_force: 0,
                would_be_start: 600,
                bytes_freed: 3 << 20,
            }],
            readers_at_risk: vec![ReaderAtRisk {
                kind: ReaderKind::Group,
                name: "billing".to_owned(),
                partition: 0,
                position: Some(250),
                records_at_risk: 350,
                behind_ms: Some(8 * 86_400_000),
                detail: None,
            }],
            more_readers_at_risk: 2,
            ignored: Vec::new(),
            in_force: InForce::default(),
            pending: false,
            created: false,
            topic_id: String::new(),
            partition_count: 1,
            not_applied: Vec::new(),
        };
        let expected = "\
orders: would be refused (SlowReader)
group billing would lose 350 records

  PARTITION   START NOW   START AFTER   RECORDS GONE   BYTES GONE
  0           0           600           600            3.0 MiB

  READER          PARTITION   POSITION   RECORDS LOST   BEHIND BY
  group billing   0           250        350            8d
  and 2 more readers
";
        let shown = verdict("orders", &refused, None);
        assert_eq!(anstream::adapter::strip_str(&shown).to_string(), expected);
    }
}
