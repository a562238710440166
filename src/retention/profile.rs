//! What retention knows of one partition's segments, kept so that a plan never walks them.
//!
//! The log keeps a profile up to date as it appends, rolls, deletes and truncates. Sizes are kept as running sums and
//! times as a tree of maxima, so that both "how many of the oldest make up this many bytes" and "which is the first
//! that is not old enough" take time logarithmic in the number of segments, also after deletions from the front.
use super::rules::Rules;

/// One segment as retention sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentFacts {
    /// Offset of the segment's first record, and the number in its file name.
    pub base_offset: i64,
    /// Bytes in the `.log` file. Indexes do not count towards `retention.bytes`.
    pub size_bytes: i64,
    /// Largest record timestamp in milliseconds, transaction markers included; negative where no record has one.
    /// 0 is a timestamp like any other.
    pub largest_timestamp: i64,
    /// When the `.log` file was last modified, in milliseconds; stands in where there is no timestamp.
    pub modified_ms: i64,
    /// What the segment's age counts from where timestamps of the future are ignored; `None` where it holds none.
    pub without_future: Option<WithoutFuture>,
}

/// How far ahead of the clock a timestamp may lie, when its record is written, and still be no timestamp of the future: Kafka's default of
/// `message.timestamp.after.max.ms`. Clocks that differ by minutes are no reason to ignore what they say.
pub const CLOCK_TOLERANCE_MS: i64 = 3_600_000;

/// A segment's time without its timestamps of the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WithoutFuture {
    /// The largest of the other timestamps, or when the file was last modified, in milliseconds.
    pub time_ms: i64,
    /// The smallest timestamp of the future that is known. Once it is none any more, nothing is ignored.
    pub future_ms: i64,
}

impl WithoutFuture {
    /// From two neighbours in the time index: the last entry that is not of the future (negative where there is none), and the first that is.
    /// The index says nothing of the records behind the latter, so the segment counts as no older than its file.
    pub fn from_index(past_ms: i64, future_ms: i64, modified_ms: i64) -> Self {
        Self {
            time_ms: past_ms.max(modified_ms),
            future_ms,
        }
    }
}

impl SegmentFacts {
    /// The time from which the segment's age counts: the largest timestamp, or else when the file was modified
    /// (Kafka's `LogSegment.largestTimestamp`).
    pub fn time_ms(&self) -> i64 {
        if self.has_timestamp() {
            self.largest_timestamp
        } else {
            self.modified_ms
        }
    }

    /// The time from which the segment's age counts at `now_ms` under `rules`: as [`SegmentFacts::time_ms`], but for timestamps that the rules
    /// ignore.
    pub fn time_at_ms(&self, now_ms: i64, rules: &Rules) -> i64 {
        match self.without_future {
            Some(without) if rules.ignores(without.future_ms, now_ms) => without.time_ms,
            _ => self.time_ms(),
        }
    }

    /// Whether any record in the segment carries a timestamp.
    pub fn has_timestamp(&self) -> bool {
        self.largest_timestamp >= 0
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    facts: SegmentFacts,
    /// Bytes in all slots before this one, those already popped included.
    bytes_before: i64,
}

impl Slot {
    fn bytes_through(&self) -> i64 {
        self.bytes_before.saturating_add(self.facts.size_bytes)
    }
}

/// The segments of one partition, oldest first; the last one is the active segment.
///
/// Base offsets rise strictly. Positions (`usize`) count from the oldest segment that is still there.
#[derive(Debug, Clone, Default)]
pub struct SegmentProfile {
    slots: Vec<Slot>,
    /// How many slots at the front are popped already; they go when the vector is rebuilt.
    popped: usize,
    latest: MaxTree,
}

impl SegmentProfile {
    /// A partition without segments, as before it is opened.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of segments, the active one included.
    pub fn len(&self) -> usize {
        self.slots.len() - self.popped
    }

    /// Whether there is no segment at all, which an open partition never shows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The segment at `index`, counted from the oldest.
    pub fn get(&self, index: usize) -> Option<&SegmentFacts> {
        self.slot(index).map(|slot| &slot.facts)
    }

    /// The active segment.
    pub fn active(&self) -> Option<&SegmentFacts> {
        self.live().last().map(|slot| &slot.facts)
    }

    /// All segments, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &SegmentFacts> + ExactSizeIterator {
        self.live().iter().map(|slot| &slot.facts)
    }

