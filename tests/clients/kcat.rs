//! kcat: what can be said on its command line. It has no administration, so Kafka's own tools make the topics.
use crate::broker::Broker;
use crate::support::kafka::{DELETE_RECORDS, TOPICS, tool_on};
use crate::support::kcat::{consume, kcat, produce};
use crate::support::temp::TempDir;
use crate::support::wait::{PATIENCE, until};

fn lines(label: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{label}-{i}")).collect()
}

fn numbered(first: usize, lines: &[String]) -> Vec<String> {
    lines
        .iter()
        .enumerate()
        .map(|(i, line)| format!("{}:{line}", first + i))
        .collect()
}

fn create(broker: &Broker, topic: &str, partitions: &str) {
    let create = [
        "--create",
        "--topic",
        topic,
        "--partitions",
        partitions,
        "--config",
        "retention.ms=-1",
    ];
    tool_on(broker.bootstrap(), TOPICS).args(create).run();
}

#[test]
fn every_codec_and_acks_reads_back() {
    let broker = Broker::start();
    let mut wanted = Vec::new();
    create(&broker, "codecs", "1");
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let batch = lines(codec, 300);
        let args = ["-P", "-t", "codecs", "-p", "0", "-z", codec];
        kcat(broker.bootstrap(), args).run_with(batch.join("\n").as_bytes());
        wanted.extend(batch);
    }
    for acks in ["acks=1", "acks=all", "enable.idempotence=true"] {
        let batch = lines(acks, 20);
        let args = ["-P", "-t", "codecs", "-p", "0", "-X", acks];
        kcat(broker.bootstrap(), args).run_with(batch.join("\n").as_bytes());
        wanted.extend(batch);
    }
    assert_eq!(
        consume(broker.bootstrap(), "codecs", 0, "beginning"),
        numbered(0, &wanted)
    );
    // Nobody acknowledges these: they are there when they can be read.
    kcat(
        broker.bootstrap(),
        ["-P", "-t", "codecs", "-p", "0", "-X", "acks=0"],
    )
    .run_with(b"last");
    until("the record without acks", PATIENCE, || {
        consume(broker.bootstrap(), "codecs", 0, "-1") == [format!("{}:last", wanted.len())]
    });
}

#[test]
fn reads_from_the_end_an_offset_a_time_and_below_the_start() {
    let broker = Broker::start();
    let bootstrap = broker.bootstrap();
    create(&broker, "from", "1");
    let all = lines("r", 50);
    produce(bootstrap, "from", 0, &all);
    assert_eq!(consume(bootstrap, "from", 0, "37"), numbered(37, &all[37..]));
    assert_eq!(consume(bootstrap, "from", 0, "-5"), numbered(45, &all[45..]));
    assert_eq!(consume(bootstrap, "from", 0, "end"), Vec::<String>::new());
    // A time before all of them, and one after.
    assert_eq!(consume(bootstrap, "from", 0, "s@1000"), numbered(0, &all));
    let query = |time: &str| kcat(bootstrap, ["-Q", "-t", &format!("from:0:{time}")]).run();
    assert_eq!(query("1000"), "from [0] offset 0\n");
    assert_eq!(query("-1"), "from [0] offset 50\n");
    assert_eq!(query("-2"), "from [0] offset 0\n");

    let home = TempDir::new("delete-records");
    let request = home.join("request.json");
    let text = r#"{"version": 1, "partitions": [{"topic": "from", "partition": 0, "offset": 20}]}"#;
    std::fs::write(&request, text).expect("a file in our own folder");
    tool_on(bootstrap, DELETE_RECORDS)
        .arg("--offset-json-file")
        .arg(&request)
        .run();
    assert_eq!(query("-2"), "from [0] offset 20\n");
    let lost = ["-C", "-q", "-e", "-t", "from", "-p", "0", "-o", "3", "-f", "%o\n"];
    let earliest = kcat(bootstrap, lost)
        .args(["-X", "auto.offset.reset=earliest"])
        .run();
    assert_eq!(earliest.lines().next(), Some("20"));
    assert_eq!(
        kcat(bootstrap, lost)
            .args(["-X", "auto.offset.reset=latest"])
            .run(),
        ""
    );
    let refused = kcat(bootstrap, lost)
        .args(["-X", "auto.offset.reset=error"])
        .output();
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && message.contains("Offset out of range"),
        "{message}"
    );
}

/// `-L`: the picture of the cluster that everyone looks at first.
#[test]
fn lists_the_cluster() {
    let broker = Broker::start();
    create(&broker, "listed", "3");
    let listing = kcat(broker.bootstrap(), ["-L"]).run();
    assert!(listing.contains("1 brokers:"), "{listing}");
    assert!(
        listing.contains(&format!("at {}", broker.bootstrap())),
        "{listing}"
    );
    assert!(
        listing.contains("topic \"listed\" with 3 partitions:"),
        "{listing}"
    );
    let unknown = kcat(broker.bootstrap(), ["-L", "-t", "unknown"]).run();
    assert!(unknown.contains("Unknown topic or partition"), "{unknown}");
}

/// The lines that have been written to their end: kcat writes one in parts.
fn whole(log: &str) -> impl DoubleEndedIterator<Item = &str> {
    let end = log.rfind('\n').map_or(0, |at| at + 1);
    log[..end].lines()
}

/// `-G`: two members share, one leaves, the other goes on; what was committed is not read again.
#[test]
fn a_group_shares_and_resumes() {
    let mut broker = Broker::start();
    create(&broker, "grouped", "4");
    let home = TempDir::new("kcat-group");
    let member = |broker: &Broker, name: &str| {
        let args = [
            "-G",
            "readers",
            "grouped",
            "-X",
            "auto.offset.reset=earliest",
            "-f",
            "%p:%o:%s\n",
            "-u",
        ];
        kcat(broker.bootstrap(), args).named(name).spawn(home.path())
    };
    let records = |log: &str| whole(log).filter(|line| line.contains(":g-")).count();
    let assigned = |log: &str| {
        let last = whole(log)
            .rev()
            .find(|line| line.contains("assigned:"))
            .unwrap_or_default()
            .to_owned();
        last.matches("grouped [").count()
    };
    let mut one = member(&broker, "one");
    until("one member with all", PATIENCE, || assigned(&one.log()) == 4);
    let mut two = member(&broker, "two");
    until("two members that share", PATIENCE, || {
        assigned(&one.log()) == 2 && assigned(&two.log()) == 2
    });
    for partition in 0..4 {
        produce(broker.bootstrap(), "grouped", partition, &lines("g", 25));
    }
    until("all records once", PATIENCE, || {
        records(&one.log()) + records(&two.log()) == 100
    });
    // A clean end commits and leaves.
    one.stop();
    until("the one that stayed with all", PATIENCE, || {
        assigned(&two.log()) == 4
    });
    two.stop();
    drop((one, two));

    broker.restart();

    for partition in 0..4 {
        produce(broker.bootstrap(), "grouped", partition, &lines("g", 1));
    }
    let three = member(&broker, "three");
    until("the four new records", PATIENCE, || records(&three.log()) >= 4);
    let log = three.log();
    let mut found: Vec<&str> = whole(&log).filter(|line| line.contains(":g-")).collect();
    found.sort_unstable();
    assert_eq!(found, ["0:25:g-0", "1:25:g-0", "2:25:g-0", "3:25:g-0"]);
}
