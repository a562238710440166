//! One of the two that group requests are sent to, and how its answers are written down.
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Request, StrBytes};
use tidemark::wire::client::Client;

use crate::groups::{Step, Who};
use crate::support::wait::PATIENCE;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn group_id(group: &str) -> GroupId {
    GroupId(text(group))
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(text(topic))
}

fn subscription(topic: &str) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, topic.len() as u8];
    bytes.extend_from_slice(topic.as_bytes());
    bytes.extend_from_slice(&[0xff; 4]);
    Bytes::from(bytes)
}

/// One of the two, as its clients see it.
pub struct Side {
    bootstrap: String,
    kafka: Client,
    /// Role -> member id, and epoch or generation.
    members: BTreeMap<&'static str, (String, i32)>,
    topic_id: uuid::Uuid,
}

impl Side {
    pub async fn new(bootstrap: &str) -> Self {
        let mut side = Self {
            bootstrap: bootstrap.to_owned(),
            kafka: Client::connect(bootstrap, "scripted").await.unwrap(),
            members: BTreeMap::new(),
            topic_id: uuid::Uuid::nil(),
        };
        let topic = CreatableTopic::default()
            .with_name(topic_name("t"))
            .with_num_partitions(3)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(30_000);
        let reply = side.kafka.call(7, &request).await.unwrap();
        assert_eq!(reply.topics[0].error_code, 0);
        side.topic_id = reply.topics[0].topic_id;
        side
    }

    pub async fn reconnect(&mut self) {
        self.kafka = Client::connect(&*self.bootstrap, "scripted").await.unwrap();
    }

    async fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, String> {
        match self.kafka.call(version, request).await {
            Ok(reply) => Ok(reply),
            Err(_) => {
                self.reconnect().await;
                Err("connection closed".to_owned())
            }
        }
    }

    /// A group of one classic member, Stable.
    pub async fn classic(&mut self, role: &'static str, instance: Option<&str>) {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(subscription("t"));
        let mut request = JoinGroupRequest::default()
            .with_group_id(group_id(role))
            .with_group_instance_id(instance.map(text))
            .with_session_timeout_ms(1_800_000)
            .with_rebalance_timeout_ms(300_000)
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        let mut reply = self.kafka.call(9, &request).await.unwrap();
        // COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, loading: the offsets topic is being made.
        while [14, 15, 16].contains(&reply.error_code) {
            let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(role)]);
            let _ = self.kafka.call(4, &find).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            reply = self.kafka.call(9, &request).await.unwrap();
        }
        if reply.error_code == 79 {
            request.member_id = reply.member_id;
            reply = self.kafka.call(9, &request).await.unwrap();
        }
        assert_eq!(reply.error_code, 0, "{role} joins");
        let own = SyncGroupRequestAssignment::default()
            .with_member_id(reply.member_id.clone())
            .with_assignment(Bytes::from_static(b"everything"));
        let sync = SyncGroupRequest::default()
            .with_group_id(group_id(role))
            .with_generation_id(reply.generation_id)
            .with_member_id(reply.member_id.clone())
            .with_group_instance_id(instance.map(text))
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("range")))
            .with_assignments(vec![own]);
        let synced = self.kafka.call(5, &sync).await.unwrap();
        assert_eq!(synced.error_code, 0, "{role} syncs");
        self.members
            .insert(role, (reply.member_id.to_string(), reply.generation_id));
    }

    /// A group of one member of the consumer protocol.
    pub async fn newer(&mut self) {
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group_id("newer"))
            .with_member_id(text("newer-member"))
            .with_rebalance_timeout_ms(300_000)
            .with_subscribed_topic_names(Some(vec![topic_name("t")]))
            .with_topic_partitions(Some(Vec::new()));
        let mut reply = self.kafka.call(1, &request).await.unwrap();
        let deadline = Instant::now() + PATIENCE;
        // Until the assignment is there.
        loop {
            assert_eq!(reply.error_code, 0, "{:?}", reply.error_message);
            self.members
                .insert("newer", ("newer-member".to_owned(), reply.member_epoch));
            let owned = reply
                .assignment
                .map(|assignment| assignment.topic_partitions.len());
            if owned == Some(1) {
                break;
            }
            assert!(Instant::now() < deadline, "no assignment came");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            let again = request.clone().with_member_epoch(reply.member_epoch);
            reply = self.kafka.call(1, &again).await.unwrap();
        }
    }

    /// Keeps the session of the member that [`Self::newer`] made: it lasts 45 s, and nobody chose that.
    pub async fn alive(&mut self) {
        let (id, epoch) = self.members["newer"].clone();
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group_id("newer"))
            .with_member_id(text(&id))
            .with_member_epoch(epoch)
            .with_rebalance_timeout_ms(-1);
        // What it says is none of the answers that are compared.
        let _reply = self.call(1, &request).await;
    }

    /// Puts roles for member ids.
    fn shown(&self, text: impl Into<String>) -> String {
        let mut text = text.into();
        for (role, (id, _)) in &self.members {
            text = text.replace(id, &format!("<{role}>"));
        }
        text
    }

    fn member(&self, who: Who) -> (StrBytes, i32) {
        match who {
            Who::Member(role, shift) => {
                let (id, generation) = &self.members[role];
                (text(id), generation + shift)
            }
            Who::Stranger(generation) => (text("stranger"), generation),
            Who::Nobody(generation) => (text(""), generation),
        }
    }
}

