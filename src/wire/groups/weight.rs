//! What groups weigh: estimates of what their structures take in memory, on the high side. The bounds are in [`super::room`].
use std::collections::BTreeMap;
use std::sync::Arc;

/// A group without members, in bytes.
pub(super) const GROUP: usize = 512;
/// A member without its texts, in bytes.
pub(super) const MEMBER: usize = 512;
/// A text or a row of bytes beyond its length, in bytes.
pub(super) const TEXT: usize = 64;
/// A partition that a member has or is to have, in bytes.
pub(super) const PARTITION: usize = 96;

pub(super) fn text(text: &str) -> usize {
    TEXT.saturating_add(text.len())
}

pub(super) fn optional(value: Option<&str>) -> usize {
    value.map_or(0, text)
}

pub(super) fn sum(weights: impl IntoIterator<Item = usize>) -> usize {
    weights.into_iter().fold(0, usize::saturating_add)
}

/// What each group holds, in bytes.
#[derive(Debug, Default)]
pub(super) struct Weights {
    groups: BTreeMap<Arc<str>, usize>,
    all: usize,
}

impl Weights {
    /// Notes what a group holds; `None` forgets it.
    pub fn set(&mut self, id: &Arc<str>, weight: Option<usize>) {
        let before = match weight {
            Some(weight) => self.groups.insert(Arc::clone(id), weight),
            None => self.groups.remove(id),
        };
        self.all = self
            .all
            .saturating_sub(before.unwrap_or(0))
            .saturating_add(weight.unwrap_or(0));
    }

    /// What this group holds; 0 where there is none.
    pub fn of(&self, id: &str) -> usize {
        self.groups.get(id).copied().unwrap_or(0)
    }

    /// What all groups hold together.
    pub fn all(&self) -> usize {
        self.all
    }
}
