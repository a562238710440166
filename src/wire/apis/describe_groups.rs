//! DescribeGroups (15): classic groups and their members.
use std::sync::Arc;

use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

use crate::wire::apis::{optional, text};
use crate::wire::groups::GroupService;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// KIP-1043: before this an unknown group was told as a dead one, without an error.
const NOT_FOUND_SINCE: i16 = 6;
const INSTANCE_ID_SINCE: i16 = 4;

/// The API.
#[derive(Debug)]
pub struct DescribeGroups;

impl<S: GroupService> Api<S> for DescribeGroups {
    type Request = DescribeGroupsRequest;
    const NAME: &'static str = "DescribeGroups";
    const MIN: i16 = 0;
    const MAX: i16 = 6;
    const SCHEMA: Schema = requests::DESCRIBE_GROUPS;

    async fn handle(groups: Arc<S>, call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse {
        let answers = request.groups.into_iter().map(|group_id| {
            let result = groups.describe(&group_id);
            let answer = DescribedGroup::default().with_group_id(group_id);
            match result {
                Err(refusal) => {
                    let answer = answer.with_group_state(text("Dead"));
                    if call.version >= NOT_FOUND_SINCE {
                        answer
                            .with_error_code(refusal.code.code())
                            .with_error_message(Some(text(refusal.message)))
                    } else {
                        answer
                    }
                }
                Ok(group) => {
                    let members = group.members.into_iter().map(|member| {
                        let described = DescribedGroupMember::default()
                            .with_member_id(text(member.member_id))
                            .with_client_id(text(member.client_id))
                            .with_client_host(text(member.client_host))
                            .with_member_metadata(member.metadata)
                            .with_member_assignment(member.assignment);
                        if call.version >= INSTANCE_ID_SINCE {
                            described.with_group_instance_id(optional(member.instance_id))
                        } else {
                            described
                        }
                    });
                    answer
                        .with_group_state(text(group.state))
                        .with_protocol_type(text(group.protocol_type))
                        .with_protocol_data(text(group.protocol))
                        .with_members(members.collect())
                }
            }
        });
        DescribeGroupsResponse::default().with_groups(answers.collect())
    }
}
