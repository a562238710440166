//! DeleteRecords (21): moves log start offsets, and answers where they are now.
use std::sync::Arc;

use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use crate::wire::broker::{Broker, Refusal};
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct DeleteRecords;

impl<S: Broker> Api<S> for DeleteRecords {
    type Request = DeleteRecordsRequest;
    const NAME: &'static str = "DeleteRecords";
    const MIN: i16 = 0;
    const MAX: i16 = 2;
    const SCHEMA: Schema = requests::DELETE_RECORDS;

    async fn handle(broker: Arc<S>, _call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse {
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for asked in topic.partitions {
                let outcome = delete(&*broker, &topic.name, asked.partition_index, asked.offset).await;
                let result =
                    DeleteRecordsPartitionResult::default().with_partition_index(asked.partition_index);
                partitions.push(match outcome {
                    Ok(log_start) => result.with_low_watermark(log_start),
                    Err(refusal) => {
                        tracing::info!(topic = %*topic.name, partition = asked.partition_index, offset = asked.offset,
                            code = %refusal.code, message = refusal.message, "records are not deleted");
                        result.with_low_watermark(-1).with_error_code(refusal.code.code())
                    }
                });
            }
            topics.push(
                DeleteRecordsTopicResult::default()
                    .with_name(topic.name)
                    .with_partitions(partitions),
            );
        }
        DeleteRecordsResponse::default().with_topics(topics)
    }
}

async fn delete<S: Broker>(broker: &S, name: &str, partition: i32, offset: i64) -> Result<i64, Refusal> {
    let topic = broker.topic(name).ok_or_else(|| Refusal::unknown_topic(name))?;
    if topic.internal {
        return Err(Refusal::new(
            ErrorCode::InvalidTopicException,
            format!("Cannot delete records of internal topic {name}"),
        ));
    }
    topic
        .partition(partition)
        .ok_or_else(|| Refusal::unknown_partition(name, partition))?;
    broker.delete_records(name, partition, offset).await
}
