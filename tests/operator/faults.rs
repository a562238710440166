//! Whatever the API server does: the end state is right, nothing is deleted that a correct run would keep, and a refused
//! write is never a blip in the status.
use std::time::Duration;

use axum::http::Method;
use serde_json::Value;

use crate::proxy::{Fault, Proxy};
use crate::running::{
    NAMESPACE, Operator, PATIENCE, apply, delete, install, kubectl, manifest, patch, ready, topic,
};
use crate::stub::Stub;
use crate::support::kube::KubeApi;
use crate::support::tidemark::request;
use crate::support::wait::{eventually, until};

/// Ended in this order: the logs of all are in the API server's folder.
pub struct Scene {
    pub operator: Operator,
    pub proxy: Proxy,
    pub stub: Stub,
    pub kube: KubeApi,
}

impl Scene {
    #[track_caller]
    pub fn start() -> Self {
        let kube = KubeApi::start();
        install(&kube);
        let stub = Stub::start();
        let rights = kube.kubeconfig_of_service_account(NAMESPACE, "tidemark");
        let mut proxy = Proxy::start(&kube, &rights);
        let kubeconfig = proxy.kubeconfig(&kube);
        let operator = Operator::start_with(&kube, &stub.control(), kubeconfig, "proxied", &[]);
        Self {
            kube,
            stub,
            proxy,
            operator,
        }
    }

    /// What a fault has left to do gets done; then every Topic is looked at once more and nothing is written at all.
    #[track_caller]
    pub fn settles(&self) {
        let Self {
            kube,
            proxy,
            stub,
            operator,
        } = self;
        let topics = || {
            let list = kube.kubectl(["get", "topics", "-A", "-o", "name"]).run();
            u32::try_from(list.lines().count()).expect("a handful")
        };
        eventually("a round of every Topic without a write", PATIENCE, || {
            let (before, rounds) = (proxy.writes().len(), operator.rounds());
            stub.tell("TopicChanged", "");
            until("a round for each", PATIENCE, || {
                operator.rounds() >= rounds + f64::from(topics())
            });
            let after = proxy.writes();
            let since = after.get(before..).unwrap_or_default();
            since.is_empty().then_some(()).ok_or_else(|| since.join("\n"))
        });
    }

    /// Topics in the engine, and every deletion that it was asked for.
    pub fn stored(&self) -> (Vec<String>, Vec<String>) {
        let engine = self.stub.engine();
        let deletions = engine
            .changes
            .iter()
            .filter(|change| change.starts_with("DELETE"));
        (
            engine.topics.keys().cloned().collect(),
            deletions.cloned().collect(),
        )
    }
}

#[test]
fn the_api_server_fails_in_every_way() {
    let mut scene = Scene::start();
    conflicts_are_no_blip(&scene);
    scene.settles();
    statuses_fail(&scene);
    scene.settles();
    watches_end(&scene);
    scene.settles();
    lists_fail_and_nothing_is_deleted(&mut scene);
    scene.settles();
    finalizers_of_others(&scene);
    scene.settles();
    a_cache_behind_our_own_writes(&scene);
    scene.settles();
    finalizers_applied_away(&scene);
    scene.settles();
    the_server_is_away(&mut scene);
    scene.settles();
    compaction(&mut scene);
    scene.settles();
    let (topics, deletions) = scene.stored();
    assert_eq!(topics, ["anew", "lagging", "orders", "precious", "unfought"]);
    assert_eq!(
        deletions,
        ["DELETE shared Some(Delete)", "DELETE raced Some(Delete)"]
    );
}

/// H14: 409 on the first two status writes and a label changed in between: the status is never anything but right.
fn conflicts_are_no_blip(scene: &Scene) {
    let Scene {
        kube, stub, proxy, ..
    } = scene;
    apply(kube, "orders", "{config: {retention.ms: 7d}}");
    ready(kube, "orders", "True/Applied");
    let watch = [
        "get",
        "topic",
        "orders",
        "--watch",
        "--output-watch-events",
        "-o",
        "json",
    ];
    let watcher = kubectl(kube, watch).spawn(kube.home());
    let changes = stub.engine().changes.len();
    proxy.fail(Method::PATCH, "/orders/status", Fault::Answer(409, None), 2);
    apply(kube, "orders", "{config: {retention.ms: 8d}}");
    kubectl(kube, ["label", "topic", "orders", "team=shop"]).run();
    let topic = ready(kube, "orders", "True/Applied");
    assert_eq!(topic["metadata"]["labels"]["team"], "shop");
    assert_eq!(topic["status"]["retention"], "8d");
    assert_eq!(stub.engine().changes.len(), changes + 1, "applied once");
    drop(watcher);
    let seen = std::fs::read_to_string(kube.home().join("kubectl.log")).expect("a log");
    assert!(
        !seen.contains("\"reason\": \"EngineUnreachable\"") && !seen.contains("\"status\": \"False\""),
        "{seen}"
    );
    proxy.heal();
}

