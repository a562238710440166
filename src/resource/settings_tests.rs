use super::*;

fn layer(values: &[(&str, &str)]) -> Overrides {
    values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn the_typed_defaults_are_those_of_the_table() {
    let all: Overrides = TOPIC_KEYS
        .iter()
        .filter_map(|key| Some((key.name.to_owned(), key.default?.to_owned())))
        .collect();
    assert_eq!(TopicSettings::resolve(&[&all]), Ok(TopicSettings::default()));
    assert_eq!(TopicSettings::resolve(&[]), Ok(TopicSettings::default()));
}

#[test]
fn each_key_that_is_acted_on_moves_a_typed_value() {
    for key in TOPIC_KEYS.iter().filter(|key| key.acted_on) {
        let other = match key.name {
            "cleanup.policy" => "compact",
            "compression.type" => "zstd",
            "message.timestamp.type" => "LogAppendTime",
            "preallocate" => "true",
            "compression.gzip.level" | "compression.lz4.level" | "compression.zstd.level" => "5",
            _ => "2000000",
        };
        let moved = TopicSettings::resolve(&[&layer(&[(key.name, other)])]).expect(key.name);
        assert_ne!(moved, TopicSettings::default(), "{} has no typed value", key.name);
    }
}

#[test]
fn the_later_layer_wins_key_by_key() {
    let engine = layer(&[("retention.ms", "1"), ("segment.ms", "2")]);
    let topic = layer(&[("retention.ms", "3")]);
    let partition = layer(&[("retention.bytes", "4")]);
    let settings = TopicSettings::resolve(&[&engine, &topic, &partition]).expect("valid");
    assert_eq!(
        (
            settings.retention_ms,
            settings.segment_ms,
            settings.retention_bytes
        ),
        (3, 2, 4)
    );
    let in_force = in_force(&[
        (ValueSource::EngineDefault, &engine),
        (ValueSource::Topic, &topic),
        (ValueSource::Partition, &partition),
    ]);
    let source = |key: &str| in_force.get(key).map(|setting| setting.source);
    assert_eq!(source("retention.ms"), Some(ValueSource::Topic));
    assert_eq!(source("segment.ms"), Some(ValueSource::EngineDefault));
    assert_eq!(source("retention.bytes"), Some(ValueSource::Partition));
    assert_eq!(source("preallocate"), Some(ValueSource::Default));
    assert_eq!(source("internal.segment.bytes"), None, "null by default");
}

#[test]
fn internal_segment_bytes_replaces_the_bounded_key_in_any_layer() {
    let settings = TopicSettings::resolve(&[
        &layer(&[("internal.segment.bytes", "500")]),
        &layer(&[("segment.bytes", "1048576")]),
    ]);
    assert_eq!(settings.expect("valid").segment_bytes, 500);
}

#[test]
fn compaction_lag_caps_the_life_of_a_segment_only_where_there_is_compaction() {
    let capped = TopicSettings::resolve(&[&layer(&[
        ("cleanup.policy", "compact"),
        ("max.compaction.lag.ms", "9"),
    ])]);
    assert_eq!(capped.expect("valid").effective_segment_ms(), 9);
    let free = TopicSettings::resolve(&[&layer(&[("max.compaction.lag.ms", "9")])]);
    assert_eq!(free.expect("valid").effective_segment_ms(), 604_800_000);
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    let lag = layer(&[("min.compaction.lag.ms", "2"), ("max.compaction.lag.ms", "1")]);
    assert!(matches!(
        TopicSettings::resolve(&[&lag]),
        Err(InvalidValue::Together(_))
    ));
    let tiered = layer(&[("remote.storage.enable", "true")]);
    assert!(matches!(canonical(&tiered), Err(InvalidValue::Together(_))));
    assert!(matches!(
        canonical(&layer(&[("segment.bytes", "100000")])),
        Err(InvalidValue::Value { .. })
    ));
    assert_eq!(
        canonical(&layer(&[("preallocate", "TRUE")])),
        Ok(layer(&[("preallocate", "true")]))
    );
}
