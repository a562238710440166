use super::*;
use crate::wire::broker::ConfigEdit;
use crate::wire::error_code::ErrorCode;

fn overrides(pairs: &[(&str, &str)]) -> Overrides {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn edit(name: &str, operation: ConfigOperation, value: Option<&str>) -> ConfigChange {
    ConfigChange::Edit(vec![ConfigEdit {
        name: name.to_owned(),
        operation,
        value: value.map(str::to_owned),
    }])
}

#[test]
fn a_replacement_resets_what_it_does_not_name() {
    let current = overrides(&[("retention.ms", "1000"), ("segment.ms", "50")]);
    let change = ConfigChange::Replace(vec![("retention.ms".to_owned(), Some(" 2000 ".to_owned()))]);
    assert_eq!(
        apply(&current, &change).unwrap(),
        overrides(&[("retention.ms", "2000")])
    );
}

#[test]
fn an_edit_touches_one_key() {
    let current = overrides(&[("retention.ms", "1000"), ("segment.ms", "50")]);
    let set = apply(&current, &edit("retention.ms", ConfigOperation::Set, Some("-1"))).unwrap();
    assert_eq!(set, overrides(&[("retention.ms", "-1"), ("segment.ms", "50")]));
    let deleted = apply(&current, &edit("retention.ms", ConfigOperation::Delete, None)).unwrap();
    assert_eq!(deleted, overrides(&[("segment.ms", "50")]));
}

#[test]
fn lists_grow_and_shrink_and_nothing_else_does() {
    let name = "leader.replication.throttled.replicas";
    let grown = apply(
        &overrides(&[(name, "0:1")]),
        &edit(name, ConfigOperation::Append, Some("0:1,1:1")),
    )
    .unwrap();
    assert_eq!(grown, overrides(&[(name, "0:1,1:1")]));
    let shrunk = apply(&grown, &edit(name, ConfigOperation::Subtract, Some("0:1"))).unwrap();
    assert_eq!(shrunk, overrides(&[(name, "1:1")]));
    let error = apply(
        &Overrides::new(),
        &edit("retention.ms", ConfigOperation::Append, Some("1")),
    )
    .unwrap_err();
    assert_eq!(error.error_code(), ErrorCode::InvalidConfig);
}

#[test]
fn what_is_wrong_gets_kafkas_code() {
    let none = Overrides::new();
    for (name, operation, value, code) in [
        (
            "retention.ms",
            ConfigOperation::Set,
            None,
            ErrorCode::InvalidRequest,
        ),
        (
            "retention.ms",
            ConfigOperation::Set,
            Some("x"),
            ErrorCode::InvalidConfig,
        ),
        (
            "retention.ms",
            ConfigOperation::Set,
            Some("-2"),
            ErrorCode::InvalidConfig,
        ),
        (
            "log.retention.ms",
            ConfigOperation::Set,
            Some("1"),
            ErrorCode::InvalidConfig,
        ),
        (
            "segment.bytes",
            ConfigOperation::Set,
            Some("100000"),
            ErrorCode::InvalidConfig,
        ),
        (
            "cleanup.policy",
            ConfigOperation::Set,
            Some("compact"),
            ErrorCode::InvalidConfig,
        ),
        (
            "cleanup.policy",
            ConfigOperation::Append,
            Some("compact"),
            ErrorCode::InvalidConfig,
        ),
    ] {
        let error = apply(&none, &edit(name, operation, value)).unwrap_err();
        assert_eq!(error.error_code(), code, "{name} {value:?}: {error}");
    }
    let error = apply(
        &none,
        &edit("cleanup.policy", ConfigOperation::Set, Some("delete,compact")),
    )
    .unwrap_err();
    assert!(error.to_string().contains("not supported yet"), "{error}");
}