    /// Bytes of all segments together, the active one included.
    pub fn total_bytes(&self) -> i64 {
        self.bytes_in_first(self.len())
    }

    /// Bytes of the `count` oldest segments together.
    pub fn bytes_in_first(&self, count: usize) -> i64 {
        let origin = self.slot(0).map_or(0, |slot| slot.bytes_before);
        let through = count
            .min(self.len())
            .checked_sub(1)
            .and_then(|last| self.slot(last));
        through.map_or(0, |slot| slot.bytes_through().saturating_sub(origin))
    }

    /// The segment that holds `offset`, or would: the last one whose base offset is not above it.
    pub fn position_of(&self, offset: i64) -> Option<usize> {
        self.live()
            .partition_point(|slot| slot.facts.base_offset <= offset)
            .checked_sub(1)
    }

    /// The latest [`SegmentFacts::time_ms`] among the segments from `from` up to and including `to`.
    pub fn latest_time_ms(&self, from: usize, to: usize) -> Option<i64> {
        (from <= to && to < self.len()).then(|| self.latest.max(self.popped + from, self.popped + to))
    }

    /// The first segment whose [`SegmentFacts::time_ms`] is at least `time_ms`.
    pub fn first_reaching(&self, time_ms: i64) -> Option<usize> {
        let index = self.first_time(0, self.len(), |time| time >= time_ms);
        (index < self.len()).then_some(index)
    }

    /// The first of the segments with the largest record timestamp, and the first of all where no record has one.
    pub fn first_with_largest(&self) -> Option<usize> {
        let latest = self.latest_time_ms(0, self.len().checked_sub(1)?)?;
        let index = self.first_reaching(latest)?;
        if self.get(index).is_some_and(SegmentFacts::has_timestamp) {
            return Some(index);
        }
        // A file's modification time stands in the way of the tree.
        let mut largest = (0, i64::MIN);
        for (index, segment) in self.iter().enumerate() {
            if segment.largest_timestamp > largest.1 {
                largest = (index, segment.largest_timestamp);
            }
        }
        Some(largest.0)
    }

    /// How many of the oldest segments end at or below `offset`, the active one left out: its end is not a base.
    pub(super) fn closed_ending_by(&self, offset: i64) -> usize {
        self.live().get(1..).map_or(0, |successors| {
            successors.partition_point(|slot| slot.facts.base_offset <= offset)
        })
    }

    /// The end of the longest run of segments from `from`, not going past `limit`, whose sizes sum up to at most
    /// `bytes`.
    pub(super) fn run_within_bytes(&self, from: usize, limit: usize, bytes: i64) -> usize {
        let origin = self.slot(from).map_or(0, |slot| slot.bytes_before);
        let run = self.live().get(from..limit).unwrap_or_default();
        from + run.partition_point(|slot| slot.bytes_through().saturating_sub(origin) <= bytes)
    }

    /// The first segment from `from` on, not going past `limit`, whose time `stays`; `limit` where none does.
    /// Where a time stays, every later time must stay too.
    pub(super) fn first_time(&self, from: usize, limit: usize, stays: impl Fn(i64) -> bool) -> usize {
        if from >= limit {
            return from;
        }
        match self.latest.first(self.popped + from, stays) {
            Some(slot) => limit.min(slot - self.popped),
            None => limit,
        }
    }

    /// Adds a segment after a roll; it becomes the active one. A segment with the base offset of the active one
    /// replaces it, as a roll of an empty segment does.
    pub fn push(&mut self, facts: SegmentFacts) {
        if self
            .active()
            .is_some_and(|active| active.base_offset == facts.base_offset)
        {
            self.set_active(facts);
            return;
        }
        debug_assert!(
            self.active()
                .is_none_or(|active| active.base_offset < facts.base_offset)
        );
        if self.popped > self.slots.len() / 2 {
            self.compact();
        }
        let bytes_before = self.slots.last().map_or(0, Slot::bytes_through);
        self.slots.push(Slot {
            facts: sane(facts),
            bytes_before,
        });
        if self.slots.len() > self.latest.capacity() {
            self.latest = MaxTree::of(self.slots.iter().map(|slot| slot.facts.time_ms()));
        } else {
            self.latest.set(self.slots.len() - 1, facts.time_ms());
        }
    }

    /// Replaces what is known of the active segment, after an append or a truncation. Nothing to do where there is none.
    pub fn set_active(&mut self, facts: SegmentFacts) {
        if self.is_empty() {
            return;
        }
        let position = self.slots.len() - 1;
        if let Some(slot) = self.slots.last_mut() {
            slot.facts = sane(facts);
            self.latest.set(position, facts.time_ms());
        }
    }

