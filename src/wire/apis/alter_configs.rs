//! AlterConfigs (33): the given settings become the whole set of overrides.
use std::collections::HashMap;
use std::sync::Arc;

use kafka_protocol::messages::alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};

use crate::wire::apis::config_resources::resource;
use crate::wire::apis::text;
use crate::wire::broker::{Broker, ConfigChange, Refusal};
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct AlterConfigs;

impl<S: Broker> Api<S> for AlterConfigs {
    type Request = AlterConfigsRequest;
    const NAME: &'static str = "AlterConfigs";
    const MIN: i16 = 0;
    const MAX: i16 = 2;
    const SCHEMA: Schema = requests::ALTER_CONFIGS;

    async fn handle(broker: Arc<S>, _call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse {
        let mut seen = HashMap::new();
        for asked in &request.resources {
            *seen
                .entry((asked.resource_type, asked.resource_name.clone()))
                .or_insert(0) += 1;
        }
        let mut responses = Vec::with_capacity(request.resources.len());
        for asked in request.resources {
            let (kind, name) = (asked.resource_type, asked.resource_name.clone());
            let response = AlterConfigsResourceResponse::default()
                .with_resource_type(kind)
                .with_resource_name(name.clone());
            let outcome = if seen.get(&(kind, name)).is_some_and(|count| *count > 1) {
                Err(Refusal::new(
                    ErrorCode::InvalidRequest,
                    "Each resource must appear at most once.",
                ))
            } else {
                alter(&*broker, asked, request.validate_only).await
            };
            responses.push(match outcome {
                Ok(()) => response.with_error_message(None),
                Err(refusal) => response
                    .with_error_code(refusal.code.code())
                    .with_error_message(Some(text(refusal.message))),
            });
        }
        AlterConfigsResponse::default().with_responses(responses)
    }
}

async fn alter<S: Broker>(
    broker: &S,
    asked: AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refusal> {
    let resource = resource(broker, asked.resource_type, &asked.resource_name)?;
    let values = asked.configs.into_iter();
    let values = values.map(|config| {
        (
            config.name.to_string(),
            config.value.map(|value| value.to_string()),
        )
    });
    broker
        .alter_config(resource, ConfigChange::Replace(values.collect()), validate_only)
        .await
}
