//! A topic in miniature: partitions with real records, readers of every kind, a guard before every change, passes, a
//! clock that is stepped and a process that is killed. It drives the core as the engine does and asserts nothing;
//! [`histories`](crate::histories) watches it.
mod door;
mod happening;

use tidemark::resource::contract::{ReaderKind, ReadersPolicy};
use tidemark::retention::{Rules, Watch, plan};

pub use self::happening::{Action, Crash, Event, Stamp, To};
use crate::partition::{Partition, Record};

#[derive(Debug, Clone, Copy)]
pub struct Commit {
    pub offset: i64,
    pub at: i64,
    /// On a topic of the same name that is no more.
    pub earlier: bool,
    pub expired: bool,
}

#[derive(Debug, Clone)]
pub struct Client {
    pub kind: ReaderKind,
    pub name: String,
    pub commits: Vec<Option<Commit>>,
    pub assigned: Vec<bool>,
}

#[derive(Debug, Clone)]
pub struct Pending {
    pub asked: Vec<Rules>,
    /// The settings that a change began from of which part is in force.
    before: Option<Vec<Rules>>,
    watch: Watch,
}

#[derive(Debug, Clone)]
pub struct World {
    pub now: i64,
    pub partitions: Vec<Partition>,
    pub in_force: Vec<Rules>,
    pub policy: ReadersPolicy,
    pub headroom: i64,
    pub clients: Vec<Client>,
    pub pending: Option<Pending>,
    events: Vec<Event>,
}

impl World {
    pub fn new(partitions: usize, clients: &[(ReaderKind, &str)], rules: Rules) -> Self {
        let now = 1_000_000;
        let client = |(kind, name): &(ReaderKind, &str)| Client {
            kind: *kind,
            name: (*name).to_owned(),
            commits: vec![None; partitions],
            assigned: vec![false; partitions],
        };
        Self {
            now,
            partitions: vec![Partition::new(now); partitions],
            in_force: vec![rules; partitions],
            policy: ReadersPolicy::default(),
            headroom: 0,
            clients: clients.iter().map(client).collect(),
            pending: None,
            events: Vec::new(),
        }
    }

    pub fn act(&mut self, action: &Action) -> Vec<Event> {
        match *action {
            Action::Append {
                partition,
                count,
                timestamp,
                size,
                marker,
            } => {
                self.append(partition, count, timestamp, size, marker);
            }
            Action::Commit {
                client,
                partition,
                to,
            } => self.commit(client, partition, to),
            Action::Join { client, partition } => {
                let partition = partition % self.partitions.len();
                let client = self.client(client);
                client.assigned[partition] = client.kind == ReaderKind::Group;
                let (kind, name) = (client.kind, client.name.clone());
                self.events.push(Event::Upset);
                self.judge_if(|watch| watch.waits_for(kind, &name));
            }
            Action::Leave { client } => {
                let client = self.client(client);
                client.assigned.fill(false);
                if client.kind == ReaderKind::Fetcher {
                    client.commits.fill(None);
                }
                let (kind, name) = (client.kind, client.name.clone());
                self.judge_if(|watch| watch.waits_for(kind, &name));
            }
            Action::Expire { after } => {
                let before = self.now - after;
                let gone: Vec<String> = self
                    .clients
                    .iter_mut()
                    .filter(|client| client.kind == ReaderKind::Group && !client.assigned.contains(&true))
                    .map(|client| {
                        let old = client
                            .commits
                            .iter_mut()
                            .flatten()
                            .filter(|commit| commit.at <= before);
                        old.for_each(|commit| commit.expired = true);
                        client.name.clone()
                    })
                    .collect();
                self.judge_if(|watch| gone.iter().any(|name| watch.waits_for(ReaderKind::Group, name)));
            }
            Action::Edit {
                ref rules,
                ref policy,
                headroom,
                crash,
            } => self.edit(rules, policy, headroom, crash),
            Action::Pass { killed_after } => self.pass(killed_after),
            Action::IdleRoll => {
                let due = |world: &Self, partition: &Partition, rules: &Rules| {
                    partition
                        .active_since()
                        .is_some_and(|since| world.now.saturating_sub(since) > rules.segment_ms)
                };
                for index in 0..self.partitions.len() {
                    if due(self, &self.partitions[index], &self.in_force[index]) {
                        self.partitions[index].roll(self.now);
                    }
                }
                self.judge_pending();
            }
            Action::Advance { ms } => {
                self.now += ms;
                let now = self.now;
                self.judge_if(|watch| watch.wake_at_ms().is_some_and(|at| at <= now));
            }
            Action::StepClock { ms } => {
                self.now += ms;
                self.events.push(Event::Upset);
                self.judge_pending();
            }
            Action::DeleteRecords { partition, offset } => self.delete_records(partition, offset),
            Action::Restart => self.restart(),
            Action::Recreate => {
                for partition in &mut self.partitions {
                    *partition = Partition::new(self.now);
                }
                self.clients
                    .iter_mut()
                    .flat_map(|client| client.commits.iter_mut().flatten())
                    .for_each(|commit| {
                        commit.earlier = true;
                    });
                self.events.push(Event::Upset);
                self.judge_pending();
            }
        }
        std::mem::take(&mut self.events)
    }

