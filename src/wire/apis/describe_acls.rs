//! DescribeAcls (29): there is no authorizer, and clients are told so.
use std::sync::Arc;

use kafka_protocol::messages::{DescribeAclsRequest, DescribeAclsResponse};

use crate::wire::apis::text;
use crate::wire::broker::Broker;
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct DescribeAcls;

impl<S: Broker> Api<S> for DescribeAcls {
    type Request = DescribeAclsRequest;
    const NAME: &'static str = "DescribeAcls";
    const MIN: i16 = 1;
    const MAX: i16 = 3;
    const SCHEMA: Schema = requests::DESCRIBE_ACLS;

    async fn handle(_broker: Arc<S>, _call: Call, _request: DescribeAclsRequest) -> DescribeAclsResponse {
        DescribeAclsResponse::default()
            .with_error_code(ErrorCode::SecurityDisabled.code())
            .with_error_message(Some(text("No Authorizer is configured.")))
    }
}
