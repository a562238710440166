//! SyncGroup (14): the leader gives, everybody gets the assignment.
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use crate::wire::apis::{group_code, optional};
use crate::wire::error_code::ErrorCode;
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::SyncRequest;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// From here on request and response name the protocol; either side refuses one that does not.
const PROTOCOL_SINCE: i16 = 5;

/// The API.
#[derive(Debug)]
pub struct SyncGroup;

impl<S: GroupService> Api<S> for SyncGroup {
    type Request = SyncGroupRequest;
    const NAME: &'static str = "SyncGroup";
    const MIN: i16 = 0;
    const MAX: i16 = 5;
    const SCHEMA: Schema = requests::SYNC_GROUP;

    async fn handle(groups: Arc<S>, call: Call, request: SyncGroupRequest) -> SyncGroupResponse {
        let names_both = request.protocol_type.is_some() && request.protocol_name.is_some();
        if call.version >= PROTOCOL_SINCE && !names_both {
            return SyncGroupResponse::default().with_error_code(ErrorCode::InconsistentGroupProtocol.code());
        }
        let version = call.version;
        let sync = asked(request);
        // The leader may take long: what waits for it holds no room.
        drop(call);
        let reply = groups.sync(sync).await;
        let response = SyncGroupResponse::default()
            .with_error_code(group_code(reply.error))
            .with_assignment(reply.assignment);
        if version >= PROTOCOL_SINCE {
            response
                .with_protocol_type(optional(reply.protocol_type))
                .with_protocol_name(optional(reply.protocol_name))
        } else {
            response
        }
    }
}

/// What is asked, without any part of the frame: what stays in a group must not keep the rest of it with it.
fn asked(request: SyncGroupRequest) -> SyncRequest {
    let assignments = request.assignments.iter().map(|given| {
        (
            given.member_id.to_string(),
            Bytes::copy_from_slice(&given.assignment),
        )
    });
    SyncRequest {
        group_id: request.group_id.to_string(),
        generation_id: request.generation_id,
        member_id: request.member_id.to_string(),
        instance_id: request.group_instance_id.as_ref().map(|id| id.to_string()),
        protocol_type: request.protocol_type.as_ref().map(|name| name.to_string()),
        protocol_name: request.protocol_name.as_ref().map(|name| name.to_string()),
        assignments: assignments.collect(),
    }
}
