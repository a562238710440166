//! [`GroupService`] over the coordinator.
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Positions, Shared};
use crate::resource::contract::ReaderKind;
use crate::wire::error_code::ErrorCode;
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::{
    Client, CommitRequest, ConsumerHeartbeatReply, ConsumerHeartbeatRequest, DescribedConsumerGroup,
    DescribedGroup, FetchOffsetsReply, FetchOffsetsRequest, FetchPosition, HeartbeatRequest, JoinReply,
    JoinRequest, LeaveReply, LeavingMember, ListedGroup, PartitionResults, Refusal, SyncReply, SyncRequest,
};
use crate::wire::groups::output::{Reply, Token};

/// What a client is told when something could not be made durable: it is to try again.
const NOT_KEPT: ErrorCode = ErrorCode::CoordinatorNotAvailable;

/// A request that waits. Dropped with the connection, so that nobody waits for a client that has gone.
struct Waiting<'a> {
    shared: &'a Shared,
    token: Token,
    receiver: oneshot::Receiver<Reply>,
}

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        let (token, receiver) = shared.token();
        Self {
            shared,
            token,
            receiver,
        }
    }

    async fn reply(&mut self) -> Option<Reply> {
        if self.shared.draining.load(Ordering::SeqCst) {
            return self.receiver.try_recv().ok();
        }
        (&mut self.receiver).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.waiting.lock().remove(&self.token);
    }
}

impl Shared {
    /// Notes that whoever left, and still fetches what is on its way, did so for a group.
    fn note_leaving(&self, group_id: &str, members: &[LeavingMember]) {
        for leaving in members {
            let found = self.coordinator.lock().member(group_id, &leaving.member_id);
            if let Some((client, topics)) = found {
                let speaker = (Arc::from(group_id), Arc::from(leaving.member_id.as_str()));
                let topics = topics.iter().map(String::as_str);
                self.fetchers
                    .speaks(&client, &speaker, topics, self.now().monotonic_ms);
            }
        }
    }
}

impl GroupService for Positions {
    async fn join(&self, request: JoinRequest) -> JoinReply {
        let shared = &*self.shared;
        let member_id = request.member_id.clone();
        let mut waiting = Waiting::new(shared);
        let (now, token) = (shared.now(), waiting.token);
        shared.step(|coordinator, out| coordinator.join(now, token, request, Uuid::new_v4(), out));
        match waiting.reply().await {
            Some(Reply::Join(reply)) => reply,
            _ => JoinReply::refused(NOT_KEPT, member_id),
        }
    }

    async fn sync(&self, request: SyncRequest) -> SyncReply {
        let shared = &*self.shared;
        let mut waiting = Waiting::new(shared);
        let (now, token) = (shared.now(), waiting.token);
        shared.step(|coordinator, out| coordinator.sync(now, token, request, out));
        match waiting.reply().await {
            Some(Reply::Sync(reply)) => reply,
            _ => SyncReply::refused(NOT_KEPT),
        }
    }

    fn heartbeat(&self, request: HeartbeatRequest) -> Result<(), ErrorCode> {
        let now = self.shared.now();
        self.shared
            .step(|coordinator, _| coordinator.heartbeat(now, &request))
            .0
    }

    async fn leave(&self, group_id: &str, members: Vec<LeavingMember>) -> LeaveReply {
        let now = self.shared.now();
        self.shared.note_leaving(group_id, &members);
        let (reply, durable) = self
            .shared
            .step(|coordinator, out| coordinator.leave(now, group_id, &members, out));
        // A member that is gone is gone; if that could not be kept, a restart finds it and its session ends there.
        durable.wait().await;
        reply
    }

    async fn commit(&self, request: CommitRequest) -> PartitionResults {
        let shared = &*self.shared;
        let now = shared.now();
        let topics = request.topics.iter().map(|(topic, _)| topic.as_str());
        let speaker = (
            Arc::from(request.group_id.as_str()),
            Arc::from(request.member_id.as_str()),
        );
        shared
            .fetchers
            .speaks(&request.client, &speaker, topics, now.monotonic_ms);
        let (mut results, durable) = shared.step(|coordinator, out| coordinator.commit(now, request, out));
        if !durable.wait().await {
            not_kept(&mut results);
        }
        results
    }

    fn fetch_offsets(&self, request: FetchOffsetsRequest) -> FetchOffsetsReply {
        self.shared.coordinator.lock().fetch_offsets(request)
    }

    async fn delete_offsets(
        &self,
        group_id: &str,
        topics: Vec<(String, Vec<i32>)>,
    ) -> Result<PartitionResults, ErrorCode> {
        let (results, durable) = self
            .shared
            .step(|coordinator, out| coordinator.delete_offsets(group_id, topics, out));
        let mut results = results?;
        if !durable.wait().await {
            not_kept(&mut results);
        }
        Ok(results)
    }

    fn describe(&self, group_id: &str) -> Result<DescribedGroup, Refusal> {
        self.shared.coordinator.lock().describe(group_id)
    }

    fn list(&self, states: &[String], kinds: &[String]) -> Vec<ListedGroup> {
        self.shared.coordinator.lock().list(states, kinds)
    }

    async fn delete_groups(&self, group_ids: Vec<String>) -> Vec<Option<ErrorCode>> {
        let (results, durable) = self.shared.step(|coordinator, out| {
            let ids = group_ids.iter();
            ids.map(|id| coordinator.delete_group(id, out).err())
                .collect::<Vec<_>>()
        });
        if durable.wait().await {
            return results;
        }
        results
            .into_iter()
            .map(|error| error.or(Some(NOT_KEPT)))
            .collect()
    }

    async fn consumer_heartbeat(
        &self,
        request: ConsumerHeartbeatRequest,
    ) -> Result<ConsumerHeartbeatReply, Refusal> {
        let shared = &*self.shared;
        let now = shared.now();
        if request.member_epoch < 0 {
            let leaving = LeavingMember {
                member_id: request.member_id.clone(),
                instance_id: None,
                reason: None,
            };
            shared.note_leaving(&request.group_id, &[leaving]);
        }
        let new_id = Uuid::new_v4().to_string();
        let (reply, durable) =
            shared.step(|coordinator, out| coordinator.consumer_heartbeat(now, request, &new_id, out));
        // As with a classic group: members that a crash forgot join again.
        durable.wait().await;
        reply
    }

    fn consumer_describe(&self, group_id: &str) -> Result<DescribedConsumerGroup, Refusal> {
        self.shared.coordinator.lock().consumer_describe(group_id)
    }

    fn fetched(&self, client: &Client, positions: &[FetchPosition]) {
        let shared = &*self.shared;
        let Some((name, moved)) = shared.fetchers.fetched(client, positions, shared.now()) else {
            return;
        };
        if shared.fetchers.take_news() {
            shared.fetched_anew.notify_one();
        }
        let Some(listener) = shared.listener.read().clone() else {
            return;
        };
        for position in moved {
            let topic = shared.names.read().get(&position.topic_id).cloned();
            if let Some(topic) = topic {
                let (partition, offset) = (position.partition, position.offset);
                listener.moved(&topic, ReaderKind::Fetcher, &name, partition, offset);
            }
        }
    }

    fn disconnected(&self, client: &Client) {
        self.shared.fetchers.disconnected(client);
    }
}

fn not_kept(results: &mut PartitionResults) {
    for (_, partitions) in results {
        for (_, error) in partitions {
            error.get_or_insert(NOT_KEPT);
        }
    }
}
