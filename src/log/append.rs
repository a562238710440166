//! Appending: one positional write per call, whatever the batches hold.
//!
//! The producer's bytes are never copied or moved: base offset and leader epoch are stamped on a copy of the 61 header
//! bytes, and header and body go to the file as one vectored write. Order of the steps is Kafka's (`UnifiedLog.append`):
//! checks, leader epoch, roll, sequence check, write, publish. In particular the roll comes before the sequence check, so
//! that segment bases are the same as Kafka's also where a producer repeats itself.
use std::io::{self, IoSlice};

use crate::log::batch::{self, BatchError, BatchHeader, CRC_FROM, Checksum, HEADER_LEN};
use crate::log::batch_file;
use crate::log::error::{AppendError, LogError, PathContext};
use crate::log::files::FileHandle;
use crate::log::leader_epochs::EpochStart;
use crate::log::names::{LEADER_EPOCH_CHECKPOINT, SegmentFile};
use crate::log::partition::{Durability, PartitionLog, View, Writer};
use crate::log::producer_state::SequenceCheck;
use crate::log::roll::Incoming;
use crate::log::segment::FirstTimestamp;
use crate::log::validate::{self, AppendRules};
use crate::resource::settings::TimestampType;

/// Who sends the batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A producer: exactly what a Produce request may hold, sequences checked.
    Client,
}

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset of the last record.
    pub last_offset: i64,
    /// The time the records were stamped with in ms, -1 where the producer's stamps stand. For a duplicate it is the
    /// timestamp of the batch that is already there, as in Kafka.
    pub log_append_time_ms: i64,
    /// Log start at that moment.
    pub log_start_offset: i64,
    /// The batch was there already; nothing was written.
    pub duplicate: bool,
}

impl PartitionLog {
    /// Appends the one v2 record batch that a producer sent, gives it offsets, and answers when it is as durable as
    /// the log's [`Durability`] promises.
    ///
    /// # Errors
    /// See [`AppendError`]; nothing was appended then.
    pub fn append(&self, records: &[u8], leader_epoch: i32, origin: Origin) -> Result<Appended, AppendError> {
        let appended = self.append_buffered(records, leader_epoch, origin)?;
        if self.durability == Durability::Ack || self.flush_is_wanted() {
            self.commit(appended.last_offset.saturating_add(1))?;
        }
        Ok(appended)
    }

