//! Frames and the headers in them.
//!
//! A frame is an int32 length and that many bytes. A request starts with key, version, correlation id and client id
//! (header v1), and tagged fields where the version is flexible (header v2); the client id keeps its int16 length even
//! there. A response starts with the correlation id (header v0), and tagged fields where the version is flexible
//! (header v1), except that ApiVersions always answers with header v0 (KIP-511).
use bytes::{BufMut, BytesMut};
use thiserror::Error;

use crate::wire::reader::Reader;
use crate::wire::schema::Malformed;

/// Bytes of a frame's length prefix.
pub const LENGTH_BYTES: usize = 4;

/// Why a frame cannot be taken; the connection is closed, because what follows cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Negative, smaller than a header, or larger than allowed.
    #[error("a frame of {length} bytes, where 8 to {limit} are taken")]
    Length { length: i32, limit: usize },
}

/// The length of the next frame, once its prefix is there.
pub fn frame_length(prefix: [u8; LENGTH_BYTES], limit: usize) -> Result<usize, FrameError> {
    let length = i32::from_be_bytes(prefix);
    usize::try_from(length)
        .ok()
        .filter(|size| (8..=limit).contains(size))
        .ok_or(FrameError::Length { length, limit })
}

/// The part of a request header that is the same in every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPrefix {
    /// The API.
    pub key: i16,
    /// Its version.
    pub version: i16,
    /// Returned in the response.
    pub correlation_id: i32,
}

/// Reads the invariant part of a request header.
pub fn request_prefix(reader: &mut Reader<'_>) -> Result<RequestPrefix, Malformed> {
    Ok(RequestPrefix {
        key: reader.int16()?,
        version: reader.int16()?,
        correlation_id: reader.int32()?,
    })
}

/// Reads the rest of a request header: the client id and, in header v2, tagged fields.
pub fn client_id<'a>(reader: &mut Reader<'a>, header_version: i16) -> Result<Option<&'a str>, Malformed> {
    let id = reader.nullable_string16()?;
    if header_version >= 2 {
        reader.skip_tagged_fields()?;
    }
    Ok(id)
}

/// Starts a response frame in `out`; [`finish_response`] writes its length.
pub fn start_response(out: &mut BytesMut, correlation_id: i32, header_version: i16) -> usize {
    let start = out.len();
    out.put_i32(0);
    out.put_i32(correlation_id);
    if header_version >= 1 {
        out.put_u8(0);
    }
    start
}

/// Writes the length of the frame started at `start`, counting `beyond` bytes that follow from elsewhere.
pub fn finish_response(out: &mut BytesMut, start: usize, beyond: usize) -> Result<(), ResponseTooLarge> {
    let length = out
        .len()
        .saturating_sub(start + LENGTH_BYTES)
        .saturating_add(beyond);
    let encoded = i32::try_from(length).map_err(|_| ResponseTooLarge { length })?;
    if let Some(prefix) = out.get_mut(start..start + LENGTH_BYTES) {
        prefix.copy_from_slice(&encoded.to_be_bytes());
    }
    Ok(())
}

/// A response that no frame can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a response of {length} bytes is beyond the {max} of a frame", max = i32::MAX)]
pub struct ResponseTooLarge {
    /// Its length in bytes.
    pub length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_lengths_are_refused() {
        let limit = 1024;
        for length in [-1, i32::MIN, 0, 7, 1025, i32::MAX, 0x4745_5420] {
            assert_eq!(
                frame_length(length.to_be_bytes(), limit),
                Err(FrameError::Length { length, limit })
            );
        }
        assert_eq!(frame_length(8_i32.to_be_bytes(), limit), Ok(8));
        assert_eq!(frame_length(1024_i32.to_be_bytes(), limit), Ok(1024));
    }

    #[test]
    fn the_client_id_keeps_its_short_length_in_flexible_headers() {
        let bytes = [0, 3, 0, 12, 0, 0, 0, 7, 0, 2, b'm', b'e', 0, 0xee];
        let mut reader = Reader::new(&bytes, true);
        let prefix = request_prefix(&mut reader).unwrap();
        assert_eq!((prefix.key, prefix.version, prefix.correlation_id), (3, 12, 7));
        assert_eq!(client_id(&mut reader, 2), Ok(Some("me")));
        assert_eq!(reader.position(), 13);
    }

    #[test]
    fn the_length_counts_what_comes_from_elsewhere() {
        let mut out = BytesMut::new();
        let start = start_response(&mut out, 9, 1);
        out.put_u8(5);
        finish_response(&mut out, start, 100).unwrap();
        assert_eq!(&out[..], &[0, 0, 0, 106, 0, 0, 0, 9, 0, 5]);
        assert!(finish_response(&mut out, start, usize::MAX).is_err());
    }
}
