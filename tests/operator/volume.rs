//! What the volume does, from the file system to the conditions of a Topic: a real engine on a volume of its own, the operator, and
//! a real API server.
use serde_json::Value;
use tidemark::wire::client::{Client, ClientRecord};

use crate::gitops::kstatus;
use crate::running::{Operator, PATIENCE, apply, condition, events, install, kubectl, ready, topic};
use crate::support::kube::KubeApi;
use crate::support::peers;
use crate::support::process::Start;
use crate::support::temp::TempDir;
use crate::support::tidemark::{BINARY, Tidemark, request, tidemark};
use crate::support::volume::Volume;
use crate::support::wait::{eventually, until};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const KAFKA_STORAGE_ERROR: &str = "56";
const FLAGS: &[&str] = &["--check-interval", "1h", "--identity", "cluster-a"];

struct Scene {
    operator: Operator,
    engine: Tidemark,
    volume: Volume,
    kube: KubeApi,
    runtime: tokio::runtime::Runtime,
    home: TempDir,
}

impl Scene {
    fn produce(&self, age_days: i64) -> Result<i64, String> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = i64::try_from(now.expect("after 1970").as_millis()).expect("64 bits");
        self.runtime.block_on(async {
            let mut client = Client::connect(self.engine.bootstrap(), "volume")
                .await
                .expect("an engine");
            let record = ClientRecord::new(now - age_days * DAY_MS, vec![b'v'; 50_000]);
            let produced = client.produce("orders", 0, &vec![record; 10]).await;
            produced.map_err(|error| error.to_string())
        })
    }

    /// The group has read so far; no fetcher is seen, which would be a reader of its own.
    fn commit(&self, offset: i64) {
        self.runtime.block_on(async {
            let mut client = Client::connect(self.engine.bootstrap(), "billing")
                .await
                .expect("an engine");
            client
                .commit("billing", "orders", 0, offset)
                .await
                .expect("a commit");
        });
    }

    #[track_caller]
    fn apply(&self, config: &str) {
        apply(
            &self.kube,
            "orders",
            &format!("{{config: {{internal.segment.bytes: 600000, {config}}}, readers: {{headroom: 0}}}}"),
        );
    }

    #[track_caller]
    fn partition(&self) -> Value {
        self.engine.get("/v1/topics/orders")["partitions"][0].clone()
    }

    /// The engine's process answers, whether or not it serves.
    #[track_caller]
    fn answers(&self) {
        eventually("the control API", PATIENCE, || {
            request(self.engine.control(), "GET", "/healthz", None, None).map_err(|error| error.to_string())
        });
    }
}

/// The message of a condition.
fn message(topic: &Value, kind: &str) -> String {
    let all = topic["status"]["conditions"].as_array().expect("a list");
    let found = all.iter().find(|condition| condition["type"] == kind);
    found.expect("the condition")["message"]
        .as_str()
        .expect("text")
        .to_owned()
}

#[test]
fn faults_of_the_volume_are_told_by_the_topics_on_it_and_heal() {
    let home = TempDir::new("volume");
    let Some(volume) = Volume::on(&home.join("data"), 24) else {
        return;
    };
    let kube = KubeApi::start();
    install(&kube);
    let engine = Tidemark::engine(home.path(), FLAGS);
    let operator = Operator::start(&kube, engine.control());
    let mut scene = Scene {
        operator,
        engine,
        volume,
        kube,
        runtime: tokio::runtime::Runtime::new().expect("a runtime"),
        home,
    };
    scene.apply("retention.ms: -1");
    ready(&scene.kube, "orders", "True/Applied");
    for age in (1..=8).rev() {
        scene.produce(age).expect("room");
    }
    scene.commit(80);
    the_disk_is_full(&mut scene);
    the_volume_grows(&scene);
    the_volume_is_read_only(&mut scene);
    the_volume_is_somebody_elses(&mut scene);
    the_file_system_cannot_lock(&mut scene);
    the_engine_is_gone(&mut scene);
    let told = events(&scene.kube, "orders");
    for reason in ["DiskFull", "ReadOnly", "IdentityMismatch", "EngineUnreachable"] {
        assert!(told.contains(&reason.to_owned()), "{reason}: {told:?}");
    }
    scene.operator.stop();
}

