//! The four codecs of record batches.
//!
//! The log carries compressed records as they came and looks inside only where a check or a lookup needs it. Whatever
//! comes out of a decompressor is bounded by a hard cap: a few bytes from the network must not become gigabytes here.
use std::io::{self, Read, Write};

/// Most bytes that one batch may decompress to, unless the caller sets its own cap.
pub const DEFAULT_CAP: usize = 256 * 1024 * 1024;

/// A codec of `compression.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not compressed.
    None,
    /// gzip.
    Gzip,
    /// Snappy in the framing of snappy-java (xerial), or raw.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Codec {
    /// Every codec.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec of an attribute's low three bits.
    ///
    /// # Errors
    /// The number itself if it names no codec.
    pub const fn from_id(id: i16) -> Result<Self, i16> {
        match id {
            0 => Ok(Self::None),
            1 => Ok(Self::Gzip),
            2 => Ok(Self::Snappy),
            3 => Ok(Self::Lz4),
            4 => Ok(Self::Zstd),
            other => Err(other),
        }
    }

    /// The number in a batch's attributes.
    pub const fn id(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The name in `compression.type` (`uncompressed` for none).
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "uncompressed",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Why compressed records could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    /// The bytes are not what the codec writes.
    #[error("{codec}: {what}", codec = codec.name())]
    Damaged {
        /// The codec.
        codec: Codec,
        /// What its decoder said.
        what: String,
    },
    /// More comes out than the cap allows.
    #[error("{codec}: more than {cap} bytes come out", codec = codec.name())]
    TooLarge {
        /// The codec.
        codec: Codec,
        /// The cap in bytes.
        cap: usize,
    },
}

/// Decompresses `input`; no more than `cap` bytes are ever produced or allocated for the output.
pub fn decompress(codec: Codec, input: &[u8], cap: usize) -> Result<Vec<u8>, CompressionError> {
    match codec {
        Codec::None if input.len() > cap => Err(CompressionError::TooLarge { codec, cap }),
        Codec::None => Ok(input.to_vec()),
        Codec::Gzip => read_capped(codec, flate2::read::MultiGzDecoder::new(input), cap),
        Codec::Snappy => unsnap(input, cap),
        Codec::Lz4 => read_capped(codec, lz4_flex::frame::FrameDecoder::new(input), cap),
        Codec::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(input)
                .and_then(|mut decoder| decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map(|()| decoder))
                .map_err(|error| damaged(codec, error))?;
            read_capped(codec, decoder, cap)
        }
    }
}

/// As [`decompress`] for the LZ4 frames inside magic 0 messages, whose header checksum old clients computed over the wrong
/// bytes: it is put right before the frame is decoded. Magic 1 frames, which are right, pass unchanged.
pub fn decompress_legacy_lz4(input: &[u8], cap: usize) -> Result<Vec<u8>, CompressionError> {
    let plain = decompress(Codec::Lz4, input, cap);
    if !matches!(plain, Err(CompressionError::Damaged { .. })) {
        return plain;
    }
    // Magic number (4), descriptor (2), optional content size (8), checksum (1): the second byte of xxHash32 over the
    // descriptor. Only 256 values are possible, and the frame decoder knows the right one.
    let at = match input.get(4) {
        Some(flags) if flags & 0b1000 != 0 => 14,
        _ => 6,
    };
    let mut mended = input.to_vec();
    for checksum in 0..=u8::MAX {
        match mended.get_mut(at) {
            Some(byte) => *byte = checksum,
            None => return plain,
        }
        // A wrong header checksum fails before any block is read.
        match decompress(Codec::Lz4, &mended, cap) {
            Err(CompressionError::Damaged { .. }) => {}
            mended => return mended,
        }
    }
    plain
}

