//! Well-formed bodies of a shape, for tests.
use super::{Field, Kind, Schema};

/// A small generator of bodies; the same seed gives the same bytes.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 29)
    }

    fn below(&mut self, bound: u64) -> usize {
        usize::try_from(self.next() % bound).unwrap()
    }
}

/// Writes a body of this shape, with every array and string present.
pub(crate) fn sample(schema: Schema, version: i16, flexible: bool, random: &mut Random, out: &mut Vec<u8>) {
    for field in schema {
        if field.since <= version && version <= field.until {
            write_field(field, version, flexible, random, out);
        }
    }
    if flexible {
        let tags = random.below(3);
        out.push(u8::try_from(tags).unwrap());
        for tag in 0..tags {
            let size = random.below(5);
            out.extend([100 + u8::try_from(tag).unwrap(), u8::try_from(size).unwrap()]);
            out.extend(std::iter::repeat_n(0xab, size));
        }
    }
}

fn write_length(length: usize, plain_bytes: usize, flexible: bool, out: &mut Vec<u8>) {
    if flexible {
        out.push(u8::try_from(length + 1).unwrap());
    } else {
        out.extend(&u32::try_from(length).unwrap().to_be_bytes()[4 - plain_bytes..]);
    }
}

fn write_field(field: &Field, version: i16, flexible: bool, random: &mut Random, out: &mut Vec<u8>) {
    match field.kind {
        Kind::Fixed(size) => out.extend((0..size).map(|_| u8::try_from(random.below(256)).unwrap())),
        Kind::Text | Kind::Blob => {
            let length = random.below(12);
            let plain = if matches!(field.kind, Kind::Text) { 2 } else { 4 };
            write_length(length, plain, flexible, out);
            out.extend(std::iter::repeat_n(b'x', length));
        }
        Kind::Structures(schema) => {
            let count = random.below(4);
            write_length(count, 4, flexible, out);
            (0..count).for_each(|_| sample(schema, version, flexible, random, out));
        }
        Kind::Values(value) => {
            let count = random.below(4);
            write_length(count, 4, flexible, out);
            (0..count).for_each(|_| write_field(value, version, flexible, random, out));
        }
        Kind::Optional(schema) => match random.below(2) {
            0 => out.push(0xff),
            _ => {
                out.push(1);
                sample(schema, version, flexible, random, out);
            }
        },
    }
}
