//! OffsetDelete (47): forget how far a group has read.
use std::sync::Arc;

use kafka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse, TopicName};

use crate::wire::apis::{group_code, text};
use crate::wire::groups::GroupService;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct OffsetDelete;

impl<S: GroupService> Api<S> for OffsetDelete {
    type Request = OffsetDeleteRequest;
    const NAME: &'static str = "OffsetDelete";
    const MIN: i16 = 0;
    const MAX: i16 = 0;
    const SCHEMA: Schema = requests::OFFSET_DELETE;

    async fn handle(groups: Arc<S>, _call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse {
        let topics = request.topics.into_iter().map(|topic| {
            let partitions = topic
                .partitions
                .into_iter()
                .map(|partition| partition.partition_index);
            (topic.name.to_string(), partitions.collect())
        });
        let result = groups.delete_offsets(&request.group_id, topics.collect()).await;
        let response = OffsetDeleteResponse::default();
        match result {
            Err(error) => response.with_error_code(error.code()),
            Ok(results) => {
                let topics = results.into_iter().map(|(topic, partitions)| {
                    let partitions = partitions.into_iter().map(|(partition, error)| {
                        OffsetDeleteResponsePartition::default()
                            .with_partition_index(partition)
                            .with_error_code(group_code(error))
                    });
                    OffsetDeleteResponseTopic::default()
                        .with_name(TopicName(text(topic)))
                        .with_partitions(partitions.collect())
                });
                response.with_topics(topics.collect())
            }
        }
    }
}
