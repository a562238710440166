//! ConsumerGroupDescribe (69, KIP-848): groups of the newer protocol, their members and how far those have come.
use std::sync::Arc;

use kafka_protocol::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, TopicName};
use uuid::Uuid;

use crate::wire::apis::{optional, text};
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::DescribedConsumer;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

const MEMBER_TYPE_SINCE: i16 = 1;
/// A member that speaks the newer protocol itself.
const CONSUMER_MEMBER: i8 = 1;

/// The API.
#[derive(Debug)]
pub struct ConsumerGroupDescribe;

impl<S: GroupService> Api<S> for ConsumerGroupDescribe {
    type Request = ConsumerGroupDescribeRequest;
    const NAME: &'static str = "ConsumerGroupDescribe";
    const MIN: i16 = 0;
    const MAX: i16 = 1;
    const SCHEMA: Schema = requests::CONSUMER_GROUP_DESCRIBE;

    async fn handle(
        groups: Arc<S>,
        call: Call,
        request: ConsumerGroupDescribeRequest,
    ) -> ConsumerGroupDescribeResponse {
        let answers = request.group_ids.into_iter().map(|group_id| {
            let result = groups.consumer_describe(&group_id);
            let answer = DescribedGroup::default().with_group_id(group_id);
            match result {
                Err(refusal) => answer
                    .with_error_code(refusal.code.code())
                    .with_error_message(Some(text(refusal.message)))
                    .with_group_state(text("Dead")),
                Ok(group) => {
                    let members = group
                        .members
                        .into_iter()
                        .map(|member| described(member, call.version));
                    answer
                        .with_group_state(text(group.state))
                        .with_group_epoch(group.group_epoch)
                        .with_assignment_epoch(group.assignment_epoch)
                        .with_assignor_name(text(group.assignor))
                        .with_members(members.collect())
                }
            }
        });
        ConsumerGroupDescribeResponse::default().with_groups(answers.collect())
    }
}

fn described(member: DescribedConsumer, version: i16) -> Member {
    let names = member.subscribed_topics.into_iter();
    let answer = Member::default()
        .with_member_id(text(member.member_id))
        .with_instance_id(optional(member.instance_id))
        .with_rack_id(optional(member.rack_id))
        .with_member_epoch(member.member_epoch)
        .with_client_id(text(member.client_id))
        .with_client_host(text(member.client_host))
        .with_subscribed_topic_names(names.map(|name| TopicName(text(name))).collect())
        .with_subscribed_topic_regex(optional(member.subscribed_regex))
        .with_assignment(assignment(member.assignment))
        .with_target_assignment(assignment(member.target));
    if version >= MEMBER_TYPE_SINCE {
        answer.with_member_type(CONSUMER_MEMBER)
    } else {
        answer
    }
}

fn assignment(topics: Vec<(Uuid, String, Vec<i32>)>) -> Assignment {
    let topics = topics.into_iter().map(|(id, name, partitions)| {
        TopicPartitions::default()
            .with_topic_id(id)
            .with_topic_name(TopicName(text(name)))
            .with_partitions(partitions)
    });
    Assignment::default().with_topic_partitions(topics.collect())
}
