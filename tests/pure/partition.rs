//! A partition with real records, and the profile that the log would keep of it, kept up to date step by step.
use std::ops::Range;

use tidemark::retention::{Rules, SegmentFacts, SegmentProfile};

use crate::naive::{Naive, Segment as NaiveSegment};

#[derive(Debug, Clone, Copy)]
pub struct Record {
    pub offset: i64,
    pub timestamp: i64,
    pub size: i64,
    /// A transaction marker is no data.
    pub marker: bool,
}

#[derive(Debug, Clone)]
pub struct Segment {
    pub base: i64,
    pub records: Vec<Record>,
    pub created: i64,
    pub modified: i64,
}

impl Segment {
    fn facts(&self) -> SegmentFacts {
        SegmentFacts {
            base_offset: self.base,
            size_bytes: self.records.iter().map(|record| record.size).sum(),
            largest_timestamp: self
                .records
                .iter()
                .map(|record| record.timestamp)
                .max()
                .unwrap_or(-1),
            modified_ms: self.modified,
            without_future: None,
        }
    }

    /// Since when `segment.ms` counts.
    fn since(&self) -> Option<i64> {
        let first = self.records.first()?;
        Some(if first.timestamp >= 0 {
            first.timestamp
        } else {
            self.created
        })
    }
}

#[derive(Debug, Clone)]
pub struct Partition {
    pub segments: Vec<Segment>,
    pub start: i64,
    /// The start that `DeleteRecords` last gave it, which a kill does not undo.
    pub deleted_to: i64,
    pub end: i64,
    pub profile: SegmentProfile,
}

impl Partition {
    pub fn new(now: i64) -> Self {
        let segments = vec![Segment {
            base: 0,
            records: Vec::new(),
            created: now,
            modified: now,
        }];
        let profile = segments.iter().map(Segment::facts).collect();
        Self {
            segments,
            start: 0,
            deleted_to: 0,
            end: 0,
            profile,
        }
    }

    pub fn active_since(&self) -> Option<i64> {
        self.segments.last().and_then(Segment::since)
    }

    /// For whoever wants to try out what a pass would do.
    pub fn naive(&self) -> Naive {
        let segments = self.segments.iter().map(|segment| {
            let facts = segment.facts();
            NaiveSegment {
                base: segment.base,
                size: facts.size_bytes,
                timestamp: facts.largest_timestamp,
                modified: segment.modified,
            }
        });
        Naive {
            segments: segments.collect(),
            start: self.start,
            high_watermark: self.end,
            end: self.end,
        }
    }

    /// Offset of the last data record in `range`.
    pub fn last_data(&self, range: &Range<i64>) -> Option<i64> {
        let records = self
            .segments
            .iter()
            .rev()
            .flat_map(|segment| segment.records.iter().rev());
        records
            .filter(|record| !record.marker)
            .map(|record| record.offset)
            .find(|offset| range.contains(offset))
    }

    pub fn roll(&mut self, now: i64) {
        if self
            .segments
            .last()
            .is_some_and(|active| !active.records.is_empty())
        {
            let segment = Segment {
                base: self.end,
                records: Vec::new(),
                created: now,
                modified: now,
            };
            self.profile.push(segment.facts());
            self.segments.push(segment);
        }
    }

    pub fn append(&mut self, record: Record, now: i64, rules: &Rules) {
        let active = &self.segments[self.segments.len() - 1];
        let full = active.facts().size_bytes + record.size > rules.segment_bytes;
        let stamped = active.records.first().is_some_and(|first| first.timestamp >= 0);
        let at = if stamped { record.timestamp } else { now };
        if full
            || active
                .since()
                .is_some_and(|since| at.saturating_sub(since) > rules.segment_ms)
        {
            self.roll(now);
        }
        let active = self.segments.len() - 1;
        let active = &mut self.segments[active];
        active.records.push(record);
        active.modified = now;
        self.profile.set_active(active.facts());
        self.end += 1;
    }

    /// Kill and start again: what was not written is gone, what is derived is derived again.
    pub fn restart(&mut self) {
        self.profile = self.segments.iter().map(Segment::facts).collect();
        self.start = self.segments[0].base.max(self.deleted_to);
    }
}
