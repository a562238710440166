//! Who reads a topic, and where each reader stands.
//!
//! A position is the next offset a reader will read. Nothing here trusts it: a commit is an unchecked number that may be
//! negative, lie beyond the log end or have been made on an earlier topic of the same name. What cannot be a position
//! on this log is unknown, and an unknown position is taken to be the worst one.
use std::sync::Arc;

use crate::resource::contract::{ReaderKind, ReadersPolicy};

/// What is known of one reader on one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Known {
    /// Nothing, and nothing says that it reads this partition.
    #[default]
    Absent,
    /// It is assigned the partition and has not committed: it reads from the log start.
    Assigned,
    /// The next offset it will read, as committed or fetched. Any number.
    At(i64),
    /// It committed this offset on an earlier topic of the same name.
    EarlierTopic(i64),
    /// It had a position that has expired; the last one, if that is remembered.
    Expired(Option<i64>),
}

/// One reader's position on one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// What is known.
    pub known: Known,
    /// When it was committed or fetched, in milliseconds; negative where that is not known.
    pub updated_ms: i64,
}

impl Default for Position {
    fn default() -> Self {
        Self {
            known: Known::Absent,
            updated_ms: -1,
        }
    }
}

impl From<Known> for Position {
    fn from(known: Known) -> Self {
        Self {
            known,
            updated_ms: -1,
        }
    }
}

/// Someone who reads a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// [`ReaderKind::Group`] or [`ReaderKind::Fetcher`]. The guard itself adds a required group that is in no list.
    pub kind: ReaderKind,
    /// Group id, or client id and address.
    pub name: Arc<str>,
    /// Positions by partition number. A partition past the end is [`Known::Absent`].
    pub positions: Vec<Position>,
}

impl Reader {
    /// A consumer group. `positions` are by partition number.
    pub fn group(name: &str, positions: impl IntoIterator<Item = Known>) -> Self {
        Self::of(ReaderKind::Group, name, positions)
    }

    /// A consumer without a group, at its last fetch offsets by partition number.
    pub fn fetcher(name: &str, positions: impl IntoIterator<Item = Known>) -> Self {
        Self::of(ReaderKind::Fetcher, name, positions)
    }

    fn of(kind: ReaderKind, name: &str, positions: impl IntoIterator<Item = Known>) -> Self {
        Self {
            kind,
            name: name.into(),
            positions: positions.into_iter().map(Position::from).collect(),
        }
    }

    /// Its position on `partition`.
    pub fn position(&self, partition: i32) -> Position {
        usize::try_from(partition)
            .ok()
            .and_then(|index| self.positions.get(index))
            .copied()
            .unwrap_or_default()
    }
}

/// Where a reader counts from, after its position was held against the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// At this offset, which may lie below the log start: the records between are lost already.
    At(i64),
    /// Assigned without a commit: at the log start.
    FromStart,
    /// Not known, so at the log start: the worst it can be.
    Unknown(Unknown),
}

/// Why a position is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// Committed on an earlier topic of the same name.
    EarlierTopic(i64),
    /// Beyond the log end: the log was truncated or the topic made anew.
    BeyondEnd(i64),
    /// A negative commit.
    Negative(i64),
    /// Expired; the last one, if that is remembered.
    Expired(Option<i64>),
    /// A required group without a commit here.
    NeverCommitted,
}

impl Standing {
    /// Where a reader with position `known` stands on a log that ends at `log_end`; `None` where it does not
    /// read the partition.
    pub fn of(known: Known, required: bool, log_end: i64) -> Option<Self> {
        match known {
            Known::Absent if required => Some(Self::Unknown(Unknown::NeverCommitted)),
            Known::Absent => None,
            Known::Assigned => Some(Self::FromStart),
            Known::At(offset) if offset < 0 => Some(Self::Unknown(Unknown::Negative(offset))),
            Known::At(offset) if offset > log_end => Some(Self::Unknown(Unknown::BeyondEnd(offset))),
            Known::At(offset) => Some(Self::At(offset)),
            Known::EarlierTopic(offset) => Some(Self::Unknown(Unknown::EarlierTopic(offset))),
            // Nobody promised anything to a group whose commits expired by Kafka's own rules, unless it is required.
            Known::Expired(last) if required => Some(Self::Unknown(Unknown::Expired(last))),
            Known::Expired(_) => None,
        }
    }

    /// The first offset it has not read, never below `log_start`.
    pub fn next_offset(self, log_start: i64) -> i64 {
        match self {
            Self::At(offset) => offset.max(log_start),
            Self::FromStart | Self::Unknown(_) => log_start,
        }
    }

    /// The position as a number to show, where it is one.
    pub fn position(self, log_start: i64) -> Option<i64> {
        match self {
            Self::At(offset) => Some(offset),
            Self::FromStart => Some(log_start),
            Self::Unknown(_) => None,
        }
    }

    /// Whether the position is unknown.
    pub fn is_unknown(self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

/// Which readers a policy counts.
#[derive(Debug, Clone)]
pub(super) struct Counted<'a> {
    /// Readers that count, each with whether it is required.
    pub readers: Vec<(&'a Reader, bool)>,
    /// Groups that are left out by name, with the place of the pattern in [`ReadersPolicy::ignored`].
    pub ignored: Vec<(&'a Reader, usize)>,
    /// Required groups that are in no list.
    pub missing: Vec<Reader>,
}

impl<'a> Counted<'a> {
    pub fn of(readers: &'a [Reader], policy: &ReadersPolicy) -> Self {
        let required = |name: &str| policy.required.iter().any(|group| group == name);
        let mut counted = Self {
            readers: Vec::with_capacity(readers.len()),
            ignored: Vec::new(),
            missing: Vec::new(),
        };
        for reader in readers {
            let is_group = reader.kind != ReaderKind::Fetcher;
            let is_required = is_group && required(&reader.name);
            let ignored = policy
                .ignored
                .iter()
                .position(|ignored| is_group && !is_required && matches(&ignored.group, &reader.name));
            match ignored {
                Some(pattern) => counted.ignored.push((reader, pattern)),
                None => counted.readers.push((reader, is_required)),
            }
        }
        for group in &policy.required {
            let known = readers
                .iter()
                .any(|reader| reader.kind != ReaderKind::Fetcher && *reader.name == **group)
                || counted.missing.iter().any(|reader| *reader.name == **group);
            if !known {
                counted.missing.push(Reader::of(ReaderKind::Required, group, []));
            }
        }
        counted
    }

    /// Every reader that counts, with whether it is required.
    pub fn all(&self) -> impl Iterator<Item = (&Reader, bool)> {
        let known = self.readers.iter().map(|(reader, required)| (*reader, *required));
        known.chain(self.missing.iter().map(|reader| (reader, true)))
    }

    pub fn len(&self) -> usize {
        self.readers.len() + self.missing.len()
    }
}

/// Whether `pattern`, in which `*` stands for any run of characters, matches the whole of `name`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
#[path = "readers_tests.rs"]
mod tests;