fn statuses_fail(scene: &Scene) {
    let Scene { kube, proxy, .. } = scene;
    for (fault, times) in [
        (Fault::Answer(500, None), 3),
        (Fault::Answer(429, Some(1)), 2),
        (Fault::Answer(403, None), 2),
        (Fault::Answer(404, None), 0),
    ] {
        let days = 10 + times;
        proxy.fail(Method::PATCH, "/orders/status", fault.clone(), times);
        apply(kube, "orders", &format!("{{config: {{retention.ms: {days}d}}}}"));
        let topic = ready(kube, "orders", "True/Applied");
        assert_eq!(topic["status"]["retention"], format!("{days}d"), "{fault:?}");
    }
    // Events may fail as they like: nothing depends on them.
    proxy.fail(Method::POST, "/events", Fault::Answer(403, None), 100);
    apply(kube, "orders", "{config: {retention.ms: 20d}}");
    ready(kube, "orders", "True/Applied");
    proxy.heal();
}

/// H16: whatever ends a watch, and wherever, an edit after it is seen; where versions have grown too old, it is listed anew and counted.
fn watches_end(scene: &Scene) {
    let Scene {
        kube,
        proxy,
        operator,
        ..
    } = scene;
    let pid = operator.pid();
    let after = [0, 1, 100, 1_000, 3_000, 10_000].map(|bytes| (Some(bytes), "cut after some bytes"));
    let at_once = ["cut", "broken off", "expired", "expired and the list fails"].map(|what| (None, what));
    for (round, (bytes, what)) in at_once.into_iter().chain(after).enumerate() {
        let (lists, relists) = (proxy.lists(), operator.metric("tidemark_operator_relists_total"));
        match (what, bytes) {
            (_, Some(bytes)) => proxy.cut_after(bytes),
            ("cut", _) => proxy.cut(),
            ("broken off", _) => proxy.break_off(),
            ("expired", _) => proxy.expire(),
            _ => {
                proxy.fail(Method::GET, "/topics?", Fault::Answer(429, Some(1)), 1);
                proxy.fail(Method::GET, "/topics?", Fault::Answer(500, None), 2);
                proxy.expire();
            }
        }
        apply(
            kube,
            "orders",
            &format!("{{config: {{retention.ms: {}h}}}}", 100 + round),
        );
        let topic = ready(kube, "orders", "True/Applied");
        assert_eq!(
            topic["spec"]["config"]["retention.ms"],
            format!("{}h", 100 + round),
            "{what}"
        );
        if what.starts_with("expired") {
            assert!(proxy.lists() > lists, "{what}: listed anew");
            let counted = operator.metric("tidemark_operator_relists_total");
            assert!(counted >= relists + 1.0, "{what}: {counted} re-lists");
        }
    }
    assert_eq!(proxy.faults_left(), 0, "every list that was to fail has failed");
    assert_eq!(operator.pid(), pid, "H16: the same process");
    proxy.heal();
}

/// H7: an operator that cannot list, from its start or later, or lists nothing, deletes nothing. The same with data: `cases.rs`.
fn lists_fail_and_nothing_is_deleted(scene: &mut Scene) {
    let Scene {
        kube,
        stub,
        proxy,
        operator,
    } = scene;
    apply(kube, "precious", "{deletionPolicy: Delete}");
    ready(kube, "precious", "True/Applied");
    let before: Vec<String> = stub.engine().topics.keys().cloned().collect();
    let changes = stub.engine().changes.len();
    for code in [403, 500] {
        proxy.fail(Method::GET, "/topics?", Fault::Answer(code, None), 3);
        until("the failed lists", PATIENCE, || {
            // A watch that is not there yet cannot expire.
            proxy.expire();
            proxy.faults_left() == 0
        });
        operator.kill();
        proxy.fail(Method::GET, "/topics?", Fault::Answer(code, None), 3);
        operator.start_again();
        until("the failed lists of the start", PATIENCE, || {
            proxy.faults_left() == 0
        });
    }
    // A second operator whose selector fits nothing works on an empty list.
    // The Role of `deploy/` knows one lease.
    let rights = kube.kubeconfig().to_owned();
    let flags = ["--lease", "blind", "--selector", "no=such"];
    let mut other = Operator::start_with(kube, &stub.control(), rights, "blind", &flags);
    until("the empty list", PATIENCE, || {
        other.metric("tidemark_operator_leader") >= 1.0
            && other.metric("tidemark_operator_relists_total") >= 1.0
    });
    until("the first to lead again", PATIENCE, || {
        operator.metric("tidemark_operator_leader") >= 1.0
    });
    other.stop();
    assert_eq!(stub.engine().topics.keys().cloned().collect::<Vec<_>>(), before);
    assert_eq!(stub.engine().changes.len(), changes);
    proxy.heal();
}

