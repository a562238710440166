//! What the tests of both directions share: the Python client, records as both sides tell them, and logs opened on any directory.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tidemark::log::batch;
use tidemark::log::checkpoints::{self, Offsets};
use tidemark::log::error::LogError;
use tidemark::log::files::DiskFiles;
use tidemark::log::handles::HandleCache;
use tidemark::log::names;
use tidemark::log::partition::{Durability, LogStarts, OpenLog, PartitionLog};
use tidemark::log::read::Isolation;
use tidemark::log::record::record_headers;
use tidemark::log::records::{OpenBatch, end_txn_marker};
use tidemark::resource::settings::TopicSettings;
use tidemark::telemetry::clock::Clock;

use crate::support::kafka::{DUMP_LOG, tool};
use crate::support::peers;
use crate::support::process::Start;

/// One record as a consumer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub offset: i64,
    pub timestamp: i64,
    pub log_append_time: bool,
    pub key: Option<String>,
    pub value: Option<String>,
    pub headers: Vec<(String, Option<String>)>,
}

/// Records of each topic's only partition.
pub type AllSeen = BTreeMap<String, Vec<Seen>>;

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The client of `client.py`.
pub struct Client<'a>(pub &'a str);

impl Client<'_> {
    fn run(&self, arguments: &[&str], input: &str) -> String {
        let python = peers::folder("python").join("bin/python");
        Start::new("client.py", python)
            .arg(peers::source("tests/kafka/client.py"))
            .arg(self.0)
            .args(arguments)
            .run_with(input.as_bytes())
    }

    /// Makes topics of one partition, each with settings of its own.
    pub fn create<'t>(&self, topics: impl IntoIterator<Item = (&'t str, &'t [(&'t str, &'t str)])>) {
        let topics = topics.into_iter().map(|(name, settings)| {
            let settings: BTreeMap<&str, &str> = settings.iter().copied().collect();
            (name, settings)
        });
        self.run(
            &["create"],
            &json!(topics.collect::<BTreeMap<_, _>>()).to_string(),
        );
    }

    /// Sets settings of topics.
    pub fn alter(&self, topics: &BTreeMap<String, BTreeMap<String, String>>) {
        self.run(&["alter"], &json!(topics).to_string());
    }

    /// Writes lines as `client.py` describes them; each is one batch.
    pub fn write(&self, lines: &[Value]) {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        self.run(&["write"], &lines.join("\n"));
    }

    pub fn delete_records(&self, topic: &str, offset: i64) {
        self.run(&["delete"], &json!({ topic: offset }).to_string());
    }

    /// Earliest and latest offset of each topic.
    pub fn offsets(&self, topics: &[&str]) -> BTreeMap<String, (i64, i64)> {
        serde_json::from_str(&self.run(&["offsets"], &json!(topics).to_string())).expect("a JSON object")
    }

    /// Everything that a consumer sees.
    pub fn dump(&self, topics: &[&str], isolation: Isolation) -> AllSeen {
        let level = match isolation {
            Isolation::ReadCommitted => "read_committed",
            _ => "read_uncommitted",
        };
        let mut seen: AllSeen = topics
            .iter()
            .map(|topic| ((*topic).to_owned(), Vec::new()))
            .collect();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        for line in self.run(&["dump", level], &json!(topics).to_string()).lines() {
            let line: Value = serde_json::from_str(line).expect("a JSON line");
            let headers = line["headers"].as_array().into_iter().flatten();
            let record = Seen {
                offset: line["offset"].as_i64().expect("an offset"),
                timestamp: line["timestamp"].as_i64().expect("a timestamp"),
                log_append_time: line["logAppendTime"] == true,
                key: text(&line["key"]),
                value: text(&line["value"]),
                headers: headers
                    .map(|pair| (text(&pair[0]).unwrap_or_default(), text(&pair[1])))
                    .collect(),
            };
            let topic = line["topic"].as_str().expect("a topic");
            seen.get_mut(topic)
                .expect("a topic that was asked for")
                .push(record);
        }
        seen
    }
}

/// Everything that a consumer of `log` sees, read and filtered as clients do.
pub fn seen_in(log: &PartitionLog, isolation: Isolation) -> Vec<Seen> {
    let mut seen = Vec::new();
    let start = log.log_start();
    let mut next = start;
    loop {
        let slice = log.read(next, 1 << 20, true, isolation).expect("a read in range");
        let bytes = slice.to_vec().expect("the bytes of a read");
        let before = next;
        for batch in batch::batches(&bytes) {
            let batch = batch.expect("whole batches");
            batch.header.check_crc(batch.bytes).expect("a right checksum");
            next = batch.header.next_offset();
            let aborted = slice.aborted.iter().any(|txn| {
                let range = txn.first_offset..txn.last_offset;
                txn.producer_id == batch.header.producer_id && range.contains(&batch.header.base_offset)
            });
            if batch.header.is_control() {
                end_txn_marker(&batch).expect("a control record");
                continue;
            }
            if aborted && batch.header.is_transactional() {
                continue;
            }
            let open = OpenBatch::open(&batch, 1 << 26).expect("records that decompress");
            for record in open.records() {
                let record = record.expect("a sound record");
                if record.offset < start {
                    continue;
                }
                let headers = record_headers(&record).map(|header| header.expect("a sound header"));
                seen.push(Seen {
                    offset: record.offset,
                    timestamp: record.timestamp,
                    log_append_time: batch.header.is_log_append_time(),
                    key: record.key.map(hex),
                    value: record.value.map(hex),
                    headers: headers
                        .map(|(key, value)| (String::from_utf8_lossy(key).into_owned(), value.map(hex)))
                        .collect(),
                });
            }
        }
        if next == before {
            return seen;
        }
    }
}

