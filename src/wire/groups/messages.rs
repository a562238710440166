//! What a caller asks of the group coordinator and what it is answered.
//!
//! These are the shapes of the protocol without its versions: a handler in [`crate::wire::apis`] turns one
//! version's request into one of these and the answer back into that version's reply. Times are
//! milliseconds, offsets are Kafka's, a missing commit is `None` and never -1.
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

pub use crate::wire::broker::Refusal;
use crate::wire::error_code::ErrorCode;

/// Who sent a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Client {
    /// The client id of the request header; empty when it was null.
    pub id: Arc<str>,
    /// The peer's address without its port, printed as Kafka does: `/192.0.2.7`.
    pub host: Arc<str>,
    /// Unlike for any two connections of one process.
    pub connection: u64,
}

/// A group protocol a member supports, with what it wants the leader to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedProtocol {
    /// Name, for example `range`.
    pub name: String,
    /// Opaque to the coordinator; for the protocol type `consumer` a subscription.
    pub metadata: Bytes,
}

/// JoinGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRequest {
    /// The group; an empty one is refused.
    pub group_id: String,
    /// Empty on the first join.
    pub member_id: String,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// Who asks.
    pub client: Client,
    /// Without a heartbeat for this long the member is removed; within the coordinator's bounds.
    pub session_timeout_ms: i32,
    /// How long a rebalance waits for the member; version 0 has none and uses the session timeout.
    pub rebalance_timeout_ms: i32,
    /// For example `consumer` or `connect`.
    pub protocol_type: String,
    /// In order of preference.
    pub protocols: Vec<OfferedProtocol>,
    /// Why it joins, for the log.
    pub reason: Option<String>,
    /// Version 4 and later: a dynamic member must come back with the id it is given (KIP-394).
    pub requires_known_member_id: bool,
    /// Version 9 and later: a static leader that comes back can be told not to assign anew (KIP-814).
    pub supports_skip_assignment: bool,
}

/// One member as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedMember {
    /// Member id.
    pub member_id: String,
    /// Static members only.
    pub instance_id: Option<String>,
    /// The member's metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// Answer to JoinGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinReply {
    /// None on success.
    pub error: Option<ErrorCode>,
    /// -1 on an error.
    pub generation_id: i32,
    /// The group's protocol type.
    pub protocol_type: Option<String>,
    /// The chosen protocol.
    pub protocol_name: Option<String>,
    /// Member id of the leader; empty on an error.
    pub leader: String,
    /// The leader need not assign: nothing changed (KIP-814).
    pub skip_assignment: bool,
    /// The member's id; with MEMBER_ID_REQUIRED the one to come back with.
    pub member_id: String,
    /// Only the leader is given the members.
    pub members: Vec<JoinedMember>,
}

impl JoinReply {
    /// A refusal that names the member id to go on with.
    pub fn refused(error: ErrorCode, member_id: impl Into<String>) -> Self {
        Self {
            error: Some(error),
            generation_id: -1,
            protocol_type: None,
            protocol_name: None,
            leader: String::new(),
            skip_assignment: false,
            member_id: member_id.into(),
            members: Vec::new(),
        }
    }
}

/// SyncGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncRequest {
    /// The group.
    pub group_id: String,
    /// The generation the member joined.
    pub generation_id: i32,
    /// The member.
    pub member_id: String,
    /// Static members only.
    pub instance_id: Option<String>,
    /// Version 5 and later; must be the group's when given.
    pub protocol_type: Option<String>,
    /// Version 5 and later; must be the chosen one when given.
    pub protocol_name: Option<String>,
    /// From the leader only: member id and what it is to own.
    pub assignments: Vec<(String, Bytes)>,
}

/// Answer to SyncGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncReply {
    /// None on success.
    pub error: Option<ErrorCode>,
    /// The group's protocol type.
    pub protocol_type: Option<String>,
    /// The chosen protocol.
    pub protocol_name: Option<String>,
    /// What the leader assigned to this member, byte for byte.
    pub assignment: Bytes,
}

impl SyncReply {
    /// A refusal.
    pub fn refused(error: ErrorCode) -> Self {
        Self {
            error: Some(error),
            protocol_type: None,
            protocol_name: None,
            assignment: Bytes::new(),
        }
    }
}

/// Heartbeat of a classic member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatRequest {
    /// The group.
    pub group_id: String,
    /// The generation the member is in.
    pub generation_id: i32,
    /// The member.
    pub member_id: String,
    /// Static members only.
    pub instance_id: Option<String>,
}

/// A member named in LeaveGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeavingMember {
    /// May be empty when an instance id is given (an administrator removes a static member).
    pub member_id: String,
    /// Static members only.
    pub instance_id: Option<String>,
    /// Why, for the log.
    pub reason: Option<String>,
}

/// Answer to LeaveGroup: the group's error, or one result per member in the order asked.
pub type LeaveReply = Result<Vec<Option<ErrorCode>>, ErrorCode>;

/// One partition of an OffsetCommit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitPartition {
    /// Partition index.
    pub partition: i32,
    /// The next offset to read; not checked against the log, as in Kafka.
    pub offset: i64,
    /// Leader epoch of the last record read, -1 when unknown.
    pub leader_epoch: i32,
    /// The client's own note.
    pub metadata: Option<String>,
}

