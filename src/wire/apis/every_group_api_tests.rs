//! Every group API at every version: whatever a well-formed request says, it is answered, and the answer can be written.
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use uuid::Uuid;

use super::*;
use crate::wire::groups::messages::*;
use crate::wire::groups::output::{Now, Output, Reply};
use crate::wire::groups::topics::Topic;
use crate::wire::groups::{Coordinator, GroupConfig};
use crate::wire::registry::{Action, Call};
use crate::wire::schema::sample::{Random, sample};

/// A coordinator whose records are durable at once, and whose time passes as soon as somebody waits.
struct Groups {
    coordinator: Mutex<(Coordinator, Now)>,
}

impl Groups {
    fn step<T>(&self, input: impl FnOnce(&mut Coordinator, Now, &mut Output) -> T) -> (T, Vec<Reply>) {
        let mut guard = self.coordinator.lock();
        let (coordinator, now) = &mut *guard;
        let mut out = Output::new();
        let result = input(coordinator, *now, &mut out);
        for _ in 0..1_000 {
            coordinator.settled(&std::mem::take(&mut out.records), true);
            if !out.replies.is_empty() {
                break;
            }
            now.monotonic_ms += 3_000;
            coordinator.tick(*now, &mut out);
        }
        (result, out.replies.into_iter().map(|(_, reply)| reply).collect())
    }

    fn now<T>(&self, input: impl FnOnce(&mut Coordinator, Now, &mut Output) -> T) -> T {
        let mut guard = self.coordinator.lock();
        let (coordinator, now) = &mut *guard;
        let mut out = Output::new();
        let result = input(coordinator, *now, &mut out);
        coordinator.settled(&out.records, true);
        result
    }
}

impl GroupService for Groups {
    async fn join(&self, request: JoinRequest) -> JoinReply {
        let (_, replies) =
            self.step(|groups, now, out| groups.join(now, 1, request, Uuid::from_u128(9), out));
        match replies.into_iter().last() {
            Some(Reply::Join(reply)) => reply,
            other => panic!("a join was answered with {other:?}"),
        }
    }

    async fn sync(&self, request: SyncRequest) -> SyncReply {
        let (_, replies) = self.step(|groups, now, out| groups.sync(now, 1, request, out));
        match replies.into_iter().last() {
            Some(Reply::Sync(reply)) => reply,
            other => panic!("a sync was answered with {other:?}"),
        }
    }

    fn heartbeat(&self, request: HeartbeatRequest) -> Result<(), ErrorCode> {
        self.now(|groups, now, _| groups.heartbeat(now, &request))
    }

    async fn leave(&self, group_id: &str, members: Vec<LeavingMember>) -> LeaveReply {
        self.now(|groups, now, out| groups.leave(now, group_id, &members, out))
    }

    async fn commit(&self, request: CommitRequest) -> PartitionResults {
        self.now(|groups, now, out| groups.commit(now, request, out))
    }

    fn fetch_offsets(&self, request: FetchOffsetsRequest) -> FetchOffsetsReply {
        self.now(|groups, _, _| groups.fetch_offsets(request))
    }

    async fn delete_offsets(
        &self,
        group_id: &str,
        topics: Vec<(String, Vec<i32>)>,
    ) -> Result<PartitionResults, ErrorCode> {
        self.now(|groups, _, out| groups.delete_offsets(group_id, topics, out))
    }

    fn describe(&self, group_id: &str) -> Result<DescribedGroup, Refusal> {
        self.now(|groups, _, _| groups.describe(group_id))
    }

    fn list(&self, states: &[String], kinds: &[String]) -> Vec<ListedGroup> {
        self.now(|groups, _, _| groups.list(states, kinds))
    }

    async fn delete_groups(&self, group_ids: Vec<String>) -> Vec<Option<ErrorCode>> {
        let delete = |id: &String| self.now(|groups, _, out| groups.delete_group(id, out).err());
        group_ids.iter().map(delete).collect()
    }

    async fn consumer_heartbeat(
        &self,
        request: ConsumerHeartbeatRequest,
    ) -> Result<ConsumerHeartbeatReply, Refusal> {
        self.now(|groups, now, out| groups.consumer_heartbeat(now, request, "made", out))
    }

