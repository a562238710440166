//! The whole scene: kubectl on one side, a real engine with real clients on the other.
use serde_json::Value;

use crate::gitops::{argocd, kstatus};
use crate::running::{
    Operator, PATIENCE, apply, condition, delete, event, events, gone, install, kubectl, pause, ready, topic,
};
use crate::support::kcat::{kcat, produce};
use crate::support::kube::KubeApi;
use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;
use crate::support::wait::until;

/// Keeps everything; segments of one batch of about 40 records each, so that the size rule has something to take.
fn spec(retention_bytes: &str, more: &str) -> String {
    format!(
        "{{config: {{retention.ms: -1, retention.bytes: {retention_bytes}, internal.segment.bytes: 3000}}, readers: {{headroom: 0, onLoss: Refuse}}{more}}}"
    )
}

/// 400 records in batches of 20: one call of the client, one batch.
fn fill(engine: &Tidemark, topic: &str) {
    for batch in 0..20 {
        let lines: Vec<String> = (0..20)
            .map(|line| format!("record {batch:02} {line:02} {}", "x".repeat(60)))
            .collect();
        produce(engine.bootstrap(), topic, 0, &lines);
    }
}

/// Reads so many records as the group and commits.
fn read(engine: &Tidemark, group: &str, topic: &str, records: usize) {
    let records = records.to_string();
    kcat(
        engine.bootstrap(),
        [
            "-G",
            group,
            "-q",
            "-c",
            &records,
            "-X",
            "auto.offset.reset=earliest",
            "-X",
            "auto.commit.interval.ms=100",
            topic,
        ],
    )
    .run();
}

fn log_start(engine: &Tidemark, topic: &str) -> i64 {
    engine.get(&format!("/v1/topics/{topic}"))["partitions"][0]["logStart"]
        .as_i64()
        .expect("a number")
}

fn in_force(engine: &Tidemark, topic: &str, key: &str) -> String {
    engine.get(&format!("/v1/topics/{topic}"))["inForce"]["config"][key]["value"]
        .as_str()
        .expect("a value")
        .to_owned()
}

fn position(topic: &Value) -> i64 {
    topic["status"]["plan"]["readersAtRisk"][0]["position"]
        .as_i64()
        .unwrap_or(-1)
}

#[test]
fn a_slow_reader_holds_a_lowering_back_until_it_has_read_on() {
    let kube = KubeApi::start();
    install(&kube);
    let home = TempDir::new("scene");
    let mut engine = Tidemark::engine(home.path(), &["--check-interval", "1h"]);
    apply(&kube, "orders", &spec("-1", ""));
    assert_eq!(
        kstatus(&topic(&kube, "orders")),
        "InProgress",
        "from the first moment, before the operator runs"
    );
    assert_eq!(argocd(&topic(&kube, "orders")), "Progressing");
    let mut operator = Operator::start(&kube, engine.control());
    apply(&kube, "clicks", "{partitions: 2, config: {retention.ms: 1h}}");
    let orders = ready(&kube, "orders", "True/Applied");
    ready(&kube, "clicks", "True/Applied");
    assert_eq!(
        (kstatus(&orders), argocd(&orders)),
        ("Current".to_owned(), "Healthy".to_owned())
    );
    fill(&engine, "orders");
    read(&engine, "billing", "orders", 100);

    // Paused: the edit waits for a person, and the guard judges it when it goes on.
    pause(&kube, "orders", true);
    apply(&kube, "orders", &spec("3000", ""));
    let orders = ready(&kube, "orders", "False/Paused");
    assert_eq!(argocd(&orders), "Suspended");
    engine.pass();
    assert_eq!(log_start(&engine, "orders"), 0);
    assert_eq!(in_force(&engine, "orders", "retention.bytes"), "-1");
    pause(&kube, "orders", false);

    // Lowered in the manifest: refused, and nothing is deleted.
    apply(&kube, "orders", &spec("3000", ""));
    let orders = ready(&kube, "orders", "False/SlowReader");
    assert_eq!(condition(&orders, "Stalled"), "True/SlowReader");
    assert_eq!(
        (kstatus(&orders), argocd(&orders)),
        ("Failed".to_owned(), "Degraded".to_owned())
    );
    assert_eq!(orders["status"]["plan"]["readersAtRisk"][0]["name"], "billing");
    assert_eq!(position(&orders), 100);
    assert!(
        orders["status"]["plan"]["readersAtRisk"][0]["recordsAtRisk"].as_i64() > Some(0),
        "{orders}"
    );
    engine.pass();
    assert_eq!(log_start(&engine, "orders"), 0);
    let at_risk = &orders["status"]["plan"]["readersAtRisk"][0]["recordsAtRisk"];
    let told = event(&kube, "orders", "Refused");
    for words in ["billing", "partition 0", "100", &at_risk.to_string()] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let row = kubectl(&kube, ["get", "topics", "orders"]).run();
    assert!(row.contains("SlowReader") && row.contains("billing"), "{row}");

    // Engine restarted meanwhile, operator restarted meanwhile: the refusal stays what it is.
    engine.kill();
    engine.start_again();
    ready(&kube, "orders", "False/SlowReader");
    operator.kill();
    operator.start_again();

    // A second lowering while one waits, then the revert, which clears it.
    apply(&kube, "orders", &spec("6000", ""));
    let orders = ready(&kube, "orders", "False/SlowReader");
    assert_eq!(orders["status"]["plan"]["changes"][0]["to"], "6000");
    apply(&kube, "orders", &spec("-1", ""));
    let orders = ready(&kube, "orders", "True/Applied");
    assert!(orders["status"]["plan"].is_null());
    apply(&kube, "orders", &spec("3000", ""));
    ready(&kube, "orders", "False/SlowReader");

    // The reader reads on: the change goes in without an edit, and the next pass deletes.
    read(&engine, "billing", "orders", 300);
    let orders = ready(&kube, "orders", "True/Applied");
    assert_eq!(kstatus(&orders), "Current");
    engine.pass();
    assert!(log_start(&engine, "orders") > 300);
    until("the events", PATIENCE, || {
        let told = events(&kube, "orders");
        ["Refused", "Resumed", "Applied"]
            .iter()
            .all(|reason| told.contains(&(*reason).to_owned()))
    });
    held_under_pause(&kube, &engine);
    what_only_the_engine_can_know(&kube, &engine);
    operator.settles(&kube);
    operator.stop();
}

