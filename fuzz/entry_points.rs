//! What is done with hostile bytes: by the fuzz targets for as long as one likes, by the tests for a moment.
//!
//! Each function takes any bytes at all. It must come back: no panic, no endless loop, no memory out of proportion to the input.
//! Refusing is fine, and the usual outcome.
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidemark::engine::Engine;
use tidemark::engine::offline::AtRest;
use tidemark::engine::store::{Batch, Store, Table};
use tidemark::log::append::Origin;
use tidemark::log::batch::{self, BatchHeader};
use tidemark::log::checkpoints::{self, MetaProperties};
use tidemark::log::compression::{self, Codec};
use tidemark::log::error::LogError;
use tidemark::log::files::DiskFiles;
use tidemark::log::handles::HandleCache;
use tidemark::log::leader_epochs::LeaderEpochs;
use tidemark::log::partition::{Durability, LogStarts, OpenLog, PartitionLog};
use tidemark::log::read::Isolation;
use tidemark::log::record::record_headers;
use tidemark::log::records::{self, OpenBatch, RecordWriter};
use tidemark::log::validate::{self, AppendRules};
use tidemark::log::{inspect, snapshot, txn_index};
use tidemark::resource::contract::DesiredTopic;
use tidemark::resource::settings::TopicSettings;
use tidemark::telemetry::clock::ManualClock;
use tidemark::wire::apis;
use tidemark::wire::frame;
use tidemark::wire::registry::{CallError, Table as ApiTable};

/// The most a compressed batch may grow to here, bytes.
const DECOMPRESSED: usize = 1 << 20;

/// Everything is looked at.
const DEPTH: inspect::Depth = inspect::Depth {
    batches: true,
    verify: true,
    now_ms: NOW,
};

/// The wall time of these runs, ms.
const NOW: i64 = 1_700_000_000_000;

/// A request as it comes from a connection, without its length: header, walk, decoder.
///
/// The walk and the decoder must agree on how long the body is: the decoder trusts what the walk has passed.
pub fn request_frame(bytes: &[u8]) {
    thread_local! {
        static TABLE: ApiTable<Engine> = ApiTable::new(apis::all::<Engine>());
    }
    if let Some(prefix) = bytes.first_chunk::<4>() {
        let _ = frame::frame_length(*prefix, 100 << 20);
    }
    TABLE.with(|table| {
        if let Err(error @ CallError::Encode(_)) = table.examine(bytes) {
            panic!("{error}");
        }
    });
}

/// Record batches as a producer sends them or a segment holds them. The first batch gets a right checksum first, because no
/// mutation would find it.
pub fn record_batches(bytes: &[u8]) {
    walk_batches(bytes);
    let mut sound = bytes.to_vec();
    if let Some(length) = sound
        .get(8..12)
        .and_then(|field| field.first_chunk::<4>().copied())
    {
        let size = usize::try_from(i32::from_be_bytes(length))
            .unwrap_or(0)
            .saturating_add(12);
        if size >= batch::HEADER_LEN
            && let Some(first) = sound.get_mut(..size)
        {
            batch::set_crc(first);
            walk_batches(&sound);
        }
    }
}

fn walk_batches(bytes: &[u8]) {
    for batch in batch::batches(bytes) {
        let Ok(batch) = batch else { break };
        let _ = batch.header.check_crc(batch.bytes);
        let _ = records::first_at_or_after(&batch, 0, 0, DECOMPRESSED);
        let _ = records::largest_timestamp(&batch, DECOMPRESSED);
        let _ = records::end_txn_marker(&batch);
        if let Ok(open) = OpenBatch::open(&batch, DECOMPRESSED) {
            for record in open.records() {
                let Ok(record) = record else { break };
                let _ = record_headers(&record).count();
            }
        }
    }
    let settings = TopicSettings {
        max_decompressed_message_bytes: DECOMPRESSED as i64,
        ..TopicSettings::default()
    };
    let rules = AppendRules {
        codec: Some(Codec::Lz4),
        ..AppendRules::from(&settings)
    };
    if let Ok(sent) = validate::single_batch(bytes) {
        let _ = validate::validate(&sent, &rules, NOW);
    }
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        if let Ok(opened) = compression::decompress(codec, bytes, DECOMPRESSED) {
            assert!(
                opened.len() <= DECOMPRESSED,
                "{codec:?} gives {} bytes",
                opened.len()
            );
        }
    }
}

