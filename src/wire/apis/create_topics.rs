//! CreateTopics (19).
//!
//! One broker can hold one replica: a replication factor above 1 is refused as Kafka refuses it on one node.
use std::collections::HashMap;
use std::sync::Arc;

use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse, TopicName};

use crate::wire::apis::text;
use crate::wire::broker::{Broker, CreatedTopic, NewTopic, Refusal};
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// "The broker's default" for partitions and replication factor.
const DEFAULT: i32 = -1;

/// The API.
#[derive(Debug)]
pub struct CreateTopics;

impl<S: Broker> Api<S> for CreateTopics {
    type Request = CreateTopicsRequest;
    const NAME: &'static str = "CreateTopics";
    const MIN: i16 = 2;
    const MAX: i16 = 7;
    const SCHEMA: Schema = requests::CREATE_TOPICS;

    async fn handle(broker: Arc<S>, _call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse {
        let mut seen: HashMap<TopicName, usize> = HashMap::new();
        for topic in &request.topics {
            *seen.entry(topic.name.clone()).or_default() += 1;
        }
        let mut results = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let name = topic.name.clone();
            match seen.get(&name) {
                // Named more than once: answered once, as a fault.
                Some(0) => continue,
                Some(1) => {}
                _ => {
                    seen.insert(name.clone(), 0);
                    results.push(refused(
                        name,
                        Refusal::new(ErrorCode::InvalidRequest, "Duplicate topic name."),
                    ));
                    continue;
                }
            }
            let asked = topic.configs.clone();
            results.push(match create(&*broker, topic, request.validate_only).await {
                Ok(created) => describe(name, created, &asked),
                Err(refusal) => refused(name, refusal),
            });
        }
        CreateTopicsResponse::default().with_topics(results)
    }
}

async fn create<S: Broker>(
    broker: &S,
    topic: CreatableTopic,
    validate_only: bool,
) -> Result<CreatedTopic, Refusal> {
    let partitions = if topic.assignments.is_empty() {
        check_counts(topic.num_partitions, topic.replication_factor)
    } else {
        check_assignments(&topic, broker.node_id())
    };
    let mut new = NewTopic {
        name: topic.name.to_string(),
        partitions: None,
        config: topic
            .configs
            .into_iter()
            .map(|config| {
                (
                    config.name.to_string(),
                    config.value.map(|value| value.to_string()),
                )
            })
            .collect(),
    };
    match partitions {
        Ok(partitions) => {
            new.partitions = partitions;
            broker.create_topic(new, validate_only).await
        }
        Err(refusal) => {
            // What is wrong with the name or the settings comes first, as in Kafka.
            broker.create_topic(new, true).await?;
            Err(refusal)
        }
    }
}

/// In Kafka's order: counts that cannot be, then the one that this single broker cannot reach.
fn check_counts(partitions: i32, replicas: i16) -> Result<Option<i32>, Refusal> {
    if replicas > 1 {
        check_partitions(partitions)?;
    }
    check_replication(replicas)?;
    check_partitions(partitions)
}

fn check_replication(factor: i16) -> Result<(), Refusal> {
    let message = match factor {
        -1 | 1 => return Ok(()),
        ..=0 => "Replication factor must be larger than 0, or -1 to use the default value.".to_owned(),
        _ => format!(
            "Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be \
             reached because only 1 broker(s) are registered."
        ),
    };
    Err(Refusal::new(ErrorCode::InvalidReplicationFactor, message))
}

fn check_partitions(count: i32) -> Result<Option<i32>, Refusal> {
    match count {
        DEFAULT => Ok(None),
        1.. => Ok(Some(count)),
        _ => Err(Refusal::new(
            ErrorCode::InvalidPartitions,
            format!("Number of partitions was set to {count}, an invalid non-positive value."),
        )),
    }
}

fn check_assignments(topic: &CreatableTopic, node: i32) -> Result<Option<i32>, Refusal> {
    if topic.num_partitions != DEFAULT || i32::from(topic.replication_factor) != DEFAULT {
        return Err(Refusal::new(
            ErrorCode::InvalidRequest,
            "A manual partition assignment was specified, but numPartitions and replicationFactor were not set to -1.",
        ));
    }
    let mut numbers: Vec<i32> = topic
        .assignments
        .iter()
        .map(|assignment| assignment.partition_index)
        .collect();
    numbers.sort_unstable();
    let consecutive = numbers
        .iter()
        .zip(0..)
        .all(|(number, expected)| *number == expected);
    let on_us =
        |assignment: &CreatableReplicaAssignment| matches!(&assignment.broker_ids[..], [id] if id.0 == node);
    if !consecutive || !topic.assignments.iter().all(on_us) {
        return Err(Refusal::new(
            ErrorCode::InvalidReplicaAssignment,
            format!(
                "Partitions must be numbered from 0 without gaps and be assigned to broker {node} alone."
            ),
        ));
    }
    Ok(i32::try_from(numbers.len()).ok())
}

fn refused(name: TopicName, refusal: Refusal) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(name)
        .with_error_code(refusal.code.code())
        .with_error_message(Some(text(refusal.message)))
        .with_num_partitions(-1)
        .with_replication_factor(-1)
        .with_configs(Some(Vec::new()))
}

/// The settings that were asked for are answered as they were written, unlike in DescribeConfigs.
fn describe(name: TopicName, created: CreatedTopic, asked: &[CreatableTopicConfig]) -> CreatableTopicResult {
    let configs = created.config.into_iter().map(|entry| {
        let written = asked.iter().find(|config| *config.name == *entry.name);
        let written = written.and_then(|config| config.value.clone());
        CreatableTopicConfigs::default()
            .with_name(text(entry.name))
            .with_value(written.or(entry.value.map(text)))
            .with_read_only(entry.read_only)
            .with_config_source(entry.source as i8)
    });
    CreatableTopicResult::default()
        .with_name(name)
        .with_topic_id(created.id)
        .with_error_message(None)
        .with_num_partitions(created.partitions)
        .with_replication_factor(1)
        .with_configs(Some(configs.collect()))
}
