//! DescribeCluster (60): this broker is the cluster and its controller.
use std::sync::Arc;

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterRequest, DescribeClusterResponse};

use crate::wire::apis::{OPERATIONS_NOT_ASKED, text};
use crate::wire::broker::Broker;
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The endpoints of brokers; 2 are those of controllers (KIP-919).
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// The API.
#[derive(Debug)]
pub struct DescribeCluster;

impl<S: Broker> Api<S> for DescribeCluster {
    type Request = DescribeClusterRequest;
    const NAME: &'static str = "DescribeCluster";
    const MIN: i16 = 0;
    const MAX: i16 = 2;
    const SCHEMA: Schema = requests::DESCRIBE_CLUSTER;

    async fn handle(broker: Arc<S>, _call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse {
        let response = DescribeClusterResponse::default()
            .with_cluster_id(text(broker.cluster_id()))
            .with_cluster_authorized_operations(OPERATIONS_NOT_ASKED);
        let refused = match request.endpoint_type {
            BROKERS => None,
            CONTROLLERS => Some((
                ErrorCode::MismatchedEndpointType,
                "This is a broker's endpoint, not a controller's.".to_owned(),
            )),
            other => Some((
                ErrorCode::UnsupportedEndpointType,
                format!("Endpoint type {other} is not known; 1 is brokers."),
            )),
        };
        if let Some((code, message)) = refused {
            return response
                .with_error_code(code.code())
                .with_error_message(Some(text(message)));
        }
        let node = BrokerId(broker.node_id());
        let endpoint = broker.advertised();
        response
            .with_error_message(None)
            .with_controller_id(node)
            .with_brokers(vec![
                DescribeClusterBroker::default()
                    .with_broker_id(node)
                    .with_host(text(endpoint.host))
                    .with_port(i32::from(endpoint.port)),
            ])
    }
}
