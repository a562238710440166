//! What the coordinator wants kept, and what it is rebuilt from.
//!
//! A [`Record`] is emitted when a request is accepted and takes effect on committed positions only when the
//! driver says it is durable: nobody is shown, and no decision rests on, a position that a crash could take
//! back.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A committed position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch the client gave, -1 when unknown.
    pub leader_epoch: i32,
    /// The client's own note.
    pub metadata: Arc<str>,
    /// When it was committed, wall clock.
    pub commit_ms: i64,
    /// Wall-clock time it ends at, where the client asked for a retention of its own.
    pub expire_ms: Option<i64>,
    /// Id of the topic at commit: a commit says nothing about a later topic of the same name.
    pub topic_id: Uuid,
}

/// Why a position is no longer committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Gone {
    /// Kept for `offsets.retention.minutes`, as Kafka does.
    Expired,
    /// The topic was deleted.
    TopicDeleted,
}

/// A position that is no longer committed and still says where a reader was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerPosition {
    /// The last commit.
    pub last: CommittedOffset,
    /// When it went, wall clock.
    pub gone_ms: i64,
    /// Why.
    pub why: Gone,
}

/// Group, topic and partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PositionKey {
    /// Group id.
    pub group: Arc<str>,
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition index.
    pub partition: i32,
}

/// One change to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A commit.
    Commit {
        /// Whose.
        key: PositionKey,
        /// What.
        value: CommittedOffset,
    },
    /// A commit that ends; remembered as a former position where it did not end by a person's order.
    Forget {
        /// Whose.
        key: PositionKey,
        /// What is remembered.
        former: Option<FormerPosition>,
    },
    /// A former position that is no longer of interest.
    ForgetFormer {
        /// Whose.
        key: PositionKey,
    },
    /// The group's members and generation.
    Group {
        /// Group id.
        group: Arc<str>,
        /// All of it.
        snapshot: GroupSnapshot,
    },
    /// The group and every commit of it.
    GroupGone {
        /// Group id.
        group: Arc<str>,
        /// Also what was remembered of it: a person deleted it.
        forget_former: bool,
    },
}

impl Record {
    /// The group this is about.
    pub fn group(&self) -> &Arc<str> {
        match self {
            Self::Commit { key, .. } | Self::Forget { key, .. } | Self::ForgetFormer { key } => &key.group,
            Self::Group { group, .. } | Self::GroupGone { group, .. } => group,
        }
    }
}

/// A group as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum GroupSnapshot {
    /// Classic protocol.
    Classic(ClassicSnapshot),
    /// Consumer protocol of KIP-848.
    Consumer(ConsumerSnapshot),
}

/// A classic group in state Empty or Stable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassicSnapshot {
    /// None for a group that never had a member.
    pub protocol_type: Option<String>,
    /// Generation.
    pub generation: i32,
    /// The chosen protocol.
    pub protocol_name: Option<String>,
    /// Leader's member id.
    pub leader: Option<String>,
    /// When it entered its state, wall clock.
    pub state_since_ms: i64,
    /// Members.
    pub members: Vec<ClassicMemberSnapshot>,
    /// Without members: the topics that the last ones subscribed to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub read_last: BTreeSet<String>,
}

/// A member of a classic group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassicMemberSnapshot {
    /// Member id.
    pub member_id: String,
    /// Static members only.
    pub instance_id: Option<String>,
    /// Client id.
    pub client_id: String,
    /// Address.
    pub client_host: String,
    /// Session timeout.
    pub session_timeout_ms: i32,
    /// Rebalance timeout.
    pub rebalance_timeout_ms: i32,
    /// Protocols with their metadata, in order of preference.
    pub protocols: Vec<(String, Blob)>,
    /// Assignment.
    pub assignment: Blob,
}

/// A group of the consumer protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerSnapshot {
    /// Group epoch.
    pub group_epoch: i32,
    /// Epoch of the target assignment.
    pub assignment_epoch: i32,
    /// Members.
    pub members: Vec<ConsumerMemberSnapshot>,
    /// Without members: the topics that the last ones subscribed to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub read_last: BTreeSet<String>,
}

/// A member of a group of the consumer protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerMemberSnapshot {
    /// Member id.
    pub member_id: String,
    /// Static members only.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// Client id.
    pub client_id: String,
    /// Address.
    pub client_host: String,
    /// Epoch; -2 for a static member that left for a while.
    pub member_epoch: i32,
    /// Epoch before that.
    pub previous_epoch: i32,
    /// Rebalance timeout.
    pub rebalance_timeout_ms: i32,
    /// Subscribed topics by name.
    pub subscribed_topics: Vec<String>,
    /// Subscribed topics by pattern.
    pub subscribed_regex: Option<String>,
    /// Assignor the member asks for.
    pub server_assignor: Option<String>,
    /// Partitions it owns.
    pub assigned: BTreeMap<Uuid, Vec<i32>>,
    /// Partitions it was told to give up and has not confirmed.
    pub revoking: BTreeMap<Uuid, Vec<i32>>,
    /// Partitions it is to own.
    pub target: BTreeMap<Uuid, Vec<i32>>,
}

/// Bytes that are kept as base64.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blob(pub Bytes);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD
            .decode(text)
            .map(|bytes| Self(Bytes::from(bytes)))
            .map_err(serde::de::Error::custom)
    }
}
