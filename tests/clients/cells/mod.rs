//! What every client must be able to do, each cell once.
mod groups;
mod produce;
mod read;
mod settings;

use crate::adapter::{Adapter, Cell};
use crate::broker::Broker;

/// What a cell works with: the client under test, the broker, and a name for topics and groups that no other cell uses.
#[derive(Debug)]
pub struct Bench<'a> {
    pub client: &'a mut Adapter,
    pub broker: &'a mut Broker,
    pub name: String,
}

pub type Run = fn(&mut Bench<'_>) -> Cell;

/// Every cell, in the order it runs.
pub const CELLS: &[(&str, Run)] = &[
    ("create a topic", settings::create),
    ("produce uncompressed", |bench| produce::codec(bench, "none")),
    ("produce gzip", |bench| produce::codec(bench, "gzip")),
    ("produce snappy", |bench| produce::codec(bench, "snappy")),
    ("produce lz4", |bench| produce::codec(bench, "lz4")),
    ("produce zstd", |bench| produce::codec(bench, "zstd")),
    ("produce acks=0", |bench| produce::acks(bench, "0")),
    ("produce acks=1", |bench| produce::acks(bench, "1")),
    ("produce idempotent", produce::idempotent),
    ("produce too large", produce::too_large),
    ("consume from the beginning", read::from_beginning),
    ("consume from the end", read::from_end),
    ("consume from an offset", read::from_offset),
    ("consume from a timestamp", read::from_timestamp),
    ("consume many segments", read::many_segments),
    ("out of range, reset to earliest", |bench| {
        read::out_of_range(bench, "earliest")
    }),
    ("out of range, reset to latest", |bench| {
        read::out_of_range(bench, "latest")
    }),
    ("out of range, no reset", read::out_of_range_without_reset),
    ("delete records", read::delete_records),
    ("describe a topic's settings", settings::describe),
    ("alter a topic's settings", settings::alter),
    ("refuse a wrong setting", settings::refuse),
    ("group: members join and leave", |bench| {
        groups::rebalance(bench, "classic")
    }),
    ("group: new protocol", |bench| {
        groups::rebalance(bench, "consumer")
    }),
    ("group: static member", groups::static_member),
    ("group: commit and resume over a stop", |bench| {
        groups::resume(bench, Broker::restart)
    }),
    ("group: commit and resume over kill -9", |bench| {
        groups::resume(bench, Broker::crash)
    }),
];

/// `count` values that compress and differ.
pub fn values(label: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|i| format!("{label}-{i}-{}", "x".repeat(100)))
        .collect()
}

/// The records that reading `values` from `first` on must give.
pub fn expected(first: i64, values: &[String]) -> Vec<(i64, String)> {
    (first..).zip(values.iter().cloned()).collect()
}

/// Compares records without printing thousands of them.
#[track_caller]
pub fn same(found: &[(i64, String)], wanted: &[(i64, String)]) -> Cell {
    let differs = found.iter().zip(wanted).position(|(a, b)| a != b);
    crate::adapter::ensure(found.len() == wanted.len() && differs.is_none(), || {
        let at = differs.unwrap_or(found.len().min(wanted.len()));
        format!(
            "{} records for {}; at {at} {:?} for {:?}",
            found.len(),
            wanted.len(),
            found.get(at),
            wanted.get(at)
        )
    })
}
