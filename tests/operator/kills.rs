//! `kill -9` at every point of a round: whatever was begun, the next process ends it, once.
use serde_json::Value;

use crate::faults::Scene;
use crate::running::{apply, delete, gone, ready, topic};

/// Every point that a round passes on its way, in order.
const CREATION: &[&str] = &[
    "round::began",
    "round::observed",
    "round::decided",
    "round::finalizer-changed",
    "round::applied",
    "round::status-written",
    "round::told",
];
const EDIT: &[&str] = &[
    "round::began",
    "round::observed",
    "round::decided",
    "round::applied",
    "round::status-written",
    "round::told",
];
const DELETION: &[&str] = &[
    "round::began",
    "round::observed",
    "round::decided",
    "round::deleted",
    "round::finalizer-changed",
];

/// The operator dies at `point` of the round that `act` causes, and comes back.
fn die_at(scene: &mut Scene, point: &str, act: impl FnOnce(&Scene)) {
    scene.operator.arm(point);
    act(scene);
    scene.operator.wait_for_death(point);
    scene.operator.start_again();
}

fn spec(retention: &str) -> String {
    format!("{{partitions: 2, config: {{retention.ms: {retention}}}, deletionPolicy: Delete}}")
}

#[test]
fn killed_at_every_point_of_a_round() {
    let mut scene = Scene::start();
    for (number, point) in CREATION.iter().enumerate() {
        let name = format!("made-{number}");
        die_at(&mut scene, point, |scene| {
            apply(&scene.kube, &name, &spec("3d"));
        });
        let topic = ready(&scene.kube, &name, "True/Applied");
        assert_eq!(
            topic["metadata"]["finalizers"],
            serde_json::json!(["tidemark.dev/topic-data"]),
            "{point}"
        );
        assert_eq!(topic["metadata"]["generation"], 1, "{point}");
        assert_eq!(topic["status"]["partitions"], 2, "{point}");
        assert_eq!(asked(&scene, &name, "PUT"), 1, "{point}: made once");
    }
    scene.settles();

    for (number, point) in EDIT.iter().enumerate() {
        let before = asked(&scene, "made-0", "PUT");
        die_at(&mut scene, point, |scene| {
            apply(&scene.kube, "made-0", &spec(&format!("{}d", 4 + number)));
        });
        let topic = ready(&scene.kube, "made-0", "True/Applied");
        assert_eq!(
            topic["status"]["retention"],
            format!("{}d", 4 + number),
            "{point}"
        );
        assert_eq!(
            asked(&scene, "made-0", "PUT"),
            before + 1,
            "{point}: applied once"
        );
    }
    scene.settles();

    // A lowering that a reader holds back, then one that it need not.
    for (number, point) in EDIT.iter().enumerate() {
        scene.stub.engine().reader_at = Some(40);
        die_at(&mut scene, point, |scene| {
            apply(&scene.kube, "made-0", &spec(&format!("{}h", 40 - number)));
        });
        let held = ready(&scene.kube, "made-0", "False/SlowReader");
        assert_eq!(
            held["status"]["plan"]["changes"][0]["to"],
            ((40 - number) * 3_600_000).to_string(),
            "{point}"
        );
        assert_eq!(
            scene.stub.value("made-0", "retention.ms"),
            "777600000",
            "{point}: the old value stays in force"
        );
    }
    scene.settles();
    scene.stub.catch_up();
    ready(&scene.kube, "made-0", "True/Applied");
    scene.settles();

    for (number, point) in DELETION.iter().enumerate() {
        let name = format!("made-{number}");
        die_at(&mut scene, point, |scene| delete(&scene.kube, &name));
        gone(&scene.kube, &name);
    }
    scene.settles();
    let (topics, deletions) = scene.stored();
    assert_eq!(topics, ["made-5", "made-6"], "neither more nor less is deleted");
    let wanted: Vec<String> = (0..DELETION.len())
        .map(|number| format!("DELETE made-{number} Some(Delete)"))
        .collect();
    assert_eq!(deletions, wanted, "each once");
    for name in ["made-5", "made-6"] {
        assert_eq!(
            topic(&scene.kube, name)["metadata"]["deletionTimestamp"],
            Value::Null
        );
    }
}

/// How often the engine was asked to change this topic.
fn asked(scene: &Scene, name: &str, verb: &str) -> usize {
    let engine = scene.stub.engine();
    let wanted = format!("{verb} {name}");
    engine.changes.iter().filter(|change| **change == wanted).count()
}
