//! Transactions are not served, and a client that asks for them is told so at once: it does not try for ever.
use std::process::Output;

use crate::broker::Broker;
use crate::support::kafka::{PRODUCER_PERFORMANCE, TOPICS, tool_on};
use crate::support::kcat::kcat;
use crate::support::peers::folder;
use crate::support::process::Start;

fn with_topic() -> Broker {
    let broker = Broker::start();
    let create = ["--create", "--topic", "t"];
    tool_on(broker.bootstrap(), TOPICS).args(create).run();
    broker
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

fn nothing_was_written(broker: &Broker) {
    use crate::support::kafka::GET_OFFSETS;
    let ends = tool_on(broker.bootstrap(), GET_OFFSETS)
        .args(["--topic", "t"])
        .run();
    assert_eq!(ends, "t:0:0\n");
}

/// `init_transactions` without a deadline of its own: it ends because the client takes the refusal as final.
#[test]
fn librdkafka_gives_up_at_once() {
    let broker = with_topic();
    let script = "
import sys
from confluent_kafka import KafkaException, Producer
producer = Producer({'bootstrap.servers': sys.argv[1], 'transactional.id': 'mine'})
try:
    producer.init_transactions()
except KafkaException as error:
    print(error.args[0].name(), error.args[0].fatal(), error.args[0].retriable(), error.args[0].str())
    sys.exit(3)
";
    let output = Start::new("transactional", folder("python").join("bin/python"))
        .args(["-c", script, broker.bootstrap()])
        .output();
    let said = said(&output);
    // The client shows no message of a broker's, but the code, and that it is final.
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("TRANSACTIONAL_ID_AUTHORIZATION_FAILED True False"),
        "{said}"
    );
    nothing_was_written(&broker);
}

#[test]
fn kcat_gives_up_at_once() {
    let broker = with_topic();
    let args = [
        "-P",
        "-t",
        "t",
        "-p",
        "0",
        "-X",
        "transactional.id=mine",
        "-X",
        "transaction.timeout.ms=240000",
    ];
    let output = kcat(broker.bootstrap(), args).output_with(b"never");
    let said = said(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("Transactional Id authorization failed"), "{said}");
    nothing_was_written(&broker);
}

#[test]
fn java_gives_up_at_once() {
    let broker = with_topic();
    let args = [
        "--topic",
        "t",
        "--num-records",
        "1",
        "--record-size",
        "10",
        "--throughput",
        "-1",
        "--transactional-id",
        "mine",
    ];
    let output = tool_on(broker.bootstrap(), PRODUCER_PERFORMANCE)
        .args(args)
        .output();
    let said = said(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("not supported"), "{said}");
    nothing_was_written(&broker);
}
