//! DescribeConfigs (32): every key with value, source and synonyms. Tools that read, change and write back depend on
//! the list being complete.
use std::sync::Arc;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use crate::wire::apis::config_resources::resource;
use crate::wire::apis::text;
use crate::wire::broker::{Broker, ConfigEntry, Refusal};
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct DescribeConfigs;

impl<S: Broker> Api<S> for DescribeConfigs {
    type Request = DescribeConfigsRequest;
    const NAME: &'static str = "DescribeConfigs";
    const MIN: i16 = 1;
    const MAX: i16 = 4;
    const SCHEMA: Schema = requests::DESCRIBE_CONFIGS;

    async fn handle(broker: Arc<S>, _call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse {
        let (synonyms, documentation) = (request.include_synonyms, request.include_documentation);
        let results = request.resources.into_iter().map(|asked| {
            let result = DescribeConfigsResult::default()
                .with_resource_type(asked.resource_type)
                .with_resource_name(asked.resource_name.clone());
            match describe(&*broker, &asked) {
                Ok(entries) => result.with_error_message(None).with_configs(
                    entries
                        .into_iter()
                        .map(|entry| encode(entry, synonyms, documentation))
                        .collect(),
                ),
                Err(refusal) => result
                    .with_error_code(refusal.code.code())
                    .with_error_message(Some(text(refusal.message))),
            }
        });
        DescribeConfigsResponse::default().with_results(results.collect())
    }
}

fn describe<S: Broker>(broker: &S, asked: &DescribeConfigsResource) -> Result<Vec<ConfigEntry>, Refusal> {
    let resource = resource(broker, asked.resource_type, &asked.resource_name)?;
    let mut entries = broker.describe_config(&resource)?;
    // No list and an empty one both mean all.
    if let Some(keys) = asked.configuration_keys.as_ref().filter(|keys| !keys.is_empty()) {
        entries.retain(|entry| keys.iter().any(|key| **key == *entry.name));
    }
    Ok(entries)
}

fn encode(entry: ConfigEntry, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult {
    let synonyms = entry.synonyms.into_iter().filter(|_| synonyms).map(|synonym| {
        DescribeConfigsSynonym::default()
            .with_name(text(synonym.name))
            .with_value(synonym.value.map(text))
            .with_source(synonym.source as i8)
    });
    DescribeConfigsResourceResult::default()
        .with_name(text(entry.name))
        .with_value(entry.value.map(text))
        .with_read_only(entry.read_only)
        .with_config_source(entry.source as i8)
        .with_synonyms(synonyms.collect())
        .with_config_type(entry.kind as i8)
        .with_documentation(documentation.then(|| text(entry.documentation)))
}