/// H19: the list of finalizers changes between our look and our patch. Finalizers of others stay, ours is there exactly once, and
/// goes alone.
fn finalizers_of_others(scene: &Scene) {
    let Scene { kube, proxy, .. } = scene;
    let (ours, others) = ("tidemark.dev/topic-data", "example.com/other");
    let cases = [
        // Another controller is between.
        ("shared", vec![others], vec![others, ours]),
        // Another round of ours is, and a controller behind it.
        ("raced", vec![ours, others], vec![ours, others]),
    ];
    for (name, meanwhile, after) in cases {
        let hits = proxy.hits();
        proxy.fail(Method::PATCH, &format!("/topics/{name}"), Fault::Hold, 1);
        apply(kube, name, "{deletionPolicy: Delete}");
        until("our patch", PATIENCE, || proxy.hits() > hits);
        let listed = serde_json::json!({"metadata": {"finalizers": meanwhile}});
        patch(kube, name, &listed.to_string());
        proxy.heal();
        let topic = ready(kube, name, "True/Applied");
        assert_eq!(topic["metadata"]["finalizers"], serde_json::json!(after), "H19");
        delete(kube, name);
        until("ours to go", PATIENCE, || {
            let topic = topic_or_null(kube, name);
            topic["metadata"]["finalizers"] == serde_json::json!([others])
        });
        patch(kube, name, r#"{"metadata":{"finalizers":null}}"#);
    }
}

/// While the watch tells nothing, every round sees a Topic as it was before the operator's own writes.
fn a_cache_behind_our_own_writes(scene: &Scene) {
    let Scene {
        kube,
        stub,
        proxy,
        operator,
    } = scene;
    // A round of a Topic that only the cache knows, woken by the engine.
    let rounds = |name: &str, count: u32| {
        let before = operator.rounds();
        for _ in 0..count {
            let rounds = operator.rounds();
            stub.tell("TopicChanged", name);
            until("a round", PATIENCE, || operator.rounds() > rounds);
        }
        assert!(operator.rounds() >= before + f64::from(count));
    };
    apply(kube, "lagging", "{config: {retention.ms: 7d}}");
    apply(kube, "anew", "{config: {retention.ms: 7d}}");
    ready(kube, "lagging", "True/Applied");
    let before = ready(kube, "anew", "True/Applied");
    scene.settles();

    // Its status: told once, however often it is looked at.
    proxy.freeze();
    let written = proxy.writes().len();
    stub.engine().topics.get_mut("lagging").expect("a topic")["health"] =
        serde_json::json!({"reason": "DiskFull", "message": "full"});
    rounds("lagging", 3);
    let since = |written: usize| proxy.writes().split_off(written);
    let status = |write: &&String| write.contains("/topics/lagging/status");
    assert_eq!(
        since(written).iter().filter(status).count(),
        1,
        "{:?}",
        since(written)
    );
    stub.engine().topics.get_mut("lagging").expect("a topic")["health"] =
        serde_json::json!({"reason": "Healthy", "message": ""});
    rounds("lagging", 3);
    assert_eq!(
        since(written).iter().filter(status).count(),
        2,
        "{:?}",
        since(written)
    );
    ready(kube, "lagging", "True/Applied");
    proxy.thaw();
    scene.settles();

    // A resource that was deleted and made again under its name: the round of the old one changes nothing of the new.
    proxy.freeze();
    kubectl(kube, ["delete", "topic", "anew"]).run();
    apply(
        kube,
        "anew",
        "{config: {retention.ms: 8d}, deletionPolicy: Delete}",
    );
    let fresh = topic(kube, "anew");
    stub.engine().topics.get_mut("anew").expect("a topic")["health"] =
        serde_json::json!({"reason": "DiskFull", "message": "full"});
    rounds("anew", 2);
    assert_eq!(
        topic(kube, "anew"),
        fresh,
        "a status of the old one was written over the new"
    );
    stub.engine().topics.get_mut("anew").expect("a topic")["health"] =
        serde_json::json!({"reason": "Healthy", "message": ""});
    assert_eq!(stub.value("anew", "retention.ms"), "604800000");
    // The finalizer: put on once, and the Topic goes on without the watch's word for it.
    let written = proxy.writes().len();
    proxy.thaw();
    let topic = ready(kube, "anew", "True/Applied");
    assert_eq!(
        topic["status"]["topicId"], before["status"]["topicId"],
        "the data stays what it is"
    );
    assert_eq!(proxy.patches("anew"), 1, "{:?}", since(written));
}

/// J14: a manifest that says `finalizers: []` is not fought with: at most one finalizer for each generation.
fn finalizers_applied_away(scene: &Scene) {
    let Scene { kube, proxy, .. } = scene;
    let text = |days: u32| {
        manifest(
            "unfought",
            &format!("{{deletionPolicy: Delete, config: {{retention.ms: {days}d}}}}"),
        )
        .replace(
            "metadata: {name: unfought,",
            "metadata: {finalizers: [], name: unfought,",
        )
    };
    let finalizers = || topic(kube, "unfought")["metadata"]["finalizers"].clone();
    let patches = || proxy.patches("unfought");
    kube.apply(&text(7));
    ready(kube, "unfought", "True/Applied");
    assert_eq!(finalizers(), serde_json::json!(["tidemark.dev/topic-data"]));
    for (generation, days) in [(1, 7), (2, 8)] {
        assert_eq!(patches(), generation);
        // The same manifest again, by an owner of the list who takes it by force.
        for _ in 0..2 {
            let apply = [
                "apply",
                "--server-side",
                "--force-conflicts",
                "--field-manager=gitops",
                "-f",
                "-",
            ];
            kubectl(kube, apply).run_with(text(days).as_bytes());
            patch(kube, "unfought", r#"{"metadata":{"finalizers":[]}}"#);
            scene.settles();
            assert_eq!(finalizers(), Value::Null, "taken off is taken off");
            assert_eq!(patches(), generation);
        }
        if generation == 1 {
            patch(kube, "unfought", r#"{"spec":{"config":{"retention.ms":"8d"}}}"#);
            ready(kube, "unfought", "True/Applied");
        }
    }
}

fn topic_or_null(kube: &KubeApi, name: &str) -> Value {
    let output = kubectl(kube, ["get", "topic", name, "-o", "json"]).output();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn the_server_is_away(scene: &mut Scene) {
    scene.kube.stop_api();
    // What the engine tells meanwhile is not lost: every Topic is looked at after the connection is back.
    scene.stub.engine().topics.get_mut("orders").expect("a topic")["inForce"]["config"]["retention.ms"]["value"] =
        "7".into();
    scene.stub.tell("TopicChanged", "orders");
    // A full minute: longer than the lease lasts, and than any watch or connection is waited for.
    let since = std::time::Instant::now();
    until("the lease to be given up", PATIENCE, || {
        scene.operator.metric("tidemark_operator_leader") < 1.0
    });
    std::thread::sleep(Duration::from_secs(60).saturating_sub(since.elapsed()));
    assert_eq!(
        scene.operator.get("/healthz").status,
        200,
        "nothing that a restart would mend"
    );
    scene.kube.start_api();
    apply(&scene.kube, "orders", "{config: {retention.ms: 30d}}");
    ready(&scene.kube, "orders", "True/Applied");
    assert_eq!(scene.stub.value("orders", "retention.ms"), "2592000000");
    let leads = || scene.operator.metric("tidemark_operator_leader") >= 1.0;
    until("the lease to be held again", PATIENCE, leads);
}

/// etcd forgets the versions that the operator knows, and so does an API server that starts anew: it has to be listed again.
fn compaction(scene: &mut Scene) {
    let Scene {
        kube,
        proxy,
        operator,
        ..
    } = scene;
    // It watches again, so that the lists counted from here on are those that the compaction is the reason of.
    apply(kube, "orders", "{config: {retention.ms: 29d}}");
    ready(kube, "orders", "True/Applied");
    let relists = operator.metric("tidemark_operator_relists_total");
    proxy.freeze();
    for number in 0..5 {
        let label = format!("round={number}");
        kubectl(kube, ["label", "topic", "orders", &label, "--overwrite"]).run();
    }
    let version = topic(kube, "orders")["metadata"]["resourceVersion"].clone();
    let version = version.as_str().expect("a version");
    let address = kube.etcd_url().replace("http://", "");
    let body = format!("{{\"revision\": {version}, \"physical\": true}}");
    let reply = request(&address, "POST", "/v3/kv/compaction", None, Some(&body)).expect("etcd answers");
    assert_eq!(reply.status, 200, "{}", reply.body);
    kube.stop_api();
    kube.start_api();
    proxy.cut();
    proxy.thaw();
    apply(kube, "orders", "{config: {retention.ms: 31d}}");
    let topic = ready(kube, "orders", "True/Applied");
    assert_eq!(topic["status"]["retention"], "31d");
    assert!(
        operator.metric("tidemark_operator_relists_total") > relists,
        "listed anew"
    );
}
