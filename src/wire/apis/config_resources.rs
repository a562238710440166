//! What the configuration APIs have in common: resource types and names, and how a row of resources is altered.
use std::collections::HashMap;

use kafka_protocol::protocol::StrBytes;

use crate::wire::broker::{Broker, ConfigChange, ConfigResource, Refusal};
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

/// A resource that is to be altered, and how; an operation that makes no sense is a refusal of its own.
#[derive(Debug)]
pub(crate) struct Alteration {
    pub kind: i8,
    pub name: StrBytes,
    pub change: Result<ConfigChange, Refusal>,
}

/// Alters resource by resource; one that is named twice is refused, and a refusal of one keeps no other back.
pub(crate) async fn alter<S: Broker>(
    broker: &S,
    asked: Vec<Alteration>,
    validate_only: bool,
) -> Vec<(i8, StrBytes, Result<(), Refusal>)> {
    let mut seen: HashMap<(i8, StrBytes), usize> = HashMap::new();
    for Alteration { kind, name, .. } in &asked {
        *seen.entry((*kind, name.clone())).or_default() += 1;
    }
    let mut outcomes = Vec::with_capacity(asked.len());
    for Alteration { kind, name, change } in asked {
        let outcome = if seen.get(&(kind, name.clone())).is_some_and(|count| *count > 1) {
            Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "Each resource must appear at most once.",
            ))
        } else {
            alter_one(broker, kind, &name, change, validate_only).await
        };
        outcomes.push((kind, name, outcome));
    }
    outcomes
}

async fn alter_one<S: Broker>(
    broker: &S,
    kind: i8,
    name: &str,
    change: Result<ConfigChange, Refusal>,
    validate_only: bool,
) -> Result<(), Refusal> {
    let resource = resource(broker, kind, name)?;
    broker.alter_config(resource, change?, validate_only).await
}
