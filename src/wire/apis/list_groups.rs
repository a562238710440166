//! ListGroups (16): every group of either protocol.
use std::sync::Arc;

use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::wire::apis::text;
use crate::wire::groups::GroupService;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

const STATE_SINCE: i16 = 4;
const KIND_SINCE: i16 = 5;

/// The API.
#[derive(Debug)]
pub struct ListGroups;

impl<S: GroupService> Api<S> for ListGroups {
    type Request = ListGroupsRequest;
    const NAME: &'static str = "ListGroups";
    const MIN: i16 = 0;
    const MAX: i16 = 5;
    const SCHEMA: Schema = requests::LIST_GROUPS;

    async fn handle(groups: Arc<S>, call: Call, request: ListGroupsRequest) -> ListGroupsResponse {
        let names =
            |filter: Vec<StrBytes>| -> Vec<String> { filter.iter().map(|name| name.to_string()).collect() };
        let listed = groups.list(&names(request.states_filter), &names(request.types_filter));
        let answers = listed.into_iter().map(|group| {
            let answer = ListedGroup::default()
                .with_group_id(GroupId(text(group.group_id)))
                .with_protocol_type(text(group.protocol_type));
            match call.version {
                KIND_SINCE.. => answer
                    .with_group_state(text(group.state))
                    .with_group_type(text(group.kind)),
                STATE_SINCE => answer.with_group_state(text(group.state)),
                _ => answer,
            }
        });
        ListGroupsResponse::default().with_groups(answers.collect())
    }
}
