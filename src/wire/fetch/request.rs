//! The Fetch request, walked by hand: it comes hundreds of times a second, and the protocol crate trusts the sizes of
//! its tagged fields.
use std::sync::Arc;

use uuid::Uuid;

use crate::wire::reader::Reader;
use crate::wire::schema::Malformed;

/// The first version with sessions (KIP-227).
const WITH_SESSIONS: i16 = 7;
/// The first version with leader epochs.
const WITH_EPOCHS: i16 = 9;
/// The first version with a rack.
const WITH_RACK: i16 = 11;
/// The first flexible version, which also has the last fetched epoch.
pub(crate) const FLEXIBLE_FROM: i16 = 12;
/// The first version that names topics by id (KIP-516).
pub(crate) const WITH_TOPIC_IDS: i16 = 13;
/// The last version with a replica id in the body.
const LAST_WITH_REPLICA: i16 = 14;

/// How a request names a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TopicKey {
    Name(Arc<str>),
    Id(Uuid),
}

/// What is asked of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub partition: i32,
    /// -1 when the client knows none.
    pub current_leader_epoch: i32,
    pub fetch_offset: i64,
    /// Epoch of the last record fetched; -1 when not given.
    pub last_fetched_epoch: i32,
    pub max_bytes: i32,
}

/// A topic with what is asked of its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AskedTopic {
    pub key: TopicKey,
    pub partitions: Vec<Position>,
}

/// A whole request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FetchRequest {
    /// -1 for consumers.
    pub replica_id: i32,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub read_committed: bool,
    pub session_id: i32,
    pub session_epoch: i32,
    pub topics: Vec<AskedTopic>,
    pub forgotten: Vec<(TopicKey, Vec<i32>)>,
    /// Topics and partitions in all.
    pub elements: usize,
}

/// The fewest bytes an element takes: a topic without a name or partitions.
pub(crate) const SMALLEST_ELEMENT: usize = 6;

/// Reads a request body.
pub(crate) fn read(version: i16, body: &[u8]) -> Result<FetchRequest, Malformed> {
    let mut reader = Reader::new(body, version >= FLEXIBLE_FROM);
    let replica_id = if version <= LAST_WITH_REPLICA {
        reader.int32()?
    } else {
        -1
    };
    let mut request = FetchRequest {
        replica_id,
        max_wait_ms: reader.int32()?,
        min_bytes: reader.int32()?,
        max_bytes: reader.int32()?,
        read_committed: reader.int8()? == 1,
        session_id: 0,
        session_epoch: -1,
        topics: Vec::new(),
        forgotten: Vec::new(),
        elements: 0,
    };
    if version >= WITH_SESSIONS {
        request.session_id = reader.int32()?;
        request.session_epoch = reader.int32()?;
    }
    for _ in 0..reader.array_length()? {
        let key = topic_key(version, &mut reader)?;
        let mut partitions = Vec::new();
        for _ in 0..reader.array_length()? {
            partitions.push(position(version, &mut reader)?);
        }
        reader.end_structure()?;
        request.topics.push(AskedTopic { key, partitions });
    }
    if version >= WITH_SESSIONS {
        for _ in 0..reader.array_length()? {
            let key = topic_key(version, &mut reader)?;
            let mut partitions = Vec::new();
            for _ in 0..reader.array_length()? {
                partitions.push(reader.int32()?);
            }
            reader.end_structure()?;
            request.forgotten.push((key, partitions));
        }
    }
    if version >= WITH_RACK {
        reader.nullable_string()?;
    }
    reader.end_structure()?;
    request.elements = reader.elements();
    Ok(request)
}

fn topic_key(version: i16, reader: &mut Reader<'_>) -> Result<TopicKey, Malformed> {
    Ok(if version >= WITH_TOPIC_IDS {
        TopicKey::Id(reader.uuid()?)
    } else {
        TopicKey::Name(Arc::from(reader.string()?))
    })
}

fn position(version: i16, reader: &mut Reader<'_>) -> Result<Position, Malformed> {
    let partition = reader.int32()?;
    let current_leader_epoch = if version >= WITH_EPOCHS {
        reader.int32()?
    } else {
        -1
    };
    let fetch_offset = reader.int64()?;
    let last_fetched_epoch = if version >= FLEXIBLE_FROM {
        reader.int32()?
    } else {
        -1
    };
    if version >= 5 {
        // The log start offset of a follower; consumers send -1.
        reader.int64()?;
    }
    let max_bytes = reader.int32()?;
    reader.end_structure()?;
    Ok(Position {
        partition,
        current_leader_epoch,
        fetch_offset,
        last_fetched_epoch,
        max_bytes,
    })
}
