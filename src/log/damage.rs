//! Ranges of a partition that cannot be read, remembered so that everything around them can.
//!
//! Kafka answers damage in a closed segment by cutting the segment there and dropping every later one, intact or not.
//! Here the bytes stay as they are, the range is reported, and readers get an explicit error for it and for nothing else.
//!
//! Invariant: ranges are sorted, do not overlap, and each lies within one segment.

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
