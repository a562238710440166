//! Producers' state at start: the newest usable snapshot, and the batches behind it.
//!
//! Kafka's `UnifiedLog.rebuildProducerState`. After a clean stop the snapshot at the log end says everything and no batch is read.
//! After a crash the replay begins at or before the first segment that was read again, so that its transaction index can be made anew on
//! the way.
use std::collections::BTreeMap;

use crate::log::batch::{BatchHeader, BatchSlice};
use crate::log::batch_file::{self, BatchInFile, WalkError};
use crate::log::error::{LogError, PathContext};
use crate::log::files::{self, FileHandle, OpenMode};
use crate::log::leftovers::LiveFiles;
use crate::log::names::{SegmentFile, segment_path};
use crate::log::partition::OpenLog;
use crate::log::producer_state::ProducerStates;
use crate::log::records;
use crate::log::scan;
use crate::log::snapshot;
use crate::log::txn_index::AbortedTxn;
use crate::retention::SegmentProfile;

/// A control batch is a few dozen bytes.
const MARKER_LIMIT: u64 = 64 * 1024;

/// What a replay gives.
pub(crate) struct Replayed {
    pub producers: ProducerStates,
    /// Base offsets of segments with a transaction index, rising.
    pub txn_indexes: Vec<i64>,
}

/// Rebuilds the producers' state as of `log_end`. `recovered_from` is the base of the first segment that was read again, if any was.
pub(crate) fn producers(
    open: &OpenLog,
    live: &LiveFiles,
    segments: &SegmentProfile,
    log_start: i64,
    log_end: i64,
    recovered_from: Option<i64>,
    now_ms: i64,
) -> Result<Replayed, LogError> {
    let snapshots = usable_snapshots(open, live, segments, log_start, log_end);
    let up_to = recovered_from.map_or(log_end, |base| base.max(log_start).min(log_end));
    let loaded = newest(
        open,
        snapshots.iter().rev().copied().filter(|offset| *offset <= up_to),
        now_ms,
    );
    let (from, mut producers) = match loaded {
        Some((offset, producers)) => (offset.max(log_start), producers),
        // A directory that was closed cleanly and has no snapshot at all never had a producer.
        None if open.clean && recovered_from.is_none() && snapshots.is_empty() => {
            (log_end, ProducerStates::default())
        }
        None => (log_start, ProducerStates::default()),
    };
    let mut aborted: BTreeMap<i64, Vec<AbortedTxn>> = BTreeMap::new();
    let first = segments.position_of(from).unwrap_or(0);
    if from < log_end {
        for (index, segment) in segments.iter().enumerate().skip(first) {
            let base_offset = segment.base_offset;
            let extent = scan::Extent {
                base_offset,
                next_base: segments.get(index + 1).map_or(i64::MAX, |next| next.base_offset),
                size: segment.size_bytes,
            };
            replay_segment(open, extent, from, &mut producers, &mut |txn| {
                aborted.entry(base_offset).or_default().push(txn);
            })?;
        }
    }
    producers.on_high_watermark(log_end);
    producers.expire(now_ms, open.producer_expiration_ms);
    let mut txn_indexes = live.of(SegmentFile::TxnIndex);
    if let Some(recovered_from) = recovered_from {
        txn_indexes.retain(|base| *base < recovered_from);
        rewrite_txn_indexes(open, live, recovered_from, &aborted)?;
        txn_indexes.extend(aborted.keys().filter(|base| **base >= recovered_from));
    }
    Ok(Replayed {
        producers,
        txn_indexes,
    })
}