    fn consumer_describe(&self, group_id: &str) -> Result<DescribedConsumerGroup, Refusal> {
        self.now(|groups, _, _| groups.consumer_describe(group_id))
    }

    fn fetched(&self, _: &Client, _: &[FetchPosition]) {}

    fn disconnected(&self, _: &Client) {}
}

fn entries() -> Vec<Entry<Groups>> {
    vec![
        Entry::of::<offset_commit::OffsetCommit>(),
        Entry::of::<offset_fetch::OffsetFetch>(),
        Entry::of::<join_group::JoinGroup>(),
        Entry::of::<heartbeat::Heartbeat>(),
        Entry::of::<leave_group::LeaveGroup>(),
        Entry::of::<sync_group::SyncGroup>(),
        Entry::of::<describe_groups::DescribeGroups>(),
        Entry::of::<list_groups::ListGroups>(),
        Entry::of::<delete_groups::DeleteGroups>(),
        Entry::of::<offset_delete::OffsetDelete>(),
        Entry::of::<consumer_group_heartbeat::ConsumerGroupHeartbeat>(),
        Entry::of::<consumer_group_describe::ConsumerGroupDescribe>(),
    ]
}

/// Groups of every kind under the names that samples make up.
fn groups() -> Arc<Groups> {
    let mut coordinator = Coordinator::new(GroupConfig::default());
    for (name, id) in [("x", 1), ("xx", 2), ("xxx", 3), ("xxxx", 4)] {
        coordinator.set_topic(Topic {
            name: name.into(),
            id: Uuid::from_u128(id),
            partitions: 3,
        });
    }
    let now = Now {
        monotonic_ms: 0,
        wall_ms: 1_767_225_600_000,
    };
    Arc::new(Groups {
        coordinator: Mutex::new((coordinator, now)),
    })
}

fn client() -> Arc<Client> {
    Arc::new(Client {
        id: "tests".into(),
        host: "/127.0.0.1".into(),
        connection: 1,
    })
}

/// A stable classic group "x" and a consumer group "xx", both with commits.
async fn fill(groups: &Groups) -> (String, String) {
    let joined = groups
        .join(JoinRequest {
            group_id: "x".to_owned(),
            member_id: String::new(),
            instance_id: Some("instance".to_owned()),
            client: (*client()).clone(),
            session_timeout_ms: 30_000,
            rebalance_timeout_ms: 30_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![OfferedProtocol {
                name: "range".to_owned(),
                metadata: Bytes::from_static(&[0, 0, 0, 0, 0, 0]),
            }],
            reason: None,
            requires_known_member_id: false,
            supports_skip_assignment: true,
        })
        .await;
    let synced = groups
        .sync(SyncRequest {
            group_id: "x".to_owned(),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            instance_id: None,
            protocol_type: None,
            protocol_name: None,
            assignments: vec![(joined.member_id.clone(), Bytes::from_static(b"all"))],
        })
        .await;
    assert_eq!(synced.error, None);
    let commit = CommitPartition {
        partition: 0,
        offset: 5,
        leader_epoch: 1,
        metadata: Some("note".to_owned()),
    };
    let results = groups
        .commit(CommitRequest {
            group_id: "x".to_owned(),
            generation_or_epoch: joined.generation_id,
            member_id: joined.member_id.clone(),
            instance_id: None,
            retention_time_ms: -1,
            client: (*client()).clone(),
            version: 9,
            topics: vec![("x".to_owned(), vec![commit])],
        })
        .await;
    assert_eq!(results[0].1[0].1, None);
    let reply = groups
        .consumer_heartbeat(ConsumerHeartbeatRequest {
            group_id: "xx".to_owned(),
            member_id: "made".to_owned(),
            member_epoch: 0,
            instance_id: None,
            rack_id: Some("rack".to_owned()),
            rebalance_timeout_ms: 30_000,
            subscribed_topics: Some(vec!["x".to_owned()]),
            subscribed_regex: Some("xx+".to_owned()),
            server_assignor: None,
            owned: Some(Vec::new()),
            client: (*client()).clone(),
            version: 1,
        })
        .await;
    assert_eq!(reply.unwrap().assignment.unwrap().len(), 4);
    (joined.member_id, "made".to_owned())
}

