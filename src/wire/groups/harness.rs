//! A coordinator with a clock that stands still and records that are durable when a test says so.
use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

use super::config::GroupConfig;
use super::coordinator::Coordinator;
use super::messages::*;
use super::output::{Now, Output, Reply, Token};
use super::record::Record;
use super::topics::Topic;
use crate::wire::error_code::ErrorCode;

pub const DAY_MS: i64 = 86_400_000;

/// 2026-01-01T00:00:00Z.
pub const START_MS: i64 = 1_767_225_600_000;

#[derive(Debug)]
pub struct Harness {
    pub coordinator: Coordinator,
    pub now: Now,
    pub replies: BTreeMap<Token, Reply>,
    /// Records that are not durable yet.
    pub pending: Vec<Record>,
    /// Everything that became durable.
    pub kept: Vec<Record>,
    pub hold: bool,
    pub next_token: Token,
    pub next_id: u128,
}

impl Default for Harness {
    fn default() -> Self {
        Self::with(GroupConfig::default())
    }
}

pub fn client(name: &str) -> Client {
    Client {
        id: name.into(),
        host: "/192.0.2.1".into(),
        connection: 1,
    }
}

/// A ConsumerProtocolSubscription of version 0.
pub fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    bytes.put_i32(topics.len() as i32);
    for topic in topics {
        bytes.put_i16(topic.len() as i16);
        bytes.put_slice(topic.as_bytes());
    }
    bytes.put_i32(-1);
    bytes.freeze()
}

/// A ConsumerProtocolAssignment of version 0.
pub fn assignment(topic: &str, partitions: &[i32]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    bytes.put_i32(1);
    bytes.put_i16(topic.len() as i16);
    bytes.put_slice(topic.as_bytes());
    bytes.put_i32(partitions.len() as i32);
    for partition in partitions {
        bytes.put_i32(*partition);
    }
    bytes.put_i32(-1);
    bytes.freeze()
}

/// A join as a Java consumer sends it, without a member id.
pub fn join_request(group: &str) -> JoinRequest {
    JoinRequest {
        group_id: group.to_owned(),
        member_id: String::new(),
        instance_id: None,
        client: client("client"),
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 300_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![OfferedProtocol {
            name: "range".to_owned(),
            metadata: subscription(&["orders"]),
        }],
        reason: None,
        requires_known_member_id: true,
        supports_skip_assignment: true,
    }
}

pub fn commit_request(group: &str, topic: &str, partition: i32, offset: i64) -> CommitRequest {
    CommitRequest {
        group_id: group.to_owned(),
        generation_or_epoch: -1,
        member_id: String::new(),
        instance_id: None,
        retention_time_ms: -1,
        client: client("client"),
        version: 8,
        topics: vec![(
            topic.to_owned(),
            vec![CommitPartition {
                partition,
                offset,
                leader_epoch: -1,
                metadata: None,
            }],
        )],
    }
}

impl Harness {
    pub fn with(config: GroupConfig) -> Self {
        let mut harness = Self {
            coordinator: Coordinator::new(config),
            now: Now {
                monotonic_ms: 0,
                wall_ms: START_MS,
            },
            replies: BTreeMap::new(),
            pending: Vec::new(),
            kept: Vec::new(),
            hold: false,
            next_token: 0,
            next_id: 0,
        };
        harness.topic("orders", 1, 6);
        harness
    }

