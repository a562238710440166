//! What the log knows of each producer: sequences, epochs, open transactions.
//!
//! Kafka's `ProducerStateManager`, `ProducerStateEntry` and `ProducerAppendInfo`. It makes a producer's retry harmless (the last five
//! batches of each are remembered) and tells where the first undecided transaction begins. Invariants:
//!
//! * [`check`](ProducerStates::check) changes nothing; only what was really written is [applied](ProducerStates::apply), in offset order.
//! * Deleting records never forgets a producer (KAFKA-7190); only time does, and never while its transaction is open.
use std::collections::{BTreeMap, HashMap};

use crate::log::batch::{BatchHeader, sequence_after};
use crate::log::error::AppendError;
use crate::log::records::EndTxnMarker;
use crate::log::txn_index::AbortedTxn;

/// How many batches of a producer are remembered.
const REMEMBERED: usize = 5;

/// A batch that a producer wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducedBatch {
    /// Sequence of its last record.
    pub last_sequence: i32,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Last offset minus first.
    pub offset_delta: i32,
    /// Its largest timestamp, ms.
    pub timestamp: i64,
}

impl ProducedBatch {
    /// Offset of its first record.
    pub fn first_offset(&self) -> i64 {
        self.last_offset.saturating_sub(i64::from(self.offset_delta))
    }

    /// Sequence of its first record.
    pub fn first_sequence(&self) -> i32 {
        let first = i64::from(self.last_sequence) - i64::from(self.offset_delta);
        let wrapped = if first < 0 {
            first + i64::from(i32::MAX) + 1
        } else {
            first
        };
        i32::try_from(wrapped).unwrap_or(0)
    }
}

/// One producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerEntry {
    /// Its epoch, -1 if unknown.
    pub epoch: i16,
    /// Epoch of the transaction coordinator that wrote its last marker, -1 if none.
    pub coordinator_epoch: i32,
    /// Timestamp of its last batch or marker, ms.
    pub last_timestamp: i64,
    /// First offset of its open transaction.
    pub open_txn_from: Option<i64>,
    /// Its last batches, oldest first; empty if only a marker is known.
    batches: Vec<ProducedBatch>,
}

impl ProducerEntry {
    /// An entry as a snapshot holds it: at most the last batch.
    pub fn restored(
        epoch: i16,
        coordinator_epoch: i32,
        last_timestamp: i64,
        open_txn_from: Option<i64>,
        last_batch: Option<ProducedBatch>,
    ) -> Self {
        Self {
            epoch,
            coordinator_epoch,
            last_timestamp,
            open_txn_from,
            batches: last_batch.into_iter().collect(),
        }
    }

    /// Its remembered batches, oldest first.
    pub fn batches(&self) -> &[ProducedBatch] {
        &self.batches
    }

    /// The sequence of its last record, -1 if unknown.
    pub fn last_sequence(&self) -> i32 {
        self.batches.last().map_or(-1, |batch| batch.last_sequence)
    }

    fn remember(&mut self, batch: ProducedBatch) {
        if self.batches.len() == REMEMBERED {
            self.batches.remove(0);
        }
        self.batches.push(batch);
    }

    /// Sequences of an older epoch mean nothing in a newer one.
    fn enter_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }

    fn is_expired(&self, now_ms: i64, expiration_ms: i64) -> bool {
        self.open_txn_from.is_none() && now_ms.saturating_sub(self.last_timestamp) >= expiration_ms
    }
}

/// What [`ProducerStates::check`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceCheck {
    /// New data: write it.
    Fresh,
    /// Written before: answer with these and write nothing.
    Duplicate(ProducedBatch),
}

/// A transaction whose marker was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletedTxn {
    /// Its producer.
    pub producer_id: i64,
    /// Offset of its first record.
    pub first_offset: i64,
    /// Offset of the marker.
    pub last_offset: i64,
    /// Aborted, as opposed to committed.
    pub aborted: bool,
    /// The last stable offset once the marker is in the log.
    pub last_stable_offset: i64,
}

impl CompletedTxn {
    /// The entry for the transaction index, if it was aborted.
    pub fn aborted_txn(&self) -> Option<AbortedTxn> {
        self.aborted.then_some(AbortedTxn {
            producer_id: self.producer_id,
            first_offset: self.first_offset,
            last_offset: self.last_offset,
            last_stable_offset: self.last_stable_offset,
        })
    }
}

/// All producers of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProducerStates {
    producers: HashMap<i64, ProducerEntry>,
    /// Open transactions by first offset.
    open: BTreeMap<i64, i64>,
    /// Completed ones whose marker is not below the high watermark yet: first offset to marker offset.
    unreplicated: BTreeMap<i64, i64>,
}

impl ProducerStates {
    /// Every producer, by id.
    pub fn producers(&self) -> &HashMap<i64, ProducerEntry> {
        &self.producers
    }

    /// Puts in a producer read from a snapshot.
    pub fn restore(&mut self, producer_id: i64, entry: ProducerEntry) {
        if let Some(first_offset) = entry.open_txn_from {
            self.open.insert(first_offset, producer_id);
        }
        self.producers.insert(producer_id, entry);
    }

