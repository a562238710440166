//! Who reads what, and who would lose it: by the words of the contract and by trying, without the guard.
use tidemark::resource::contract::{ReaderKind, ReadersPolicy};
use tidemark::retention::{Proposed, Rules};

use crate::oracle::{taken_by_delete_records, taken_sooner};
use crate::partition::Partition;
use crate::world::{Client, World};

/// Where `client` has read to on a partition, by the words of the contract: the first offset that it has not read.
/// `None` where it does not count.
pub fn first_unread(
    client: &Client,
    index: usize,
    partition: &Partition,
    policy: &ReadersPolicy,
) -> Option<i64> {
    if is_ignored(client, policy) {
        return None;
    }
    match client.commits[index] {
        Some(commit) if !commit.expired => {
            let known = !commit.earlier && commit.offset >= 0 && commit.offset <= partition.end;
            Some(if known {
                commit.offset.max(partition.start)
            } else {
                partition.start
            })
        }
        _ => (is_required(client, policy) || client.assigned[index]).then_some(partition.start),
    }
}

/// Whether a change has to wait for `client` at all.
fn counts(client: &Client, policy: &ReadersPolicy) -> bool {
    is_required(client, policy) || (client.is_known(policy) && !is_ignored(client, policy))
}

fn is_required(client: &Client, policy: &ReadersPolicy) -> bool {
    client.kind == ReaderKind::Group && policy.required.contains(&client.name)
}

/// A group that is required is not ignored, whatever the patterns say.
fn is_ignored(client: &Client, policy: &ReadersPolicy) -> bool {
    // The patterns in use here are a name or a name and a star.
    let matches = |pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => client.name.starts_with(prefix),
        None => client.name == pattern,
    };
    client.kind == ReaderKind::Group
        && !is_required(client, policy)
        && policy.ignored.iter().any(|ignored| matches(&ignored.group))
}

/// Data records that `asked` takes sooner than `in_force`, from `first_unread` on.
pub fn loses(world: &World, index: usize, in_force: &Rules, asked: &Proposed, first_unread: i64) -> bool {
    let partition = &world.partitions[index];
    let ranges = match asked {
        Proposed::Rules(rules) => taken_sooner(
            &partition.naive(),
            partition.active_since(),
            in_force,
            rules,
            world.now,
            world.headroom,
        ),
        Proposed::DeleteRecords(offset) => {
            taken_by_delete_records(&partition.naive(), *offset, in_force, world.now, world.headroom)
        }
        Proposed::DeleteTopic => unreachable!("no history deletes the topic"),
    };
    ranges.iter().any(|range| {
        let unread = range.start.max(first_unread)..range.end;
        partition.last_data(&unread).is_some()
    })
}

/// Every pair of client and partition that loses data, by trying.
pub fn losers(world: &World, in_force: &[Rules], asked: &[Proposed]) -> Vec<(usize, usize)> {
    let mut losers = Vec::new();
    for index in 0..world.partitions.len() {
        if asked[index] == Proposed::Rules(in_force[index]) {
            continue;
        }
        for (number, client) in world.clients.iter().enumerate() {
            let unread = first_unread(client, index, &world.partitions[index], &world.policy);
            if unread.is_some_and(|unread| loses(world, index, &in_force[index], &asked[index], unread)) {
                losers.push((number, index));
            }
        }
    }
    losers
}

/// Whether the topic has no reader that counts.
pub fn nobody(world: &World) -> bool {
    !world.clients.iter().any(|client| counts(client, &world.policy))
}

/// Whether the change takes any data at all, read or not.
pub fn takes_data(world: &World, in_force: &[Rules], asked: &[Proposed]) -> bool {
    (0..asked.len()).any(|index| {
        asked[index] != Proposed::Rules(in_force[index])
            && loses(world, index, &in_force[index], &asked[index], i64::MIN)
    })
}
