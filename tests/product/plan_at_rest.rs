//! `tidemark plan --data` on a directory at rest says what a running engine says, and changes nothing.
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tidemark::engine::Engine;
use tidemark::engine::config::EngineConfig;
use tidemark::operator::control_client::ControlClient;
use tidemark::operator::storage::Storage as _;
use tidemark::resource::contract::DesiredTopic;
use tidemark::wire::client::{Client, ClientRecord};

const HOUR_MS: i64 = 3600 * 1000;

fn manifest(retention: &str) -> String {
    format!(
        "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: orders}}\nspec:\n  partitions: 2\n  \
         config: {{retention.ms: {retention}, segment.ms: 1h}}\n"
    )
}

fn plan(home: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command
        .args(["plan", "-f", "orders.yaml", "-o", "json"])
        .args(flags)
        .current_dir(home);
    // An engine that the environment names is one that is not asked.
    command.env("TIDEMARK_CONTROL", "127.0.0.1:1").output().unwrap()
}

/// What a verdict says of partitions and readers.
fn essence(output: &Output) -> Value {
    let printed: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut first = printed[0].clone();
    // How far behind changes from one moment to the next.
    for reader in first["readersAtRisk"].as_array_mut().unwrap() {
        let behind = reader.as_object_mut().unwrap().remove("behindMs");
        assert!(behind.and_then(|ms| ms.as_i64()) > Some(8 * HOUR_MS), "{reader}");
    }
    let of = |key: &str| first[key].clone();
    serde_json::json!([
        of("verdict"),
        of("reason"),
        of("partitions"),
        of("readersAtRisk"),
        of("inForce")
    ])
}

/// Ten hours of records, ten an hour, in each of two partitions; `billing` has read 25 of partition 0 and all of the other, a consumer
/// without a group 12 of partition 0.
async fn fill(engine: &Engine) {
    let control = ControlClient::new(&engine.control_address().unwrap().to_string(), None).unwrap();
    let config = [("retention.ms", "864000000"), ("segment.ms", "3600000")];
    let desired = DesiredTopic {
        partitions: Some(2),
        config: config
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        ..DesiredTopic::default()
    };
    control.apply("orders", &desired).await.unwrap();
    let mut client = Client::connect(engine.listening().unwrap(), "test")
        .await
        .unwrap();
    let now = jiff::Timestamp::now().as_millisecond();
    for partition in 0..2 {
        for hour in (1..=10).rev() {
            // More than an hour apart, so that each lot is a segment of its own.
            let written = now - hour * (HOUR_MS + 60_000) - HOUR_MS / 2;
            let records: Vec<_> = (0..10)
                .map(|number| ClientRecord::new(written + number, "an order"))
                .collect();
            client.produce("orders", partition, &records).await.unwrap();
        }
    }
    client.commit("billing", "orders", 0, 25).await.unwrap();
    client.commit("billing", "orders", 1, 100).await.unwrap();
    let mut alone = Client::connect(engine.listening().unwrap(), "alone")
        .await
        .unwrap();
    alone.fetch("orders", 0, 12, 0).await.unwrap();
}

/// Every file under `root` with its bytes.
fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.display().to_string(), std::fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_directory_at_rest_answers_like_its_engine() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    std::fs::write(home.path().join("orders.yaml"), manifest("6h")).unwrap();
    let mut config = EngineConfig::new(&data);
    config.listen.set_port(0);
    config.control = Some(([127, 0, 0, 1], 0).into());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let running = runtime.block_on(async {
        let engine = Engine::start(config).await.unwrap();
        fill(&engine).await;
        let control = format!("http://{}", engine.control_address().unwrap());
        let place = home.path().to_owned();
        let asked = tokio::task::spawn_blocking(move || {
            let held = plan(&place, &["--data", "data"]);
            let complaint = String::from_utf8_lossy(&held.stderr).into_owned();
            assert_eq!(held.status.code(), Some(1), "{complaint}");
            assert!(
                complaint.contains("an engine runs on data: ask it with --control"),
                "{complaint}"
            );
            plan(&place, &["--control", &control])
        });
        let asked = asked.await.unwrap();
        engine.shutdown().await;
        asked
    });
    assert_eq!(
        running.status.code(),
        Some(2),
        "{}",
        String::from_utf8_lossy(&running.stderr)
    );
    let before = contents(&data);
    let at_rest = plan(home.path(), &["--data", "data"]);
    assert_eq!(
        at_rest.status.code(),
        Some(2),
        "{}",
        String::from_utf8_lossy(&at_rest.stderr)
    );
    assert_eq!(essence(&at_rest), essence(&running));
    let lost = &essence(&at_rest)[3];
    let lost: Vec<_> = lost
        .as_array()
        .into_iter()
        .flatten()
        .map(|reader| (reader["kind"].as_str(), reader["position"].as_i64()))
        .collect();
    assert_eq!(lost.len(), 2, "{lost:?}");
    for reader in [(Some("Group"), Some(25)), (Some("Fetcher"), Some(12))] {
        assert!(lost.contains(&reader), "{lost:?}");
    }
    assert!(contents(&data) == before, "the directory was changed");

    // What loses nothing applies safely: a reader at rest is as good as one that runs.
    std::fs::write(home.path().join("orders.yaml"), manifest("20h")).unwrap();
    let safe = plan(home.path(), &["--data", "data"]);
    assert_eq!(
        safe.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&safe.stdout)
    );
}
