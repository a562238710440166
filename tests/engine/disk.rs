//! Volumes that are full, read-only, broken, lost or somebody else's. Records are refused with a code that clients retry; reading,
//! administration and retention go on; it recovers by itself.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidemark::engine::Platform;
use tidemark::engine::config::Durability;
use tidemark::engine::health::{AskFileSystem, file_system};
use tidemark::log::faults::{Effect, Fault, FaultyFiles, Operation};
use tidemark::log::files::DiskFiles;
use tidemark::wire::client::{Client, ClientRecord};

use crate::scene::{DAY, Desired, MINUTE, Scene, T, code, http_get};
use crate::support::process::Start;
use crate::support::temp::TempDir;
use crate::support::tidemark::{BINARY, Tidemark, refused, request, tidemark};
use crate::support::volume::Volume;
use crate::support::wait::{PATIENCE, eventually};

const KAFKA_STORAGE_ERROR: i16 = 56;

/// A volume whose state the test decides.
fn breakable() -> (FaultyFiles, Arc<AtomicBool>, Platform) {
    let files = FaultyFiles::new(DiskFiles::shared());
    let read_only = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&read_only);
    let platform = Platform {
        files: Arc::new(files.clone()),
        ask: AskFileSystem(Arc::new(move |path| {
            let mut found = file_system(path)?;
            found.read_only |= asked.load(Ordering::SeqCst);
            Ok(found)
        })),
    };
    (files, read_only, platform)
}

