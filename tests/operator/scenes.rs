//! What a person with kubectl sees: the life of a Topic.
use crate::running::{
    NAMESPACE, Operator, PATIENCE, apply, condition, delete, event, events, gone, install, kubectl, manifest,
    patch, ready, topic,
};
use crate::stub::Stub;
use crate::support::kube::KubeApi;
use crate::support::wait::{eventually, until};

/// One API server for the scenes that need no restart of it: each has Topics of its own.
#[test]
fn the_life_of_a_topic() {
    let kube = KubeApi::start();
    install(&kube);
    let stub = Stub::start();
    let operator = Operator::start(&kube, &stub.control());

    refusal_and_resumption(&kube, &stub);
    revert_second_lowering_and_allow(&kube, &stub);
    paused(&kube, &stub);
    forms_are_kept(&kube, &stub);
    edits_without_effect(&kube, &stub);
    conflict_and_hand_over(&kube, &stub);
    collision(&kube, &stub);
    deletion(&kube, &stub);
    partitions_and_names(&kube, &stub);
    drift_and_missing(&kube, &stub);
    lies(&kube, &stub);
    settled_is_silent(&kube, &stub, &operator);
    wait_and_diff(&kube);
    examples(&kube);
    more_namespaces_by_label(&kube, &stub);
}

fn refusal_and_resumption(kube: &KubeApi, stub: &Stub) {
    apply(
        kube,
        "orders",
        "{topicName: Orders.v1, partitions: 3, config: {retention.ms: 7d, retention.bytes: 2Gi}}",
    );
    let topic = ready(kube, "orders", "True/Applied");
    assert_eq!(topic["status"]["topicName"], "Orders.v1");
    assert_eq!(topic["status"]["partitions"], 3);
    assert_eq!(stub.value("Orders.v1", "retention.ms"), "604800000");
    let columns = kubectl(kube, ["get", "tpc", "orders"]).run();
    let cells: Vec<&str> = columns
        .lines()
        .nth(1)
        .expect("a row")
        .split_whitespace()
        .collect();
    assert_eq!(
        cells[..6],
        ["orders", "3", "7d", "2Gi", "True", "Applied"],
        "{columns}"
    );

    columns_are_those_of_the_status_command(kube);

    stub.engine().reader_at = Some(40);
    apply(
        kube,
        "orders",
        "{topicName: Orders.v1, partitions: 3, config: {retention.ms: 1d, retention.bytes: 2Gi}}",
    );
    let topic = ready(kube, "orders", "False/SlowReader");
    assert_eq!(condition(&topic, "Stalled"), "True/SlowReader");
    assert_eq!(condition(&topic, "Reconciling"), "absent");
    let plan = &topic["status"]["plan"];
    assert_eq!(plan["readersAtRisk"][0]["name"], "billing", "{plan}");
    assert_eq!(plan["readersAtRisk"][0]["position"], 40);
    assert_eq!(plan["readersAtRisk"][0]["recordsAtRisk"], 60);
    assert_eq!(plan["changes"][0]["to"], "86400000");
    assert_eq!(stub.value("Orders.v1", "retention.ms"), "604800000");
    let wait = ["wait", "topic/orders", "--for=condition=Ready", "--timeout=1s"];
    let fails = kubectl(kube, wait).output();
    assert!(!fails.status.success());

    stub.catch_up();
    let topic = ready(kube, "orders", "True/Applied");
    assert_eq!(condition(&topic, "Stalled"), "absent");
    assert!(topic["status"]["plan"].is_null());
    assert_eq!(topic["status"]["retention"], "1d");
    until("the events", PATIENCE, || {
        events(kube, "orders") == ["Applied", "Refused", "Resumed"]
    });
}

