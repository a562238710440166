//! What the configuration APIs have in common: resource types and names.
use crate::wire::broker::{Broker, ConfigResource, Refusal};
use crate::wire::error_code::ErrorCode;

/// Kafka's `ConfigResource.Type` of a topic.
pub(crate) const TOPIC: i8 = 2;
/// … of a broker.
pub(crate) const BROKER: i8 = 4;
/// … of a broker's loggers.
pub(crate) const BROKER_LOGGER: i8 = 8;
/// … of client metrics.
pub(crate) const CLIENT_METRICS: i8 = 16;
/// … of a group.
pub(crate) const GROUP: i8 = 32;

/// What a type and a name mean here.
pub(crate) fn resource<S: Broker>(broker: &S, kind: i8, name: &str) -> Result<ConfigResource, Refusal> {
    match kind {
        TOPIC if name.is_empty() => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            "Default topic resources are not allowed.",
        )),
        TOPIC => match crate::resource::names::check(name) {
            Ok(()) => Ok(ConfigResource::Topic(name.to_owned())),
            Err(invalid) => Err(Refusal::new(
                ErrorCode::InvalidTopicException,
                invalid.to_string(),
            )),
        },
        BROKER if name.is_empty() => Ok(ConfigResource::BrokerDefaults),
        BROKER => {
            let node = broker.node_id();
            match name.parse::<i32>() {
                Ok(id) if id == node => Ok(ConfigResource::Broker),
                _ => Err(Refusal::new(
                    ErrorCode::InvalidRequest,
                    format!("Unexpected broker id, expected {node} or empty string, but received {name}"),
                )),
            }
        }
        BROKER_LOGGER | CLIENT_METRICS | GROUP => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            format!(
                "Settings of resource type {kind} are not kept by this server; topics (2) and brokers (4) are."
            ),
        )),
        _ => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            format!("Unsupported resource type {kind}."),
        )),
    }
}