    /// As [`PartitionLog::append`], and returns as soon as the bytes are in the page cache, whatever the durability and
    /// `flush.messages`; [`PartitionLog::commit`] is the other half, where one of them asks for it.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn append_buffered(
        &self,
        records: &[u8],
        leader_epoch: i32,
        origin: Origin,
    ) -> Result<Appended, AppendError> {
        let settings = self.settings.load();
        let now_ms = self.clock.wall_ms();
        let stamps = settings.message_timestamp_type == TimestampType::LogAppendTime;
        let sent = match origin {
            Origin::Client => validate::single_batch(records)?,
        };
        let accepted = validate::validate(&sent, &AppendRules::from(settings.as_ref()), now_ms)?;
        let bytes = accepted.rebuilt.as_deref().unwrap_or(sent.bytes);
        let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        if size > settings.segment_bytes {
            return Err(AppendError::RecordListTooLarge {
                size,
                max: settings.segment_bytes,
            });
        }

        let mut writer = self.writer.lock();
        let base_offset = {
            let view = self.view.lock();
            self.check_writable(&view)?;
            view.log_end
        };
        let last_offset = base_offset.saturating_add(i64::from(accepted.header.last_offset_delta));
        if last_offset >= i64::MAX - 1 {
            return Err(AppendError::invalid_record("the log has no offsets left"));
        }
        let batch = Stamped::new(&accepted.header, bytes, base_offset, leader_epoch)?;
        self.assign_epoch(&mut writer, leader_epoch, base_offset)?;
        let incoming = Incoming {
            size,
            max_timestamp: batch.header.max_timestamp,
            last_offset,
        };
        self.roll_before_append(&mut writer, &incoming, now_ms)?;
        if let SequenceCheck::Duplicate(earlier) = writer.producers.check(&batch.header)? {
            return Ok(Appended {
                base_offset: earlier.first_offset(),
                last_offset: earlier.last_offset,
                log_append_time_ms: earlier.timestamp,
                log_start_offset: self.view.lock().log_start,
                duplicate: true,
            });
        }
        let view = self.write(&mut writer, &batch, now_ms)?;
        let log_start_offset = view.log_start;
        drop(view);
        drop(writer);
        self.waiters.wake();
        Ok(Appended {
            base_offset,
            last_offset,
            log_append_time_ms: if stamps { now_ms } else { -1 },
            log_start_offset,
            duplicate: false,
        })
    }

    /// Writes the batch at the end of the active segment and publishes it.
    fn write(
        &self,
        writer: &mut Writer,
        batch: &Stamped<'_>,
        now_ms: i64,
    ) -> Result<parking_lot::MutexGuard<'_, View>, AppendError> {
        let (segment, position) = {
            let view = self.view.lock();
            (view.active.base_offset, view.active.size)
        };
        let path = || self.segment_path(segment, SegmentFile::Log);
        let file = self.writable(segment, SegmentFile::Log).at("open", &path())?;
        let written = batch.write(file.as_ref(), position);
        if let Err(error) = written {
            let error = Err::<(), _>(error).at("write", &path());
            self.undo_write(file.as_ref(), position);
            error?;
        }
        let mut view = self.view.lock();
        view.active.appended(&batch.header, now_ms);
        let facts = view.active.facts();
        view.segments.set_active(facts);
        // The log end moves before anything else is updated, so that no later failure can give an offset twice.
        view.log_end = batch.header.next_offset();
        if self.durability != Durability::Ack {
            view.high_watermark = view.log_end;
        }
        writer.producers.apply(&batch.header, None);
        writer.producers.on_high_watermark(view.high_watermark);
        view.first_unstable = writer.producers.first_unstable_offset();
        self.store_index_page(&mut view);
        Ok(view)
    }

    /// Notes a new leader epoch on disk before the first record of it.
    fn assign_epoch(&self, writer: &mut Writer, epoch: i32, start_offset: i64) -> Result<(), LogError> {
        let same = |latest: EpochStart| latest.epoch == epoch && latest.start_offset <= start_offset;
        if writer.epochs.latest().is_some_and(same) {
            return Ok(());
        }
        let mut epochs = writer.epochs.clone();
        if !epochs.assign(epoch, start_offset) {
            return Ok(());
        }
        epochs.store(self.files.as_ref(), &self.directory.join(LEADER_EPOCH_CHECKPOINT))?;
        writer.epochs = epochs;
        Ok(())
    }

    /// Takes back what a failed write may have left behind the end. If that fails too the bytes stay: the next append
    /// writes over them, and a close or recovery cuts what is left.
    fn undo_write(&self, file: &dyn FileHandle, position: i64) {
        let undone = file.set_len(u64::try_from(position).unwrap_or(0));
        if let Err(error) = undone {
            tracing::warn!(topic = self.topic, partition = self.partition, %error,
                "cannot cut off a failed write; it will be written over");
            self.view.lock().active.trim_needed = true;
        }
    }

    /// Writes index entries once a page of them has gathered. A failure is no failure of the append: the entries stay
    /// in memory and are tried again.
    fn store_index_page(&self, view: &mut View) {
        if !view.active.offset_index.wants_storing() {
            return;
        }
        if let Err(error) = self.store_indexes(view) {
            tracing::warn!(topic = self.topic, partition = self.partition, %error,
                "cannot write index entries; they are kept in memory");
        }
    }

    /// Writes all pending index entries of the active segment.
    pub(crate) fn store_indexes(&self, view: &mut View) -> Result<(), LogError> {
        let base_offset = view.active.base_offset;
        let store = |file: SegmentFile, store: &mut dyn FnMut(&dyn FileHandle) -> io::Result<()>| {
            self.writable_index(base_offset, file)
                .and_then(|handle| store(handle.as_ref()))
                .at("write", &self.segment_path(base_offset, file))
        };
        let active = &mut view.active;
        store(SegmentFile::OffsetIndex, &mut |handle| {
            active.offset_index.store(handle)
        })?;
        store(SegmentFile::TimeIndex, &mut |handle| {
            active.time_index.store(handle)
        })
    }

    /// Reads the timestamp that the active segment's age counts from, the first time it is needed after a start.
    pub(crate) fn read_first_timestamp(&self) -> Result<(), LogError> {
        let (base_offset, size) = {
            let view = self.view.lock();
            if view.active.first_timestamp != FirstTimestamp::Unread {
                return Ok(());
            }
            (view.active.base_offset, view.active.size)
        };
        let path = self.segment_path(base_offset, SegmentFile::Log);
        let file = self.handle(base_offset, SegmentFile::Log).at("open", &path)?;
        let end = u64::try_from(size).unwrap_or(0);
        // A first batch that cannot be read has no timestamp to go by; the wall clock does.
        let first = match batch_file::batches_in(file.as_ref(), 0, end).next() {
            Some(Ok(batch)) => batch.header.max_timestamp,
            Some(Err(_)) | None => -1,
        };
        self.view.lock().active.first_timestamp = FirstTimestamp::Known(first);
        Ok(())
    }
}

/// A batch as it goes to disk: the header anew, the records as they came.
struct Stamped<'a> {
    header: BatchHeader,
    head: [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> Stamped<'a> {
    /// `accepted` is what validation says the header shall be; `bytes` is the whole batch.
    fn new(
        accepted: &BatchHeader,
        bytes: &'a [u8],
        base_offset: i64,
        leader_epoch: i32,
    ) -> Result<Self, AppendError> {
        let damaged = |error: BatchError| AppendError::CorruptMessage(error.to_string());
        let Some((head, body)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(AppendError::CorruptMessage(
                "the batch is shorter than its header".to_owned(),
            ));
        };
        let sent = BatchHeader::parse(head).map_err(damaged)?;
        let mut head = *head;
        if sent.attributes != accepted.attributes || sent.max_timestamp != accepted.max_timestamp {
            set_timestamp(
                &mut head,
                body,
                accepted.is_log_append_time(),
                accepted.max_timestamp,
            );
        }
        batch::set_base_offset(&mut head, base_offset);
        batch::set_leader_epoch(&mut head, leader_epoch);
        let header = BatchHeader::parse(&head).map_err(damaged)?;
        Ok(Self { header, head, body })
    }

    fn write(&self, file: &dyn FileHandle, position: i64) -> io::Result<()> {
        let position = u64::try_from(position).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut slices = [IoSlice::new(&self.head), IoSlice::new(self.body)];
        file.write_all_vectored_at(&mut slices, position)
    }
}

/// Sets timestamp type and largest timestamp, and the checksum over header and body, which are not adjacent.
fn set_timestamp(head: &mut [u8; HEADER_LEN], body: &[u8], log_append_time: bool, max_timestamp: i64) {
    batch::set_max_timestamp(head, log_append_time, max_timestamp);
    let (before, covered) = head.split_at_mut(CRC_FROM);
    let mut checksum = Checksum::new(2);
    checksum.update(covered);
    checksum.update(body);
    if let Some(field) = before.last_chunk_mut::<4>() {
        *field = checksum.finish().to_be_bytes();
    }
}
