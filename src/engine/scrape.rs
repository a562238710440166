//! Figures that the engine keeps anyway, read when somebody scrapes.
//!
//! A series that names a topic, partition or group costs memory wherever it is stored, so each name has at most
//! [`MOST_SERIES`] of them, and none whose labels are longer than [`LONGEST_LABEL`]; how many were left out is a series of its own.
use std::fmt;
use std::sync::Weak;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue};
use prometheus_client::metrics::MetricType;

use crate::engine::Engine;
use crate::resource::contract::ReaderKind;
use crate::retention::{Known, Standing};
use crate::telemetry::metrics::MOST_SERIES;

/// The longest label value, bytes: Kafka's topic names end at 249, groups have no bound of their own.
const LONGEST_LABEL: usize = 256;

/// Reads the engine at each scrape.
#[derive(Debug)]
pub(crate) struct Scrape(pub Weak<Engine>);

type Labels = Vec<(&'static str, String)>;

/// Every state a group can be in, by the protocol its members speak.
const GROUP_STATES: &[(&str, &[&str])] = &[
    (
        "classic",
        &["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"],
    ),
    ("consumer", &["Empty", "Assigning", "Reconciling", "Stable"]),
];

#[derive(Debug, Default)]
struct Gauges {
    log_start: Vec<(Labels, i64)>,
    log_end: Vec<(Labels, i64)>,
    high_watermark: Vec<(Labels, i64)>,
    size: Vec<(Labels, i64)>,
    segments: Vec<(Labels, i64)>,
    blocked: Vec<(Labels, i64)>,
    groups: Vec<(Labels, i64)>,
    members: Vec<(Labels, i64)>,
    committed: Vec<(Labels, i64)>,
    lag: Vec<(Labels, i64)>,
    headroom: Vec<(Labels, f64)>,
    headroom_bytes: Vec<(Labels, i64)>,
    at_risk: Vec<(Labels, i64)>,
    left_out: i64,
}

impl Gauges {
    fn push<T>(series: &mut Vec<(Labels, T)>, left_out: &mut i64, labels: Labels, value: T) {
        let fits = labels.iter().all(|(_, value)| value.len() <= LONGEST_LABEL);
        if fits && series.len() < MOST_SERIES {
            series.push((labels, value));
        } else {
            *left_out += 1;
        }
    }

    fn collect(engine: &Engine) -> Self {
        let mut gauges = Self::default();
        let now_ms = engine.clock_guard.now_for_verdict();
        let blocked = engine.blocked.lock().clone();
        let held = engine.clock_held.load(Ordering::Relaxed);
        if held {
            gauges
                .blocked
                .push((vec![("reason", "clock_jump".to_owned())], 1));
        }
        let mut left_out = 0;
        gauges.collect_groups(engine, &mut left_out);
        for topic in engine.catalog.snapshot().iter() {
            let name = &topic.record.name;
            for (partition, log) in topic.logs() {
                let labels = || vec![("topic", name.clone()), ("partition", partition.to_string())];
                let (bounds, size, segments) = log.with_profile(|profile, bounds| {
                    (
                        *bounds,
                        profile.total_bytes(),
                        i64::try_from(profile.len()).unwrap_or(i64::MAX),
                    )
                });
                Self::push(&mut gauges.log_start, &mut left_out, labels(), bounds.log_start);
                Self::push(&mut gauges.log_end, &mut left_out, labels(), bounds.log_end);
                Self::push(
                    &mut gauges.high_watermark,
                    &mut left_out,
                    labels(),
                    bounds.high_watermark,
                );
                Self::push(&mut gauges.size, &mut left_out, labels(), size);
                Self::push(&mut gauges.segments, &mut left_out, labels(), segments);
                if blocked.contains(&(name.clone(), partition)) {
                    let mut with_reason = vec![("reason", "future_timestamp".to_owned())];
                    with_reason.extend(labels());
                    Self::push(&mut gauges.blocked, &mut left_out, with_reason, 1);
                }
            }
            gauges.collect_readers(engine, topic, now_ms, &mut left_out);
        }
        gauges.left_out = left_out;
        gauges
    }

    /// How many groups there are of each kind and state, all of them told, and the members of each.
    fn collect_groups(&mut self, engine: &Engine, left_out: &mut i64) {
        let groups = engine.positions.groups();
        for (protocol, states) in GROUP_STATES {
            for state in *states {
                let count = groups
                    .iter()
                    .filter(|group| group.kind == *protocol && group.state == *state)
                    .count();
                let labels = vec![
                    ("protocol", (*protocol).to_owned()),
                    ("state", (*state).to_owned()),
                ];
                self.groups
                    .push((labels, i64::try_from(count).unwrap_or(i64::MAX)));
            }
        }
        for group in groups {
            let labels = vec![("group", group.id.to_string())];
            let members = i64::try_from(group.members).unwrap_or(i64::MAX);
            Self::push(&mut self.members, left_out, labels, members);
        }
    }

    fn collect_readers(
        &mut self,
        engine: &Engine,
        topic: &crate::engine::topics::catalog::TopicState,
        now_ms: i64,
        left_out: &mut i64,
    ) {
        let name = &topic.record.name;
        for reader in engine.counted_readers(topic) {
            for (partition, log) in topic.logs() {
                let bounds = log.bounds();
                let Some(standing) = Standing::of(reader.position(partition).known, false, bounds.log_end)
                else {
                    continue;
                };
                let labels = || {
                    vec![
                        ("group", reader.name.to_string()),
                        ("topic", name.clone()),
                        ("partition", partition.to_string()),
                    ]
                };
                let lag = bounds
                    .high_watermark
                    .saturating_sub(standing.next_offset(bounds.log_start))
                    .max(0);
                if reader.kind != ReaderKind::Fetcher {
                    if let Known::At(committed) = reader.position(partition).known {
                        Self::push(&mut self.committed, left_out, labels(), committed);
                    }
                    Self::push(&mut self.lag, left_out, labels(), lag);
                }
                let Some(left) = engine.headroom_of(topic, partition, &reader, now_ms) else {
                    continue;
                };
                if let Some(ms) = left.ms {
                    #[allow(
                        clippy::cast_precision_loss,
                        reason = "a gauge in seconds; what is lost is below a millisecond for 285,000 years"
                    )]
                    Self::push(&mut self.headroom, left_out, labels(), ms as f64 / 1000.0);
                }
                if let Some(bytes) = left.bytes {
                    Self::push(&mut self.headroom_bytes, left_out, labels(), bytes);
                }
                // What the next pass under the settings in force takes before it is read.
                let rules = (&*log.settings()).into();
                let start = log.plan(now_ms, &rules).new_log_start;
                let unread = start
                    .saturating_sub(standing.next_offset(bounds.log_start))
                    .max(0);
                Self::push(&mut self.at_risk, left_out, labels(), unread);
            }
        }
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(engine) = self.0.upgrade() else {
            return Ok(());
        };
        let gauges = Gauges::collect(&engine);
        let out = &mut encoder;
        write(
            out,
            "log_start_offset",
            "First offset that can be read",
            &gauges.log_start,
        )?;
        write(
            out,
            "log_end_offset",
            "Offset of the next record",
            &gauges.log_end,
        )?;
        write(
            out,
            "high_watermark",
            "First offset that may not be read yet",
            &gauges.high_watermark,
        )?;
        write(out, "log_size_bytes", "Bytes of live segments", &gauges.size)?;
        write(out, "log_segments", "Live segments", &gauges.segments)?;
        write(
            out,
            "retention_blocked",
            "What is past its limit and stays, by reason",
            &gauges.blocked,
        )?;
        write(out, "group_count", "Groups by protocol and state", &gauges.groups)?;
        write(out, "group_members", "Members of a group", &gauges.members)?;
        write(
            out,
            "group_committed_offset",
            "The next offset a group will read",
            &gauges.committed,
        )?;
        write(out, "group_lag", "Records a group has not read", &gauges.lag)?;
        write(
            out,
            "reader_headroom_seconds",
            "How long a reader may stop before it loses a record",
            &gauges.headroom,
        )?;
        write(
            out,
            "reader_headroom_bytes",
            "Bytes that may arrive before a reader loses a record",
            &gauges.headroom_bytes,
        )?;
        write(
            out,
            "reader_at_risk_records",
            "Unread records that the next pass takes",
            &gauges.at_risk,
        )?;
        let health = engine.health.now();
        let healthy = vec![(
            vec![("reason", health.reason.clone())],
            i64::from(health.is_healthy()),
        )];
        write(
            out,
            "storage_healthy",
            "Whether storage serves, and the reason",
            &healthy,
        )?;
        let volume = engine.health.volume();
        let plain = |value: i64| vec![(Labels::new(), value)];
        let count = |value: usize| plain(i64::try_from(value).unwrap_or(i64::MAX));
        write(
            out,
            "volume_size_bytes",
            "Size of the volume",
            &plain(volume.total_bytes),
        )?;
        write(
            out,
            "volume_free_bytes",
            "Bytes free on the volume",
            &plain(volume.free_bytes),
        )?;
        write(
            out,
            "open_files",
            "Segment files open",
            &count(engine.handles.len()),
        )?;
        write(
            out,
            "group_held_bytes",
            "Memory that groups and their positions hold",
            &count(engine.positions.held_bytes()),
        )?;
        write(
            out,
            "pending_changes",
            "Changes that wait for a reader",
            &count(engine.pending.len()),
        )?;
        write(
            out,
            "readers_low_headroom",
            "Readers about to lose records",
            &count(engine.low_headroom.lock().len()),
        )?;
        write(
            out,
            "series_left_out",
            "Series beyond the limit of one name",
            &plain(gauges.left_out),
        )
    }
}

fn write<T: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: &[(Labels, T)],
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        if labels.is_empty() {
            metric.encode_gauge(value)?;
        } else {
            metric.encode_family(labels)?.encode_gauge(value)?;
        }
    }
    Ok(())
}
