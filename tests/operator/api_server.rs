//! The API server itself: that it is the version we think it is, and that it stands where the other tests need it to.
use crate::support::kube::KubeApi;
use crate::support::wait::PATIENCE;

#[test]
fn objects_survive_restarts_and_rights_are_enforced() {
    let mut kube = KubeApi::start();
    let version = kube.kubectl(["version", "-o", "json"]).run();
    let version: serde_json::Value = serde_json::from_str(&version).expect("JSON");
    for side in ["clientVersion", "serverVersion"] {
        assert_eq!(version[side]["gitVersion"], "v1.36.3", "{side}");
    }
    kube.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\ndata: {key: value}\n");
    kube.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: nobody}\n");

    kube.stop_api();
    kube.stop_etcd();
    kube.start_etcd();
    kube.start_api();
    let get = ["get", "configmap", "kept", "-o", "jsonpath={.data.key}"];
    kube.eventually("the object", PATIENCE, get, |text| text == "value");

    let stranger = kube.kubeconfig_of_service_account("default", "nobody");
    let output = kube
        .kubectl(["get", "configmaps"])
        .env("KUBECONFIG", stranger)
        .output();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("system:serviceaccount:default:nobody"),
        "{stderr}"
    );
    assert!(!output.status.success());

    kube.kill_api();
    kube.start_api();
    kube.eventually("the object", PATIENCE, get, |text| text == "value");
}
