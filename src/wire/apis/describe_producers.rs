//! DescribeProducers (61): the idempotent producers whose state a partition keeps.
use std::sync::Arc;

use kafka_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse, ProducerId};

use crate::log::partition::PartitionLog;
use crate::wire::apis::text;
use crate::wire::broker::{Broker, Refusal};
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct DescribeProducers;

impl<S: Broker> Api<S> for DescribeProducers {
    type Request = DescribeProducersRequest;
    const NAME: &'static str = "DescribeProducers";
    const MIN: i16 = 0;
    const MAX: i16 = 0;
    const SCHEMA: Schema = requests::DESCRIBE_PRODUCERS;

    async fn handle(
        broker: Arc<S>,
        _call: Call,
        request: DescribeProducersRequest,
    ) -> DescribeProducersResponse {
        let topics = request.topics.into_iter().map(|asked| {
            let topic = broker.topic(&asked.name);
            let partitions = asked.partition_indexes.into_iter().map(|index| {
                let partition = topic.as_ref().and_then(|topic| topic.partition(index));
                let log = match partition {
                    None => Err(Refusal::unknown_partition(&asked.name, index)),
                    Some(partition) => partition.log().ok_or_else(|| {
                        let reason = partition.offline_reason().unwrap_or_default();
                        Refusal::new(ErrorCode::KafkaStorageError, reason)
                    }),
                };
                let response = PartitionResponse::default().with_partition_index(index);
                match log {
                    Ok(log) => response
                        .with_error_message(None)
                        .with_active_producers(producers(log)),
                    Err(refusal) => response
                        .with_error_code(refusal.code.code())
                        .with_error_message(Some(text(refusal.message))),
                }
            });
            let partitions = partitions.collect();
            TopicResponse::default()
                .with_name(asked.name)
                .with_partitions(partitions)
        });
        DescribeProducersResponse::default().with_topics(topics.collect())
    }
}

fn producers(log: &PartitionLog) -> Vec<ProducerState> {
    log.with_producers(|states| {
        let states = states.producers().iter();
        let states = states.map(|(id, state)| {
            ProducerState::default()
                .with_producer_id(ProducerId(*id))
                .with_producer_epoch(i32::from(state.epoch))
                .with_last_sequence(state.last_sequence())
                .with_last_timestamp(state.last_timestamp)
                .with_coordinator_epoch(state.coordinator_epoch)
                .with_current_txn_start_offset(state.open_txn_from.unwrap_or(-1))
        });
        states.collect()
    })
}
