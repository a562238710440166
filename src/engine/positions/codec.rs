//! Positions and groups as bytes in the state store.
//!
//! Keys begin with the group, so that a group's commits lie together and go together; every name carries its length,
//! so that no group's keys are the beginning of another's.
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::engine::store::{Batch, Table};
use crate::wire::groups::record::{
    CommittedOffset, FormerPosition, Gone, GroupSnapshot, PositionKey, Record,
};

/// An entry that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("an entry of the table {table} cannot be read: {reason}")]
pub struct Unreadable {
    /// The table.
    pub table: &'static str,
    /// What is wrong.
    pub reason: String,
}

impl Unreadable {
    pub(super) fn new(table: Table, reason: impl ToString) -> Self {
        Self {
            table: table.name(),
            reason: reason.to_string(),
        }
    }
}

pub(super) fn put_name(bytes: &mut Vec<u8>, name: &str) {
    // A name came in a request, whose size is bounded far below 4 GiB.
    let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(name.as_bytes());
}

fn group_key(group: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(group.len() + 4);
    put_name(&mut bytes, group);
    bytes
}

pub(super) fn position_key(key: &PositionKey) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.group.len() + key.topic.len() + 12);
    put_name(&mut bytes, &key.group);
    put_name(&mut bytes, &key.topic);
    bytes.extend_from_slice(&key.partition.to_be_bytes());
    bytes
}

pub(super) fn read_position_key(bytes: &[u8]) -> Option<PositionKey> {
    let (group, rest) = take_name(bytes)?;
    let (topic, rest) = take_name(rest)?;
    Some(PositionKey {
        group: Arc::from(group),
        topic: Arc::from(topic),
        partition: i32::from_be_bytes(rest.try_into().ok()?),
    })
}

fn take_name(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

/// A commit: five numbers, then the client's note. Written thousands of times a second, so not JSON.
const COMMIT_BYTES: usize = 8 + 4 + 8 + 8 + 16;

pub(super) fn commit_value(value: &CommittedOffset) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(COMMIT_BYTES + value.metadata.len());
    bytes.extend_from_slice(&value.offset.to_be_bytes());
    bytes.extend_from_slice(&value.leader_epoch.to_be_bytes());
    bytes.extend_from_slice(&value.commit_ms.to_be_bytes());
    bytes.extend_from_slice(&value.expire_ms.unwrap_or(-1).to_be_bytes());
    bytes.extend_from_slice(value.topic_id.as_bytes());
    bytes.extend_from_slice(value.metadata.as_bytes());
    bytes
}

pub(super) fn read_commit_value(bytes: &[u8]) -> Option<CommittedOffset> {
    let (offset, rest) = bytes.split_first_chunk()?;
    let (leader_epoch, rest) = rest.split_first_chunk()?;
    let (commit_ms, rest) = rest.split_first_chunk()?;
    let (expire_ms, rest) = rest.split_first_chunk()?;
    let (topic_id, metadata) = rest.split_first_chunk()?;
    let expire_ms = i64::from_be_bytes(*expire_ms);
    Some(CommittedOffset {
        offset: i64::from_be_bytes(*offset),
        leader_epoch: i32::from_be_bytes(*leader_epoch),
        metadata: Arc::from(std::str::from_utf8(metadata).ok()?),
        commit_ms: i64::from_be_bytes(*commit_ms),
        expire_ms: (expire_ms >= 0).then_some(expire_ms),
        topic_id: Uuid::from_bytes(*topic_id),
    })
}

/// A remembered position; rare, so readable.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FormerValue {
    offset: i64,
    leader_epoch: i32,
    metadata: String,
    commit_ms: i64,
    topic_id: Uuid,
    gone_ms: i64,
    why: Gone,
}

fn former_value(former: &FormerPosition) -> Result<Vec<u8>, Unreadable> {
    let value = FormerValue {
        offset: former.last.offset,
        leader_epoch: former.last.leader_epoch,
        metadata: former.last.metadata.to_string(),
        commit_ms: former.last.commit_ms,
        topic_id: former.last.topic_id,
        gone_ms: former.gone_ms,
        why: former.why,
    };
    serde_json::to_vec(&value).map_err(|error| Unreadable::new(Table::FormerPositions, error))
}

pub(super) fn read_former(bytes: &[u8]) -> Result<FormerPosition, Unreadable> {
    let value: FormerValue =
        serde_json::from_slice(bytes).map_err(|error| Unreadable::new(Table::FormerPositions, error))?;
    Ok(FormerPosition {
        last: CommittedOffset {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: Arc::from(value.metadata),
            commit_ms: value.commit_ms,
            expire_ms: None,
            topic_id: value.topic_id,
        },
        gone_ms: value.gone_ms,
        why: value.why,
    })
}

pub(super) fn read_group(key: &[u8], value: &[u8]) -> Result<(String, GroupSnapshot), Unreadable> {
    let id = match take_name(key) {
        Some((id, [])) => id.to_owned(),
        _ => return Err(Unreadable::new(Table::Groups, "the key is not a group id")),
    };
    let snapshot = serde_json::from_slice(value).map_err(|error| Unreadable::new(Table::Groups, error))?;
    Ok((id, snapshot))
}

/// The records as one batch, in their order. Of several states of one group only the last is written.
pub(super) fn batch<'a>(records: impl DoubleEndedIterator<Item = &'a Record>) -> Result<Batch, Unreadable> {
    let mut written = std::collections::BTreeSet::new();
    let mut kept: Vec<&Record> = records
        .rev()
        .filter(|record| match record {
            Record::Group { group, .. } => written.insert(Arc::clone(group)),
            // What is before the end of a group is another group of the same name.
            Record::GroupGone { group, .. } => {
                written.insert(Arc::clone(group));
                true
            }
            _ => true,
        })
        .collect();
    kept.reverse();
    let mut batch = Batch::new();
    for record in kept {
        add(&mut batch, record)?;
    }
    Ok(batch)
}

fn add(batch: &mut Batch, record: &Record) -> Result<(), Unreadable> {
    match record {
        Record::Commit { key, value } => {
            batch.put(Table::CommittedOffsets, position_key(key), commit_value(value));
        }
        Record::Forget { key, former } => {
            batch.remove(Table::CommittedOffsets, position_key(key));
            if let Some(former) = former {
                batch.put(Table::FormerPositions, position_key(key), former_value(former)?);
            }
        }
        Record::ForgetFormer { key } => {
            batch.remove(Table::FormerPositions, position_key(key));
        }
        Record::Group { group, snapshot } => {
            let value =
                serde_json::to_vec(snapshot).map_err(|error| Unreadable::new(Table::Groups, error))?;
            batch.put(Table::Groups, group_key(group), value);
        }
        Record::GroupGone { group, forget_former } => {
            batch.remove(Table::Groups, group_key(group));
            batch.remove_prefix(Table::CommittedOffsets, group_key(group));
            if *forget_former {
                batch.remove_prefix(Table::FormerPositions, group_key(group));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
