//! A cursor over request bytes for what is decoded by hand: headers, Produce and Fetch.
//!
//! It borrows what it reads and allocates nothing; every length is checked against the bytes that are there.
use uuid::Uuid;

use crate::wire::schema::{MAX_ELEMENTS, Malformed};

/// Reads one request's fields in order; `flexible` selects the compact forms (KIP-482).
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    flexible: bool,
    elements: usize,
}

impl<'a> Reader<'a> {
    /// A cursor at the first byte.
    pub fn new(bytes: &'a [u8], flexible: bool) -> Self {
        Self {
            bytes,
            position: 0,
            flexible,
            elements: 0,
        }
    }

    /// Switches between plain and compact forms.
    pub fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    /// How many bytes were read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// How many array elements were announced so far; never more than [`MAX_ELEMENTS`].
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], Malformed> {
        let end = self.position.checked_add(size);
        let taken = end.and_then(|end| self.bytes.get(self.position..end));
        let taken = taken.ok_or(Malformed::Truncated {
            missing: size.saturating_sub(self.remaining()),
        })?;
        self.position += size;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.take(N)?;
        taken
            .first_chunk::<N>()
            .copied()
            .ok_or(Malformed::Truncated { missing: N })
    }

    /// One byte.
    pub fn int8(&mut self) -> Result<i8, Malformed> {
        self.array().map(i8::from_be_bytes)
    }

    /// Two bytes.
    pub fn int16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    /// Four bytes.
    pub fn int32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    /// Eight bytes.
    pub fn int64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self) -> Result<Uuid, Malformed> {
        self.array().map(Uuid::from_bytes)
    }

    /// A variable-length unsigned integer of at most 32 bits.
    pub fn unsigned_varint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::VarInt)
    }

    /// The length of an array, with null as none; never more than the bytes left, as no element is empty.
    pub fn array_length(&mut self) -> Result<usize, Malformed> {
        let length = if self.flexible {
            i64::from(self.unsigned_varint()?) - 1
        } else {
            i64::from(self.int32()?)
        };
        let length = match length {
            -1 => 0,
            _ => usize::try_from(length).map_err(|_| Malformed::Length(length))?,
        };
        if length > self.remaining() {
            return Err(Malformed::Truncated {
                missing: length - self.remaining(),
            });
        }
        self.elements = self.elements.saturating_add(length);
        if self.elements > MAX_ELEMENTS {
            return Err(Malformed::TooMany { limit: MAX_ELEMENTS });
        }
        Ok(length)
    }

    /// A nullable string.
    pub fn nullable_string(&mut self) -> Result<Option<&'a str>, Malformed> {
        if !self.flexible {
            return self.nullable_string16();
        }
        let length = i64::from(self.unsigned_varint()?) - 1;
        self.text(length)
    }

    /// A nullable string with an int16 length, whatever the version.
    pub fn nullable_string16(&mut self) -> Result<Option<&'a str>, Malformed> {
        let length = i64::from(self.int16()?);
        self.text(length)
    }

    /// A string that must not be null.
    pub fn string(&mut self) -> Result<&'a str, Malformed> {
        self.nullable_string()?.ok_or(Malformed::Length(-1))
    }

    fn text(&mut self, length: i64) -> Result<Option<&'a str>, Malformed> {
        if length == -1 {
            return Ok(None);
        }
        let size = usize::try_from(length).map_err(|_| Malformed::Length(length))?;
        let bytes = self.take(size)?;
        std::str::from_utf8(bytes).map(Some).map_err(|_| Malformed::Text)
    }

    /// Where nullable bytes lie, counted from the first byte; `None` for null.
    pub fn nullable_bytes_range(&mut self) -> Result<Option<std::ops::Range<usize>>, Malformed> {
        let length = if self.flexible {
            i64::from(self.unsigned_varint()?) - 1
        } else {
            i64::from(self.int32()?)
        };
        if length == -1 {
            return Ok(None);
        }
        let size = usize::try_from(length).map_err(|_| Malformed::Length(length))?;
        let start = self.position;
        self.take(size)?;
        Ok(Some(start..self.position))
    }

    /// Skips the tagged fields at the end of a structure; none are there in plain versions.
    pub fn end_structure(&mut self) -> Result<(), Malformed> {
        if self.flexible {
            self.skip_tagged_fields()
        } else {
            Ok(())
        }
    }

    /// Skips tagged fields.
    pub fn skip_tagged_fields(&mut self) -> Result<(), Malformed> {
        for _ in 0..self.unsigned_varint()? {
            self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            self.take(size)?;
        }
        Ok(())
    }
}