/// Largest window a zstd frame may ask for: 2^27 bytes, the format's own recommended bound.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Compresses `input` at the codec's default level, or at `level` where the codec has one.
pub fn compress(codec: Codec, input: &[u8], level: Option<i32>) -> io::Result<Vec<u8>> {
    match codec {
        Codec::None => Ok(input.to_vec()),
        Codec::Gzip => {
            let level = level
                .and_then(|level| u32::try_from(level).ok())
                .filter(|&level| level <= 9);
            let level = level.map_or_else(flate2::Compression::default, flate2::Compression::new);
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(input)?;
            encoder.finish()
        }
        Codec::Snappy => snap_xerial(input),
        Codec::Lz4 => {
            let info = lz4_flex::frame::FrameInfo::new()
                .block_mode(lz4_flex::frame::BlockMode::Independent)
                .block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(input)?;
            encoder.finish().map_err(io::Error::other)
        }
        Codec::Zstd => zstd::stream::encode_all(input, level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL)),
    }
}

fn read_capped(codec: Codec, reader: impl Read, cap: usize) -> Result<Vec<u8>, CompressionError> {
    let mut output = Vec::new();
    // One byte more than the cap tells "exactly full" from "too large".
    let limit = (cap as u64).saturating_add(1);
    reader
        .take(limit)
        .read_to_end(&mut output)
        .map_err(|error| damaged(codec, error))?;
    if output.len() > cap {
        return Err(CompressionError::TooLarge { codec, cap });
    }
    Ok(output)
}

fn damaged(codec: Codec, error: impl std::fmt::Display) -> CompressionError {
    CompressionError::Damaged {
        codec,
        what: error.to_string(),
    }
}

/// How snappy-java begins a stream; two version numbers follow, then blocks of (big-endian length, raw snappy).
const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const XERIAL_HEADER_LEN: usize = 16;
/// Bytes of plain data per block, as snappy-java cuts them by default.
const XERIAL_BLOCK: usize = 32 * 1024;

fn unsnap(input: &[u8], cap: usize) -> Result<Vec<u8>, CompressionError> {
    let mut output = Vec::new();
    if !input.starts_with(&XERIAL_MAGIC) {
        unsnap_block(input, cap, &mut output)?;
        return Ok(output);
    }
    let cut = || damaged(Codec::Snappy, "the stream ends inside a block");
    let mut rest = input.get(XERIAL_HEADER_LEN..).ok_or_else(cut)?;
    while !rest.is_empty() {
        // Streams glued together repeat the header.
        if rest.starts_with(&XERIAL_MAGIC) {
            rest = rest.get(XERIAL_HEADER_LEN..).ok_or_else(cut)?;
            continue;
        }
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let length = u32::from_be_bytes(*length) as usize;
        let block = after.get(..length).ok_or_else(cut)?;
        unsnap_block(block, cap, &mut output)?;
        rest = after.get(length..).unwrap_or(&[]);
    }
    Ok(output)
}

fn unsnap_block(block: &[u8], cap: usize, output: &mut Vec<u8>) -> Result<(), CompressionError> {
    let length = snap::raw::decompress_len(block).map_err(|error| damaged(Codec::Snappy, error))?;
    let start = output.len();
    // Snappy packs at most 64 bytes into three, so a longer claim cannot be met: do not allocate for it.
    let reachable = block.len().saturating_mul(32);
    if length > reachable {
        return Err(damaged(
            Codec::Snappy,
            "the block claims more than its bytes can hold",
        ));
    }
    if start.saturating_add(length) > cap {
        let codec = Codec::Snappy;
        return Err(CompressionError::TooLarge { codec, cap });
    }
    output.resize(start + length, 0);
    let target = output.get_mut(start..).unwrap_or(&mut []);
    snap::raw::Decoder::new()
        .decompress(block, target)
        .map_err(|error| damaged(Codec::Snappy, error))?;
    Ok(())
}

fn snap_xerial(input: &[u8]) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    output.extend_from_slice(&XERIAL_MAGIC);
    output.extend_from_slice(&1_i32.to_be_bytes());
    output.extend_from_slice(&1_i32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    for block in input.chunks(XERIAL_BLOCK) {
        let packed = encoder.compress_vec(block)?;
        let length = u32::try_from(packed.len()).map_err(io::Error::other)?;
        output.extend_from_slice(&length.to_be_bytes());
        output.extend_from_slice(&packed);
    }
    Ok(output)
}

#[cfg(test)]
#[path = "compression_tests.rs"]
mod tests;
