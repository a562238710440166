//! Kafka's retention routine as one walks it by hand: segment by segment, three times, on a log that is changed as it goes.
//!
//! Numbers are `i128` so that nothing can overflow and no rounding rule is needed.
use tidemark::retention::Rules;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub base: i64,
    pub size: i64,
    /// Largest timestamp; negative for none.
    pub timestamp: i64,
    pub modified: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naive {
    pub segments: Vec<Segment>,
    pub start: i64,
    pub high_watermark: i64,
    pub end: i64,
}

impl Naive {
    /// One pass; answers how many segments each of the three rules took.
    pub fn pass(&mut self, now: i64, rules: &Rules) -> [usize; 3] {
        let by_start = self.walk(|log, index| {
            let next = log.segments.get(index + 1);
            next.is_some_and(|next| next.base <= log.start)
        });
        if !rules.delete {
            return [by_start, 0, 0];
        }
        let mut by_size = 0;
        let total: i128 = self.segments.iter().map(|s| i128::from(s.size)).sum();
        if rules.retention_bytes >= 0 && total >= i128::from(rules.retention_bytes) {
            let mut over = total - i128::from(rules.retention_bytes);
            by_size = self.walk(|log, index| {
                let size = i128::from(log.segments[index].size);
                if over - size >= 0 {
                    over -= size;
                    true
                } else {
                    false
                }
            });
        }
        let mut by_time = 0;
        if rules.retention_ms >= 0 {
            by_time = self.walk(|log, index| {
                let segment = log.segments[index];
                let time = if segment.timestamp >= 0 {
                    segment.timestamp
                } else {
                    segment.modified
                };
                i128::from(now) - i128::from(time) > i128::from(rules.retention_ms)
            });
        }
        [by_start, by_size, by_time]
    }

    /// Deletes from the oldest on while `rule` takes the segment and the high watermark allows it.
    fn walk(&mut self, mut rule: impl FnMut(&Self, usize) -> bool) -> usize {
        let mut taken = 0;
        while taken < self.segments.len() {
            let is_active = taken + 1 == self.segments.len();
            let upper = if is_active {
                self.end
            } else {
                self.segments[taken + 1].base
            };
            let empty_active = is_active && self.segments[taken].size == 0;
            if empty_active || self.high_watermark < upper || !rule(self, taken) {
                break;
            }
            taken += 1;
        }
        if taken > 0 {
            if taken == self.segments.len() {
                self.segments.push(Segment {
                    base: self.end,
                    size: 0,
                    timestamp: -1,
                    modified: i64::MAX,
                });
            }
            self.segments.drain(..taken);
            self.start = self.start.max(self.segments[0].base);
        }
        taken
    }
}
