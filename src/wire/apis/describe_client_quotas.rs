//! DescribeClientQuotas (48): there are none.
use std::sync::Arc;

use kafka_protocol::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};

use crate::wire::broker::Broker;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct DescribeClientQuotas;

impl<S: Broker> Api<S> for DescribeClientQuotas {
    type Request = DescribeClientQuotasRequest;
    const NAME: &'static str = "DescribeClientQuotas";
    const MIN: i16 = 0;
    const MAX: i16 = 1;
    const SCHEMA: Schema = requests::DESCRIBE_CLIENT_QUOTAS;

    async fn handle(
        _broker: Arc<S>,
        _call: Call,
        _request: DescribeClientQuotasRequest,
    ) -> DescribeClientQuotasResponse {
        DescribeClientQuotasResponse::default()
            .with_error_message(None)
            .with_entries(Some(Vec::new()))
    }
}