/// F3: full to the last byte, while it runs and when it starts; the change that frees it goes in.
fn the_disk_is_full(scene: &mut Scene) {
    let filler = scene.volume.fill();
    let full = ready(&scene.kube, "orders", "False/DiskFull");
    assert_eq!(condition(&full, "StorageHealthy"), "False/DiskFull");
    assert_eq!(condition(&full, "RetentionApplied"), "True/Applied");
    assert_eq!(condition(&full, "Reconciling"), "True/DiskFull");
    assert_eq!(kstatus(&full), "InProgress");
    let refused = scene.produce(0).expect_err("no room");
    assert!(refused.contains(KAFKA_STORAGE_ERROR), "{refused}");
    scene.engine.kill();
    scene.engine.start_unready();
    eventually("the full volume to be served", PATIENCE, || {
        let reply = request(scene.engine.control(), "GET", "/v1/topics/orders", None, None);
        let reply = reply.map_err(|error| error.to_string())?;
        if reply.status == 200 {
            Ok(())
        } else {
            Err(reply.body)
        }
    });
    assert_eq!(scene.partition()["logEnd"], 80);
    ready(&scene.kube, "orders", "False/DiskFull");
    // What was written before can be lowered now: that writes no new byte to the log.
    scene.apply("retention.ms: 60h");
    let freed = ready(&scene.kube, "orders", "True/Applied");
    assert_eq!(condition(&freed, "StorageHealthy"), "True/Healthy");
    assert_eq!(scene.partition()["logStart"], 60);
    eventually("records to be taken again", PATIENCE, || scene.produce(0));
    std::fs::remove_file(filler).expect("it is there");
}

/// C3 and F12: what a topic may come to hold is measured by what the file system says, and again when that changes.
fn the_volume_grows(scene: &Scene) {
    scene.apply("retention.ms: 60h, retention.bytes: 32Mi");
    let topic = eventually("the warning", PATIENCE, || {
        let topic = topic(&scene.kube, "orders");
        let found = condition(&topic, "CapacityOk");
        if found == "False/WorstCaseExceedsVolume" {
            Ok(topic)
        } else {
            Err(found)
        }
    });
    assert_eq!(
        condition(&topic, "Ready"),
        "True/Applied",
        "a warning and no more"
    );
    let told = message(&topic, "CapacityOk");
    assert!(told.contains(&(24_i64 << 20).to_string()), "{told}");
    assert_eq!(topic["status"]["capacity"]["volumeBytes"], 24_i64 << 20);
    let generation = topic["metadata"]["generation"].clone();
    scene.volume.grow(2_048);
    let topic = eventually("the warning to go", PATIENCE, || {
        let topic = self::topic(&scene.kube, "orders");
        let found = condition(&topic, "CapacityOk");
        if found == "True/Fits" {
            Ok(topic)
        } else {
            Err(found)
        }
    });
    assert_eq!(topic["metadata"]["generation"], generation, "without an edit");
}

/// F8: read-only under a running engine, and under one that starts.
fn the_volume_is_read_only(scene: &mut Scene) {
    let end = scene.partition()["logEnd"].as_i64().expect("an offset");
    scene.volume.read_only();
    let topic = ready(&scene.kube, "orders", "False/ReadOnly");
    assert_eq!(condition(&topic, "StorageHealthy"), "False/ReadOnly");
    assert_eq!(condition(&topic, "Stalled"), "True/ReadOnly");
    assert_eq!(kstatus(&topic), "Failed");
    let refused = scene.produce(0).expect_err("read-only");
    assert!(refused.contains(KAFKA_STORAGE_ERROR), "{refused}");
    let reply = request(scene.engine.control(), "GET", "/readyz", None, None).expect("an answer");
    assert_eq!(reply.status, 503);
    // What would have to be made is refused with the reason.
    apply(&scene.kube, "late", "{config: {retention.ms: 7d}}");
    let late = ready(&scene.kube, "late", "False/ReadOnly");
    assert_eq!(condition(&late, "StorageHealthy"), "False/ReadOnly");

    scene.engine.kill();
    scene.engine.start_unready();
    scene.answers();
    let lock = scene.engine.data().join("lock").display().to_string();
    for name in ["orders", "late"] {
        eventually("the words of the engine that could not start", PATIENCE, || {
            let told = message(&ready(&scene.kube, name, "False/ReadOnly"), "StorageHealthy");
            if told.contains(&lock) { Ok(()) } else { Err(told) }
        });
    }
    // It looks again by itself: neither a person nor a new pod is needed.
    scene.volume.writable();
    scene.engine.wait_ready();
    let topic = ready(&scene.kube, "orders", "True/Applied");
    assert_eq!(condition(&topic, "StorageHealthy"), "True/Healthy");
    ready(&scene.kube, "late", "True/Applied");
    assert_eq!(
        scene.partition()["logEnd"],
        end,
        "what was acknowledged, no more and no less"
    );
    assert_eq!(scene.produce(0), Ok(end));
}

