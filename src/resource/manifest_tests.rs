use super::*;

const TWO: &str = "\
# Topics of the shop.
apiVersion: tidemark.dev/v1alpha1
kind: Topic
metadata:
  name: orders
spec:
  partitions: 12
  config:
    retention.ms: 3d
    log.retention.bytes: 5
  partitionConfig:
    - partition: 3
      config:
        retention.ms: 1.5d
    - {partition: 30, config: {segment.bytes: 1000}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: tidemark.dev/v1alpha1
kind: Topic
metadata: {name: clicks, namespace: web}
spec: {partitions: 1}
";

fn faults(text: &str) -> Vec<String> {
    read(text, "default")
        .faults
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn every_fault_has_its_line_and_the_other_documents_go_on() {
    let manifests = read(TWO, "default");
    assert_eq!(manifests.topics.len(), 1);
    assert_eq!(manifests.topics[0].line, 21);
    assert_eq!(
        manifests.topics[0].topic.metadata.namespace.as_deref(),
        Some("web")
    );
    assert_eq!(
        faults(TWO),
        [
            "line 10: spec.config.log.retention.bytes: is not a topic setting: that is the broker's name, on a topic write retention.bytes",
            "line 14: spec.partitionConfig[0].config.retention.ms: \"1.5d\": has a fraction; write a whole number, with a smaller unit if need be",
            "line 15: spec.partitionConfig[1].partition: 30: must be below spec.partitions, which is 12; partitions are counted from 0",
            "line 15: spec.partitionConfig[1].config.segment.bytes: 1000: must be at least 1048576",
        ]
    );
    let rest = TWO.replace("    log.retention.bytes: 5\n", "");
    assert_eq!(
        faults(&rest),
        [
            "line 13: spec.partitionConfig[0].config.retention.ms: \"1.5d\": has a fraction; write a whole number, with a smaller unit if need be",
            "line 14: spec.partitionConfig[1].partition: 30: must be below spec.partitions, which is 12; partitions are counted from 0",
            "line 14: spec.partitionConfig[1].config.segment.bytes: 1000: must be at least 1048576",
        ]
    );
    assert_eq!(manifests.faults[0].topic.as_deref(), Some("default/orders"));
}

#[test]
fn faults_of_form_are_told_with_their_line() {
    assert_eq!(faults("apiVersion: [\n")[0].split(':').next(), Some("line 2"));
    assert!(faults("just text\n")[0].contains("no Kubernetes manifest"));
    let head = "---\napiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {name: t}\nspec:\n";
    assert_eq!(
        faults(&format!("{head}  partitions: three\n")),
        ["line 6: spec.partitions: invalid type: string \"three\", expected i32"]
    );
    assert_eq!(
        faults(&format!("{head}  partition: 3\n")),
        ["line 6: spec.partition: is not a field: did you mean partitions?"]
    );
    // One look tells both, and a fault of type has its field even where it has no line of its own.
    assert_eq!(
        faults(&format!("{head}  partition: 3\n  partitions: three\n")),
        [
            "line 2: spec.partitions: invalid type: string \"three\", expected i32",
            "line 6: spec.partition: is not a field: did you mean partitions?",
        ]
    );
    assert_eq!(
        faults(&format!("{head}  readers:\n    onloss: Allow\n")),
        ["line 7: spec.readers.onloss: is not a field: did you mean onLoss?"]
    );
    assert_eq!(
        faults(&format!("{head}  confg:\n    retention.ms: 1\n")),
        ["line 6: spec.confg: is not a field: did you mean config?"]
    );
    assert_eq!(
        faults(&format!("{head}  readers:\n    grace: 1h\n")),
        [
            "line 7: spec.readers.grace: is not a field: known here are onLoss, headroom, whenNone, required, ignored"
        ]
    );
    assert!(faults(&format!("{head}  deletionPolicy: Keep\n"))[0].contains("unknown variant `Keep`"));
    // J10: both forms at once.
    assert!(
        faults(&format!(
            "{head}  config: {{retention.ms: 7d, retention.ms: 604800000}}\n"
        ))[0]
            .contains("duplicate")
    );
    assert!(
        faults(&format!("{head}  config:\n    retention.ms:\n"))[0].contains("retention.ms"),
        "no value is no default"
    );
    let old = head.replace("v1alpha1", "v1");
    assert!(faults(&format!("{old}  partitions: 3\n"))[0].contains("known is tidemark.dev/v1alpha1"));
}

#[test]
fn what_is_nearly_a_topic_is_a_fault_and_other_kinds_pass_by() {
    assert_eq!(
        faults("apiVersion: tidemark.dev/v1alpha1\nkind: topic\nmetadata: {name: t}\n"),
        ["line 2: kind: topic: is not known; known is Topic"]
    );
    assert_eq!(
        faults("---\nkind: Topic\nmetadata: {name: t}\n"),
        ["line 2: apiVersion: is required; it is tidemark.dev/v1alpha1"]
    );
    for other in [
        "apiVersion: kafka.example.com/v1\nkind: Topic\n",
        "apiVersion: v1\nkind: ConfigMap\n",
        "a: 1\n",
    ] {
        assert_eq!(read(other, "default"), Manifests::default(), "{other}");
    }
}

#[test]
fn names_become_files_and_are_held_to_the_rules_of_kubernetes() {
    for name in ["../../etc/passwd", "Orders", "a_b", "-a", "a..b", ""] {
        let text = format!(
            "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: '{name}'}}\nspec: {{}}\n"
        );
        assert_eq!(read(&text, "default").faults.len(), 1, "{name}");
    }
    let text =
        "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {name: a, namespace: ../b}\nspec: {}\n";
    assert_eq!(read(text, "default").faults.len(), 1);
}

#[test]
fn lines_are_found_in_both_styles() {
    let path = |text: &str| {
        Path(
            text.split('/')
                .map(|step| {
                    step.parse()
                        .map_or_else(|_| Step::Key(step.to_owned()), Step::Index)
                })
                .collect(),
        )
    };
    let document = "spec:\n  partitionConfig:\n  - config: {retention.ms: 1}\n    partition: 0\n  - partition: 1\n    config:\n      # no\n      'retention.ms': 2\n  config:\n    retention.ms: 3\n";
    assert_eq!(line(document, &path("spec/config/retention.ms")), Some(10));
    assert_eq!(
        line(document, &path("spec/partitionConfig/0/config/retention.ms")),
        Some(3)
    );
    assert_eq!(
        line(document, &path("spec/partitionConfig/1/config/retention.ms")),
        Some(8)
    );
    assert_eq!(
        line(document, &path("spec/readers")),
        Some(1),
        "the nearest parent"
    );
    assert_eq!(
        line(
            "spec: {config: {retention.ms: 3}}\n",
            &path("spec/config/retention.ms")
        ),
        Some(1)
    );
}
