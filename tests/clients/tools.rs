//! Apache Kafka 4.4's own command-line tools.
use crate::broker::Broker;
use crate::support::kafka::{
    BROKER_API_VERSIONS, CONFIGS, CONSOLE_CONSUMER, CONSOLE_PRODUCER, CONSUMER_GROUPS, CONSUMER_PERFORMANCE,
    DELETE_RECORDS, GET_OFFSETS, LOG_DIRS, PRODUCER_PERFORMANCE, TOPICS, tool_on,
};
use crate::support::kcat::produce;
use crate::support::temp::TempDir;

fn run<'a>(broker: &Broker, class: &str, args: impl IntoIterator<Item = &'a str>) -> String {
    // By itself this one waits for 5 s.
    let patience: &[&str] = if class == CONSUMER_GROUPS {
        &["--timeout", "240000"]
    } else {
        &[]
    };
    tool_on(broker.bootstrap(), class)
        .args(args)
        .args(patience.iter().copied())
        .run()
}

/// What a tool said when it was refused.
fn refused<'a>(broker: &Broker, class: &str, args: impl IntoIterator<Item = &'a str>) -> String {
    let output = tool_on(broker.bootstrap(), class).args(args).output();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!output.status.success(), "{text}");
    text
}

fn lines(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("line-{i}")).collect()
}

#[test]
fn topics() {
    let broker = Broker::start();
    run(
        &broker,
        TOPICS,
        [
            "--create",
            "--topic",
            "a",
            "--partitions",
            "2",
            "--config",
            "retention.ms=3600000",
        ],
    );
    let again = refused(&broker, TOPICS, ["--create", "--topic", "a"]);
    assert!(again.contains("already exists"), "{again}");
    let bad = refused(
        &broker,
        TOPICS,
        ["--create", "--topic", "b", "--config", "retention.ms=soon"],
    );
    assert!(bad.contains("retention.ms"), "{bad}");
    let illegal = refused(&broker, TOPICS, ["--create", "--topic", "no/slash"]);
    assert!(illegal.contains("no/slash"), "{illegal}");
    assert_eq!(run(&broker, TOPICS, ["--list"]), "a\n");
    run(&broker, TOPICS, ["--alter", "--topic", "a", "--partitions", "5"]);
    let fewer = refused(&broker, TOPICS, ["--alter", "--topic", "a", "--partitions", "3"]);
    assert!(fewer.contains("partition"), "{fewer}");
    let described = run(&broker, TOPICS, ["--describe", "--topic", "a"]);
    for wanted in [
        "PartitionCount: 5",
        "ReplicationFactor: 1",
        "retention.ms=3600000",
        "Partition: 4",
        "Leader: 1",
    ] {
        assert!(described.contains(wanted), "{wanted} in {described}");
    }
    run(&broker, TOPICS, ["--delete", "--topic", "a"]);
    assert_eq!(run(&broker, TOPICS, ["--list"]).trim(), "");
    let gone = refused(&broker, TOPICS, ["--describe", "--topic", "a"]);
    assert!(gone.contains("does not exist"), "{gone}");
}

#[test]
fn configs() {
    let broker = Broker::start();
    run(&broker, TOPICS, ["--create", "--topic", "a"]);
    let topic = ["--entity-type", "topics", "--entity-name", "a"];
    let alter = |change: &[&str]| {
        run(
            &broker,
            CONFIGS,
            topic.into_iter().chain(["--alter"]).chain(change.iter().copied()),
        )
    };
    let describe = |more: &[&str]| {
        run(
            &broker,
            CONFIGS,
            topic
                .into_iter()
                .chain(["--describe"])
                .chain(more.iter().copied()),
        )
    };
    alter(&["--add-config", "retention.ms=7200000,segment.bytes=2097152"]);
    let described = describe(&[]);
    assert!(
        described.contains("retention.ms=7200000") && described.contains("segment.bytes=2097152"),
        "{described}"
    );
    alter(&["--delete-config", "segment.bytes"]);
    let described = describe(&[]);
    assert!(!described.contains("segment.bytes"), "{described}");
    let all = describe(&["--all"]);
    for wanted in [
        "retention.ms=7200000",
        "DYNAMIC_TOPIC_CONFIG",
        "retention.bytes=-1",
        "cleanup.policy=delete",
    ] {
        assert!(all.contains(wanted), "{wanted} in {all}");
    }
    let change = topic
        .into_iter()
        .chain(["--alter", "--add-config", "retention.ms=soon"]);
    let bad = refused(&broker, CONFIGS, change);
    assert!(bad.contains("retention.ms"), "{bad}");
}

