//! A directory with committed, aborted and open transactions that a real broker wrote, served by the engine: every Fetch and ListOffsets
//! is answered as the broker itself answered it, and consumers of both isolation levels see the same records.
use std::collections::BTreeMap;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{FetchRequest, ListOffsetsRequest, MetadataRequest};
use serde_json::{Value, json};
use tidemark::log::batch;
use tidemark::log::read::Isolation;
use tidemark::telemetry::clock::{Clock, SystemClock};
use tidemark::wire::apis::topic_name;
use tidemark::wire::client::Client as Wire;

use crate::directory::{Client, copy, hex};
use crate::pair::Random;
use crate::support::kafka::{CONSOLE_CONSUMER, Kafka, tool_on};
use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;

const TOPICS: [(&str, &[(&str, &str)]); 3] = [
    ("segments", &[("internal.segment.bytes", "2000")]),
    ("whole", &[]),
    ("settled", &[("internal.segment.bytes", "4000")]),
];
/// Versions that differ in how a fetch is laid out.
const VERSIONS: [i16; 5] = [4, 7, 11, 12, 17];

fn names() -> Vec<&'static str> {
    TOPICS.iter().map(|(name, _)| *name).collect()
}

/// Transactions of several producers that overlap, with records of none in between; on all topics but `settled` one stays open.
fn lines(now: i64) -> Vec<Value> {
    let mut random = Random(20_261_130);
    let mut lines = Vec::new();
    for (topic, _) in TOPICS {
        let mut open = [false; 3];
        for step in 0..60 {
            let who = random.below(4) as usize;
            let id = format!("{topic}-{who}");
            let records: Vec<Value> = (0..1 + random.below(4))
                .map(|nth| {
                    let value = format!("{topic} {step} {nth}");
                    json!({ "timestamp": now + step, "key": Value::Null, "value": hex(value.as_bytes()), "headers": [] })
                })
                .collect();
            let batch = json!({ "topic": topic, "records": records, "codec": "none", "idempotent": false });
            if who == open.len() {
                lines.push(batch);
                continue;
            }
            if !open[who] {
                lines.push(json!({ "begin": id }));
                open[who] = true;
            }
            let mut batch = batch;
            batch["transaction"] = json!(id);
            lines.push(batch);
            match random.below(4) {
                0 => lines.push(json!({ "commit": id })),
                1 => lines.push(json!({ "abort": id })),
                _ => continue,
            }
            open[who] = false;
        }
        let to_end = (0..open.len()).filter(|who| open[*who] && (topic == "settled" || *who > 0));
        lines.extend(to_end.map(|who| json!({ "abort": format!("{topic}-{who}") })));
        if topic != "settled" {
            let id = format!("{topic}-0");
            if !open[0] {
                lines.push(json!({ "begin": id }));
            }
            let record =
                json!({ "timestamp": now, "key": Value::Null, "value": hex(b"undecided"), "headers": [] });
            lines.push(json!({ "topic": topic, "records": [record], "codec": "none", "idempotent": false, "transaction": id }));
            lines.push(json!({ "topic": topic, "records": [record], "codec": "none", "idempotent": false }));
        }
    }
    lines
}

/// Error, high watermark, last stable offset, log start, aborted transactions, records.
///
/// Of the aborted transactions those that begin within the records: both name some that begin later and that no consumer comes to, Kafka as far
/// as its offset index is coarse, we to the end of the segment.
type Answer = (i16, i64, i64, i64, Option<Vec<(i64, i64)>>, Vec<u8>);

async fn fetch(
    kafka: &mut Wire,
    (topic, id): (&str, uuid::Uuid),
    version: i16,
    committed: bool,
    offset: i64,
    bytes: i32,
) -> Answer {
    let wanted = FetchPartition::default()
        .with_current_leader_epoch(-1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(bytes);
    let asked = FetchTopic::default().with_partitions(vec![wanted]);
    let asked = if version >= 13 {
        asked.with_topic_id(id)
    } else {
        asked.with_topic(topic_name(topic))
    };
    let request = FetchRequest::default()
        .with_replica_id((-1).into())
        .with_max_bytes(1 << 20)
        .with_isolation_level(i8::from(committed))
        .with_topics(vec![asked]);
    let request = if version >= 7 {
        request.with_session_epoch(-1)
    } else {
        request
    };
    let reply = kafka.call(version, &request).await.unwrap();
    let partition = &reply.responses[0].partitions[0];
    let records = partition.records.clone().unwrap_or_default();
    let whole = batch::batches(&records).map_while(Result::ok);
    let last = whole.last().map(|batch| batch.header.last_offset());
    let aborted = partition.aborted_transactions.as_ref().map(|aborted| {
        let mut aborted: Vec<(i64, i64)> = aborted
            .iter()
            .map(|one| (one.producer_id.0, one.first_offset))
            .filter(|(_, first)| last.is_some_and(|last| *first <= last))
            .collect();
        aborted.sort_unstable();
        aborted
    });
    (
        partition.error_code,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
        aborted,
        records.to_vec(),
    )
}

async fn latest(kafka: &mut Wire, topic: &str, committed: bool) -> (i16, i64) {
    let asked = ListOffsetsTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![ListOffsetsPartition::default().with_timestamp(-1)]);
    let request = ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(i8::from(committed))
        .with_topics(vec![asked]);
    let reply = kafka.call(7, &request).await.unwrap();
    let partition = &reply.topics[0].partitions[0];
    (partition.error_code, partition.offset)
}

