//! Kafka's rules for topic names (`org.apache.kafka.common.internals.Topic`).
use thiserror::Error;

/// The longest topic name, in bytes.
pub const MAX_LENGTH: usize = 249;

/// The rule as a regular expression, for schemas; `.` and `..` are refused besides.
pub const PATTERN: &str = "^[a-zA-Z0-9._-]+$";

/// Topics that Kafka keeps for itself.
pub const INTERNAL: &[&str] = &[
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
    "__cluster_metadata",
];

/// Why a name is no topic name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidName {
    /// No characters.
    #[error("a topic name cannot be empty")]
    Empty,
    /// `.` or `..`.
    #[error("topic name {0:?} cannot be '.' or '..'")]
    Dots(String),
    /// More than [`MAX_LENGTH`] bytes.
    #[error("topic name {0:?} is {1} characters long; at most 249 are allowed")]
    TooLong(String, usize),
    /// Something else than ASCII letters, digits, `.`, `_` and `-`.
    #[error("topic name {0:?} contains {1:?}; allowed are ASCII letters, digits, '.', '_' and '-'")]
    Character(String, char),
    /// A name that Kafka keeps for itself.
    #[error("topic name {0:?} is kept for Kafka's own use")]
    Internal(String),
}

/// Checks a name by Kafka's rules; internal names pass.
///
/// # Errors
/// The first rule that is broken.
pub fn check(name: &str) -> Result<(), InvalidName> {
    if name.is_empty() {
        return Err(InvalidName::Empty);
    }
    if name == "." || name == ".." {
        return Err(InvalidName::Dots(name.to_owned()));
    }
    if name.len() > MAX_LENGTH {
        return Err(InvalidName::TooLong(name.to_owned(), name.chars().count()));
    }
    match name
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '_' | '-'))
    {
        Some(c) => Err(InvalidName::Character(name.to_owned(), c)),
        None => Ok(()),
    }
}

/// Whether the name is one that Kafka keeps for itself.
pub fn is_internal(name: &str) -> bool {
    INTERNAL.contains(&name)
}

/// Whether two different names would share a metric name: Kafka refuses to create `a_b` beside `a.b`.
pub fn collide(one: &str, other: &str) -> bool {
    one != other
        && one.len() == other.len()
        && one
            .bytes()
            .zip(other.bytes())
            .all(|(a, b)| a == b || (matches!(a, b'.' | b'_') && matches!(b, b'.' | b'_')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafka_names() {
        for name in ["a", "My_Topic.v1", "...", "__state", "-", &"x".repeat(249)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", "a b", "a/b", "ü", "a\0", &"x".repeat(250)] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn only_dots_and_underscores_collide() {
        assert!(collide("a.b_c", "a_b.c"));
        assert!(collide("a.b", "a_b"));
        assert!(!collide("a.b", "a.b"), "a name does not collide with itself");
        assert!(!collide("a-b", "a_b"));
        assert!(!collide("a.b", "a_bc"));
    }
}
