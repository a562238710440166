//! The settings that decide what a pass deletes.
use crate::resource::settings::TopicSettings;

/// One partition's retention settings, resolved: no unit, no default and no override left to look up.
///
/// `Default` is Kafka's: `cleanup.policy=delete`, seven days, no size limit, weekly segments of one GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Whether `cleanup.policy` contains `delete`. Without it neither age nor size deletes anything.
    pub delete: bool,
    /// `retention.ms` in milliseconds; negative is no limit, 0 is a limit.
    pub retention_ms: i64,
    /// `retention.bytes` per partition; negative is no limit, 0 is a limit.
    pub retention_bytes: i64,
    /// `segment.ms` in milliseconds: the age at which the active segment is closed.
    pub segment_ms: i64,
    /// `segment.bytes`: the size at which the active segment is closed.
    pub segment_bytes: i64,
    /// `tidemark.ignore.timestamps.ahead.ms`: timestamps further ahead of now than this do not count for a segment's age; negative is off.
    pub ignore_ahead_ms: i64,
}

impl Default for Rules {
    fn default() -> Self {
        const WEEK_MS: i64 = 7 * 24 * 60 * 60 * 1000;
        Self {
            delete: true,
            retention_ms: WEEK_MS,
            retention_bytes: -1,
            segment_ms: WEEK_MS,
            segment_bytes: 1 << 30,
            ignore_ahead_ms: -1,
        }
    }
}

impl From<&TopicSettings> for Rules {
    fn from(settings: &TopicSettings) -> Self {
        // A topic that is also compacted closes its segments by `max.compaction.lag.ms` too (Kafka's `LogConfig.maxSegmentMs`).
        let segment_ms = if settings.cleanup_policy.compact {
            settings.segment_ms.min(settings.max_compaction_lag_ms)
        } else {
            settings.segment_ms
        };
        Self {
            delete: settings.cleanup_policy.delete,
            retention_ms: settings.retention_ms,
            retention_bytes: settings.retention_bytes,
            segment_ms,
            segment_bytes: settings.segment_bytes,
            ignore_ahead_ms: settings.ignore_timestamps_ahead_ms,
        }
    }
}

impl Rules {
    /// Rules that delete nothing by age or size.
    pub fn unlimited() -> Self {
        Self {
            retention_ms: -1,
            retention_bytes: -1,
            ..Self::default()
        }
    }

    /// The age limit in milliseconds where one is in effect.
    pub fn age_limit_ms(&self) -> Option<i64> {
        (self.delete && self.retention_ms >= 0).then_some(self.retention_ms)
    }

    /// The size limit in bytes where one is in effect.
    pub fn size_limit_bytes(&self) -> Option<i64> {
        (self.delete && self.retention_bytes >= 0).then_some(self.retention_bytes)
    }

    /// How far ahead of now a timestamp may lie and still count, where there is such a bound.
    pub fn ignored_ahead_ms(&self) -> Option<i64> {
        (self.ignore_ahead_ms >= 0).then_some(self.ignore_ahead_ms)
    }

    /// Whether a timestamp is so far ahead of `now_ms` that it does not count.
    pub fn ignores(&self, timestamp: i64, now_ms: i64) -> bool {
        self.ignored_ahead_ms()
            .is_some_and(|ahead| timestamp > now_ms.saturating_add(ahead))
    }

    /// Whether something last written at `time_ms` is older than the age limit: strictly, as in Kafka's
    /// `UnifiedLog.deleteRetentionMsBreachedSegments`. Never, where there is no age limit.
    pub fn is_expired(&self, time_ms: i64, now_ms: i64) -> bool {
        self.age_limit_ms()
            .is_some_and(|limit| now_ms.saturating_sub(time_ms) > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_kafkas_default() {
        assert_eq!(Rules::from(&TopicSettings::default()), Rules::default());
    }

    #[test]
    fn without_the_delete_policy_there_is_no_limit() {
        let rules = Rules {
            delete: false,
            retention_ms: 0,
            retention_bytes: 0,
            ..Rules::default()
        };
        assert_eq!(
            (
                rules.age_limit_ms(),
                rules.size_limit_bytes(),
                rules.is_expired(0, i64::MAX)
            ),
            (None, None, false)
        );
    }
}
