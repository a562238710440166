//! SaslHandshake (17): there is no authentication, and a client that is set up for it is told so, as on a listener of Kafka's without it.
use std::sync::Arc;

use kafka_protocol::messages::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::wire::broker::Broker;
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct SaslHandshake;

impl<S: Broker> Api<S> for SaslHandshake {
    type Request = SaslHandshakeRequest;
    const NAME: &'static str = "SaslHandshake";
    const MIN: i16 = 0;
    const MAX: i16 = 1;
    const SCHEMA: Schema = requests::SASL_HANDSHAKE;

    async fn handle(_broker: Arc<S>, call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse {
        tracing::warn!(client = %call.client.id, host = %call.client.host, mechanism = %*request.mechanism,
            "a client wants to authenticate itself, which this server does not do: set security.protocol=PLAINTEXT there");
        SaslHandshakeResponse::default().with_error_code(ErrorCode::IllegalSaslState.code())
    }
}
