//! DescribeUserScramCredentials (50): there are none.
use std::sync::Arc;

use kafka_protocol::messages::describe_user_scram_credentials_response::DescribeUserScramCredentialsResult;
use kafka_protocol::messages::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};

use crate::wire::apis::text;
use crate::wire::broker::Broker;
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct DescribeUserScramCredentials;

impl<S: Broker> Api<S> for DescribeUserScramCredentials {
    type Request = DescribeUserScramCredentialsRequest;
    const NAME: &'static str = "DescribeUserScramCredentials";
    const MIN: i16 = 0;
    const MAX: i16 = 0;
    const SCHEMA: Schema = requests::DESCRIBE_USER_SCRAM_CREDENTIALS;

    async fn handle(
        _broker: Arc<S>,
        _call: Call,
        request: DescribeUserScramCredentialsRequest,
    ) -> DescribeUserScramCredentialsResponse {
        let results = request.users.unwrap_or_default().into_iter().map(|user| {
            let message = format!(
                "Attempt to describe a user credential that does not exist: {}",
                user.name
            );
            DescribeUserScramCredentialsResult::default()
                .with_user(user.name)
                .with_error_code(ErrorCode::ResourceNotFound.code())
                .with_error_message(Some(text(message)))
        });
        DescribeUserScramCredentialsResponse::default()
            .with_error_message(None)
            .with_results(results.collect())
    }
}
