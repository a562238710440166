//! Every topic setting of Kafka 4.4, and one that Kafka lacks: type, default, range, and the broker settings behind it.
//!
//! One table drives the schema of the Topic resource, the wire's config APIs, the engine's settings and the hints in
//! error messages. Names, types, defaults and ranges are those of `LogConfig`; broker names those of
//! `ServerTopicConfigSynonyms`.
use thiserror::Error;

use super::slips;
use super::units;

#[path = "key_table.rs"]
mod table;
pub use table::TOPIC_KEYS;

/// The type of a setting's value, as in Kafka's `ConfigDef`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 32 bits, signed.
    Int,
    /// 64 bits, signed.
    Long,
    /// 64-bit floating point.
    Double,
    /// `true` or `false`, in any case.
    Boolean,
    /// Taken as written.
    String,
    /// Comma-separated members.
    List,
}

impl Kind {
    /// The name in Kafka's error texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "INT",
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::Boolean => "BOOLEAN",
            Self::String => "STRING",
            Self::List => "LIST",
        }
    }
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Milliseconds; a manifest may use `7d`, `36h`, `90s`, `500ms`.
    Ms,
    /// Bytes; a manifest may use `2Gi`, `256Mi`, `1G`.
    Bytes,
    /// Records.
    Records,
    /// A plain number, or no number.
    None,
}

/// A broker setting that gives a topic setting its default, and how its value converts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerName {
    /// The broker setting.
    pub name: &'static str,
    /// What its value is multiplied with to give the topic setting's unit: 1, or minutes or hours in milliseconds.
    pub factor: i64,
}

/// One topic setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopicKey {
    /// Kafka's name; ours begin with `tidemark.`.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Canonical text of the default; `None` where Kafka's default is null, and for what Kafka does not have: such a key shows up only
    /// where it is set.
    pub default: Option<&'static str>,
    /// Smallest number allowed; `None` is the least of the type.
    pub min: Option<i64>,
    /// Largest number allowed; `None` is the greatest of the type.
    pub max: Option<i64>,
    /// The values (or list members) allowed; empty is any.
    pub allowed: &'static [&'static str],
    /// Broker settings in order of priority; only the first can be changed on a running broker.
    pub broker_names: &'static [BrokerName],
    /// What the number counts.
    pub unit: Unit,
    /// Whether this engine acts on it (else it is stored, checked and described only).
    pub acted_on: bool,
    /// What it does, for `kubectl explain` and the Kafka tools.
    pub doc: &'static str,
}

/// A value that a setting does not take.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidValue {
    /// No setting of this name.
    #[error("Unknown topic config name: {name}{}", hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    UnknownKey {
        /// As written.
        name: String,
        /// What to write instead, as a clause.
        hint: Option<String>,
    },
    /// The text is no value of the type, or out of range.
    #[error("Invalid value {value} for configuration {key}: {bound}")]
    Value {
        /// Kafka's name of the setting.
        key: &'static str,
        /// As written.
        value: String,
        /// The rule that it breaks, with the bound.
        bound: String,
    },
    /// Two settings that exclude each other.
    #[error("{0}")]
    Together(String),
}

impl InvalidValue {
    fn value(key: &TopicKey, value: &str, bound: impl Into<String>) -> Self {
        Self::Value {
            key: key.name,
            value: shortened(value),
            bound: bound.into(),
        }
    }

    /// The setting it is about, where it is about one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::UnknownKey { name, .. } => Some(name),
            Self::Value { key, .. } => Some(key),
            Self::Together(_) => None,
        }
    }
}

/// Error texts stay readable whatever was sent.
fn shortened(value: &str) -> String {
    const MOST: usize = 120;
    match value.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", value.get(..at).unwrap_or_default()),
        None => value.to_owned(),
    }
}

/// The setting of this name.
pub fn topic_key(name: &str) -> Option<&'static TopicKey> {
    TOPIC_KEYS.iter().find(|key| key.name == name)
}

/// The setting of this name, or an error that suggests the right one.
///
/// # Errors
/// [`InvalidValue::UnknownKey`].
pub fn find(name: &str) -> Result<&'static TopicKey, InvalidValue> {
    topic_key(name).ok_or_else(|| InvalidValue::UnknownKey {
        name: shortened(name),
        hint: hint(name),
    })
}