    /// Forgets the `count` oldest segments, after their deletion.
    pub fn pop_front(&mut self, count: usize) {
        self.popped = self.slots.len().min(self.popped.saturating_add(count));
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Keeps the `count` oldest segments only, after a truncation; the last of them becomes the active one.
    pub fn truncate(&mut self, count: usize) {
        let keep = self.popped.saturating_add(count);
        for position in keep..self.slots.len() {
            self.latest.set(position, i64::MIN);
        }
        self.slots.truncate(keep);
        self.pop_front(0);
    }

    fn live(&self) -> &[Slot] {
        self.slots.get(self.popped..).unwrap_or_default()
    }

    fn slot(&self, index: usize) -> Option<&Slot> {
        self.live().get(index)
    }

    fn compact(&mut self) {
        let facts: Vec<SegmentFacts> = self.iter().copied().collect();
        let mut bytes_before = 0_i64;
        self.slots = facts
            .into_iter()
            .map(|facts| {
                let slot = Slot { facts, bytes_before };
                bytes_before = slot.bytes_through();
                slot
            })
            .collect();
        self.popped = 0;
        self.latest = MaxTree::of(self.slots.iter().map(|slot| slot.facts.time_ms()));
    }
}

impl FromIterator<SegmentFacts> for SegmentProfile {
    fn from_iter<I: IntoIterator<Item = SegmentFacts>>(segments: I) -> Self {
        let mut profile = Self::new();
        for facts in segments {
            profile.push(facts);
        }
        profile
    }
}

/// A negative size would make the running sums fall; a file has none.
fn sane(facts: SegmentFacts) -> SegmentFacts {
    SegmentFacts {
        size_bytes: facts.size_bytes.max(0),
        ..facts
    }
}

/// A complete binary tree of maxima over positions `0..capacity`; positions not set hold `i64::MIN`.
#[derive(Debug, Clone, Default)]
struct MaxTree {
    /// Root at 1, children of `n` at `2n` and `2n + 1`, leaves from `capacity` on.
    nodes: Vec<i64>,
}

impl MaxTree {
    fn of(values: impl ExactSizeIterator<Item = i64>) -> Self {
        let capacity = (values.len() + 1).next_power_of_two();
        let mut nodes = vec![i64::MIN; capacity];
        nodes.extend(values);
        nodes.resize(2 * capacity, i64::MIN);
        for node in (1..capacity).rev() {
            nodes[node] = nodes[2 * node].max(nodes[2 * node + 1]);
        }
        Self { nodes }
    }

    fn capacity(&self) -> usize {
        self.nodes.len() / 2
    }

    fn set(&mut self, position: usize, value: i64) {
        let mut node = self.capacity() + position;
        if let Some(leaf) = self.nodes.get_mut(node) {
            *leaf = value;
        }
        while node > 1 {
            node /= 2;
            let max = self.nodes[2 * node].max(self.nodes[2 * node + 1]);
            if self.nodes[node] == max {
                return;
            }
            self.nodes[node] = max;
        }
    }

    /// The maximum over `from..=to`, both within capacity.
    fn max(&self, from: usize, to: usize) -> i64 {
        let (mut low, mut high) = (self.capacity() + from, self.capacity() + to + 1);
        let mut max = i64::MIN;
        while low < high {
            if !low.is_multiple_of(2) {
                max = max.max(self.nodes[low]);
                low += 1;
            }
            if !high.is_multiple_of(2) {
                high -= 1;
                max = max.max(self.nodes[high]);
            }
            low /= 2;
            high /= 2;
        }
        max
    }

    /// The first position from `from` on for whose value `holds`, given that it holds for every larger value too.
    fn first(&self, from: usize, holds: impl Fn(i64) -> bool) -> Option<usize> {
        let capacity = self.capacity();
        if from >= capacity {
            return None;
        }
        let mut node = capacity + from;
        loop {
            // Up while the node is a left child's subtree start, then down into it if the answer lies within.
            while node.is_multiple_of(2) {
                node /= 2;
            }
            if holds(self.nodes[node]) {
                while node < capacity {
                    node *= 2;
                    if !holds(self.nodes[node]) {
                        node += 1;
                    }
                }
                return Some(node - capacity);
            }
            node += 1;
            if node.is_power_of_two() {
                return None;
            }
        }
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
