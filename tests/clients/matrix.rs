//! All cells with all clients.
use crate::adapter::{Adapter, Outcome};
use crate::broker::Broker;
use crate::cells::{Bench, CELLS};
use crate::support::kafka::jvm;
use crate::support::peers::{folder, source};
use crate::support::process::Start;
use std::fmt::Write as _;

/// A cell that a client has no way to do, and why. What is not listed here must work.
type Gap = (&'static str, &'static str);

const CLASSIC_ONLY: Gap = ("group: new protocol", "speaks the classic group protocol only");

fn python(client: &str) -> Start {
    Start::new(client, folder("python").join("bin/python"))
        .arg("-u")
        .arg(source("tests/clients/python/adapter.py"))
        .arg(client)
}

/// The Java adapter, compiled against and run with the jars of one version.
fn java(jars: &str) -> Start {
    let classes = folder("java-clients").join(jars);
    let path = format!("{}:{}/*", classes.display(), folder(jars).display());
    jvm(jars).args(["-cp", path.as_str(), "Adapter"])
}

fn go(name: &str) -> Start {
    Start::new(name, folder("go-clients").join(name))
}

fn node() -> Start {
    Start::new("kafkajs", "node")
        .env("NODE_PATH", folder("npm").join("node_modules"))
        .env("KAFKAJS_NO_PARTITIONER_WARNING", "1")
        .arg(source("tests/clients/node/adapter.js"))
}

#[test]
fn confluent_kafka() {
    run(&python("confluent-kafka"), &[]);
}

#[test]
fn kafka_python() {
    run(&python("kafka-python"), &[CLASSIC_ONLY]);
}

#[test]
fn aiokafka() {
    run(&python("aiokafka"), &[CLASSIC_ONLY]);
}

#[test]
fn java_3_9_2() {
    run(&java("kafka-clients"), &[CLASSIC_ONLY]);
}

#[test]
fn java_4_4_0() {
    run(&java("kafka"), &[]);
}

#[test]
fn franz_go() {
    run(&go("franz"), &[]);
}

#[test]
fn sarama() {
    run(&go("sarama"), &[CLASSIC_ONLY]);
}

#[test]
fn kafkajs() {
    let gaps = [
        CLASSIC_ONLY,
        ("group: static member", "has no static membership"),
        (
            "out of range, no reset",
            "always resets, to the beginning or to the end",
        ),
    ];
    run(&node(), &gaps);
}

/// Runs every cell (or those whose name contains `TIDEMARK_CELL`) and prints a row each; fails with all that went wrong.
#[track_caller]
fn run(start: &Start, gaps: &[Gap]) {
    let only = std::env::var("TIDEMARK_CELL").unwrap_or_default();
    let mut broker = Broker::start();
    let bootstrap = broker.bootstrap().to_owned();
    let mut table = String::new();
    let mut wrong = Vec::new();
    for (number, (cell, body)) in (0..).zip(CELLS).filter(|(_, (cell, _))| cell.contains(&only)) {
        // A client that broke in one cell must not take the next ones with it.
        let mut client = Adapter::start(&start.clone().arg(bootstrap.as_str()));
        let name = format!("cell-{number}");
        let outcome = body(&mut Bench {
            client: &mut client,
            broker: &mut broker,
            name,
        });
        let gap = gaps.iter().find(|(gap, _)| gap == cell);
        let row = match (&outcome, gap) {
            (Ok(()), None) => "ok".to_owned(),
            (Err(Outcome::Cannot(_)), Some((_, reason))) => format!("cannot: {reason}"),
            (Ok(()), Some((_, reason))) => {
                wrong.push(format!("{cell}: works, yet is listed as impossible ({reason})"));
                "ok, listed as impossible".to_owned()
            }
            (Err(Outcome::Cannot(reason)), None) => {
                wrong.push(format!(
                    "{cell}: not listed as impossible, yet the client cannot: {reason}"
                ));
                format!("cannot: {reason}")
            }
            (Err(Outcome::Failed(reason)), _) => {
                wrong.push(format!("{cell}: {reason}"));
                "FAILED".to_owned()
            }
        };
        writeln!(table, "{cell:<42} {row}").expect("a String takes everything");
    }
    println!("{table}");
    assert!(
        wrong.is_empty(),
        "{} of {} cells:\n{}",
        wrong.len(),
        CELLS.len(),
        wrong.join("\n")
    );
}
