//! IncrementalAlterConfigs (44, KIP-339): single keys are set, deleted, or changed as lists.
use std::collections::HashSet;
use std::sync::Arc;

use kafka_protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use crate::wire::apis::config_resources::{self, Alteration};
use crate::wire::apis::text;
use crate::wire::broker::{Broker, ConfigChange, ConfigEdit, ConfigOperation, Refusal};
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct IncrementalAlterConfigs;

impl<S: Broker> Api<S> for IncrementalAlterConfigs {
    type Request = IncrementalAlterConfigsRequest;
    const NAME: &'static str = "IncrementalAlterConfigs";
    const MIN: i16 = 0;
    const MAX: i16 = 1;
    const SCHEMA: Schema = requests::INCREMENTAL_ALTER_CONFIGS;

    async fn handle(
        broker: Arc<S>,
        _call: Call,
        request: IncrementalAlterConfigsRequest,
    ) -> IncrementalAlterConfigsResponse {
        let asked = request.resources.into_iter().map(|asked| Alteration {
            kind: asked.resource_type,
            name: asked.resource_name.clone(),
            change: edits(asked).map(ConfigChange::Edit),
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
        IncrementalAlterConfigsResponse::default().with_responses(responses.collect())
    }
}

fn edits(asked: AlterConfigsResource) -> Result<Vec<ConfigEdit>, Refusal> {
    let mut names = HashSet::new();
    let mut edits = Vec::with_capacity(asked.configs.len());
    for config in asked.configs {
        let name = config.name.to_string();
        if !names.insert(name.clone()) {
            return Err(Refusal::new(
                ErrorCode::InvalidRequest,
                format!("Error due to duplicate config keys: {name}"),
            ));
        }
        let operation = match config.config_operation {
            0 => ConfigOperation::Set,
            1 => ConfigOperation::Delete,
            2 => ConfigOperation::Append,
            3 => ConfigOperation::Subtract,
            other => {
                return Err(Refusal::new(
                    ErrorCode::InvalidRequest,
                    format!(
                        "Unknown operation {other} for {name}; 0 to 3 are SET, DELETE, APPEND and SUBTRACT."
                    ),
                ));
            }
        };
        if operation != ConfigOperation::Delete && config.value.is_none() {
            return Err(Refusal::new(
                ErrorCode::InvalidRequest,
                format!("Null value not supported for : {name}"),
            ));
        }
        edits.push(ConfigEdit {
            name,
            operation,
            value: config.value.map(|value| value.to_string()),
        });
    }
    Ok(edits)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::incremental_alter_configs_request::AlterableConfig;

    use super::*;

    fn config(name: &str, operation: i8, value: Option<&str>) -> AlterableConfig {
        AlterableConfig::default()
            .with_name(text(name))
            .with_config_operation(operation)
            .with_value(value.map(text))
    }

    #[test]
    fn operations_are_told_apart_and_nonsense_is_refused() {
        let of = |configs: Vec<AlterableConfig>| edits(AlterConfigsResource::default().with_configs(configs));
        let all = of(vec![
            config("a", 0, Some("1")),
            config("b", 1, None),
            config("c", 2, Some("x")),
            config("d", 3, Some("y")),
        ]);
        let operations: Vec<_> = all.unwrap().into_iter().map(|edit| edit.operation).collect();
        use ConfigOperation::{Append, Delete, Set, Subtract};
        assert_eq!(operations, [Set, Delete, Append, Subtract]);
        for refused in [
            vec![config("a", 4, Some("1"))],
            vec![config("a", -1, Some("1"))],
            vec![config("a", 0, None)],
            vec![config("a", 2, None)],
            vec![config("a", 0, Some("1")), config("a", 1, None)],
        ] {
            assert_eq!(of(refused).unwrap_err().code, ErrorCode::InvalidRequest);
        }
    }
}