/// What `tidemark status` shows has the headers of `kubectl`, ages aside, in the same order.
fn columns_are_those_of_the_status_command(kube: &KubeApi) {
    for (format, wide) in [("", false), ("wide", true)] {
        let table = kubectl(kube, ["get", "topics", "orders", "--output", format]).run();
        let header = table.lines().next().expect("a header").to_owned();
        let ours = tidemark::resource::columns::printed().into_iter();
        let ours = ours.filter(|column| wide || !column.wide);
        let ours: Vec<String> = ours.map(|column| column.name.to_uppercase()).collect();
        let shown: Vec<&str> = header
            .split("  ")
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .collect();
        let shown: Vec<&str> = shown
            .into_iter()
            .filter(|name| !["NAME", "AGE"].contains(name))
            .collect();
        assert_eq!(shown, ours, "{table}");
    }
}

fn revert_second_lowering_and_allow(kube: &KubeApi, stub: &Stub) {
    apply(kube, "clicks", "{config: {retention.ms: 7d}}");
    ready(kube, "clicks", "True/Applied");
    stub.engine().reader_at = Some(40);
    for (spec, state) in [
        ("1d", "False/SlowReader"),
        ("2d", "False/SlowReader"),
        ("7d", "True/Applied"),
    ] {
        apply(kube, "clicks", &format!("{{config: {{retention.ms: {spec}}}}}"));
        ready(kube, "clicks", state);
    }
    assert!(
        stub.engine().topics["clicks"]["pending"].is_null(),
        "a revert clears what waits"
    );
    apply(
        kube,
        "clicks",
        "{config: {retention.ms: 1h}, readers: {onLoss: Allow}}",
    );
    ready(kube, "clicks", "True/Applied");
    assert_eq!(stub.value("clicks", "retention.ms"), "3600000");
    stub.engine().reader_at = None;
}

fn paused(kube: &KubeApi, stub: &Stub) {
    apply(kube, "paused", "{config: {retention.ms: 7d}}");
    ready(kube, "paused", "True/Applied");
    crate::running::pause(kube, "paused", true);
    apply(kube, "paused", "{config: {retention.ms: 1d}}");
    let topic = ready(kube, "paused", "False/Paused");
    assert_eq!(condition(&topic, "Paused"), "True/Paused");
    assert_eq!(stub.value("paused", "retention.ms"), "604800000");
    crate::running::pause(kube, "paused", false);
    let topic = ready(kube, "paused", "True/Applied");
    assert_eq!(condition(&topic, "Paused"), "absent");
    assert_eq!(stub.value("paused", "retention.ms"), "86400000");
}

/// J2 and J5: what the user wrote stays as it is written, and the operator owns nothing of the spec.
fn forms_are_kept(kube: &KubeApi, stub: &Stub) {
    for (name, form) in [("integer", "86400000"), ("string", "'86400000'"), ("unit", "1d")] {
        apply(kube, name, &format!("{{config: {{retention.ms: {form}}}}}"));
        let topic = ready(kube, name, "True/Applied");
        let written = topic["spec"]["config"]["retention.ms"].to_string();
        assert_eq!(written.trim_matches('"'), form.trim_matches('\''));
        assert_eq!(written.starts_with('"'), form != "86400000", "{written}");
        assert_eq!(topic["metadata"]["generation"], 1);
        assert_eq!(stub.value(name, "retention.ms"), "86400000");
        let text = kubectl(
            kube,
            ["get", "topic", name, "-o", "json", "--show-managed-fields"],
        )
        .run();
        let topic: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let ours = topic["metadata"]["managedFields"]
            .as_array()
            .expect("a list")
            .iter();
        for entry in ours.filter(|entry| entry["manager"] == "tidemark-operator") {
            let fields: Vec<&String> = entry["fieldsV1"].as_object().expect("fields").keys().collect();
            assert_eq!(fields, ["f:status"], "{entry}");
        }
        let same = kube
            .kubectl(["diff", "-f", "-"])
            .output_with(manifest(name, &format!("{{config: {{retention.ms: {form}}}}}")).as_bytes());
        assert!(
            same.status.success(),
            "a diff: {}",
            String::from_utf8_lossy(&same.stdout)
        );
    }
}