/// A change that waits stays where it is while its Topic is paused, whatever its reader does, and goes in when that ends.
fn held_under_pause(kube: &KubeApi, engine: &Tidemark) {
    apply(kube, "held", &spec("-1", ""));
    ready(kube, "held", "True/Applied");
    fill(engine, "held");
    read(engine, "billing", "held", 100);
    apply(kube, "held", &spec("3000", ""));
    ready(kube, "held", "False/SlowReader");
    pause(kube, "held", true);
    let held = ready(kube, "held", "False/Paused");
    assert_eq!(condition(&held, "Paused"), "True/Paused");
    assert_eq!(condition(&held, "Stalled"), "absent", "somebody knows");
    read(engine, "billing", "held", 300);
    until("the status to say that only the pause holds it", PATIENCE, || {
        condition(&topic(kube, "held"), "RetentionApplied") == "False/Paused"
    });
    engine.pass();
    assert_eq!(log_start(engine, "held"), 0);
    assert_eq!(in_force(engine, "held", "retention.bytes"), "-1");
    pause(kube, "held", false);
    let on = ready(kube, "held", "True/Applied");
    assert_eq!(
        on["metadata"]["generation"], held["metadata"]["generation"],
        "without an edit"
    );
    engine.pass();
    assert!(log_start(engine, "held") > 300);
}

/// The API server takes it, the engine does not: `Invalid` with its words, and the old values stay in force.
fn what_only_the_engine_can_know(kube: &KubeApi, engine: &Tidemark) {
    apply(kube, "narrow", "{partitions: 2, config: {retention.ms: 7d}}");
    ready(kube, "narrow", "True/Applied");
    for (spec, words) in [
        (
            "{config: {retention.ms: 8d}, partitionConfig: [{partition: 5, config: {retention.ms: 1d}}]}",
            ["partitionConfig[5]", "2 partitions"],
        ),
        (
            "{partitions: 2, config: {retention.ms: 8d, cleanup.policy: compact}}",
            ["cleanup.policy", "compaction is not supported"],
        ),
    ] {
        apply(kube, "narrow", spec);
        let narrow = ready(kube, "narrow", "False/Invalid");
        assert_eq!(condition(&narrow, "RetentionApplied"), "False/Invalid");
        assert_eq!(kstatus(&narrow), "Failed");
        let told = narrow["status"]["conditions"].to_string();
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
        assert_eq!(in_force(engine, "narrow", "retention.ms"), "604800000");
        assert_eq!(narrow["status"]["retention"], "7d");
    }
    apply(kube, "narrow", "{partitions: 2, config: {retention.ms: 8d}}");
    ready(kube, "narrow", "True/Applied");
    assert_eq!(in_force(engine, "narrow", "retention.ms"), "691200000");
}

/// The engine aborts at this point of the change that `act` causes, and comes back.
fn die_at(engine: &mut Tidemark, point: &str, act: impl FnOnce()) {
    let armed = engine.http("POST", &format!("/v1/failpoints/{point}/1"), None);
    assert_eq!(armed.status, 204, "{point}");
    act();
    let process = engine.process();
    until(point, PATIENCE, || process.ended().is_some());
    engine.kill();
    engine.start_again();
}