#[test]
fn offsets_and_deleted_records() {
    let broker = Broker::start();
    run(&broker, TOPICS, ["--create", "--topic", "a", "--partitions", "2"]);
    produce(broker.bootstrap(), "a", 0, &lines(30));
    produce(broker.bootstrap(), "a", 1, &lines(4));
    let offsets = |time: &str| run(&broker, GET_OFFSETS, ["--topic", "a", "--time", time]);
    assert_eq!(offsets("latest"), "a:0:30\na:1:4\n");
    assert_eq!(offsets("earliest"), "a:0:0\na:1:0\n");
    // No record is as new as that.
    assert_eq!(offsets("4102444800000"), "");
    let newest = offsets("max-timestamp");
    assert!(newest.starts_with("a:0:"), "{newest}");

    let home = TempDir::new("delete-records");
    let request = home.join("request.json");
    let delete = |before: i64| {
        let text = format!(
            r#"{{"version": 1, "partitions": [{{"topic": "a", "partition": 0, "offset": {before}}}]}}"#
        );
        std::fs::write(&request, text).expect("a file in our own folder");
        let output = tool_on(broker.bootstrap(), DELETE_RECORDS)
            .arg("--offset-json-file")
            .arg(&request)
            .output();
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    };
    let done = delete(12);
    assert!(done.contains("partition: a-0\tlow_watermark: 12"), "{done}");
    assert_eq!(offsets("earliest"), "a:0:12\na:1:0\n");
    let beyond = delete(31);
    assert!(beyond.contains("partition: a-0\terror: "), "{beyond}");
    // -1 deletes up to the high watermark.
    let whole = delete(-1);
    assert!(whole.contains("low_watermark: 30"), "{whole}");
    assert_eq!(offsets("earliest"), "a:0:30\na:1:0\n");

    let dirs = run(&broker, LOG_DIRS, ["--describe", "--topic-list", "a"]);
    let json = dirs
        .lines()
        .find(|line| line.starts_with('{'))
        .unwrap_or_else(|| panic!("no JSON in {dirs}"));
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let partitions = json["brokers"][0]["logDirs"][0]["partitions"]
        .as_array()
        .expect("partitions");
    assert_eq!(partitions.len(), 2, "{json}");
    assert!(
        partitions
            .iter()
            .any(|p| p["partition"] == "a-1" && p["size"].as_i64() > Some(60)),
        "{json}"
    );
}

#[test]
fn consumer_groups_with_every_reset() {
    let broker = Broker::start();
    run(&broker, TOPICS, ["--create", "--topic", "a"]);
    let home = TempDir::new("groups");
    produce(broker.bootstrap(), "a", 0, &lines(40));
    let consume = [
        "--topic",
        "a",
        "--group",
        "g",
        "--from-beginning",
        "--max-messages",
        "25",
        "--timeout-ms",
        "240000",
    ];
    assert_eq!(run(&broker, CONSOLE_CONSUMER, consume).lines().count(), 25);

    assert_eq!(run(&broker, CONSUMER_GROUPS, ["--list"]), "g\n");
    let row = || {
        let text = run(&broker, CONSUMER_GROUPS, ["--describe", "--group", "g"]);
        let row = text
            .lines()
            .find(|line| line.starts_with("g "))
            .unwrap_or_else(|| panic!("no row in {text}"));
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row()[2..6], ["0", "25", "40", "15"]);
    let state = run(
        &broker,
        CONSUMER_GROUPS,
        ["--describe", "--group", "g", "--state"],
    );
    assert!(state.contains("Empty"), "{state}");
    run(
        &broker,
        CONSUMER_GROUPS,
        ["--describe", "--group", "g", "--members"],
    );

    let reset = |how: &[&str]| {
        let args = ["--group", "g", "--topic", "a", "--reset-offsets", "--execute"];
        run(
            &broker,
            CONSUMER_GROUPS,
            args.into_iter().chain(how.iter().copied()),
        );
        row()[3].clone()
    };
    assert_eq!(reset(&["--to-earliest"]), "0");
    assert_eq!(reset(&["--to-latest"]), "40");
    assert_eq!(reset(&["--to-offset", "17"]), "17");
    assert_eq!(reset(&["--shift-by", "-5"]), "12");
    assert_eq!(reset(&["--shift-by", "100"]), "40");
    assert_eq!(reset(&["--to-current"]), "40");
    assert_eq!(reset(&["--to-datetime", "2001-01-01T00:00:00.000"]), "0");
    assert_eq!(reset(&["--by-duration", "PT1H"]), "0");
    let file = home.join("plan.csv");
    std::fs::write(&file, "a,0,23\n").expect("a file in our own folder");
    assert_eq!(reset(&["--from-file", &file.display().to_string()]), "23");

    run(
        &broker,
        CONSUMER_GROUPS,
        ["--delete-offsets", "--group", "g", "--topic", "a"],
    );
    run(&broker, CONSUMER_GROUPS, ["--delete", "--group", "g"]);
    assert_eq!(run(&broker, CONSUMER_GROUPS, ["--list"]).trim(), "");
}

