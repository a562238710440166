//! Random histories of a topic: whatever happens, in whatever order, no guarded reader loses a record to a change that
//! the settings in force before it would have kept; every refusal names a record that would really go; none stays when
//! its reason is gone; and a clamp is the lowest that is safe.
//!
//! 20,000 histories in the normal run, a million with `TIDEMARK_LONG=1`. A failing one is cut down to the fewest actions
//! that still fail and printed with its seed.
use tidemark::resource::contract::{
    IgnoredReader, MOST_READERS_LISTED, OnLoss, ReaderKind, ReadersPolicy, WhenNone,
};
use tidemark::retention::{Cause, Decision, Judgement, Proposed, Rules};

use crate::oracle::{taken_by_delete_records, taken_sooner};
use crate::partition::Partition;
use crate::random::{Random, rounds};
use crate::world::{Action, Client, Crash, Event, Stamp, To, World};

const CLIENTS: [(ReaderKind, &str); 4] = [
    (ReaderKind::Group, "billing"),
    (ReaderKind::Group, "scratch-1"),
    (ReaderKind::Group, "batch"),
    (ReaderKind::Fetcher, "billing"),
];

/// A change that went in, and until when it must cost no reader anything.
#[derive(Debug)]
struct Promise {
    before: Vec<Rules>,
    until: i64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    refused: u64,
    clamped: u64,
    resumed: u64,
    lowered: u64,
    kept: u64,
    kept_in_part: u64,
}

struct Checker {
    world: World,
    promise: Option<Promise>,
    seen: Seen,
}

/// Where `client` has read to on a partition, by the words of the contract: the first offset that it has not read.
/// `None` where it does not count.
fn first_unread(client: &Client, index: usize, partition: &Partition, policy: &ReadersPolicy) -> Option<i64> {
    let is_group = client.kind == ReaderKind::Group;
    let required = is_group && policy.required.contains(&client.name);
    // The patterns in use here are a name or a name and a star.
    let ignored = policy
        .ignored
        .iter()
        .any(|ignored| match ignored.group.strip_suffix('*') {
            Some(prefix) => client.name.starts_with(prefix),
            None => client.name == ignored.group,
        });
    if is_group && ignored && !required {
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
        _ => (required || client.assigned[index]).then_some(partition.start),
    }
}

fn counts(client: &Client, policy: &ReadersPolicy) -> bool {
    let is_group = client.kind == ReaderKind::Group;
    let required = is_group && policy.required.contains(&client.name);
    let ignored = policy
        .ignored
        .iter()
        .any(|ignored| match ignored.group.strip_suffix('*') {
            Some(prefix) => client.name.starts_with(prefix),
            None => client.name == ignored.group,
        });
    required || (client.is_known(policy) && !(is_group && ignored))
}

