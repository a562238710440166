//! The parts of the resource's schema that a derive cannot write: settings that are integers or strings with a unit,
//! with their ranges as rules that the API server checks.
//!
//! Two limits of the API server shape the rules. The schema is structural, so every key is a property of its own and a
//! key that is not one is dropped (or refused, where the client asks for strict validation); broker settings and other
//! wrong names are therefore properties too, which refuse any value and name the right key. And the cost of a CEL rule
//! is estimated beforehand: a string of an integer-or-string field counts as three megabytes long, so a rule that
//! traverses it does not fit in the budget once it stands in a list. The range rules here only compare with short
//! constants (`size`, `endsWith`, `>=` on text of equal length), which costs next to nothing and is exact.
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::keys::{self, Kind, TOPIC_KEYS, TopicKey, Unit};
use super::names;
use super::units::{DURATION_UNITS, SIZE_UNITS};

/// The most partitions that a Topic can ask for.
pub const MOST_PARTITIONS: i64 = 100_000;
/// The most partitions with settings of their own.
pub const MOST_OVERRIDES: usize = 1_000;
/// The most groups in `required` and in `ignored`.
pub const MOST_GROUPS: usize = 256;
/// The longest group name.
pub const LONGEST_GROUP: usize = 255;

/// `spec.topicName`.
pub fn topic_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": names::MAX_LENGTH,
        "pattern": names::PATTERN,
        "x-kubernetes-validations": [{
            "rule": "self != '.' && self != '..'",
            "message": "spec.topicName cannot be '.' or '..'",
        }],
    })
}

/// `spec.partitions`.
pub fn partitions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "integer", "format": "int32", "minimum": 1, "maximum": MOST_PARTITIONS,
        "x-kubernetes-validations": [{
            "rule": "self >= oldSelf",
            "message": "spec.partitions cannot go down: the records of the partitions that go would be lost",
            "messageExpression":
                "'spec.partitions cannot go down from %d to %d: the records of the partitions that go would be lost'.format([oldSelf, self])",
        }],
    })
}

/// `spec.config`.
pub fn config(_: &mut SchemaGenerator) -> Schema {
    config_schema(true)
}

/// `spec.partitionConfig`.
pub fn partition_config(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MOST_OVERRIDES,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["partition"],
        "items": {
            "type": "object",
            "required": ["partition"],
            "properties": {
                "partition": {
                    "type": "integer",
                    "format": "int32",
                    "minimum": 0,
                    "maximum": MOST_PARTITIONS - 1,
                    "description": "The partition, counted from 0.",
                },
                "config": described(config_schema(false), "Settings of the partition; the same keys as in spec.config."),
            },
        },
    })
}

/// `spec.readers.headroom`.
pub fn headroom(_: &mut SchemaGenerator) -> Schema {
    let mut schema = whole_number("spec.readers.headroom", Unit::Ms, (0, i64::MAX));
    schema.remove("description");
    Schema::from(schema)
}

/// `spec.readers.required`.
pub fn required_readers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MOST_GROUPS,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": LONGEST_GROUP},
    })
}

/// `spec.readers.ignored`.
pub fn ignored_readers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MOST_GROUPS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["group"],
        "items": {
            "type": "object",
            "required": ["group"],
            "properties": {
                "group": {
                    "type": "string", "minLength": 1, "maxLength": LONGEST_GROUP,
                    "description": "Name of a consumer group; * stands for any characters.",
                },
                "reason": {
                    "type": "string", "maxLength": 1024,
                    "description": "Why, for those who read it later.",
                },
            },
        },
    })
}

/// A time in RFC 3339.
pub fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// `status.conditions`, as `metav1.Condition`.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316, "description": "Its type."},
                "status": {
                    "type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "True, False or Unknown.",
                },
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "Generation of the resource that it is about.",
                },
                "lastTransitionTime": {
                    "type": "string", "format": "date-time",
                    "description": "When the status last changed.",
                },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Why, in one word; `tidemark explain REASON` says what to do.",
                },
                "message": {"type": "string", "maxLength": 32768, "description": "Why, in a sentence."},
            },
        },
    })
}

fn described(schema: Schema, description: &str) -> Value {
    let mut value = schema.to_value();
    if let Some(object) = value.as_object_mut() {
        object.insert("description".to_owned(), json!(description));
    }
    value
}

/// The object of all keys. Descriptions once are enough: `spec.config` has them, `spec.partitionConfig` does not.
fn config_schema(descriptions: bool) -> Schema {
    let mut properties = Map::new();
    for key in TOPIC_KEYS {
        let mut property = key_schema(key);
        if descriptions {
            property.insert("description".to_owned(), json!(description(key)));
        }
        properties.insert(key.name.to_owned(), Value::Object(property));
    }
    for wrong in keys::wrong_names() {
        let mut property = Map::new();
        if descriptions {
            property.insert(
                "description".to_owned(),
                json!(format!("Not a topic setting: {}.", wrong.hint)),
            );
        }
        property.insert("x-kubernetes-int-or-string".to_owned(), json!(true));
        property.insert(
            "x-kubernetes-validations".to_owned(),
            json!([{
                "rule": "false",
                "message": format!("{} is not a topic setting: {}", wrong.name, wrong.hint),
                "reason": "FieldValueForbidden",
            }]),
        );
        properties.insert(wrong.name, Value::Object(property));
    }
    json_schema!({"type": "object", "properties": properties})
}

