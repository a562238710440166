//! LeaveGroup (13): members go, one or several at once.
use std::sync::Arc;

use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use crate::wire::apis::{group_code, optional, text};
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::LeavingMember;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The first version that names several members.
const BATCHED_SINCE: i16 = 3;

/// The API.
#[derive(Debug)]
pub struct LeaveGroup;

impl<S: GroupService> Api<S> for LeaveGroup {
    type Request = LeaveGroupRequest;
    const NAME: &'static str = "LeaveGroup";
    const MIN: i16 = 0;
    const MAX: i16 = 5;
    const SCHEMA: Schema = requests::LEAVE_GROUP;

    async fn handle(groups: Arc<S>, call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse {
        let members: Vec<LeavingMember> = if call.version >= BATCHED_SINCE {
            let members = request.members.into_iter().map(|member| LeavingMember {
                member_id: member.member_id.to_string(),
                instance_id: member.group_instance_id.map(|id| id.to_string()),
                reason: member.reason.map(|reason| reason.to_string()),
            });
            members.collect()
        } else {
            vec![LeavingMember {
                member_id: request.member_id.to_string(),
                instance_id: None,
                reason: None,
            }]
        };
        let result = groups.leave(&request.group_id, members.clone()).await;
        let response = LeaveGroupResponse::default();
        match result {
            Err(error) => response.with_error_code(error.code()),
            Ok(results) if call.version >= BATCHED_SINCE => {
                let members = members.into_iter().zip(results).map(|(member, error)| {
                    MemberResponse::default()
                        .with_member_id(text(member.member_id))
                        .with_group_instance_id(optional(member.instance_id))
                        .with_error_code(group_code(error))
                });
                response.with_members(members.collect())
            }
            Ok(results) => response.with_error_code(group_code(results.into_iter().flatten().next())),
        }
    }
}
