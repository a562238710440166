//! ListConfigResources (74, KIP-1142): what settings can be asked about.
use std::sync::Arc;

use kafka_protocol::messages::list_config_resources_response::ConfigResource;
use kafka_protocol::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};

use crate::wire::apis::config_resources::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use crate::wire::apis::text;
use crate::wire::broker::Broker;
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct ListConfigResources;

impl<S: Broker> Api<S> for ListConfigResources {
    type Request = ListConfigResourcesRequest;
    const NAME: &'static str = "ListConfigResources";
    const MIN: i16 = 0;
    const MAX: i16 = 1;
    const SCHEMA: Schema = requests::LIST_CONFIG_RESOURCES;

    async fn handle(
        broker: Arc<S>,
        call: Call,
        request: ListConfigResourcesRequest,
    ) -> ListConfigResourcesResponse {
        // Version 0 knew client metrics alone; from version 1 on no type means all of them.
        let kinds = match (call.version, request.resource_types.as_slice()) {
            (0, _) => vec![CLIENT_METRICS],
            (_, []) => vec![TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP],
            (_, kinds) => kinds.to_vec(),
        };
        let mut resources = Vec::new();
        for kind in kinds {
            let named = |name: String| {
                ConfigResource::default()
                    .with_resource_name(text(name))
                    .with_resource_type(kind)
            };
            match kind {
                TOPIC => resources.extend(broker.topics().iter().map(|topic| named(topic.name.to_string()))),
                BROKER => resources.push(named(broker.node_id().to_string())),
                BROKER_LOGGER | CLIENT_METRICS | GROUP => {}
                _ => {
                    return ListConfigResourcesResponse::default()
                        .with_error_code(ErrorCode::UnsupportedVersion.code());
                }
            }
        }
        ListConfigResourcesResponse::default().with_config_resources(resources)
    }
}
