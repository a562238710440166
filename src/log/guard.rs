//! What the guard asks of a log, each answer taken at one moment.
use std::ops::Range;

use crate::log::batch_file::batches_in;
use crate::log::names::SegmentFile;
use crate::log::partition::{PartitionLog, View};
use crate::log::read::{Located, SegmentView};
use crate::retention::{Clamped, Look, Outlook, PartitionView, Proposed, Rules, clamp, step};

impl PartitionLog {
    /// What a change would do here, looking ahead from `now_ms` over `headroom_ms`.
    pub fn outlook(&self, in_force: Rules, proposed: Proposed, now_ms: i64, headroom_ms: i64) -> Outlook {
        let view = self.view.lock();
        Outlook::of(&self.seen(&view, in_force, proposed), now_ms, headroom_ms)
    }

    /// The lowest settings towards `proposed` that lose nothing for a reader that has read up to `slowest`.
    pub fn clamp(
        &self,
        in_force: Rules,
        proposed: Proposed,
        slowest: i64,
        now_ms: i64,
        headroom_ms: i64,
    ) -> Option<Clamped> {
        self.on_a_copy(in_force, proposed, |view| {
            clamp(view, slowest, now_ms, headroom_ms, &mut |_, range| {
                self.last_data(range)
            })
        })
    }

    /// What comes after `now`, which an earlier clamp put in force; see [`step`].
    pub fn step(
        &self,
        in_force: Rules,
        proposed: Proposed,
        now: &Rules,
        found: Clamped,
        look: Look,
        longer_ms: i64,
    ) -> Clamped {
        self.on_a_copy(in_force, proposed, |view| {
            step(view, now, found, look, longer_ms, &mut |_, range| {
                self.last_data(range)
            })
        })
    }

    /// Looking for records reads files, and nobody may wait for that: so the view is a copy.
    fn on_a_copy<T>(
        &self,
        in_force: Rules,
        proposed: Proposed,
        look: impl FnOnce(&PartitionView<'_>) -> T,
    ) -> T {
        let (segments, bounds, active_since_ms) = {
            let view = self.view.lock();
            (view.segments.clone(), view.bounds(), view.active.first_append_ms)
        };
        look(&PartitionView {
            partition: self.partition,
            profile: &segments,
            log_start: bounds.log_start,
            high_watermark: bounds.high_watermark,
            log_end: bounds.log_end,
            last_stable_offset: bounds.last_stable_offset,
            active_since_ms,
            in_force,
            proposed,
        })
    }

    fn seen<'a>(&self, view: &'a View, in_force: Rules, proposed: Proposed) -> PartitionView<'a> {
        let bounds = view.bounds();
        PartitionView {
            partition: self.partition,
            profile: &view.segments,
            log_start: bounds.log_start,
            high_watermark: bounds.high_watermark,
            log_end: bounds.log_end,
            last_stable_offset: bounds.last_stable_offset,
            active_since_ms: view.active.first_append_ms,
            in_force,
            proposed,
        }
    }

    /// Offset of the last data record within `range`; transaction markers are none. Where that cannot be read it is
    /// the last offset of the range: what cannot be looked at is taken to be data.
    pub fn last_data(&self, range: Range<i64>) -> Option<i64> {
        let mut end = range.end;
        while range.start < end {
            let segment = {
                let view = self.view.lock();
                let index = view.segments.position_of(end - 1)?;
                SegmentView::of(&view, index, range.start)?
            };
            let wanted = range.start.max(segment.base_offset)..end.min(segment.end_offset);
            match self.last_data_in(&segment, &wanted) {
                Some(None) => {}
                Some(found) => return found,
                None => return Some(wanted.end - 1),
            }
            end = segment.base_offset;
        }
        None
    }

    /// Timestamp of the first batch of the segment with this base offset, ms; -1 where there is none or it cannot be read.
    pub fn first_timestamp_of(&self, base_offset: i64) -> i64 {
        let size = {
            let view = self.view.lock();
            view.segments
                .iter()
                .find(|segment| segment.base_offset == base_offset)
                .map_or(0, |segment| segment.size_bytes)
        };
        let end = u64::try_from(size).unwrap_or(0);
        let Ok(file) = self.handle(base_offset, SegmentFile::Log) else {
            return -1;
        };
        match batches_in(file.as_ref(), 0, end).next() {
            Some(Ok(batch)) => batch.header.base_timestamp,
            _ => -1,
        }
    }

    /// Largest timestamp, ms, of the first batch of records at or after `offset`; `None` where there is none, it has no
    /// timestamp, or cannot be read.
    pub fn timestamp_from(&self, offset: i64) -> Option<i64> {
        let mut from = offset;
        loop {
            let segment = {
                let view = self.view.lock();
                from = from.max(view.log_start);
                let index = view.segments.position_of(from)?;
                SegmentView::of(&view, index, from)?
            };
            if let Located::Batch(first, file) = self.locate(&segment, from).ok()? {
                let size = u64::try_from(segment.size).ok()?;
                for batch in batches_in(file.as_ref(), first.position, size) {
                    let header = batch.ok()?.header;
                    if !header.is_control() {
                        return Some(header.max_timestamp).filter(|timestamp| *timestamp >= 0);
                    }
                }
            }
            if segment.end_offset <= from {
                return None;
            }
            from = segment.end_offset;
        }
    }

    /// As [`Self::last_data`] in one segment; `None` where it cannot be read. Looks from ever further back, because ranges mostly
    /// end in data.
    fn last_data_in(&self, segment: &SegmentView, wanted: &Range<i64>) -> Option<Option<i64>> {
        let size = u64::try_from(segment.size).ok()?;
        let mut back = 1_i64;
        loop {
            let from = wanted.start.max(wanted.end.saturating_sub(back));
            match self.locate(segment, from).ok()? {
                Located::Gone | Located::Beyond => {}
                Located::Batch(first, file) => {
                    let mut last = None;
                    for batch in batches_in(file.as_ref(), first.position, size) {
                        let header = batch.ok()?.header;
                        if header.base_offset >= wanted.end {
                            break;
                        }
                        if !header.is_control() {
                            last = Some(header.last_offset().min(wanted.end - 1));
                        }
                    }
                    if last.is_some() {
                        return Some(last);
                    }
                }
            }
            if from == wanted.start {
                return Some(None);
            }
            back = back.saturating_mul(64);
        }
    }
}
