//! The two messages that consumers exchange through a classic group: subscription and assignment.
//!
//! The coordinator passes them on as they are. It reads them only to know which topics a group reads, so a
//! message that cannot be read is no error: the group is then taken to read everything. Lengths are checked
//! against the bytes that are left before anything is allocated.
use std::collections::BTreeSet;

/// Protocol type whose members exchange these messages.
pub const CONSUMER: &str = "consumer";

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    fn i16(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Number of elements, none of which is shorter than `least` bytes.
    fn count(&mut self, least: usize) -> Option<usize> {
        let count = usize::try_from(self.i32()?).ok()?;
        (count.checked_mul(least)? <= self.0.len()).then_some(count)
    }

    fn string(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.i16()?).ok()?;
        std::str::from_utf8(self.take(len)?).ok()
    }
}

/// Topics of a ConsumerProtocolSubscription of any version.
pub fn subscribed_topics(subscription: &[u8]) -> Option<BTreeSet<String>> {
    let mut reader = Reader(subscription);
    if reader.i16()? < 0 {
        return None;
    }
    let count = reader.count(2)?;
    (0..count).map(|_| reader.string().map(str::to_owned)).collect()
}

/// Topics and partitions of a ConsumerProtocolAssignment of any version; empty bytes assign nothing.
pub fn assigned_partitions(assignment: &[u8]) -> Option<Vec<(String, Vec<i32>)>> {
    if assignment.is_empty() {
        return Some(Vec::new());
    }
    let mut reader = Reader(assignment);
    if reader.i16()? < 0 {
        return None;
    }
    let topics = reader.count(6)?;
    (0..topics)
        .map(|_| {
            let topic = reader.string()?.to_owned();
            let partitions = reader.count(4)?;
            let partitions = (0..partitions).map(|_| reader.i32()).collect::<Option<_>>()?;
            Some((topic, partitions))
        })
        .collect()
}

#[cfg(test)]
#[path = "member_protocol_tests.rs"]
mod tests;
