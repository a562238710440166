//! Committed positions: what is durable, what is under way, what is remembered of those that are gone.
//!
//! Invariant: what can be read here is durable. A commit under way only counts as pending, which keeps its
//! group from expiring meanwhile.
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::record::{CommittedOffset, FormerPosition, Gone, PositionKey, Record};

/// Topic -> partition -> position.
type Positions = BTreeMap<Arc<str>, BTreeMap<i32, CommittedOffset>>;

/// The positions of one group.
#[derive(Debug, Default)]
pub struct GroupOffsets {
    topics: Positions,
    pending: usize,
}

impl GroupOffsets {
    /// Every topic with its partitions.
    pub fn topics(&self) -> &Positions {
        &self.topics
    }

    fn is_idle(&self) -> bool {
        self.topics.is_empty() && self.pending == 0
    }
}

/// Group -> partition -> what is remembered.
type FormerOfGroups = BTreeMap<Arc<str>, BTreeMap<i32, FormerPosition>>;

fn position_key(group: &Arc<str>, topic: &Arc<str>, partition: i32) -> PositionKey {
    PositionKey {
        group: Arc::clone(group),
        topic: Arc::clone(topic),
        partition,
    }
}

/// The positions of all groups.
#[derive(Debug, Default)]
pub struct Offsets {
    groups: BTreeMap<Arc<str>, GroupOffsets>,
    /// Topic -> groups with a commit on it.
    readers: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Topic -> group -> partition -> what is remembered.
    former: BTreeMap<Arc<str>, FormerOfGroups>,
    former_count: usize,
    /// What committed and remembered positions hold in memory, bytes.
    held: usize,
}

/// A position without its texts, in bytes; group and topic are kept more than once.
const POSITION: usize = 256;

/// What a position holds in memory, bytes.
fn weight(key: &PositionKey, value: &CommittedOffset) -> usize {
    POSITION + 2 * key.group.len() + key.topic.len() + value.metadata.len()
}

impl Offsets {
    /// What all positions hold in memory, bytes.
    pub fn held_bytes(&self) -> usize {
        self.held
    }

    /// How many bytes more a commit would hold than what it replaces.
    pub fn added_by(&self, key: &PositionKey, value: &CommittedOffset) -> usize {
        let before = self.get(&key.group, &key.topic, key.partition);
        let former = self.former(&key.group, &key.topic, key.partition);
        let before = before.or(former.map(|former| &former.last));
        weight(key, value).saturating_sub(before.map_or(0, |before| weight(key, before)))
    }

    fn replaced(&mut self, key: &PositionKey, old: Option<&CommittedOffset>, new: Option<&CommittedOffset>) {
        let weigh = |value: Option<&CommittedOffset>| value.map_or(0, |value| weight(key, value));
        self.held = self.held.saturating_sub(weigh(old)).saturating_add(weigh(new));
    }

    /// The positions of a group that has some, or has some under way.
    pub fn group(&self, group: &str) -> Option<&GroupOffsets> {
        self.groups.get(group)
    }