/// The small files beside the segments: checkpoints, epochs, ids, snapshots, aborted transactions.
pub fn side_files(bytes: &[u8]) {
    let _ = snapshot::decode(bytes);
    let _ = txn_index::parse(bytes, 0);
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(offsets) = checkpoints::parse_offsets(text) {
            let again = checkpoints::parse_offsets(&checkpoints::format_offsets(&offsets));
            assert_eq!(again.as_ref(), Ok(&offsets));
        }
        if let Ok(id) = checkpoints::parse_topic_id(text) {
            assert_eq!(checkpoints::parse_id(&checkpoints::format_id(id)), Ok(id));
        }
        if let Ok(properties) = MetaProperties::parse(text) {
            let _ = MetaProperties::parse(&properties.to_text());
        }
        if let Ok(epochs) = LeaderEpochs::parse(text) {
            let _ = epochs.end_offset_for(i32::MAX, i64::MAX);
        }
    }
}

#[derive(Debug)]
struct Forgotten;

impl LogStarts for Forgotten {
    fn persist(&self, _: &str, _: i32, _: i64) -> Result<(), LogError> {
        Ok(())
    }
}

/// The files a directory is made of, by the number that names them in the input.
const NAMES: [&str; 10] = [
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.snapshot",
    "00000000000000000000.txnindex",
    "00000000000000000007.log",
    "00000000000000000007.index",
    "00000000000000000007.timeindex",
    "leader-epoch-checkpoint",
    "partition.metadata",
];

/// A partition directory that anyone may have written: looked into, opened, read, searched, appended to, trimmed, closed and
/// opened again.
///
/// The input is a row of files, each a number into [`NAMES`], a length of two bytes, and so much content; a first byte says whether
/// the last stop was clean and where the checkpoints stand.
pub fn partition_directory(bytes: &[u8]) {
    let Some((head, mut rest)) = bytes.split_first() else {
        return;
    };
    let Ok(home) = tempfile::tempdir() else { return };
    let directory = home.path().join("fuzzed-0");
    if std::fs::create_dir(&directory).is_err() {
        return;
    }
    while let Some((file, behind)) = rest.split_first_chunk::<3>() {
        let [name, high, low] = *file;
        let length = usize::from(u16::from_be_bytes([high, low])).min(behind.len());
        let (content, behind) = behind.split_at(length);
        let name = NAMES[usize::from(name) % NAMES.len()];
        if std::fs::write(directory.join(name), content).is_err() {
            return;
        }
        rest = behind;
    }
    let _ = inspect::inspect(&DiskFiles, &directory, DEPTH);
    for clean in [head & 1 == 0, true] {
        let _ = use_partition(
            &directory,
            clean,
            i64::from(head >> 2),
            i64::from((head >> 1) & 1) * 3,
        );
    }
}

fn use_partition(directory: &Path, clean: bool, recovery_point: i64, log_start: i64) -> Option<()> {
    let log = PartitionLog::open(OpenLog {
        files: DiskFiles::shared(),
        directory: directory.to_owned(),
        topic: "fuzzed".to_owned(),
        partition: 0,
        settings: Arc::new(TopicSettings {
            retention_bytes: 200,
            max_decompressed_message_bytes: DECOMPRESSED as i64,
            ..TopicSettings::default()
        }),
        clock: Arc::new(ManualClock::at(NOW)),
        handles: HandleCache::new(8),
        durability: Durability::PageCache,
        log_starts: Arc::new(Forgotten),
        clean,
        recovery_point,
        log_start,
        producer_expiration_ms: 86_400_000,
    })
    .ok()?;
    let bounds = log.bounds();
    assert!(bounds.log_start <= bounds.last_stable_offset, "{bounds:?}");
    assert!(bounds.last_stable_offset <= bounds.high_watermark, "{bounds:?}");
    assert!(bounds.high_watermark <= bounds.log_end, "{bounds:?}");
    for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted] {
        for offset in [
            bounds.log_start,
            bounds.log_start.saturating_add(1),
            bounds.log_end,
        ] {
            if let Ok(slice) = log.read(offset, 1_000, true, isolation) {
                let _ = slice.to_vec();
            }
        }
        let _ = log.max_timestamp(isolation);
        for timestamp in [0, NOW, i64::MAX] {
            let _ = log.offset_for_timestamp(timestamp, isolation);
        }
    }
    let _ = log.end_offset_for_epoch(i32::MAX);
    if let Ok(appended) = log.append(&one_record(), 3, Origin::Client) {
        assert_eq!(appended.base_offset, bounds.log_end);
        assert_eq!(log.log_end(), bounds.log_end.saturating_add(1));
    }
    let _ = log.retain(NOW);
    let _ = log.delete_records(bounds.log_start.saturating_add(1));
    assert!(log.log_start() >= bounds.log_start);
    let _ = log.close();
    Some(())
}

