//! Speed of the partition log, in figures to read and not to assert: appends against plain page-cache writes on the same disk in the same run,
//! opening after a clean stop, and a retention pass with nothing to delete.
//!
//! `cargo bench --bench log [append|open|pass]…`; `TIDEMARK_BENCH_DIR` is where the files go (default: a temporary directory).
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tidemark::log::append::Origin;
use tidemark::log::batch::{self, BatchHeader};
use tidemark::log::compression::Codec;
use tidemark::log::error::LogError;
use tidemark::log::files::{DiskFiles, Files};
use tidemark::log::handles::HandleCache;
use tidemark::log::index_file::Entry as _;
use tidemark::log::names::{SegmentFile, segment_path};
use tidemark::log::partition::{Durability, LogStarts, OpenLog, PartitionLog};
use tidemark::log::producer_state::ProducerStates;
use tidemark::log::records::RecordWriter;
use tidemark::log::snapshot;
use tidemark::log::time_index::TimestampOffset;
use tidemark::resource::settings::TopicSettings;
use tidemark::telemetry::clock::{Clock, SystemClock};

const MIB: usize = 1 << 20;

#[derive(Debug)]
struct NoStarts;

impl LogStarts for NoStarts {
    fn persist(&self, _: &str, _: i32, _: i64) -> Result<(), LogError> {
        Ok(())
    }
}

fn main() -> Result<()> {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|other| other == name);
    let directory = match std::env::var_os("TIDEMARK_BENCH_DIR") {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    }
    .context("no place for the files")?;
    if wanted("append") {
        append(directory.path())?;
    }
    if wanted("open") {
        open(directory.path())?;
    }
    if wanted("pass") {
        pass(directory.path())?;
    }
    Ok(())
}

fn batch_of(size: usize, timestamp: i64, records: usize) -> Vec<u8> {
    let mut writer = RecordWriter::default();
    let value = vec![b'v'; size / records.max(1)];
    for _ in 0..records {
        writer.push(0, None, Some(&value), 0, &[]);
    }
    let header = BatchHeader {
        base_offset: 0,
        size: 0,
        leader_epoch: -1,
        magic: 2,
        crc: 0,
        attributes: batch::attributes(Codec::None, false, false, false),
        last_offset_delta: writer.count() - 1,
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: writer.count(),
    };
    batch::encode(&header, &writer.into_bytes())
}

fn open_log(directory: &Path, settings: &Arc<TopicSettings>, handles: &Arc<HandleCache>) -> OpenLog {
    OpenLog {
        files: DiskFiles::shared(),
        directory: directory.to_owned(),
        topic: "bench".to_owned(),
        partition: 0,
        settings: Arc::clone(settings),
        clock: Arc::new(SystemClock::new()),
        handles: Arc::clone(handles),
        durability: Durability::PageCache,
        log_starts: Arc::new(NoStarts),
        clean: true,
        recovery_point: 0,
        log_start: 0,
        producer_expiration_ms: 86_400_000,
    }
}

/// Processor time of this process so far, in steps of 10 ms: what counts where the machine is shared.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(10 * ticks)
}

fn rate(bytes: usize, took: Duration) -> f64 {
    bytes as f64 / MIB as f64 / took.as_secs_f64()
}

/// Batches of one mebibyte with a thousand records each, against plain writes of the same bytes.
fn append(directory: &Path) -> Result<()> {
    const ROUNDS: usize = 5;
    const BATCHES: usize = 256;
    let settings = Arc::new(TopicSettings {
        max_message_bytes: 4 << 20,
        segment_bytes: 128 << 20,
        ..TopicSettings::default()
    });
    let batch = batch_of(MIB, SystemClock::new().wall_ms(), 1_000);
    let handles = HandleCache::new(64);
    let (mut plain_best, mut log_best) = (0.0_f64, 0.0_f64);
    let plain_writes = || -> Result<f64> {
        let path = directory.join("plain");
        let file = File::create(&path)?;
        let start = Instant::now();
        for n in 0..BATCHES {
            file.write_all_at(&batch, (n * batch.len()) as u64)?;
        }
        let plain = rate(BATCHES * batch.len(), start.elapsed());
        drop(file);
        std::fs::remove_file(&path)?;
        Ok(plain)
    };
    let appends = || -> Result<f64> {
        let partition = directory.join("append-0");
        DiskFiles.create_dir(&partition)?;
        let log = PartitionLog::open(open_log(&partition, &settings, &handles))?;
        let start = Instant::now();
        for _ in 0..BATCHES {
            log.append(&batch, 0, Origin::Client)?;
        }
        let logged = rate(BATCHES * batch.len(), start.elapsed());
        drop(log);
        std::fs::remove_dir_all(&partition)?;
        Ok(logged)
    };
    for round in 0..ROUNDS {
        // They take turns in going first: what the one leaves behind in the page cache must not favour the other.
        let (plain, logged) = if round % 2 == 0 {
            let plain = plain_writes()?;
            (plain, appends()?)
        } else {
            let logged = appends()?;
            (plain_writes()?, logged)
        };
        println!(
            "append, round {round}: plain writes {plain:.0} MiB/s, log {logged:.0} MiB/s, {:.0} %",
            100.0 * logged / plain
        );
        plain_best = plain_best.max(plain);
        log_best = log_best.max(logged);
    }
    println!(
        "append, best: plain writes {plain_best:.0} MiB/s, log {log_best:.0} MiB/s, {:.0} %",
        100.0 * log_best / plain_best
    );
    Ok(())
}

