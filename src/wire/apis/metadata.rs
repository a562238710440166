//! Metadata (3): brokers, topics, partitions, leaders.
//!
//! There is one broker, which leads everything and is its own in-sync set. The leader epoch it shows never goes back
//! (clients ignore older metadata); topics are created only where that is switched on.
use std::sync::Arc;

use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::wire::apis::{OPERATIONS_NOT_ASKED, text};
use crate::wire::broker::{Broker, NewTopic, Topic};
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The first version whose empty topic list means none instead of all.
const EMPTY_MEANS_NONE: i16 = 1;

/// The API.
#[derive(Debug)]
pub struct Metadata;

impl<S: Broker> Api<S> for Metadata {
    type Request = MetadataRequest;
    const NAME: &'static str = "Metadata";
    const MIN: i16 = 0;
    const MAX: i16 = 13;
    const SCHEMA: Schema = requests::METADATA;

    async fn handle(broker: Arc<S>, call: Call, request: MetadataRequest) -> MetadataResponse {
        let node = BrokerId(broker.node_id());
        let mut topics = Vec::new();
        match request.topics {
            None => topics.extend(broker.topics().iter().map(|topic| describe(topic, node))),
            Some(asked) if asked.is_empty() && call.version < EMPTY_MEANS_NONE => {
                topics.extend(broker.topics().iter().map(|topic| describe(topic, node)));
            }
            Some(asked) => {
                for topic in asked {
                    let answer = match &topic.name {
                        Some(name) => {
                            let may_create = request.allow_auto_topic_creation && broker.auto_create_topics();
                            by_name(&*broker, name, may_create, node).await
                        }
                        None => by_id(&*broker, topic.topic_id, node),
                    };
                    topics.push(answer);
                }
            }
        }
        let endpoint = broker.advertised();
        MetadataResponse::default()
            .with_brokers(vec![
                MetadataResponseBroker::default()
                    .with_node_id(node)
                    .with_host(text(endpoint.host))
                    .with_port(i32::from(endpoint.port)),
            ])
            .with_cluster_id(Some(text(broker.cluster_id())))
            .with_controller_id(node)
            .with_topics(topics)
            .with_cluster_authorized_operations(OPERATIONS_NOT_ASKED)
    }
}

async fn by_name<S: Broker>(
    broker: &S,
    name: &TopicName,
    may_create: bool,
    node: BrokerId,
) -> MetadataResponseTopic {
    if let Some(topic) = broker.topic(name) {
        return describe(&topic, node);
    }
    let code = if crate::resource::names::check(name).is_err() {
        ErrorCode::InvalidTopicException
    } else if may_create {
        let new = NewTopic {
            name: name.to_string(),
            partitions: None,
            config: Vec::new(),
        };
        match broker.create_topic(new, false).await {
            // The topic is there now; as in Kafka the client finds it with its next request.
            Ok(_) => ErrorCode::LeaderNotAvailable,
            Err(refusal) if refusal.code == ErrorCode::TopicAlreadyExists => ErrorCode::LeaderNotAvailable,
            Err(refusal) => refusal.code,
        }
    } else {
        ErrorCode::UnknownTopicOrPartition
    };
    missing(code).with_name(Some(name.clone()))
}

fn by_id<S: Broker>(broker: &S, id: Uuid, node: BrokerId) -> MetadataResponseTopic {
    match broker.topic_by_id(id) {
        Some(topic) => describe(&topic, node),
        None => missing(ErrorCode::UnknownTopicId)
            .with_name(None)
            .with_topic_id(id),
    }
}

fn missing(code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_error_code(code.code())
        .with_topic_authorized_operations(OPERATIONS_NOT_ASKED)
}

fn describe(topic: &Topic, node: BrokerId) -> MetadataResponseTopic {
    let partitions = topic.partitions.iter().map(|partition| {
        let described = MetadataResponsePartition::default()
            .with_partition_index(partition.index())
            .with_leader_epoch(partition.leader_epoch())
            .with_replica_nodes(vec![node]);
        if partition.log().is_some() {
            described.with_leader_id(node).with_isr_nodes(vec![node])
        } else {
            described
                .with_error_code(ErrorCode::LeaderNotAvailable.code())
                .with_leader_id(BrokerId(-1))
                .with_offline_replicas(vec![node])
        }
    });
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_string(topic.name.to_string()))))
        .with_topic_id(topic.id)
        .with_is_internal(topic.internal)
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(OPERATIONS_NOT_ASKED)
}