/// OffsetCommit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitRequest {
    /// The group; may be empty.
    pub group_id: String,
    /// Generation or, for the newer protocol, member epoch; negative for a standalone commit.
    pub generation_or_epoch: i32,
    /// Empty for a standalone commit.
    pub member_id: String,
    /// Static members only.
    pub instance_id: Option<String>,
    /// Versions 2 to 4: keep for this long, -1 for the engine's own retention.
    pub retention_time_ms: i64,
    /// Who asks.
    pub client: Client,
    /// Request version; the error for an unknown group depends on it.
    pub version: i16,
    /// Topics and partitions.
    pub topics: Vec<(String, Vec<CommitPartition>)>,
}

/// Topics with a result for each partition, in the order asked.
pub type PartitionResults = Vec<(String, Vec<(i32, Option<ErrorCode>)>)>;

/// A committed position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedOffset {
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch at commit, -1 when unknown.
    pub leader_epoch: i32,
    /// The client's own note.
    pub metadata: String,
}

/// OffsetFetch for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchOffsetsRequest {
    /// The group; may be empty.
    pub group_id: String,
    /// Version 9 and later, for members of the newer protocol.
    pub member_id: Option<String>,
    /// Version 9 and later; -1 when not a member.
    pub member_epoch: i32,
    /// None asks for everything the group committed.
    pub topics: Option<Vec<(String, Vec<i32>)>>,
}

/// Answer to OffsetFetch for one group; `None` where nothing is committed.
pub type FetchOffsetsReply = Result<Vec<(String, Vec<(i32, Option<FetchedOffset>)>)>, ErrorCode>;

/// A member in DescribeGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedMember {
    /// Member id.
    pub member_id: String,
    /// Static members only.
    pub instance_id: Option<String>,
    /// Client id at the last join.
    pub client_id: String,
    /// Address at the last join.
    pub client_host: String,
    /// Metadata for the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    /// Assignment; empty unless the group is stable.
    pub assignment: Bytes,
}

/// A classic group in DescribeGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedGroup {
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Stable` or `Dead`.
    pub state: &'static str,
    /// Empty for a group that only ever committed.
    pub protocol_type: String,
    /// The chosen protocol; empty unless the group is stable.
    pub protocol: String,
    /// Its members.
    pub members: Vec<DescribedMember>,
}

/// A group in ListGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// The group.
    pub group_id: String,
    /// `consumer` for consumers of either protocol; empty for a group that only ever committed.
    pub protocol_type: String,
    /// State, as Kafka prints it.
    pub state: &'static str,
    /// `classic` or `consumer`.
    pub kind: &'static str,
}

/// Partitions by topic id.
pub type TopicPartitions = Vec<(Uuid, Vec<i32>)>;

/// ConsumerGroupHeartbeat (KIP-848). `None` means "as in my last heartbeat".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerHeartbeatRequest {
    /// The group.
    pub group_id: String,
    /// Chosen by the member (version 1), or empty on the first heartbeat of version 0.
    pub member_id: String,
    /// 0 joins, -1 leaves, -2 leaves for a while (static members).
    pub member_epoch: i32,
    /// Static members only.
    pub instance_id: Option<String>,
    /// Where the member runs.
    pub rack_id: Option<String>,
    /// How long the coordinator waits for the member to give partitions up; -1 unchanged.
    pub rebalance_timeout_ms: i32,
    /// Subscribed topics by name.
    pub subscribed_topics: Option<Vec<String>>,
    /// Subscribed topics by pattern (version 1); empty drops the pattern.
    pub subscribed_regex: Option<String>,
    /// `uniform` or `range`.
    pub server_assignor: Option<String>,
    /// What the member owns now.
    pub owned: Option<TopicPartitions>,
    /// Who asks.
    pub client: Client,
    /// Request version.
    pub version: i16,
}

/// Answer to ConsumerGroupHeartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerHeartbeatReply {
    /// The member's id.
    pub member_id: String,
    /// The epoch to go on with.
    pub member_epoch: i32,
    /// How often to come back.
    pub heartbeat_interval_ms: i32,
    /// What the member is to own; `None` where it did not change.
    pub assignment: Option<TopicPartitions>,
}

/// A member in ConsumerGroupDescribe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConsumer {
    /// Member id.
    pub member_id: String,
    /// Static members only.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// Its epoch.
    pub member_epoch: i32,
    /// Client id.
    pub client_id: String,
    /// Address.
    pub client_host: String,
    /// Subscribed topics by name.
    pub subscribed_topics: Vec<String>,
    /// Subscribed topics by pattern.
    pub subscribed_regex: Option<String>,
    /// Topic id, name and partitions it owns.
    pub assignment: Vec<(Uuid, String, Vec<i32>)>,
    /// Topic id, name and partitions it is to own.
    pub target: Vec<(Uuid, String, Vec<i32>)>,
}

/// A group in ConsumerGroupDescribe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConsumerGroup {
    /// `Empty`, `Assigning`, `Reconciling`, `Stable` or `Dead`.
    pub state: &'static str,
    /// Grows with every change of members or subscriptions.
    pub group_epoch: i32,
    /// Epoch of the target assignment.
    pub assignment_epoch: i32,
    /// `uniform` or `range`.
    pub assignor: String,
    /// Its members.
    pub members: Vec<DescribedConsumer>,
}

/// A position asked for in Fetch: topic id, partition and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchPosition {
    /// The topic's id as the engine knows it, whatever the request named.
    pub topic_id: Uuid,
    /// Partition index.
    pub partition: i32,
    /// The offset asked for.
    pub offset: i64,
}
