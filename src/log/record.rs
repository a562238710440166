//! One record: its fields as they lie in a batch, and how they are read off it.

/// One record, borrowed from its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Place in the batch, from 0.
    pub index: i32,
    /// Its offset.
    pub offset: i64,
    /// Its timestamp in ms, -1 for none.
    pub timestamp: i64,
    /// Attributes of the record itself; no bit is used in magic 2.
    pub attributes: i8,
    /// Key, if any.
    pub key: Option<&'a [u8]>,
    /// Value, `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    /// Number of headers.
    pub header_count: i32,
    /// The headers as they are encoded; see [`record_headers`].
    pub raw_headers: &'a [u8],
}

/// A record header: key, and value if it has one.
pub type RecordHeader<'a> = (&'a [u8], Option<&'a [u8]>);

/// The headers of a magic 2 record; an item is `None` where the encoding breaks, which ends the walk. Duplicate keys are kept.
pub fn record_headers<'a>(record: &Record<'a>) -> RecordHeaders<'a> {
    RecordHeaders {
        reader: Reader(record.raw_headers),
        left: record.header_count,
    }
}

/// See [`record_headers`].
#[derive(Debug, Clone)]
pub struct RecordHeaders<'a> {
    reader: Reader<'a>,
    left: i32,
}

impl<'a> RecordHeaders<'a> {
    /// The bytes behind the headers that were taken.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.reader.0
    }
}

impl<'a> Iterator for RecordHeaders<'a> {
    type Item = Option<RecordHeader<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        self.left -= 1;
        let read = |reader: &mut Reader<'a>| Some((reader.bytes()??, reader.bytes()?));
        let header = read(&mut self.reader);
        if header.is_none() {
            self.left = 0;
        }
        Some(header)
    }
}

/// Reads fields off the front of a slice; `None` where bytes are missing or a varint is too long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn unsigned(&mut self, most: usize) -> Option<u64> {
        let mut value = 0_u64;
        for (place, byte) in self.0.iter().take(most).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                self.0 = self.0.get(place + 1..)?;
                return Some(value);
            }
        }
        None
    }

    pub fn varint(&mut self) -> Option<i32> {
        let raw = u32::try_from(self.unsigned(5)? & u64::from(u32::MAX)).ok()?;
        Some((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    pub fn varlong(&mut self) -> Option<i64> {
        let raw = self.unsigned(10)?;
        Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// A varint length (negative for null) and that many bytes: outer `None` for broken, inner for null.
    pub fn bytes(&mut self) -> Option<Option<&'a [u8]>> {
        match usize::try_from(self.varint()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Some(None),
        }
    }
}
