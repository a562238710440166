//! What `DescribeConfigs` says of a topic and of this broker: value, source and synonyms as a real broker gives them.
use crate::engine::config::EngineConfig;
use crate::engine::topics::record::Layers;
use crate::resource::keys::{Kind, TOPIC_KEYS, TopicKey};
use crate::wire::broker::{ConfigEntry, ConfigSource, ConfigSynonym, ConfigType};

/// Every key of a topic. Keys without a default are shown only where they are set.
pub fn topic(layers: &Layers) -> Vec<ConfigEntry> {
    TOPIC_KEYS
        .iter()
        .filter_map(|key| {
            let mut synonyms = broker_synonyms(key, layers.engine_defaults.get(key.name));
            if let Some(value) = layers.config.get(key.name) {
                synonyms.insert(0, synonym(key.name, value, ConfigSource::DynamicTopic));
            }
            let inherited = layers
                .engine_defaults
                .get(key.name)
                .map(String::as_str)
                .or(key.default);
            let (value, source) = match (layers.config.get(key.name), synonyms.first()) {
                (Some(value), _) => (value.clone(), ConfigSource::DynamicTopic),
                (None, Some(first)) => (inherited?.to_owned(), first.source),
                (None, None) => (inherited?.to_owned(), ConfigSource::Default),
            };
            Some(ConfigEntry {
                name: key.name.to_owned(),
                value: Some(value),
                source,
                read_only: false,
                kind: config_type(key.kind),
                synonyms,
                documentation: key.doc.to_owned(),
            })
        })
        .collect()
}

/// The settings of this broker that a client can make use of. They are given at start and cannot be changed over the wire.
pub fn broker(config: &EngineConfig) -> Vec<ConfigEntry> {
    let mut entries: Vec<ConfigEntry> = Vec::new();
    for key in TOPIC_KEYS {
        let Some(name) = key.broker_names.first() else {
            continue;
        };
        let given = config.defaults.get(key.name);
        let Some(value) = given.map(String::as_str).or(key.default) else {
            continue;
        };
        let source = match given {
            Some(_) => ConfigSource::StaticBroker,
            None => ConfigSource::Default,
        };
        entries.push(entry(name.name, value.to_owned(), source, config_type(key.kind)));
    }
    let check_interval = config.check_interval.as_millis().to_string();
    let offsets_retention = (config.offsets_retention.as_secs() / 60).to_string();
    let producer_expiration = config.producer_id_expiration.as_millis().to_string();
    let fixed = ConfigSource::StaticBroker;
    entries.extend([
        entry("node.id", config.node_id.to_string(), fixed, ConfigType::Int),
        entry("broker.id", config.node_id.to_string(), fixed, ConfigType::Int),
        entry(
            "num.partitions",
            config.default_partitions.to_string(),
            fixed,
            ConfigType::Int,
        ),
        entry(
            "default.replication.factor",
            "1".to_owned(),
            fixed,
            ConfigType::Int,
        ),
        entry(
            "auto.create.topics.enable",
            config.auto_create_topics.to_string(),
            fixed,
            ConfigType::Boolean,
        ),
        entry(
            "log.retention.check.interval.ms",
            check_interval,
            fixed,
            ConfigType::Long,
        ),
        entry(
            "offsets.retention.minutes",
            offsets_retention,
            fixed,
            ConfigType::Int,
        ),
        entry(
            "producer.id.expiration.ms",
            producer_expiration,
            fixed,
            ConfigType::Int,
        ),
        entry(
            "delete.topic.enable",
            "true".to_owned(),
            fixed,
            ConfigType::Boolean,
        ),
    ]);
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    entries
}

fn entry(name: &str, value: String, source: ConfigSource, kind: ConfigType) -> ConfigEntry {
    let synonyms = vec![synonym(name, &value, source)];
    ConfigEntry {
        name: name.to_owned(),
        value: Some(value),
        source,
        read_only: true,
        kind,
        synonyms,
        documentation: String::new(),
    }
}

