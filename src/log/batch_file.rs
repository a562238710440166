//! Walking over the batches of a `.log` file with bounded memory.
//!
//! Two walks: one reads headers only and jumps over the records (lookups), the other also checks every checksum
//! (recovery, inspection). Neither holds more than its window, whatever length a header claims.
use std::io;

use crate::log::batch::{BatchError, BatchHeader, Checksum, HEADER_LEN, MIN_LEN};
use crate::log::files::FileHandle;

/// Window of a walk that reads headers only: small batches come several a read, large ones cost one small read each.
const HEADER_WINDOW: usize = 4 * 1024;
/// Window of a walk that reads everything.
const CHECK_WINDOW: usize = 256 * 1024;

/// A batch in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchInFile {
    /// Its header.
    pub header: BatchHeader,
    /// Byte position of its start.
    pub position: u64,
}

impl BatchInFile {
    /// Byte position after its end.
    pub fn end(&self) -> u64 {
        self.position.saturating_add(u64::from(self.header.size))
    }
}

/// Why a walk over a file stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The batch at this position is damaged.
    #[error("damaged batch at position {position}: {source}")]
    Damaged {
        /// Byte position of the batch.
        position: u64,
        /// What is wrong.
        source: BatchError,
    },
}

/// Walks over the batches of `file` in `position..end`, reading headers only.
///
/// A torn tail (fewer than 18 bytes left, or a batch that would run past `end`) ends the walk silently;
/// [`FileBatches::position`] is then the end of the last whole batch.
pub fn batches_in(file: &dyn FileHandle, position: u64, end: u64) -> FileBatches<'_> {
    FileBatches::new(file, position, end, HEADER_WINDOW, false)
}

/// As [`batches_in`], and every checksum is checked: the walk reads all bytes once, in order.
pub fn checked_batches_in(file: &dyn FileHandle, position: u64, end: u64) -> FileBatches<'_> {
    FileBatches::new(file, position, end, CHECK_WINDOW, true)
}

/// Reads one whole batch. `limit` bounds what is allocated.
///
/// # Errors
/// [`WalkError::Damaged`] if the header claims more than `limit` bytes, [`WalkError::Io`] if they cannot be read.
pub fn read_batch(file: &dyn FileHandle, batch: &BatchInFile, limit: u64) -> Result<Vec<u8>, WalkError> {
    let size = u64::from(batch.header.size);
    if size > limit {
        let have = limit;
        return Err(WalkError::Damaged {
            position: batch.position,
            source: BatchError::Torn { have, need: size },
        });
    }
    let mut bytes = vec![0; batch.header.size as usize];
    file.read_exact_at(&mut bytes, batch.position)?;
    Ok(bytes)
}

/// See [`batches_in`] and [`checked_batches_in`].
#[derive(Debug)]
pub struct FileBatches<'a> {
    file: &'a dyn FileHandle,
    position: u64,
    end: u64,
    check: bool,
    done: bool,
    window: Vec<u8>,
    window_at: u64,
    window_len: usize,
}

impl<'a> FileBatches<'a> {
    fn new(file: &'a dyn FileHandle, position: u64, end: u64, window: usize, check: bool) -> Self {
        let span = usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX);
        Self {
            file,
            position,
            end,
            check,
            done: false,
            window: vec![0; window.min(span.max(HEADER_LEN))],
            window_at: 0,
            window_len: 0,
        }
    }

    /// The end of the last whole batch so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The bytes from `at` on that the window holds, at least `need` of them unless the range ends before.
    fn bytes_at(&mut self, at: u64, need: usize) -> io::Result<&[u8]> {
        let held = |window_at: u64, window_len: usize| {
            let skip = usize::try_from(at.checked_sub(window_at)?).ok()?;
            (skip < window_len).then_some(skip)
        };
        let need = need.min(usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX));
        let enough = held(self.window_at, self.window_len).is_some_and(|skip| self.window_len - skip >= need);
        if !enough && need > 0 {
            let want = usize::try_from(self.end.saturating_sub(at))
                .unwrap_or(usize::MAX)
                .min(self.window.len());
            let target = self.window.get_mut(..want).unwrap_or(&mut []);
            self.window_len = 0;
            self.window_len = self.file.read_full_at(target, at)?;
            self.window_at = at;
        }
        Ok(held(self.window_at, self.window_len)
            .and_then(|skip| self.window.get(skip..self.window_len))
            .unwrap_or(&[]))
    }

    fn step(&mut self) -> Result<Option<BatchInFile>, WalkError> {
        let position = self.position;
        let left = self.end.saturating_sub(position);
        if left < MIN_LEN as u64 {
            return Ok(None);
        }
        let header = match BatchHeader::parse(self.bytes_at(position, HEADER_LEN)?) {
            Ok(header) => header,
            // Every byte up to the end was offered to the parser: the header itself is torn.
            Err(BatchError::Torn { .. }) => return Ok(None),
            Err(source) => return Err(WalkError::Damaged { position, source }),
        };
        if u64::from(header.size) > left {
            return Ok(None);
        }
        let batch = BatchInFile { header, position };
        if self.check && !self.check_crc(&batch)? {
            return Ok(None);
        }
        self.position = batch.end();
        Ok(Some(batch))
    }

    /// False if the file turned out shorter than the range.
    fn check_crc(&mut self, batch: &BatchInFile) -> Result<bool, WalkError> {
        let mut checksum = Checksum::new(batch.header.magic);
        let mut at = batch.position.saturating_add(batch.header.checksum_from() as u64);
        while at < batch.end() {
            let left = usize::try_from(batch.end() - at).unwrap_or(usize::MAX);
            let bytes = self.bytes_at(at, 1)?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let piece = bytes.get(..left).unwrap_or(bytes);
            checksum.update(piece);
            at += piece.len() as u64;
        }
        batch
            .header
            .check_computed(checksum.finish())
            .map_err(|source| WalkError::Damaged {
                position: batch.position,
                source,
            })?;
        Ok(true)
    }
}

impl Iterator for FileBatches<'_> {
    type Item = Result<BatchInFile, WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.step().transpose();
        self.done = !matches!(step, Some(Ok(_)));
        step
    }
}

#[cfg(test)]
#[path = "batch_file_tests.rs"]
mod tests;
