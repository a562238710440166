//! FindCoordinator (10): which broker keeps a group.
//!
//! There is one broker. It coordinates groups; transactions are refused for good, with words, since a client that is told to
//! come back later would do so for ever.
use std::sync::Arc;

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

use crate::wire::apis::text;
use crate::wire::broker::{Broker, Endpoint, Refusal};
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The first version that asks for several keys at once.
const BATCHED_SINCE: i16 = 4;
const NO_TRANSACTIONS: &str =
    "Transactions are not supported: a producer must not set transactional.id here.";
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// The API.
#[derive(Debug)]
pub struct FindCoordinator;

impl<S: Broker> Api<S> for FindCoordinator {
    type Request = FindCoordinatorRequest;
    const NAME: &'static str = "FindCoordinator";
    const MIN: i16 = 0;
    const MAX: i16 = 5;
    const SCHEMA: Schema = requests::FIND_COORDINATOR;

    async fn handle(broker: Arc<S>, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
        let refusal = refusal(request.key_type, call.version);
        let endpoint = broker.advertised();
        let response = FindCoordinatorResponse::default();
        if call.version >= BATCHED_SINCE {
            let answers = request
                .coordinator_keys
                .into_iter()
                .map(|key| answer(key, &refusal, broker.node_id(), &endpoint));
            return response.with_coordinators(answers.collect());
        }
        let answer = answer(request.key, &refusal, broker.node_id(), &endpoint);
        let response = response
            .with_error_code(answer.error_code)
            .with_node_id(answer.node_id)
            .with_host(answer.host)
            .with_port(answer.port);
        if call.version >= 1 {
            response.with_error_message(answer.error_message)
        } else {
            response
        }
    }
}

/// INVALID_REQUEST is final for clients of today, which show its message. librdkafka asks in an older version, shows no message, and would try
/// for ever after any code but one that denies the id.
fn refusal(key_type: i8, version: i16) -> Option<Refusal> {
    match key_type {
        GROUP => None,
        TRANSACTION if version < BATCHED_SINCE => Some(Refusal::new(
            ErrorCode::TransactionalIdAuthorizationFailed,
            NO_TRANSACTIONS,
        )),
        TRANSACTION => Some(Refusal::new(ErrorCode::InvalidRequest, NO_TRANSACTIONS)),
        other => Some(Refusal::new(
            ErrorCode::InvalidRequest,
            format!("Coordinator key type {other} is not known; 0 asks for the coordinator of a group."),
        )),
    }
}

fn answer(key: StrBytes, refusal: &Option<Refusal>, node_id: i32, endpoint: &Endpoint) -> Coordinator {
    let coordinator = Coordinator::default().with_key(key);
    match refusal {
        Some(refusal) => coordinator
            .with_node_id(BrokerId(-1))
            .with_port(-1)
            .with_error_code(refusal.code.code())
            .with_error_message(Some(text(refusal.message.as_str()))),
        None => coordinator
            .with_node_id(BrokerId(node_id))
            .with_host(text(endpoint.host.as_str()))
            .with_port(i32::from(endpoint.port)),
    }
}
