//! ElectLeaders (43): the only broker leads already.
use std::sync::Arc;

use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};

use crate::wire::apis::text;
use crate::wire::broker::Broker;
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct ElectLeaders;

impl<S: Broker> Api<S> for ElectLeaders {
    type Request = ElectLeadersRequest;
    const NAME: &'static str = "ElectLeaders";
    const MIN: i16 = 0;
    const MAX: i16 = 2;
    const SCHEMA: Schema = requests::ELECT_LEADERS;

    async fn handle(broker: Arc<S>, _call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse {
        // Asked about all partitions, Kafka names only those where something happened: none.
        let asked = request.topic_partitions.unwrap_or_default();
        let results = asked.into_iter().map(|asked| {
            let topic = broker.topic(&asked.topic);
            let partitions = asked.partitions.into_iter().map(|index| {
                let known = topic.as_ref().and_then(|topic| topic.partition(index)).is_some();
                let (code, message) = if known {
                    (
                        ErrorCode::ElectionNotNeeded,
                        "Leader election not needed for topic partition.",
                    )
                } else {
                    (
                        ErrorCode::UnknownTopicOrPartition,
                        "This server does not host this topic-partition.",
                    )
                };
                PartitionResult::default()
                    .with_partition_id(index)
                    .with_error_code(code.code())
                    .with_error_message(Some(text(message)))
            });
            ReplicaElectionResult::default()
                .with_partition_result(partitions.collect())
                .with_topic(asked.topic)
        });
        ElectLeadersResponse::default().with_replica_election_results(results.collect())
    }
}
