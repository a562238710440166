//! What GitOps tools make of a Topic: kstatus by its own library, Argo CD by our health script.
use serde_json::Value;

use crate::support::peers;
use crate::support::process::Start;

fn ask(object: &Value, script: Option<&str>) -> (String, String) {
    let mut start = Start::new("kstatus", peers::executable("kstatus"));
    if let Some(script) = script {
        start = start.arg(peers::source(script));
    }
    let answer: Value = serde_json::from_str(&start.run_with(object.to_string().as_bytes())).expect("JSON");
    let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

/// kstatus of an object: Current, InProgress, Failed, Terminating, …
pub fn kstatus(object: &Value) -> String {
    ask(object, None).0
}

/// Health by `deploy/argocd/health.lua`: Healthy, Progressing, Degraded, Suspended.
pub fn argocd(object: &Value) -> String {
    ask(object, Some("deploy/argocd/health.lua")).0
}

/// The script stands in two files; they are the same.
#[test]
fn the_config_map_holds_the_health_script() {
    let read = |path: &str| std::fs::read_to_string(peers::source(path)).expect("a file of the tree");
    let map: Value = serde_yaml::from_str(&read("deploy/argocd/argocd-cm.yaml")).expect("YAML");
    assert_eq!(
        map["data"]["resource.customizations.health.tidemark.dev_Topic"],
        read("deploy/argocd/health.lua")
    );
}