/// Log starts that nobody needs to keep.
#[derive(Debug)]
pub struct Forgotten;

impl LogStarts for Forgotten {
    fn persist(&self, _topic: &str, _partition: i32, _log_start: i64) -> Result<(), LogError> {
        Ok(())
    }
}

/// Opens `<logs>/<topic>-0` under the checkpoints and the clean-stop marker that lie in `logs`. The marker stays.
pub fn open(logs: &Path, topic: &str, settings: &TopicSettings, clock: &Arc<dyn Clock>) -> PartitionLog {
    let checkpointed = |file: &str| {
        let offsets = checkpoints::read_offsets(&DiskFiles, &logs.join(file)).expect("a checkpoint");
        offsets.get(&(topic.to_owned(), 0)).copied().unwrap_or(0)
    };
    let last = LastStop {
        clean: logs.join(names::CLEAN_SHUTDOWN).exists(),
        recovery_point: checkpointed(names::RECOVERY_POINT_CHECKPOINT),
        log_start: checkpointed(names::LOG_START_CHECKPOINT),
    };
    open_after(&last, logs, topic, settings, clock)
}

/// How the last process left a log.
#[derive(Debug, Clone, Copy, Default)]
pub struct LastStop {
    pub clean: bool,
    pub recovery_point: i64,
    pub log_start: i64,
}

/// Opens `<logs>/<topic>-0`.
pub fn open_after(
    last: &LastStop,
    logs: &Path,
    topic: &str,
    settings: &TopicSettings,
    clock: &Arc<dyn Clock>,
) -> PartitionLog {
    let open = OpenLog {
        files: DiskFiles::shared(),
        directory: logs.join(format!("{topic}-0")),
        topic: topic.to_owned(),
        partition: 0,
        settings: Arc::new(settings.clone()),
        clock: Arc::clone(clock),
        handles: HandleCache::new(64),
        durability: Durability::PageCache,
        log_starts: Arc::new(Forgotten),
        clean: last.clean,
        recovery_point: last.recovery_point,
        log_start: last.log_start,
        producer_expiration_ms: 86_400_000,
    };
    PartitionLog::open(open).unwrap_or_else(|error| panic!("{topic}: {error}"))
}

/// Sets entries of an offset checkpoint; `None` takes the entry out.
pub fn set_offsets(logs: &Path, file: &str, entries: &[(String, Option<i64>)]) {
    let path = logs.join(file);
    let mut offsets: Offsets = checkpoints::read_offsets(&DiskFiles, &path).expect("a checkpoint");
    for (topic, offset) in entries {
        let key = (topic.clone(), 0);
        match offset {
            Some(offset) => offsets.insert(key, *offset),
            None => offsets.remove(&key),
        };
    }
    checkpoints::write_offsets(&DiskFiles, &path, &offsets).expect("a checkpoint");
}

/// Copies a directory of directories of files. Modification times stay, for they decide about records without timestamps.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap_or_else(|e| panic!("cannot make {}: {e}", to.display()));
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target)
                .unwrap_or_else(|e| panic!("cannot copy {}: {e}", entry.path().display()));
            let modified = entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .expect("a modification time");
            let file = fs::File::options().append(true).open(&target).expect("the copy");
            file.set_modified(modified).expect("a modification time");
        }
    }
}

/// Kafka's own dump tool over every segment file of these partition directories; panics if it finds anything wrong.
pub fn dump_tool_finds_no_error(directories: &[std::path::PathBuf]) {
    let mut files = Vec::new();
    for directory in directories {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let known = path.extension().is_some_and(|extension| {
                ["log", "index", "timeindex", "txnindex", "snapshot"]
                    .iter()
                    .any(|known| extension == *known)
            });
            if known && fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 0) {
                files.push(path.display().to_string());
            }
        }
    }
    // One argument holds at most 128 KiB.
    for files in files.chunks(700) {
        let text = dump(files);
        let wrong: Vec<&str> = text.lines().filter(|line| is_complaint(line)).collect();
        assert!(
            wrong.is_empty(),
            "{}\n{}",
            wrong.join("\n"),
            &text[..text.len().min(2000)]
        );
        let dumped = text.lines().filter(|line| line.starts_with("Dumping ")).count();
        assert_eq!(
            dumped,
            files.len(),
            "the tool left files out:\n{}",
            &text[..text.len().min(2000)]
        );
    }
}

/// Everything the dump tool has to say of these files.
pub fn dump(files: &[String]) -> String {
    let output = tool(DUMP_LOG)
        .arg("--deep-iteration")
        .arg("--files")
        .arg(files.join(","))
        .output();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", &text[..text.len().min(2000)]);
    text
}

/// The tool takes -1 for the offset before any segment's first record, and complains of that for every segment but the one at 0. It says so of
/// files that only its own broker has touched, too: `from_kafka.rs` holds that.
fn is_complaint(line: &str) -> bool {
    if line.starts_with("Non-consecutive offsets in ") {
        return false;
    }
    if let Some((before, _)) = line.split_once(" is followed by ") {
        return before.trim() != "-1";
    }
    let words = [
        "ismatch",
        "Exception",
        "out of order",
        "corrupt",
        "invalid",
        "isvalid: false",
        "does not",
        "Error",
        "WARN",
    ];
    words.iter().any(|word| line.contains(word))
}
