use super::*;
use crate::resource::contract::Outcome;

fn overrides(pairs: &[(&str, &str)]) -> Overrides {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn layered() -> Layers {
    Layers {
        engine_defaults: overrides(&[("retention.ms", "1000"), ("segment.ms", "50")]),
        config: overrides(&[("retention.ms", "2000")]),
        partition_config: [(3, overrides(&[("retention.ms", "3000")]))].into(),
    }
}

#[test]
fn the_highest_layer_wins_and_says_where_it_is() {
    let layers = layered();
    assert_eq!(layers.settings(0).unwrap().retention_ms, 2000);
    assert_eq!(layers.settings(3).unwrap().retention_ms, 3000);
    assert_eq!(layers.settings(3).unwrap().segment_ms, 50);
    let shown = layers.in_force();
    let sources: Vec<_> = shown
        .config
        .iter()
        .map(|(key, value)| (key.as_str(), value.value.as_str(), value.source))
        .collect();
    assert_eq!(
        sources,
        [
            ("retention.bytes", "-1", ValueSource::Default),
            ("retention.ms", "2000", ValueSource::Topic),
            ("segment.bytes", "1073741824", ValueSource::Default),
            ("segment.ms", "50", ValueSource::EngineDefault),
        ]
    );
    assert_eq!(shown.partition_config.len(), 1);
    assert_eq!(shown.partition_config[0].config["retention.ms"].value, "3000");
}

#[test]
fn a_record_survives_the_store() {
    let mut record = TopicRecord::new("orders", Uuid::new_v4(), 3, layered(), 7);
    record.directories = 3;
    assert_eq!(TopicRecord::decode(&record.encode()).unwrap(), record);
    assert!(TopicRecord::decode(b"{}").is_err());
}

#[test]
fn only_a_repeated_old_request_is_answered_from_memory() {
    let verdict = |message: &str| Verdict {
        verdict: Outcome::Applied,
        reason: "Applied".to_owned(),
        message: message.to_owned(),
        readers_checked: 0,
        partitions: Vec::new(),
        readers_at_risk: Vec::new(),
        more_readers_at_risk: 0,
        ignored: Vec::new(),
        in_force: InForce::default(),
        pending: false,
        created: false,
        topic_id: String::new(),
        partition_count: 1,
        not_applied: Vec::new(),
    };
    let mut record = TopicRecord::new("orders", Uuid::new_v4(), 1, Layers::default(), 0);
    record.answered("", &verdict("no id"));
    assert_eq!(record.requests.len(), 0);
    record.answered("1", &verdict("one"));
    assert_eq!(record.stale_answer("1"), None);
    record.answered("2", &verdict("two"));
    assert_eq!(
        record.stale_answer("1").map(|found| found.message.as_str()),
        Some("one")
    );
    assert_eq!(record.stale_answer("2"), None);
    assert_eq!(record.stale_answer("3"), None);
    for number in 3..100 {
        record.answered(&number.to_string(), &verdict("more"));
    }
    assert_eq!(record.requests.len(), REQUESTS_KEPT);
    assert_eq!(record.stale_answer("1"), None);
}
