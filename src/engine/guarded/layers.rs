//! What of a change the guard decides about, and what becomes of it when it is held back in part. Pure.
use std::collections::{BTreeMap, BTreeSet};

use crate::engine::topics::record::Layers;
use crate::resource::settings::Overrides;
use crate::retention::Rules;

/// The keys that decide what a pass deletes. One edit of them goes in entirely or not at all; every other key goes in at
/// once.
const GUARDED_KEYS: [&str; 9] = [
    "cleanup.policy",
    "internal.segment.bytes",
    "max.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "tidemark.ignore.timestamps.ahead.ms",
];

fn is_guarded(key: &str) -> bool {
    GUARDED_KEYS.contains(&key)
}

/// What goes in of `proposed` while its guarded keys are held back: those stay as in force.
pub fn unguarded_part(in_force: &Layers, proposed: &Layers) -> Layers {
    let partitions: BTreeSet<i32> = in_force
        .partition_config
        .keys()
        .chain(proposed.partition_config.keys())
        .copied()
        .collect();
    let none = Overrides::new();
    Layers {
        engine_defaults: merge(&in_force.engine_defaults, &proposed.engine_defaults),
        config: merge(&in_force.config, &proposed.config),
        partition_config: partitions
            .into_iter()
            .map(|partition| {
                let of = |layers: &Layers| layers.partition_config.get(&partition).unwrap_or(&none).clone();
                (partition, merge(&of(in_force), &of(proposed)))
            })
            .filter(|(_, overrides)| !overrides.is_empty())
            .collect(),
    }
}

fn merge(in_force: &Overrides, proposed: &Overrides) -> Overrides {
    let held = in_force.iter().filter(|(key, _)| is_guarded(key));
    let applied = proposed.iter().filter(|(key, _)| !is_guarded(key));
    held.chain(applied)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// `proposed`, with the partitions in `clamped` at the limits that lose nothing.
pub fn with_clamped(proposed: &Layers, clamped: &BTreeMap<i32, Rules>) -> Layers {
    let mut layers = proposed.clone();
    for (partition, rules) in clamped {
        let Ok(asked) = proposed
            .settings(*partition)
            .map(|settings| Rules::from(&settings))
        else {
            continue;
        };
        let own = layers.partition_config.entry(*partition).or_default();
        let mut set = |key: &str, value: i64| own.insert(key.to_owned(), value.to_string());
        if rules.retention_ms != asked.retention_ms {
            set("retention.ms", rules.retention_ms);
        }
        if rules.retention_bytes != asked.retention_bytes {
            set("retention.bytes", rules.retention_bytes);
        }
        if rules.segment_ms != asked.segment_ms {
            set("segment.ms", rules.segment_ms);
        }
        if rules.segment_bytes != asked.segment_bytes {
            // Below Kafka's minimum for `segment.bytes` only the internal key holds the value.
            set("internal.segment.bytes", rules.segment_bytes);
        }
        if rules.ignore_ahead_ms != asked.ignore_ahead_ms {
            set("tidemark.ignore.timestamps.ahead.ms", rules.ignore_ahead_ms);
        }
        if own.is_empty() {
            layers.partition_config.remove(partition);
        }
    }
    layers
}

/// Whether `new` could delete anything that `old` would keep, on a log that nobody can look at.
pub fn might_lower(old: &Rules, new: &Rules) -> bool {
    let shorter = |old: Option<i64>, new: Option<i64>| match (old, new) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(old), Some(new)) => new < old,
    };
    shorter(old.age_limit_ms(), new.age_limit_ms())
        || shorter(old.size_limit_bytes(), new.size_limit_bytes())
        || shorter(old.ignored_ahead_ms(), new.ignored_ahead_ms())
        || new.segment_ms < old.segment_ms
        || new.segment_bytes < old.segment_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(pairs: &[(&str, &str)]) -> Overrides {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn layers(config: &[(&str, &str)], partition: Option<(i32, &[(&str, &str)])>) -> Layers {
        Layers {
            engine_defaults: Overrides::new(),
            config: overrides(config),
            partition_config: partition
                .map(|(number, own)| (number, overrides(own)))
                .into_iter()
                .collect(),
        }
    }

    #[test]
    fn held_back_means_held_back_key_by_key_in_every_layer() {
        let in_force = layers(
            &[("retention.ms", "10"), ("flush.ms", "5")],
            Some((1, &[("retention.ms", "20")])),
        );
        let proposed = layers(
            &[("retention.bytes", "1"), ("max.message.bytes", "9")],
            Some((2, &[("segment.ms", "1"), ("flush.ms", "7")])),
        );
        let part = unguarded_part(&in_force, &proposed);
        assert_eq!(
            part.config,
            overrides(&[("retention.ms", "10"), ("max.message.bytes", "9")])
        );
        assert_eq!(part.partition_config[&1], overrides(&[("retention.ms", "20")]));
        assert_eq!(part.partition_config[&2], overrides(&[("flush.ms", "7")]));
        for partition in 0..3 {
            let rules = |layers: &Layers| Rules::from(&layers.settings(partition).unwrap());
            assert_eq!(rules(&part), rules(&in_force));
        }
    }

    #[test]
    fn a_clamp_overrides_only_what_differs_and_only_where_it_is_held() {
        let ahead = "tidemark.ignore.timestamps.ahead.ms";
        let proposed = layers(
            &[
                ("retention.ms", "10"),
                ("retention.bytes", "100"),
                (ahead, "60000"),
            ],
            None,
        );
        let asked = Rules::from(&proposed.settings(0).unwrap());
        let clamped = Rules {
            retention_ms: 50,
            segment_bytes: 700,
            ignore_ahead_ms: -1,
            ..asked
        };
        let with = with_clamped(&proposed, &[(1, clamped), (2, asked)].into());
        assert_eq!(Rules::from(&with.settings(1).unwrap()), clamped);
        assert_eq!(Rules::from(&with.settings(0).unwrap()), asked);
        assert_eq!(with.partition_config.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(
            with.partition_config[&1],
            overrides(&[
                ("retention.ms", "50"),
                ("internal.segment.bytes", "700"),
                (ahead, "-1")
            ])
        );
    }

    #[test]
    fn any_shorter_limit_might_lower_and_a_longer_one_does_not() {
        let old = Rules::default();
        let with = |change: fn(&mut Rules)| {
            let mut rules = old;
            change(&mut rules);
            rules
        };
        assert!(might_lower(&old, &with(|rules| rules.retention_bytes = 5)));
        assert!(might_lower(&old, &with(|rules| rules.retention_ms -= 1)));
        assert!(might_lower(&old, &with(|rules| rules.segment_ms -= 1)));
        assert!(might_lower(&old, &with(|rules| rules.ignore_ahead_ms = 60_000)));
        assert!(!might_lower(&with(|rules| rules.ignore_ahead_ms = 60_000), &old));
        assert!(might_lower(&with(|rules| rules.delete = false), &old));
        assert!(!might_lower(&old, &old));
        assert!(!might_lower(&old, &with(|rules| rules.retention_ms = -1)));
        assert!(!might_lower(&old, &with(|rules| rules.delete = false)));
    }
}
