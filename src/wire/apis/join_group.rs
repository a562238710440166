//! JoinGroup (11): become a member; answered when the rebalance ends.
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};

use crate::wire::apis::{group_code, optional, text};
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::{JoinRequest, OfferedProtocol};
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// KIP-394: a new dynamic member is sent away with an id once.
const KNOWN_MEMBER_ID_SINCE: i16 = 4;
const INSTANCE_ID_SINCE: i16 = 5;
const NULLABLE_PROTOCOL_SINCE: i16 = 7;
const SKIP_ASSIGNMENT_SINCE: i16 = 9;

/// The API.
#[derive(Debug)]
pub struct JoinGroup;

impl<S: GroupService> Api<S> for JoinGroup {
    type Request = JoinGroupRequest;
    const NAME: &'static str = "JoinGroup";
    const MIN: i16 = 0;
    const MAX: i16 = 9;
    const SCHEMA: Schema = requests::JOIN_GROUP;

    async fn handle(groups: Arc<S>, call: Call, request: JoinGroupRequest) -> JoinGroupResponse {
        let version = call.version;
        let join = asked(&call, request);
        // A rebalance may take long: what waits for it holds no room.
        drop(call);
        let reply = groups.join(join).await;
        let members = reply.members.into_iter().map(|member| {
            let described = JoinGroupResponseMember::default()
                .with_member_id(text(member.member_id))
                .with_metadata(member.metadata);
            if version >= INSTANCE_ID_SINCE {
                described.with_group_instance_id(optional(member.instance_id))
            } else {
                described
            }
        });
        let response = JoinGroupResponse::default()
            .with_error_code(group_code(reply.error))
            .with_generation_id(reply.generation_id)
            .with_leader(text(reply.leader))
            .with_member_id(text(reply.member_id))
            .with_members(members.collect());
        let response = if version >= NULLABLE_PROTOCOL_SINCE {
            response
                .with_protocol_type(optional(reply.protocol_type))
                .with_protocol_name(optional(reply.protocol_name))
        } else {
            response.with_protocol_name(Some(text(reply.protocol_name.unwrap_or_default())))
        };
        if version >= SKIP_ASSIGNMENT_SINCE {
            response.with_skip_assignment(reply.skip_assignment)
        } else {
            response
        }
    }
}

/// What is asked, without any part of the frame: what stays in a group must not keep the rest of it with it.
fn asked(call: &Call, request: JoinGroupRequest) -> JoinRequest {
    let protocols = request.protocols.iter().map(|offered| OfferedProtocol {
        name: offered.name.to_string(),
        metadata: Bytes::copy_from_slice(&offered.metadata),
    });
    JoinRequest {
        group_id: request.group_id.to_string(),
        member_id: request.member_id.to_string(),
        instance_id: request.group_instance_id.as_ref().map(|id| id.to_string()),
        client: (*call.client).clone(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: match call.version {
            0 => request.session_timeout_ms,
            _ => request.rebalance_timeout_ms,
        },
        protocol_type: request.protocol_type.to_string(),
        protocols: protocols.collect(),
        reason: request.reason.as_ref().map(|reason| reason.to_string()),
        requires_known_member_id: call.version >= KNOWN_MEMBER_ID_SINCE,
        supports_skip_assignment: call.version >= SKIP_ASSIGNMENT_SINCE,
    }
}
