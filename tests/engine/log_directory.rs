//! A whole log directory: its lock, its marker of a clean stop, one bad partition among good ones. The numbers are those of the
//! scenarios in the log's tests.
use tidemark::wire::client::{Client, ClientRecord};

use crate::scene::run;
#[cfg(feature = "peers")]
use crate::support::process::Start;
use crate::support::temp::TempDir;
use crate::support::tidemark::{Tidemark, refused};

const MARKER: &str = "logs/.kafka_cleanshutdown";

fn produce(engine: &Tidemark, topic: &str, partition: i32) -> i64 {
    run(async {
        let mut client = Client::connect(engine.bootstrap(), "directory").await.unwrap();
        client
            .produce(topic, partition, &[ClientRecord::new(1, "v")])
            .await
            .unwrap()
    })
}

fn create(engine: &Tidemark, topic: &str, partitions: i32) {
    let body = format!(r#"{{"partitions": {partitions}}}"#);
    engine
        .http("PUT", &format!("/v1/topics/{topic}"), Some(&body))
        .json(200);
}

#[test]
fn s065_a_directory_has_one_engine_at_a_time() {
    let home = TempDir::new("one-at-a-time");
    let mut engine = Tidemark::engine(home.path(), &[]);
    assert!(refused(home.path()).contains("in use"));
    engine.stop();
    engine.start_again();
    create(&engine, "t", 1);
    assert_eq!(produce(&engine, "t", 0), 0);
}

/// Kafka's own lock is honoured, and taken: whichever came first, the other one does not start.
#[cfg(feature = "peers")]
#[test]
fn s065_kafkas_lock_on_the_log_directory_is_honoured() {
    let home = TempDir::new("kafkas-lock");
    let mut engine = Tidemark::engine(home.path(), &[]);
    let lock = engine.data().join("logs/.lock");
    // What a broker does: an exclusive POSIX lock over the whole file.
    let take = "import fcntl, sys, time\nf = open(sys.argv[1], 'r+')\nfcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n\
                open(sys.argv[2], 'w').close()\ntime.sleep(600)\n";
    let held = home.join("held");
    let broker = Start::new("broker", "python3")
        .args(["-c", take])
        .arg(&lock)
        .arg(&held);
    assert!(
        !broker.output().status.success(),
        "the lock was not taken by the engine"
    );
    engine.stop();
    let mut holding = broker.spawn(home.path());
    crate::support::wait::until("the lock to be held", crate::support::wait::PATIENCE, || {
        held.exists()
    });
    let said = refused(home.path());
    assert!(
        said.contains("a Kafka broker") && said.contains(".lock"),
        "{said}"
    );
    holding.kill();
    engine.start_again();
}

#[test]
fn s066_a_partition_that_was_taken_away_leaves_no_mark_of_a_clean_stop() {
    let home = TempDir::new("taken-away");
    let mut engine = Tidemark::engine(home.path(), &[]);
    for topic in ["gone", "kept"] {
        create(&engine, topic, 1);
        produce(&engine, topic, 0);
    }
    std::fs::remove_dir_all(engine.partition("gone", 0)).unwrap();
    engine.stop();
    assert!(
        !engine.data().join(MARKER).exists(),
        "the next start must look at everything"
    );
    engine.start_again();
    assert_eq!(produce(&engine, "kept", 0), 1);
}

#[test]
fn s068_the_mark_of_a_clean_stop_counts_once() {
    let home = TempDir::new("counts-once");
    let mut engine = Tidemark::engine(home.path(), &[]);
    create(&engine, "t", 1);
    produce(&engine, "t", 0);
    engine.stop();
    assert!(engine.data().join(MARKER).exists());
    engine.start_again();
    assert!(
        !engine.data().join(MARKER).exists(),
        "a crash from here on is no clean stop"
    );
    engine.kill();
    assert!(!engine.data().join(MARKER).exists());
    engine.start_again();
    assert_eq!(produce(&engine, "t", 0), 1);
}

/// Better than Kafka, which takes the whole directory offline: only the partition that cannot be read is.
#[test]
fn s123_a_partition_that_cannot_be_read_takes_no_other_with_it() {
    let home = TempDir::new("unreadable");
    let mut engine = Tidemark::engine(home.path(), &[]);
    create(&engine, "t", 2);
    for partition in 0..2 {
        produce(&engine, "t", partition);
    }
    engine.stop();
    let log = engine.partition("t", 0).join("00000000000000000000.log");
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    engine.start_again();
    let topic = engine.get("/v1/topics/t");
    assert_eq!(
        topic["partitions"][0]["unhealthy"]["reason"], "Corrupt",
        "{topic}"
    );
    assert!(topic["partitions"][1]["unhealthy"].is_null(), "{topic}");
    assert_eq!(produce(&engine, "t", 1), 1);

    // What a lowering would take of it nobody can say, so it is refused, in words that fit.
    let lower = r#"{"partitions": 2, "config": {"retention.ms": "1000"}}"#;
    let verdict = engine.http("POST", "/v1/topics/t/plan", Some(lower)).json(200);
    assert_eq!(
        (&verdict["verdict"], &verdict["reason"]),
        (&"Refused".into(), &"ReaderUnknown".into())
    );
    let message = verdict["message"].as_str().unwrap();
    assert!(
        message.starts_with("Not applied, nothing deleted: partitions [0] are offline"),
        "{message}"
    );
    assert!(!message.contains(" Applied"), "{message}");
}
