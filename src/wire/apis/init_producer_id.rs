//! InitProducerId (22) for idempotent producers: a new id at epoch 0 every time, whatever the producer had before.
//!
//! Transactions are refused at once, with the one code that every client takes as final, so that a producer fails instead of trying on.
use std::sync::Arc;

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use crate::wire::broker::Broker;
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct InitProducerId;

impl<S: Broker> Api<S> for InitProducerId {
    type Request = InitProducerIdRequest;
    const NAME: &'static str = "InitProducerId";
    const MIN: i16 = 0;
    const MAX: i16 = 5;
    const SCHEMA: Schema = requests::INIT_PRODUCER_ID;

    async fn handle(broker: Arc<S>, call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse {
        let refused = |code: ErrorCode| {
            InitProducerIdResponse::default()
                .with_error_code(code.code())
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1)
        };
        if let Some(id) = request.transactional_id {
            tracing::warn!(transactional_id = %*id, client = %call.client.id,
                "transactions are not supported by this server; the producer is refused");
            return refused(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        match broker.next_producer_id().await {
            Ok(id) => InitProducerIdResponse::default()
                .with_producer_id(ProducerId(id))
                .with_producer_epoch(0),
            Err(refusal) => refused(refusal.code),
        }
    }
}
