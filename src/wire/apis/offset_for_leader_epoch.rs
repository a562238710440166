//! OffsetForLeaderEpoch (23): where an epoch ended, so that a client finds out whether its position is still on this log.
use std::sync::Arc;

use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use crate::wire::broker::{Broker, Topic};
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct OffsetForLeaderEpoch;

impl<S: Broker> Api<S> for OffsetForLeaderEpoch {
    type Request = OffsetForLeaderEpochRequest;
    const NAME: &'static str = "OffsetForLeaderEpoch";
    const MIN: i16 = 2;
    const MAX: i16 = 4;
    const SCHEMA: Schema = requests::OFFSET_FOR_LEADER_EPOCH;

    async fn handle(
        broker: Arc<S>,
        _call: Call,
        request: OffsetForLeaderEpochRequest,
    ) -> OffsetForLeaderEpochResponse {
        let topics = request.topics.into_iter().map(|asked| {
            let topic = broker.topic(&asked.topic);
            let partitions = asked.partitions.iter().map(|partition| {
                let result = EpochEndOffset::default().with_partition(partition.partition);
                match end_of(topic.as_deref(), partition) {
                    Ok((epoch, end)) => result.with_leader_epoch(epoch).with_end_offset(end),
                    Err(code) => result
                        .with_error_code(code.code())
                        .with_leader_epoch(-1)
                        .with_end_offset(-1),
                }
            });
            OffsetForLeaderTopicResult::default()
                .with_topic(asked.topic)
                .with_partitions(partitions.collect())
        });
        OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
    }
}

fn end_of(topic: Option<&Topic>, asked: &OffsetForLeaderPartition) -> Result<(i32, i64), ErrorCode> {
    let partition = topic.and_then(|topic| topic.partition(asked.partition));
    let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    partition.check_leader_epoch(asked.current_leader_epoch)?;
    let log = partition.log().ok_or(ErrorCode::KafkaStorageError)?;
    Ok(log.end_offset_as_leader(asked.leader_epoch, partition.leader_epoch()))
}
