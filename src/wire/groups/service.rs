//! The seam between the protocol's handlers and whoever keeps groups.
use std::future::Future;

use crate::wire::error_code::ErrorCode;

use super::messages::{
    Client, CommitRequest, ConsumerHeartbeatReply, ConsumerHeartbeatRequest, DescribedConsumerGroup,
    DescribedGroup, FetchOffsetsReply, FetchOffsetsRequest, FetchPosition, HeartbeatRequest, JoinReply,
    JoinRequest, LeaveReply, LeavingMember, ListedGroup, PartitionResults, Refusal, SyncReply, SyncRequest,
};

/// A group coordinator. Every answer that changes something kept is given only once it is durable.
pub trait GroupService: Send + Sync + 'static {
    /// JoinGroup; answered when the rebalance completes.
    fn join(&self, request: JoinRequest) -> impl Future<Output = JoinReply> + Send;

    /// SyncGroup; answered when the leader's assignment is there.
    fn sync(&self, request: SyncRequest) -> impl Future<Output = SyncReply> + Send;

    /// Heartbeat.
    fn heartbeat(&self, request: HeartbeatRequest) -> Result<(), ErrorCode>;

    /// LeaveGroup, for one or several members.
    fn leave(&self, group_id: &str, members: Vec<LeavingMember>) -> impl Future<Output = LeaveReply> + Send;

    /// OffsetCommit; a partition without an error is durable.
    fn commit(&self, request: CommitRequest) -> impl Future<Output = PartitionResults> + Send;

    /// OffsetFetch for one group.
    fn fetch_offsets(&self, request: FetchOffsetsRequest) -> FetchOffsetsReply;

    /// OffsetDelete.
    fn delete_offsets(
        &self,
        group_id: &str,
        topics: Vec<(String, Vec<i32>)>,
    ) -> impl Future<Output = Result<PartitionResults, ErrorCode>> + Send;

    /// DescribeGroups for one group; an unknown one, or one of the newer protocol, is refused.
    fn describe(&self, group_id: &str) -> Result<DescribedGroup, Refusal>;

    /// ListGroups; an empty filter lets everything through, names are compared without case.
    fn list(&self, states: &[String], kinds: &[String]) -> Vec<ListedGroup>;

    /// DeleteGroups: one result per group in the order asked.
    fn delete_groups(&self, group_ids: Vec<String>) -> impl Future<Output = Vec<Option<ErrorCode>>> + Send;

    /// ConsumerGroupHeartbeat.
    fn consumer_heartbeat(
        &self,
        request: ConsumerHeartbeatRequest,
    ) -> impl Future<Output = Result<ConsumerHeartbeatReply, Refusal>> + Send;

    /// ConsumerGroupDescribe for one group.
    fn consumer_describe(&self, group_id: &str) -> Result<DescribedConsumerGroup, Refusal>;

    /// What a Fetch asked for: how consumers without a group are known. Cheap, and called for every fetch
    /// of a consumer (never for a replica's).
    fn fetched(&self, client: &Client, positions: &[FetchPosition]);

    /// The connection ended; its fetch positions give way to those of the client's next connection.
    fn disconnected(&self, client: &Client);
}
