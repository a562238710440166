//! What the API server refuses by itself, with which words, and what `kubectl explain` tells.
use serde_json::{Value, json};
use tidemark::resource::crd;
use tidemark::resource::keys::{self, Kind, TOPIC_KEYS, Unit};
use tidemark::resource::schema::spec_range;

use crate::running::{NAMESPACE, kubectl, manifest};
use crate::support::kube::KubeApi;
use crate::support::peers;
use crate::support::process::Start;

/// A Topic that must be refused, and words that the refusal must have.
struct Refused {
    spec: String,
    words: Vec<String>,
}

fn refused(spec: impl Into<String>, words: &[&str]) -> Refused {
    Refused {
        spec: spec.into(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
    }
}

/// For each key, in the topic's and in a partition's settings: every form of a wrong value.
fn by_key() -> Vec<Refused> {
    let mut table = Vec::new();
    for key in TOPIC_KEYS {
        let mut wrong: Vec<(String, Vec<String>)> = Vec::new();
        let field = |words: &[&str]| {
            let mut all = vec![format!("config.{}", key.name)];
            all.extend(words.iter().map(|word| (*word).to_owned()));
            all
        };
        match key.kind {
            Kind::Int | Kind::Long if key.name == "compression.gzip.level" => {
                wrong.push(("0".to_owned(), field(&["Unsupported value: 0", "-1"])));
                wrong.push(("\"10\"".to_owned(), field(&["Unsupported value: \"10\""])));
            }
            Kind::Int | Kind::Long => {
                let (min, max) = spec_range(key);
                if min > i64::MIN {
                    let below = min - 1;
                    wrong.push((
                        below.to_string(),
                        field(&[&below.to_string(), &format!("greater than or equal to {min}")]),
                    ));
                    wrong.push((format!("\"{below}\""), field(&[&format!("\"{below}\"")])));
                }
                if max < i64::MAX {
                    let above = max + 1;
                    wrong.push((
                        above.to_string(),
                        field(&[&above.to_string(), &format!("less than or equal to {max}")]),
                    ));
                    wrong.push((format!("\"{above}\""), field(&[&format!("from {min} to {max}")])));
                } else {
                    wrong.push((
                        "\"9223372036854775808\"".to_owned(),
                        field(&[&format!("from {min} to {max}")]),
                    ));
                }
                for form in ["1.5", "6.048e+08", "1_000", "0x10", "", " 7", "1E3"] {
                    wrong.push((format!("\"{form}\""), field(&["should match"])));
                }
                wrong.push(("1.5".to_owned(), field(&["must be of type integer,string"])));
                wrong.push(("true".to_owned(), field(&["must be of type integer,string"])));
                wrong.push(("[1]".to_owned(), field(&["must be of type integer,string"])));
                let (unit, far) = match key.unit {
                    Unit::Ms => ("7days", "15250284453w"),
                    Unit::Bytes => ("2GiB", "8192Pi"),
                    Unit::Records | Unit::None => ("7d", "9223372036854775808"),
                };
                wrong.push((format!("\"{unit}\""), field(&["should match"])));
                wrong.push((format!("\"{far}\""), field(&[&format!("from {min} to {max}")])));
            }
            Kind::Double => {
                wrong.push(("1.5".to_owned(), field(&["less than or equal to 1"])));
                wrong.push(("-0.5".to_owned(), field(&["greater than or equal to 0"])));
                wrong.push(("\"1.5\"".to_owned(), field(&["should match"])));
                wrong.push(("\"half\"".to_owned(), field(&["should match"])));
            }
            Kind::Boolean => {
                for form in ["\"yes\"", "\"TRUE\"", "1"] {
                    wrong.push((form.to_owned(), field(&["Unsupported value"])));
                }
            }
            Kind::String => wrong.push((
                "other".to_owned(),
                field(&["Unsupported value: \"other\"", key.allowed[0]]),
            )),
            Kind::List if key.allowed.is_empty() => {
                wrong.push(("\"1-2\"".to_owned(), field(&["should match"])))
            }
            Kind::List => {
                wrong.push((
                    "\"delete,\"".to_owned(),
                    field(&["Unsupported value: \"delete,\"", "compact"]),
                ));
                wrong.push(("Delete".to_owned(), field(&["Unsupported value"])));
            }
        }
        for (value, words) in wrong {
            table.push(Refused {
                spec: format!("{{config: {{{}: {value}}}}}", key.name),
                words: words.clone(),
            });
            table.push(Refused {
                spec: format!(
                    "{{partitionConfig: [{{partition: 0, config: {{{}: {value}}}}}]}}",
                    key.name
                ),
                words,
            });
        }
    }
    for wrong in keys::wrong_names() {
        let words = [
            format!("{} is not a topic setting", wrong.name),
            wrong.hint.clone(),
        ];
        table.push(Refused {
            spec: format!("{{config: {{{}: 5}}}}", wrong.name),
            words: words.to_vec(),
        });
        table.push(Refused {
            spec: format!(
                "{{partitionConfig: [{{partition: 0, config: {{{}: '5'}}}}]}}",
                wrong.name
            ),
            words: words.to_vec(),
        });
    }
    table
}

fn by_field() -> Vec<Refused> {
    let long = "x".repeat(250);
    vec![
        refused(
            "{partitions: 0}",
            &["spec.partitions", "0", "greater than or equal to 1"],
        ),
        refused("{partitions: -1}", &["spec.partitions", "-1"]),
        refused(
            "{partitions: 100001}",
            &["spec.partitions", "less than or equal to 100000"],
        ),
        refused("{partitions: three}", &["spec.partitions"]),
        refused("{topicName: 'a b'}", &["spec.topicName", "a b"]),
        refused("{topicName: '..'}", &["spec.topicName", "cannot be '.' or '..'"]),
        refused("{topicName: ''}", &["spec.topicName", "at least 1 char"]),
        refused(format!("{{topicName: {long}}}"), &["spec.topicName", "249"]),
        refused(
            "{deletionPolicy: Keep}",
            &["spec.deletionPolicy", "Keep", "Retain", "Delete"],
        ),
        refused(
            "{config: {retention.mss: 1}}",
            &["unknown field \"spec.config.retention.mss\""],
        ),
        refused(
            "{configs: {retention.ms: 1}}",
            &["unknown field \"spec.configs\""],
        ),
        refused(
            "{partitions: 2, partitionConfig: [{partition: 2}]}",
            &["spec.partitionConfig", "not below spec.partitions"],
        ),
        refused(
            "{partitionConfig: [{partition: 1}, {partition: 1}]}",
            &["spec.partitionConfig[1]", "Duplicate"],
        ),
        refused(
            "{partitionConfig: [{partition: -1}]}",
            &["spec.partitionConfig[0].partition", "-1"],
        ),
        refused(
            "{partitionConfig: [{config: {}}]}",
            &["spec.partitionConfig[0].partition", "Required"],
        ),
        refused(
            "{readers: {onLoss: Maybe}}",
            &["spec.readers.onLoss", "Maybe", "Clamp"],
        ),
        refused(
            "{readers: {whenNone: Clamp}}",
            &["spec.readers.whenNone", "Clamp", "Refuse"],
        ),
        refused("{readers: {headroom: 10x}}", &["spec.readers.headroom", "10x"]),
        refused(
            "{readers: {headroom: -1}}",
            &["spec.readers.headroom", "-1", "greater than or equal to 0"],
        ),
        refused(
            "{readers: {required: [a, a]}}",
            &["spec.readers.required[1]", "Duplicate"],
        ),
        refused("{readers: {required: ['']}}", &["spec.readers.required[0]"]),
        refused(
            "{readers: {ignored: [{reason: x}]}}",
            &["spec.readers.ignored[0].group", "Required"],
        ),
        refused(
            "{readers: {ignored: [{group: a}, {group: a}]}}",
            &["spec.readers.ignored[1]", "Duplicate"],
        ),
    ]
}

#[test]
fn the_api_server_refuses_every_wrong_manifest_by_name() {
    let kube = KubeApi::start();
    let file = peers::source("crds/topics.tidemark.dev.yaml")
        .display()
        .to_string();
    kube.kubectl(["create", "namespace", NAMESPACE]).run();
    kube.kubectl(["apply", "-f", &file]).run();
    kube.kubectl([
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd",
        crd::NAME,
    ])
    .run();

    accepted(&kube);
    refusals(&kube);
    numbers_with_an_exponent(&kube);
    transitions(&kube);
    explains(&kube);
    round_trip(&kube, &file);
    upgrade(&kube, &file);
    a_version_is_followed_by_the_next(&kube);
}

/// All documents in one request to kubectl, which goes on after a refusal: one process, not hundreds.
fn refusals(kube: &KubeApi) {
    let table: Vec<Refused> = by_key().into_iter().chain(by_field()).collect();
    assert!(table.len() > 500, "{} rows", table.len());
    let documents: Vec<String> = table
        .iter()
        .enumerate()
        .map(|(row, refused)| manifest(&format!("row-{row}"), &refused.spec))
        .collect();
    let output = kube
        .kubectl(["create", "--dry-run=server", "-f", "-"])
        .output_with(documents.join("---\n").as_bytes());
    let (accepted, refused) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(accepted, "", "accepted although wrong");
    // Each refusal begins with one of these and goes on until the next.
    let starts: Vec<usize> = ["The Topic \"row-", "Error from server"]
        .iter()
        .flat_map(|start| refused.match_indices(start).map(|(at, _)| at))
        .filter(|at| *at == 0 || refused.as_bytes()[at - 1] == b'\n')
        .collect();
    let mut starts = starts;
    starts.sort_unstable();
    assert_eq!(starts.len(), table.len(), "{refused}");
    starts.push(refused.len());
    for (row, refusal) in table.iter().enumerate() {
        let text = &refused[starts[row]..starts[row + 1]];
        for word in &refusal.words {
            assert!(
                text.contains(word.as_str()),
                "{}\nlacks {word:?}:\n{text}",
                refusal.spec
            );
        }
    }
}

/// The bounds themselves, in each form, are taken and come back as they were written.
fn accepted(kube: &KubeApi) {
    let mut config = serde_json::Map::new();
    let mut strings = serde_json::Map::new();
    for key in TOPIC_KEYS {
        let (least, most) = match key.kind {
            Kind::Int | Kind::Long => {
                let (min, max) = spec_range(key);
                (json!(min), json!(max.to_string()))
            }
            Kind::Double => (json!(0.5), json!("1")),
            Kind::Boolean => (json!(false), json!("false")),
            Kind::String => (json!(key.allowed[0]), json!(key.allowed[0])),
            Kind::List if key.allowed.is_empty() => (json!("*"), json!("0:1,1:2")),
            Kind::List => (json!("compact,delete"), json!("")),
        };
        config.insert(key.name.to_owned(), least);
        strings.insert(key.name.to_owned(), most);
    }
    for (name, config) in [("least", config), ("most", strings)] {
        let spec = json!({"config": config, "partitionConfig": [{"partition": 0, "config": config}]});
        kube.apply(&manifest(name, &spec.to_string()));
        let text = kubectl(kube, ["get", "topic", name, "-o", "json"]).run();
        let stored: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(stored["spec"], spec, "{name}");
        assert_eq!(
            stored["status"]["observedGeneration"], -1,
            "in progress to kstatus from the first moment"
        );
    }
    for spec in [
        "{config: {retention.ms: 106751991167d, segment.bytes: 1Mi, retention.bytes: 8191Pi, segment.ms: 1ms}}",
        "{config: {segment.bytes: 2147483k, retention.ms: 0, flush.messages: 1, local.retention.ms: '-2'}}",
        "{topicName: My_Topic.v1, partitions: 100000, partitionConfig: [{partition: 99999}]}",
        "{readers: {headroom: 0, required: [a, b], ignored: [{group: 'x-*', reason: why}]}, deletionPolicy: Delete}",
    ] {
        kube.kubectl(["create", "--dry-run=server", "-f", "-"])
            .run_with(manifest("fine", spec).as_bytes());
    }
}

/// J1: what a template makes of a large number is taken as exactly that integer or refused with the text as written.
fn numbers_with_an_exponent(kube: &KubeApi) {
    for (written, exact) in [
        ("6.048e+08", Some(604_800_000)),
        ("'6.048e+08'", Some(604_800_000)),
        ("2.16e+07", Some(21_600_000)),
        ("1.000000012e+09", Some(1_000_000_012)),
        ("1.5", None),
        ("'1.5'", None),
    ] {
        let text = manifest("templated", &format!("{{config: {{retention.ms: {written}}}}}"));
        let output = kube
            .kubectl(["create", "--dry-run=server", "-o", "json", "-f", "-"])
            .output_with(text.as_bytes());
        if output.status.success() {
            let taken: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let value = &taken["spec"]["config"]["retention.ms"];
            assert!(
                exact.is_some() && value.as_i64() == exact,
                "J1: {written}: {value}"
            );
        } else {
            // Of a number with a fraction the API server tells the field and the type only.
            let told = String::from_utf8_lossy(&output.stderr);
            let as_written = exact.map_or("config.retention.ms", |_| written.trim_matches('\''));
            assert!(told.contains(as_written), "J1: {written}: {told}");
        }
    }
}

fn transitions(kube: &KubeApi) {
    let refuse = |name: &str, before: &str, after: &str, words: &[&str]| {
        kube.apply(&manifest(name, before));
        let output = kube
            .kubectl(["apply", "-f", "-"])
            .output_with(manifest(name, after).as_bytes());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{before} -> {after} is taken");
        for word in words {
            assert!(text.contains(word), "{before} -> {after}: {text}");
        }
    };
    let immutable = "spec.topicName is immutable";
    refuse(
        "shrinks",
        "{partitions: 12}",
        "{partitions: 3}",
        &["spec.partitions", "cannot go down from 12 to 3"],
    );
    refuse("renamed", "{topicName: a}", "{topicName: b}", &[immutable]);
    refuse("named", "{}", "{topicName: b}", &[immutable]);
    refuse("unnamed", "{topicName: a}", "{}", &[immutable]);
    // The same name said otherwise, more partitions, and none said at all.
    kube.apply(&manifest("same", "{topicName: same, partitions: 1}"));
    kube.apply(&manifest("same", "{partitions: 5}"));
    kube.apply(&manifest("same", "{}"));
}

fn explains(kube: &KubeApi) {
    // Explain takes the dots of a key for steps; the parent lists all keys with their texts.
    let text = kube.kubectl(["explain", "topic.spec.config"]).run();
    for words in [
        "retention.ms",
        "Age limit",
        "7d, 36h",
        "log.retention.ms",
        "Not a topic setting",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let text = kube.kubectl(["explain", "topic", "--recursive"]).run();
    for words in [
        "deletionPolicy",
        "onLoss",
        "readersAtRisk",
        "enum: Refuse, Clamp, Allow",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let names = kube
        .kubectl([
            "api-resources",
            "--api-group=tidemark.dev",
            "--categories=tidemark",
            "--no-headers",
        ])
        .run();
    assert!(names.contains("tpc"), "{names}");
}

/// What is shipped is what the server stores: nothing for a GitOps tool to find different.
fn round_trip(kube: &KubeApi, file: &str) {
    let diff = kube.kubectl(["diff", "-f", file]).output();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

/// Objects stored under an older schema, which knew fewer rules, stay valid: they can be labelled, and edited in all but
/// the field that a new rule refuses.
fn upgrade(kube: &KubeApi, file: &str) {
    let mut old: Value = serde_json::to_value(crd::definition()).expect("JSON");
    let schema = &mut old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let config = schema["properties"]["config"]["properties"]
        .as_object_mut()
        .expect("keys");
    config.remove("remote.copy.lag.ms");
    let segment = config
        .get_mut("segment.bytes")
        .and_then(Value::as_object_mut)
        .expect("a key");
    segment.remove("minimum");
    segment.remove("x-kubernetes-validations");
    kube.kubectl(["replace", "-f", "-"])
        .run_with(old.to_string().as_bytes());
    crate::support::wait::eventually("the old schema", crate::support::wait::PATIENCE, || {
        let output = kube
            .kubectl(["apply", "-f", "-"])
            .output_with(manifest("old", "{config: {segment.bytes: 1000, retention.ms: 7d}}").as_bytes());
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    });
    kube.kubectl(["replace", "-f", file]).run();
    crate::support::wait::eventually("the new schema", crate::support::wait::PATIENCE, || {
        let output = kube
            .kubectl(["create", "--dry-run=server", "-f", "-"])
            .output_with(manifest("new", "{config: {segment.bytes: 1000}}").as_bytes());
        if output.status.success() {
            Err("still taken")
        } else {
            Ok(())
        }
    });
    kubectl(kube, ["label", "topic", "old", "team=shop"]).run();
    kube.apply(&manifest(
        "old",
        "{config: {segment.bytes: 1000, retention.ms: 8d}}",
    ));
    let stored = kube
        .kubectl(["get", "crd", crd::NAME, "-o", "jsonpath={.status.storedVersions}"])
        .run();
    assert_eq!(stored, "[\"v1alpha1\"]");
}

/// J11: the way from one stored version to the next, by the commands of the documentation: the old one cannot be dropped before it.
fn a_version_is_followed_by_the_next(kube: &KubeApi) {
    let mut both: Value = serde_json::to_value(crd::definition()).expect("JSON");
    let versions = both["spec"]["versions"].as_array_mut().expect("a list");
    let mut next = versions[0].clone();
    next["name"] = json!("v1beta1");
    versions[0]["storage"] = json!(false);
    versions.push(next);
    let mut dropped = both.clone();
    dropped["spec"]["versions"]
        .as_array_mut()
        .expect("a list")
        .remove(0);
    let replace = |definition: &Value| {
        kube.kubectl(["replace", "-f", "-"])
            .output_with(definition.to_string().as_bytes())
    };
    let topics = |version: &str| -> Vec<Value> {
        let kind = format!("topics.{version}.tidemark.dev");
        let list = crate::support::wait::eventually(version, crate::support::wait::PATIENCE, || {
            let output = kube.kubectl(["get", &kind, "-A", "-o", "json"]).output();
            serde_json::from_slice::<Value>(&output.stdout).map_err(|error| error.to_string())
        });
        let all = list["items"].as_array().expect("a list").iter();
        all.map(|topic| {
            json!([
                topic["metadata"]["uid"],
                topic["metadata"]["generation"],
                topic["spec"],
                topic["status"]
            ])
        })
        .collect()
    };
    let before = topics("v1alpha1");
    assert!(before.len() >= 3, "{before:?}");
    assert!(replace(&both).status.success());
    assert_eq!(topics("v1beta1"), before);
    assert_eq!(topics("v1alpha1"), before, "still served");
    let refused = replace(&dropped);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        told.contains("storedVersions") && told.contains("v1alpha1"),
        "{told}"
    );

    let documentation = std::fs::read_to_string(peers::source("deploy/docs/kubernetes.md")).expect("a file");
    let commands = documentation
        .split("```sh")
        .filter_map(|block| block.split("```").next())
        .find(|block| block.contains("storedVersions"))
        .expect("the documentation tells how");
    let path = std::env::var("PATH").expect("a path");
    Start::new("migration", "bash")
        .args(["-euo", "pipefail", "-c", commands])
        .env("PATH", format!("{}:{path}", peers::folder("kubectl").display()))
        .env("KUBECONFIG", kube.kubeconfig())
        .run();
    let answer = replace(&dropped);
    assert!(
        answer.status.success(),
        "{}",
        String::from_utf8_lossy(&answer.stderr)
    );
    assert_eq!(
        topics("v1beta1"),
        before,
        "J11: neither generation nor spec nor status has moved"
    );
}
