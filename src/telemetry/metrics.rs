//! What is counted and timed, under the field's names, in OpenMetrics text.
//!
//! There is no global registry: whoever measures is handed [`Metrics`]. Labels are bounded: API names, reasons and outcomes come
//! from fixed sets; topics, partitions and groups are cut off at [`MOST_SERIES`] and the number left out is itself a
//! series. Figures that something else already keeps (offsets, sizes, lags) are not copied on the data path but read when
//! somebody scrapes, through [`Metrics::register`].
use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// The most series of one name that carry a topic, partition or group.
pub const MOST_SERIES: usize = 10_000;

/// The most clients with a series of their own in a counter.
const MOST_CLIENTS: usize = 1_000;
/// The longest client id that is a label, bytes.
const LONGEST_CLIENT: usize = 256;

/// A label value from a fixed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fixed(pub &'static str);

impl EncodeLabelValue for Fixed {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(self.0)
    }
}

/// Label `api`: a Kafka API by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Api {
    /// `Produce`, `Fetch`, …
    pub api: Fixed,
}

/// Label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// From a fixed set.
    pub reason: Fixed,
}

/// Label `outcome`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabel {
    /// From a fixed set.
    pub outcome: Fixed,
}

/// Labels `topic` and `reader`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TopicReader {
    /// The topic.
    pub topic: String,
    /// The group, or client id of a consumer without a group.
    pub reader: String,
}

/// A histogram of seconds from 50 µs to 26 s.
#[derive(Debug, Clone, Copy)]
pub struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(prometheus_client::metrics::histogram::exponential_buckets(
            0.000_05, 3.0, 13,
        ))
    }
}

/// Release and commit of this build, as `--version` tells them. The name it is registered under gets `_info` appended.
pub fn build() -> Info<Vec<(&'static str, &'static str)>> {
    Info::new(vec![
        ("version", env!("CARGO_PKG_VERSION")),
        ("revision", env!("TIDEMARK_COMMIT")),
    ])
}

