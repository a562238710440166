//! Who of a group's members gets which partition: Kafka's server-side assignors `uniform` and `range`.
//!
//! Both are pure and depend on nothing but their input, so that a repeated computation moves nothing. Every
//! partition of a topic that somebody subscribes to goes to exactly one member that subscribes to it.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

/// Topic id -> partitions.
pub type Partitions = BTreeMap<Uuid, BTreeSet<i32>>;

/// An assignor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignor {
    /// Even numbers per member, and as few moves as that allows.
    Uniform,
    /// A contiguous range of each topic per member.
    Range,
}

impl Assignor {
    /// All, the default first.
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    /// The name clients ask for it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// The assignor of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// The new assignment.
    pub fn assign(self, input: &Input<'_>) -> BTreeMap<Arc<str>, Partitions> {
        match self {
            Self::Uniform => uniform(input),
            Self::Range => range(input),
        }
    }
}

/// A member as an assignor sees it.
#[derive(Debug, Clone, Default)]
pub struct Subscriber {
    /// Instance id of a static member; keeps its place when it comes back under another member id.
    pub instance_id: Option<Arc<str>>,
    /// Topics it subscribes to and that exist.
    pub topics: BTreeSet<Uuid>,
}

/// What there is to assign, and to whom.
#[derive(Debug)]
pub struct Input<'a> {
    /// Members by id.
    pub members: &'a BTreeMap<Arc<str>, Subscriber>,
    /// Number of partitions of each subscribed topic.
    pub partitions: &'a BTreeMap<Uuid, i32>,
    /// The assignment so far.
    pub current: &'a BTreeMap<Arc<str>, Partitions>,
}

fn range(input: &Input<'_>) -> BTreeMap<Arc<str>, Partitions> {
    let mut result: BTreeMap<Arc<str>, Partitions> = empty(input);
    for (topic, count) in input.partitions {
        let mut subscribers: Vec<_> = input
            .members
            .iter()
            .filter(|(_, member)| member.topics.contains(topic))
            .collect();
        // Static members first and by their own name, so that a restart moves nothing.
        subscribers.sort_by_key(|(id, member)| match &member.instance_id {
            Some(instance) => (0, Arc::clone(instance)),
            None => (1, Arc::clone(id)),
        });
        let Ok(members) = i32::try_from(subscribers.len()) else {
            continue;
        };
        if members == 0 {
            continue;
        }
        let (each, extra) = (count / members, count % members);
        let mut first = 0;
        for (position, (id, _)) in (0..members).zip(subscribers) {
            let end = first + each + i32::from(position < extra);
            if end > first
                && let Some(own) = result.get_mut(id)
            {
                own.insert(*topic, (first..end).collect());
            }
            first = end;
        }
    }
    result
}

fn empty(input: &Input<'_>) -> BTreeMap<Arc<str>, Partitions> {
    let members = input.members.keys();
    members.map(|id| (Arc::clone(id), Partitions::new())).collect()
}

/// A member while partitions are handed out.
struct Share<'a> {
    id: &'a Arc<str>,
    topics: &'a BTreeSet<Uuid>,
    own: BTreeSet<(Uuid, i32)>,
}

fn uniform(input: &Input<'_>) -> BTreeMap<Arc<str>, Partitions> {
    let is_read = |topic: &Uuid| input.members.values().any(|member| member.topics.contains(topic));
    let mut free: BTreeSet<(Uuid, i32)> = input
        .partitions
        .iter()
        .filter(|(topic, _)| is_read(topic))
        .flat_map(|(topic, count)| (0..*count).map(|partition| (*topic, partition)))
        .collect();
    // What a member has and may keep, it keeps to begin with.
    let mut shares: Vec<Share<'_>> = input
        .members
        .iter()
        .map(|(id, member)| {
            let current = input.current.get(id).into_iter().flatten();
            let own = current
                .filter(|(topic, _)| member.topics.contains(topic))
                .flat_map(|(topic, partitions)| partitions.iter().map(|partition| (*topic, *partition)))
                .filter(|partition| free.remove(partition))
                .collect();
            Share {
                id,
                topics: &member.topics,
                own,
            }
        })
        .collect();
    let same = shares
        .iter()
        .all(|share| Some(share.topics) == shares.first().map(|first| first.topics));
    if same {
        even_out(&mut shares, free);
    } else {
        hand_out(&mut shares, free);
        level(&mut shares);
    }
    shares
        .into_iter()
        .map(|share| {
            let mut partitions = Partitions::new();
            for (topic, partition) in share.own {
                partitions.entry(topic).or_default().insert(partition);
            }
            (Arc::clone(share.id), partitions)
        })
        .collect()
}