#[test]
fn an_engine_that_dies_in_the_middle_of_a_change_is_asked_again() {
    let kube = KubeApi::start();
    install(&kube);
    let home = TempDir::new("dies");
    let mut engine = Tidemark::engine(home.path(), &["--check-interval", "1h"]);
    let operator = Operator::start(&kube, engine.control());
    let spec =
        |days: usize| format!("{{partitions: 2, config: {{retention.ms: {days}d}}, deletionPolicy: Delete}}");
    let creation = [
        "topics::recorded",
        "topics::one-directory-made",
        "topics::directories-made",
    ];
    for (number, point) in creation.iter().enumerate() {
        let name = format!("made-{number}");
        die_at(&mut engine, point, || apply(&kube, &name, &spec(3)));
        let made = ready(&kube, &name, "True/Applied");
        assert_eq!(made["status"]["partitions"], 2, "{point}");
        fill_one(&engine, &name);
    }
    let id = topic(&kube, "made-0")["status"]["topicId"].clone();
    let edit = ["guarded::checked", "guarded::persisted", "guarded::applied"];
    for (number, point) in edit.iter().enumerate() {
        die_at(&mut engine, point, || apply(&kube, "made-0", &spec(4 + number)));
        let edited = ready(&kube, "made-0", "True/Applied");
        let wanted = ((4 + number) * 86_400_000).to_string();
        assert_eq!(in_force(&engine, "made-0", "retention.ms"), wanted, "{point}");
        assert_eq!(edited["status"]["topicId"], id, "{point}");
        let end = &engine.get("/v1/topics/made-0")["partitions"][0]["logEnd"];
        assert_eq!(*end, 1, "{point}: what was acknowledged is there");
    }
    for (number, point) in ["topics::deletion-recorded", "topics::one-directory-marked"]
        .iter()
        .enumerate()
    {
        let name = format!("made-{number}");
        die_at(&mut engine, point, || {
            delete(&kube, &name);
        });
        gone(&kube, &name);
        assert_eq!(
            engine.http("GET", &format!("/v1/topics/{name}"), None).status,
            404
        );
    }
    let kept = &engine.get("/v1/topics/made-2")["partitions"][0]["logEnd"];
    assert_eq!(*kept, 1, "nobody asked for its end");
    operator.settles(&kube);
}

fn fill_one(engine: &Tidemark, topic: &str) {
    produce(engine.bootstrap(), topic, 0, &["a record".to_owned()]);
}

#[test]
fn clamp_steps_down_allow_gives_up_and_a_deletion_waits() {
    let kube = KubeApi::start();
    install(&kube);
    let home = TempDir::new("scene");
    let engine = Tidemark::engine(home.path(), &["--check-interval", "1h"]);
    let operator = Operator::start(&kube, engine.control());
    for name in ["clamped", "allowed", "doomed"] {
        let more = if name == "doomed" {
            ", deletionPolicy: Delete"
        } else {
            ""
        };
        apply(&kube, name, &spec("-1", more));
        ready(&kube, name, "True/Applied");
        fill(&engine, name);
        read(&engine, "billing", name, 100);
    }
    // Clamp: as low as the reader allows, and on as it reads on.
    apply(&kube, "clamped", &spec("3000", "").replace("Refuse", "Clamp"));
    let clamped = ready(&kube, "clamped", "False/Clamped");
    assert_eq!(kstatus(&clamped), "InProgress");
    engine.pass();
    let start = log_start(&engine, "clamped");
    assert!(start > 0 && start <= 100, "{start}");
    read(&engine, "billing", "clamped", 300);
    ready(&kube, "clamped", "True/Applied");
    engine.pass();
    assert!(log_start(&engine, "clamped") > 300);

    // Allow: applied, with a warning that says what was given up.
    apply(&kube, "allowed", &spec("3000", "").replace("Refuse", "Allow"));
    ready(&kube, "allowed", "True/Applied");
    until("the warning", PATIENCE, || {
        events(&kube, "allowed").contains(&"LossAccepted".to_owned())
    });
    engine.pass();
    assert!(log_start(&engine, "allowed") > 100);

    // A deletion waits like a lowering, and ends by itself.
    delete(&kube, "doomed");
    let doomed = ready(&kube, "doomed", "False/SlowReader");
    assert_eq!(kstatus(&doomed), "Terminating");
    let told = event(&kube, "doomed", "DeletionHeld");
    assert!(told.contains("billing") && told.contains("300 records"), "{told}");
    assert_eq!(log_start(&engine, "doomed"), 0);
    // Committed by itself: a consumer whose topic goes while it still reads may wait for ever.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut client = tidemark::wire::client::Client::connect(engine.bootstrap(), "billing")
            .await
            .unwrap();
        client.commit("billing", "doomed", 0, 400).await.unwrap();
    });
    gone(&kube, "doomed");
    assert_eq!(engine.http("GET", "/v1/topics/doomed", None).status, 404);
    operator.settles(&kube);
}
