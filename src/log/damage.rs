//! Ranges of a partition that cannot be read, remembered so that everything around them can.
//!
//! Kafka answers damage in a closed segment by cutting the segment there and dropping every later one, intact or not.
//! Here the bytes stay as they are, the range is reported, and readers get an explicit error for it and for nothing else.
//!
//! What is known is kept in the partition's directory, because a clean start does not read the segments again and a wrong checksum would
//! be passed on to the reader. Kafka ignores the file. Losing it costs no more than finding the damage anew.
//!
//! Invariant: ranges are sorted, do not overlap, and each lies within one segment.
use std::path::Path;

use crate::log::checkpoints;
use crate::log::files::{self, Files};
use crate::retention::SegmentProfile;

/// Name of the file in the partition's directory.
pub const DAMAGED_RANGES: &str = "damaged-ranges";

/// Longest such file that is read, bytes.
const LIMIT: u64 = 1024 * 1024;

/// Offsets and bytes of one segment that are unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedRange {
    /// Base offset of the segment.
    pub base_offset: i64,
    /// First offset that may be lost.
    pub from_offset: i64,
    /// The offset after the last that may be lost.
    pub to_offset: i64,
    /// Position of the first bad byte.
    pub from_position: i64,
    /// Position of the next good batch, or the end of the file.
    pub to_position: i64,
}

impl DamagedRange {
    /// Says in the log that it is there.
    pub(crate) fn report(&self, topic: &str, partition: i32) {
        tracing::error!(
            topic,
            partition,
            base_offset = self.base_offset,
            from_offset = self.from_offset,
            to_offset = self.to_offset,
            "damaged batches: these offsets cannot be read, everything around them can"
        );
    }

    /// Whether it lies within a segment that is there, at least the offsets of it and the first byte.
    fn fits(&self, segments: &SegmentProfile) -> bool {
        let Some(index) = segments.position_of(self.base_offset) else {
            return false;
        };
        let end = segments
            .get(index.saturating_add(1))
            .map_or(i64::MAX, |next| next.base_offset);
        segments.get(index).is_some_and(|segment| {
            segment.base_offset == self.base_offset
                && (0..=segment.size_bytes).contains(&self.from_position)
                && (self.from_position..=segment.size_bytes).contains(&self.to_position)
                && self.base_offset <= self.from_offset
                && self.from_offset < self.to_offset
                && self.to_offset <= end
        })
    }
}

/// The damaged ranges of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    ranges: Vec<DamagedRange>,
}

impl Damage {
    /// All ranges, by offset.
    pub fn ranges(&self) -> &[DamagedRange] {
        &self.ranges
    }

    /// Remembers a range; one that begins where a known one does replaces it.
    pub fn add(&mut self, range: DamagedRange) {
        let key = |range: &DamagedRange| (range.base_offset, range.from_position);
        match self.ranges.binary_search_by_key(&key(&range), key) {
            Ok(index) => self.ranges[index] = range,
            Err(index) => self.ranges.insert(index, range),
        }
    }

    /// The range that `offset` lies in.
    pub fn containing(&self, offset: i64) -> Option<&DamagedRange> {
        self.ranges
            .iter()
            .find(|range| (range.from_offset..range.to_offset).contains(&offset))
    }

    /// The ranges of one segment.
    pub fn of_segment(&self, base_offset: i64) -> impl Iterator<Item = &DamagedRange> {
        self.ranges
            .iter()
            .filter(move |range| range.base_offset == base_offset)
    }

    /// Reads what is known of a directory. A file that cannot be read counts as empty.
    pub fn load(files: &dyn Files, directory: &Path) -> Self {
        let path = directory.join(DAMAGED_RANGES);
        let text = match checkpoints::read_text(files, &path, LIMIT) {
            Ok(text) => text.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "what is known of damage cannot be read");
                String::new()
            }
        };
        let mut damage = Self::default();
        for line in checkpoints::parse_lines(&text, 5).unwrap_or_default() {
            let numbers: Vec<i64> = line.iter().filter_map(|word| word.parse().ok()).collect();
            let [base_offset, from_offset, to_offset, from_position, to_position] = numbers.as_slice() else {
                continue;
            };
            damage.add(DamagedRange {
                base_offset: *base_offset,
                from_offset: *from_offset,
                to_offset: *to_offset,
                from_position: *from_position,
                to_position: *to_position,
            });
        }
        damage
    }

    /// Writes what is known. Only the next start is slower to know if that fails.
    pub fn store(&self, files: &dyn Files, directory: &Path) {
        let path = directory.join(DAMAGED_RANGES);
        let lines = self.ranges.iter().map(|range| {
            format!(
                "{} {} {} {} {}",
                range.base_offset, range.from_offset, range.to_offset, range.from_position, range.to_position
            )
        });
        let stored = if self.ranges.is_empty() {
            files::unlink_if_present(files, &path).map(|_| ())
        } else {
            files::replace(files, &path, checkpoints::format_lines(lines).as_bytes())
        };
        if let Err(error) = stored {
            tracing::warn!(path = %path.display(), %error, "what is known of damage cannot be written");
        }
    }

    /// Forgets what does not lie within the segments that are there.
    pub fn keep_within(&mut self, segments: &SegmentProfile) {
        self.ranges.retain(|range| range.fits(segments));
    }

    /// Forgets what lies in one segment, because it is read again.
    pub fn forget_segment(&mut self, base_offset: i64) {
        self.ranges.retain(|range| range.base_offset != base_offset);
    }

    /// Forgets what lies in segments below `base_offset`, because they are deleted.
    pub fn forget_below(&mut self, base_offset: i64) {
        self.ranges.retain(|range| range.base_offset >= base_offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(base_offset: i64, from_offset: i64, to_offset: i64) -> DamagedRange {
        DamagedRange {
            base_offset,
            from_offset,
            to_offset,
            from_position: from_offset * 10,
            to_position: to_offset * 10,
        }
    }

    #[test]
    fn an_offset_is_damaged_from_the_first_to_before_the_last() {
        let mut damage = Damage::default();
        damage.add(range(10, 12, 15));
        damage.add(range(0, 3, 4));
        let damaged: Vec<i64> = (0..20).filter(|o| damage.containing(*o).is_some()).collect();
        assert_eq!(damaged, [3, 12, 13, 14]);
        assert_eq!(damage.of_segment(10).count(), 1);
    }

    #[test]
    fn the_same_place_is_remembered_once_and_forgotten_with_its_segment() {
        let mut damage = Damage::default();
        damage.add(range(0, 3, 4));
        damage.add(range(0, 3, 6));
        damage.add(range(10, 12, 15));
        assert_eq!(damage.ranges().len(), 2);
        assert!(damage.containing(5).is_some());
        damage.forget_below(10);
        assert_eq!(damage.ranges(), [range(10, 12, 15)]);
    }
}
