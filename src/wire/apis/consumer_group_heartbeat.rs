//! ConsumerGroupHeartbeat (68, KIP-848): the one message of a member of the newer protocol.
use std::sync::Arc;

use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use crate::wire::apis::text;
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::ConsumerHeartbeatRequest;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct ConsumerGroupHeartbeat;

impl<S: GroupService> Api<S> for ConsumerGroupHeartbeat {
    type Request = ConsumerGroupHeartbeatRequest;
    const NAME: &'static str = "ConsumerGroupHeartbeat";
    const MIN: i16 = 0;
    const MAX: i16 = 1;
    const SCHEMA: Schema = requests::CONSUMER_GROUP_HEARTBEAT;

    async fn handle(
        groups: Arc<S>,
        call: Call,
        request: ConsumerGroupHeartbeatRequest,
    ) -> ConsumerGroupHeartbeatResponse {
        let subscribed_topics = request
            .subscribed_topic_names
            .map(|names| names.iter().map(|name| name.to_string()).collect());
        let owned = request.topic_partitions.map(|topics| {
            let topics = topics.into_iter().map(|topic| (topic.topic_id, topic.partitions));
            topics.collect()
        });
        let result = groups
            .consumer_heartbeat(ConsumerHeartbeatRequest {
                group_id: request.group_id.to_string(),
                member_id: request.member_id.to_string(),
                member_epoch: request.member_epoch,
                instance_id: request.instance_id.map(|id| id.to_string()),
                rack_id: request.rack_id.map(|id| id.to_string()),
                rebalance_timeout_ms: request.rebalance_timeout_ms,
                subscribed_topics,
                subscribed_regex: request.subscribed_topic_regex.map(|regex| regex.to_string()),
                server_assignor: request.server_assignor.map(|name| name.to_string()),
                owned,
                client: (*call.client).clone(),
                version: call.version,
            })
            .await;
        let response = ConsumerGroupHeartbeatResponse::default();
        match result {
            Err(refusal) => response
                .with_error_code(refusal.code.code())
                .with_error_message(Some(text(refusal.message))),
            Ok(reply) => {
                let assignment = reply.assignment.map(|topics| {
                    let topics = topics.into_iter().map(|(topic_id, partitions)| {
                        TopicPartitions::default()
                            .with_topic_id(topic_id)
                            .with_partitions(partitions)
                    });
                    Assignment::default().with_topic_partitions(topics.collect())
                });
                response
                    .with_member_id(Some(text(reply.member_id)))
                    .with_member_epoch(reply.member_epoch)
                    .with_heartbeat_interval_ms(reply.heartbeat_interval_ms)
                    .with_assignment(assignment)
            }
        }
    }
}