fn join(parts: impl IntoIterator<Item = String>) -> String {
    let mut parts: Vec<String> = parts.into_iter().collect();
    parts.sort();
    parts.join("; ")
}

/// What became of one partition.
fn code(topic: &str, partition: i32, code: i16) -> String {
    format!("{topic}-{partition} {code}")
}

/// A committed position, offset and leader epoch; of its note the length.
fn position(partition: i32, at: (i64, i32), code: i16, note: Option<&str>) -> String {
    let (offset, epoch) = at;
    format!(
        "{partition} at {offset} epoch {epoch} {code} {:?}",
        note.map(str::len)
    )
}

impl Side {
    pub async fn run(&mut self, step: &Step) -> String {
        self.answer(step).await.unwrap_or_else(|closed| closed)
    }

    async fn answer(&mut self, step: &Step) -> Result<String, String> {
        match step.clone() {
            Step::Commit {
                version,
                group,
                who,
                instance,
                topic,
                partition,
                offset,
                note,
            } => {
                let (member, generation) = self.member(who);
                let position = OffsetCommitRequestPartition::default()
                    .with_partition_index(partition)
                    .with_committed_offset(offset)
                    .with_committed_leader_epoch(if version >= 6 { 3 } else { -1 })
                    .with_committed_metadata(note.map(|length| text(&"x".repeat(length))));
                let topic = OffsetCommitRequestTopic::default()
                    .with_name(topic_name(topic))
                    .with_partitions(vec![position]);
                let request = OffsetCommitRequest::default()
                    .with_group_id(group_id(group))
                    .with_generation_id_or_member_epoch(generation)
                    .with_member_id(member)
                    .with_group_instance_id(instance.filter(|_| version >= 7).map(text))
                    .with_topics(vec![topic]);
                let reply = self.call(version, &request).await?;
                let topics = reply.topics.iter().flat_map(|topic| {
                    let partitions = topic.partitions.iter();
                    partitions.map(|of| code(&topic.name, of.partition_index, of.error_code))
                });
                Ok(join(topics))
            }
            Step::Fetch {
                version,
                group,
                who,
                all,
            } => self.fetch(version, group, who, all).await,
            Step::Heartbeat {
                version,
                group,
                who,
                instance,
            } => {
                let (member, generation) = self.member(who);
                let request = HeartbeatRequest::default()
                    .with_group_id(group_id(group))
                    .with_generation_id(generation)
                    .with_member_id(member)
                    .with_group_instance_id(instance.map(text));
                Ok(self.call(version, &request).await?.error_code.to_string())
            }
            Step::Sync {
                version,
                group,
                who,
                protocol,
            } => {
                let (member, generation) = self.member(who);
                let request = SyncGroupRequest::default()
                    .with_group_id(group_id(group))
                    .with_generation_id(generation)
                    .with_member_id(member)
                    .with_protocol_type((version >= 5).then(|| text("consumer")))
                    .with_protocol_name(protocol.filter(|_| version >= 5).map(text));
                let reply = self.call(version, &request).await?;
                Ok(format!(
                    "{} {:?} {:?} {:?}",
                    reply.error_code, reply.protocol_type, reply.protocol_name, reply.assignment
                ))
            }
            Step::Join {
                version,
                group,
                session,
                protocol,
                kind,
                member,
            } => {
                let offered = JoinGroupRequestProtocol::default()
                    .with_name(text(protocol))
                    .with_metadata(subscription("t"));
                let protocols = if protocol.is_empty() {
                    Vec::new()
                } else {
                    vec![offered]
                };
                let request = JoinGroupRequest::default()
                    .with_group_id(group_id(group))
                    .with_session_timeout_ms(session)
                    .with_rebalance_timeout_ms(60_000)
                    .with_member_id(text(member))
                    .with_protocol_type(text(kind))
                    .with_protocols(protocols);
                let reply = self.call(version, &request).await?;
                Ok(format!(
                    "{} {} {:?} {:?} leader {:?} has id {}",
                    reply.error_code,
                    reply.generation_id,
                    reply.protocol_type,
                    reply.protocol_name,
                    reply.leader,
                    !reply.member_id.is_empty()
                ))
            }
            Step::Leave {
                version,
                group,
                who,
                instance,
            } => {
                let (member, _) = self.member(who);
                let request = LeaveGroupRequest::default().with_group_id(group_id(group));
                let request = if version >= 3 {
                    let leaving = MemberIdentity::default()
                        .with_member_id(member)
                        .with_group_instance_id(instance.map(text));
                    request.with_members(vec![leaving])
                } else {
                    request.with_member_id(member)
                };
                let reply = self.call(version, &request).await?;
                let members = reply.members.iter().map(|member| {
                    format!(
                        "{:?} {:?} {}",
                        member.member_id, member.group_instance_id, member.error_code
                    )
                });
                Ok(format!("{} {}", reply.error_code, join(members)))
            }
            Step::Describe { version, group } => {
                let request = DescribeGroupsRequest::default().with_groups(vec![group_id(group)]);
                let reply = self.call(version, &request).await?;
                let described = &reply.groups[0];
                let members = described.members.iter().map(|member| {
                    format!(
                        "{} {:?} {:?} {:?} {:?} {:?}",
                        &*member.member_id,
                        member.group_instance_id,
                        member.client_id,
                        member.client_host,
                        member.member_metadata,
                        member.member_assignment
                    )
                });
                let shown = format!(
                    "{} {} {} {} [{}]",
                    described.error_code,
                    &*described.group_state,
                    &*described.protocol_type,
                    &*described.protocol_data,
                    join(members)
                );
                Ok(self.shown(shown))
            }
            Step::DescribeConsumer { version, group } => {
                let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group_id(group)]);
                let reply = self.call(version, &request).await?;
                let described = &reply.groups[0];
                let mut shown = format!("{} ", described.error_code);
                for member in &described.members {
                    let partitions = |assignment: &consumer_group_describe_response::Assignment| {
                        let topics = assignment.topic_partitions.iter();
                        join(topics.map(|topic| format!("{} {:?}", &*topic.topic_name, topic.partitions)))
                    };
                    write!(
                        shown,
                        "{} {} {} {:?} {:?} {} {} {}",
                        &*described.group_state,
                        &*described.assignor_name,
                        &*member.member_id,
                        member.client_id,
                        member.subscribed_topic_names,
                        partitions(&member.assignment),
                        partitions(&member.target_assignment),
                        member.member_type,
                    )
                    .unwrap();
                }
                Ok(shown)
            }
            Step::List {
                version,
                states,
                kinds,
            } => {
                let names = |names: Vec<&str>| names.into_iter().map(text).collect::<Vec<_>>();
                let mut request = ListGroupsRequest::default();
                if version >= 4 {
                    request.states_filter = names(states);
                }
                if version >= 5 {
                    request.types_filter = names(kinds);
                }
                let reply = self.call(version, &request).await?;
                let groups = reply.groups.iter().map(|group| {
                    format!(
                        "{} {:?} {} {}",
                        &**group.group_id, group.protocol_type, &*group.group_state, &*group.group_type
                    )
                });
                Ok(format!("{} {}", reply.error_code, join(groups)))
            }
            Step::Delete { version, group } => {
                let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id(group)]);
                let reply = self.call(version, &request).await?;
                Ok(reply.results[0].error_code.to_string())
            }
            Step::Forget {
                group,
                topic,
                partition,
            } => {
                let asked = OffsetDeleteRequestPartition::default().with_partition_index(partition);
                let topic = OffsetDeleteRequestTopic::default()
                    .with_name(topic_name(topic))
                    .with_partitions(vec![asked]);
                let request = OffsetDeleteRequest::default()
                    .with_group_id(group_id(group))
                    .with_topics(vec![topic]);
                let reply = self.call(0, &request).await?;
                let topics = reply.topics.iter().flat_map(|topic| {
                    let partitions = topic.partitions.iter();
                    partitions.map(|of| code(&topic.name, of.partition_index, of.error_code))
                });
                Ok(format!("{} {}", reply.error_code, join(topics)))
            }
            Step::Enter { group, epoch } => self.enter(group, epoch).await,
            Step::Beat {
                version,
                group,
                who,
                instance,
                assignor,
                regex,
                full,
            } => {
                let (member, epoch) = self.member(who);
                let owned = consumer_group_heartbeat_request::TopicPartitions::default()
                    .with_topic_id(self.topic_id)
                    .with_partitions(vec![0, 1, 2]);
                let mut request = ConsumerGroupHeartbeatRequest::default()
                    .with_group_id(group_id(group))
                    .with_member_id(member)
                    .with_member_epoch(epoch)
                    .with_instance_id(instance.map(text))
                    .with_server_assignor(assignor.map(text).filter(|name| &**name != "range"))
                    .with_rebalance_timeout_ms(-1);
                if full {
                    request = request
                        .with_rebalance_timeout_ms(300_000)
                        .with_subscribed_topic_names(Some(vec![topic_name("t")]))
                        .with_topic_partitions(Some(vec![owned]));
                }
                if version >= 1 {
                    request.subscribed_topic_regex = regex.map(text);
                }
                let reply = self.call(version, &request).await?;
                let role = Who::Member("newer", 0);
                let moved = reply.member_epoch - self.member(role).1;
                let assignment = reply.assignment.map(|assignment| {
                    let topics = assignment.topic_partitions.into_iter();
                    topics.map(|topic| topic.partitions).collect::<Vec<_>>()
                });
                let epoch = if reply.error_code == 0 { moved } else { 0 };
                Ok(format!(
                    "{} epoch {epoch:+} every {} {assignment:?}",
                    reply.error_code, reply.heartbeat_interval_ms
                ))
            }
        }
    }

    async fn enter(&mut self, group: &str, epoch: i32) -> Result<String, String> {
        let joins = epoch == 0;
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group_id(group))
            .with_member_id(text("entering"))
            .with_member_epoch(epoch)
            .with_rebalance_timeout_ms(if joins { 300_000 } else { -1 })
            .with_subscribed_topic_names(joins.then(|| vec![topic_name("t")]))
            .with_topic_partitions(joins.then(Vec::new));
        let reply = self.call(1, &request).await?;
        Ok(format!("{} {:?}", reply.error_code, reply.error_message))
    }

    async fn fetch(
        &mut self,
        version: i16,
        group: &str,
        who: Option<Who>,
        all: bool,
    ) -> Result<String, String> {
        let all = all && version >= 2;
        let mut shown = String::new();
        if version >= 8 {
            let topics = OffsetFetchRequestTopics::default()
                .with_name(topic_name("t"))
                .with_partition_indexes(vec![0, 1, 2, 3]);
            let mut asked = OffsetFetchRequestGroup::default()
                .with_group_id(group_id(group))
                .with_member_epoch(-1)
                .with_topics((!all).then(|| vec![topics]));
            if version >= 9
                && let Some(who) = who
            {
                let (member, epoch) = self.member(who);
                asked = asked.with_member_id(Some(member)).with_member_epoch(epoch);
            }
            let request = OffsetFetchRequest::default().with_groups(vec![asked]);
            let reply = self.call(version, &request).await?;
            write!(shown, "{} ", reply.groups[0].error_code).unwrap();
            for topic in &reply.groups[0].topics {
                let partitions = topic.partitions.iter().map(|of| {
                    let at = (of.committed_offset, of.committed_leader_epoch);
                    position(of.partition_index, at, of.error_code, of.metadata.as_deref())
                });
                write!(shown, "{} [{}]", &*topic.name, join(partitions)).unwrap();
            }
            return Ok(shown);
        }
        let topics = OffsetFetchRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partition_indexes(vec![0, 1, 2, 3]);
        let request = OffsetFetchRequest::default()
            .with_group_id(group_id(group))
            .with_topics((!all).then(|| vec![topics]));
        let reply = self.call(version, &request).await?;
        write!(shown, "{} ", reply.error_code).unwrap();
        for topic in &reply.topics {
            let partitions = topic.partitions.iter().map(|of| {
                let at = (of.committed_offset, of.committed_leader_epoch);
                position(of.partition_index, at, of.error_code, of.metadata.as_deref())
            });
            write!(shown, "{} [{}]", &*topic.name, join(partitions)).unwrap();
        }
        Ok(shown)
    }
}
