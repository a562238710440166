//! OffsetFetch (9): how far groups have read.
use std::sync::Arc;

use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName};

use crate::wire::apis::text;
use crate::wire::error_code::ErrorCode;
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::{FetchOffsetsRequest, FetchedOffset};
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The first version that asks for several groups.
const BATCHED_SINCE: i16 = 8;
/// The first version with an error for the whole group.
const GROUP_ERROR_SINCE: i16 = 2;
const LEADER_EPOCH_SINCE: i16 = 5;
const MEMBER_SINCE: i16 = 9;

/// The API.
#[derive(Debug)]
pub struct OffsetFetch;

impl<S: GroupService> Api<S> for OffsetFetch {
    type Request = OffsetFetchRequest;
    const NAME: &'static str = "OffsetFetch";
    const MIN: i16 = 1;
    const MAX: i16 = 9;
    const SCHEMA: Schema = requests::OFFSET_FETCH;

    async fn handle(groups: Arc<S>, call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse {
        if call.version >= BATCHED_SINCE {
            of_several_groups(&*groups, call.version, request)
        } else {
            of_one_group(&*groups, call.version, request)
        }
    }
}

/// Nothing committed is offset -1 without an error.
fn nothing() -> FetchedOffset {
    FetchedOffset {
        offset: -1,
        leader_epoch: -1,
        metadata: String::new(),
    }
}

fn of_several_groups<S: GroupService>(
    groups: &S,
    version: i16,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    let answers = request.groups.into_iter().map(|asked| {
        let topics = asked.topics.map(|topics| {
            let topics = topics
                .into_iter()
                .map(|topic| (topic.name.to_string(), topic.partition_indexes));
            topics.collect()
        });
        let result = groups.fetch_offsets(FetchOffsetsRequest {
            group_id: asked.group_id.to_string(),
            member_id: asked
                .member_id
                .filter(|_| version >= MEMBER_SINCE)
                .map(|id| id.to_string()),
            member_epoch: if version >= MEMBER_SINCE {
                asked.member_epoch
            } else {
                -1
            },
            topics,
        });
        let answer = OffsetFetchResponseGroup::default().with_group_id(asked.group_id);
        match result {
            Err(error) => answer.with_error_code(error.code()),
            Ok(topics) => {
                let topics = topics.into_iter().map(|(topic, partitions)| {
                    let partitions = partitions.into_iter().map(|(partition, committed)| {
                        let committed = committed.unwrap_or_else(nothing);
                        OffsetFetchResponsePartitions::default()
                            .with_partition_index(partition)
                            .with_committed_offset(committed.offset)
                            .with_committed_leader_epoch(committed.leader_epoch)
                            .with_metadata(Some(text(committed.metadata)))
                    });
                    OffsetFetchResponseTopics::default()
                        .with_name(TopicName(text(topic)))
                        .with_partitions(partitions.collect())
                });
                answer.with_topics(topics.collect())
            }
        }
    });
    OffsetFetchResponse::default().with_groups(answers.collect())
}

fn of_one_group<S: GroupService>(
    groups: &S,
    version: i16,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    let topics: Option<Vec<(String, Vec<i32>)>> = request.topics.map(|topics| {
        let topics = topics
            .into_iter()
            .map(|topic| (topic.name.to_string(), topic.partition_indexes));
        topics.collect()
    });
    let result = groups.fetch_offsets(FetchOffsetsRequest {
        group_id: request.group_id.to_string(),
        member_id: None,
        member_epoch: -1,
        topics: topics.clone(),
    });
    let response = OffsetFetchResponse::default();
    let (topics, error) = match result {
        Ok(topics) => (topics, None),
        Err(error) if version >= GROUP_ERROR_SINCE => return response.with_error_code(error.code()),
        // Version 1 can only say it for each partition.
        Err(error) => {
            let asked = topics.unwrap_or_default().into_iter();
            let topics = asked.map(|(topic, partitions)| {
                let partitions = partitions.into_iter().map(|partition| (partition, None));
                (topic, partitions.collect())
            });
            (topics.collect(), Some(error))
        }
    };
    let topics = topics.into_iter().map(|(topic, partitions)| {
        let partitions = partitions.into_iter().map(|(partition, committed)| {
            let committed = committed.unwrap_or_else(nothing);
            let answer = OffsetFetchResponsePartition::default()
                .with_partition_index(partition)
                .with_committed_offset(committed.offset)
                .with_metadata(Some(text(committed.metadata)))
                .with_error_code(error.map_or(0, ErrorCode::code));
            if version >= LEADER_EPOCH_SINCE {
                answer.with_committed_leader_epoch(committed.leader_epoch)
            } else {
                answer
            }
        });
        OffsetFetchResponseTopic::default()
            .with_name(TopicName(text(topic)))
            .with_partitions(partitions.collect())
    });
    response.with_topics(topics.collect())
}