/// A batch of one record, as a producer without an id sends it.
fn one_record() -> Vec<u8> {
    let mut records = RecordWriter::default();
    records.push(0, None, Some(b"after all that"), 0, &[]);
    let header = BatchHeader {
        base_offset: 0,
        size: 0,
        leader_epoch: -1,
        magic: 2,
        crc: 0,
        attributes: 0,
        last_offset_delta: 0,
        base_timestamp: NOW,
        max_timestamp: NOW,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: 1,
    };
    batch::encode(&header, &records.into_bytes())
}

/// A state store that anyone may have written: opened, read as the engine reads it, written to and opened again.
///
/// A first byte says which. An even one: the rest are entries, each a number into [`Table::ALL`], two lengths of a byte and of two, key and
/// value. An odd one: the rest are changes to the file of a sound store, each a place of three bytes, a length of a byte, and so much content.
pub fn state_store(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first() else {
        return;
    };
    let Ok(home) = tempfile::tempdir() else { return };
    let data = home.path().join("data");
    if std::fs::create_dir_all(data.join("logs")).is_err() {
        return;
    }
    let path = data.join("state.redb");
    if head & 1 == 0 {
        let Ok(store) = Store::open(&path) else { return };
        let _ = store.write_blocking(entries(rest));
        store.close();
    } else {
        let mut file = sound_store();
        change(&mut file, rest);
        if std::fs::write(&path, file).is_err() {
            return;
        }
    }
    look_at_rest(&data, &home.path().join("scratch"));
    if let Ok(store) = Store::open(&path) {
        for table in Table::ALL {
            let _ = store.scan(table);
        }
        let mut batch = Batch::new();
        batch.put(Table::Engine, "after", "all that");
        if store.write_blocking(batch).is_ok() {
            let read = store.get(Table::Engine, b"after");
            assert_eq!(read.ok().flatten().as_deref(), Some(&b"all that"[..]));
        }
        store.close();
    }
}

/// What an engine that starts, and `tidemark plan --data`, would make of the entries.
fn look_at_rest(data: &Path, scratch: &Path) {
    if std::fs::create_dir(scratch).is_err() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let clock = Arc::new(ManualClock::at(NOW));
        if let Ok(rest) = AtRest::open(data, scratch, Duration::from_secs(300), clock) {
            let _ = rest.plan("orders", &DesiredTopic::default());
        }
    });
}

fn entries(mut rest: &[u8]) -> Batch {
    let mut batch = Batch::new();
    while let Some((head, behind)) = rest.split_first_chunk::<4>() {
        let [table, key, high, low] = *head;
        let (key, behind) = behind.split_at(usize::from(key).min(behind.len()));
        let length = usize::from(u16::from_be_bytes([high, low])).min(behind.len());
        let (value, behind) = behind.split_at(length);
        batch.put(Table::ALL[usize::from(table) % Table::ALL.len()], key, value);
        rest = behind;
    }
    batch
}

/// The file of a store with an entry or two in each table, as a clean stop leaves it.
fn sound_store() -> Vec<u8> {
    thread_local! {
        static SOUND: Vec<u8> = make_sound_store().unwrap_or_default();
    }
    SOUND.with(Clone::clone)
}

fn make_sound_store() -> Option<Vec<u8>> {
    let home = tempfile::tempdir().ok()?;
    let path = home.path().join("state.redb");
    let store = Store::open(&path).ok()?;
    for round in 0..3 {
        let mut batch = Batch::new();
        for table in Table::ALL {
            batch.put(table, format!("key {round}"), "value ".repeat(20));
        }
        store.write_blocking(batch).ok()?;
    }
    store.close();
    std::fs::read(path).ok()
}

fn change(file: &mut [u8], mut rest: &[u8]) {
    while let Some((head, behind)) = rest.split_first_chunk::<4>() {
        let [high, middle, low, length] = *head;
        let (content, behind) = behind.split_at(usize::from(length).min(behind.len()));
        let at = u32::from_be_bytes([0, high, middle, low]) as usize % file.len().max(1);
        for (place, byte) in file.iter_mut().skip(at).zip(content) {
            *place = *byte;
        }
        rest = behind;
    }
}
