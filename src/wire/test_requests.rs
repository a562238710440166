//! Requests and short forms of their answers, for tests of this room.
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{FetchRequest, FetchResponse, ProduceRequest, ProduceResponse};

use crate::wire::apis::topic_name;
use crate::wire::broker::Topic;
use crate::wire::client::{Client, ClientRecord, encode_batch};
use crate::wire::test_broker::NOW_MS;

pub(crate) fn batch(count: usize, size: usize) -> Bytes {
    let records: Vec<ClientRecord> = (0..count)
        .map(|_| ClientRecord::new(NOW_MS, vec![b'v'; size]))
        .collect();
    encode_batch(&records).unwrap()
}

pub(crate) fn produce_request(
    topic: &Topic,
    version: i16,
    acks: i16,
    partitions: Vec<(i32, Bytes)>,
) -> ProduceRequest {
    let data = partitions.into_iter().map(|(index, records)| {
        PartitionProduceData::default()
            .with_index(index)
            .with_records(Some(records))
    });
    let mut asked = TopicProduceData::default().with_partition_data(data.collect());
    if version >= 13 {
        asked = asked.with_topic_id(topic.id);
    } else {
        asked = asked.with_name(topic_name(&topic.name));
    }
    ProduceRequest::default()
        .with_acks(acks)
        .with_timeout_ms(1_000)
        .with_topic_data(vec![asked])
}

pub(crate) async fn produce(
    client: &mut Client,
    topic: &Topic,
    version: i16,
    partitions: Vec<(i32, Bytes)>,
) -> ProduceResponse {
    client
        .call(version, &produce_request(topic, version, -1, partitions))
        .await
        .unwrap()
}

pub(crate) fn codes(response: &ProduceResponse) -> Vec<(i32, i16, i64)> {
    let partitions = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    partitions
        .map(|one| (one.index, one.error_code, one.base_offset))
        .collect()
}

pub(crate) struct Ask<'a> {
    pub(crate) version: i16,
    pub(crate) wait_ms: i32,
    pub(crate) min_bytes: i32,
    pub(crate) max_bytes: i32,
    pub(crate) session: (i32, i32),
    pub(crate) partitions: Vec<(&'a Topic, i32, i64)>,
}

impl<'a> Ask<'a> {
    pub(crate) fn of(version: i16, partitions: Vec<(&'a Topic, i32, i64)>) -> Self {
        Self {
            version,
            wait_ms: 0,
            min_bytes: 1,
            max_bytes: 1 << 20,
            session: (0, -1),
            partitions,
        }
    }

    pub(crate) fn request(&self) -> FetchRequest {
        let topics = self.partitions.iter().map(|(topic, partition, offset)| {
            let wanted = FetchPartition::default()
                .with_partition(*partition)
                .with_fetch_offset(*offset)
                .with_partition_max_bytes(self.max_bytes);
            let asked = FetchTopic::default().with_partitions(vec![wanted]);
            if self.version >= 13 {
                asked.with_topic_id(topic.id)
            } else {
                asked.with_topic(topic_name(&topic.name))
            }
        });
        let mut request = FetchRequest::default()
            .with_max_wait_ms(self.wait_ms)
            .with_min_bytes(self.min_bytes)
            .with_max_bytes(self.max_bytes)
            .with_topics(topics.collect());
        if self.version >= 7 {
            request = request
                .with_session_id(self.session.0)
                .with_session_epoch(self.session.1);
        }
        request.with_replica_id((-1).into())
    }

    pub(crate) async fn send(&self, client: &mut Client) -> FetchResponse {
        client.call(self.version, &self.request()).await.unwrap()
    }
}

pub(crate) fn sizes(response: &FetchResponse) -> Vec<(i32, i16, usize)> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let size = |records: &Option<Bytes>| records.as_ref().map_or(0, Bytes::len);
    partitions
        .map(|one| (one.partition_index, one.error_code, size(&one.records)))
        .collect()
}

pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    tokio::time::timeout(Duration::from_secs(240), async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the awaited state was not reached");
}
