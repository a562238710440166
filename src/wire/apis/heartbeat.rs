//! Heartbeat (12): still here.
use std::sync::Arc;

use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use crate::wire::apis::group_code;
use crate::wire::groups::{GroupService, messages};
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct Heartbeat;

impl<S: GroupService> Api<S> for Heartbeat {
    type Request = HeartbeatRequest;
    const NAME: &'static str = "Heartbeat";
    const MIN: i16 = 0;
    const MAX: i16 = 4;
    const SCHEMA: Schema = requests::HEARTBEAT;

    async fn handle(groups: Arc<S>, _call: Call, request: HeartbeatRequest) -> HeartbeatResponse {
        let result = groups.heartbeat(messages::HeartbeatRequest {
            group_id: request.group_id.to_string(),
            generation_id: request.generation_id,
            member_id: request.member_id.to_string(),
            instance_id: request.group_instance_id.map(|id| id.to_string()),
        });
        HeartbeatResponse::default().with_error_code(group_code(result.err()))
    }
}