#[test]
fn console_producer_and_consumer() {
    let broker = Broker::start();
    run(&broker, TOPICS, ["--create", "--topic", "a", "--partitions", "3"]);
    let keyed: String = (0..200).map(|i| format!("k{i}:v{i}\n")).collect();
    let args = [
        "--topic",
        "a",
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
    ];
    tool_on(broker.bootstrap(), CONSOLE_PRODUCER)
        .args(args)
        // By itself it gives up after three times 1.5 s.
        .args(["--request-timeout-ms", "240000"])
        .run_with(keyed.as_bytes());
    for protocol in ["classic", "consumer"] {
        let property = format!("group.protocol={protocol}");
        let args = [
            "--topic",
            "a",
            "--from-beginning",
            "--max-messages",
            "200",
            "--timeout-ms",
            "240000",
        ];
        let args = args.into_iter().chain([
            "--formatter-property",
            "print.key=true",
            "--command-property",
            &property,
        ]);
        let read = run(&broker, CONSOLE_CONSUMER, args);
        let mut found: Vec<&str> = read.lines().collect();
        found.sort_unstable();
        let mut wanted: Vec<String> = (0..200).map(|i| format!("k{i}\tv{i}")).collect();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{protocol}");
    }
}

#[test]
fn performance_tools() {
    let broker = Broker::start();
    run(&broker, TOPICS, ["--create", "--topic", "a", "--partitions", "6"]);
    let args = [
        "--topic",
        "a",
        "--num-records",
        "50000",
        "--record-size",
        "200",
        "--throughput",
        "-1",
    ];
    let produced = run(&broker, PRODUCER_PERFORMANCE, args);
    assert!(produced.contains("50000 records sent"), "{produced}");
    let args = ["--topic", "a", "--num-records", "50000", "--timeout", "240000"];
    let consumed = run(&broker, CONSUMER_PERFORMANCE, args);
    let figures = consumed.lines().last().unwrap_or_default();
    let records = figures
        .split(',')
        .nth(4)
        .map(str::trim)
        .and_then(|n| n.parse::<i64>().ok());
    assert!(records >= Some(50_000), "{consumed}");
}

/// Every version that Kafka's own client knows of an API that it uses is one that we speak, and no API is half there.
#[test]
fn api_versions() {
    let broker = Broker::start();
    let listed = run(&broker, BROKER_API_VERSIONS, []);
    for api in [
        "Produce(0)",
        "Fetch(1)",
        "ListOffsets(2)",
        "Metadata(3)",
        "OffsetCommit(8)",
        "JoinGroup(11)",
        "ConsumerGroupHeartbeat(68)",
    ] {
        let line = listed.lines().find(|line| line.trim_start().starts_with(api));
        assert!(
            line.is_some_and(|line| line.contains("usable:")),
            "{api}: {line:?}"
        );
    }
}
