use super::*;

#[test]
fn the_table_is_sorted_and_each_default_is_valid_and_canonical() {
    assert!(TOPIC_KEYS.is_sorted_by(|one, other| one.name < other.name));
    for key in TOPIC_KEYS {
        if let Some(default) = key.default {
            assert_eq!(key.parse(default).as_deref(), Ok(default), "{}", key.name);
            assert_eq!(
                key.parse_with_units(default).as_deref(),
                Ok(default),
                "{}",
                key.name
            );
        }
        assert!(
            key.unit == Unit::None || matches!(key.kind, Kind::Int | Kind::Long),
            "{}",
            key.name
        );
        assert!(key.doc.ends_with('.'), "{}", key.name);
    }
}

/// What a running Kafka 4.4.0 showed.
#[test]
fn values_are_read_as_kafka_reads_them() {
    for (key, text, canonical) in [
        ("retention.ms", " 7000 ", "7000"),
        ("retention.ms", "+7000", "7000"),
        ("retention.ms", "007000", "7000"),
        ("retention.ms", "-1", "-1"),
        ("retention.bytes", "-5", "-5"),
        ("preallocate", "TRUE", "true"),
        ("preallocate", " False ", "false"),
        ("min.cleanable.dirty.ratio", "0", "0.0"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", ".25", "0.25"),
        ("min.cleanable.dirty.ratio", "0.00001", "1.0E-5"),
        ("cleanup.policy", "delete,delete", "delete"),
        ("cleanup.policy", "compact , delete", "compact,delete"),
        ("cleanup.policy", "", ""),
        ("compression.type", "zstd", "zstd"),
        ("leader.replication.throttled.replicas", "*", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:0", "0:1,1:0"),
        ("internal.segment.bytes", "500", "500"),
        ("max.decompressed.message.bytes", "2147483639", "2147483639"),
    ] {
        assert_eq!(parse(key, text).as_deref(), Ok(canonical), "{key}={text:?}");
    }
    for (key, text, part) in [
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.ms", "7d", "Not a number of type LONG"),
        ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("segment.bytes", "100000", "Value must be at least 1048576"),
        ("segment.bytes", "2147483648", "Not a number of type INT"),
        ("segment.index.bytes", "11", "at least 12"),
        ("cleanup.policy", "delete,", "must not be empty"),
        ("cleanup.policy", "Delete", "one of: compact, delete"),
        ("compression.type", "ZSTD", "one of: uncompressed, zstd"),
        (
            "message.timestamp.type",
            "createtime",
            "one of: CreateTime, LogAppendTime",
        ),
        ("preallocate", "yes", "true or false"),
        ("min.cleanable.dirty.ratio", "1.1", "no more than 1"),
        ("min.cleanable.dirty.ratio", "NaN", "Not a number of type DOUBLE"),
        ("leader.replication.throttled.replicas", "0-1", "partition:broker"),
        ("compression.zstd.level", "23", "no more than 22"),
    ] {
        let error = parse(key, text).expect_err(text).to_string();
        assert!(
            error.contains(part) && error.contains(key),
            "{key}={text:?}: {error}"
        );
    }
    assert_eq!(
        parse("segment.bytes", "100000")
            .expect_err("too small")
            .to_string(),
        "Invalid value 100000 for configuration segment.bytes: Value must be at least 1048576"
    );
}

#[test]
fn manifests_may_use_units_where_the_number_has_one() {
    assert_eq!(parse_with_units("retention.ms", "7d").as_deref(), Ok("604800000"));
    assert_eq!(
        parse_with_units("retention.bytes", "2Gi").as_deref(),
        Ok("2147483648")
    );
    assert_eq!(parse_with_units("segment.bytes", "1Mi").as_deref(), Ok("1048576"));
    assert!(
        parse_with_units("segment.bytes", "2Gi")
            .expect_err("int")
            .to_string()
            .contains("at most 2147483647")
    );
    assert!(
        parse_with_units("segment.bytes", "1000k")
            .expect_err("low")
            .to_string()
            .contains("at least 1048576")
    );
    assert!(
        parse_with_units("flush.messages", "10k").is_err(),
        "records have no unit"
    );
    assert!(
        parse_with_units("retention.ms", "6.048e+08")
            .expect_err("e")
            .to_string()
            .contains("6.048e+08")
    );
}

#[test]
fn wrong_names_get_the_right_one() {
    let hint_of = |name: &str| hint(name).unwrap_or_default();
    assert!(hint_of("log.retention.ms").ends_with("write retention.ms"));
    assert!(hint_of("log.retention.hours").contains("write retention.ms, in milliseconds or with a unit"));
    assert!(hint_of("log.segment.bytes").contains("segment.bytes"));
    assert!(hint_of("message.max.bytes").contains("max.message.bytes"));
    assert!(hint_of("message.format.version").contains("removed"));
    assert_eq!(hint_of("retention_ms"), "did you mean retention.ms?");
    assert_eq!(hint_of("retentionBytes"), "write retention.bytes");
    assert_eq!(hint_of("cleanup.polcy"), "did you mean cleanup.policy?");
    assert_eq!(hint("colour"), None);
    assert_eq!(hint(&"x".repeat(10_000)), None);
    let error = parse("log.retention.ms", "1000")
        .expect_err("broker name")
        .to_string();
    assert!(
        error.starts_with("Unknown topic config name: log.retention.ms; that is the broker's name"),
        "{error}"
    );
    for wrong in wrong_names() {
        assert!(
            topic_key(&wrong.name).is_none(),
            "{} is a topic setting",
            wrong.name
        );
    }
}

#[test]
fn the_text_of_an_error_stays_bounded() {
    let error = parse("retention.ms", &"9".repeat(1_000_000))
        .expect_err("long")
        .to_string();
    assert!(error.len() < 400);
}
