//! Least privilege: what the API server saw the operator do is exactly what the Role of `deploy/` allows.
use std::collections::BTreeSet;

use serde_json::Value;

use crate::running::{NAMESPACE, Operator, PATIENCE, apply, gone, install, kubectl, ready};
use crate::stub::Stub;
use crate::support::kube::KubeApi;
use crate::support::peers;
use crate::support::temp::TempDir;
use crate::support::wait::until;

/// `group/resource[/subresource] verb`.
type Right = String;

/// What the first role of this kind in a file says.
fn allowed(file: &str, kind: &str) -> BTreeSet<Right> {
    let text = std::fs::read_to_string(peers::source(file)).expect("a file of the tree");
    let role: Value = text
        .split("---\n")
        .map(|document| serde_yaml::from_str::<Value>(document).expect("YAML"))
        .find(|document| document["kind"] == kind)
        .expect("a role");
    let mut rights = BTreeSet::new();
    let list = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    for rule in role["rules"].as_array().expect("rules") {
        assert_eq!(rule["apiGroups"].as_array().map(Vec::len), Some(1));
        for resource in list(&rule["resources"]) {
            for verb in list(&rule["verbs"]) {
                assert!(verb != "*" && resource != "*");
                rights.insert(format!(
                    "{}/{resource} {verb}",
                    rule["apiGroups"][0].as_str().unwrap_or_default()
                ));
            }
        }
    }
    rights
}

/// What the audit log says that the ServiceAccount did.
fn used(log: &str) -> BTreeSet<Right> {
    log.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["user"]["username"] == format!("system:serviceaccount:{NAMESPACE}:tidemark"))
        .filter_map(|event| {
            let object = &event["objectRef"];
            let code = event["responseStatus"]["code"].as_i64().unwrap_or_default();
            assert_ne!(code, 403, "not allowed and not needed: {event}");
            let resource = object["resource"].as_str()?;
            let resource = match object["subresource"].as_str() {
                Some(subresource) => format!("{resource}/{subresource}"),
                None => resource.to_owned(),
            };
            assert_eq!(object["namespace"], NAMESPACE, "{event}");
            Some(format!(
                "{}/{resource} {}",
                object["apiGroup"].as_str().unwrap_or_default(),
                event["verb"].as_str()?
            ))
        })
        .collect()
}

#[test]
fn each_right_is_used_and_nothing_more_is_asked_for() {
    let home = TempDir::new("audit");
    let (policy, log) = (home.join("policy.yaml"), home.join("audit.log"));
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";
    std::fs::write(&policy, text).expect("a file in our own folder");
    let flags = [
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
    ];
    let kube = KubeApi::start_with(&[&flags[0], &flags[1]]);
    install(&kube);
    let stub = Stub::start();
    let mut operator = Operator::start(&kube, &stub.control());
    // The whole of what an operator does: finalizers, statuses, events and their series, owners that are looked up, the lease.
    apply(
        &kube,
        "orders",
        "{config: {retention.ms: 7d}, deletionPolicy: Delete}",
    );
    ready(&kube, "orders", "True/Applied");
    apply(&kube, "second", "{topicName: orders}");
    ready(&kube, "second", "False/Conflict");
    // The same event again becomes a series of the first.
    for _ in 0..2 {
        stub.tell("HeadroomLow", "orders");
    }
    kubectl(&kube, ["delete", "topic", "orders"]).run();
    gone(&kube, "orders");
    ready(&kube, "second", "True/Applied");
    let wanted = allowed("deploy/rbac.yaml", "Role");
    until("each right to be used", PATIENCE, || {
        let text = std::fs::read_to_string(&log).expect("a log");
        let missing: Vec<_> = wanted.difference(&used(&text)).cloned().collect();
        missing.is_empty()
    });
    operator.stop();
    let text = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(used(&text), wanted);
}

/// The component of `deploy/all-namespaces` beside the base, as its comment says it is used. What it allows everywhere is what the Role
/// allows in one namespace, each right of which is used; but for the lease.
#[test]
fn the_component_for_all_namespaces_gives_the_rights_that_it_takes() {
    let mut everywhere = allowed("deploy/rbac.yaml", "Role");
    everywhere.retain(|right| !right.contains("/leases "));
    assert_eq!(
        allowed("deploy/all-namespaces/rbac.yaml", "ClusterRole"),
        everywhere
    );
    let kube = KubeApi::start();
    let overlay = TempDir::new("overlay");
    // Kustomize takes a base by a relative path only.
    let ups = overlay
        .path()
        .canonicalize()
        .expect("a folder")
        .components()
        .count()
        - 1;
    let deploy = format!("{}{}/deploy", "../".repeat(ups), &env!("CARGO_MANIFEST_DIR")[1..]);
    let text = format!("resources: [{deploy}]\ncomponents: [{deploy}/all-namespaces]\n");
    std::fs::write(overlay.join("kustomization.yaml"), text).expect("a file in our own folder");
    let folder = overlay.path().display().to_string();
    kube.kubectl(["apply", "-k", &folder]).run();
    let crd = [
        "wait",
        "--for=condition=Established",
        "--timeout=300s",
        "crd/topics.tidemark.dev",
    ];
    kube.kubectl(crd).run();
    // What the pod is told is the flag that is given here.
    let set = [
        "get",
        "statefulset",
        "-n",
        NAMESPACE,
        "tidemark",
        "-o",
        "jsonpath={.spec.template.spec.containers[?(@.name==\"operator\")].env[?(@.name==\"TIDEMARK_ALL_NAMESPACES\")].value}",
    ];
    assert_eq!(kube.kubectl(set).run(), "true");
    let stub = Stub::start();
    let rights = kube.kubeconfig_of_service_account(NAMESPACE, "tidemark");
    let _operator = Operator::start_with(
        &kube,
        &stub.control(),
        rights,
        "everywhere",
        &["--all-namespaces"],
    );
    kube.kubectl(["create", "namespace", "shop"]).run();
    for (namespace, name) in [(NAMESPACE, "orders"), ("shop", "clicks")] {
        let spec = "{config: {retention.ms: 7d}, deletionPolicy: Delete}";
        let text = crate::running::manifest(name, spec).replace(
            &format!("namespace: {NAMESPACE}"),
            &format!("namespace: {namespace}"),
        );
        kube.apply(&text);
        let topic = format!("topic/{name}");
        kube.kubectl([
            "wait",
            "-n",
            namespace,
            "--for=condition=Ready",
            "--timeout=300s",
            &topic,
        ])
        .run();
        kube.kubectl(["delete", "-n", namespace, "--timeout=300s", &topic])
            .run();
        assert!(!stub.engine().topics.contains_key(name));
    }
    until("the events of both", PATIENCE, || {
        let events = kube
            .kubectl(["get", "events.events.k8s.io", "-n", "shop", "-o", "name"])
            .output();
        !events.stdout.is_empty()
    });
}
