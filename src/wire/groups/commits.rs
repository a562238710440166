//! OffsetCommit, OffsetFetch and OffsetDelete.
use std::sync::Arc;

use crate::wire::error_code::ErrorCode;

use super::classic::State;
use super::coordinator::{Coordinator, Group};
use super::messages::{
    CommitPartition, CommitRequest, FetchOffsetsReply, FetchOffsetsRequest, FetchedOffset, PartitionResults,
};
use super::output::{Now, Output};
use super::record::{CommittedOffset, PositionKey, Record};

impl Coordinator {
    /// OffsetCommit. A partition without an error is accepted, and committed once the records are durable.
    pub fn commit(&mut self, now: Now, request: CommitRequest, out: &mut Output) -> PartitionResults {
        let refused = self.check_commit(&request).err();
        let has_room = self.may_make(&request.group_id);
        let mut added = 0_usize;
        if refused.is_none()
            && let Some(Group::Classic(group)) = self.groups.get_mut(request.group_id.as_str())
        {
            group.committed(&request.member_id, now.monotonic_ms);
        }
        let group: Arc<str> = Arc::from(request.group_id.as_str());
        let expire_ms =
            (request.retention_time_ms >= 0).then(|| now.wall_ms.saturating_add(request.retention_time_ms));
        let mut records = Vec::new();
        let mut is_of_a_group = false;
        let mut results = Vec::with_capacity(request.topics.len());
        for (topic, partitions) in request.topics {
            let known = self.topics.by_name(&topic);
            let mut answers = Vec::with_capacity(partitions.len());
            for asked in partitions {
                let partition = asked.partition;
                let target = known.filter(|topic| (0..topic.partitions).contains(&partition));
                if refused.is_none() && target.is_some() && has_room {
                    is_of_a_group = true;
                }
                let error = match (target, refused) {
                    (None, _) => Some(ErrorCode::UnknownTopicOrPartition),
                    (_, Some(error)) => Some(error),
                    (Some(_), None) if self.is_too_long(&asked) => Some(ErrorCode::OffsetMetadataTooLarge),
                    (Some(_), None) => None,
                };
                if let (Some(target), None) = (target, error) {
                    let key = PositionKey {
                        group: Arc::clone(&group),
                        topic: Arc::clone(&target.name),
                        partition,
                    };
                    let value = CommittedOffset {
                        offset: asked.offset,
                        leader_epoch: asked.leader_epoch,
                        metadata: Arc::from(asked.metadata.as_deref().unwrap_or_default()),
                        commit_ms: now.wall_ms,
                        expire_ms,
                        topic_id: target.id,
                    };
                    let more = self.offsets.added_by(&key, &value);
                    if !has_room || (more > 0 && !self.may_hold(added.saturating_add(more))) {
                        // Kafka's answer to a commit that is too large to be written.
                        answers.push((partition, Some(ErrorCode::InvalidCommitOffsetSize)));
                        continue;
                    }
                    added = added.saturating_add(more);
                    if self.offsets.former(&group, &topic, partition).is_some() {
                        records.push(Record::ForgetFormer { key: key.clone() });
                    }
                    records.push(Record::Commit { key, value });
                }
                answers.push((partition, error));
            }
            results.push((topic, answers));
        }
        if is_of_a_group {
            self.note_group(&group, now);
        }
        self.emit(records, out);
        results
    }

    fn is_too_long(&self, asked: &CommitPartition) -> bool {
        asked
            .metadata
            .as_ref()
            .is_some_and(|metadata| metadata.len() > self.config.max_metadata_bytes)
    }