/// F15: an old volume under a new installation.
fn the_volume_is_somebody_elses(scene: &mut Scene) {
    let before = (scene.partition(), topic(&scene.kube, "orders"));
    scene.engine.stop();
    let other = ["--check-interval", "1h", "--identity", "cluster-b"];
    scene.engine.change(tidemark(["engine"]), &other);
    let files = files_of(&scene.engine.data().join("logs"));
    scene.engine.start_unready();
    let topic = ready(&scene.kube, "orders", "False/IdentityMismatch");
    assert_eq!(condition(&topic, "StorageHealthy"), "False/IdentityMismatch");
    assert_eq!(condition(&topic, "Stalled"), "True/IdentityMismatch");
    let told = message(&topic, "StorageHealthy");
    assert!(told.contains("cluster-a") && told.contains("cluster-b"), "{told}");
    assert!(
        std::net::TcpStream::connect(scene.engine.bootstrap()).is_err(),
        "no client is served"
    );
    assert_eq!(
        files_of(&scene.engine.data().join("logs")),
        files,
        "F15: no data touched"
    );
    scene.engine.kill();
    let adopts = [
        "--check-interval",
        "1h",
        "--identity",
        "cluster-b",
        "--adopt-identity",
    ];
    scene.engine.change(tidemark(["engine"]), &adopts);
    scene.engine.start_again();
    let topic = ready(&scene.kube, "orders", "True/Applied");
    assert_eq!(topic["status"]["topicId"], before.1["status"]["topicId"]);
    for offset in ["logStart", "logEnd"] {
        assert_eq!(scene.partition()[offset], before.0[offset]);
    }
}

/// F6: a file system on which nothing can be locked.
fn the_file_system_cannot_lock(scene: &mut Scene) {
    let before = scene.partition();
    let wrapper = scene.home.join("no_locks");
    let lock = scene.engine.data().join("lock").display().to_string();
    for (answer, words) in [("ENOLCK", "No locks available"), ("EINVAL", "Invalid argument")] {
        Start::new("cc", "cc")
            .arg(format!("-DANSWER={answer}"))
            .arg("-o")
            .arg(&wrapper)
            .arg(peers::source("tests/operator/no_locks.c"))
            .run();
        scene.engine.kill();
        let files = files_of(&scene.engine.data().join("logs"));
        let program = Start::new("tidemark", &wrapper).arg(BINARY).arg("engine");
        scene.engine.change(program, &["--identity", "cluster-b"]);
        scene.engine.start_unready();
        eventually("the words of the engine that could not lock", PATIENCE, || {
            let topic = ready(&scene.kube, "orders", "False/LockUnsupported");
            assert_eq!(condition(&topic, "StorageHealthy"), "False/LockUnsupported");
            assert_eq!(condition(&topic, "Stalled"), "True/LockUnsupported");
            let told = message(&topic, "StorageHealthy");
            let all = [&lock, words, "does not support advisory locks"];
            if all.iter().all(|part| told.contains(part)) {
                Ok(())
            } else {
                Err(told)
            }
        });
        assert_eq!(
            files_of(&scene.engine.data().join("logs")),
            files,
            "F6: no data touched"
        );
    }
    // The lock file of the process that was killed is no obstacle.
    scene.engine.kill();
    let flags = ["--check-interval", "1h", "--identity", "cluster-b"];
    scene.engine.change(tidemark(["engine"]), &flags);
    scene.engine.start_again();
    ready(&scene.kube, "orders", "True/Applied");
    assert_eq!(scene.partition()["logEnd"], before["logEnd"]);
}

/// Every file below a folder, with its length and when it was last written.
fn files_of(folder: &std::path::Path) -> Vec<(std::path::PathBuf, u64, std::time::SystemTime)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let known = entry.metadata().expect("what the file system knows");
        if known.is_dir() {
            files.extend(files_of(&entry.path()));
        } else {
            files.push((entry.path(), known.len(), known.modified().expect("a time")));
        }
    }
    files.sort();
    files
}

/// F11: nobody answers, and that is told without an edit. What was known keeps its time, an edit is not seen, and nothing is decided.
fn the_engine_is_gone(scene: &mut Scene) {
    let before = topic(&scene.kube, "orders");
    scene.engine.kill();
    let gone = ready(&scene.kube, "orders", "Unknown/EngineUnreachable");
    assert_eq!(condition(&gone, "StorageHealthy"), "Unknown/EngineUnreachable");
    let rounds = scene.operator.rounds();
    scene.apply("retention.ms: 30h");
    // One for each Topic: then the edit has been looked at too.
    until("rounds after the edit", PATIENCE, || {
        scene.operator.rounds() >= rounds + 4.0
    });
    let gone = ready(&scene.kube, "orders", "Unknown/EngineUnreachable");
    assert_ne!(gone["metadata"]["generation"], before["metadata"]["generation"]);
    for field in ["observedGeneration", "lastAppliedTime", "inForce", "retention"] {
        assert_eq!(gone["status"][field], before["status"][field], "{field}");
    }
    assert_eq!(kstatus(&gone), "InProgress");
    scene.engine.start_again();
    let back = ready(&scene.kube, "orders", "True/Applied");
    assert_eq!(back["status"]["retention"], "30h");
    until("the others", PATIENCE, || {
        condition(&topic(&scene.kube, "late"), "Ready") == "True/Applied"
    });
    let table = kubectl(&scene.kube, ["get", "topics"]).run();
    assert!(!table.contains("EngineUnreachable"), "{table}");
}