/// Snapshots that may be used, rising; the others are removed as in Kafka: those at no segment's base (but the newest may stand above
/// the last base), those above the log end and those at or below the log start.
fn usable_snapshots(
    open: &OpenLog,
    live: &LiveFiles,
    segments: &SegmentProfile,
    log_start: i64,
    log_end: i64,
) -> Vec<i64> {
    let offsets = live.of(SegmentFile::Snapshot);
    let bases: Vec<i64> = segments.iter().map(|segment| segment.base_offset).collect();
    let strays = snapshot::strays(&offsets, &bases);
    let (usable, useless): (Vec<i64>, Vec<i64>) = offsets
        .into_iter()
        .partition(|offset| !strays.contains(offset) && *offset <= log_end && *offset > log_start);
    for offset in useless {
        let path = segment_path(&open.directory, offset, SegmentFile::Snapshot);
        if let Err(error) = files::unlink_if_present(open.files.as_ref(), &path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove a producer snapshot that is of no use");
        }
    }
    usable
}

/// The first of `offsets` whose snapshot can be read; damaged ones are removed.
fn newest(open: &OpenLog, offsets: impl Iterator<Item = i64>, now_ms: i64) -> Option<(i64, ProducerStates)> {
    for offset in offsets {
        let path = segment_path(&open.directory, offset, SegmentFile::Snapshot);
        match snapshot::load(open.files.as_ref(), &path) {
            Ok(Some(mut producers)) => {
                producers.expire(now_ms, open.producer_expiration_ms);
                return Some((offset, producers));
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a damaged producer snapshot is removed");
                let _ = open.files.unlink(&path);
            }
        }
    }
    None
}

fn replay_segment(
    open: &OpenLog,
    extent: scan::Extent,
    from: i64,
    producers: &mut ProducerStates,
    aborted: &mut dyn FnMut(AbortedTxn),
) -> Result<(), LogError> {
    let path = segment_path(&open.directory, extent.base_offset, SegmentFile::Log);
    let file = open.files.open(&path, OpenMode::Read).at("open", &path)?;
    scan::segment(file.as_ref(), extent, i64::MAX, false, |batch: &BatchInFile| {
        if batch.header.base_offset >= from && batch.header.has_producer() {
            let marker = marker(file.as_ref(), batch)?;
            if let Some(completed) = producers.apply(&batch.header, marker)
                && let Some(txn) = completed.aborted_txn()
            {
                aborted(txn);
            }
        }
        Ok::<(), std::io::Error>(())
    })
    .map(|_| ())
    .at("read", &path)
}

/// What a control batch says; a damaged one says nothing.
fn marker(file: &dyn FileHandle, batch: &BatchInFile) -> std::io::Result<Option<records::EndTxnMarker>> {
    let header: BatchHeader = batch.header;
    if !header.is_control() {
        return Ok(None);
    }
    match batch_file::read_batch(file, batch, MARKER_LIMIT) {
        Ok(bytes) => {
            let slice = BatchSlice {
                header,
                bytes: &bytes,
                position: 0,
            };
            Ok(records::end_txn_marker(&slice).unwrap_or(None))
        }
        Err(WalkError::Io(error)) => Err(error),
        Err(WalkError::Damaged { .. }) => Ok(None),
    }
}

/// Makes the transaction indexes of the segments that were read again anew.
fn rewrite_txn_indexes(
    open: &OpenLog,
    live: &LiveFiles,
    recovered_from: i64,
    aborted: &BTreeMap<i64, Vec<AbortedTxn>>,
) -> Result<(), LogError> {
    for base in live.of(SegmentFile::TxnIndex) {
        if base >= recovered_from && !aborted.contains_key(&base) {
            let path = segment_path(&open.directory, base, SegmentFile::TxnIndex);
            files::unlink_if_present(open.files.as_ref(), &path)?;
        }
    }
    for (base, entries) in aborted.range(recovered_from..) {
        let path = segment_path(&open.directory, *base, SegmentFile::TxnIndex);
        let file = open.files.open(&path, OpenMode::Truncate).at("create", &path)?;
        let bytes: Vec<u8> = entries.iter().flat_map(AbortedTxn::encode).collect();
        file.write_all_at(&bytes, 0).at("write", &path)?;
    }
    Ok(())
}