    /// Groups that have positions, or have some under way.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.groups.keys()
    }

    /// One position.
    pub fn get(&self, group: &str, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.groups.get(group)?.topics.get(topic)?.get(&partition)
    }

    /// Groups with a commit on `topic`.
    pub fn groups_on(&self, topic: &str) -> impl Iterator<Item = &Arc<str>> {
        self.readers.get(topic).into_iter().flatten()
    }

    /// Groups that had a commit on `topic`, with what is remembered by partition.
    pub fn former_on(
        &self,
        topic: &str,
    ) -> impl Iterator<Item = (&Arc<str>, &BTreeMap<i32, FormerPosition>)> {
        self.former.get(topic).into_iter().flatten()
    }

    /// What is remembered of one group's positions on `topic`, by partition.
    pub fn former_of(&self, group: &str, topic: &str) -> Option<&BTreeMap<i32, FormerPosition>> {
        self.former.get(topic)?.get(group)
    }

    /// What is remembered of one position.
    pub fn former(&self, group: &str, topic: &str, partition: i32) -> Option<&FormerPosition> {
        self.former.get(topic)?.get(group)?.get(&partition)
    }

    /// Notes that changes of this group are being made durable.
    pub fn begin(&mut self, record: &Record) {
        if let Record::Commit { key, .. } = record {
            self.groups.entry(Arc::clone(&key.group)).or_default().pending += 1;
        }
    }

    /// The changes did not become durable.
    pub fn abandon(&mut self, record: &Record) {
        if let Record::Commit { key, .. } = record {
            self.settle(&key.group);
        }
    }

    fn settle(&mut self, group: &Arc<str>) {
        if let Some(offsets) = self.groups.get_mut(group) {
            offsets.pending = offsets.pending.saturating_sub(1);
            if offsets.is_idle() {
                self.groups.remove(group);
            }
        }
    }

    /// The change is durable.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Commit { key, value } => {
                self.put(key, value.clone());
                self.settle(&key.group);
            }
            Record::Forget { key, former } => {
                self.take(key);
                if let Some(former) = former {
                    self.remember(key, former.clone());
                }
            }
            Record::ForgetFormer { key } => self.forget_former(key),
            Record::Group { .. } => {}
            Record::GroupGone { group, forget_former } => self.drop_group(group, *forget_former),
        }
    }

    /// Puts a kept position in place.
    pub fn put(&mut self, key: &PositionKey, value: CommittedOffset) {
        let offsets = self.groups.entry(Arc::clone(&key.group)).or_default();
        let partitions = offsets.topics.entry(Arc::clone(&key.topic)).or_default();
        let old = partitions.insert(key.partition, value.clone());
        self.replaced(key, old.as_ref(), Some(&value));
        if old.is_none() {
            self.readers
                .entry(Arc::clone(&key.topic))
                .or_default()
                .insert(Arc::clone(&key.group));
        }
    }

    /// Puts a remembered position in place.
    pub fn remember(&mut self, key: &PositionKey, former: FormerPosition) {
        let groups = self.former.entry(Arc::clone(&key.topic)).or_default();
        let partitions = groups.entry(Arc::clone(&key.group)).or_default();
        let last = former.last.clone();
        let old = partitions.insert(key.partition, former);
        self.former_count += usize::from(old.is_none());
        self.replaced(key, old.as_ref().map(|old| &old.last), Some(&last));
    }

    fn take(&mut self, key: &PositionKey) {
        let Some(offsets) = self.groups.get_mut(&key.group) else {
            return;
        };
        let Some(partitions) = offsets.topics.get_mut(&key.topic) else {
            return;
        };
        let old = partitions.remove(&key.partition);
        if partitions.is_empty() {
            offsets.topics.remove(&key.topic);
            self.no_longer_on(&Arc::clone(&key.topic), &key.group);
        }
        if self.groups.get(&key.group).is_some_and(GroupOffsets::is_idle) {
            self.groups.remove(&key.group);
        }
        self.replaced(key, old.as_ref(), None);
    }

    fn no_longer_on(&mut self, topic: &Arc<str>, group: &Arc<str>) {
        if let Some(groups) = self.readers.get_mut(topic) {
            groups.remove(group);
            if groups.is_empty() {
                self.readers.remove(topic);
            }
        }
    }

    fn forget_former(&mut self, key: &PositionKey) {
        let Some(groups) = self.former.get_mut(&key.topic) else {
            return;
        };
        let Some(partitions) = groups.get_mut(&key.group) else {
            return;
        };
        let old = partitions.remove(&key.partition);
        self.former_count = self.former_count.saturating_sub(usize::from(old.is_some()));
        if partitions.is_empty() {
            groups.remove(&key.group);
        }
        if groups.is_empty() {
            self.former.remove(&key.topic);
        }
        self.replaced(key, old.as_ref().map(|old| &old.last), None);
    }

    fn drop_group(&mut self, group: &Arc<str>, forget_former: bool) {
        if let Some(offsets) = self.groups.get_mut(group) {
            let topics = std::mem::take(&mut offsets.topics);
            if offsets.pending == 0 {
                self.groups.remove(group);
            }
            for (topic, partitions) in topics {
                self.no_longer_on(&topic, group);
                for (partition, old) in partitions {
                    self.replaced(&position_key(group, &topic, partition), Some(&old), None);
                }
            }
        }
        if forget_former {
            let mut forgotten = Vec::new();
            self.former.retain(|topic, groups| {
                let partitions = groups.remove(group).into_iter().flatten();
                forgotten.extend(
                    partitions.map(|(partition, old)| (position_key(group, topic, partition), old.last)),
                );
                !groups.is_empty()
            });
            self.former_count = self.former_count.saturating_sub(forgotten.len());
            for (key, old) in forgotten {
                self.replaced(&key, Some(&old), None);
            }
        }
    }

    /// Records that end every commit on a deleted topic and remember where its readers were.
    pub fn topic_deleted(&self, topic: &Arc<str>, now_ms: i64) -> Vec<Record> {
        let positions = self.groups_on(topic).flat_map(|group| {
            let partitions = self
                .groups
                .get(group)
                .and_then(|offsets| offsets.topics.get(topic));
            partitions
                .into_iter()
                .flatten()
                .map(move |(partition, value)| (group, *partition, value))
        });
        positions
            .map(|(group, partition, value)| Record::Forget {
                key: position_key(group, topic, partition),
                former: Some(FormerPosition {
                    last: value.clone(),
                    gone_ms: now_ms,
                    why: Gone::TopicDeleted,
                }),
            })
            .collect()
    }

    /// Records that drop remembered positions: those of deleted topics after `retention_ms`, and the oldest beyond `most`. Where a
    /// topic requires a group (`required` holds both names), what is known of it goes by neither.
    pub fn expire_former(
        &self,
        now_ms: i64,
        retention_ms: i64,
        most: usize,
        required: &HashSet<(String, String)>,
    ) -> Vec<Record> {
        let all = self.former.iter().flat_map(|(topic, groups)| {
            groups.iter().flat_map(move |(group, partitions)| {
                partitions.iter().map(move |(partition, former)| {
                    let key = position_key(group, topic, *partition);
                    (key, former)
                })
            })
        });
        let is_old = |former: &FormerPosition| {
            former.why == Gone::TopicDeleted && now_ms.saturating_sub(former.gone_ms) >= retention_ms
        };
        let is_required = |key: &PositionKey| {
            !required.is_empty() && required.contains(&(key.topic.to_string(), key.group.to_string()))
        };
        let may_go = all.filter(|(key, _)| !is_required(key));
        let (old, mut kept): (Vec<_>, Vec<_>) = may_go.partition(|(_, former)| is_old(former));
        // Those that may not go take up room all the same.
        let surplus = self.former_count.saturating_sub(old.len()).saturating_sub(most);
        kept.sort_by_key(|(_, former)| former.gone_ms);
        old.into_iter()
            .chain(kept.into_iter().take(surplus))
            .map(|(key, _)| Record::ForgetFormer { key })
            .collect()
    }
}

