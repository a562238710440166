//! The APIs, one file each, and the lists of who answers which.
pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod delete_groups;
pub mod describe_groups;
pub mod find_coordinator;
pub mod heartbeat;
pub mod join_group;
pub mod leave_group;
pub mod list_groups;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod sync_group;

use kafka_protocol::protocol::StrBytes;

use crate::wire::broker::Broker;
use crate::wire::error_code::ErrorCode;
use crate::wire::groups::GroupService;
use crate::wire::registry::Entry;

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

/// The APIs a [`Broker`] answers. One line each.
pub fn broker_apis<S: Broker>() -> Vec<Entry<S>> {
    vec![Entry::of::<metadata::Metadata>()]
}
