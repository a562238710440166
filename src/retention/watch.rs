//! What a change that waits is waiting for, so that a commit which cannot matter costs one look-up.
use std::collections::HashMap;
use std::sync::Arc;

use super::clamp::Clamped;
use super::guard::Judgement;
use super::outlook::Eases;
use crate::resource::contract::ReaderKind;

/// The readers a held change waits for, and how far each has to come.
///
/// It only says when to judge again, never what the outcome is. Besides what it is told here, a change is to be judged again when a
/// segment is rolled or deleted on the topic, at [`Watch::wake_at_ms`], and when its policy changes.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// Readers that are waited for, by name, with their row in the tables below.
    groups: HashMap<Arc<str>, usize>,
    fetchers: HashMap<Arc<str>, usize>,
    /// Partitions that are waited for, with their column.
    places: HashMap<i32, usize>,
    columns: Vec<Column>,
    /// Row by row, which readers are waited for on which partition.
    awaited: Bits,
    /// Which of them are still short of the position.
    short: Bits,
    /// Partitions on which no reader is short any more.
    done: usize,
    /// Whether one partition is enough: each can step down by itself.
    any: bool,
    /// Whether it waits for a reader to show up at all.
    anyone: bool,
    /// By partition, what else can take it out of the way.
    eases: HashMap<i32, Eases>,
    /// By partition, the least position that was unknown because it lay beyond the log end.
    beyond_end: HashMap<i32, i64>,
}

/// One partition that is waited for.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// The position that every reader must reach.
    position: i64,
    /// How many are still short of it.
    short: usize,
}

/// A table of yes and no.
#[derive(Debug, Clone, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn get(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn put(&mut self, at: usize, value: bool) {
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        let bit = 1 << (at % 64);
        if value {
            self.0[at / 64] |= bit;
        } else {
            self.0[at / 64] &= !bit;
        }
    }
}

impl Watch {
    /// Waits until every reader that holds the change back is past what it would lose.
    pub fn until_safe(judgement: &Judgement) -> Self {
        let positions = judgement.held.iter().map(|held| (held.partition, held.safe_at));
        Self::over(judgement, false, positions)
    }

    /// Waits until a clamped change can step down on any partition. `steps` are the partitions of
    /// [`Judgement::held`] with what was applied there.
    pub fn until_step(judgement: &Judgement, steps: &[(i32, Clamped)]) -> Self {
        let positions = steps.iter().map(|(partition, step)| (*partition, step.steps_at));
        Self::over(judgement, true, positions)
    }

    fn over(judgement: &Judgement, any: bool, positions: impl Iterator<Item = (i32, i64)>) -> Self {
        let mut watch = Self {
            any,
            anyone: judgement.readers_checked == 0,
            eases: judgement
                .held
                .iter()
                .map(|held| (held.partition, held.eases))
                .collect(),
            beyond_end: judgement
                .held
                .iter()
                .filter_map(|held| Some((held.partition, held.beyond_end?)))
                .collect(),
            ..Self::default()
        };
        let positions: HashMap<i32, i64> = positions.collect();
        let (readers, partitions) = judgement.losses.places();
        // The columns come first: how many there are is how long a row is.
        let mut columns: Vec<Option<usize>> = vec![None; partitions];
        for loss in judgement.losses.iter() {
            let column = &mut columns[loss.place.1];
            if column.is_none()
                && let Some(position) = positions.get(&loss.partition).copied()
                && loss.from < position
            {
                *column = Some(watch.columns.len());
                watch.places.insert(loss.partition, watch.columns.len());
                watch.columns.push(Column { position, short: 0 });
            }
        }
        let mut rows: Vec<Option<usize>> = vec![None; readers];
        for loss in judgement.losses.iter() {
            let Some(column) = columns[loss.place.1].filter(|at| loss.from < watch.columns[*at].position)
            else {
                continue;
            };
            let row = match rows[loss.place.0] {
                Some(row) => row,
                None => watch.row_of(loss.kind, loss.name),
            };
            rows[loss.place.0] = Some(row);
            watch.wait_for(row, column);
        }
        watch
    }

    /// The earliest time, in milliseconds, at which time alone can change the verdict: the settings in force take what
    /// the change would have taken. `None` where they never do. A wall clock that is set back is a reason of its own.
    pub fn wake_at_ms(&self) -> Option<i64> {
        self.eases.values().filter_map(|eases| eases.at_ms).min()
    }

    /// Notes an append after which the partition's log is `size_bytes` long and ends at `log_end`. True when the change
    /// should be judged again.
    pub fn appended(&self, partition: i32, size_bytes: i64, log_end: i64) -> bool {
        let eases = self.eases.get(&partition).is_some_and(|eases| {
            eases.on_append || eases.at_bytes.is_some_and(|at_bytes| size_bytes >= at_bytes)
        });
        eases
            || self
                .beyond_end
                .get(&partition)
                .is_some_and(|position| log_end >= *position)
    }

    /// Notes a commit or fetch: `position` is the next offset the reader will read. True when the change should be
    /// judged again.
    pub fn moved(&mut self, kind: ReaderKind, name: &str, partition: i32, position: i64) -> bool {
        let Some((at, column)) = self.place(kind, name, partition) else {
            return self.anyone;
        };
        let is_short = position < self.columns[column].position;
        if is_short == self.short.get(at) {
            return false;
        }
        self.short.put(at, is_short);
        let short = &mut self.columns[column].short;
        if is_short {
            self.done -= usize::from(*short == 0);
            *short += 1;
            return false;
        }
        *short = short.saturating_sub(1);
        let all_past = *short == 0;
        self.done += usize::from(all_past);
        all_past && (self.any || self.done == self.columns.len())
    }

    /// Whether the change waits for this reader: its arrival, departure, expiry or deletion is a reason to judge again.
    pub fn waits_for(&self, kind: ReaderKind, name: &str) -> bool {
        self.anyone || self.holds_back(kind, name)
    }

    /// Whether the reader is one of those that hold the change back.
    pub fn holds_back(&self, kind: ReaderKind, name: &str) -> bool {
        self.rows(kind).contains_key(name)
    }

    /// Where a reader that is waited for on a partition stands in the tables, and the column of the partition.
    fn place(&self, kind: ReaderKind, name: &str, partition: i32) -> Option<(usize, usize)> {
        let row = self.rows(kind).get(name)?;
        let column = *self.places.get(&partition)?;
        let at = row * self.columns.len() + column;
        self.awaited.get(at).then_some((at, column))
    }

    fn rows(&self, kind: ReaderKind) -> &HashMap<Arc<str>, usize> {
        match kind {
            ReaderKind::Fetcher => &self.fetchers,
            ReaderKind::Group | ReaderKind::Required => &self.groups,
        }
    }

    fn row_of(&mut self, kind: ReaderKind, name: &Arc<str>) -> usize {
        let next = self.groups.len() + self.fetchers.len();
        let rows = match kind {
            ReaderKind::Fetcher => &mut self.fetchers,
            ReaderKind::Group | ReaderKind::Required => &mut self.groups,
        };
        *rows.entry(Arc::clone(name)).or_insert(next)
    }

    fn wait_for(&mut self, row: usize, column: usize) {
        let at = row * self.columns.len() + column;
        if !self.awaited.get(at) {
            self.awaited.put(at, true);
            self.short.put(at, true);
            self.columns[column].short += 1;
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
