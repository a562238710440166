use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::*;
use crate::operator::fake_storage::FakeStorage;
use crate::telemetry::clock::SystemClock;

/// A directory with its source running over a storage in memory.
struct Scene {
    folder: tempfile::TempDir,
    storage: Arc<FakeStorage>,
    reports: UnboundedReceiver<Report>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

const ORDERS: &str = "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {name: orders}\nspec: {config: {retention.ms: 7d}}\n";

impl Scene {
    fn start(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        fs::create_dir(folder.path().join("topics")).expect("topics");
        for (name, text) in files {
            fs::write(folder.path().join("topics").join(name), text).expect("writes");
        }
        Self::resume(folder, Arc::new(FakeStorage::default()))
    }

    fn resume(folder: tempfile::TempDir, storage: Arc<FakeStorage>) -> Self {
        let mut settings = Settings::new(folder.path().join("topics"), folder.path().join("status"));
        settings.quiet = Duration::from_millis(20);
        settings.removal_after = Duration::from_millis(150);
        let (tell, reports) = mpsc::unbounded_channel();
        let report: Reporter = Arc::new(move |report| {
            let _gone = tell.send(report);
        });
        let source = DirectorySource::new(
            settings,
            Arc::clone(&storage),
            Arc::new(SystemClock::new()),
            report,
        );
        let stop = CancellationToken::new();
        let running = tokio::spawn(source.run(stop.clone()));
        Self {
            folder,
            storage,
            reports,
            stop,
            running,
        }
    }

    fn topics(&self) -> std::path::PathBuf {
        self.folder.path().join("topics")
    }

    /// In one step: however long a look at the directory takes, the file is the old one or the new one.
    fn write(&self, name: &str, text: &str) {
        let unfinished = self.topics().join(format!(".{name}"));
        fs::write(&unfinished, text).expect("writes");
        fs::rename(unfinished, self.topics().join(name)).expect("renames");
    }

    async fn wait<T>(&mut self, mut wanted: impl FnMut(&Report) -> Option<T>) -> T {
        tokio::time::timeout(Duration::from_secs(240), async {
            loop {
                let report = self.reports.recv().await.expect("the source runs");
                if let Some(found) = wanted(&report) {
                    return found;
                }
            }
        })
        .await
        .expect("in time")
    }

    async fn ready(&mut self, name: &str, reason: &str) {
        self.wait(|report| match report {
            Report::Status { topic, status } if topic == name => status
                .condition("Ready")
                .filter(|ready| ready.reason == reason)
                .map(|_| ()),
            _ => None,
        })
        .await;
    }

    fn record(&self, name: &str) -> Topic {
        let text =
            fs::read_to_string(self.folder.path().join("status/default").join(name)).expect("a record");
        serde_yaml::from_str(&text).expect("a Topic")
    }

