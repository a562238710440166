//! ListPartitionReassignments (46): none, ever, on one broker. `kafka-topics --describe` asks.
use std::sync::Arc;

use kafka_protocol::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use crate::wire::broker::Broker;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct ListPartitionReassignments;

impl<S: Broker> Api<S> for ListPartitionReassignments {
    type Request = ListPartitionReassignmentsRequest;
    const NAME: &'static str = "ListPartitionReassignments";
    const MIN: i16 = 0;
    const MAX: i16 = 0;
    const SCHEMA: Schema = requests::LIST_PARTITION_REASSIGNMENTS;

    async fn handle(
        _broker: Arc<S>,
        _call: Call,
        _request: ListPartitionReassignmentsRequest,
    ) -> ListPartitionReassignmentsResponse {
        ListPartitionReassignmentsResponse::default().with_error_message(None)
    }
}