    /// A coordinator that knows what this one kept, a moment after a crash.
    pub fn restarted(&self) -> Self {
        let mut harness = Self::with(self.coordinator.config().clone());
        harness.now = self.now;
        for topic in self.coordinator.topics().iter() {
            harness.coordinator.set_topic(topic.clone());
        }
        let mut groups = BTreeMap::new();
        for record in &self.kept {
            harness.coordinator.offsets.apply(record);
            match record {
                Record::Commit { key, .. } => harness.coordinator.note_group(&key.group, harness.now),
                Record::Group { group, snapshot } => {
                    groups.insert(group.clone(), snapshot.clone());
                }
                Record::GroupGone { group, .. } => {
                    groups.remove(group);
                    harness.coordinator.groups.remove(group);
                }
                _ => {}
            }
        }
        for (group, snapshot) in groups {
            // What is kept is text.
            let text = serde_json::to_string(&snapshot).unwrap();
            let snapshot = serde_json::from_str(&text).unwrap();
            harness.coordinator.load_group(&group, snapshot, harness.now);
        }
        harness.kept = self.kept.clone();
        harness.next_token = self.next_token;
        harness.next_id = self.next_id + 1_000;
        harness
    }

    pub fn topic(&mut self, name: &str, id: u128, partitions: i32) {
        self.coordinator.set_topic(Topic {
            name: name.into(),
            id: Uuid::from_u128(id),
            partitions,
        });
    }

    pub fn take(&mut self, out: Output) {
        self.replies.extend(out.replies);
        self.pending.extend(out.records);
        if !self.hold {
            self.settle(true);
        }
    }

    pub fn settle(&mut self, durable: bool) {
        let records = std::mem::take(&mut self.pending);
        self.coordinator.settled(&records, durable);
        if durable {
            self.kept.extend(records);
        }
    }

    /// Lets time pass, doing everything due on the way at its moment.
    pub fn advance(&mut self, ms: i64) {
        let end_ms = self.now.monotonic_ms + ms;
        let wall_ms = self.now.wall_ms - self.now.monotonic_ms;
        while let Some(at_ms) = self.coordinator.next_deadline().filter(|at_ms| *at_ms <= end_ms) {
            self.now.monotonic_ms = at_ms.max(self.now.monotonic_ms);
            self.now.wall_ms = wall_ms + self.now.monotonic_ms;
            let mut out = Output::new();
            self.coordinator.tick(self.now, &mut out);
            self.take(out);
        }
        self.now.monotonic_ms = end_ms;
        self.now.wall_ms = wall_ms + end_ms;
    }

    pub fn expire(&mut self) {
        self.expire_but(&[]);
    }

    /// The same with groups that topics require.
    pub fn expire_but(&mut self, required: &[(&str, &str)]) {
        let required = required
            .iter()
            .map(|(topic, group)| ((*topic).to_owned(), (*group).to_owned()))
            .collect();
        let mut out = Output::new();
        self.coordinator.expire(self.now, &required, &mut out);
        self.take(out);
    }

    pub fn delete_topic(&mut self, name: &str) {
        let mut out = Output::new();
        self.coordinator.remove_topic(name, self.now, &mut out);
        self.take(out);
    }

    pub fn join(&mut self, request: JoinRequest) -> Token {
        let token = self.next_token;
        self.next_token += 1;
        self.next_id += 1;
        let mut out = Output::new();
        self.coordinator
            .join(self.now, token, request, Uuid::from_u128(self.next_id), &mut out);
        self.take(out);
        token
    }

    pub fn joined(&mut self, token: Token) -> Option<JoinReply> {
        match self.replies.remove(&token)? {
            Reply::Join(reply) => Some(reply),
            Reply::Sync(_) => panic!("request {token} was a join"),
        }
    }

    pub fn sync(&mut self, request: SyncRequest) -> Token {
        let token = self.next_token;
        self.next_token += 1;
        let mut out = Output::new();
        self.coordinator.sync(self.now, token, request, &mut out);
        self.take(out);
        token
    }

    pub fn synced(&mut self, token: Token) -> Option<SyncReply> {
        match self.replies.remove(&token)? {
            Reply::Sync(reply) => Some(reply),
            Reply::Join(_) => panic!("request {token} was a sync"),
        }
    }

    pub fn heartbeat(&mut self, group: &str, member: &str, generation: i32) -> Result<(), ErrorCode> {
        self.coordinator.heartbeat(
            self.now,
            &HeartbeatRequest {
                group_id: group.to_owned(),
                generation_id: generation,
                member_id: member.to_owned(),
                instance_id: None,
            },
        )
    }