async fn call(entry: &Entry<Groups>, groups: &Arc<Groups>, version: i16, body: Vec<u8>) -> Vec<u8> {
    let Action::Answer(handler) = entry.action else {
        panic!("{} has no handler", entry.name);
    };
    let call = Call {
        version,
        correlation_id: 0x0102_0304,
        client: client(),
        room: Vec::new(),
    };
    let answer = handler(Arc::clone(groups), call, Bytes::from(body)).await;
    let frame = answer.unwrap_or_else(|error| panic!("{} v{version}: {error}", entry.name));
    assert_eq!(&frame[4..8], &[1, 2, 3, 4], "{} v{version}", entry.name);
    frame.to_vec()
}

#[tokio::test]
async fn made_up_requests_are_answered_at_every_version() {
    let mut answered = 0;
    for entry in entries() {
        for version in entry.min..=entry.max {
            let groups = groups();
            let flexible = (entry.request_header)(version) >= 2;
            for seed in 0..40 {
                let mut body = Vec::new();
                sample(entry.schema, version, flexible, &mut Random(seed), &mut body);
                call(&entry, &groups, version, body).await;
                answered += 1;
            }
        }
    }
    assert!(answered > 2_000, "{answered}");
}

/// Requests that find what they ask for, so that full answers are written at every version.
#[tokio::test]
async fn full_answers_can_be_written_at_every_version() {
    use kafka_protocol::messages::*;
    use kafka_protocol::protocol::Encodable;

    fn body(request: impl Encodable, version: i16) -> Vec<u8> {
        let mut bytes = bytes::BytesMut::new();
        request.encode(&mut bytes, version).unwrap();
        bytes.to_vec()
    }

    let group = |name: &str| GroupId(text(name));
    for entry in entries() {
        for version in entry.min..=entry.max {
            let groups = groups();
            let (member, consumer) = fill(&groups).await;
            let request = match entry.name {
                "DescribeGroups" => body(
                    DescribeGroupsRequest::default().with_groups(vec![
                        group("x"),
                        group("xx"),
                        group("none"),
                    ]),
                    version,
                ),
                "ListGroups" => body(ListGroupsRequest::default(), version),
                "ConsumerGroupDescribe" => body(
                    ConsumerGroupDescribeRequest::default().with_group_ids(vec![group("xx"), group("x")]),
                    version,
                ),
                "OffsetFetch" if version >= 8 => {
                    let all = offset_fetch_request::OffsetFetchRequestGroup::default()
                        .with_group_id(group("x"))
                        .with_topics(None);
                    body(OffsetFetchRequest::default().with_groups(vec![all]), version)
                }
                "OffsetFetch" if version >= 2 => body(
                    OffsetFetchRequest::default()
                        .with_group_id(group("x"))
                        .with_topics(None),
                    version,
                ),
                "JoinGroup" => {
                    let protocol =
                        join_group_request::JoinGroupRequestProtocol::default().with_name(text("range"));
                    let request = JoinGroupRequest::default()
                        .with_group_id(group("x"))
                        .with_session_timeout_ms(30_000)
                        .with_protocol_type(text("consumer"))
                        .with_protocols(vec![protocol]);
                    // A static member that comes back is answered at once, as leader and with the members.
                    let request = if version >= 5 {
                        request.with_group_instance_id(Some(text("instance")))
                    } else {
                        request.with_member_id(text(member.as_str()))
                    };
                    body(request, version)
                }
                "LeaveGroup" if version >= 3 => {
                    let leaving = leave_group_request::MemberIdentity::default()
                        .with_group_instance_id(Some(text("instance")));
                    body(
                        LeaveGroupRequest::default()
                            .with_group_id(group("x"))
                            .with_members(vec![leaving]),
                        version,
                    )
                }
                "ConsumerGroupHeartbeat" => body(
                    ConsumerGroupHeartbeatRequest::default()
                        .with_group_id(group("xx"))
                        .with_member_id(text(consumer.as_str()))
                        .with_member_epoch(0)
                        .with_rebalance_timeout_ms(1_000)
                        .with_subscribed_topic_names(Some(vec![TopicName(text("x"))]))
                        .with_topic_partitions(Some(Vec::new())),
                    version,
                ),
                _ => continue,
            };
            let frame = call(&entry, &groups, version, request).await;
            // More than an error code: names and partitions are in it.
            assert!(frame.len() > 20, "{} v{version}: {frame:?}", entry.name);
        }
    }
}
