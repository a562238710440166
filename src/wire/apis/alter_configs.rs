//! AlterConfigs (33): the given settings become the whole set of overrides.
use std::sync::Arc;

use kafka_protocol::messages::alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};

use crate::wire::apis::config_resources::{self, Alteration};
use crate::wire::apis::text;
use crate::wire::broker::{Broker, ConfigChange};
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
        let asked = request.resources.into_iter().map(|asked| Alteration {
            kind: asked.resource_type,
            name: asked.resource_name.clone(),
            change: Ok(replacement(asked)),
        });
        let outcomes = config_resources::alter(&*broker, asked.collect(), request.validate_only).await;
        let responses = outcomes.into_iter().map(|(kind, name, outcome)| {
            let response = AlterConfigsResourceResponse::default()
                .with_resource_type(kind)
                .with_resource_name(name);
            match outcome {
                Ok(()) => response.with_error_message(None),
                Err(refusal) => response
                    .with_error_code(refusal.code.code())
                    .with_error_message(Some(text(refusal.message))),
            }
        });
        AlterConfigsResponse::default().with_responses(responses.collect())
    }
}

fn replacement(asked: AlterConfigsResource) -> ConfigChange {
    let values = asked.configs.into_iter().map(|config| {
        (
            config.name.to_string(),
            config.value.map(|value| value.to_string()),
        )
    });
    ConfigChange::Replace(values.collect())
}
