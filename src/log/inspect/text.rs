//! The report for people.
use std::fmt::Write as _;

use crate::log::inspect::indexes::{IndexReport, IndexState};
use crate::log::inspect::plan::{PlanReport, about_duration};
use crate::log::inspect::segment::BatchReport;
use crate::log::inspect::{PartitionReport, Report, SegmentReport};
use crate::resource::units::about_bytes;

/// Puts the report into text, one block a partition. `now_ms` is what ages are counted from.
pub fn render(report: &Report, now_ms: i64) -> String {
    let mut text = String::new();
    for (index, partition) in report.partitions.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        render_partition(&mut text, partition, now_ms);
    }
    if !report.marked.is_empty() {
        line(
            &mut text,
            format_args!("not looked into: {}", report.marked.join(", ")),
        );
    }
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
    text.push('\n');
}

fn render_partition(text: &mut String, report: &PartitionReport, now_ms: i64) {
    line(text, format_args!("{}", report.directory));
    let size = about_bytes(i64::try_from(report.size_bytes).unwrap_or(i64::MAX));
    line(
        text,
        format_args!(
            "  log start {}, log end {}, {size} in {}",
            report.log_start,
            report.log_end,
            count(report.segments.len(), "segment", "segments")
        ),
    );
    if let Some(id) = &report.topic_id {
        line(text, format_args!("  topic id {id}"));
    }
    if !report.leader_epochs.is_empty() {
        let epochs: Vec<String> = report
            .leader_epochs
            .iter()
            .map(|entry| format!("{} from {}", entry.epoch, entry.start_offset))
            .collect();
        line(text, format_args!("  leader epochs {}", epochs.join(", ")));
    }
    let stop = if report.clean_shutdown {
        "stopped cleanly"
    } else {
        "in use, or not stopped cleanly"
    };
    match report.recovery_point {
        Some(point) => line(text, format_args!("  {stop}, recovery point {point}")),
        None => line(text, format_args!("  {stop}")),
    }
    render_segments(text, report, now_ms);
    for (what, names) in [("left over", &report.leftovers), ("foreign", &report.foreign)] {
        if !names.is_empty() {
            line(text, format_args!("  {what}: {}", names.join(", ")));
        }
    }
    for problem in &report.problems {
        line(text, format_args!("  PROBLEM: {problem}"));
    }
    for segment in &report.segments {
        for problem in &segment.problems {
            line(
                text,
                format_args!("  PROBLEM in segment {}: {problem}", segment.base_offset),
            );
        }
    }
    if let Some(plan) = &report.plan {
        render_plan(text, plan);
    }
}

fn render_segments(text: &mut String, report: &PartitionReport, now_ms: i64) {
    let mut rows = vec![
        [
            "BASE",
            "NEXT",
            "SIZE",
            "BATCHES",
            "RECORDS",
            "FIRST",
            "LARGEST TIMESTAMP",
            "INDEX",
            "TIMEINDEX",
            "",
        ]
        .map(str::to_owned),
    ];
    for segment in &report.segments {
        rows.push([
            segment.base_offset.to_string(),
            segment.next_offset.to_string(),
            segment.size_bytes.to_string(),
            segment.batch_count.to_string(),
            segment.record_count.to_string(),
            timestamp(segment.first_timestamp),
            largest(segment, now_ms),
            index(&segment.offset_index),
            index(&segment.time_index),
            if segment.active {
                "active".to_owned()
            } else {
                String::new()
            },
        ]);
    }
    table(text, &rows);
    for segment in &report.segments {
        if let Some(batches) = &segment.batches {
            line(text, format_args!("  batches of segment {}", segment.base_offset));
            render_batches(text, batches);
        }
    }
}

fn render_batches(text: &mut String, batches: &[BatchReport]) {
    let mut rows = vec![
        [
            "POSITION",
            "SIZE",
            "OFFSETS",
            "RECORDS",
            "EPOCH",
            "CODEC",
            "TIMESTAMPS",
            "PRODUCER",
            "CRC",
            "",
        ]
        .map(str::to_owned),
    ];
    for batch in batches {
        let mut marks = Vec::new();
        if batch.magic < 2 {
            marks.push(format!("magic {}", batch.magic));
        }
        if batch.transactional {
            marks.push("transactional".to_owned());
        }
        if batch.control {
            marks.push("control".to_owned());
        }
        rows.push([
            batch.position.to_string(),
            batch.size_bytes.to_string(),
            format!("{}..{}", batch.base_offset, batch.last_offset),
            batch.record_count.to_string(),
            batch.leader_epoch.to_string(),
            batch.compression.clone(),
            format!(
                "{}..{} {}",
                batch.base_timestamp, batch.max_timestamp, batch.timestamp_type
            ),
            match batch.producer_id {
                -1 => "-".to_owned(),
                id => format!("{id}/{} seq {}", batch.producer_epoch, batch.base_sequence),
            },
            batch.crc.clone(),
            marks.join(" "),
        ]);
    }
    table(text, &rows);
}

fn render_plan(text: &mut String, plan: &PlanReport) {
    let freed = about_bytes(plan.bytes_freed);
    if plan.segments_deleted == 0 {
        line(
            text,
            format_args!("  plan: a pass at {} deletes nothing", timestamp(plan.now_ms)),
        );
    } else {
        line(
            text,
            format_args!(
                "  plan: a pass at {} moves the log start from {} to {}: {}, {freed}{}",
                timestamp(plan.now_ms),
                plan.log_start,
                plan.new_log_start,
                count(plan.segments_deleted, "segment", "segments"),
                if plan.rolls_active {
                    ", the active one among them"
                } else {
                    ""
                }
            ),
        );
    }
    let mut rows = Vec::new();
    for segment in &plan.segments {
        let expires = match segment.expires_at_ms {
            Some(at) if !segment.deleted => format!(" (expires {})", timestamp(at)),
            _ => String::new(),
        };
        rows.push([
            segment.base_offset.to_string(),
            if segment.deleted { "delete" } else { "keep" }.to_owned(),
            segment.reason.to_owned(),
            format!("{}{expires}", segment.why),
        ]);
    }
    table(text, &rows);
}

fn largest(segment: &SegmentReport, now_ms: i64) -> String {
    if segment.largest_timestamp < 0 {
        return format!("none, modified {}", timestamp(segment.modified_ms));
    }
    let age = about_duration(now_ms.saturating_sub(segment.largest_timestamp));
    format!("{} ({age} ago)", timestamp(segment.largest_timestamp))
}

fn index(index: &IndexReport) -> String {
    let entries = count(index.entries, "entry", "entries");
    match index.state {
        IndexState::Sound => entries,
        IndexState::Untrimmed => format!("{entries}, untrimmed"),
        IndexState::Missing => "missing".to_owned(),
        IndexState::Damaged => "DAMAGED".to_owned(),
    }
}

fn count(of: impl PartialEq<usize> + std::fmt::Display, one: &str, more: &str) -> String {
    format!("{of} {}", if of == 1 { one } else { more })
}

fn timestamp(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        _ if ms < 0 => "-".to_owned(),
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => ms.to_string(),
    }
}

/// Columns padded to their widest cell.
fn table<const N: usize>(text: &mut String, rows: &[[String; N]]) {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let cells: Vec<String> = cells.collect();
        line(text, format_args!("    {}", cells.join("  ").trim_end()));
    }
}
