//! DescribeTopicPartitions (75): Metadata in pages, for clients that describe many partitions (KIP-966).
//!
//! Topics come in the order of their names; the cursor names the first partition of the next page.
use std::sync::Arc;

use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicName,
};

use crate::wire::apis::{OPERATIONS_NOT_ASKED, topic_name};
use crate::wire::broker::{Broker, Topic};
use crate::wire::error_code::ErrorCode;
use crate::wire::partition::Partition;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The most partitions of one page (`max.request.partition.size.limit`).
const LARGEST_PAGE: usize = 2_000;

/// The API.
#[derive(Debug)]
pub struct DescribeTopicPartitions;

impl<S: Broker> Api<S> for DescribeTopicPartitions {
    type Request = DescribeTopicPartitionsRequest;
    const NAME: &'static str = "DescribeTopicPartitions";
    const MIN: i16 = 0;
    const MAX: i16 = 0;
    const SCHEMA: Schema = requests::DESCRIBE_TOPIC_PARTITIONS;

    async fn handle(
        broker: Arc<S>,
        _call: Call,
        request: DescribeTopicPartitionsRequest,
    ) -> DescribeTopicPartitionsResponse {
        let node = BrokerId(broker.node_id());
        let mut names: Vec<TopicName> = if request.topics.is_empty() {
            broker
                .topics()
                .iter()
                .map(|topic| topic_name(&topic.name))
                .collect()
        } else {
            request.topics.into_iter().map(|topic| topic.name).collect()
        };
        names.sort_unstable();
        names.dedup();
        let (first_topic, first_partition) = match request.cursor {
            Some(cursor) => (
                cursor.topic_name,
                usize::try_from(cursor.partition_index).unwrap_or(0),
            ),
            None => (TopicName::default(), 0),
        };
        let asked = usize::try_from(request.response_partition_limit).unwrap_or(0);
        let mut left = asked.clamp(1, LARGEST_PAGE);
        let mut topics = Vec::new();
        let mut next = None;
        for name in names.into_iter().filter(|name| *name >= first_topic) {
            let skip = if name == first_topic { first_partition } else { 0 };
            let Some(topic) = broker.topic(&name) else {
                topics.push(missing(name));
                continue;
            };
            if left == 0 {
                next = Some(cursor(name, skip));
                break;
            }
            let rest = topic.partitions.get(skip..).unwrap_or_default();
            let page = rest.get(..left.min(rest.len())).unwrap_or_default();
            topics.push(describe(&topic, page, node));
            left -= page.len();
            if page.len() < rest.len() {
                next = Some(cursor(name, skip + page.len()));
                break;
            }
        }
        DescribeTopicPartitionsResponse::default()
            .with_topics(topics)
            .with_next_cursor(next)
    }
}

fn cursor(name: TopicName, partition: usize) -> Cursor {
    Cursor::default()
        .with_topic_name(name)
        .with_partition_index(i32::try_from(partition).unwrap_or(i32::MAX))
}

fn missing(name: TopicName) -> DescribeTopicPartitionsResponseTopic {
    let code = match crate::resource::names::check(&name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic::default()
        .with_error_code(code.code())
        .with_name(Some(name))
        .with_topic_authorized_operations(OPERATIONS_NOT_ASKED)
}

fn describe(topic: &Topic, page: &[Arc<Partition>], node: BrokerId) -> DescribeTopicPartitionsResponseTopic {
    let partitions = page.iter().map(|partition| {
        let described = DescribeTopicPartitionsResponsePartition::default()
            .with_partition_index(partition.index())
            .with_leader_epoch(partition.leader_epoch())
            .with_replica_nodes(vec![node])
            .with_eligible_leader_replicas(Some(Vec::new()))
            .with_last_known_elr(Some(Vec::new()));
        if partition.log().is_some() {
            described.with_leader_id(node).with_isr_nodes(vec![node])
        } else {
            described
                .with_error_code(ErrorCode::LeaderNotAvailable.code())
                .with_leader_id(BrokerId(-1))
                .with_offline_replicas(vec![node])
        }
    });
    DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(topic_name(&topic.name)))
        .with_topic_id(topic.id)
        .with_is_internal(topic.internal)
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(OPERATIONS_NOT_ASKED)
}
