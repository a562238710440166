//! The APIs, one file each, and the lists of who answers which.
pub mod alter_configs;
pub mod api_versions;
mod config_resources;
pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_acls;
pub mod describe_client_quotas;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_producers;
pub mod describe_topic_partitions;
pub mod describe_user_scram_credentials;
pub mod elect_leaders;
pub mod find_coordinator;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod list_partition_reassignments;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod sasl_handshake;
pub mod sync_group;

use kafka_protocol::messages::TopicName;
use kafka_protocol::protocol::StrBytes;

use crate::wire::broker::Broker;
use crate::wire::error_code::ErrorCode;
use crate::wire::groups::GroupService;
use crate::wire::registry::Entry;
use crate::wire::{fetch, produce};

/// What an authorized-operations field holds when it was not asked for, or cannot be told: there is no authorizer.
pub const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

/// Text as the protocol crate holds it.
pub fn text(text: impl Into<String>) -> StrBytes {
    StrBytes::from_string(text.into())
}

/// Nullable text as the protocol crate holds it.
pub fn optional(text: Option<String>) -> Option<StrBytes> {
    text.map(StrBytes::from_string)
}

/// The number of an error that may be none.
pub fn group_code(error: Option<ErrorCode>) -> i16 {
    error.unwrap_or(ErrorCode::None).code()
}

/// A topic's name as the protocol crate holds it.
pub fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// Everything that is served.
pub fn all<S: Broker + GroupService>() -> Vec<Entry<S>> {
    let mut entries = broker_apis();
    entries.extend(group_apis());
    entries
}

/// The APIs a [`Broker`] answers. One line each.
pub fn broker_apis<S: Broker>() -> Vec<Entry<S>> {
    vec![
        api_versions::entry(),
        produce::entry(),
        fetch::entry(),
        Entry::of::<list_offsets::ListOffsets>(),
        Entry::of::<metadata::Metadata>(),
        Entry::of::<offset_for_leader_epoch::OffsetForLeaderEpoch>(),
        Entry::of::<init_producer_id::InitProducerId>(),
        Entry::of::<create_topics::CreateTopics>(),
        Entry::of::<delete_topics::DeleteTopics>(),
        Entry::of::<create_partitions::CreatePartitions>(),
        Entry::of::<delete_records::DeleteRecords>(),
        Entry::of::<describe_configs::DescribeConfigs>(),
        Entry::of::<alter_configs::AlterConfigs>(),
        Entry::of::<incremental_alter_configs::IncrementalAlterConfigs>(),
        Entry::of::<list_config_resources::ListConfigResources>(),
        Entry::of::<describe_cluster::DescribeCluster>(),
        Entry::of::<describe_log_dirs::DescribeLogDirs>(),
        Entry::of::<describe_producers::DescribeProducers>(),
        Entry::of::<describe_topic_partitions::DescribeTopicPartitions>(),
        Entry::of::<list_partition_reassignments::ListPartitionReassignments>(),
        Entry::of::<elect_leaders::ElectLeaders>(),
        Entry::of::<describe_acls::DescribeAcls>(),
        Entry::of::<sasl_handshake::SaslHandshake>(),
        Entry::of::<describe_client_quotas::DescribeClientQuotas>(),
        Entry::of::<describe_user_scram_credentials::DescribeUserScramCredentials>(),
    ]
}

/// The APIs a [`GroupService`] answers. One line each.
pub fn group_apis<S: Broker + GroupService>() -> Vec<Entry<S>> {
    vec![
        Entry::of::<offset_commit::OffsetCommit>(),
        Entry::of::<offset_fetch::OffsetFetch>(),
        Entry::of::<find_coordinator::FindCoordinator>(),
        Entry::of::<join_group::JoinGroup>(),
        Entry::of::<heartbeat::Heartbeat>(),
        Entry::of::<leave_group::LeaveGroup>(),
        Entry::of::<sync_group::SyncGroup>(),
        Entry::of::<describe_groups::DescribeGroups>(),
        Entry::of::<list_groups::ListGroups>(),
        Entry::of::<delete_groups::DeleteGroups>(),
        Entry::of::<offset_delete::OffsetDelete>(),
        Entry::of::<consumer_group_heartbeat::ConsumerGroupHeartbeat>(),
        Entry::of::<consumer_group_describe::ConsumerGroupDescribe>(),
    ]
}

#[cfg(test)]
mod every_api_tests;
#[cfg(test)]
mod every_group_api_tests;
#[cfg(test)]
mod topics_tests;