/// How the commits of a group age (Kafka's `OffsetExpirationCondition`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ages {
    /// Not at all: the group is rebalancing, or its subscriptions mean nothing to us.
    Never,
    /// Since their commit.
    SinceCommit,
    /// Since the group became empty.
    SinceEmpty(i64),
}

impl Ages {
    /// Whether a commit is over. A retention of its own, given by the client, decides alone.
    pub fn is_over(self, value: &CommittedOffset, now_ms: i64, retention_ms: i64) -> bool {
        let base_ms = match self {
            Self::Never => return false,
            Self::SinceCommit => value.commit_ms,
            Self::SinceEmpty(since_ms) => since_ms,
        };
        match value.expire_ms {
            Some(expire_ms) => now_ms >= expire_ms,
            None => now_ms.saturating_sub(base_ms) >= retention_ms,
        }
    }
}

impl Offsets {
    /// Records that end a group's commits that are over, and whether none would be left.
    pub fn expire(
        &self,
        group: &Arc<str>,
        ages: Ages,
        is_subscribed: impl Fn(&str) -> bool,
        now_ms: i64,
        retention_ms: i64,
    ) -> (Vec<Record>, bool) {
        let Some(offsets) = self.groups.get(group) else {
            return (Vec::new(), true);
        };
        // Which of two commits would end is not known before the one under way is durable.
        if offsets.pending > 0 || ages == Ages::Never {
            return (Vec::new(), false);
        }
        let mut records = Vec::new();
        let mut none_left = true;
        for (topic, partitions) in &offsets.topics {
            if is_subscribed(topic) {
                none_left = false;
                continue;
            }
            for (partition, value) in partitions {
                if !ages.is_over(value, now_ms, retention_ms) {
                    none_left = false;
                    continue;
                }
                records.push(Record::Forget {
                    key: position_key(group, topic, *partition),
                    former: Some(FormerPosition {
                        last: value.clone(),
                        gone_ms: now_ms,
                        why: Gone::Expired,
                    }),
                });
            }
        }
        (records, none_left)
    }
}