/// All members subscribe to the same: everybody gets the quota, some one more.
fn even_out(shares: &mut [Share<'_>], mut free: BTreeSet<(Uuid, i32)>) {
    if shares.is_empty() {
        return;
    }
    let total = free.len() + shares.iter().map(|share| share.own.len()).sum::<usize>();
    let (quota, mut extra) = (total / shares.len(), total % shares.len());
    let mut quotas = Vec::with_capacity(shares.len());
    for share in shares.iter_mut() {
        let keeps_one_more = extra > 0 && share.own.len() > quota;
        extra -= usize::from(keeps_one_more);
        let own_quota = quota + usize::from(keeps_one_more);
        while share.own.len() > own_quota {
            free.extend(share.own.pop_last());
        }
        quotas.push(own_quota);
    }
    for (share, own_quota) in shares.iter_mut().zip(quotas) {
        let one_more = own_quota == quota && extra > 0;
        extra -= usize::from(one_more);
        let own_quota = own_quota + usize::from(one_more);
        while share.own.len() < own_quota {
            let Some(partition) = free.pop_first() else {
                return;
            };
            share.own.insert(partition);
        }
    }
}

/// Gives each free partition to the subscriber with the fewest, those with the least choice first.
fn hand_out(shares: &mut [Share<'_>], free: BTreeSet<(Uuid, i32)>) {
    let mut choices: BTreeMap<Uuid, usize> = BTreeMap::new();
    for share in shares.iter() {
        for topic in share.topics {
            *choices.entry(*topic).or_default() += 1;
        }
    }
    let mut free: Vec<_> = free.into_iter().collect();
    free.sort_by_key(|(topic, _)| choices.get(topic).copied().unwrap_or(0));
    for partition in free {
        let fewest = shares
            .iter_mut()
            .filter(|share| share.topics.contains(&partition.0))
            .min_by_key(|share| share.own.len());
        if let Some(share) = fewest {
            share.own.insert(partition);
        }
    }
}

/// Moves partitions from members with many to members with at least two fewer until no move helps. Each move
/// brings two numbers closer together, so it ends.
fn level(shares: &mut [Share<'_>]) {
    loop {
        let mut moved = false;
        let mut donors: Vec<usize> = (0..shares.len()).collect();
        donors.sort_by_key(|donor| std::cmp::Reverse(shares[*donor].own.len()));
        for donor in donors {
            let topics: BTreeSet<Uuid> = shares[donor].own.iter().map(|(topic, _)| *topic).collect();
            for topic in topics {
                let many = shares[donor].own.len();
                let taker = (0..shares.len())
                    .filter(|taker| *taker != donor && shares[*taker].topics.contains(&topic))
                    .min_by_key(|taker| shares[*taker].own.len())
                    .filter(|taker| shares[*taker].own.len() + 1 < many);
                let Some(taker) = taker else {
                    continue;
                };
                let partition = shares[donor].own.iter().rfind(|(own, _)| *own == topic).copied();
                if let Some(partition) = partition {
                    shares[donor].own.remove(&partition);
                    shares[taker].own.insert(partition);
                    moved = true;
                }
            }
        }
        if !moved {
            return;
        }
    }
}

#[cfg(test)]
#[path = "assignor_tests.rs"]
mod tests;
