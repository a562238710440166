//! Writing what is encoded by hand: the answers of Produce, Fetch and ApiVersions.
//!
//! `flexible` selects the compact forms with tagged fields (KIP-482), as in [`crate::wire::reader::Reader`].
use bytes::{BufMut, BytesMut};

/// A variable-length unsigned integer.
pub fn unsigned_varint(out: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        out.put_u8((value as u8) | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// The length of an array that is not null.
pub fn array_length(out: &mut BytesMut, length: usize, flexible: bool) {
    let length = u32::try_from(length).unwrap_or(u32::MAX >> 1);
    if flexible {
        unsigned_varint(out, length.saturating_add(1));
    } else {
        out.put_u32(length);
    }
}

/// A null array.
pub fn null_array(out: &mut BytesMut, flexible: bool) {
    if flexible { out.put_u8(0) } else { out.put_i32(-1) }
}

/// The length of bytes that are not null.
pub fn bytes_length(out: &mut BytesMut, length: usize, flexible: bool) {
    array_length(out, length, flexible);
}

/// A string. What does not fit the short form is cut at a character.
pub fn string(out: &mut BytesMut, text: &str, flexible: bool) {
    if flexible {
        array_length(out, text.len(), true);
        out.put_slice(text.as_bytes());
    } else {
        let mut end = text.len().min(i16::MAX as usize);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        out.put_u16(u16::try_from(end).unwrap_or(0));
        out.put_slice(text.as_bytes().get(..end).unwrap_or_default());
    }
}

/// A string or null.
pub fn nullable_string(out: &mut BytesMut, text: Option<&str>, flexible: bool) {
    match (text, flexible) {
        (Some(text), _) => string(out, text, flexible),
        (None, true) => out.put_u8(0),
        (None, false) => out.put_i16(-1),
    }
}

/// The end of a structure without tagged fields.
pub fn no_tagged_fields(out: &mut BytesMut, flexible: bool) {
    if flexible {
        out.put_u8(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::reader::Reader;

    #[test]
    fn what_is_written_is_read_back() {
        for flexible in [false, true] {
            let mut out = BytesMut::new();
            string(&mut out, "topic", flexible);
            nullable_string(&mut out, None, flexible);
            array_length(&mut out, 2, flexible);
            out.put_u16(0);
            null_array(&mut out, flexible);
            no_tagged_fields(&mut out, flexible);
            let mut reader = Reader::new(&out, flexible);
            assert_eq!(reader.string(), Ok("topic"));
            assert_eq!(reader.nullable_string(), Ok(None));
            assert_eq!(reader.array_length(), Ok(2));
            assert_eq!(reader.int16(), Ok(0));
            assert_eq!(reader.array_length(), Ok(0));
            assert_eq!(reader.end_structure(), Ok(()));
            assert_eq!(reader.remaining(), 0);
        }
    }

    #[test]
    fn variable_lengths_take_as_many_bytes_as_they_need() {
        for (value, size) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            (u32::MAX, 5),
        ] {
            let mut out = BytesMut::new();
            unsigned_varint(&mut out, value);
            assert_eq!(out.len(), size);
            assert_eq!(Reader::new(&out, true).unsigned_varint(), Ok(value));
        }
    }

    #[test]
    fn a_text_too_long_for_the_short_form_is_cut_at_a_character() {
        let text = "é".repeat(20_000);
        let mut out = BytesMut::new();
        string(&mut out, &text, false);
        assert_eq!(Reader::new(&out, false).string().map(str::len), Ok(32_766));
    }
}