/// H11: an edit that changes nothing in the engine is seen, without a call for a change and without a transition.
fn edits_without_effect(kube: &KubeApi, stub: &Stub) {
    let orders = [
        "{config: {retention.ms: 604800000}, partitionConfig: [{partition: 0}, {partition: 1}], readers: {required: [a, b]}}",
        "{config: {retention.ms: '604800000'}, partitionConfig: [{partition: 0}, {partition: 1}], readers: {required: [a, b]}}",
        "{config: {retention.ms: '604800000'}, partitionConfig: [{partition: 1}, {partition: 0}], readers: {required: [a, b]}}",
    ];
    apply(kube, "same", orders[0]);
    let before = ready(kube, "same", "True/Applied");
    let changes = stub.engine().changes.len();
    let moved = |topic: &serde_json::Value| -> Vec<serde_json::Value> {
        let all = topic["status"]["conditions"].as_array().expect("a list").iter();
        all.map(|condition| condition["lastTransitionTime"].clone())
            .collect()
    };
    for (generation, spec) in (2..).zip(&orders[1..]) {
        apply(kube, "same", spec);
        let after = ready(kube, "same", "True/Applied");
        assert_eq!(after["metadata"]["generation"], generation, "H11");
        assert_eq!(after["status"]["observedGeneration"], generation, "H11");
        assert_eq!(moved(&before), moved(&after), "H11");
        assert_eq!(stub.engine().changes.len(), changes, "H11");
    }
}

/// H4 on a stub; with data in `cases.rs`.
fn conflict_and_hand_over(kube: &KubeApi, stub: &Stub) {
    apply(kube, "first", "{topicName: shared, config: {retention.ms: 7d}}");
    let first = ready(kube, "first", "True/Applied");
    apply(kube, "second", "{topicName: shared, config: {retention.ms: 7d}}");
    let second = ready(kube, "second", "False/Conflict");
    assert!(second["status"]["topicId"].is_null());
    ready(kube, "first", "True/Applied");
    delete(kube, "first");
    let second = ready(kube, "second", "True/Applied");
    assert_eq!(
        second["status"]["topicId"], first["status"]["topicId"],
        "the data stays what it is"
    );
    assert_eq!(stub.engine().topics["shared"]["owner"]["name"], "second");
    event(kube, "second", "ExistingData");
}

fn collision(kube: &KubeApi, stub: &Stub) {
    apply(kube, "x1", "{topicName: a.b_c, deletionPolicy: Delete}");
    ready(kube, "x1", "True/Applied");
    apply(kube, "x2", "{topicName: a_b.c}");
    let topic = ready(kube, "x2", "False/NameCollision");
    assert!(topic["status"]["conditions"].to_string().contains("a.b_c"));
    delete(kube, "x1");
    ready(kube, "x2", "True/Applied");
    assert!(!stub.engine().topics.contains_key("a.b_c"));
}