/// What a fetch asked for, and the answer.
type Answers = BTreeMap<String, Answer>;

/// Every offset of every topic, at both levels, in every version, with limits that cut batches off.
async fn ask_everything(bootstrap: &str) -> (Answers, Vec<(i16, i64)>) {
    let mut kafka = Wire::connect(bootstrap, "tests").await.unwrap();
    let mut answers = Answers::new();
    let mut ends = Vec::new();
    for topic in names() {
        let asked = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
        let request = MetadataRequest::default().with_topics(Some(vec![asked]));
        let id = kafka.call(12, &request).await.unwrap().topics[0].topic_id;
        for committed in [false, true] {
            ends.push(latest(&mut kafka, topic, committed).await);
        }
        let (_, end) = ends[ends.len() - 2];
        for (version, committed, bytes) in VERSIONS
            .into_iter()
            .flat_map(|version| [(version, false), (version, true)])
            .flat_map(|(version, committed)| [1, 700, 1 << 20].map(|bytes| (version, committed, bytes)))
        {
            for offset in 0..=end {
                let answer = fetch(&mut kafka, (topic, id), version, committed, offset, bytes).await;
                let asked = format!("{topic} at {offset}, v{version}, committed {committed}, {bytes} bytes");
                answers.insert(asked, answer);
            }
        }
    }
    (answers, ends)
}

/// The values that Kafka's own Java consumer prints at this level.
fn java_sees(bootstrap: &str, topic: &str, level: &str, count: usize) -> Vec<String> {
    let count = count.to_string();
    let args = [
        "--topic",
        topic,
        "--from-beginning",
        "--isolation-level",
        level,
        "--max-messages",
        count.as_str(),
        "--timeout-ms",
        "60000",
    ];
    let printed = tool_on(bootstrap, CONSOLE_CONSUMER).args(args).run();
    printed.lines().map(str::to_owned).collect()
}

#[test]
fn transactions_that_kafka_wrote_are_served_as_kafka_serves_them() {
    let mut broker = Kafka::start(&[]);
    let bootstrap = broker.bootstrap().to_owned();
    let client = Client(&bootstrap);
    client.create(TOPICS);
    client.write(&lines(SystemClock::new().wall_ms()));
    let levels = [Isolation::ReadUncommitted, Isolation::ReadCommitted];
    let expected_records = levels.map(|level| client.dump(&names(), level));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (expected, expected_ends) = runtime.block_on(ask_everything(&bootstrap));
    let seen = |bootstrap: &str| {
        let all = expected_records[1]["segments"].len();
        java_sees(bootstrap, "segments", "read_committed", all)
    };
    let expected_java = seen(&bootstrap);
    broker.stop();

    // The directory says something about every kind of transaction, or the test would say nothing.
    let aborted = expected.values().filter_map(|answer| answer.4.as_ref());
    assert!(aborted.clone().any(|aborted| aborted.len() > 1));
    assert!(aborted.clone().any(Vec::is_empty));
    for (at, topic) in names().into_iter().enumerate() {
        let (stable, end) = (expected_ends[2 * at + 1].1, expected_ends[2 * at].1);
        assert_eq!(stable < end, topic != "settled", "{topic}: {stable} of {end}");
        let (all, committed) = (&expected_records[0][topic], &expected_records[1][topic]);
        assert!(!committed.is_empty() && committed.len() < all.len(), "{topic}");
    }

    let home = TempDir::new("committed");
    std::fs::create_dir_all(home.join("data/logs")).unwrap();
    copy(broker.logs(), &home.join("data/logs"));
    let engine = Tidemark::engine(home.path(), &[]);
    let (answers, ends) = runtime.block_on(ask_everything(engine.bootstrap()));
    assert_eq!(ends, expected_ends);
    assert_eq!(answers.len(), expected.len());
    let differences: Vec<String> = expected
        .iter()
        .filter(|(asked, answer)| answers.get(*asked) != Some(answer))
        .map(|(asked, answer)| format!("{asked}\n  Kafka: {answer:?}\n  ours:  {:?}", answers.get(asked)))
        .collect();
    assert!(
        differences.is_empty(),
        "{} of {} answers differ, the first of them\n{}",
        differences.len(),
        expected.len(),
        differences[..differences.len().min(3)].join("\n")
    );
    let ours = Client(engine.bootstrap());
    for (level, expected) in levels.into_iter().zip(&expected_records) {
        assert_eq!(&ours.dump(&names(), level), expected);
    }
    assert_eq!(seen(engine.bootstrap()), expected_java);
}
