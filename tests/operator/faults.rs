//! Whatever the API server, the engine or the operator's own end does: the end state is right, nothing is deleted that a
//! correct run would keep, and a refused write is never a blip in the status.
use std::time::Duration;

use axum::http::Method;
use serde_json::Value;

use crate::proxy::{Fault, Proxy};
use crate::running::{NAMESPACE, Operator, PATIENCE, apply, condition, install, manifest, ready, topic};
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
    lists_fail_and_nothing_is_deleted(&scene);
    scene.settles();
    finalizers_of_others(&scene);
    scene.settles();
    a_cache_behind_our_own_writes(&scene);
    scene.settles();
    finalizers_applied_away(&scene);
    scene.settles();
    the_server_is_away(&mut scene);
    scene.settles();
    compaction(&scene);
    scene.settles();
    let (topics, deletions) = scene.stored();
    assert_eq!(topics, ["anew", "lagging", "orders", "precious", "unfought"]);
    assert_eq!(deletions, ["DELETE shared Some(Delete)"]);
}

/// 409 on the first two status writes and a label changed in between: the status is never anything but right.
fn conflicts_are_no_blip(scene: &Scene) {
    let Scene {
        kube, stub, proxy, ..
    } = scene;
    apply(kube, "orders", "{config: {retention.ms: 7d}}");
    ready(kube, "orders", "True/Applied");
    let watch = kube.kubectl([
        "get",
        "topic",
        "-n",
        NAMESPACE,
        "orders",
        "--watch",
        "--output-watch-events",
        "-o",
        "json",
    ]);
    let watcher = watch.spawn(kube.home());
    let changes = stub.engine().changes.len();
    proxy.fail(Method::PATCH, "/orders/status", Fault::Answer(409, None), 2);
    apply(kube, "orders", "{config: {retention.ms: 8d}}");
    kube.kubectl(["label", "topic", "-n", NAMESPACE, "orders", "team=shop"])
        .run();
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

fn watches_end(scene: &Scene) {
    let Scene {
        kube,
        proxy,
        operator,
        ..
    } = scene;
    for (round, what) in ["cut", "expired", "expired and the list fails"]
        .into_iter()
        .enumerate()
    {
        let lists = proxy.lists();
        match what {
            "cut" => proxy.cut(),
            "expired" => proxy.expire(),
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
        if what != "cut" {
            assert!(proxy.lists() > lists, "{what}: listed anew");
        }
    }
    assert!(operator.metric("tidemark_operator_relists_total") >= 3.0);
    proxy.heal();
}

/// An operator that starts and cannot list, or lists nothing, deletes nothing.
fn lists_fail_and_nothing_is_deleted(scene: &Scene) {
    let Scene {
        kube, stub, proxy, ..
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
    }
    // A second operator whose selector fits nothing sees an empty list.
    let rights = kube.kubeconfig_of_service_account(NAMESPACE, "tidemark");
    let flags = ["--lease", "tidemark", "--selector", "no=such"];
    let mut other = Operator::start_with(kube, &stub.control(), rights, "blind", &flags);
    other.stop();
    assert_eq!(stub.engine().topics.keys().cloned().collect::<Vec<_>>(), before);
    assert_eq!(stub.engine().changes.len(), changes);
    proxy.heal();
}

/// Finalizers of others stay, ours is there exactly once, and goes alone.
fn finalizers_of_others(scene: &Scene) {
    let Scene { kube, proxy, .. } = scene;
    let others = "metadata: {name: shared, namespace: tidemark, finalizers: [example.com/other]}";
    let text = manifest("shared", "{deletionPolicy: Delete}")
        .replace("metadata: {name: shared, namespace: tidemark}", others);
    // The first attempts meet a list that has changed meanwhile.
    proxy.fail(Method::PATCH, "/topics/shared", Fault::Answer(422, None), 2);
    kube.apply(&text);
    let topic = ready(kube, "shared", "True/Applied");
    let listed = topic["metadata"]["finalizers"]
        .as_array()
        .expect("a list")
        .clone();
    assert_eq!(listed, ["example.com/other", "tidemark.dev/topic-data"]);
    kube.kubectl(["delete", "topic", "-n", NAMESPACE, "shared", "--wait=false"])
        .run();
    until("ours to go", PATIENCE, || {
        let topic = topic_or_null(kube, "shared");
        topic["metadata"]["finalizers"] == serde_json::json!(["example.com/other"])
    });
    kube.kubectl([
        "patch",
        "topic",
        "-n",
        NAMESPACE,
        "shared",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ])
    .run();
    proxy.heal();
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
    kube.kubectl(["delete", "topic", "-n", NAMESPACE, "anew"]).run();
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

/// A manifest that says `finalizers: []` is not fought with: at most one finalizer for each generation.
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
            kube.kubectl([
                "apply",
                "--server-side",
                "--force-conflicts",
                "--field-manager=gitops",
                "-f",
                "-",
            ])
            .run_with(text(days).as_bytes());
            kube.kubectl([
                "patch",
                "topic",
                "-n",
                NAMESPACE,
                "unfought",
                "--type=merge",
                "-p",
                r#"{"metadata":{"finalizers":[]}}"#,
            ])
            .run();
            scene.settles();
            assert_eq!(finalizers(), Value::Null, "taken off is taken off");
            assert_eq!(patches(), generation);
        }
        if generation == 1 {
            kube.kubectl([
                "patch",
                "topic",
                "-n",
                NAMESPACE,
                "unfought",
                "--type=merge",
                "-p",
                r#"{"spec":{"config":{"retention.ms":"8d"}}}"#,
            ])
            .run();
            ready(kube, "unfought", "True/Applied");
        }
    }
}

