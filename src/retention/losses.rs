//! Everybody who would lose something to a change, kept small: a refusal may concern a million pairs of reader and
//! partition, and only a few of them are ever told of in words.
use std::ops::Range;
use std::sync::Arc;

use super::readers::Standing;
use crate::resource::contract::{MOST_READERS_LISTED, ReaderKind};

/// A reader that would lose records on a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtRisk {
    /// Where it is known from.
    pub kind: ReaderKind,
    /// Group id, or client id and address.
    pub name: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Where it stands.
    pub standing: Standing,
    /// When it was last seen there, in milliseconds; negative where that is not known.
    pub updated_ms: i64,
    /// The first and the end of the offsets it has not read and would lose.
    pub lost: Range<i64>,
    /// How many there are.
    pub(super) unread: i64,
    /// The position from which it is no longer in the way: after the last data record that would be taken.
    pub safe_at: i64,
    /// The log start offset now.
    pub log_start: i64,
    /// The log start offset that the change would give.
    pub start: i64,
    /// Whether it stands where an open transaction holds those who read committed records only.
    pub held_by_transaction: bool,
}

impl AtRisk {
    /// Records at risk, as a span of offsets: an upper bound where there are gaps and markers, exact where zero.
    pub fn records(&self) -> i64 {
        self.unread
    }
}

/// All losses of a change, by partition and then by reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    readers: Vec<Arc<str>>,
    partitions: Vec<i32>,
    pairs: Vec<Pair>,
}

/// What one reader would lose on one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss<'a> {
    /// Where the reader is known from.
    pub kind: ReaderKind,
    /// Group id, or client id and address.
    pub name: &'a Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Records it would lose, as a span of offsets.
    pub records: i64,
    /// The first offset it has not read and would lose.
    pub from: i64,
    /// The reader's and the partition's place among those of these losses.
    pub(super) place: (usize, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    reader: u32,
    partition: u32,
    kind: ReaderKind,
    from: i64,
    records: i64,
}

impl Losses {
    pub(super) fn of(readers: Vec<Arc<str>>) -> Self {
        Self {
            readers,
            ..Self::default()
        }
    }

    /// How many pairs of reader and partition there are.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether nobody loses anything.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Loss<'_>> {
        self.pairs.iter().filter_map(|pair| {
            let place = (pair.reader as usize, pair.partition as usize);
            let name = self.readers.get(place.0)?;
            Some(Loss {
                kind: pair.kind,
                name,
                partition: *self.partitions.get(place.1)?,
                records: pair.records,
                from: pair.from,
                place,
            })
        })
    }

    /// How many readers and partitions there are.
    pub(super) fn places(&self) -> (usize, usize) {
        (self.readers.len(), self.partitions.len())
    }

    /// Those that follow are on this partition.
    pub(super) fn on(&mut self, partition: i32) {
        self.partitions.push(partition);
    }

    /// Adds the reader with this place in the list that these losses were made of.
    pub(super) fn push(&mut self, reader: usize, risk: &AtRisk) {
        let partition = self.partitions.len().saturating_sub(1);
        if let (Ok(reader), Ok(partition)) = (u32::try_from(reader), u32::try_from(partition)) {
            self.pairs.push(Pair {
                reader,
                partition,
                kind: risk.kind,
                from: risk.lost.start,
                records: risk.records(),
            });
        }
    }
}

/// The readers with most to lose, most first, and no more of them than are listed.
#[derive(Debug, Default)]
pub(super) struct Worst(Vec<AtRisk>);

impl Worst {
    /// Takes it in where it belongs, if it does.
    pub fn offer(&mut self, risk: AtRisk) {
        let key = |risk: &AtRisk| (std::cmp::Reverse(risk.records()), risk.partition);
        let before = |one: &AtRisk, other: &AtRisk| {
            key(one)
                .cmp(&key(other))
                .then_with(|| one.name.cmp(&other.name))
                .is_lt()
        };
        let full = self.0.len() == MOST_READERS_LISTED;
        if full && self.0.last().is_none_or(|last| !before(&risk, last)) {
            return;
        }
        let at = self.0.partition_point(|listed| before(listed, &risk));
        self.0.insert(at, risk);
        self.0.truncate(MOST_READERS_LISTED);
    }

    pub fn into_list(self) -> Vec<AtRisk> {
        self.0
    }
}
