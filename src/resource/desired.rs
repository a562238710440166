//! From a Topic as written to the state that the engine is asked for.
//!
//! Every value is checked here by the same table and parser as the schema's rules were made from, so a Topic that comes
//! from a directory, or through an API server with an older schema, is held to the same rules. All faults are reported,
//! not the first only.
use std::fmt;

use super::contract::{DesiredTopic, IgnoredReader, Owner, PartitionConfig, ReadersPolicy};
use super::keys::{self, InvalidValue, Kind, TOPIC_KEYS};
use super::schema;
use super::settings::{self, Overrides};
use super::topic::{ConfigValue, Readers, Topic};
use super::{names, units};

/// One step of the way to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A field of an object.
    Key(String),
    /// An element of a list.
    Index(usize),
}

/// The way to a field, as `kubectl` shows it: `spec.partitionConfig[0].config.retention.ms`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// A path of keys.
    pub fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| Step::Key((*key).to_owned())).collect())
    }

    /// The path one key further.
    pub fn key(&self, key: &str) -> Self {
        let mut path = self.clone();
        path.0.push(Step::Key(key.to_owned()));
        path
    }

    /// The path one element further.
    pub fn index(&self, index: usize) -> Self {
        let mut path = self.clone();
        path.0.push(Step::Index(index));
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if position == 0 => write!(formatter, "{key}")?,
                Step::Key(key) => write!(formatter, ".{key}")?,
                Step::Index(index) => write!(formatter, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A field that cannot stay as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The field.
    pub path: Path,
    /// Its value as written; empty where the field itself is the fault.
    pub value: String,
    /// What is wrong, with the bound.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.as_str() {
            "" => write!(formatter, "{}: {}", self.path, self.message),
            value => write!(formatter, "{}: {value}: {}", self.path, self.message),
        }
    }
}

