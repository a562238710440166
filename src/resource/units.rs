//! Durations and sizes as people write them, read exactly.
//!
//! A value is a whole number, alone or with one unit. No floats, no rounding, no second unit: what cannot be
//! represented as a 64-bit count of milliseconds or bytes is refused, never approximated.
use thiserror::Error;

/// Why a duration or a size could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidUnit {
    /// Nothing was written.
    #[error("is empty")]
    Empty,
    /// Something else than digits stands before the unit.
    #[error("is not a whole number{}", if .units.is_empty() { String::new() } else { format!(" or a whole number with a unit of {units}") })]
    NotWhole {
        /// The units that would have been taken.
        units: &'static str,
    },
    /// The number is written with an exponent.
    #[error("is written in scientific notation; write the whole number")]
    Scientific,
    /// The number has a fraction.
    #[error("has a fraction; write a whole number, with a smaller unit if need be")]
    Fraction,
    /// The letters after the number are no unit of this kind.
    #[error("has the unknown unit {unit:?}; known are {units}")]
    UnknownUnit {
        /// As written.
        unit: String,
        /// The units that would have been taken.
        units: &'static str,
    },
    /// The value does not fit in 64 bits.
    #[error("is more than 9223372036854775807 {in_units}")]
    Overflow {
        /// `ms` or `bytes`.
        in_units: &'static str,
    },
    /// A negative number with a unit; only a bare -1 has a meaning.
    #[error("is negative with a unit; -1 alone means no limit")]
    NegativeUnit,
}

/// The units of a duration, longest first where one is the prefix of another, in milliseconds.
pub const DURATION_UNITS: &[(&str, i64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// The units of a size, in bytes. Binary units end in `i`, decimal ones do not, as in Kubernetes quantities.
pub const SIZE_UNITS: &[(&str, i64)] = &[
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
];

const DURATION_NAMES: &str = "ms, s, m, h, d, w";
const SIZE_NAMES: &str = "k, M, G, T, P, Ki, Mi, Gi, Ti, Pi";

/// Reads a duration: `7d`, `36h`, `90s`, `500ms`, `5m`, `2w`, or a whole number of milliseconds, which may be negative.
///
/// # Errors
/// [`InvalidUnit`], whose text follows the field and the value as written.
pub fn parse_duration_ms(text: &str) -> Result<i64, InvalidUnit> {
    parse(text, DURATION_UNITS, DURATION_NAMES, "ms")
}

/// Reads a size: `2Gi`, `256Mi`, `1G`, `10k`, or a whole number of bytes, which may be negative.
///
/// # Errors
/// [`InvalidUnit`], whose text follows the field and the value as written.
pub fn parse_bytes(text: &str) -> Result<i64, InvalidUnit> {
    parse(text, SIZE_UNITS, SIZE_NAMES, "bytes")
}

fn parse(
    text: &str,
    units: &[(&str, i64)],
    names: &'static str,
    in_units: &'static str,
) -> Result<i64, InvalidUnit> {
    let text = text.trim();
    if text.is_empty() {
        return Err(InvalidUnit::Empty);
    }
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let end = unsigned
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(unsigned.len());
    let (digits, unit) = unsigned.split_at(end);
    if digits.is_empty() {
        return Err(InvalidUnit::NotWhole { units: names });
    }
    if unit.starts_with(['.', ',']) {
        return Err(if looks_scientific(unit) {
            InvalidUnit::Scientific
        } else {
            InvalidUnit::Fraction
        });
    }
    if looks_scientific(unit) {
        return Err(InvalidUnit::Scientific);
    }
    let factor = if unit.is_empty() {
        1
    } else {
        match units.iter().find(|(name, _)| *name == unit) {
            Some((_, factor)) => *factor,
            None => {
                return Err(InvalidUnit::UnknownUnit {
                    unit: unit.to_owned(),
                    units: names,
                });
            }
        }
    };
    if negative && !unit.is_empty() {
        return Err(InvalidUnit::NegativeUnit);
    }
    let mut value: i64 = 0;
    for digit in digits.bytes() {
        let digit = i64::from(digit - b'0');
        let next = value.checked_mul(10);
        value = if negative {
            next.and_then(|value| value.checked_sub(digit))
        } else {
            next.and_then(|value| value.checked_add(digit))
        }
        .ok_or(InvalidUnit::Overflow { in_units })?;
    }
    value
        .checked_mul(factor)
        .ok_or(InvalidUnit::Overflow { in_units })
}

/// `e` or `E` followed by an optional sign and a digit, possibly after a fraction.
fn looks_scientific(rest: &str) -> bool {
    let after = rest.trim_start_matches(|c: char| c == '.' || c == ',' || c.is_ascii_digit());
    let mut chars = after.chars();
    matches!(chars.next(), Some('e' | 'E'))
        && chars
            .next()
            .is_some_and(|c| c.is_ascii_digit() || ((c == '+' || c == '-') && after.len() > 2))
}

/// A duration for people: the largest unit that divides it exactly (`7d`, `90m`, `1500ms`); negative is `unlimited`.
pub fn show_duration_ms(ms: i64) -> String {
    show(ms, &DURATION_UNITS[..DURATION_UNITS.len() - 1], "ms")
}

/// A size for people: the largest binary unit that divides it exactly, else the largest decimal one, else bytes;
/// negative is `unlimited`.
pub fn show_bytes(bytes: i64) -> String {
    let binary = &SIZE_UNITS[..5];
    let decimal = &SIZE_UNITS[5..];
    match largest(bytes, binary).or_else(|| largest(bytes, decimal)) {
        _ if bytes < 0 => "unlimited".to_owned(),
        Some(shown) => shown,
        None => bytes.to_string(),
    }
}

fn show(value: i64, units: &[(&str, i64)], base: &str) -> String {
    if value < 0 {
        return "unlimited".to_owned();
    }
    largest(value, units).unwrap_or_else(|| format!("{value}{base}"))
}

fn largest(value: i64, units: &[(&str, i64)]) -> Option<String> {
    if value <= 0 {
        return None;
    }
    let (name, factor) = units.iter().rev().find(|(_, factor)| value % factor == 0)?;
    Some(format!("{}{name}", value / factor))
}

/// A duration cut off for people, for figures that nobody typed: its two largest units (`3d 4h`, `59s`): never read back.
pub fn about_duration_ms(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = parts
        .iter()
        .position(|(count, _)| *count > 0)
        .unwrap_or(parts.len() - 1);
    let shown = parts.iter().skip(first).take(2);
    let shown: Vec<String> = shown
        .enumerate()
        .filter(|(place, (count, _))| *place == 0 || *count > 0)
        .map(|(_, (count, unit))| format!("{count}{unit}"))
        .collect();
    shown.join(" ")
}

/// A size rounded for people, for figures that nobody typed (`1.4 GiB`): never read back.
pub fn about_bytes(bytes: i64) -> String {
    let names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = bytes;
    let mut tenths = 0;
    let mut index = 0;
    while scaled >= 1024 && index + 1 < names.len() {
        tenths = (scaled % 1024) * 10 / 1024;
        scaled /= 1024;
        index += 1;
    }
    let name = names.get(index).copied().unwrap_or("B");
    if index == 0 || scaled >= 100 {
        format!("{scaled} {name}")
    } else {
        format!("{scaled}.{tenths} {name}")
    }
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
