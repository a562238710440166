//! The one door for changes: the guard is asked, and what it says is done.
use std::ops::Range;

use tidemark::resource::contract::ReaderKind;
use tidemark::retention::{
    Decision, Judgement, Known, Look, Outlook, PartitionView, Proposed, Reader, Rules, Watch, clamp, judge,
    step,
};

use super::{Client, Event, Pending, World};

/// How much longer than the headroom a clamp that has become unsafe is made safe for.
const STANDS_STILL: i64 = 100;

impl World {
    pub(super) fn delete_records(&mut self, partition: usize, offset: i64) {
        let index = partition % self.partitions.len();
        let offset = offset.min(self.partitions[index].end);
        let proposed: Vec<Proposed> = self
            .granted()
            .iter()
            .enumerate()
            .map(|(at, rules)| {
                if at == index {
                    Proposed::DeleteRecords(offset)
                } else {
                    Proposed::Rules(*rules)
                }
            })
            .collect();
        let judgement = self.judge(&proposed);
        let applied = judgement.decision == Decision::Apply;
        self.events.push(Event::Judged {
            in_force: self.granted().to_vec(),
            in_part: self.before().is_some(),
            asked: proposed,
            judgement: Box::new(judgement),
            after: self.granted().to_vec(),
        });
        if applied {
            let end = if offset < 0 {
                self.partitions[index].end
            } else {
                offset
            };
            let partition = &mut self.partitions[index];
            partition.start = partition.start.max(end);
            partition.deleted_to = partition.start;
            self.judge_pending();
        }
    }

    /// The one door for settings.
    pub(super) fn submit(&mut self, asked: Vec<Rules>) {
        let proposed: Vec<Proposed> = asked.iter().copied().map(Proposed::Rules).collect();
        let judgement = self.judge(&proposed);
        let granted = self.granted().to_vec();
        let in_part = self.before().is_some();
        match judgement.decision {
            Decision::Apply => {
                self.in_force = asked;
                self.pending = None;
            }
            Decision::Refuse => {
                let watch = Watch::until_safe(&judgement);
                self.in_force.clone_from(&granted);
                self.pending = Some(Pending {
                    asked,
                    before: None,
                    watch,
                });
            }
            Decision::Clamp => {
                let mut steps = Vec::new();
                let mut clamped = asked.clone();
                for held in &judgement.held {
                    let index = usize::try_from(held.partition).unwrap();
                    let view = self.view(index, proposed[index]);
                    let last_data = &mut |_: i32, range: Range<i64>| self.partitions[index].last_data(&range);
                    let mut found = clamp(&view, held.slowest, self.now, self.headroom, last_data).unwrap();
                    if in_part {
                        let look = Look {
                            slowest: held.slowest,
                            now_ms: self.now,
                            headroom_ms: self.headroom,
                        };
                        found = step(&view, &self.in_force[index], found, look, STANDS_STILL, last_data);
                    }
                    clamped[index] = found.rules;
                    steps.push((held.partition, found));
                }
                let watch = Watch::until_step(&judgement, &steps);
                self.in_force = clamped;
                self.pending = Some(Pending {
                    asked,
                    before: Some(granted.clone()),
                    watch,
                });
            }
        }
        let after = self.in_force.clone();
        self.events.push(Event::Judged {
            in_force: granted,
            in_part,
            asked: proposed,
            judgement: Box::new(judgement),
            after,
        });
    }

    pub(super) fn judge_if(&mut self, wakes: impl FnOnce(&Watch) -> bool) {
        if self.pending.as_ref().is_some_and(|pending| wakes(&pending.watch)) {
            self.judge_pending();
        }
    }

    pub(super) fn judge_pending(&mut self) {
        if let Some(pending) = &self.pending {
            self.submit(pending.asked.clone());
        }
    }

    fn judge(&self, proposed: &[Proposed]) -> Judgement {
        let outlooks: Vec<Outlook> = proposed
            .iter()
            .enumerate()
            .map(|(index, proposed)| Outlook::of(&self.view(index, *proposed), self.now, self.headroom))
            .collect();
        judge(
            &outlooks,
            &self.readers(),
            &self.policy,
            &mut |partition, range| {
                assert!(!range.is_empty(), "the log is never asked for an empty range");
                self.partitions[usize::try_from(partition).unwrap()].last_data(&range)
            },
        )
    }

    fn view(&self, index: usize, proposed: Proposed) -> PartitionView<'_> {
        let partition = &self.partitions[index];
        PartitionView {
            partition: i32::try_from(index).unwrap(),
            profile: &partition.profile,
            log_start: partition.start,
            high_watermark: partition.end,
            log_end: partition.end,
            last_stable_offset: partition.end,
            active_since_ms: partition.active_since(),
            in_force: self.granted()[index],
            proposed,
        }
    }

    /// The readers that have anything to do with the topic, as an engine would list them.
    pub(super) fn readers(&self) -> Vec<Reader> {
        let known = |client: &Client, index: usize| match client.commits[index] {
            Some(commit) if commit.expired && client.assigned[index] => Known::Assigned,
            Some(commit) if commit.expired => Known::Expired(Some(commit.offset)),
            Some(commit) if commit.earlier => Known::EarlierTopic(commit.offset),
            Some(commit) => Known::At(commit.offset),
            None if client.assigned[index] => Known::Assigned,
            None => Known::Absent,
        };
        self.clients
            .iter()
            .filter(|client| client.is_known(&self.policy))
            .map(|client| {
                let positions = (0..self.partitions.len()).map(|index| known(client, index));
                match client.kind {
                    ReaderKind::Fetcher => Reader::fetcher(&client.name, positions),
                    _ => Reader::group(&client.name, positions),
                }
            })
            .collect()
    }
}