/// What the engine counts itself.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    /// Requests answered, by API.
    pub requests: Family<Api, Counter>,
    /// Time from the last byte of a request to the first byte of its answer, by API.
    pub request_seconds: Family<Api, Histogram, Seconds>,
    /// Requests answered with an error for the whole request or one of its parts, by API.
    pub request_errors: Family<Api, Counter>,
    /// Connections open now.
    pub connections: Gauge,
    /// Connections refused because there were too many.
    pub connections_refused: Counter,
    /// Requests whose frame or body could not be read.
    pub malformed_requests: Counter,
    /// Record bytes taken from producers.
    pub bytes_in: Counter,
    /// Record bytes given to consumers.
    pub bytes_out: Counter,
    /// Fetches that asked for an offset below the log start, by topic and client id.
    fetches_below_log_start: Family<TopicReader, Counter>,
    /// Who has a series there.
    below_log_start: Arc<Mutex<HashSet<TopicReader>>>,
    /// Records deleted by retention, by reason.
    pub retention_deleted_records: Family<Reason, Counter>,
    /// Bytes deleted by retention, by reason.
    pub retention_deleted_bytes: Family<Reason, Counter>,
    /// Segments deleted by retention, by reason.
    pub retention_deleted_segments: Family<Reason, Counter>,
    /// Time of one pass over all partitions.
    pub retention_pass_seconds: Histogram,
    /// Passes that could not finish a partition.
    pub retention_errors: Counter,
    /// Answers of the guard, by outcome.
    pub guard_verdicts: Family<OutcomeLabel, Counter>,
    /// Records given up with `onLoss: Allow` or a deletion, by topic and reader.
    pub loss_accepted_records: Family<TopicReader, Counter>,
    /// Records that ordinary retention took before they were read, by topic and reader.
    pub reader_lost_records: Family<TopicReader, Counter>,
    /// Indexes rebuilt at start because they were missing or damaged.
    pub indexes_rebuilt: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A fresh set, everything at zero.
    pub fn new() -> Self {
        let metrics = Self {
            registry: Arc::new(Mutex::new(Registry::default())),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(Seconds),
            request_errors: Family::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            malformed_requests: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            fetches_below_log_start: Family::default(),
            below_log_start: Arc::default(),
            retention_deleted_records: Family::default(),
            retention_deleted_bytes: Family::default(),
            retention_deleted_segments: Family::default(),
            retention_pass_seconds: Seconds.new_metric(),
            retention_errors: Counter::default(),
            guard_verdicts: Family::default(),
            loss_accepted_records: Family::default(),
            reader_lost_records: Family::default(),
            indexes_rebuilt: Counter::default(),
        };
        metrics.register_own();
        metrics
    }

    fn register_own(&self) {
        let mut registry = self.registry.lock();
        registry.register("tidemark_build", "The version that runs", build());
        macro_rules! own {
            ($($field:ident, $name:literal, $help:literal;)*) => {
                $(registry.register($name, $help, self.$field.clone());)*
            };
        }
        own! {
            requests, "requests", "Requests answered";
            request_seconds, "request_duration_seconds", "Time from a whole request to its answer";
            request_errors, "request_errors", "Requests answered with an error";
            connections, "connections", "Connections open now";
            connections_refused, "connections_refused", "Connections refused because there were too many";
            malformed_requests, "malformed_requests", "Requests that could not be read";
            bytes_in, "bytes_in", "Record bytes taken from producers";
            bytes_out, "bytes_out", "Record bytes given to consumers";
            fetches_below_log_start, "fetches_below_log_start", "Fetches of offsets below the log start";
            retention_deleted_records, "retention_deleted_records", "Records deleted by retention";
            retention_deleted_bytes, "retention_deleted_bytes", "Bytes deleted by retention";
            retention_deleted_segments, "retention_deleted_segments", "Segments deleted by retention";
            retention_pass_seconds, "retention_pass_duration_seconds", "Time of one retention pass";
            retention_errors, "retention_errors", "Partitions that a pass could not finish";
            guard_verdicts, "guard_verdicts", "Answers of the guard";
            loss_accepted_records, "loss_accepted_records", "Unread records given up on purpose";
            reader_lost_records, "reader_lost_records", "Records that retention took before they were read";
            indexes_rebuilt, "indexes_rebuilt", "Indexes rebuilt at start";
        }
    }

    /// Adds figures that are read when somebody scrapes.
    pub fn register(&self, collector: Box<dyn Collector>) {
        self.registry.lock().register_collector(collector);
    }

    /// Everything, as OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        if encode(&mut text, &self.registry.lock()).is_err() {
            // Writing to a string does not fail; a collector of ours that does must not take the rest along.
            let _ = writeln!(text, "# a collector failed");
        }
        text
    }

    /// Counts one answered request.
    pub fn request(&self, api: &'static str, seconds: f64, error: bool) {
        let label = Api { api: Fixed(api) };
        self.requests.get_or_create(&label).inc();
        self.request_seconds.get_or_create(&label).observe(seconds);
        if error {
            self.request_errors.get_or_create(&label).inc();
        }
    }

    /// Counts a fetch below the log start. Client ids are chosen by clients: the first thousand have a series each, the rest one together.
    pub fn fetched_below_log_start(&self, topic: &str, client_id: &str) {
        let mut label = TopicReader {
            topic: topic.to_owned(),
            reader: client_id.to_owned(),
        };
        let mut known = self.below_log_start.lock();
        if !known.contains(&label) {
            if known.len() < MOST_CLIENTS && client_id.len() <= LONGEST_CLIENT {
                known.insert(label.clone());
            } else {
                label = TopicReader {
                    topic: String::new(),
                    reader: "(others)".to_owned(),
                };
            }
        }
        drop(known);
        self.fetches_below_log_start.get_or_create(&label).inc();
    }

    /// Counts what a pass deleted for one reason: `start`, `size` or `time`.
    pub fn retention_deleted(&self, reason: &'static str, segments: u64, records: u64, bytes: u64) {
        let label = Reason {
            reason: Fixed(reason),
        };
        self.retention_deleted_segments
            .get_or_create(&label)
            .inc_by(segments);
        self.retention_deleted_records
            .get_or_create(&label)
            .inc_by(records);
        self.retention_deleted_bytes.get_or_create(&label).inc_by(bytes);
    }

    /// Counts one answer of the guard.
    pub fn verdict(&self, outcome: &'static str) {
        self.guard_verdicts
            .get_or_create(&OutcomeLabel {
                outcome: Fixed(outcome),
            })
            .inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_without_end_share_a_series() {
        let metrics = Metrics::new();
        for number in 0..3_000 {
            metrics.fetched_below_log_start("t", &format!("client-{number}"));
        }
        metrics.fetched_below_log_start("t", "client-0");
        metrics.fetched_below_log_start("t", &"x".repeat(300));
        let text = metrics.encode();
        let series: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("fetches_below_log_start_total{"))
            .collect();
        assert_eq!(series.len(), MOST_CLIENTS + 1);
        let count = |labels: &str| {
            let line = series.iter().find(|line| line.contains(labels));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        };
        assert_eq!(count("reader=\"client-0\""), Some(2));
        assert_eq!(count("reader=\"(others)\""), Some(2_001));
    }

    #[test]
    fn text_carries_the_names_and_ends_as_the_format_asks() {
        let metrics = Metrics::new();
        metrics.request("Produce", 0.001, false);
        metrics.request("Produce", 0.2, true);
        metrics.retention_deleted("time", 2, 150, 4096);
        metrics.verdict("Refused");
        let text = metrics.encode();
        for line in [
            "requests_total{api=\"Produce\"} 2",
            "request_errors_total{api=\"Produce\"} 1",
            "request_duration_seconds_count{api=\"Produce\"} 2",
            "retention_deleted_records_total{reason=\"time\"} 150",
            "guard_verdicts_total{outcome=\"Refused\"} 1",
            "connections 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
