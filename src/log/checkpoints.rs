//! The small text files of a log directory: offset checkpoints, topic id, identity, marker of a clean stop.
//!
//! Kafka's `CheckpointFile`, `PartitionMetadataFile`, `MetaProperties` and `CleanShutdownFileHandler`. Every one of them
//! is replaced whole, never edited, so that a crash leaves the old or the new content. Reading is as tolerant as Kafka's
//! (an empty file is an empty checkpoint, lines split on any white space) and as strict (version, entry count).
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use crate::log::error::LogError;
use crate::log::files::{self, Files};

/// Longest checkpoint that is read, bytes: a quarter of a million partitions with long names.
pub const CHECKPOINT_LIMIT: u64 = 64 * 1024 * 1024;
/// Longest of the other files that is read, bytes.
const SMALL_LIMIT: u64 = 64 * 1024;

/// Offsets by topic and partition.
pub type Offsets = BTreeMap<(String, i32), i64>;

/// Reads an offset checkpoint; a missing file is an empty checkpoint.
///
/// # Errors
/// [`LogError::Malformed`] if the text is none; callers then go on as Kafka does, as if the file were empty, and say so.
pub fn read_offsets(files: &dyn Files, path: &Path) -> Result<Offsets, LogError> {
    match read_text(files, path, CHECKPOINT_LIMIT)? {
        Some(text) => parse_offsets(&text).map_err(|what| LogError::malformed(path, what)),
        None => Ok(Offsets::new()),
    }
}

/// Whether a checkpoint has an entry of `topic`.
pub fn names_topic(offsets: &Offsets, topic: &str) -> bool {
    offsets
        .range((topic.to_owned(), i32::MIN)..=(topic.to_owned(), i32::MAX))
        .next()
        .is_some()
}

/// Replaces an offset checkpoint, crash-safe.
pub fn write_offsets(files: &dyn Files, path: &Path, offsets: &Offsets) -> Result<(), LogError> {
    files::replace(files, path, format_offsets(offsets).as_bytes())
}

/// Reads the text of an offset checkpoint: `<topic> <partition> <offset>` lines.
pub fn parse_offsets(text: &str) -> Result<Offsets, String> {
    let mut offsets = Offsets::new();
    for line in parse_lines(text, 3)? {
        let [topic, partition, offset] = line.as_slice() else {
            return Err("an entry is not three words".to_owned());
        };
        let partition = number("partition", partition)?;
        offsets.insert(((*topic).to_owned(), partition), number("offset", offset)?);
    }
    Ok(offsets)
}

/// The text of an offset checkpoint.
pub fn format_offsets(offsets: &Offsets) -> String {
    let lines = offsets
        .iter()
        .map(|((topic, partition), offset)| format!("{topic} {partition} {offset}"));
    format_lines(lines)
}

/// Takes apart the format common to all checkpoints: version 0, a count, and that many lines of `words` words.
///
/// A text without lines, or with the version alone, holds no entries. Blank lines at the end are ignored.
pub fn parse_lines(text: &str, words: usize) -> Result<Vec<Vec<&str>>, String> {
    let mut lines = text.lines();
    let version = match lines.next().map(str::trim) {
        None => return Ok(Vec::new()),
        Some(version) => number::<i32>("version", version)?,
    };
    if version != 0 {
        return Err(format!("version {version} is unknown, only 0 is"));
    }
    let expected = match lines.next().map(str::trim) {
        None => return Ok(Vec::new()),
        Some(expected) => number::<usize>("number of entries", expected)?,
    };
    let mut entries = Vec::new();
    for line in lines {
        let line: Vec<&str> = line.split_whitespace().collect();
        if line.is_empty() && entries.len() == expected {
            continue;
        }
        if line.len() != words {
            return Err(format!("an entry has {} words instead of {words}", line.len()));
        }
        entries.push(line);
    }
    if entries.len() != expected {
        return Err(format!(
            "{} entries are there, {expected} announced",
            entries.len()
        ));
    }
    Ok(entries)
}

/// Builds the format common to all checkpoints.
pub fn format_lines(lines: impl ExactSizeIterator<Item = String>) -> String {
    let mut text = format!("0\n{}\n", lines.len());
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Reads a number, naming the field where it is none.
pub fn number<T: FromStr>(field: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{field} is not a number: {:?}", shortened(text)))
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Reads a text file of at most `limit` bytes; `None` if it is not there.
pub fn read_text(files: &dyn Files, path: &Path, limit: u64) -> Result<Option<String>, LogError> {
    files::read_small(files, path, limit)?
        .map(|bytes| String::from_utf8(bytes).map_err(|_| LogError::malformed(path, "it is not UTF-8 text")))
        .transpose()
}

/// A 128-bit id in Kafka's text form: 22 characters of URL-safe base64.
pub fn format_id(id: Uuid) -> String {
    URL_SAFE_NO_PAD.encode(id.as_bytes())
}

/// Reads an id in Kafka's text form.
pub fn parse_id(text: &str) -> Result<Uuid, String> {
    URL_SAFE_NO_PAD
        .decode(text)
        .ok()
        .and_then(|bytes| Uuid::from_slice(&bytes).ok())
        .ok_or_else(|| format!("{:?} is not an id of 22 characters", shortened(text)))
}

/// Reads the topic id in a `partition.metadata`; `None` if the file is missing or (as after a crash in Kafka) empty.
pub fn read_topic_id(files: &dyn Files, path: &Path) -> Result<Option<Uuid>, LogError> {
    let Some(text) = read_text(files, path, SMALL_LIMIT)?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    parse_topic_id(&text)
        .map(Some)
        .map_err(|what| LogError::malformed(path, what))
}

/// Reads the text of a `partition.metadata`.
pub fn parse_topic_id(text: &str) -> Result<Uuid, String> {
    let (mut version, mut id) = (None, None);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| format!("line without a colon: {:?}", shortened(line)))?;
        match key {
            "version" => version = Some(number::<i32>("version", value.trim())?),
            "topic_id" => id = Some(parse_id(value.trim())?),
            _ => return Err(format!("unknown field {:?}", shortened(key))),
        }
    }
    match (version, id) {
        (Some(version), _) if version < 0 => Err(format!("version {version} must not be negative")),
        (Some(_), Some(id)) if id.is_nil() => Err("topic_id is zero".to_owned()),
        (Some(_), Some(id)) => Ok(id),
        _ => Err("version or topic_id is missing".to_owned()),
    }
}

