//! The judge itself: that the broker under the other tests is the one we think it is.
use crate::support::kafka::{CLUSTER_ID, DUMP_LOG, GET_OFFSETS, Kafka, tool, tool_on};
use crate::support::kcat;
use std::fs;

/// Records survive a clean stop and kill -9; the tools read what the broker wrote.
#[test]
fn a_broker_keeps_records_over_a_stop_and_a_kill() {
    let mut kafka = Kafka::start(&[("log.flush.interval.messages", "1")]);
    kafka.topics([
        "--create",
        "--topic",
        "a",
        "--partitions",
        "2",
        "--config",
        "segment.bytes=1048576",
    ]);
    kcat::produce(kafka.bootstrap(), "a", 1, &["one".to_owned(), "two".to_owned()]);
    kafka.stop();
    assert!(kafka.logs().join(".kafka_cleanshutdown").exists());
    let meta = fs::read_to_string(kafka.logs().join("meta.properties")).expect("a formatted directory");
    assert!(meta.contains(&format!("cluster.id={CLUSTER_ID}")), "{meta}");

    kafka.start_again();
    kcat::produce(kafka.bootstrap(), "a", 1, &["three".to_owned()]);
    kafka.kill();
    assert!(!kafka.logs().join(".kafka_cleanshutdown").exists());

    kafka.start_again();
    assert_eq!(
        kcat::consume(kafka.bootstrap(), "a", 1, "beginning"),
        ["0:one", "1:two", "2:three"]
    );
    let offsets = tool_on(kafka.bootstrap(), GET_OFFSETS)
        .args(["--topic", "a"])
        .run();
    assert_eq!(offsets, "a:0:0\na:1:3\n");

    let segment = kafka.partition("a", 1).join("00000000000000000000.log");
    let dump = tool(DUMP_LOG)
        .args(["--print-data-log", "--files"])
        .arg(segment)
        .run();
    assert!(dump.contains("baseOffset: 2 lastOffset: 2 count: 1"), "{dump}");
    assert!(dump.contains("payload: three"), "{dump}");
}
