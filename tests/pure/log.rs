//! A log in a few words, on which a pass runs in both implementations at once.
use tidemark::resource::contract::ReadersPolicy;
use tidemark::retention::{
    Judgement, Known, Outlook, PartitionView, Plan, Proposed, Reader, Rules, SegmentFacts, SegmentProfile,
    judge, plan,
};

use crate::naive::{Naive, Segment};

/// "Now" of the cases.
pub const T: i64 = 1_700_000_000_000;
pub const MINUTE: i64 = 60_000;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;
pub const WEEK: i64 = 7 * DAY;

pub fn keep_ms(retention_ms: i64) -> Rules {
    Rules {
        retention_ms,
        ..Rules::unlimited()
    }
}

pub fn keep_bytes(retention_bytes: i64) -> Rules {
    Rules {
        retention_bytes,
        ..Rules::unlimited()
    }
}

#[derive(Debug, Clone)]
pub struct Log {
    pub naive: Naive,
}

impl Log {
    /// Segments as (base offset, bytes, largest timestamp), ending at `end`, which is the high watermark too.
    pub fn of(end: i64, segments: &[(i64, i64, i64)]) -> Self {
        let segments: Vec<Segment> = segments
            .iter()
            .map(|&(base, size, timestamp)| Segment {
                base,
                size,
                timestamp,
                modified: T,
            })
            .collect();
        Self {
            naive: Naive {
                start: segments[0].base,
                segments,
                high_watermark: end,
                end,
            },
        }
    }

    /// `count` batches of one record and 100 bytes, five to a segment, with a timestamp by offset.
    pub fn batches(count: i64, timestamp: impl Fn(i64) -> i64) -> Self {
        let segments: Vec<_> = (0..count.max(1))
            .step_by(5)
            .map(|base| {
                let held = base..count.min(base + 5);
                let size = 100 * (held.end - held.start).max(0);
                (base, size, held.map(&timestamp).max().unwrap_or(-1))
            })
            .collect();
        Self::of(count, &segments)
    }

    pub fn starting_at(mut self, start: i64) -> Self {
        self.naive.start = start;
        self
    }

    pub fn with_high_watermark(mut self, high_watermark: i64) -> Self {
        self.naive.high_watermark = high_watermark;
        self
    }

    pub fn modified(mut self, times: &[i64]) -> Self {
        for (segment, modified) in self.naive.segments.iter_mut().zip(times) {
            segment.modified = *modified;
        }
        self
    }

    pub fn profile(&self) -> SegmentProfile {
        profile_of(&self.naive)
    }

    pub fn plan(&self, now: i64, rules: &Rules) -> Plan {
        let Naive {
            start,
            high_watermark,
            end,
            ..
        } = self.naive;
        plan(&self.profile(), start, high_watermark, end, now, rules)
    }

    /// Plans a pass, lets the other implementation run it, and holds the two together. Answers how many segments went.
    pub fn pass(&mut self, now: i64, rules: &Rules) -> usize {
        let plan = self.plan(now, rules);
        let walked_all = self.naive.segments.len();
        let before = self.naive.clone();
        let walked = self.naive.pass(now, rules);
        let context = format!("{before:?} at {now} under {rules:?}");
        assert_eq!([plan.by_start, plan.by_size, plan.by_time], walked, "{context}");
        assert_eq!(plan.new_log_start, self.naive.start, "{context}");
        assert_eq!(plan.rolls_active, plan.deleted() == walked_all, "{context}");
        assert!(plan.new_log_start >= before.start, "{context}");
        assert!(
            plan.new_log_start <= before.high_watermark.max(before.start),
            "{context}"
        );
        plan.deleted()
    }

    pub fn start(&self) -> i64 {
        self.naive.start
    }

    pub fn bases(&self) -> Vec<i64> {
        self.naive.segments.iter().map(|segment| segment.base).collect()
    }

    pub fn size(&self) -> i64 {
        self.naive.segments.iter().map(|segment| segment.size).sum()
    }

    /// The guard's verdict on a change of this log's settings, at [`T`] without headroom.
    pub fn judge(&self, in_force: Rules, proposed: Rules, readers: &[Reader]) -> Judgement {
        self.judge_with(
            in_force,
            Proposed::Rules(proposed),
            readers,
            &ReadersPolicy::default(),
            0,
        )
    }

    pub fn judge_with(
        &self,
        in_force: Rules,
        proposed: Proposed,
        readers: &[Reader],
        policy: &ReadersPolicy,
        headroom_ms: i64,
    ) -> Judgement {
        let profile = self.profile();
        let outlook = Outlook::of(&self.view(&profile, in_force, proposed), T, headroom_ms);
        judge(&[outlook], readers, policy, &mut |_, range| Some(range.end - 1))
    }

    pub fn view<'a>(
        &self,
        profile: &'a SegmentProfile,
        in_force: Rules,
        proposed: Proposed,
    ) -> PartitionView<'a> {
        PartitionView {
            partition: 0,
            profile,
            log_start: self.naive.start,
            high_watermark: self.naive.high_watermark,
            log_end: self.naive.end,
            last_stable_offset: self.naive.high_watermark,
            active_since_ms: None,
            in_force,
            proposed,
        }
    }
}

pub fn profile_of(naive: &Naive) -> SegmentProfile {
    naive
        .segments
        .iter()
        .map(|segment| SegmentFacts {
            base_offset: segment.base,
            size_bytes: segment.size,
            largest_timestamp: segment.timestamp,
            modified_ms: segment.modified,
            without_future: None,
        })
        .collect()
}

/// A group at `position` on partition 0.
pub fn at(name: &str, position: i64) -> Reader {
    Reader::group(name, [Known::At(position)])
}

/// Who is at risk, in short: name and records.
pub fn at_risk(judgement: &Judgement) -> Vec<(&str, i64)> {
    judgement
        .at_risk
        .iter()
        .map(|risk| (&*risk.name, risk.records()))
        .collect()
}