fn deletion(kube: &KubeApi, stub: &Stub) {
    apply(kube, "kept", "{config: {retention.ms: 7d}}");
    let topic = ready(kube, "kept", "True/Applied");
    assert!(topic["metadata"]["finalizers"].is_null(), "Retain needs none");
    kubectl(kube, ["delete", "topic", "kept", "--timeout=300s"]).run();
    assert!(stub.engine().topics.contains_key("kept"));
    apply(kube, "kept", "{config: {retention.ms: 7d}}");
    let again = ready(kube, "kept", "True/Applied");
    assert_eq!(again["status"]["topicId"], topic["status"]["topicId"]);

    apply(kube, "doomed", "{deletionPolicy: Delete}");
    let topic = ready(kube, "doomed", "True/Applied");
    assert_eq!(
        topic["metadata"]["finalizers"],
        serde_json::json!(["tidemark.dev/topic-data"])
    );
    stub.engine().reader_at = Some(1);
    delete(kube, "doomed");
    let topic = ready(kube, "doomed", "False/SlowReader");
    assert_eq!(condition(&topic, "Stalled"), "True/SlowReader");
    event(kube, "doomed", "DeletionHeld");
    stub.catch_up();
    stub.tell("TopicChanged", "doomed");
    gone(kube, "doomed");
    assert!(!stub.engine().topics.contains_key("doomed"));

    // The way out that always works, also while a reader is behind or the engine away.
    apply(kube, "released", "{deletionPolicy: Delete}");
    ready(kube, "released", "True/Applied");
    stub.engine().away = true;
    delete(kube, "released");
    patch(kube, "released", r#"{"spec":{"deletionPolicy":"Retain"}}"#);
    gone(kube, "released");
    stub.engine().away = false;
    assert!(stub.engine().topics.contains_key("released"), "the data stays");
}

fn partitions_and_names(kube: &KubeApi, stub: &Stub) {
    stub.engine()
        .topics
        .insert("wide".to_owned(), existing("wide", 3));
    apply(kube, "wide", "{partitions: 2}");
    let topic = ready(kube, "wide", "False/PartitionDecrease");
    assert_eq!(condition(&topic, "Stalled"), "True/PartitionDecrease");
    patch(kube, "wide", r#"{"spec":{"partitions":null}}"#);
    let topic = ready(kube, "wide", "True/Applied");
    assert_eq!(topic["status"]["partitions"], 3, "adopted");
    // Topics without a resource cause no write and no error.
    stub.engine()
        .topics
        .insert("__state".to_owned(), existing("__state", 1));
    apply(kube, "my-topic", "{topicName: My_Topic.v1}");
    ready(kube, "my-topic", "True/Applied");
    assert!(stub.engine().topics.contains_key("My_Topic.v1"));
    assert!(!stub.engine().topics.contains_key("my-topic"));
}

fn existing(name: &str, partitions: usize) -> serde_json::Value {
    let all: Vec<_> = (0..partitions)
        .map(|partition| serde_json::json!({"partition": partition, "logStart": 0, "highWatermark": 5, "logEnd": 5, "sizeBytes": 1, "segments": 1}))
        .collect();
    serde_json::json!({"name": name, "id": format!("old-{name}"), "owner": null, "inForce": {"config": {}}, "pending": null, "partitions": all,
        "readers": {"checked": 0}, "health": {"reason": "Healthy", "message": ""}})
}

fn drift_and_missing(kube: &KubeApi, stub: &Stub) {
    apply(kube, "drifts", "{config: {retention.ms: 7d}}");
    let topic = ready(kube, "drifts", "True/Applied");
    stub.engine().topics.get_mut("drifts").expect("a topic")["inForce"]["config"]["retention.ms"]["value"] =
        "5".into();
    stub.tell("TopicChanged", "drifts");
    until("the repair", PATIENCE, || {
        stub.value("drifts", "retention.ms") == "604800000"
    });
    event(kube, "drifts", "DriftRepaired");
    stub.engine().topics.remove("drifts");
    stub.tell("TopicDeleted", "drifts");
    until("the new topic", PATIENCE, || {
        stub.engine().topics.contains_key("drifts")
    });
    let again = ready(kube, "drifts", "True/Applied");
    assert_ne!(again["status"]["topicId"], topic["status"]["topicId"]);
    event(kube, "drifts", "TopicMissing");
}

/// H21: an engine that says yes and keeps the old limit is never believed.
fn lies(kube: &KubeApi, stub: &Stub) {
    apply(kube, "lied-to", "{config: {retention.ms: 604800000}}");
    ready(kube, "lied-to", "True/Applied");
    stub.engine().lies = true;
    apply(kube, "lied-to", "{config: {retention.ms: 86400000}}");
    let topic = ready(kube, "lied-to", "False/Drift");
    assert_eq!(condition(&topic, "RetentionApplied"), "False/Drift");
    let message = topic["status"]["conditions"].to_string();
    assert!(
        message.contains("asked 86400000, in force 604800000"),
        "{message}"
    );
    // However often it is asked, and however often it says yes.
    let asked = |stub: &Stub| {
        stub.engine()
            .changes
            .iter()
            .filter(|change| *change == "PUT lied-to")
            .count()
    };
    let before = asked(stub);
    until("three more attempts", PATIENCE, || asked(stub) >= before + 3);
    let now = crate::running::topic(kube, "lied-to");
    assert_eq!(now["status"]["conditions"], topic["status"]["conditions"], "H21");
    stub.engine().lies = false;
    ready(kube, "lied-to", "True/Applied");
}

fn settled_is_silent(kube: &KubeApi, stub: &Stub, operator: &Operator) {
    let each = "jsonpath={range .items[*]}{.metadata.name}={.metadata.resourceVersion} {end}";
    let versions = || kubectl(kube, ["get", "topics", "-o", each]).run();
    let writes = || operator.metric("tidemark_operator_api_requests_total{request=\"status\",result=\"ok\"}");
    // Every Topic is looked at once more, and nothing is written for it; what a scene before has left to do gets done first.
    eventually("a round of every Topic without a write", PATIENCE, || {
        let (before, written, rounds) = (versions(), writes(), operator.rounds());
        let topics = before.split_whitespace().count();
        stub.tell("TopicChanged", "");
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        until("a round for each", PATIENCE, || {
            operator.rounds() >= rounds + topics as f64
        });
        let after = versions();
        if after == before && (writes() - written).abs() < f64::EPSILON {
            Ok(())
        } else {
            Err(format!("{before}\n{after}"))
        }
    });
    assert_eq!(operator.get("/healthz").status, 200);
    assert_eq!(operator.get("/engine/metrics").body, "# EOF\n");
}

fn wait_and_diff(kube: &KubeApi) {
    let text = manifest("waited", "{config: {retention.ms: 7d}}");
    kube.kubectl(["apply", "--server-side", "-f", "-"])
        .run_with(text.as_bytes());
    let wait = ["wait", "topic/waited", "--for=condition=Ready", "--timeout=300s"];
    kubectl(kube, wait).run();
    // Server-side apply once more, by the same manager: no conflict with what the operator owns.
    kube.kubectl(["apply", "--server-side", "-f", "-"])
        .run_with(text.replace("7d", "8d").as_bytes());
    let topic = ready(kube, "waited", "True/Applied");
    assert_eq!(topic["status"]["retention"], "8d");
    // And in an editor.
    kubectl(kube, ["edit", "topic", "waited"])
        .env("KUBE_EDITOR", "sed -i /retention.ms/s/8d/9d/")
        .run();
    let topic = ready(kube, "waited", "True/Applied");
    assert_eq!(topic["spec"]["config"]["retention.ms"], "9d");
    assert_eq!(topic["status"]["retention"], "9d");
}

fn examples(kube: &KubeApi) {
    let folder = crate::support::peers::source("deploy/examples")
        .display()
        .to_string();
    kubectl(kube, ["apply", "-f", &folder]).run();
    for name in ["orders", "clicks", "audit"] {
        // Some have been there before under other names and settings; what the examples say is in force or refused by name.
        let topic = topic(kube, name);
        assert_ne!(topic["spec"], serde_json::Value::Null);
    }
    ready(kube, "audit", "True/Applied");
}

/// A second engine with an operator of its own, for Topics of two namespaces that carry its label.
fn more_namespaces_by_label(kube: &KubeApi, first: &Stub) {
    let second = Stub::start();
    kube.kubectl(["create", "namespace", "shop"]).run();
    let flags = [
        "--namespace",
        "shop",
        "--selector",
        "engine=blue",
        "--lease",
        "blue",
    ];
    let _operator = Operator::start_with(
        kube,
        &second.control(),
        kube.kubeconfig().to_owned(),
        "blue",
        &flags,
    );
    for namespace in [NAMESPACE, "shop"] {
        for (name, label) in [("blue-one", "{engine: blue}"), ("plain-one", "{engine: none}")] {
            let text = format!(
                "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: {name}, namespace: {namespace}, labels: {label}}}\n\
                 spec: {{topicName: {namespace}.{name}}}\n"
            );
            kube.apply(&text);
        }
    }
    let known = |topic: &str| second.engine().topics.contains_key(topic);
    until("both namespaces", PATIENCE, || {
        known("tidemark.blue-one") && known("shop.blue-one")
    });
    assert!(!known("tidemark.plain-one") && !known("shop.plain-one"));
    // The first operator has no selector: a Topic of its namespace is one engine's or the other's by label, set by its flags.
    until("the first engine", PATIENCE, || {
        first.engine().topics.contains_key("tidemark.plain-one")
    });
    assert!(
        !first.engine().topics.contains_key("shop.plain-one"),
        "another namespace"
    );
}