/// The state that a Topic declares, without a request id.
///
/// # Errors
/// Every field that is out of its range or not what it should be.
pub fn desired(topic: &Topic, owner: Owner) -> Result<DesiredTopic, Vec<Violation>> {
    let mut faults = Vec::new();
    let spec = Path::of(&["spec"]);
    if let Err(error) = names::check(topic.topic_name()) {
        let path = match topic.spec.topic_name {
            Some(_) => spec.key("topicName"),
            None => Path::of(&["metadata", "name"]),
        };
        faults.push(Violation {
            path,
            value: String::new(),
            message: error.to_string(),
        });
    }
    if names::is_internal(topic.topic_name()) {
        let message = names::InvalidName::Internal(topic.topic_name().to_owned()).to_string();
        faults.push(Violation {
            path: spec.key("topicName"),
            value: String::new(),
            message,
        });
    }
    if let Some(count) = topic.spec.partitions
        && !(1..=schema::MOST_PARTITIONS).contains(&i64::from(count))
    {
        faults.push(Violation {
            path: spec.key("partitions"),
            value: count.to_string(),
            message: format!("must be from 1 to {}", schema::MOST_PARTITIONS),
        });
    }
    let config = overrides(topic.spec.config.as_ref(), &spec.key("config"), &mut faults);
    let partition_config = partition_overrides(topic, &spec.key("partitionConfig"), &mut faults);
    let readers = readers(topic.spec.readers.as_ref(), &spec.key("readers"), &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(DesiredTopic {
        owner: Some(owner),
        partitions: topic.spec.partitions,
        config,
        partition_config,
        readers,
        deletion_policy: topic.deletion_policy(),
        ..DesiredTopic::default()
    })
}

fn overrides(
    config: Option<&std::collections::BTreeMap<String, ConfigValue>>,
    path: &Path,
    faults: &mut Vec<Violation>,
) -> Overrides {
    let mut overrides = Overrides::new();
    let before = faults.len();
    for (name, value) in config.into_iter().flatten() {
        match keys::parse_with_units(name, &value.text()).and_then(|text| within_spec_range(name, text)) {
            Ok(text) => {
                overrides.insert(name.clone(), text);
            }
            Err(error) => faults.push(fault(path.key(name), value, error)),
        }
    }
    if faults.len() == before
        && let Err(error) = settings::canonical(&overrides)
    {
        faults.push(Violation {
            path: path.clone(),
            value: String::new(),
            message: error.to_string(),
        });
    }
    overrides
}

/// A manifest takes fewer negative numbers than Kafka does: -1 is no limit, -5 is a slip.
fn within_spec_range(name: &str, text: String) -> Result<String, InvalidValue> {
    let Some(key) = keys::topic_key(name) else {
        return Ok(text);
    };
    let (least, _) = schema::spec_range(key);
    if key.range().is_some() && text.parse::<i64>().is_ok_and(|value| value < least) {
        return Err(InvalidValue::Value {
            key: key.name,
            value: text,
            bound: format!("Value must be at least {least}"),
        });
    }
    Ok(text)
}

fn fault(path: Path, value: &ConfigValue, error: InvalidValue) -> Violation {
    match error {
        InvalidValue::Value { key, .. } if is_whole_float(key, value) => Violation {
            path,
            value: value.to_string(),
            message: "is written with a point or an exponent; write the whole number, or one with a unit"
                .to_owned(),
        },
        InvalidValue::Value { bound, .. } => {
            let bound = bound.strip_prefix("Value ").map_or(bound.clone(), str::to_owned);
            Violation {
                path,
                value: value.to_string(),
                message: bound,
            }
        }
        InvalidValue::UnknownKey { hint, .. } => {
            let hint = hint.map_or_else(String::new, |hint| format!(": {hint}"));
            Violation {
                path,
                value: String::new(),
                message: format!("is not a topic setting{hint}"),
            }
        }
        InvalidValue::Together(message) => Violation {
            path,
            value: String::new(),
            message,
        },
    }
}

/// What a template makes of a large number: 6.048e+08 has no fraction, and nobody knows whether it is all that was meant.
fn is_whole_float(key: &str, value: &ConfigValue) -> bool {
    let counts = keys::topic_key(key).is_some_and(|key| matches!(key.kind, Kind::Int | Kind::Long));
    counts && matches!(value, ConfigValue::Float(number) if number.fract() == 0.0)
}

fn partition_overrides(topic: &Topic, path: &Path, faults: &mut Vec<Violation>) -> Vec<PartitionConfig> {
    let mut all: Vec<PartitionConfig> = Vec::new();
    let listed = topic.spec.partition_config.iter().flatten();
    for (index, entry) in listed.enumerate() {
        let path = path.index(index);
        let refuse = |message: String| Violation {
            path: path.key("partition"),
            value: entry.partition.to_string(),
            message,
        };
        if entry.partition < 0 {
            faults.push(refuse("must be at least 0".to_owned()));
        } else if topic
            .spec
            .partitions
            .is_some_and(|count| entry.partition >= count)
        {
            let count = topic.spec.partitions.unwrap_or_default();
            faults.push(refuse(format!(
                "must be below spec.partitions, which is {count}; partitions are counted from 0"
            )));
        } else if all.iter().any(|other| other.partition == entry.partition) {
            faults.push(refuse("is listed twice".to_owned()));
        }
        let config = overrides(entry.config.as_ref(), &path.key("config"), faults);
        all.push(PartitionConfig {
            partition: entry.partition,
            config,
        });
    }
    all.retain(|entry| !entry.config.is_empty());
    all.sort_by_key(|entry| entry.partition);
    all
}

fn readers(readers: Option<&Readers>, path: &Path, faults: &mut Vec<Violation>) -> ReadersPolicy {
    let Some(readers) = readers else {
        return ReadersPolicy::default();
    };
    let headroom_ms = readers.headroom.as_ref().and_then(|value| {
        let refuse = |message: String| Violation {
            path: path.key("headroom"),
            value: value.to_string(),
            message,
        };
        match units::parse_duration_ms(&value.text()) {
            Ok(ms) if ms >= 0 => Some(ms),
            Ok(_) => {
                faults.push(refuse("must be at least 0".to_owned()));
                None
            }
            Err(error) => {
                faults.push(refuse(error.to_string()));
                None
            }
        }
    });
    let ignored = readers.ignored.iter().flatten().map(|ignored| IgnoredReader {
        group: ignored.group.clone(),
        reason: ignored.reason.clone().unwrap_or_default(),
    });
    ReadersPolicy {
        on_loss: readers.on_loss.unwrap_or_default(),
        headroom_ms,
        when_none: readers.when_none.unwrap_or_default(),
        required: readers.required.clone().unwrap_or_default(),
        ignored: ignored.collect(),
    }
}

/// Names of all fields of a Topic's spec and of its lists, for hints on misspelt ones.
pub fn known_fields(path: &[&str]) -> Option<Vec<&'static str>> {
    Some(match path {
        [] => vec!["apiVersion", "kind", "metadata", "spec", "status"],
        ["spec"] => vec![
            "topicName",
            "partitions",
            "config",
            "partitionConfig",
            "readers",
            "deletionPolicy",
        ],
        ["spec", "partitionConfig"] => vec!["partition", "config"],
        ["spec", "readers"] => vec!["onLoss", "headroom", "whenNone", "required", "ignored"],
        ["spec", "readers", "ignored"] => vec!["group", "reason"],
        ["spec", "config"] | ["spec", "partitionConfig", "config"] => {
            TOPIC_KEYS.iter().map(|key| key.name).collect()
        }
        _ => return None,
    })
}

#[cfg(test)]
#[path = "desired_tests.rs"]
mod tests;