    /// Checks a batch that a client sent, before it is written. Batches without a producer id always pass.
    ///
    /// # Errors
    /// INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
    pub fn check(&self, header: &BatchHeader) -> Result<SequenceCheck, AppendError> {
        let producer_id = header.producer_id;
        if producer_id < 0 {
            return Ok(SequenceCheck::Fresh);
        }
        let entry = self.producers.get(&producer_id);
        if let Some(duplicate) = entry.and_then(|entry| find_duplicate(entry, header)) {
            return Ok(SequenceCheck::Duplicate(duplicate));
        }
        let in_txn = entry.is_some_and(|entry| entry.open_txn_from.is_some());
        if header.is_transactional() && !in_txn {
            let message = "the record is not part of an ongoing transaction";
            return Err(AppendError::InvalidTxnState { producer_id, message });
        }
        if let Some(entry) = entry {
            check_epoch_and_sequence(entry, header)?;
        }
        if in_txn && !header.is_transactional() {
            let message = "a transaction is open, the record must be part of it";
            return Err(AppendError::InvalidTxnState { producer_id, message });
        }
        Ok(SequenceCheck::Fresh)
    }

    /// Takes in a batch that has been written, offsets assigned; for a control batch `marker` is what it holds. Gives the
    /// transaction that it completes, if any.
    ///
    /// This is also how state is rebuilt from a log: what is in the log is taken as it is, never refused.
    pub fn apply(&mut self, header: &BatchHeader, marker: Option<EndTxnMarker>) -> Option<CompletedTxn> {
        if header.producer_id < 0 {
            return None;
        }
        if header.is_control() {
            return marker.and_then(|marker| self.apply_marker(header, marker));
        }
        let producer_id = header.producer_id;
        let entry = self.entry(producer_id);
        entry.enter_epoch(header.producer_epoch);
        entry.last_timestamp = header.max_timestamp;
        entry.remember(ProducedBatch {
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        });
        if header.is_transactional() && entry.open_txn_from.is_none() {
            entry.open_txn_from = Some(header.base_offset);
            self.open.insert(header.base_offset, producer_id);
        }
        None
    }

    fn apply_marker(&mut self, header: &BatchHeader, marker: EndTxnMarker) -> Option<CompletedTxn> {
        let producer_id = header.producer_id;
        let last_offset = header.base_offset;
        let entry = self.entry(producer_id);
        entry.enter_epoch(header.producer_epoch);
        entry.coordinator_epoch = marker.coordinator_epoch;
        entry.last_timestamp = header.max_timestamp;
        let first_offset = entry.open_txn_from.take()?;
        self.open.remove(&first_offset);
        self.unreplicated.insert(first_offset, last_offset);
        let still_open = self.open.keys().next();
        Some(CompletedTxn {
            producer_id,
            first_offset,
            last_offset,
            aborted: marker.aborted,
            last_stable_offset: still_open.map_or(last_offset.saturating_add(1), |first| *first),
        })
    }

    fn entry(&mut self, producer_id: i64) -> &mut ProducerEntry {
        self.producers
            .entry(producer_id)
            .or_insert_with(|| ProducerEntry::restored(-1, -1, -1, None, None))
    }

    /// The first offset that a committed read must not reach yet: that of the oldest transaction which is open, or completed with its
    /// marker not below the high watermark. `None` if everything is decided.
    pub fn first_unstable_offset(&self) -> Option<i64> {
        let open = self.open.keys().next();
        let unreplicated = self.unreplicated.keys().next();
        open.into_iter().chain(unreplicated).min().copied()
    }

    /// The last stable offset under this high watermark and log start offset.
    pub fn last_stable_offset(&self, high_watermark: i64, log_start: i64) -> i64 {
        self.first_unstable_offset()
            .map_or(high_watermark, |first| first.max(log_start).min(high_watermark))
    }

    /// To be told whenever the high watermark moves: transactions whose markers lie below it are decided.
    pub fn on_high_watermark(&mut self, high_watermark: i64) {
        self.unreplicated.retain(|_, marker| *marker >= high_watermark);
    }

    /// To be told whenever the log start offset moves. Producers are kept.
    pub fn on_log_start(&mut self, log_start: i64) {
        self.unreplicated.retain(|_, marker| *marker >= log_start);
    }

    /// Forgets producers idle for `expiration_ms` or longer whose transaction is not open; says how many.
    pub fn expire(&mut self, now_ms: i64, expiration_ms: i64) -> usize {
        let before = self.producers.len();
        self.producers
            .retain(|_, entry| !entry.is_expired(now_ms, expiration_ms));
        before - self.producers.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

fn find_duplicate(entry: &ProducerEntry, header: &BatchHeader) -> Option<ProducedBatch> {
    if entry.epoch != header.producer_epoch || header.base_sequence < 0 {
        return None;
    }
    let range = (header.base_sequence, header.last_sequence());
    let mut remembered = entry.batches.iter().copied();
    remembered.find(|batch| (batch.first_sequence(), batch.last_sequence) == range)
}

fn check_epoch_and_sequence(entry: &ProducerEntry, header: &BatchHeader) -> Result<(), AppendError> {
    let (producer_id, epoch, sequence) = (header.producer_id, header.producer_epoch, header.base_sequence);
    // Epoch -1 is what an entry has of which nothing is known; any sequence may then come.
    if entry.epoch < 0 {
        return Ok(());
    }
    if epoch < entry.epoch {
        let current = entry.epoch;
        return Err(AppendError::InvalidProducerEpoch {
            producer_id,
            epoch,
            current,
        });
    }
    let last_sequence = if epoch == entry.epoch {
        entry.last_sequence()
    } else {
        -1
    };
    let expected = if last_sequence < 0 {
        0
    } else {
        sequence_after(last_sequence, 1)
    };
    if sequence == expected {
        return Ok(());
    }
    Err(AppendError::OutOfOrderSequence {
        producer_id,
        sequence,
        last_sequence,
    })
}

#[cfg(test)]
#[path = "producer_state_tests.rs"]
mod tests;