/// What `kubectl explain` says of a key.
fn description(key: &TopicKey) -> String {
    let mut text = key.doc.to_owned();
    if let Some(default) = key.default.filter(|default| !default.is_empty()) {
        text.push_str(&format!(" Kafka's default: {default}."));
    }
    let unit = match key.unit {
        Unit::Ms => " Milliseconds, or with a unit: ms, s, m, h, d, w.",
        Unit::Bytes => " Bytes, or with a unit: k, M, G, T, P, Ki, Mi, Gi, Ti, Pi.",
        Unit::Records => " Records.",
        Unit::None => "",
    };
    text.push_str(unit);
    if !key.acted_on {
        text.push_str(" Stored and shown; this engine does not act on it.");
    }
    text
}

fn key_schema(key: &TopicKey) -> Map<String, Value> {
    let schema = match key.kind {
        Kind::Int if key.name == "compression.gzip.level" => {
            let levels = [-1, 1, 2, 3, 4, 5, 6, 7, 8, 9];
            let texts = levels.iter().map(|level| json!(level.to_string()));
            let all: Vec<Value> = levels.iter().map(|level| json!(level)).chain(texts).collect();
            json!({"x-kubernetes-int-or-string": true, "enum": all})
        }
        Kind::Int | Kind::Long => return whole_number(key.name, key.unit, spec_range(key)),
        Kind::Double => json!({
            "x-kubernetes-preserve-unknown-fields": true,
            "minimum": key.min.unwrap_or(0),
            "maximum": key.max.unwrap_or(1),
            "maxLength": 24,
            "pattern": "^(0(\\.[0-9]+)?|\\.[0-9]+|1(\\.0+)?)$",
        }),
        Kind::Boolean => json!({
            "x-kubernetes-preserve-unknown-fields": true,
            "enum": if key.name == "remote.storage.enable" {
                json!([false, "false"])
            } else {
                json!([true, false, "true", "false"])
            },
        }),
        Kind::String => json!({"type": "string", "enum": key.allowed}),
        Kind::List if key.allowed.is_empty() => json!({
            "type": "string",
            "maxLength": 32_767,
            "pattern": "^(\\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?$",
        }),
        Kind::List => {
            json!({"type": "string", "enum": ["", "compact", "delete", "compact,delete", "delete,compact"]})
        }
    };
    schema.as_object().cloned().unwrap_or_default()
}

/// The range that a manifest may use: Kafka's, but no negative numbers beside the ones that mean something.
pub fn spec_range(key: &TopicKey) -> (i64, i64) {
    let (min, max) = key.range().unwrap_or((i64::MIN, i64::MAX));
    if key.name == "retention.bytes" {
        (-1, max)
    } else {
        (min, max)
    }
}

/// An integer, or a string of one with a unit, within a range.
fn whole_number(name: &str, unit: Unit, (min, max): (i64, i64)) -> Map<String, Value> {
    let units = units_of(unit);
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    let suffix = if names.is_empty() {
        String::new()
    } else {
        format!("({})?", names.join("|"))
    };
    let negative = if min < 0 { "-?" } else { "" };
    let mut schema = Map::new();
    schema.insert("x-kubernetes-int-or-string".to_owned(), json!(true));
    if min > i64::MIN {
        schema.insert("minimum".to_owned(), json!(min));
    }
    if max < i64::MAX {
        schema.insert("maximum".to_owned(), json!(max));
    }
    schema.insert("maxLength".to_owned(), json!(24));
    schema.insert(
        "pattern".to_owned(),
        json!(if min < 0 {
            format!("^({negative}(0|[1-9][0-9]*)|(0|[1-9][0-9]*){suffix})$")
        } else {
            format!("^(0|[1-9][0-9]*){suffix}$")
        }),
    );
    let what = match unit {
        Unit::Ms => " ms, as a whole number or with one unit of ms, s, m, h, d, w",
        Unit::Bytes => " bytes, as a whole number or with one unit of k, M, G, T, P, Ki, Mi, Gi, Ti, Pi",
        Unit::Records => " records, as a whole number",
        Unit::None => ", as a whole number",
    };
    schema.insert(
        "x-kubernetes-validations".to_owned(),
        json!([{
            "rule": format!("type(self) == int || ({})", range_rule(units, min, max)),
            "message": format!("{name} must be from {min} to {max}{what}"),
        }]),
    );
    schema
}

fn units_of(unit: Unit) -> &'static [(&'static str, i64)] {
    match unit {
        Unit::Ms => DURATION_UNITS,
        Unit::Bytes => SIZE_UNITS,
        Unit::Records | Unit::None => &[],
    }
}

/// The range as a rule over the text, which the pattern has found to be digits without leading zeros and a unit: of two
/// such texts with the same unit the longer one is the greater, and among equally long ones the order is alphabetical.
fn range_rule(units: &[(&str, i64)], min: i64, max: i64) -> String {
    let mut rule = String::new();
    for (unit, factor) in units {
        let least = if min <= 0 { 0 } else { (min - 1) / factor + 1 };
        rule.push_str(&format!(
            "self.endsWith('{unit}') ? {} : ",
            within(unit, least, max / factor)
        ));
    }
    let plain = within("", min.max(0), max);
    if min >= 0 {
        return format!("{rule}{plain}");
    }
    // A negative number is further from zero the longer its text is.
    let lowest = min.unsigned_abs().to_string();
    let size = lowest.len() + 1;
    format!(
        "{rule}self.startsWith('-') ? (size(self) < {size} || size(self) == {size} && self <= '-{lowest}') : {plain}"
    )
}

fn within(unit: &str, least: i64, most: i64) -> String {
    let (low, high) = (least.to_string(), most.to_string());
    let size = |digits: &str| digits.len() + unit.len();
    let upper = format!(
        "(size(self) < {0} || size(self) == {0} && self <= '{high}{unit}')",
        size(&high)
    );
    if least <= 0 {
        return upper;
    }
    format!(
        "(size(self) > {0} || size(self) == {0} && self >= '{low}{unit}') && {upper}",
        size(&low)
    )
}