/// Replaces a `partition.metadata`, crash-safe.
pub fn write_topic_id(files: &dyn Files, path: &Path, id: Uuid) -> Result<(), LogError> {
    let text = format!("version: 0\ntopic_id: {}", format_id(id));
    files::replace(files, path, text.as_bytes())
}

/// The identity of a log directory (`meta.properties`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetaProperties {
    /// `cluster.id`.
    pub cluster_id: Option<String>,
    /// `node.id`, in version 0 files `broker.id`.
    pub node_id: Option<i32>,
    /// `directory.id`.
    pub directory_id: Option<Uuid>,
}

impl MetaProperties {
    /// Reads Java properties of version 1 or the legacy version 0.
    ///
    /// # Errors
    /// Another version, or a version 1 text without `cluster.id` or `node.id`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let properties = parse_properties(text)?;
        let integer = |key: &str| {
            let value = properties.get(key);
            value.map(|value| number::<i32>(key, value.trim())).transpose()
        };
        let version = integer("version")?.unwrap_or(0);
        let meta = Self {
            cluster_id: properties.get("cluster.id").cloned(),
            node_id: integer(if version == 0 { "broker.id" } else { "node.id" })?,
            directory_id: properties
                .get("directory.id")
                .map(|id| parse_id(id))
                .transpose()?,
        };
        match version {
            0 => Ok(meta),
            1 if meta.cluster_id.is_none() => Err("cluster.id is missing".to_owned()),
            1 if meta.node_id.is_none() => Err("node.id is missing".to_owned()),
            1 => Ok(meta),
            other => Err(format!("version {other} is unknown, only 0 and 1 are")),
        }
    }

    /// The text of a version 1 file.
    pub fn to_text(&self) -> String {
        let mut text = "#\n".to_owned();
        let mut line = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("{key}={}\n", escaped(&value)));
            }
        };
        line("cluster.id", self.cluster_id.clone());
        line("directory.id", self.directory_id.map(format_id));
        line("node.id", self.node_id.map(|id| id.to_string()));
        line("version", Some("1".to_owned()));
        text
    }

    /// Reads the file; `None` if it is not there.
    pub fn load(files: &dyn Files, path: &Path) -> Result<Option<Self>, LogError> {
        read_text(files, path, SMALL_LIMIT)?
            .map(|text| Self::parse(&text).map_err(|what| LogError::malformed(path, what)))
            .transpose()
    }

    /// Replaces the file, crash-safe.
    pub fn store(&self, files: &dyn Files, path: &Path) -> Result<(), LogError> {
        files::replace(files, path, self.to_text().as_bytes())
    }
}

/// The part of Java's properties format that such files use: comments, `=` or `:` or blanks between key and value,
/// backslash escapes. Continued lines and `\u` escapes are refused rather than misread.
fn parse_properties(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut properties = BTreeMap::new();
    for line in text.lines().map(str::trim_start) {
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let (mut key, mut value) = (String::new(), String::new());
        let (mut in_value, mut separated) = (false, false);
        let mut chars = line.chars();
        while let Some(char) = chars.next() {
            let (char, plain) = match char {
                '\\' => match chars.next() {
                    None => return Err("a continued line is not understood".to_owned()),
                    Some('u') => return Err("a \\u escape is not understood".to_owned()),
                    Some('t') => ('\t', false),
                    Some('n') => ('\n', false),
                    Some('r') => ('\r', false),
                    Some(other) => (other, false),
                },
                char => (char, true),
            };
            let blank = plain && char.is_ascii_whitespace();
            if in_value && value.is_empty() && plain && (blank || (!separated && matches!(char, '=' | ':'))) {
                separated |= !blank;
            } else if in_value {
                value.push(char);
            } else if plain && (blank || matches!(char, '=' | ':')) {
                (in_value, separated) = (true, !blank);
            } else {
                key.push(char);
            }
        }
        properties.insert(key, value);
    }
    Ok(properties)
}

fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for char in value.chars() {
        if matches!(char, '\\' | '=' | ':' | '#' | '!') || (text.is_empty() && char == ' ') {
            text.push('\\');
        }
        text.push(char);
    }
    text
}

/// Says whether the last stop was clean, and removes the marker: a crash from here on counts as unclean (KAFKA-10471).
///
/// On a file system that takes no changes the marker cannot be removed; that is an error and not a clean start.
pub fn take_clean_shutdown(files: &dyn Files, path: &Path) -> Result<bool, LogError> {
    let was_clean = files::unlink_if_present(files, path)?;
    if was_clean {
        files::sync_parent(files, path)?;
    }
    Ok(was_clean)
}

/// Leaves the marker of a clean stop; to be called last, after every log closed without an error.
pub fn mark_clean_shutdown(files: &dyn Files, path: &Path) -> Result<(), LogError> {
    files::replace(files, path, br#"{"version":0,"brokerEpoch":-1}"#)
}

#[cfg(test)]
#[path = "checkpoints_tests.rs"]
mod tests;
