//! The shape of every request, walked before the request is decoded.
//!
//! The protocol crate reserves room for as many elements as an array *claims* to hold, so that eight hostile bytes
//! can ask for gigabytes and abort the process. [`walk`] goes over the bytes first, allocating nothing: every element
//! that is claimed has to be there, and there is a bound on how many there may be. What it has passed can be decoded
//! with memory in proportion to the bytes received. Invariant, held by tests and a fuzz target: a body that passes is
//! consumed by the decoder to the same byte.
//!
//! The shapes are those of Apache Kafka's message definitions (KIP-482 for the compact forms and tagged fields).
pub mod requests;
#[cfg(test)]
pub(crate) mod sample;

use thiserror::Error;

/// Elements one request may carry; each costs the decoder at most a few hundred bytes.
pub const MAX_ELEMENTS: usize = 250_000;

/// The fields of one structure, in wire order.
pub type Schema = &'static [Field];

/// One field and the versions that have it.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    since: i16,
    until: i16,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A value of so many bytes.
    Fixed(usize),
    /// A length-prefixed string; -1 is null.
    Text,
    /// Length-prefixed bytes; -1 is null.
    Blob,
    /// An array of structures; -1 is null.
    Structures(Schema),
    /// An array of single values.
    Values(&'static Field),
    /// A structure behind a presence byte.
    Optional(Schema),
}

const fn always(kind: Kind) -> Field {
    Field {
        since: 0,
        until: i16::MAX,
        kind,
    }
}

/// One byte: int8 or boolean.
pub const INT8: Field = always(Kind::Fixed(1));
/// Two bytes.
pub const INT16: Field = always(Kind::Fixed(2));
/// Four bytes.
pub const INT32: Field = always(Kind::Fixed(4));
/// Eight bytes: int64 or float64.
pub const INT64: Field = always(Kind::Fixed(8));
/// Sixteen bytes.
pub const UUID: Field = always(Kind::Fixed(16));
/// A nullable string.
pub const STRING: Field = always(Kind::Text);
/// Nullable bytes.
pub const BYTES: Field = always(Kind::Blob);

/// A nullable array of structures.
pub const fn array(schema: Schema) -> Field {
    always(Kind::Structures(schema))
}

/// A nullable array of plain values.
pub const fn values(field: &'static Field) -> Field {
    always(Kind::Values(field))
}

/// A structure that may be absent.
pub const fn optional(schema: Schema) -> Field {
    always(Kind::Optional(schema))
}

/// The field exists from `version` on.
pub const fn since(version: i16, field: Field) -> Field {
    Field {
        since: version,
        ..field
    }
}

/// The field exists up to and including `version`.
pub const fn until(version: i16, field: Field) -> Field {
    Field {
        until: version,
        ..field
    }
}

/// Why a body is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The body ends before the field does.
    #[error("the request ends {missing} bytes early")]
    Truncated { missing: usize },
    /// A length below -1, or -1 where null is not known.
    #[error("a length of {0} is not possible")]
    Length(i64),
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    Text,
    /// A variable-length integer of more than five bytes.
    #[error("a variable-length integer does not end")]
    VarInt,
    /// More elements than one request may carry.
    #[error("the request holds more than {limit} elements")]
    TooMany { limit: usize },
}

/// What a walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walked {
    /// Bytes of the body the fields take; anything behind is ignored, as Kafka does.
    pub length: usize,
    /// Array elements and tagged fields; each costs the decoder some memory.
    pub elements: usize,
}

/// Goes over `body` as `schema` at `version` and checks that all it claims is there.
///
/// `flexible` selects the compact forms with tagged fields; at most `limit` elements are allowed in all.
pub fn walk(
    schema: Schema,
    version: i16,
    flexible: bool,
    body: &[u8],
    limit: usize,
) -> Result<Walked, Malformed> {
    let mut walker = Walker {
        rest: body,
        version,
        flexible,
        elements: 0,
        limit,
    };
    walker.structure(schema)?;
    Ok(Walked {
        length: body.len() - walker.rest.len(),
        elements: walker.elements,
    })
}

struct Walker<'a> {
    rest: &'a [u8],
    version: i16,
    flexible: bool,
    elements: usize,
    limit: usize,
}

impl Walker<'_> {
    fn structure(&mut self, schema: Schema) -> Result<(), Malformed> {
        for field in schema {
            if field.since <= self.version && self.version <= field.until {
                self.field(field)?;
            }
        }
        if self.flexible {
            self.tagged_fields()
        } else {
            Ok(())
        }
    }

    fn field(&mut self, field: &Field) -> Result<(), Malformed> {
        match field.kind {
            Kind::Fixed(size) => self.skip(size),
            Kind::Text => {
                let length = if self.flexible {
                    self.compact_length()?
                } else {
                    let [high, low] = self.take()?;
                    i64::from(i16::from_be_bytes([high, low]))
                };
                self.sized(length)
            }
            Kind::Blob => {
                let length = self.count()?;
                self.sized(length)
            }
            Kind::Structures(schema) => {
                for _ in 0..self.elements()? {
                    self.structure(schema)?;
                }
                Ok(())
            }
            Kind::Values(value) => {
                for _ in 0..self.elements()? {
                    self.field(value)?;
                }
                Ok(())
            }
            Kind::Optional(schema) => match self.take::<1>()? {
                [1] => self.structure(schema),
                _ => Ok(()),
            },
        }
    }

    /// The number of elements of an array, charged against the bound before one of them is looked at.
    fn elements(&mut self) -> Result<usize, Malformed> {
        let count = self.count()?;
        let count = match count {
            -1 => 0,
            _ => usize::try_from(count).map_err(|_| Malformed::Length(count))?,
        };
        self.charge(count)?;
        Ok(count)
    }

    fn charge(&mut self, count: usize) -> Result<(), Malformed> {
        // No element is smaller than a byte, so a count beyond the rest of the body is a lie.
        if count > self.rest.len() {
            return Err(Malformed::Truncated {
                missing: count - self.rest.len(),
            });
        }
        self.elements = self.elements.saturating_add(count);
        if self.elements > self.limit {
            return Err(Malformed::TooMany { limit: self.limit });
        }
        Ok(())
    }

    fn tagged_fields(&mut self) -> Result<(), Malformed> {
        let count = self.unsigned_varint()? as usize;
        self.charge(count)?;
        for _ in 0..count {
            self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            self.skip(size)?;
        }
        Ok(())
    }

    fn count(&mut self) -> Result<i64, Malformed> {
        if self.flexible {
            self.compact_length()
        } else {
            Ok(i64::from(i32::from_be_bytes(self.take()?)))
        }
    }

    fn compact_length(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from(self.unsigned_varint()?) - 1)
    }

    fn sized(&mut self, length: i64) -> Result<(), Malformed> {
        match length {
            -1 => Ok(()),
            _ => self.skip(usize::try_from(length).map_err(|_| Malformed::Length(length))?),
        }
    }

    fn unsigned_varint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.take()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::VarInt)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Truncated {
            missing: N.saturating_sub(self.rest.len()),
        })?;
        self.rest = rest;
        Ok(*head)
    }

    fn skip(&mut self, size: usize) -> Result<(), Malformed> {
        self.rest = self.rest.get(size..).ok_or(Malformed::Truncated {
            missing: size.saturating_sub(self.rest.len()),
        })?;
        Ok(())
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
