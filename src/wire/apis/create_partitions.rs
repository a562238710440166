//! CreatePartitions (37): one result per topic, always.
use std::collections::HashMap;
use std::sync::Arc;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse, TopicName};

use crate::wire::apis::text;
use crate::wire::broker::{Broker, Refusal};
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct CreatePartitions;

impl<S: Broker> Api<S> for CreatePartitions {
    type Request = CreatePartitionsRequest;
    const NAME: &'static str = "CreatePartitions";
    const MIN: i16 = 0;
    const MAX: i16 = 3;
    const SCHEMA: Schema = requests::CREATE_PARTITIONS;

    async fn handle(
        broker: Arc<S>,
        _call: Call,
        request: CreatePartitionsRequest,
    ) -> CreatePartitionsResponse {
        let mut seen: HashMap<TopicName, usize> = HashMap::new();
        for topic in &request.topics {
            *seen.entry(topic.name.clone()).or_default() += 1;
        }
        let mut results = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let outcome = match seen.get(&topic.name) {
                Some(1) => grow(&*broker, &topic, request.validate_only).await,
                Some(0) => continue,
                _ => {
                    seen.insert(topic.name.clone(), 0);
                    Err(Refusal::new(ErrorCode::InvalidRequest, "Duplicate topic name."))
                }
            };
            let result = CreatePartitionsTopicResult::default().with_name(topic.name);
            results.push(match outcome {
                Ok(()) => result,
                Err(refusal) => result
                    .with_error_code(refusal.code.code())
                    .with_error_message(Some(text(refusal.message))),
            });
        }
        CreatePartitionsResponse::default().with_results(results)
    }
}

async fn grow<S: Broker>(
    broker: &S,
    asked: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<(), Refusal> {
    let topic = broker
        .topic(&asked.name)
        .ok_or_else(|| Refusal::unknown_topic(&asked.name))?;
    let current = topic.partitions.len();
    if let Some(assignments) = &asked.assignments {
        let node = broker.node_id();
        let added = usize::try_from(asked.count).unwrap_or(0).saturating_sub(current);
        let on_us = assignments
            .iter()
            .all(|one| matches!(&one.broker_ids[..], [id] if id.0 == node));
        if assignments.len() != added || !on_us {
            return Err(Refusal::new(
                ErrorCode::InvalidReplicaAssignment,
                format!(
                    "{} assignments were given for {added} added partitions; each must name broker {node} alone.",
                    assignments.len()
                ),
            ));
        }
    }
    broker
        .create_partitions(&asked.name, asked.count, validate_only)
        .await
}