/// The values below the topic's own. Kafka names the default under the broker setting, and has none under that name
/// where several settings compete (`log.retention.ms`, `.minutes`, `.hours`).
fn broker_synonyms(key: &TopicKey, engine_default: Option<&String>) -> Vec<ConfigSynonym> {
    let Some(name) = key.broker_names.first().map(|broker| broker.name) else {
        return Vec::new();
    };
    let mut synonyms = Vec::new();
    if let Some(value) = engine_default {
        synonyms.push(synonym(name, value, ConfigSource::StaticBroker));
        // The last of several competing settings has a default of its own, in its own unit.
        let competing = key.broker_names.get(1..).and_then(<[_]>::last);
        let default = key.default.and_then(|value| value.parse::<i64>().ok());
        if let (Some(last), Some(default)) = (competing, default)
            && let Some(value) = default.checked_div(last.factor)
        {
            synonyms.push(synonym(last.name, &value.to_string(), ConfigSource::Default));
        }
    }
    if let (Some(value), 1) = (key.default, key.broker_names.len()) {
        if key.name == "min.insync.replicas" && engine_default.is_none() {
            // A KRaft controller writes this one down for the whole cluster when it starts.
            synonyms.push(synonym(name, value, ConfigSource::DynamicDefaultBroker));
        }
        synonyms.push(synonym(name, value, ConfigSource::Default));
    }
    synonyms
}

fn synonym(name: &str, value: &str, source: ConfigSource) -> ConfigSynonym {
    ConfigSynonym {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        source,
    }
}

fn config_type(kind: Kind) -> ConfigType {
    match kind {
        Kind::Int => ConfigType::Int,
        Kind::Long => ConfigType::Long,
        Kind::Double => ConfigType::Double,
        Kind::Boolean => ConfigType::Boolean,
        Kind::String => ConfigType::String,
        Kind::List => ConfigType::List,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(entries: &'a [ConfigEntry], name: &str) -> &'a ConfigEntry {
        entries.iter().find(|entry| entry.name == name).unwrap()
    }

    fn sources(entry: &ConfigEntry) -> Vec<(&str, &str, ConfigSource)> {
        entry
            .synonyms
            .iter()
            .map(|synonym| {
                (
                    synonym.name.as_str(),
                    synonym.value.as_deref().unwrap(),
                    synonym.source,
                )
            })
            .collect()
    }

    #[test]
    fn sources_and_synonyms_are_those_of_a_broker() {
        let mut layers = Layers::default();
        let entries = topic(&layers);
        let retention = of(&entries, "retention.ms");
        assert_eq!(retention.source, ConfigSource::Default);
        assert_eq!(sources(retention), []);
        let segment = of(&entries, "segment.bytes");
        assert_eq!(segment.source, ConfigSource::Default);
        assert_eq!(
            sources(segment),
            [("log.segment.bytes", "1073741824", ConfigSource::Default)]
        );
        let replicas = of(&entries, "min.insync.replicas");
        assert_eq!(replicas.source, ConfigSource::DynamicDefaultBroker);
        assert!(!entries.iter().any(|entry| entry.name == "internal.segment.bytes"));

        layers
            .engine_defaults
            .insert("retention.ms".to_owned(), "5".to_owned());
        layers
            .config
            .insert("segment.bytes".to_owned(), "2097152".to_owned());
        let entries = topic(&layers);
        let retention = of(&entries, "retention.ms");
        assert_eq!(retention.value.as_deref(), Some("5"));
        assert_eq!(retention.source, ConfigSource::StaticBroker);
        assert_eq!(
            sources(retention),
            [
                ("log.retention.ms", "5", ConfigSource::StaticBroker),
                ("log.retention.hours", "168", ConfigSource::Default),
            ]
        );
        let segment = of(&entries, "segment.bytes");
        assert_eq!(segment.source, ConfigSource::DynamicTopic);
        assert_eq!(
            sources(segment),
            [
                ("segment.bytes", "2097152", ConfigSource::DynamicTopic),
                ("log.segment.bytes", "1073741824", ConfigSource::Default),
            ]
        );
    }

    #[test]
    fn a_broker_shows_its_defaults_once_each() {
        let mut config = EngineConfig::new("data");
        config.defaults.insert("retention.ms".to_owned(), "5".to_owned());
        let entries = broker(&config);
        assert_eq!(
            of(&entries, "log.retention.ms").source,
            ConfigSource::StaticBroker
        );
        assert_eq!(of(&entries, "log.segment.bytes").source, ConfigSource::Default);
        assert!(entries.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