async fn produce(scene: &mut Scene, topic: &str) -> Result<i64, tidemark::wire::client::ClientError> {
    scene
        .kafka
        .produce(topic, 0, &[ClientRecord::new(T, vec![b'v'; 10])])
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_records_and_frees_itself_once_retention_is_lowered() {
    let Some(volume) = Volume::new("full-disk", 24) else {
        return;
    };
    let data = volume.path().join("data");
    let mut scene = Scene::with(|config| config.data = data).await;
    let base = Desired::new()
        .set("internal.segment.bytes", 600_000)
        .set("retention.ms", -1);
    scene.apply("t", &base).await;
    for age in (1..=8).rev() {
        let records = vec![ClientRecord::new(T - age * DAY, vec![b'v'; 50_000]); 10];
        scene.kafka.produce("t", 0, &records).await.unwrap();
    }
    let filler = volume.fill();
    scene.ready(503, "DiskFull").await;
    assert_eq!(code(produce(&mut scene, "t").await).0, KAFKA_STORAGE_ERROR);
    assert_eq!(scene.observe("t").await.health.reason, "DiskFull");
    assert_eq!(scene.kafka.fetch("t", 0, 3, 0).await.unwrap()[0].offset, 3);
    // The very change that frees it can still be recorded; and the pass does not wait for its turn.
    let verdict = scene
        .apply("t", &base.set("retention.ms", 2 * DAY + DAY / 2))
        .await;
    assert_eq!(verdict.reason, "SlowReader", "{}", verdict.message);
    scene.kafka.fetch("t", 0, 80, 0).await.unwrap();
    scene.ready(200, "Healthy").await;
    assert_eq!(scene.log_start("t", 0).await, 60);
    assert_eq!(produce(&mut scene, "t").await.unwrap(), 80);
    std::fs::remove_file(filler).unwrap();
    scene.engine.shutdown().await;
}

/// The same on a file system that only says so: nothing but records needs space.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_without_space_refuses_records_and_takes_them_again() {
    let files = FaultyFiles::new(DiskFiles::shared());
    let full = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&full);
    let platform = Platform {
        files: Arc::new(files.clone()),
        ask: AskFileSystem(Arc::new(move |path| {
            let mut found = file_system(path)?;
            if asked.load(Ordering::SeqCst) {
                found.free_bytes = 0;
            }
            Ok(found)
        })),
    };
    let mut scene = Scene::on(Some(platform), |_| {}).await;
    scene.apply("t", &Desired::new()).await;
    scene.ten_days("t", 0).await;
    scene.kafka.commit("g", "t", 0, 60).await.unwrap();
    files.set_full(true);
    // The first to notice may be a producer, before any probe.
    assert_eq!(code(produce(&mut scene, "t").await).0, KAFKA_STORAGE_ERROR);
    full.store(true, Ordering::SeqCst);
    scene.ready(503, "DiskFull").await;
    assert_eq!(code(produce(&mut scene, "t").await).0, KAFKA_STORAGE_ERROR);
    assert_eq!(scene.kafka.fetch("t", 0, 25, 0).await.unwrap()[0].offset, 25);
    scene.kafka.fetch("t", 0, 100, 0).await.unwrap();
    let verdict = scene
        .apply("t", &Desired::new().set("retention.ms", 4 * DAY + DAY / 2))
        .await;
    assert_eq!(verdict.reason, "Applied", "{}", verdict.message);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 60);
    files.set_full(false);
    full.store(false, Ordering::SeqCst);
    scene.ready(200, "Healthy").await;
    let offset = crate::scene::eventually("records to be taken again", async || {
        produce(&mut scene, "t").await.map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(offset, 100);
}

/// F3: full to the last byte, killed, and no mark of a clean stop.
#[test]
fn an_engine_starts_on_a_full_disk_and_frees_it() {
    let Some(volume) = Volume::new("full-at-start", 64) else {
        return;
    };
    let mut engine = Tidemark::engine(volume.path(), &["--check-interval", "1h"]);
    let body =
        r#"{"partitions": 1, "config": {"internal.segment.bytes": "3000000", "retention.ms": "604800000"}}"#;
    engine.http("PUT", "/v1/topics/t", Some(body)).json(200);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bootstrap = engine.bootstrap().to_owned();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let now = i64::try_from(now.as_millis()).unwrap();
    let produce = |age_days: i64, count: usize| {
        let bootstrap = bootstrap.clone();
        runtime.block_on(async move {
            let mut client = Client::connect(&bootstrap, "full").await.unwrap();
            for _ in 0..count / 10 {
                let record = ClientRecord::new(now - age_days * DAY, vec![b'v'; 29_000]);
                client.produce("t", 0, &vec![record; 10]).await.unwrap();
            }
        });
    };
    produce(8, 100);
    produce(8, 100);
    produce(0, 50);
    let segments = engine.get("/v1/topics/t/partitions/0/segments");
    let bases: Vec<i64> = segments["segments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|segment| segment["baseOffset"].as_i64().unwrap())
        .collect();
    assert_eq!(bases, [0, 100, 200]);
    engine.kill();
    volume.fill();
    engine.start_unready();
    engine.wait_ready();
    let observed = engine.get("/v1/topics/t");
    assert_eq!(observed["partitions"][0]["logStart"], 200);
    assert_eq!(observed["partitions"][0]["logEnd"], 250);
    produce(0, 10);
    engine.kill();
}

/// F8: the mount turns read-only under a running engine and comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_volume_is_seen_and_recovers_without_a_lost_record() {
    let (files, read_only, platform) = breakable();
    let mut scene = Scene::on(Some(platform), |_| {}).await;
    scene.apply("t", &Desired::new()).await;
    scene.segment("t", 0, 10, T).await;
    files.set_read_only(true);
    // The first to notice may be a producer, before any probe.
    assert_eq!(code(produce(&mut scene, "t").await).0, KAFKA_STORAGE_ERROR);
    read_only.store(true, Ordering::SeqCst);
    scene.ready(503, "ReadOnly").await;
    assert_eq!(code(produce(&mut scene, "t").await).0, KAFKA_STORAGE_ERROR);
    assert_eq!(scene.observe("t").await.health.reason, "ReadOnly");
    assert_eq!(scene.kafka.fetch("t", 0, 0, 0).await.unwrap().len(), 10);
    scene.pass().await;
    // After minutes of it a new pod is worth trying; it may get the volume mounted right.
    let control = scene.engine.control_address().unwrap().to_string();
    let alive = http_get(&control, "/healthz").await;
    assert!(alive.starts_with("HTTP/1.1 200"), "{alive}");
    scene.clock.advance_ms(5 * MINUTE + 1);
    let dead = http_get(&control, "/healthz").await;
    assert!(
        dead.starts_with("HTTP/1.1 503") && dead.contains("ReadOnly"),
        "{dead}"
    );
    files.set_read_only(false);
    read_only.store(false, Ordering::SeqCst);
    scene.ready(200, "Healthy").await;
    let alive = http_get(&control, "/healthz").await;
    assert!(alive.starts_with("HTTP/1.1 200"), "{alive}");
    let offset = crate::scene::eventually("records to be taken again", async || {
        produce(&mut scene, "t").await.map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(offset, 10);
    assert_eq!(scene.observe("t").await.health.reason, "Healthy");
}

/// A failed fsync takes its partition out of writing and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_disk_fails_takes_no_other_with_it() {
    let (files, _, platform) = breakable();
    let mut scene = Scene::on(Some(platform), |config| config.durability = Durability::Ack).await;
    scene.apply("bad", &Desired::new()).await;
    scene
        .apply("good", &Desired::new().set("retention.ms", DAY))
        .await;
    for topic in ["bad", "good"] {
        scene.segment(topic, 0, 10, T - 2 * DAY).await;
    }
    files.inject(Fault::every(Operation::Sync, Effect::Eio).on("bad-0"));
    assert_eq!(code(produce(&mut scene, "bad").await).0, KAFKA_STORAGE_ERROR);
    files.heal();
    // It is not tried again: nobody knows what the disk holds.
    assert_eq!(code(produce(&mut scene, "bad").await).0, KAFKA_STORAGE_ERROR);
    assert_eq!(scene.segment("good", 0, 10, T).await, 10);
    let bad = scene.observe("bad").await;
    assert_eq!(bad.health.reason, "Corrupt");
    assert!(bad.partitions[0].unhealthy.is_some());
    assert!(scene.observe("good").await.health.is_healthy());
    scene.pass().await;
    assert_eq!(scene.log_start("good", 0).await, 10);
    scene.ready(200, "Healthy").await;
}

/// E9: somebody took a file away. It counts as deleted, and nothing else is touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_segment_counts_as_deleted() {
    let mut scene = Scene::new().await;
    for topic in ["t", "other"] {
        scene.apply(topic, &Desired::new()).await;
        for age in [8, 8, 0] {
            scene.segment(topic, 0, 10, T - age * DAY).await;
        }
    }
    let logs = scene.config.data.join("logs");
    std::fs::remove_file(logs.join("t-0/00000000000000000000.log")).unwrap();
    for topic in ["t", "other"] {
        scene
            .apply(topic, &Desired::new().set("retention.ms", 7 * DAY))
            .await;
    }
    scene.pass().await;
    for topic in ["t", "other"] {
        assert_eq!(scene.log_start(topic, 0).await, 20, "{topic}");
        assert!(scene.observe(topic).await.health.is_healthy());
        assert_eq!(produce(&mut scene, topic).await.unwrap(), 30);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_directory_that_is_gone_is_seen_and_so_is_its_return() {
    let mut scene = Scene::new().await;
    scene.apply("t", &Desired::new()).await;
    scene.segment("t", 0, 10, T).await;
    let (logs, aside) = (scene.config.data.join("logs"), scene.config.data.join("aside"));
    std::fs::rename(&logs, &aside).unwrap();
    scene.ready(503, "is gone").await;
    assert_eq!(code(produce(&mut scene, "t").await).0, KAFKA_STORAGE_ERROR);
    std::fs::rename(&aside, &logs).unwrap();
    scene.ready(200, "Healthy").await;
    assert_eq!(produce(&mut scene, "t").await.unwrap(), 10);
}

/// F1: a fresh volume as it is mounted: `lost+found` opens to nobody but root.
#[test]
fn a_fresh_volume_with_lost_and_found_is_taken() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let home = TempDir::new("fresh");
    let mut folders = Vec::new();
    for parent in ["data", "data/logs"] {
        let folder = home.join(parent).join("lost+found");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("#12"), vec![0; 5_000]).unwrap();
        folders.push(folder);
    }
    let allow = |folder: &std::path::Path, mode: u32| {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for folder in &folders {
        allow(folder, 0);
    }
    // Root itself is kept out only without its powers.
    let root = std::fs::metadata(home.path()).unwrap().uid() == 0;
    let program = if root {
        let powers = "--bounding-set=-dac_override,-dac_read_search";
        Start::new("tidemark", "setpriv").args([powers, BINARY, "engine"])
    } else {
        tidemark(["engine"])
    };
    let mut engine = Tidemark::engine_by(program, home.path(), &[]);
    engine
        .http("PUT", "/v1/topics/t", Some(r#"{"partitions": 1}"#))
        .json(200);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let produce = |engine: &Tidemark| {
        runtime.block_on(async {
            let mut client = Client::connect(engine.bootstrap(), "fresh").await.unwrap();
            let records = vec![ClientRecord::new(1, "v"); 10];
            client.produce("t", 0, &records).await.unwrap()
        })
    };
    assert_eq!(produce(&engine), 0);
    engine.kill();
    engine.start_again();
    assert_eq!(produce(&engine), 10);
    let topics = engine.get("/v1/topics")["topics"].clone();
    assert_eq!(topics.as_array().map(Vec::len), Some(1), "{topics}");
    let log = engine.partition("t", 0).join("00000000000000000000.log");
    assert_eq!(
        topics[0]["partitions"][0]["sizeBytes"].as_u64(),
        Some(std::fs::metadata(log).unwrap().len()),
        "nothing but its own is counted"
    );
    engine.stop();
    for folder in &folders {
        let mode = std::fs::metadata(folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0, "as it was");
        allow(folder, 0o700);
        assert_eq!(std::fs::read(folder.join("#12")).unwrap().len(), 5_000);
    }
}

/// F1: foreign things are left alone and not counted.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_is_left_alone() {
    let mut scene = Scene::with(|config| {
        let logs = config.data.join("logs");
        std::fs::create_dir_all(logs.join("lost+found")).unwrap();
        std::fs::create_dir_all(config.data.join("lost+found")).unwrap();
        std::fs::write(logs.join("lost+found/#12"), vec![0; 5000]).unwrap();
        std::fs::write(logs.join("notes"), "mine").unwrap();
        std::fs::create_dir(logs.join("orders-0.0123-delete")).unwrap();
        std::os::unix::fs::symlink("/etc", logs.join("link-0")).unwrap();
    })
    .await;
    scene.apply("t", &Desired::new()).await;
    scene.segment("t", 0, 10, T).await;
    assert_eq!(
        scene
            .control
            .get::<tidemark::resource::contract::TopicList>("/v1/topics")
            .await
            .unwrap()
            .topics
            .len(),
        1
    );
    scene.restart(|_| {}).await;
    let logs = scene.config.data.join("logs");
    for left in ["lost+found/#12", "notes", "orders-0.0123-delete", "link-0"] {
        assert!(logs.join(left).symlink_metadata().is_ok(), "{left}");
    }
}

/// A second engine on a directory says who has it and goes; F15: a volume of another identity is explained, not touched, and can be
/// taken over.
#[test]
fn a_directory_in_use_and_one_of_another_identity_are_refused_in_words() {
    let home = TempDir::new("identity");
    let mut engine = Tidemark::engine(home.path(), &["--identity", "cluster-a"]);
    let body = r#"{"partitions": 1}"#;
    engine.http("PUT", "/v1/topics/orders", Some(body)).json(200);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bootstrap = engine.bootstrap().to_owned();
    runtime.block_on(async {
        let mut client = Client::connect(&bootstrap, "identity").await.unwrap();
        let records = vec![ClientRecord::new(1, "v"); 500];
        client.produce("orders", 0, &records).await.unwrap();
    });
    let said = refused(home.path());
    assert!(
        said.contains("in use") && said.contains(&format!("process {}", engine.process().pid())),
        "{said}"
    );
    engine.stop();
    let mut other = Tidemark::engine_unready(home.path(), &["--identity", "cluster-b"]);
    let control = other.control().to_owned();
    eventually("the reason to be told", PATIENCE, || {
        let reply = request(&control, "GET", "/readyz", None, None).map_err(|error| error.to_string())?;
        let told = reply.status == 503
            && ["IdentityMismatch", "cluster-a", "cluster-b"]
                .iter()
                .all(|part| reply.body.contains(part));
        if told { Ok(()) } else { Err(reply.body) }
    });
    assert_eq!(
        request(&control, "GET", "/healthz", None, None).unwrap().status,
        200
    );
    let refused = request(&control, "GET", "/v1/topics", None, None).unwrap();
    assert_eq!(refused.json(503)["code"], "identityMismatch");
    assert_eq!(refused.json(503)["reason"], "IdentityMismatch");
    assert!(
        refused.head.contains("application/problem+json"),
        "{}",
        refused.head
    );
    other.kill();
    let adopted = Tidemark::engine(home.path(), &["--identity", "cluster-b", "--adopt-identity"]);
    assert_eq!(adopted.get("/v1/topics/orders")["partitions"][0]["logEnd"], 500);
}
