//! Groups, as the protocol asks for them: everything goes to whoever keeps positions.
use crate::engine::Engine;
use crate::wire::error_code::ErrorCode;
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::{
    Client, CommitRequest, ConsumerHeartbeatReply, ConsumerHeartbeatRequest, DescribedConsumerGroup,
    DescribedGroup, FetchOffsetsReply, FetchOffsetsRequest, FetchPosition, HeartbeatRequest, JoinReply,
    JoinRequest, LeaveReply, LeavingMember, ListedGroup, PartitionResults, Refusal, SyncReply, SyncRequest,
};

impl GroupService for Engine {
    async fn join(&self, request: JoinRequest) -> JoinReply {
        self.positions.join(request).await
    }

    async fn sync(&self, request: SyncRequest) -> SyncReply {
        self.positions.sync(request).await
    }

    fn heartbeat(&self, request: HeartbeatRequest) -> Result<(), ErrorCode> {
        self.positions.heartbeat(request)
    }

    async fn leave(&self, group_id: &str, members: Vec<LeavingMember>) -> LeaveReply {
        self.positions.leave(group_id, members).await
    }

    async fn commit(&self, request: CommitRequest) -> PartitionResults {
        self.positions.commit(request).await
    }

    fn fetch_offsets(&self, request: FetchOffsetsRequest) -> FetchOffsetsReply {
        self.positions.fetch_offsets(request)
    }

    async fn delete_offsets(
        &self,
        group_id: &str,
        topics: Vec<(String, Vec<i32>)>,
    ) -> Result<PartitionResults, ErrorCode> {
        self.positions.delete_offsets(group_id, topics).await
    }

    fn describe(&self, group_id: &str) -> Result<DescribedGroup, Refusal> {
        self.positions.describe(group_id)
    }

    fn list(&self, states: &[String], kinds: &[String]) -> Vec<ListedGroup> {
        self.positions.list(states, kinds)
    }

    async fn delete_groups(&self, group_ids: Vec<String>) -> Vec<Option<ErrorCode>> {
        self.positions.delete_groups(group_ids).await
    }

    async fn consumer_heartbeat(
        &self,
        request: ConsumerHeartbeatRequest,
    ) -> Result<ConsumerHeartbeatReply, Refusal> {
        self.positions.consumer_heartbeat(request).await
    }

    fn consumer_describe(&self, group_id: &str) -> Result<DescribedConsumerGroup, Refusal> {
        self.positions.consumer_describe(group_id)
    }

    fn fetched(&self, client: &Client, positions: &[FetchPosition]) {
        self.positions.fetched(client, positions);
    }

    fn disconnected(&self, client: &Client) {
        self.positions.disconnected(client);
    }
}
