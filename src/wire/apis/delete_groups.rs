//! DeleteGroups (42): groups without members go, with their positions.
use std::sync::Arc;

use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use crate::wire::apis::group_code;
use crate::wire::groups::GroupService;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct DeleteGroups;

impl<S: GroupService> Api<S> for DeleteGroups {
    type Request = DeleteGroupsRequest;
    const NAME: &'static str = "DeleteGroups";
    const MIN: i16 = 0;
    const MAX: i16 = 2;
    const SCHEMA: Schema = requests::DELETE_GROUPS;

    async fn handle(groups: Arc<S>, _call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse {
        let names = request.groups_names.iter().map(|id| id.to_string()).collect();
        let results = groups.delete_groups(names).await;
        let answers = request.groups_names.into_iter().zip(results).map(|(id, error)| {
            DeletableGroupResult::default()
                .with_group_id(id)
                .with_error_code(group_code(error))
        });
        DeleteGroupsResponse::default().with_results(answers.collect())
    }
}