    fn check_commit(&self, request: &CommitRequest) -> Result<(), ErrorCode> {
        match self.groups.get(request.group_id.as_str()) {
            Some(Group::Classic(group)) => group.check_commit(request),
            Some(Group::Consumer(group)) => group.check_commit(request),
            // A consumer that assigns by itself, or an administrator.
            None if request.generation_or_epoch < 0 => Ok(()),
            None if self.offsets.group(&request.group_id).is_some() => Err(ErrorCode::UnknownMemberId),
            None if request.version >= 9 => Err(ErrorCode::GroupIdNotFound),
            None => Err(ErrorCode::IllegalGeneration),
        }
    }

    /// OffsetFetch for one group.
    pub fn fetch_offsets(&self, request: FetchOffsetsRequest) -> FetchOffsetsReply {
        let group_id = request.group_id.as_str();
        if let Some(Group::Consumer(group)) = self.groups.get(group_id) {
            group.check_fetch(request.member_id.as_deref(), request.member_epoch)?;
        }
        let fetched = |topic: &str, partition: i32| {
            let value = self.offsets.get(group_id, topic, partition)?;
            self.is_current(topic, value).then(|| FetchedOffset {
                offset: value.offset,
                leader_epoch: value.leader_epoch,
                metadata: value.metadata.to_string(),
            })
        };
        let topics = match request.topics {
            Some(topics) => topics
                .into_iter()
                .map(|(topic, partitions)| {
                    let partitions = partitions
                        .into_iter()
                        .map(|partition| (partition, fetched(&topic, partition)))
                        .collect();
                    (topic, partitions)
                })
                .collect(),
            None => self
                .offsets
                .group(group_id)
                .into_iter()
                .flat_map(|offsets| offsets.topics())
                .map(|(topic, partitions)| {
                    let partitions: Vec<_> = partitions
                        .keys()
                        .filter_map(|partition| Some((*partition, Some(fetched(topic, *partition)?))))
                        .collect();
                    (topic.to_string(), partitions)
                })
                .filter(|(_, partitions)| !partitions.is_empty())
                .collect(),
        };
        Ok(topics)
    }

    /// Whether a commit was made on the topic that has the name now. A topic that is not known cannot tell.
    pub(super) fn is_current(&self, topic: &str, value: &CommittedOffset) -> bool {
        self.topics
            .by_name(topic)
            .is_none_or(|topic| topic.id == value.topic_id || value.topic_id.is_nil())
    }

    /// OffsetDelete.
    pub fn delete_offsets(
        &mut self,
        group_id: &str,
        topics: Vec<(String, Vec<i32>)>,
        out: &mut Output,
    ) -> Result<PartitionResults, ErrorCode> {
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let group = self.groups.get(group_id);
        match group {
            Some(Group::Classic(group))
                if group.state() != State::Empty && !group.uses_consumer_protocol() =>
            {
                return Err(ErrorCode::NonEmptyGroup);
            }
            None if self.offsets.group(group_id).is_none() => return Err(ErrorCode::GroupIdNotFound),
            _ => {}
        }
        let id: Arc<str> = Arc::from(group_id);
        let mut records = Vec::new();
        let mut results = Vec::with_capacity(topics.len());
        for (topic, partitions) in topics {
            let known = self.topics.by_name(&topic);
            let subscribed = group.is_some_and(|group| group.is_subscribed(&topic));
            let mut answers = Vec::with_capacity(partitions.len());
            for partition in partitions {
                let exists = known.is_some_and(|topic| (0..topic.partitions).contains(&partition));
                let error = if !exists {
                    Some(ErrorCode::UnknownTopicOrPartition)
                } else if subscribed {
                    Some(ErrorCode::GroupSubscribedToTopic)
                } else {
                    None
                };
                if error.is_none() && self.offsets.get(group_id, &topic, partition).is_some() {
                    let topic: Arc<str> = Arc::from(topic.as_str());
                    let key = PositionKey {
                        group: Arc::clone(&id),
                        topic,
                        partition,
                    };
                    records.push(Record::Forget { key, former: None });
                }
                answers.push((partition, error));
            }
            results.push((topic, answers));
        }
        self.emit(records, out);
        Ok(results)
    }
}
