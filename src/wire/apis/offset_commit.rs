//! OffsetCommit (8): remember how far a group has read.
use std::sync::Arc;

use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse, TopicName};

use crate::wire::apis::{group_code, text};
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::{CommitPartition, CommitRequest};
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// Versions in which a commit can ask for a retention of its own.
const RETENTION_UNTIL: i16 = 4;
const LEADER_EPOCH_SINCE: i16 = 6;

/// The API.
#[derive(Debug)]
pub struct OffsetCommit;

impl<S: GroupService> Api<S> for OffsetCommit {
    type Request = OffsetCommitRequest;
    const NAME: &'static str = "OffsetCommit";
    const MIN: i16 = 2;
    const MAX: i16 = 9;
    const SCHEMA: Schema = requests::OFFSET_COMMIT;

    async fn handle(groups: Arc<S>, call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse {
        let topics = request.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.into_iter().map(|partition| CommitPartition {
                partition: partition.partition_index,
                offset: partition.committed_offset,
                leader_epoch: if call.version >= LEADER_EPOCH_SINCE {
                    partition.committed_leader_epoch
                } else {
                    -1
                },
                metadata: partition.committed_metadata.map(|metadata| metadata.to_string()),
            });
            (topic.name.to_string(), partitions.collect())
        });
        let results = groups
            .commit(CommitRequest {
                group_id: request.group_id.to_string(),
                generation_or_epoch: request.generation_id_or_member_epoch,
                member_id: request.member_id.to_string(),
                instance_id: request.group_instance_id.map(|id| id.to_string()),
                retention_time_ms: if call.version <= RETENTION_UNTIL {
                    request.retention_time_ms
                } else {
                    -1
                },
                client: (*call.client).clone(),
                version: call.version,
                topics: topics.collect(),
            })
            .await;
        let topics = results.into_iter().map(|(topic, partitions)| {
            let partitions = partitions.into_iter().map(|(partition, error)| {
                OffsetCommitResponsePartition::default()
                    .with_partition_index(partition)
                    .with_error_code(group_code(error))
            });
            OffsetCommitResponseTopic::default()
                .with_name(TopicName(text(topic)))
                .with_partitions(partitions.collect())
        });
        OffsetCommitResponse::default().with_topics(topics.collect())
    }
}