    async fn stop(self) -> (tempfile::TempDir, Arc<FakeStorage>) {
        self.stop.cancel();
        self.running.await.expect("stops");
        (self.folder, self.storage)
    }
}

fn names(storage: &FakeStorage) -> Vec<String> {
    storage.topics.lock().keys().cloned().collect()
}

#[tokio::test]
async fn manifests_become_topics_and_edits_are_followed() {
    let mut scene = Scene::start(&[("a.yaml", ORDERS)]);
    scene.ready("default/orders", "Applied").await;
    let record = scene.record("orders.yaml");
    assert_eq!(record.metadata.generation, Some(1));
    assert_eq!(
        record
            .status
            .as_ref()
            .and_then(|status| status.observed_generation),
        Some(1)
    );
    // As an editor does it: a finished file renamed over the old one.
    fs::write(scene.topics().join(".a.yaml.swp"), ORDERS.replace("7d", "9d")).expect("writes");
    fs::rename(scene.topics().join(".a.yaml.swp"), scene.topics().join("a.yaml")).expect("renames");
    scene
        .wait(|report| match report {
            Report::Status { status, .. } => (status.retention.as_deref() == Some("9d")).then_some(()),
            _ => None,
        })
        .await;
    assert_eq!(scene.record("orders.yaml").metadata.generation, Some(2));
    scene.stop().await;
}

#[tokio::test]
async fn a_fault_is_told_with_its_place_and_the_rest_goes_on() {
    let bad = format!(
        "{}---\n{ORDERS}",
        ORDERS.replace("orders", "clicks").replace("7d", "7x")
    );
    let mut scene = Scene::start(&[("a.yaml", &bad)]);
    let (file, fault) = scene
        .wait(|report| match report {
            Report::Fault { file, fault } => Some((file.clone(), fault.to_string())),
            _ => None,
        })
        .await;
    assert_eq!(
        (
            file.as_str(),
            fault.starts_with("line 4: spec.config.retention.ms: \"7x\"")
        ),
        ("a.yaml", true),
        "{fault}"
    );
    scene.ready("default/orders", "Applied").await;
    scene.write("a.yaml", &bad.replace("7x", "1h"));
    scene.ready("default/clicks", "Applied").await;
    scene.stop().await;
}

#[tokio::test]
async fn half_a_file_removes_nothing_and_a_fault_keeps_the_old_values() {
    removes_nothing(|path| fs::write(path, "apiVersion: tidemark.dev/v1alpha1\nkind: [").expect("writes"))
        .await;
}

#[tokio::test]
async fn an_empty_file_or_a_link_to_nowhere_removes_nothing() {
    removes_nothing(|path| fs::write(path, "").expect("writes")).await;
    removes_nothing(|path| fs::write(path, "\n  \n").expect("writes")).await;
    removes_nothing(|path| {
        fs::remove_file(path).expect("removes");
        std::os::unix::fs::symlink("nowhere.yaml", path).expect("links");
    })
    .await;
}

/// Spoils the manifest of a Topic whose deletion would take its data, and puts it right again.
async fn removes_nothing(spoil: impl FnOnce(&Path)) {
    let delete = ORDERS.replace("spec: {", "spec: {deletionPolicy: Delete, ");
    let mut scene = Scene::start(&[
        ("a.yaml", &delete),
        ("b.yaml", &delete.replace("orders", "clicks")),
    ]);
    scene.ready("default/orders", "Applied").await;
    let spoilt = scene.topics().join("a.yaml");
    spoil(&spoilt);
    scene
        .wait(|report| matches!(report, Report::Fault { .. }).then_some(()))
        .await;
    // A removal would take 150 ms: the other Topic is edited and followed until more than that has passed.
    let began = std::time::Instant::now();
    for days in (8..).take_while(|_| began.elapsed() < Duration::from_millis(400)) {
        let days = format!("{days}d");
        scene.write("b.yaml", &delete.replace("orders", "clicks").replace("7d", &days));
        scene
            .wait(|report| {
                matches!(report, Report::Status { status, .. } if status.retention.as_ref() == Some(&days))
                    .then_some(())
            })
            .await;
    }
    assert_eq!(names(&scene.storage), ["clicks", "orders"]);
    fs::remove_file(spoilt).expect("removes");
    scene.write("a.yaml", &delete);
    scene
        .wait(|report| matches!(report, Report::Mended { .. }).then_some(()))
        .await;
    scene.stop().await;
}

#[tokio::test]
async fn removal_follows_the_deletion_policy() {
    let delete = ORDERS
        .replace("orders", "clicks")
        .replace("spec: {", "spec: {deletionPolicy: Delete, ");
    let mut scene = Scene::start(&[("a.yaml", ORDERS), ("b.yaml", &delete)]);
    scene.ready("default/orders", "Applied").await;
    scene.ready("default/clicks", "Applied").await;
    fs::remove_file(scene.topics().join("a.yaml")).expect("removes");
    scene
        .wait(|report| matches!(report, Report::Gone { topic } if topic == "default/orders").then_some(()))
        .await;
    assert!(
        scene.storage.topics.lock()["orders"].owner.is_none(),
        "kept, without an owner"
    );
    fs::remove_file(scene.topics().join("b.yaml")).expect("removes");
    scene
        .wait(|report| matches!(report, Report::Gone { topic } if topic == "default/clicks").then_some(()))
        .await;
    assert_eq!(names(&scene.storage), ["orders"]);
    scene.stop().await;
}

#[tokio::test]
async fn what_is_missing_at_start_or_behind_another_directory_is_not_deleted() {
    let delete = ORDERS.replace("spec: {", "spec: {deletionPolicy: Delete, ");
    let mut scene = Scene::start(&[("a.yaml", &delete)]);
    scene.ready("default/orders", "Applied").await;
    let (folder, storage) = scene.stop().await;
    fs::remove_file(folder.path().join("topics/a.yaml")).expect("removes");
    let mut scene = Scene::resume(folder, storage);
    scene.write("b.yaml", &ORDERS.replace("orders", "clicks"));
    scene.ready("default/clicks", "Applied").await;
    assert_eq!(names(&scene.storage), ["clicks", "orders"]);
    assert_eq!(scene.record("orders.yaml").metadata.deletion_timestamp, None);
    scene.stop().await;
}

#[tokio::test]
async fn a_deletion_that_has_begun_is_ended_by_the_next_run() {
    let delete = ORDERS.replace("spec: {", "spec: {deletionPolicy: Delete, ");
    let mut scene = Scene::start(&[("a.yaml", &delete)]);
    scene.ready("default/orders", "Applied").await;
    scene.storage.behaviour.lock().reader_at = Some(1);
    fs::remove_file(scene.topics().join("a.yaml")).expect("removes");
    scene.ready("default/orders", "SlowReader").await;
    let (folder, storage) = scene.stop().await;
    storage.behaviour.lock().reader_at = None;
    let mut scene = Scene::resume(folder, storage);
    scene
        .wait(|report| matches!(report, Report::Gone { .. }).then_some(()))
        .await;
    assert!(names(&scene.storage).is_empty());
    scene.stop().await;
}

#[tokio::test]
async fn the_engine_may_come_later() {
    let mut scene = Scene::start(&[]);
    scene.storage.behaviour.lock().away = true;
    scene.write("a.yaml", ORDERS);
    scene.ready("default/orders", "EngineUnreachable").await;
    scene.storage.behaviour.lock().away = false;
    scene.ready("default/orders", "Applied").await;
    scene.stop().await;
}

#[test]
fn two_files_cannot_declare_one_topic() {
    let folder = tempfile::tempdir().expect("a directory");
    for name in ["a.yaml", "b.yaml"] {
        fs::write(folder.path().join(name), ORDERS).expect("writes");
    }
    fs::write(folder.path().join("notes.txt"), "kind: [").expect("writes");
    fs::write(folder.path().join(".hidden.yaml"), "kind: [").expect("writes");
    fs::create_dir(folder.path().join("dir.yaml")).expect("creates");
    let scan = scan::scan(folder.path(), "default").expect("a look");
    assert_eq!(scan.topics.len(), 1);
    assert!(
        scan.faults["b.yaml"][0]
            .to_string()
            .contains("is declared in a.yaml already")
    );
    assert_eq!(scan.faults.len(), 1);
    assert!(scan::scan(Path::new("/does/not/exist"), "default").is_err());
}
