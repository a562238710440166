use super::*;

#[test]
fn the_shipped_definition_is_what_the_types_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crds/topics.tidemark.dev.yaml");
    let yaml = yaml().expect("prints");
    if std::env::var_os("TIDEMARK_UPDATE").is_some() {
        std::fs::write(path, &yaml).expect("writes");
    }
    let shipped = std::fs::read_to_string(path).expect("crds/topics.tidemark.dev.yaml");
    assert!(
        shipped == yaml,
        "crds/ is out of date: run `tidemark crd > crds/topics.tidemark.dev.yaml`"
    );
}

#[test]
fn the_definition_fits_in_the_annotation_of_a_client_side_apply() {
    let json = serde_json::to_string(&definition()).expect("prints");
    assert!(
        json.len() < 200_000,
        "{} bytes; the annotation takes 262144",
        json.len()
    );
}