fn topic_or_null(kube: &KubeApi, name: &str) -> Value {
    let output = kube
        .kubectl(["get", "topic", "-n", NAMESPACE, name, "-o", "json"])
        .output();
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

/// etcd forgets old versions; a watch that was cut must list anew.
fn compaction(scene: &Scene) {
    let Scene { kube, proxy, .. } = scene;
    let version: i64 = topic(kube, "orders")["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a version");
    for number in 0..5 {
        kube.kubectl([
            "label",
            "topic",
            "-n",
            NAMESPACE,
            "orders",
            &format!("round={number}"),
            "--overwrite",
        ])
        .run();
    }
    let address = kube.etcd_url().replace("http://", "");
    let body = format!("{{\"revision\": {}, \"physical\": true}}", version + 3);
    let reply = request(&address, "POST", "/v3/kv/compaction", None, Some(&body)).expect("etcd answers");
    assert_eq!(reply.status, 200, "{}", reply.body);
    proxy.cut();
    apply(kube, "orders", "{config: {retention.ms: 31d}}");
    let topic = ready(kube, "orders", "True/Applied");
    assert_eq!(topic["status"]["retention"], "31d");
}

#[test]
fn the_engine_and_the_operator_fail_in_every_way() {
    let mut scene = Scene::start();
    replies_are_lost(&scene);
    scene.settles();
    the_engine_is_away(&scene);
    scene.settles();
    killed_at_every_request(&mut scene);
    scene.settles();
    two_operators(&mut scene);
    let (topics, deletions) = scene.stored();
    assert_eq!(
        topics,
        ["away", "led", "lost", "step1", "step2", "step3", "step4", "step5"]
    );
    assert_eq!(deletions, ["DELETE step0 Some(Delete)"]);
    the_kind_comes_later();
}

fn replies_are_lost(scene: &Scene) {
    let Scene { kube, stub, .. } = scene;
    stub.engine().lose_replies = 2;
    apply(kube, "lost", "{partitions: 2, config: {retention.ms: 7d}}");
    let topic = ready(kube, "lost", "True/Applied");
    assert_eq!(topic["status"]["partitions"], 2);
    let asked = stub
        .engine()
        .changes
        .iter()
        .filter(|change| *change == "PUT lost")
        .count();
    assert!(asked <= 2, "looked before it asked again: {asked}");
}

/// Within a minute the status says so, the last known facts stay, the generation is not seen, and it heals by itself.
fn the_engine_is_away(scene: &Scene) {
    let Scene { kube, stub, .. } = scene;
    apply(kube, "away", "{config: {retention.ms: 7d}}");
    let before = ready(kube, "away", "True/Applied");
    stub.engine().away = true;
    apply(kube, "away", "{config: {retention.ms: 1d}}");
    let topic = ready(kube, "away", "Unknown/EngineUnreachable");
    assert_eq!(
        topic["status"]["observedGeneration"],
        before["metadata"]["generation"]
    );
    assert_eq!(topic["status"]["retention"], "7d");
    assert_eq!(condition(&topic, "StorageHealthy"), "Unknown/EngineUnreachable");
    stub.engine().away = false;
    ready(kube, "away", "True/Applied");
    assert_eq!(stub.value("away", "retention.ms"), "86400000");
}

/// kill -9 before and after each request that a round makes; the next process ends what was begun.
fn killed_at_every_request(scene: &mut Scene) {
    let steps = [
        (Method::PATCH, "/topics/step", Fault::Hang),
        (Method::PATCH, "/topics/step", Fault::LoseAnswer),
        (Method::PATCH, "/status", Fault::Hang),
        (Method::PATCH, "/status", Fault::LoseAnswer),
        (Method::POST, "/events", Fault::Hang),
        (Method::POST, "/events", Fault::LoseAnswer),
    ];
    for (number, (method, part, fault)) in steps.into_iter().enumerate() {
        let name = format!("step{number}");
        let hits = scene.proxy.hits();
        scene.proxy.fail(method, part, fault.clone(), 1);
        apply(
            &scene.kube,
            &name,
            "{partitions: 2, config: {retention.ms: 3d}, deletionPolicy: Delete}",
        );
        until(&format!("step {number}"), PATIENCE, || scene.proxy.hits() > hits);
        scene.operator.kill();
        scene.proxy.heal();
        scene.operator.start_again();
        let topic = ready(&scene.kube, &name, "True/Applied");
        assert_eq!(
            topic["metadata"]["finalizers"],
            serde_json::json!(["tidemark.dev/topic-data"]),
            "{fault:?}"
        );
        assert_eq!(scene.stub.value(&name, "retention.ms"), "259200000");
        assert_eq!(topic["metadata"]["generation"], 1);
    }
    // The same around a deletion: between the topic's end and the finalizer's.
    let hits = scene.proxy.hits();
    scene.proxy.fail(Method::PATCH, "/topics/step0", Fault::Hang, 1);
    scene
        .kube
        .kubectl(["delete", "topic", "-n", NAMESPACE, "step0", "--wait=false"])
        .run();
    until("the finalizer's patch", PATIENCE, || scene.proxy.hits() > hits);
    assert!(!scene.stub.engine().topics.contains_key("step0"));
    scene.operator.kill();
    scene.proxy.heal();
    scene.operator.start_again();
    crate::running::gone(&scene.kube, "step0");
    assert!(
        !scene.stub.engine().topics.contains_key("step0"),
        "not made again on the way out"
    );
}

/// Two operators never drive one engine: the second stands by, and takes over when the first is gone.
fn two_operators(scene: &mut Scene) {
    let rights = scene.kube.kubeconfig_of_service_account(NAMESPACE, "tidemark");
    let leads = |operator: &Operator| operator.metric("tidemark_operator_leader") >= 1.0;
    until("the first to lead", PATIENCE, || leads(&scene.operator));
    let mut second = Operator::start_with(&scene.kube, &scene.stub.control(), rights, "second", &[]);
    apply(&scene.kube, "led", "{config: {retention.ms: 7d}}");
    ready(&scene.kube, "led", "True/Applied");
    assert!(!leads(&second) && second.rounds() < 1.0, "the second stands by");
    // A clean stop gives the lease back: the second need not wait for its end.
    scene.operator.stop();
    let holder = [
        "get",
        "lease",
        "-n",
        NAMESPACE,
        "tidemark",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ];
    assert_ne!(scene.kube.kubectl(holder).run(), "proxied", "given back");
    until("the second to lead", PATIENCE, || leads(&second));
    apply(&scene.kube, "led", "{config: {retention.ms: 8d}}");
    ready(&scene.kube, "led", "True/Applied");
    // A killed one leaves it to run out.
    scene.operator.start_again();
    assert!(!leads(&scene.operator));
    second.kill();
    until("the first to lead again", PATIENCE, || leads(&scene.operator));
    apply(&scene.kube, "led", "{config: {retention.ms: 9d}}");
    ready(&scene.kube, "led", "True/Applied");
    assert_eq!(scene.stub.value("led", "retention.ms"), "777600000");
}

/// The operator may be there before the CRD.
fn the_kind_comes_later() {
    let kube = KubeApi::start();
    let stub = Stub::start();
    kube.kubectl(["create", "namespace", NAMESPACE]).run();
    let file = crate::support::peers::source("deploy/rbac.yaml")
        .display()
        .to_string();
    kube.kubectl(["apply", "-n", NAMESPACE, "-f", &file]).run();
    let rights = kube.kubeconfig_of_service_account(NAMESPACE, "tidemark");
    let operator = Operator::start_unready(&kube, &stub.control(), rights, "early");
    until("the lease", PATIENCE, || {
        operator.metric("tidemark_operator_leader") >= 1.0
    });
    install(&kube);
    apply(&kube, "orders", "{config: {retention.ms: 7d}}");
    let before = ready(&kube, "orders", "True/Applied");
    // The kind goes, and every Topic with it; what they said about their data holds.
    kube.kubectl(["delete", "crd", "topics.tidemark.dev"]).run();
    install(&kube);
    apply(&kube, "orders", "{config: {retention.ms: 8d}}");
    let topic = ready(&kube, "orders", "True/Applied");
    assert_eq!(topic["status"]["topicId"], before["status"]["topicId"]);
    assert_eq!(topic["status"]["retention"], "8d");
    let engine = stub.engine();
    assert!(
        engine.changes.iter().all(|change| !change.starts_with("DELETE")),
        "{:?}",
        engine.changes
    );
}