/// Reads a value by Kafka's rules (`ConfigDef.parseType` and the validator), without units, and gives its canonical
/// text: ` 7000 ` is `7000`, `TRUE` is `true`, `0` is `0.0` for a double.
///
/// # Errors
/// Unknown names and values out of range or not of the type.
pub fn parse(name: &str, text: &str) -> Result<String, InvalidValue> {
    find(name)?.parse(text)
}

/// As [`parse`], and with units for milliseconds and bytes: `7d`, `2Gi`.
///
/// # Errors
/// As [`parse`].
pub fn parse_with_units(name: &str, text: &str) -> Result<String, InvalidValue> {
    find(name)?.parse_with_units(text)
}

impl TopicKey {
    /// Smallest and largest number of the type and range; `None` unless the value is a whole number.
    pub fn range(&self) -> Option<(i64, i64)> {
        let (least, greatest) = match self.kind {
            Kind::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
            Kind::Long => (i64::MIN, i64::MAX),
            _ => return None,
        };
        Some((self.min.unwrap_or(least), self.max.unwrap_or(greatest)))
    }

    /// See [`parse`].
    ///
    /// # Errors
    /// Values out of range or not of the type.
    pub fn parse(&self, text: &str) -> Result<String, InvalidValue> {
        let trimmed = text.trim();
        match self.kind {
            Kind::Int | Kind::Long => {
                let not_a_number =
                    || InvalidValue::value(self, text, format!("Not a number of type {}", self.kind.name()));
                let value: i64 = trimmed.parse().map_err(|_| not_a_number())?;
                if self.kind == Kind::Int && i32::try_from(value).is_err() {
                    return Err(not_a_number());
                }
                self.in_range(value, text)
            }
            Kind::Double => self.parse_double(text),
            Kind::Boolean => match trimmed.to_ascii_lowercase().as_str() {
                canonical @ ("true" | "false") => Ok(canonical.to_owned()),
                _ => Err(InvalidValue::value(
                    self,
                    text,
                    "Expected value to be either true or false",
                )),
            },
            Kind::String if self.allowed.contains(&text) => Ok(text.to_owned()),
            Kind::String => Err(InvalidValue::value(
                self,
                text,
                format!("String must be one of: {}", self.allowed.join(", ")),
            )),
            Kind::List => self.parse_list(text),
        }
    }

    /// See [`parse_with_units`].
    ///
    /// # Errors
    /// Values out of range, not of the type, or with an unknown unit.
    pub fn parse_with_units(&self, text: &str) -> Result<String, InvalidValue> {
        let read = match self.unit {
            Unit::Ms => units::parse_duration_ms(text),
            Unit::Bytes => units::parse_bytes(text),
            Unit::Records | Unit::None => return self.parse(text),
        };
        let value = read.map_err(|error| InvalidValue::value(self, text, format!("Value {error}")))?;
        if self.kind == Kind::Int && i32::try_from(value).is_err() {
            return Err(InvalidValue::value(
                self,
                text,
                format!("Value must be at most {}", i32::MAX),
            ));
        }
        self.in_range(value, text)
    }

    fn in_range(&self, value: i64, text: &str) -> Result<String, InvalidValue> {
        if let Some(min) = self.min.filter(|min| value < *min) {
            return Err(InvalidValue::value(
                self,
                text,
                format!("Value must be at least {min}"),
            ));
        }
        if let Some(max) = self.max.filter(|max| value > *max) {
            return Err(InvalidValue::value(
                self,
                text,
                format!("Value must be no more than {max}"),
            ));
        }
        if value == 0 && self.name == "compression.gzip.level" {
            return Err(InvalidValue::value(
                self,
                text,
                "Value must be between 1 and 9 or equal to -1",
            ));
        }
        Ok(value.to_string())
    }