    /// What one needs to see of it to understand a failure.
    pub fn describe(&self) -> String {
        let logs = self
            .partitions
            .iter()
            .map(|log| format!("{:?} since {:?}", log.naive(), log.active_since()));
        let logs: Vec<String> = logs.collect();
        let readers = self.readers();
        format!(
            "now {} headroom {}\n{}\n{readers:?}",
            self.now,
            self.headroom,
            logs.join("\n")
        )
    }

    /// What a pass takes now from `partition`, if it takes anything: the core's word, as the engine would use it.
    pub fn plan(&self, partition: usize) -> tidemark::retention::Plan {
        let log = &self.partitions[partition];
        plan(
            &log.profile,
            log.start,
            log.end,
            log.end,
            self.now,
            &self.in_force[partition],
        )
    }

    /// What changes are held against: the settings in force, or those before a change that is in force in part.
    pub fn granted(&self) -> &[Rules] {
        self.before().unwrap_or(&self.in_force)
    }

    /// The settings before a change that is in force in part.
    pub fn before(&self) -> Option<&[Rules]> {
        self.pending.as_ref()?.before.as_deref()
    }

    fn client(&mut self, client: usize) -> &mut Client {
        let client = client % self.clients.len();
        &mut self.clients[client]
    }

    fn append(&mut self, partition: usize, count: usize, timestamp: Stamp, size: i64, marker: bool) {
        let index = partition % self.partitions.len();
        let timestamp = match timestamp {
            Stamp::Now(by) => (self.now + by).max(0),
            Stamp::At(at) => at,
        };
        for _ in 0..count {
            let partition = &mut self.partitions[index];
            let segments = partition.segments.len();
            let record = Record {
                offset: partition.end,
                timestamp,
                size,
                marker,
            };
            partition.append(record, self.now, &self.in_force[index]);
            let rolled = partition.segments.len() > segments;
            let (bytes, end) = (partition.profile.total_bytes(), partition.end);
            let number = i32::try_from(index).unwrap();
            self.judge_if(|watch| rolled || watch.appended(number, bytes, end));
        }
        self.events.push(Event::Upset);
    }

    fn commit(&mut self, client: usize, partition: usize, to: To) {
        let partition = partition % self.partitions.len();
        let (end, now) = (self.partitions[partition].end, self.now);
        let start = self.partitions[partition].start;
        let client = self.client(client);
        let before = client.commits[partition].filter(|commit| !commit.earlier && !commit.expired);
        let from = before.map_or(start, |commit| commit.offset);
        let offset = match to {
            To::By(by) => (from + by).min(end),
            To::End(short) => end - short,
            To::At(offset) => offset,
        };
        client.commits[partition] = Some(Commit {
            offset,
            at: now,
            earlier: false,
            expired: false,
        });
        let (kind, name) = (client.kind, client.name.clone());
        if before.is_none_or(|before| offset < before.offset) || !(0..=end).contains(&offset) {
            self.events.push(Event::Upset);
        }
        let number = i32::try_from(partition).unwrap();
        if self
            .pending
            .as_mut()
            .is_some_and(|pending| pending.watch.moved(kind, &name, number, offset))
        {
            self.judge_pending();
        }
    }

    fn pass(&mut self, killed_after: Option<usize>) {
        if self.before().is_some() {
            self.judge_pending();
        }
        let mut left = killed_after.unwrap_or(usize::MAX);
        for index in 0..self.partitions.len() {
            let plan = self.plan(index);
            if plan.is_empty() {
                continue;
            }
            self.events.push(Event::Deleted {
                partition: index,
                before: Box::new(self.partitions[index].clone()),
                by: self.in_force[index],
                granted: self.before().map(|granted| granted[index]),
            });
            let now = self.now;
            let partition = &mut self.partitions[index];
            if plan.rolls_active {
                partition.roll(now);
            }
            let count = plan.deleted().min(left);
            partition.segments.drain(..count);
            partition.profile.pop_front(count);
            partition.start = partition.start.max(plan.new_log_start);
            left -= count;
            if left == 0 {
                break;
            }
        }
        if killed_after.is_some() {
            self.restart();
        } else {
            self.judge_pending();
        }
    }

    fn restart(&mut self) {
        self.partitions.iter_mut().for_each(Partition::restart);
        self.judge_pending();
    }

    fn edit(&mut self, rules: &[Rules], policy: &Option<ReadersPolicy>, headroom: i64, crash: Crash) {
        if crash == Crash::BeforePersist {
            self.restart();
            return;
        }
        if let Some(policy) = policy {
            self.policy = policy.clone();
            self.events.push(Event::Upset);
        }
        self.headroom = headroom;
        let asked: Vec<Rules> = (0..self.partitions.len())
            .map(|index| rules[index % rules.len()])
            .collect();
        self.submit(asked);
        if crash == Crash::AfterPersist {
            self.restart();
        }
    }
}

impl Client {
    /// Whether anything is left that shows that it reads the topic; an expired commit is remembered for required groups.
    pub fn is_known(&self, policy: &ReadersPolicy) -> bool {
        let required = policy.required.contains(&self.name);
        self.assigned.contains(&true)
            || self
                .commits
                .iter()
                .flatten()
                .any(|commit| required || !commit.expired)
    }
}
