//! Members of consumer groups, request by request.
use std::net::SocketAddr;

use bytes::Bytes;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId, HeartbeatRequest,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest,
    SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use tidemark::wire::client::Client;

pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub fn group_id(group: &str) -> GroupId {
    GroupId(text(group))
}

pub fn topic_name(topic: &str) -> TopicName {
    TopicName(text(topic))
}

/// The subscription of a classic member: version 0, no user data.
fn subscription(topic: &str) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 0, 1];
    bytes.extend_from_slice(&u16::try_from(topic.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(topic.as_bytes());
    bytes.extend_from_slice(&[0xff; 4]);
    Bytes::from(bytes)
}

/// The assignment of a classic member: version 0, no user data.
pub fn assignment(topic: &str, partitions: &[i32]) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 0, 1];
    bytes.extend_from_slice(&u16::try_from(topic.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(topic.as_bytes());
    bytes.extend_from_slice(&u32::try_from(partitions.len()).unwrap().to_be_bytes());
    for partition in partitions {
        bytes.extend_from_slice(&partition.to_be_bytes());
    }
    bytes.extend_from_slice(&[0xff; 4]);
    Bytes::from(bytes)
}

/// A member of the classic protocol on a connection of its own.
pub struct Member {
    kafka: Client,
    group: String,
    topic: String,
    pub id: String,
    pub instance: Option<String>,
    pub generation: i32,
    pub session_timeout_ms: i32,
}

impl Member {
    pub async fn new(address: SocketAddr, group: &str, topic: &str) -> Self {
        Self {
            kafka: Client::connect(address, "member").await.unwrap(),
            group: group.to_owned(),
            topic: topic.to_owned(),
            id: String::new(),
            instance: None,
            generation: -1,
            session_timeout_ms: 45_000,
        }
    }

    pub async fn reconnect(&mut self, address: SocketAddr) {
        self.kafka = Client::connect(address, "member").await.unwrap();
    }

    fn request(&self) -> JoinGroupRequest {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(subscription(&self.topic));
        JoinGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(text))
            .with_session_timeout_ms(self.session_timeout_ms)
            .with_rebalance_timeout_ms(60_000)
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol])
    }

    /// Joins, with an id if one is asked for first; answers when the rebalance ends.
    pub async fn join(&mut self) -> JoinGroupResponse {
        let mut reply = self.kafka.call(9, &self.request()).await.unwrap();
        // MEMBER_ID_REQUIRED
        if reply.error_code == 79 {
            self.id = reply.member_id.to_string();
            reply = self.kafka.call(9, &self.request()).await.unwrap();
        }
        assert_eq!(reply.error_code, 0, "join of {}", self.id);
        self.id = reply.member_id.to_string();
        self.generation = reply.generation_id;
        reply
    }

    /// Error code of one JoinGroup.
    pub async fn join_code(&mut self) -> i16 {
        self.kafka.call(9, &self.request()).await.unwrap().error_code
    }

    /// Takes the assignment, and gives everybody's if it leads.
    pub async fn sync(&mut self, assignments: Vec<(String, Bytes)>) -> Bytes {
        let assignments = assignments.into_iter().map(|(member, assignment)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(&member))
                .with_assignment(assignment)
        });
        let request = SyncGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(text))
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("range")))
            .with_assignments(assignments.collect());
        let reply = self.kafka.call(5, &request).await.unwrap();
        assert_eq!(reply.error_code, 0, "sync of {}", self.id);
        assert_eq!(reply.protocol_name.as_deref(), Some("range"));
        reply.assignment
    }

    /// Error code of a heartbeat.
    pub async fn heartbeat(&mut self) -> i16 {
        let request = HeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(text));
        self.kafka.call(4, &request).await.unwrap().error_code
    }

    /// Error code of a commit.
    pub async fn commit(&mut self, partition: i32, offset: i64) -> i16 {
        let position = OffsetCommitRequestPartition::default()
            .with_partition_index(partition)
            .with_committed_offset(offset)
            .with_committed_metadata(Some(text("noted")));
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic_name(&self.topic))
            .with_partitions(vec![position]);
        let request = OffsetCommitRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id_or_member_epoch(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(text))
            .with_topics(vec![topic]);
        let reply = self.kafka.call(9, &request).await.unwrap();
        reply.topics[0].partitions[0].error_code
    }

    pub async fn leave(&mut self) {
        let member = MemberIdentity::default()
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(text))
            .with_reason(Some(text("done")));
        let request = LeaveGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_members(vec![member]);
        let reply = self.kafka.call(5, &request).await.unwrap();
        assert_eq!((reply.error_code, reply.members[0].error_code), (0, 0));
    }
}

/// Offset, leader epoch and note of a commit, as OffsetFetch answers it.
pub async fn committed(kafka: &mut Client, group: &str, topic: &str, partition: i32) -> (i64, i32, String) {
    let topic = OffsetFetchRequestTopics::default()
        .with_name(topic_name(topic))
        .with_partition_indexes(vec![partition]);
    let asked = OffsetFetchRequestGroup::default()
        .with_group_id(group_id(group))
        .with_member_epoch(-1)
        .with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_groups(vec![asked]);
    let reply = kafka.call(9, &request).await.unwrap();
    assert_eq!(reply.groups[0].error_code, 0);
    let partition = &reply.groups[0].topics[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    let note = partition.metadata.as_deref().unwrap_or_default();
    (
        partition.committed_offset,
        partition.committed_leader_epoch,
        note.to_owned(),
    )
}

/// A member of the consumer protocol of KIP-848 on a connection of its own.
pub struct Consumer {
    pub kafka: Client,
    group: String,
    pub id: String,
    pub epoch: i32,
    pub owned: Vec<TopicPartitions>,
}

impl Consumer {
    pub async fn join(address: SocketAddr, group: &str, id: &str, regex: &str) -> Self {
        let mut consumer = Self {
            kafka: Client::connect(address, "consumer").await.unwrap(),
            group: group.to_owned(),
            id: id.to_owned(),
            epoch: 0,
            owned: Vec::new(),
        };
        let request = consumer
            .request()
            .with_rebalance_timeout_ms(60_000)
            .with_subscribed_topic_regex(Some(text(regex)));
        let reply = consumer.kafka.call(1, &request).await.unwrap();
        consumer.follow(reply);
        consumer
    }

    fn request(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_member_id(text(&self.id))
            .with_member_epoch(self.epoch)
            .with_rebalance_timeout_ms(-1)
            .with_topic_partitions(Some(self.owned.clone()))
    }

    fn follow(&mut self, reply: ConsumerGroupHeartbeatResponse) {
        assert_eq!(reply.error_code, 0, "{:?}", reply.error_message);
        self.epoch = reply.member_epoch;
        if let Some(assignment) = reply.assignment {
            let topics = assignment.topic_partitions.into_iter().map(|topic| {
                TopicPartitions::default()
                    .with_topic_id(topic.topic_id)
                    .with_partitions(topic.partitions)
            });
            self.owned = topics.collect();
        }
    }

    pub async fn beat(&mut self) {
        let request = self.request();
        let reply = self.kafka.call(1, &request).await.unwrap();
        self.follow(reply);
    }

    pub fn partitions(&self) -> Vec<i32> {
        let mut partitions: Vec<i32> = self
            .owned
            .iter()
            .flat_map(|topic| topic.partitions.clone())
            .collect();
        partitions.sort_unstable();
        partitions
    }
}
