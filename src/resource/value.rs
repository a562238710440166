//! A setting's value as it stands in a manifest.
use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// A value as written: an integer, a string, or one of the two other scalars that some settings take. It serializes to
/// what it was read from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ConfigValue {
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number beyond 64 bits signed; no setting takes it.
    Large(u64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Anything in quotes, or not a number.
    Text(String),
}

impl ConfigValue {
    /// The text that a setting's parser reads.
    pub fn text(&self) -> String {
        match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Large(value) => value.to_string(),
            // `{:?}` keeps the point or the exponent, so that a float is never taken for an integer.
            Self::Float(value) => format!("{value:?}"),
            Self::Text(value) => value.clone(),
        }
    }
}

impl fmt::Display for ConfigValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(value) => write!(formatter, "{value:?}"),
            other => formatter.write_str(&other.text()),
        }
    }
}

impl From<&str> for ConfigValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<i64> for ConfigValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<'de> Deserialize<'de> for ConfigValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;

        impl Visitor<'_> for Scalar {
            type Value = ConfigValue;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an integer or a string")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<ConfigValue, E> {
                Ok(ConfigValue::Bool(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<ConfigValue, E> {
                Ok(ConfigValue::Int(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<ConfigValue, E> {
                Ok(i64::try_from(value).map_or(ConfigValue::Large(value), ConfigValue::Int))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<ConfigValue, E> {
                Ok(ConfigValue::Float(value))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<ConfigValue, E> {
                Ok(ConfigValue::Text(value.to_owned()))
            }
        }

        deserializer.deserialize_any(Scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_goes_out_as_it_came_in() {
        for json in [
            "604800000",
            "\"604800000\"",
            "\"7d\"",
            "-1",
            "true",
            "0.5",
            "18446744073709551615",
        ] {
            let value: ConfigValue = serde_json::from_str(json).expect(json);
            assert_eq!(serde_json::to_string(&value).expect(json), json);
        }
        assert!(serde_json::from_str::<ConfigValue>("[1]").is_err());
        assert!(serde_json::from_str::<ConfigValue>("null").is_err());
    }

    #[test]
    fn a_float_is_never_read_as_an_integer() {
        let value: ConfigValue = serde_yaml::from_str("6.048e+08").expect("yaml");
        assert_eq!(value.text(), "604800000.0");
        assert!(super::super::keys::parse_with_units("retention.ms", &value.text()).is_err());
    }
}