/// Partition directories as a clean stop leaves them, made without going through the log.
fn make_partitions(directory: &Path, partitions: usize, segments: i64) -> Result<Vec<std::path::PathBuf>> {
    let now_ms = SystemClock::new().wall_ms();
    let mut paths = Vec::with_capacity(partitions);
    let template = batch_of(100, now_ms, 1);
    for partition in 0..partitions {
        let path = directory.join(format!("bench-{partition}"));
        DiskFiles.create_dir(&path)?;
        for base_offset in 0..segments {
            let mut bytes = template.clone();
            batch::set_base_offset(&mut bytes, base_offset);
            std::fs::write(segment_path(&path, base_offset, SegmentFile::Log), bytes)?;
            std::fs::write(segment_path(&path, base_offset, SegmentFile::OffsetIndex), [])?;
            let closing = TimestampOffset {
                timestamp: now_ms,
                offset: base_offset,
            };
            let closing = closing.encode(base_offset).context("an offset at its own base")?;
            std::fs::write(segment_path(&path, base_offset, SegmentFile::TimeIndex), closing)?;
            if base_offset > 0 {
                snapshot::write(&DiskFiles, &path, base_offset, &ProducerStates::default())?;
            }
        }
        snapshot::write(&DiskFiles, &path, segments, &ProducerStates::default())?;
        paths.push(path);
    }
    Ok(paths)
}

fn open_all(paths: &[std::path::PathBuf]) -> Result<Vec<PartitionLog>> {
    let settings = Arc::new(TopicSettings::default());
    let handles = HandleCache::new(512);
    let next = AtomicUsize::new(0);
    let opened = Mutex::new(Vec::with_capacity(paths.len()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let log = PartitionLog::open(open_log(path, &settings, &handles));
                    opened.lock().push(log);
                }
            });
        }
    });
    opened
        .into_inner()
        .into_iter()
        .map(|log| log.map_err(Into::into))
        .collect()
}

fn open(directory: &Path) -> Result<()> {
    let parent = directory.join("open");
    std::fs::create_dir(&parent)?;
    let paths = make_partitions(&parent, 1_000, 100)?;
    for round in 0..3 {
        let (start, before) = (Instant::now(), cpu());
        let logs = open_all(&paths)?;
        let (took, worked) = (start.elapsed(), cpu().saturating_sub(before));
        let segments: usize = logs.iter().map(|log| log.segments().len()).sum();
        println!(
            "open, round {round}: {} partitions, {segments} segments in {} ms, {} ms of CPU",
            logs.len(),
            took.as_millis(),
            worked.as_millis()
        );
    }
    std::fs::remove_dir_all(&parent)?;
    Ok(())
}

fn pass(directory: &Path) -> Result<()> {
    let parent = directory.join("pass");
    std::fs::create_dir(&parent)?;
    let paths = make_partitions(&parent, 10_000, 10)?;
    let logs = open_all(&paths)?;
    let now_ms = SystemClock::new().wall_ms();
    for round in 0..3 {
        let (start, before) = (Instant::now(), cpu());
        let mut deleted = 0;
        for log in &logs {
            log.idle_roll(now_ms)?;
            deleted += log.retain(now_ms)?.deleted.len();
        }
        let (took, worked) = (start.elapsed(), cpu().saturating_sub(before));
        println!(
            "pass, round {round}: {} partitions, {deleted} segments deleted, {} µs, {} ms of CPU",
            logs.len(),
            took.as_micros(),
            worked.as_millis()
        );
    }
    std::fs::remove_dir_all(&parent)?;
    Ok(())
}
