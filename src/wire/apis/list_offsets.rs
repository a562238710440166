//! ListOffsets (2): from a moment, or a name for one, to an offset.
//!
//! Nothing found is no error but offset -1 with timestamp -1, as in Kafka.
use std::collections::HashSet;
use std::sync::Arc;

use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use crate::log::lookup::FoundOffset;
use crate::log::partition::PartitionLog;
use crate::log::read::Isolation;
use crate::wire::broker::{Broker, Topic};
use crate::wire::error_code::ErrorCode;
use crate::wire::partition::Partition;
use crate::wire::refusal;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The high watermark, or the last stable offset with read_committed.
const LATEST: i64 = -1;
/// The log start offset.
const EARLIEST: i64 = -2;
/// The record with the largest timestamp (KIP-734).
const MAX_TIMESTAMP: i64 = -3;
/// The first offset on local disks (KIP-405); everything is here.
const EARLIEST_LOCAL: i64 = -4;
/// The last offset in remote storage (KIP-1005); there is none.
const LATEST_TIERED: i64 = -5;
/// The first offset still to be uploaded (KIP-1023); there is none.
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// The first version whose answer has a leader epoch.
const WITH_EPOCH: i16 = 4;

/// The replica ids of a consumer and of a debugging one; others are followers.
const CONSUMER: i32 = -1;

/// The API.
#[derive(Debug)]
pub struct ListOffsets;

impl<S: Broker> Api<S> for ListOffsets {
    type Request = ListOffsetsRequest;
    const NAME: &'static str = "ListOffsets";
    const MIN: i16 = 1;
    const MAX: i16 = 10;
    const SCHEMA: Schema = requests::LIST_OFFSETS;

    async fn handle(broker: Arc<S>, call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse {
        let isolation = match (request.replica_id.0, request.isolation_level) {
            (CONSUMER, 1) => Isolation::ReadCommitted,
            (CONSUMER, _) => Isolation::ReadUncommitted,
            _ => Isolation::LogEnd,
        };
        let mut seen = HashSet::new();
        let mut twice = HashSet::new();
        for topic in &request.topics {
            for partition in &topic.partitions {
                let key = (topic.name.clone(), partition.partition_index);
                if !seen.insert(key.clone()) {
                    twice.insert(key);
                }
            }
        }
        let topics = request.topics.into_iter().map(|asked| {
            let topic = broker.topic(&asked.name);
            let partitions = asked.partitions.iter().map(|partition| {
                let found = if twice.contains(&(asked.name.clone(), partition.partition_index)) {
                    Err(ErrorCode::InvalidRequest)
                } else {
                    look_up(topic.as_deref(), partition, isolation, call.version)
                };
                encode(partition.partition_index, found, call.version)
            });
            let partitions = partitions.collect();
            ListOffsetsTopicResponse::default()
                .with_name(asked.name)
                .with_partitions(partitions)
        });
        ListOffsetsResponse::default().with_topics(topics.collect())
    }
}

fn encode(
    partition: i32,
    found: Result<Option<FoundOffset>, ErrorCode>,
    version: i16,
) -> ListOffsetsPartitionResponse {
    let response = ListOffsetsPartitionResponse::default()
        .with_partition_index(partition)
        .with_timestamp(-1)
        .with_offset(-1)
        .with_leader_epoch(-1);
    match found {
        Ok(Some(found)) => {
            let epoch = if version >= WITH_EPOCH {
                found.leader_epoch
            } else {
                -1
            };
            response
                .with_offset(found.offset)
                .with_timestamp(found.timestamp)
                .with_leader_epoch(epoch)
        }
        Ok(None) => response,
        Err(code) => response.with_error_code(code.code()),
    }
}

fn look_up(
    topic: Option<&Topic>,
    asked: &ListOffsetsPartition,
    isolation: Isolation,
    version: i16,
) -> Result<Option<FoundOffset>, ErrorCode> {
    // Before anything is looked for, as in Kafka.
    let known_since = match asked.timestamp {
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        LATEST | EARLIEST | 0.. => 1,
        _ => return Err(ErrorCode::UnsupportedVersion),
    };
    if version < known_since {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let partition = topic.and_then(|topic| topic.partition(asked.partition_index));
    let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    partition.check_leader_epoch(asked.current_leader_epoch)?;
    let log = partition.log().ok_or(ErrorCode::KafkaStorageError)?;
    match asked.timestamp {
        LATEST => Ok(Some(latest(partition, log, isolation))),
        EARLIEST | EARLIEST_LOCAL => Ok(Some(earliest(partition, log))),
        MAX_TIMESTAMP => log
            .max_timestamp(isolation)
            .map_err(|error| refusal::read_code(&error)),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Ok(None),
        0.. => log
            .offset_for_timestamp(asked.timestamp, isolation)
            .map_err(|error| refusal::read_code(&error)),
        _ => Err(ErrorCode::UnsupportedVersion),
    }
}

fn latest(partition: &Partition, log: &PartitionLog, isolation: Isolation) -> FoundOffset {
    let bounds = log.bounds();
    FoundOffset {
        offset: match isolation {
            Isolation::ReadUncommitted => bounds.high_watermark,
            Isolation::ReadCommitted => bounds.last_stable_offset,
            Isolation::LogEnd => bounds.log_end,
        },
        timestamp: -1,
        leader_epoch: partition.leader_epoch(),
    }
}

fn earliest(partition: &Partition, log: &PartitionLog) -> FoundOffset {
    FoundOffset {
        offset: log.log_start(),
        timestamp: -1,
        leader_epoch: log.epoch_at_log_start(partition.leader_epoch()).unwrap_or(-1),
    }
}
