//! What a change that waits is waiting for, so that a commit which cannot matter costs one look-up.
use std::collections::HashMap;
use std::sync::Arc;

use super::clamp::Clamped;
use super::guard::Judgement;
use super::outlook::Eases;
use super::readers::{Standing, Unknown};
use crate::resource::contract::ReaderKind;

/// The readers a held change waits for, and how far each has to come.
///
/// It only says when to judge again, never what the outcome is. Besides what it is told here, a change is to be judged again when a
/// segment is rolled or deleted on the topic, at [`Watch::wake_at_ms`], and when its policy changes.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    groups: HashMap<Arc<str>, HashMap<i32, Awaited>>,
    fetchers: HashMap<Arc<str>, HashMap<i32, Awaited>>,
    /// By partition, how many readers are still short of their position.
    short: HashMap<i32, usize>,
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

#[derive(Debug, Clone, Copy)]
struct Awaited {
    position: i64,
    reached: bool,
}

impl Watch {
    /// Waits until every reader that holds the change back is past what it would lose.
    pub fn until_safe(judgement: &Judgement) -> Self {
        let mut watch = Self::over(judgement, false);
        for risk in &judgement.at_risk {
            watch.wait_for(risk.kind, &risk.name, risk.partition, risk.safe_at);
        }
        watch
    }

    /// Waits until a clamped change can step down on any partition. `steps` are the partitions of
    /// [`Judgement::held`] with what was applied there.
    pub fn until_step(judgement: &Judgement, steps: &[(i32, Clamped)]) -> Self {
        let steps: HashMap<i32, i64> = steps
            .iter()
            .map(|(partition, step)| (*partition, step.steps_at))
            .collect();
        let mut watch = Self::over(judgement, true);
        for risk in &judgement.at_risk {
            if let Some(steps_at) = steps
                .get(&risk.partition)
                .filter(|steps_at| risk.lost.start < **steps_at)
            {
                watch.wait_for(risk.kind, &risk.name, risk.partition, *steps_at);
            }
        }
        watch
    }

    fn over(judgement: &Judgement, any: bool) -> Self {
        let mut watch = Self {
            any,
            anyone: judgement.readers_checked == 0,
            eases: judgement
                .held
                .iter()
                .map(|held| (held.partition, held.eases))
                .collect(),
            ..Self::default()
        };
        for risk in &judgement.at_risk {
            if let Standing::Unknown(Unknown::BeyondEnd(position)) = risk.standing {
                let least = watch.beyond_end.entry(risk.partition).or_insert(position);
                *least = position.min(*least);
            }
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
        let readers = if kind == ReaderKind::Fetcher {
            &mut self.fetchers
        } else {
            &mut self.groups
        };
        let Some(awaited) = readers
            .get_mut(name)
            .and_then(|partitions| partitions.get_mut(&partition))
        else {
            return self.anyone;
        };
        let reached = position >= awaited.position;
        if reached == awaited.reached {
            return false;
        }
        awaited.reached = reached;
        let short = self.short.entry(partition).or_default();
        if !reached {
            self.done -= usize::from(*short == 0);
            *short += 1;
            return false;
        }
        *short = short.saturating_sub(1);
        self.done += usize::from(*short == 0);
        *short == 0 && (self.any || self.done == self.short.len())
    }

    /// Whether the change waits for this reader: its arrival, departure, expiry or deletion is a reason to judge again.
    pub fn waits_for(&self, kind: ReaderKind, name: &str) -> bool {
        let readers = if kind == ReaderKind::Fetcher {
            &self.fetchers
        } else {
            &self.groups
        };
        self.anyone || readers.contains_key(name)
    }

    fn wait_for(&mut self, kind: ReaderKind, name: &Arc<str>, partition: i32, position: i64) {
        let readers = if kind == ReaderKind::Fetcher {
            &mut self.fetchers
        } else {
            &mut self.groups
        };
        let awaited = Awaited {
            position,
            reached: false,
        };
        if readers
            .entry(Arc::clone(name))
            .or_default()
            .insert(partition, awaited)
            .is_none()
        {
            *self.short.entry(partition).or_default() += 1;
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
