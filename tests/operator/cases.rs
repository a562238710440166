//! Real cases of names, ownership, deletion and GitOps, on a real engine with real data: kubectl on one side, the data directory on the other.
use serde_json::{Value, json};
use tidemark::wire::client::{Client, ClientRecord};

use crate::running::{
    NAMESPACE, Operator, PATIENCE, apply, condition, delete, event, gone, install, kubectl, manifest, ready,
    topic,
};
use crate::support::kcat::kcat;
use crate::support::kube::KubeApi;
use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;
use crate::support::wait::until;

/// Topics are looked at this often without a reason.
const RESYNC: &str = "1s";

struct Scene {
    operator: Operator,
    engine: Tidemark,
    kube: KubeApi,
    runtime: tokio::runtime::Runtime,
    _home: TempDir,
}

impl Scene {
    /// So many records, ten to a batch, with segments of one batch each where the Topic says so.
    fn fill(&self, topic: &str, partition: i32, records: usize) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = i64::try_from(now.expect("after 1970").as_millis()).expect("64 bits");
        self.runtime.block_on(async {
            let mut client = Client::connect(self.engine.bootstrap(), "cases")
                .await
                .expect("an engine");
            for _ in 0..records / 10 {
                let batch = vec![ClientRecord::new(now, vec![b'v'; 100]); 10];
                client.produce(topic, partition, &batch).await.expect("an offset");
            }
        });
    }

    /// The group has read so far; no fetcher is seen, which would be a reader of its own.
    fn commit(&self, group: &str, topic: &str, offset: i64) {
        self.runtime.block_on(async {
            let mut client = Client::connect(self.engine.bootstrap(), group)
                .await
                .expect("an engine");
            client.commit(group, topic, 0, offset).await.expect("a commit");
        });
    }

    fn partition(&self, topic: &str, partition: usize) -> Value {
        self.engine.get(&format!("/v1/topics/{topic}"))["partitions"][partition].clone()
    }

    fn log_end(&self, topic: &str) -> Value {
        self.partition(topic, 0)["logEnd"].clone()
    }

    /// The folder of a partition is there.
    fn on_disk(&self, topic: &str, partition: i32) -> bool {
        self.engine.partition(topic, partition).is_dir()
    }

    fn known(&self, topic: &str) -> bool {
        self.engine
            .http("GET", &format!("/v1/topics/{topic}"), None)
            .status
            == 200
    }

    /// A topic goes from the engine, and nobody asked the resource.
    fn remove_behind_its_back(&self, name: &str) {
        let uid = topic(&self.kube, name)["metadata"]["uid"].clone();
        let uid = uid.as_str().expect("a uid");
        let path = format!("/v1/topics/{name}?owner={uid}&policy=Delete&requestId=aside");
        let verdict = self.engine.http("DELETE", &path, None).json(200);
        assert_eq!(verdict["verdict"], "Applied", "{verdict}");
    }

    /// Every Topic is looked at so many times more, by the timer alone.
    fn resyncs(&self, times: u32) {
        let topics = kubectl(&self.kube, ["get", "topics", "-o", "name"])
            .run()
            .lines()
            .count();
        let wanted = f64::from(u32::try_from(topics).expect("a handful") * times);
        let rounds = self.operator.rounds();
        until("rounds by the timer", PATIENCE, || {
            self.operator.rounds() >= rounds + wanted
        });
    }

    /// What a manifest with this spec is told by the API server, which must not take it.
    #[track_caller]
    fn refused(&self, name: &str, spec: &str) -> String {
        let output = self
            .kube
            .kubectl(["apply", "-f", "-"])
            .output_with(manifest(name, spec).as_bytes());
        assert!(!output.status.success(), "{spec} is taken");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// 30 records to a segment, which is what the size limit of [`LOW`] keeps.
const KEEPS: &str = "retention.ms: -1, internal.segment.bytes: 4000";
const LOW: &str = "retention.ms: -1, internal.segment.bytes: 4000, retention.bytes: 4000";

#[test]
fn real_cases_on_a_real_engine() {
    let kube = KubeApi::start();
    install(&kube);
    let home = TempDir::new("cases");
    let engine = Tidemark::engine(home.path(), &["--check-interval", "1h"]);
    for topic in ["a", "b"] {
        let path = format!("/v1/topics/{topic}");
        engine.http("PUT", &path, Some(r#"{"partitions": 1}"#)).json(200);
    }
    let rights = kube.kubeconfig_of_service_account(NAMESPACE, "tidemark");
    let operator = Operator::start_with(&kube, engine.control(), rights, "cases", &["--resync", RESYNC]);
    let mut scene = Scene {
        operator,
        engine,
        kube,
        runtime: tokio::runtime::Runtime::new().expect("a runtime"),
        _home: home,
    };
    no_resource_is_no_reason_to_delete(&mut scene);
    a_name_that_kubernetes_does_not_allow(&scene);
    dot_and_underscore(&scene);
    names_of_the_engine(&scene);
    renamed_later(&scene);
    fewer_partitions(&scene);
    handed_over(&scene);
    removed_behind_our_back(&scene);
    deleted_by_accident(&scene);
    deletion_of_what_nobody_has(&mut scene);
    the_spec_is_the_users(&scene);
    a_key_of_the_broker(&scene);
    one_digit_apart(&scene);
    assert_eq!(scene.log_end("a"), 50);
    assert_eq!(scene.log_end("b"), 50);
    let errors = scene
        .operator
        .metric("tidemark_operator_reconciles_total{result=\"error\"}");
    assert!(errors < 1.0, "{errors}");
    scene.operator.stop();
}

/// H7: the engine holds two topics with data, and there is no resource; then only one of them has one. Failing lists are in `faults.rs`.
fn no_resource_is_no_reason_to_delete(scene: &mut Scene) {
    for name in ["a", "b"] {
        scene.fill(name, 0, 50);
    }
    let both = |scene: &Scene| {
        for name in ["a", "b"] {
            assert!(scene.on_disk(name, 0), "H7: {name}");
            assert_eq!(scene.log_end(name), 50, "H7: {name}");
        }
    };
    until("the empty list", PATIENCE, || {
        scene.operator.metric("tidemark_operator_relists_total") >= 1.0
    });
    both(scene);
    apply(&scene.kube, "a", "{}");
    ready(&scene.kube, "a", "True/Applied");
    both(scene);
    scene.operator.kill();
    scene.operator.start_again();
    scene.resyncs(3);
    both(scene);
}

/// G1: the field `topicName` counts where there is one, and the resource's name where not.
fn a_name_that_kubernetes_does_not_allow(scene: &Scene) {
    apply(&scene.kube, "my-topic", "{topicName: My_Topic.v1}");
    let named = ready(&scene.kube, "my-topic", "True/Applied");
    assert_eq!(named["status"]["topicName"], "My_Topic.v1", "G1");
    assert!(
        scene.on_disk("My_Topic.v1", 0) && !scene.on_disk("my-topic", 0),
        "G1"
    );
    apply(&scene.kube, "its-own", "{}");
    let own = ready(&scene.kube, "its-own", "True/Applied");
    assert_eq!(own["status"]["topicName"], "its-own", "G1");
    assert!(scene.on_disk("its-own", 0), "G1");
    let listed = kcat(scene.engine.bootstrap(), ["-L"]).run();
    let seen = |name: &str| listed.contains(&format!("topic \"{name}\""));
    assert!(
        seen("My_Topic.v1") && seen("its-own") && !seen("my-topic"),
        "G1: {listed}"
    );
}

/// G2: two names that a metric could not tell apart. The second waits, is told why, and goes in when the first has gone.
fn dot_and_underscore(scene: &Scene) {
    apply(&scene.kube, "x1", "{topicName: a.b_c, deletionPolicy: Delete}");
    let first = ready(&scene.kube, "x1", "True/Applied");
    apply(&scene.kube, "x2", "{topicName: a_b.c}");
    let second = ready(&scene.kube, "x2", "False/NameCollision");
    assert!(
        second["status"]["conditions"].to_string().contains("a.b_c"),
        "G2: {second}"
    );
    assert!(!scene.on_disk("a_b.c", 0), "G2");
    assert_eq!(
        topic(&scene.kube, "x1")["status"],
        first["status"],
        "G2: unaffected"
    );
    delete(&scene.kube, "x1");
    gone(&scene.kube, "x1");
    let second = ready(&scene.kube, "x2", "True/Applied");
    assert_eq!(second["metadata"]["generation"], 1, "G2: without an edit");
    assert!(scene.on_disk("a_b.c", 0), "G2");
}

/// G5: what the engine keeps for itself has no resource, no label and no write.
fn names_of_the_engine(scene: &Scene) {
    scene
        .engine
        .http("PUT", "/v1/topics/__state", Some(r#"{"partitions": 1}"#))
        .json(200);
    apply(&scene.kube, "ok", "{}");
    ready(&scene.kube, "ok", "True/Applied");
    scene.operator.settles(&scene.kube);
    let kinds = "topics,leases.coordination.k8s.io,events.events.k8s.io";
    let all = kubectl(&scene.kube, ["get", kinds, "-o", "json"]).run();
    assert!(!all.contains("__state"), "G5: {all}");
    let all: Value = serde_json::from_str(&all).expect("JSON");
    for object in all["items"].as_array().expect("a list") {
        assert_eq!(object["metadata"]["labels"], Value::Null, "G5: {object}");
    }
    assert!(scene.on_disk("__state", 0), "G5");
}

/// G7: a topic is not renamed; the edit is refused where it is made, and nothing of the topic changes.
fn renamed_later(scene: &Scene) {
    apply(&scene.kube, "renamed", "{topicName: before}");
    ready(&scene.kube, "renamed", "True/Applied");
    scene.fill("before", 0, 100);
    let told = scene.refused("renamed", "{topicName: after}");
    assert!(told.contains("spec.topicName is immutable"), "G7: {told}");
    scene.resyncs(1);
    assert_eq!(scene.log_end("before"), 100, "G7");
    assert!(!scene.known("after"), "G7");
    apply(&scene.kube, "renamed", "{topicName: before}");
    let healed = ready(&scene.kube, "renamed", "True/Applied");
    assert_eq!(healed["status"]["topicName"], "before", "G7");
}

/// H1: the refusal stays for as long as its reason does, with the time at which it began.
fn fewer_partitions(scene: &Scene) {
    apply(&scene.kube, "three", "{partitions: 3}");
    ready(&scene.kube, "three", "True/Applied");
    for partition in 0..3 {
        scene.fill("three", partition, 10);
    }
    // In one step the API server would refuse it.
    apply(&scene.kube, "three", "{}");
    ready(&scene.kube, "three", "True/Applied");
    apply(&scene.kube, "three", "{partitions: 2}");
    let refused = ready(&scene.kube, "three", "False/PartitionDecrease");
    for _ in 0..3 {
        scene.resyncs(1);
        let now = topic(&scene.kube, "three");
        assert_eq!(now["status"], refused["status"], "H1");
        assert_eq!(
            now["metadata"]["resourceVersion"], refused["metadata"]["resourceVersion"],
            "H1: told once"
        );
    }
    for partition in 0..3 {
        assert_eq!(scene.partition("three", partition)["logEnd"], 10, "H1");
    }
    assert!(scene.on_disk("three", 2), "H1");
    apply(&scene.kube, "three", "{partitions: 3}");
    ready(&scene.kube, "three", "True/Applied");
}

/// H4: the owner goes and the one that waited takes over, with the data; its lower limit passes the guard like any edit.
fn handed_over(scene: &Scene) {
    let spec =
        |config: &str| format!("{{topicName: orders, config: {{{config}}}, readers: {{headroom: 0}}}}");
    apply(&scene.kube, "t1", &spec(KEEPS));
    let first = ready(&scene.kube, "t1", "True/Applied");
    scene.fill("orders", 0, 500);
    scene.commit("billing", "orders", 100);
    apply(&scene.kube, "t2", &spec(LOW));
    let waits = ready(&scene.kube, "t2", "False/Conflict");
    assert!(waits["status"]["topicId"].is_null(), "H4: {waits}");
    delete(&scene.kube, "t1");
    gone(&scene.kube, "t1");
    let second = ready(&scene.kube, "t2", "False/SlowReader");
    assert_eq!(second["status"]["topicId"], first["status"]["topicId"], "H4");
    assert_eq!(
        second["status"]["plan"]["readersAtRisk"][0]["position"], 100,
        "H4"
    );
    scene.engine.pass();
    let found = scene.engine.get("/v1/topics/orders");
    assert_eq!(found["owner"]["name"], "t2", "H4");
    assert_eq!(found["partitions"][0]["logStart"], 0, "H4");
    assert_eq!(found["partitions"][0]["logEnd"], 500, "H4");
    scene.commit("billing", "orders", 500);
    ready(&scene.kube, "t2", "True/Applied");
    scene.engine.pass();
    let start = scene.partition("orders", 0)["logStart"].as_i64();
    assert!(start > Some(400), "H4: {start:?}");
}

/// H8: told, made again under a new id, and an old commit is no position in the new topic.
fn removed_behind_our_back(scene: &Scene) {
    let spec = |config: &str| format!("{{config: {{{config}}}, readers: {{headroom: 0}}}}");
    apply(&scene.kube, "removed", &spec(KEEPS));
    let before = ready(&scene.kube, "removed", "True/Applied");
    scene.fill("removed", 0, 100);
    scene.commit("billing", "removed", 100);
    scene.remove_behind_its_back("removed");
    let told = event(&scene.kube, "removed", "TopicMissing");
    let id = before["status"]["topicId"].as_str().expect("an id");
    assert!(told.contains(id), "H8: {told}");
    until("the new topic", PATIENCE, || {
        let now = topic(&scene.kube, "removed");
        condition(&now, "Ready") == "True/Applied" && now["status"]["topicId"] != before["status"]["topicId"]
    });
    assert_eq!(scene.log_end("removed"), 0, "H8");
    scene.fill("removed", 0, 100);
    apply(&scene.kube, "removed", &spec(LOW));
    let held = ready(&scene.kube, "removed", "False/ReaderUnknown");
    let risk = &held["status"]["plan"]["readersAtRisk"][0];
    assert_eq!(
        (&risk["name"], &risk["position"]),
        (&json!("billing"), &Value::Null),
        "H8"
    );
    scene.engine.pass();
    assert_eq!(scene.partition("removed", 0)["logStart"], 0, "H8");
}

/// I5: a resource without a policy leaves its data, and the next one of its name says that it found them. With `Delete` a reader
/// behind is named, with its count.
fn deleted_by_accident(scene: &Scene) {
    apply(&scene.kube, "kept", "{}");
    let before = ready(&scene.kube, "kept", "True/Applied");
    assert!(
        before["metadata"]["finalizers"].is_null(),
        "I5: nothing to wait for"
    );
    scene.fill("kept", 0, 500);
    delete(&scene.kube, "kept");
    gone(&scene.kube, "kept");
    assert!(scene.on_disk("kept", 0), "I5");
    assert_eq!(scene.log_end("kept"), 500, "I5");
    apply(&scene.kube, "kept", "{}");
    let again = ready(&scene.kube, "kept", "True/Applied");
    assert_eq!(again["status"]["topicId"], before["status"]["topicId"], "I5");
    assert_eq!(scene.log_end("kept"), 500, "I5");
    let told = event(&scene.kube, "kept", "ExistingData");
    assert!(told.contains("500 records"), "I5: {told}");

    apply(&scene.kube, "doomed", "{deletionPolicy: Delete}");
    ready(&scene.kube, "doomed", "True/Applied");
    scene.fill("doomed", 0, 500);
    scene.commit("billing", "doomed", 120);
    delete(&scene.kube, "doomed");
    ready(&scene.kube, "doomed", "False/SlowReader");
    let told = event(&scene.kube, "doomed", "DeletionHeld");
    assert!(
        told.contains("billing") && told.contains("380 records"),
        "I5: {told}"
    );
    assert_eq!(scene.log_end("doomed"), 500, "I5");
    scene.commit("billing", "doomed", 500);
    gone(&scene.kube, "doomed");
    assert!(!scene.known("doomed"), "I5");
}

/// I6: nobody waits for the end of a topic that is not there.
fn deletion_of_what_nobody_has(scene: &mut Scene) {
    apply(&scene.kube, "nowhere", "{deletionPolicy: Delete}");
    ready(&scene.kube, "nowhere", "True/Applied");
    scene.operator.stop();
    scene.remove_behind_its_back("nowhere");
    delete(&scene.kube, "nowhere");
    scene.operator.start_again();
    gone(&scene.kube, "nowhere");
    assert!(!scene.known("nowhere"), "I6: not made again on the way out");
}

/// J5: what the user wrote is what there is, also after drift was repaired; ours are the status and one finalizer.
fn the_spec_is_the_users(scene: &Scene) {
    apply(&scene.kube, "minimal", "{partitions: 1}");
    apply(&scene.kube, "bound", "{partitions: 1, deletionPolicy: Delete}");
    for (name, spec) in [
        ("minimal", json!({"partitions": 1})),
        ("bound", json!({"partitions": 1, "deletionPolicy": "Delete"})),
    ] {
        let settled = ready(&scene.kube, name, "True/Applied");
        let owner = json!({"uid": settled["metadata"]["uid"], "namespace": NAMESPACE, "name": name});
        let drift = json!({"owner": owner, "config": {"retention.ms": "5"}, "requestId": "drift",
            "deletionPolicy": settled["spec"]["deletionPolicy"].as_str().unwrap_or("Retain")});
        let path = format!("/v1/topics/{name}");
        scene
            .engine
            .http("PUT", &path, Some(&drift.to_string()))
            .json(200);
        event(&scene.kube, name, "DriftRepaired");
        until("the repair", PATIENCE, || {
            scene.engine.get(&path)["inForce"]["config"]["retention.ms"]["value"] == "604800000"
        });
        ready(&scene.kube, name, "True/Applied");
        let args = ["get", "topic", name, "-o", "json", "--show-managed-fields"];
        let topic: Value = serde_json::from_str(&kubectl(&scene.kube, args).run()).expect("JSON");
        assert_eq!(topic["spec"], spec, "J5");
        assert_eq!(topic["metadata"]["generation"], 1, "J5");
        let managed = topic["metadata"]["managedFields"].as_array().expect("a list");
        let users = |entry: &&Value| entry["manager"] == "kubectl-client-side-apply";
        assert_eq!(managed.iter().filter(users).count(), 1, "J5: {managed:?}");
        for entry in managed.iter().filter(|entry| !users(entry)) {
            let fields = &entry["fieldsV1"];
            let ours = fields
                .as_object()
                .expect("fields")
                .keys()
                .all(|field| match field.as_str() {
                    "f:status" => true,
                    "f:metadata" => {
                        let metadata = fields["f:metadata"].as_object().expect("fields");
                        metadata.keys().all(|field| field == "f:finalizers")
                    }
                    _ => false,
                });
            assert!(ours, "J5: {entry}");
        }
    }
}

/// J7: a broker's key is refused with the topic's, and what is in force stays.
fn a_key_of_the_broker(scene: &Scene) {
    apply(&scene.kube, "keyed", "{config: {retention.ms: 7d}}");
    ready(&scene.kube, "keyed", "True/Applied");
    for key in ["log.retention.ms", "log.retention.minutes"] {
        let told = scene.refused("keyed", &format!("{{config: {{{key}: 1000}}}}"));
        let words = format!("{key} is not a topic setting");
        assert!(
            told.contains(&words) && told.contains("retention.ms"),
            "J7: {told}"
        );
    }
    scene.resyncs(1);
    assert_eq!(in_force(scene, "keyed"), "604800000", "J7");
    assert_eq!(topic(&scene.kube, "keyed")["metadata"]["generation"], 1, "J7");
}

fn in_force(scene: &Scene, topic: &str) -> Value {
    scene.engine.get(&format!("/v1/topics/{topic}"))["inForce"]["config"]["retention.ms"]["value"].clone()
}

/// J10: 7 days and 70 are told apart at a glance, and to the millisecond where one looks closer. Both forms at once are one key twice,
/// of which kubectl sends the last; a manifest in a directory is refused for it.
fn one_digit_apart(scene: &Scene) {
    let values = [("week", "604800000", "7d"), ("weeks", "6048000000", "70d")];
    for (name, ms, shown) in values {
        apply(&scene.kube, name, &format!("{{config: {{retention.ms: {ms}}}}}"));
        ready(&scene.kube, name, "True/Applied");
        let row = kubectl(&scene.kube, ["get", "topics", name]).run();
        let mut lines = row.lines();
        let header: Vec<&str> = lines.next().expect("a header").split_whitespace().collect();
        assert_eq!(
            header[..4],
            ["NAME", "PARTITIONS", "RETENTION", "SIZE"],
            "J10: {row}"
        );
        let cells: Vec<&str> = lines.next().expect("a row").split_whitespace().collect();
        assert_eq!(cells[..4], [name, "1", shown, "unlimited"], "J10: {row}");
        let described = kubectl(&scene.kube, ["describe", "topic", name]).run();
        let exact = described
            .lines()
            .filter(|line| line.trim_start().ends_with(ms))
            .count();
        assert!(exact >= 2, "J10: as asked and as in force: {described}");
    }
    apply(&scene.kube, "in-days", "{config: {retention.ms: 7d}}");
    ready(&scene.kube, "in-days", "True/Applied");
    assert_eq!(in_force(scene, "in-days"), in_force(scene, "week"), "J10");
}
