//! Settings in layers, and what they resolve to.
//!
//! A topic's settings come from Kafka's defaults, the engine's defaults, the topic and the partition; the later layer
//! wins, key by key. What the engine acts on is typed here once, so that no other place parses a setting.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::keys::{self, InvalidValue, TOPIC_KEYS};

/// Settings of one layer: Kafka's key to its canonical text.
pub type Overrides = BTreeMap<String, String>;

/// Where the value in force comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ValueSource {
    /// Kafka's own default.
    Default,
    /// `--default KEY=VALUE` of the engine.
    EngineDefault,
    /// The topic's `config`.
    Topic,
    /// The partition's `partitionConfig`.
    Partition,
}

/// `cleanup.policy`; both may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Old segments go by age and size.
    pub delete: bool,
    /// Old values of a key go.
    pub compact: bool,
}

/// `message.timestamp.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer stamps.
    CreateTime,
    /// The engine stamps when it appends.
    LogAppendTime,
}

/// `compression.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionType {
    /// As the producer sent it.
    Producer,
    /// None.
    Uncompressed,
    /// gzip.
    Gzip,
    /// snappy.
    Snappy,
    /// lz4.
    Lz4,
    /// zstd.
    Zstd,
}

/// The settings in force of one partition, as the engine acts on them. Times in milliseconds, sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicSettings {
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `retention.ms`; -1 is no limit.
    pub retention_ms: i64,
    /// `retention.bytes`; negative is no limit.
    pub retention_bytes: i64,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `internal.segment.bytes` if set, else `segment.bytes`.
    pub segment_bytes: i64,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`.
    pub segment_index_bytes: i64,
    /// `index.interval.bytes`.
    pub index_interval_bytes: i64,
    /// `file.delete.delay.ms`.
    pub file_delete_delay_ms: i64,
    /// `max.message.bytes`.
    pub max_message_bytes: i64,
    /// `max.decompressed.message.bytes`.
    pub max_decompressed_message_bytes: i64,
    /// `message.timestamp.type`.
    pub message_timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub message_timestamp_after_max_ms: i64,
    /// `compression.type`.
    pub compression_type: CompressionType,
    /// `compression.gzip.level`; -1 is the codec's default.
    pub compression_gzip_level: i32,
    /// `compression.lz4.level`.
    pub compression_lz4_level: i32,
    /// `compression.zstd.level`.
    pub compression_zstd_level: i32,
    /// `flush.messages`, in records.
    pub flush_messages: i64,
    /// `flush.ms`.
    pub flush_ms: i64,
    /// `preallocate`.
    pub preallocate: bool,
    /// `max.compaction.lag.ms`.
    pub max_compaction_lag_ms: i64,
    /// `tidemark.ignore.timestamps.ahead.ms`; -1 is off.
    pub ignore_timestamps_ahead_ms: i64,
}

impl Default for TopicSettings {
    /// Kafka's defaults, as in [`TOPIC_KEYS`]; a test holds the two together.
    fn default() -> Self {
        Self {
            cleanup_policy: CleanupPolicy {
                delete: true,
                compact: false,
            },
            retention_ms: 604_800_000,
            retention_bytes: -1,
            segment_ms: 604_800_000,
            segment_bytes: 1_073_741_824,
            segment_jitter_ms: 0,
            segment_index_bytes: 10_485_760,
            index_interval_bytes: 4_096,
            file_delete_delay_ms: 60_000,
            max_message_bytes: 1_048_588,
            max_decompressed_message_bytes: 2_147_483_639,
            message_timestamp_type: TimestampType::CreateTime,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_after_max_ms: 3_600_000,
            compression_type: CompressionType::Producer,
            compression_gzip_level: -1,
            compression_lz4_level: 9,
            compression_zstd_level: 3,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            preallocate: false,
            max_compaction_lag_ms: i64::MAX,
            ignore_timestamps_ahead_ms: -1,
        }
    }
}

impl TopicSettings {
    /// Resolves layers, the later one winning: engine defaults, topic, partition.
    ///
    /// # Errors
    /// The first unknown key or invalid value, or two settings that exclude each other.
    pub fn resolve(layers: &[&Overrides]) -> Result<Self, InvalidValue> {
        let mut settings = Self::default();
        let mut internal_segment_bytes = None;
        let mut merged: BTreeMap<&str, &str> = BTreeMap::new();
        for layer in layers {
            merged.extend(layer.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        }
        for (name, text) in &merged {
            let value = keys::parse(name, text)?;
            if *name == "internal.segment.bytes" {
                internal_segment_bytes = value.parse().ok();
            } else {
                settings.set(name, &value);
            }
        }
        if let Some(bytes) = internal_segment_bytes {
            settings.segment_bytes = bytes;
        }
        check_together(&merged)?;
        Ok(settings)
    }

    /// How long a segment may stay open: `segment.ms`, capped by `max.compaction.lag.ms` where the topic is compacted.
    pub fn effective_segment_ms(&self) -> i64 {
        if self.cleanup_policy.compact {
            self.segment_ms.min(self.max_compaction_lag_ms)
        } else {
            self.segment_ms
        }
    }

    /// Sets one typed value from its canonical text; keys that the engine does not act on pass by.
    fn set(&mut self, name: &str, value: &str) {
        let number = value.parse::<i64>().unwrap_or_default();
        let level = i32::try_from(number).unwrap_or_default();
        match name {
            "cleanup.policy" => {
                self.cleanup_policy = CleanupPolicy {
                    delete: value.split(',').any(|member| member == "delete"),
                    compact: value.split(',').any(|member| member == "compact"),
                }
            }
            "retention.ms" => self.retention_ms = number,
            "retention.bytes" => self.retention_bytes = number,
            "segment.ms" => self.segment_ms = number,
            "segment.bytes" => self.segment_bytes = number,
            "segment.jitter.ms" => self.segment_jitter_ms = number,
            "segment.index.bytes" => self.segment_index_bytes = number,
            "index.interval.bytes" => self.index_interval_bytes = number,
            "file.delete.delay.ms" => self.file_delete_delay_ms = number,
            "max.message.bytes" => self.max_message_bytes = number,
            "max.decompressed.message.bytes" => self.max_decompressed_message_bytes = number,
            "message.timestamp.type" => {
                self.message_timestamp_type = match value {
                    "LogAppendTime" => TimestampType::LogAppendTime,
                    _ => TimestampType::CreateTime,
                }
            }
            "message.timestamp.before.max.ms" => self.message_timestamp_before_max_ms = number,
            "message.timestamp.after.max.ms" => self.message_timestamp_after_max_ms = number,
            "compression.type" => {
                self.compression_type = match value {
                    "uncompressed" => CompressionType::Uncompressed,
                    "gzip" => CompressionType::Gzip,
                    "snappy" => CompressionType::Snappy,
                    "lz4" => CompressionType::Lz4,
                    "zstd" => CompressionType::Zstd,
                    _ => CompressionType::Producer,
                }
            }
            "compression.gzip.level" => self.compression_gzip_level = level,
            "compression.lz4.level" => self.compression_lz4_level = level,
            "compression.zstd.level" => self.compression_zstd_level = level,
            "flush.messages" => self.flush_messages = number,
            "flush.ms" => self.flush_ms = number,
            "preallocate" => self.preallocate = value == "true",
            "max.compaction.lag.ms" => self.max_compaction_lag_ms = number,
            "tidemark.ignore.timestamps.ahead.ms" => self.ignore_timestamps_ahead_ms = number,
            _ => {}
        }
    }
}

/// Checks one layer by Kafka's rules and gives it in canonical form.
///
/// # Errors
/// As [`TopicSettings::resolve`].
pub fn canonical(layer: &Overrides) -> Result<Overrides, InvalidValue> {
    let mut canonical = Overrides::new();
    for (name, text) in layer {
        canonical.insert(name.clone(), keys::parse(name, text)?);
    }
    check_together(
        &canonical
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect(),
    )?;
    Ok(canonical)
}

/// Rules over several keys (`LogConfig.validate`).
fn check_together(values: &BTreeMap<&str, &str>) -> Result<(), InvalidValue> {
    let number = |name: &str| -> Option<i64> {
        let text = values
            .get(name)
            .copied()
            .or_else(|| keys::topic_key(name)?.default)?;
        text.trim().parse().ok()
    };
    if let (Some(min), Some(max)) = (number("min.compaction.lag.ms"), number("max.compaction.lag.ms"))
        && min > max
    {
        return Err(InvalidValue::Together(format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
        )));
    }
    if values
        .get("remote.storage.enable")
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    {
        return Err(InvalidValue::Together(
            "Tiered Storage functionality is disabled in the engine: remote.storage.enable cannot be true"
                .to_owned(),
        ));
    }
    Ok(())
}

/// A value in force and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveValue {
    /// Canonical text.
    pub value: String,
    /// The layer that gives it.
    pub source: ValueSource,
}

/// Every key that has a value, with the layer that gives it; the later layer wins. Values are in canonical form where
/// the layers are.
pub fn in_force(layers: &[(ValueSource, &Overrides)]) -> BTreeMap<String, EffectiveValue> {
    let mut values: BTreeMap<String, EffectiveValue> = TOPIC_KEYS
        .iter()
        .filter_map(|key| {
            let value = key.default?.to_owned();
            Some((
                key.name.to_owned(),
                EffectiveValue {
                    value,
                    source: ValueSource::Default,
                },
            ))
        })
        .collect();
    for (source, layer) in layers {
        for (name, value) in *layer {
            values.insert(
                name.clone(),
                EffectiveValue {
                    value: value.clone(),
                    source: *source,
                },
            );
        }
    }
    values
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
