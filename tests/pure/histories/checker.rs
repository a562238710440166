//! Watches a world: holds every verdict, and every pass after it, against what the change may cost.
use tidemark::resource::contract::{MOST_READERS_LISTED, OnLoss, ReaderKind, WhenNone};
use tidemark::retention::{Cause, Decision, Judgement, Proposed, Rules};

use super::losses::{first_unread, losers, loses, nobody, takes_data};
use crate::partition::Partition;
use crate::world::{Action, Crash, Event, World};

/// A change that went in, and until when it must cost no reader anything.
#[derive(Debug)]
struct Promise {
    before: Vec<Rules>,
    until: i64,
}

/// How often what is worth checking came up.
#[derive(Debug, Default, Clone, Copy)]
pub struct Seen {
    pub refused: u64,
    pub clamped: u64,
    pub resumed: u64,
    pub lowered: u64,
    pub kept: u64,
    pub kept_in_part: u64,
}

/// A world and what has been promised to its readers.
pub struct Checker {
    pub world: World,
    pub seen: Seen,
    promise: Option<Promise>,
}

impl Checker {
    pub fn new(world: World) -> Self {
        Self {
            world,
            seen: Seen::default(),
            promise: None,
        }
    }

    /// Lets `action` happen; the error says what it cost, or which verdict was wrong.
    pub fn step(&mut self, action: &Action) -> Result<(), String> {
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

impl Seen {
    pub fn add(self, other: Self) -> Self {
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