    fn parse_double(&self, text: &str) -> Result<String, InvalidValue> {
        let number = text.trim();
        let plain = number
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
        let value = number
            .parse::<f64>()
            .ok()
            .filter(|value| plain && value.is_finite())
            .ok_or_else(|| {
                InvalidValue::value(self, text, format!("Not a number of type {}", self.kind.name()))
            })?;
        // The only doubles of Kafka's topic settings are ratios, so whole bounds are exact as f64.
        if let Some(min) = self.min.filter(|min| value < *min as f64) {
            return Err(InvalidValue::value(
                self,
                text,
                format!("Value must be at least {min}"),
            ));
        }
        if let Some(max) = self.max.filter(|max| value > *max as f64) {
            return Err(InvalidValue::value(
                self,
                text,
                format!("Value must be no more than {max}"),
            ));
        }
        Ok(java_double(value))
    }

    fn parse_list(&self, text: &str) -> Result<String, InvalidValue> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Ok(String::new());
        }
        let mut members: Vec<&str> = Vec::new();
        for member in trimmed.split(',').map(str::trim) {
            if member.is_empty() {
                return Err(InvalidValue::value(
                    self,
                    text,
                    "Configuration values must not be empty",
                ));
            }
            let known = if self.allowed.is_empty() {
                is_throttled_replica(member) || trimmed == "*"
            } else {
                self.allowed.contains(&member)
            };
            if !known {
                let bound = if self.allowed.is_empty() {
                    "Must be '*' or a comma-separated list of partition:broker pairs".to_owned()
                } else {
                    format!("String must be one of: {}", self.allowed.join(", "))
                };
                return Err(InvalidValue::value(self, text, bound));
            }
            if !members.contains(&member) {
                members.push(member);
            }
        }
        Ok(members.join(","))
    }
}

fn is_throttled_replica(member: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    member
        .split_once(':')
        .is_some_and(|(partition, broker)| digits(partition) && digits(broker))
}

/// A double as Java prints it: `0.5`, `0.0`, `1.0E-5`.
fn java_double(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => format!("{mantissa}E{exponent}"),
        Some((mantissa, exponent)) => format!("{mantissa}.0E{exponent}"),
        None => text,
    }
}

/// A name that is written where a topic setting belongs although it is none: a broker setting, a setting that Kafka
/// has dropped, or another tool's spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongName {
    /// As it is written by mistake.
    pub name: String,
    /// What to do instead, as a clause.
    pub hint: String,
}

/// Every wrong name that is known by heart, in alphabetical order: broker names that are not topic names as well,
/// dropped settings, and the camel-case forms of other resources.
pub fn wrong_names() -> Vec<WrongName> {
    let mut wrong: Vec<WrongName> = Vec::new();
    for key in TOPIC_KEYS {
        for broker in key.broker_names {
            if topic_key(broker.name).is_some() {
                continue;
            }
            let unit = match broker.factor {
                1 => "",
                60_000 => ", in milliseconds or with a unit such as 90m",
                _ => ", in milliseconds or with a unit such as 36h",
            };
            wrong.push(WrongName {
                name: broker.name.to_owned(),
                hint: format!("that is the broker's name, on a topic write {}{unit}", key.name),
            });
        }
        let camel = camel_case(key.name);
        if matches!(
            key.name,
            "retention.ms" | "retention.bytes" | "segment.ms" | "segment.bytes" | "cleanup.policy"
        ) {
            wrong.push(WrongName {
                name: camel,
                hint: format!("write {}", key.name),
            });
        }
    }
    for (name, hint) in table::DROPPED {
        wrong.push(WrongName {
            name: (*name).to_owned(),
            hint: (*hint).to_owned(),
        });
    }
    wrong.sort_by(|one, other| one.name.cmp(&other.name));
    wrong.dedup_by(|one, other| one.name == other.name);
    wrong
}

/// What to write instead of an unknown name, if that can be told.
pub fn hint(name: &str) -> Option<String> {
    if let Some(wrong) = wrong_names()
        .into_iter()
        .find(|wrong| wrong.name.eq_ignore_ascii_case(name))
    {
        return Some(wrong.hint);
    }
    let known = TOPIC_KEYS.iter().map(|key| key.name);
    slips::meant(name, known).map(|known| format!("did you mean {known}?"))
}

fn camel_case(name: &str) -> String {
    let mut camel = String::new();
    for (index, word) in name.split('.').enumerate() {
        let mut chars = word.chars();
        match chars.next() {
            Some(first) if index > 0 => {
                camel.push(first.to_ascii_uppercase());
                camel.push_str(chars.as_str());
            }
            _ => camel.push_str(word),
        }
    }
    camel
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
