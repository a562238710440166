//! The engine is away or loses its answers, the operator is killed or has a second beside it, the kind comes later and goes.
use axum::http::Method;

use crate::faults::Scene;
use crate::proxy::Fault;
use crate::running::{NAMESPACE, Operator, PATIENCE, apply, condition, delete, install, ready};
use crate::stub::Stub;
use crate::support::kube::KubeApi;
use crate::support::wait::until;

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
    scene.settles();
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
    delete(&scene.kube, "step0");
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
    operator.settles(&kube);
    // The kind goes, and every Topic with it; what they said about their data holds.
    kube.kubectl(["delete", "crd", "topics.tidemark.dev"]).run();
    install(&kube);
    apply(&kube, "orders", "{config: {retention.ms: 8d}}");
    let topic = ready(&kube, "orders", "True/Applied");
    assert_eq!(topic["status"]["topicId"], before["status"]["topicId"]);
    assert_eq!(topic["status"]["retention"], "8d");
    operator.settles(&kube);
    let engine = stub.engine();
    assert!(
        engine.changes.iter().all(|change| !change.starts_with("DELETE")),
        "{:?}",
        engine.changes
    );
}