    pub fn leave(&mut self, group: &str, members: &[&str]) -> LeaveReply {
        let members: Vec<_> = members
            .iter()
            .map(|member| LeavingMember {
                member_id: (*member).to_owned(),
                instance_id: None,
                reason: None,
            })
            .collect();
        self.leave_as(group, &members)
    }

    pub fn leave_as(&mut self, group: &str, members: &[LeavingMember]) -> LeaveReply {
        let mut out = Output::new();
        let reply = self.coordinator.leave(self.now, group, members, &mut out);
        self.take(out);
        reply
    }

    pub fn commit(&mut self, request: CommitRequest) -> Option<ErrorCode> {
        let mut out = Output::new();
        let results = self.coordinator.commit(self.now, request, &mut out);
        self.take(out);
        results[0].1[0].1
    }

    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let reply = self.coordinator.fetch_offsets(FetchOffsetsRequest {
            group_id: group.to_owned(),
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![(topic.to_owned(), vec![partition])]),
        });
        reply.unwrap()[0].1[0].1.as_ref().map(|fetched| fetched.offset)
    }

    pub fn consumer(&mut self, request: ConsumerHeartbeatRequest) -> Result<ConsumerHeartbeatReply, Refusal> {
        self.next_id += 1;
        let mut out = Output::new();
        let new_id = Uuid::from_u128(self.next_id).to_string();
        let reply = self
            .coordinator
            .consumer_heartbeat(self.now, request, &new_id, &mut out);
        self.take(out);
        reply
    }

    /// The group, if it is known, with its state.
    pub fn state(&self, group: &str) -> Option<&'static str> {
        let groups = self.coordinator.list(&[], &[]);
        groups
            .into_iter()
            .find(|listed| listed.group_id == group)
            .map(|listed| listed.state)
    }

    /// A group of `count` members in state Stable; the first is the leader. Answers their ids and the generation.
    pub fn stable(&mut self, group: &str, count: usize) -> (Vec<String>, i32) {
        let ids: Vec<String> = (0..count)
            .map(|_| {
                let token = self.join(join_request(group));
                self.joined(token).unwrap().member_id
            })
            .collect();
        let tokens: Vec<Token> = ids
            .iter()
            .map(|id| {
                self.join(JoinRequest {
                    member_id: id.clone(),
                    ..join_request(group)
                })
            })
            .collect();
        for _ in 0..100 {
            if !self.replies.contains_key(&tokens[0]) {
                self.advance(3_000);
            }
        }
        let replies: Vec<JoinReply> = tokens.iter().map(|token| self.joined(*token).unwrap()).collect();
        let generation = replies[0].generation_id;
        let leader = replies[0].leader.clone();
        let syncs: Vec<Token> = ids
            .iter()
            .map(|id| {
                let assignments = if *id == leader {
                    ids.iter()
                        .zip(0..)
                        .map(|(id, partition)| (id.clone(), assignment("orders", &[partition])))
                        .collect()
                } else {
                    Vec::new()
                };
                self.sync(sync_request(group, id, generation, assignments))
            })
            .collect();
        for (token, partition) in syncs.into_iter().zip(0..) {
            let reply = self.synced(token).unwrap();
            assert_eq!(reply.error, None);
            assert_eq!(reply.assignment, assignment("orders", &[partition]));
        }
        let mut ids = ids;
        let at = ids.iter().position(|id| *id == leader).unwrap();
        ids.swap(0, at);
        (ids, generation)
    }
}

pub fn sync_request(
    group: &str,
    member: &str,
    generation: i32,
    assignments: Vec<(String, Bytes)>,
) -> SyncRequest {
    SyncRequest {
        group_id: group.to_owned(),
        generation_id: generation,
        member_id: member.to_owned(),
        instance_id: None,
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("range".to_owned()),
        assignments,
    }
}
