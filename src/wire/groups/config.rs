//! Bounds and defaults of the coordinator, each under the name of Kafka's broker setting.

/// Settings of the group coordinator. Durations are milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`: how long an empty group waits for more members to come.
    pub initial_rebalance_delay_ms: i64,
    /// How long a member that was never answered may wait in a rebalance: it cannot send heartbeats, and its
    /// connection may have gone unnoticed.
    pub new_member_join_timeout_ms: i64,
    /// `group.max.size` and `group.consumer.max.size`; also how many member ids may be handed out and not used yet.
    pub max_size: usize,
    /// Groups there may be. Kafka knows no such bound.
    pub max_groups: usize,
    /// What the members of one group may hold in memory, bytes. Kafka's bound is what one record of its offsets topic takes.
    pub max_group_bytes: usize,
    /// What all groups and positions together may hold in memory, bytes.
    pub max_bytes: usize,
    /// `offset.metadata.max.bytes`
    pub max_metadata_bytes: usize,
    /// `offsets.retention.minutes`
    pub offsets_retention_ms: i64,
    /// `group.consumer.session.timeout.ms`
    pub consumer_session_timeout_ms: i64,
    /// `group.consumer.heartbeat.interval.ms`
    pub consumer_heartbeat_interval_ms: i32,
    /// Positions that went with their topic or by age and are still remembered for the guard, at most.
    pub max_former_positions: usize,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            new_member_join_timeout_ms: 300_000,
            max_size: 10_000,
            max_groups: 100_000,
            max_group_bytes: 32 << 20,
            max_bytes: 256 << 20,
            max_metadata_bytes: 4_096,
            offsets_retention_ms: 7 * 24 * 3_600_000,
            consumer_session_timeout_ms: 45_000,
            consumer_heartbeat_interval_ms: 5_000,
            max_former_positions: 100_000,
        }
    }
}