/// Data records that `asked` takes sooner than `in_force`, from `first_unread` on.
fn loses(world: &World, index: usize, in_force: &Rules, asked: &Proposed, first_unread: i64) -> bool {
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
fn losers(world: &World, in_force: &[Rules], asked: &[Proposed]) -> Vec<(usize, usize)> {
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

fn nobody(world: &World) -> bool {
    !world.clients.iter().any(|client| counts(client, &world.policy))
}

/// Whether the change takes any data at all, read or not.
fn takes_data(world: &World, in_force: &[Rules], asked: &[Proposed]) -> bool {
    (0..asked.len()).any(|index| {
        asked[index] != Proposed::Rules(in_force[index])
            && loses(world, index, &in_force[index], &asked[index], i64::MIN)
    })
}

impl Checker {
    fn step(&mut self, action: &Action) -> Result<(), String> {
        let had_pending = self.world.pending.is_some();
        let before = self.world.clone();
        let events = self.world.act(action);
        // A verdict is held against the world it was given in; only the last one of an action was given in this one.
        let last = events
            .iter()
            .rposition(|event| matches!(event, Event::Judged { .. }));
        // Where one edit takes several steps, the settings before the first of them are what counts.
        let mut promised = false;
        for (position, event) in events.iter().enumerate() {
            match event {
                Event::Upset => self.promise = None,
                Event::Deleted {
                    partition,
                    before,
                    by,
                    granted,
                } => {
                    if let Some(granted) = granted {
                        self.deleted_in_part(*partition, before, by, granted)?;
                    }
                    self.deleted(*partition, before, by)?;
                }
                Event::Judged {
                    in_force,
                    in_part,
                    asked,
                    judgement,
                    after,
                } => {
                    if Some(position) == last && self.can_check(action) {
                        let deletes = asked
                            .iter()
                            .any(|asked| matches!(asked, Proposed::DeleteRecords(_)));
                        let world = if deletes { &before } else { &self.world };
                        Self::judged(world, in_force, *in_part, asked, judgement, after, &mut self.seen)?;
                    }
                    let change = judgement.lowering && in_force != after;
                    if change && judgement.cause != Cause::LossAccepted {
                        self.seen.lowered += 1;
                        let until = self.world.now + self.world.headroom;
                        if !promised {
                            let before = in_force.clone();
                            self.promise = Some(Promise { before, until });
                            promised = true;
                        }
                    } else if in_force != after {
                        self.promise = None;
                    }
                }
            }
        }
        if had_pending && self.world.pending.is_none() && !matches!(action, Action::Edit { .. }) {
            self.seen.resumed += 1;
        }
        self.no_refusal_outlives_its_reason()?;
        for (index, partition) in self.world.partitions.iter().enumerate() {
            if partition.start > partition.end || partition.start < partition.segments[0].base {
                return Err(format!(
                    "partition {index} starts at {} of {:?}",
                    partition.start,
                    partition.naive()
                ));
            }
        }
        Ok(())
    }

    /// Whether the last verdict was given in the world as it is after the action.
    fn can_check(&self, action: &Action) -> bool {
        match action {
            Action::Append { .. } => false,
            Action::Edit {
                crash: Crash::AfterPersist,
                ..
            } => self.world.pending.is_some(),
            _ => true,
        }
    }

    /// Records went. None of them may be one that a reader has not read and that the settings before a change would keep.
    fn deleted(&mut self, index: usize, before: &Partition, by: &Rules) -> Result<(), String> {
        let world = &self.world;
        let Some(promise) = self.promise.as_ref().filter(|promise| world.now <= promise.until) else {
            return Ok(());
        };
        let (mut kept, mut gone) = (before.naive(), before.naive());
        kept.pass(world.now, &promise.before[index]);
        gone.pass(world.now, by);
        for client in &world.clients {
            let Some(unread) = first_unread(client, index, before, &world.policy) else {
                continue;
            };
            if let Some(lost) = before.last_data(&(unread.max(kept.start)..gone.start)) {
                return Err(format!(
                    "{} {:?} on {index} at {unread} lost offset {lost}, which {:?} keeps and {by:?} took",
                    client.name, client.kind, promise.before[index]
                ));
            }
        }
        self.seen.kept += 1;
        Ok(())
    }

    /// While a change is in force in part, however long, no pass takes an unread record that the settings before it keep.
    fn deleted_in_part(
        &mut self,
        index: usize,
        before: &Partition,
        by: &Rules,
        granted: &Rules,
    ) -> Result<(), String> {
        let world = &self.world;
        let (mut kept, mut gone) = (before.naive(), before.naive());
        kept.pass(world.now, granted);
        gone.pass(world.now, by);
        for client in &world.clients {
            let Some(unread) = first_unread(client, index, before, &world.policy) else {
                continue;
            };
            if let Some(lost) = before.last_data(&(unread.max(kept.start)..gone.start)) {
                return Err(format!(
                    "{} {:?} on {index} at {unread} lost offset {lost} to {by:?}, in part towards {:?}, which \
                     {granted:?} keeps",
                    client.name,
                    client.kind,
                    world.pending.as_ref().map(|pending| &pending.asked)
                ));
            }
        }
        self.seen.kept_in_part += 1;
        Ok(())
    }

    fn judged(
        world: &World,
        in_force: &[Rules],
        in_part: bool,
        asked: &[Proposed],
        judgement: &Judgement,
        after: &[Rules],
        seen: &mut Seen,
    ) -> Result<(), String> {
        let losers = losers(world, in_force, asked);
        let mut named: Vec<(usize, usize)> = Vec::new();
        for risk in judgement.losses.iter() {
            let partition = usize::try_from(risk.partition).unwrap();
            let is_fetcher = risk.kind == ReaderKind::Fetcher;
            let client = world
                .clients
                .iter()
                .position(|client| {
                    client.name == **risk.name && (client.kind == ReaderKind::Fetcher) == is_fetcher
                })
                .ok_or_else(|| format!("{risk:?} names nobody"))?;
            if risk.records <= 0 {
                return Err(format!("{risk:?} counts no record"));
            }
            named.push((client, partition));
        }
        named.sort_unstable();
        let mut expected = losers.clone();
        expected.sort_unstable();
        if named != expected {
            return Err(format!("would lose: {expected:?}, named: {named:?}"));
        }
        let listed: Vec<i64> = judgement.at_risk.iter().map(|risk| risk.records()).collect();
        let mut most: Vec<i64> = judgement.losses.iter().map(|loss| loss.records).collect();
        most.sort_unstable_by(|one, other| other.cmp(one));
        most.truncate(MOST_READERS_LISTED);
        if listed != most {
            return Err(format!("listed {listed:?}, most to lose have {most:?}"));
        }
        for verdict in &judgement.partitions {
            let index = usize::try_from(verdict.partition).unwrap();
            let mut pass = world.partitions[index].naive();
            if let Proposed::Rules(rules) = &asked[index] {
                pass.pass(world.now + world.headroom, rules);
                if pass.start != verdict.would_be_start {
                    return Err(format!("{verdict:?}, but a pass gives {}", pass.start));
                }
            }
        }
        let nobody_refuses = nobody(world) && world.policy.when_none == WhenNone::Refuse;
        match judgement.decision {
            Decision::Refuse if nobody_refuses && takes_data(world, in_force, asked) => seen.refused += 1,
            Decision::Refuse if losers.is_empty() => return Err("refused for nobody".into()),
            Decision::Refuse => seen.refused += 1,
            Decision::Apply if nobody_refuses && takes_data(world, in_force, asked) => {
                return Err("applied without a reader against whenNone".into());
            }
            Decision::Apply if !losers.is_empty() && world.policy.on_loss != OnLoss::Allow => {
                return Err(format!("applied against {losers:?}"));
            }
            Decision::Apply => {}
            Decision::Clamp => {
                seen.clamped += 1;
                Self::clamped(world, in_force, in_part, asked, after)?;
            }
        }
        if judgement.decision == Decision::Refuse && after != in_force {
            return Err(format!("refused, but {after:?} is in force"));
        }
        Ok(())
    }

    /// What was applied loses nothing, lies between the two, and nothing lower would do. Where a part was in force before, it may
    /// have stayed: then it loses nothing now.
    fn clamped(
        world: &World,
        in_force: &[Rules],
        in_part: bool,
        asked: &[Proposed],
        after: &[Rules],
    ) -> Result<(), String> {
        let mut world = world.clone();
        if in_part {
            world.headroom = 0;
        }
        let world = &world;
        for (index, applied) in after.iter().enumerate() {
            let Proposed::Rules(asked) = asked[index] else {
                continue;
            };
            let unsafe_now = |rules: Rules| {
                world.clients.iter().any(|client| {
                    first_unread(client, index, &world.partitions[index], &world.policy).is_some_and(
                        |unread| loses(world, index, &in_force[index], &Proposed::Rules(rules), unread),
                    )
                })
            };
            let context = || {
                format!(
                    "partition {index}: {:?} to {asked:?} gave {applied:?}",
                    in_force[index]
                )
            };
            if unsafe_now(*applied) {
                return Err(format!("the clamp loses data: {}", context()));
            }
            if in_part {
                continue;
            }
            let less = |limit: i64| if limit < 0 { 1 << 50 } else { limit - 1 };
            let lower_ms = Rules {
                retention_ms: less(applied.retention_ms),
                ..*applied
            };
            if applied.retention_ms != asked.retention_ms && !unsafe_now(lower_ms) {
                return Err(format!("retention.ms could be lower: {}", context()));
            }
            let lower_bytes = Rules {
                retention_bytes: less(applied.retention_bytes),
                ..*applied
            };
            if applied.retention_bytes != asked.retention_bytes && !unsafe_now(lower_bytes) {
                return Err(format!("retention.bytes could be lower: {}", context()));
            }
        }
        Ok(())
    }

    fn no_refusal_outlives_its_reason(&self) -> Result<(), String> {
        let world = &self.world;
        let Some(pending) = &world.pending else {
            return Ok(());
        };
        let asked: Vec<Proposed> = pending.asked.iter().copied().map(Proposed::Rules).collect();
        let waits_for_anyone = nobody(world)
            && world.policy.when_none == WhenNone::Refuse
            && takes_data(world, world.granted(), &asked);
        if waits_for_anyone || !losers(world, world.granted(), &asked).is_empty() {
            return Ok(());
        }
        Err(format!(
            "still waits, though nobody would lose anything from {:?} to {:?}",
            world.in_force, pending.asked
        ))
    }
}

fn some_rules(random: &mut Random) -> Rules {
    Rules {
        delete: !random.one_in(15),
        retention_ms: random.pick(&[-1, 0, 50, 200, 500, 1_000]),
        retention_bytes: random.pick(&[-1, -1, -1, 0, 120, 300, 600]),
        segment_ms: random.pick(&[100, 400, 100_000]),
        segment_bytes: random.pick(&[100, 200, 100_000]),
        ignore_ahead_ms: -1,
    }
}

fn some_policy(random: &mut Random) -> ReadersPolicy {
    let ignore = |group: &str| IgnoredReader {
        group: group.to_owned(),
        reason: String::new(),
    };
    ReadersPolicy {
        on_loss: random.pick(&[
            OnLoss::Refuse,
            OnLoss::Refuse,
            OnLoss::Clamp,
            OnLoss::Clamp,
            OnLoss::Allow,
        ]),
        headroom_ms: None,
        when_none: random.pick(&[WhenNone::Allow, WhenNone::Refuse]),
        required: if random.one_in(3) {
            vec!["batch".into()]
        } else {
            Vec::new()
        },
        ignored: match random.between(0, 6) {
            0 => vec![ignore("scratch-*")],
            1 => vec![ignore("billing"), ignore("bat*")],
            _ => Vec::new(),
        },
    }
}

fn some_action(random: &mut Random) -> Action {
    let (partition, client) = (random.index(3), random.index(CLIENTS.len()));
    match random.between(0, 100) {
        0..=27 => Action::Append {
            partition,
            count: random.index(4) + 1,
            timestamp: match random.between(0, 10) {
                0 => Stamp::At(-1),
                1 => Stamp::At(random.pick(&[0, 5, i64::MAX, 1_000_000_000])),
                2 => Stamp::Now(random.between(1, 400)),
                3..=4 => Stamp::Now(-random.between(1, 800)),
                _ => Stamp::Now(0),
            },
            size: random.between(1, 80),
            marker: random.one_in(6),
        },
        28..=45 => Action::Commit {
            client,
            partition,
            to: match random.between(0, 12) {
                0 => To::At(-1),
                1 => To::End(-random.between(1, 4)),
                2 => To::At(0),
                3..=5 => To::End(random.between(0, 3)),
                6 => To::By(-random.between(1, 6)),
                _ => To::By(random.between(1, 6)),
            },
        },
        46..=48 => Action::Join { client, partition },
        49..=50 => Action::Leave { client },
        51 => Action::Expire {
            after: random.between(0, 600),
        },
        52..=66 => Action::Edit {
            rules: (0..random.index(2) + 1).map(|_| some_rules(random)).collect(),
            policy: random.one_in(3).then(|| some_policy(random)),
            headroom: random.pick(&[0, 0, 60, 300]),
            crash: random.pick(&[
                Crash::No,
                Crash::No,
                Crash::No,
                Crash::BeforePersist,
                Crash::AfterPersist,
            ]),
        },
        67..=78 => Action::Pass {
            killed_after: random.one_in(6).then(|| random.index(3)),
        },
        79..=81 => Action::IdleRoll,
        82..=92 => Action::Advance {
            ms: random.between(1, 300),
        },
        93..=94 => Action::StepClock {
            ms: random.pick(&[-500, -50, 700, 100_000]),
        },
        95..=96 => Action::DeleteRecords {
            partition,
            offset: random.between(-1, 12),
        },
        97..=98 => Action::Restart,
        _ => Action::Recreate,
    }
}

fn run(first: Rules, partitions: usize, actions: &[Action]) -> Result<Seen, String> {
    let world = World::new(partitions, &CLIENTS, first);
    let mut checker = Checker {
        world,
        promise: None,
        seen: Seen::default(),
    };
    for (position, action) in actions.iter().enumerate() {
        checker
            .step(action)
            .map_err(|error| format!("after action {position}: {error}\n{}", checker.world.describe()))?;
    }
    Ok(checker.seen)
}

/// The same failure with as few actions as leaving out one at a time gets it down to.
fn shrink(first: Rules, partitions: usize, mut actions: Vec<Action>) -> (Vec<Action>, String) {
    let mut error = run(first, partitions, &actions).err().unwrap_or_default();
    let mut position = 0;
    while position < actions.len() {
        let mut fewer = actions.clone();
        fewer.remove(position);
        match run(first, partitions, &fewer) {
            Err(same) => {
                (actions, error) = (fewer, same);
                position = 0;
            }
            Ok(_) => position += 1,
        }
    }
    (actions, error)
}

fn history(seed: u64) -> Seen {
    let mut random = Random::seeded(seed);
    let partitions = random.index(3) + 1;
    let first = some_rules(&mut random);
    let mut actions = Vec::new();
    for _ in 0..random.between(6, 26) {
        let action = some_action(&mut random);
        let is_edit = matches!(action, Action::Edit { .. });
        actions.push(action);
        // What a change does shows in the passes after it.
        if is_edit && random.one_in(2) {
            actions.push(Action::Advance {
                ms: random.between(1, 80),
            });
            actions.push(Action::Pass { killed_after: None });
        }
    }
    run(first, partitions, &actions).unwrap_or_else(|_| {
        let (actions, error) = shrink(first, partitions, actions);
        panic!("seed {seed}, {partitions} partitions, first {first:?}\n{actions:?}\n{error}");
    })
}

#[test]
fn no_history_costs_a_guarded_reader_a_record() {
    let seeds = rounds(20_000, 1_000_000);
    let workers = u64::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap();
    let parts: Vec<Seen> = std::thread::scope(|scope| {
        let worker = |first: u64| {
            let seeds = seeds.clone();
            let step = usize::try_from(workers).unwrap();
            scope.spawn(move || {
                seeds
                    .skip(usize::try_from(first).unwrap())
                    .step_by(step)
                    .map(history)
                    .fold(Seen::default(), Seen::add)
            })
        };
        let handles: Vec<_> = (0..workers).map(worker).collect();
        handles
            .into_iter()
            .map(|handle| {
                handle
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let seen = parts.into_iter().fold(Seen::default(), Seen::add);
    println!(
        "{} histories from seed {}: {seen:?}",
        seeds.end - seeds.start,
        seeds.start
    );
    let rarest = [seen.refused, seen.clamped, seen.resumed, seen.lowered, seen.kept]
        .into_iter()
        .min();
    let histories = seeds.end - seeds.start;
    assert!(
        rarest >= Some(histories / 50) && seen.kept_in_part >= histories / 200,
        "{seen:?} in {histories} histories is too few of something"
    );
}

impl Seen {
    fn add(self, other: Self) -> Self {
        Self {
            refused: self.refused + other.refused,
            clamped: self.clamped + other.clamped,
            resumed: self.resumed + other.resumed,
            lowered: self.lowered + other.lowered,
            kept: self.kept + other.kept,
            kept_in_part: self.kept_in_part + other.kept_in_part,
        }
    }
}
