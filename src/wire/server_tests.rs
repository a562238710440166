use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiVersionsRequest, CreateTopicsRequest, FetchRequest, FetchResponse, ListOffsetsRequest,
    MetadataRequest, ProduceRequest, ProduceResponse,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::wire::apis::{text, topic_name};
use crate::wire::broker::Topic;
use crate::wire::client::{Client, ClientRecord, encode_batch};
use crate::wire::test_broker::{NOW_MS, TestBroker};

/// The versions that differ in how something is laid out.
const PRODUCE_VERSIONS: [i16; 8] = [3, 5, 7, 8, 9, 10, 12, 13];
const FETCH_VERSIONS: [i16; 10] = [4, 5, 6, 7, 9, 11, 12, 13, 16, 17];

fn batch(count: usize, size: usize) -> Bytes {
    let records: Vec<ClientRecord> = (0..count)
        .map(|_| ClientRecord::new(NOW_MS, vec![b'v'; size]))
        .collect();
    encode_batch(&records).unwrap()
}

fn produce_request(topic: &Topic, version: i16, acks: i16, partitions: Vec<(i32, Bytes)>) -> ProduceRequest {
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

async fn produce(
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

fn codes(response: &ProduceResponse) -> Vec<(i32, i16, i64)> {
    let partitions = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    partitions
        .map(|one| (one.index, one.error_code, one.base_offset))
        .collect()
}

struct Ask<'a> {
    version: i16,
    wait_ms: i32,
    min_bytes: i32,
    max_bytes: i32,
    session: (i32, i32),
    partitions: Vec<(&'a Topic, i32, i64)>,
}

impl<'a> Ask<'a> {
    fn of(version: i16, partitions: Vec<(&'a Topic, i32, i64)>) -> Self {
        Self {
            version,
            wait_ms: 0,
            min_bytes: 1,
            max_bytes: 1 << 20,
            session: (0, -1),
            partitions,
        }
    }

    fn request(&self) -> FetchRequest {
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

    async fn send(&self, client: &mut Client) -> FetchResponse {
        client.call(self.version, &self.request()).await.unwrap()
    }
}

fn sizes(response: &FetchResponse) -> Vec<(i32, i16, usize)> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let size = |records: &Option<Bytes>| records.as_ref().map_or(0, Bytes::len);
    partitions
        .map(|one| (one.partition_index, one.error_code, size(&one.records)))
        .collect()
}

#[tokio::test]
async fn every_version_of_produce_and_fetch_carries_the_same_bytes() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 2);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    // One batch below the size that is copied into the answer and one above.
    let (small, large) = (batch(3, 100), batch(10, 4_000));
    for (round, version) in (0_i64..).zip(PRODUCE_VERSIONS) {
        let response = produce(
            &mut client,
            &topic,
            version,
            vec![(0, small.clone()), (1, large.clone())],
        )
        .await;
        assert_eq!(
            codes(&response),
            [(0, 0, round * 3), (1, 0, round * 10)],
            "produce v{version}"
        );
        let first = &response.responses[0].partition_responses[0];
        assert_eq!(first.log_append_time_ms, -1, "produce v{version}");
        let start = if version >= 5 { 0 } else { -1 };
        assert_eq!(first.log_start_offset, start, "produce v{version}");
        assert_eq!((&first.error_message, first.record_errors.len()), (&None, 0));
    }
    let rounds = i64::try_from(PRODUCE_VERSIONS.len()).unwrap();
    for version in FETCH_VERSIONS {
        let ask = Ask::of(version, vec![(&topic, 0, 4), (&topic, 1, 10)]);
        let response = ask.send(&mut client).await;
        let bytes = (
            small.len() * (PRODUCE_VERSIONS.len() - 1),
            large.len() * (PRODUCE_VERSIONS.len() - 1),
        );
        assert_eq!(
            sizes(&response),
            [(0, 0, bytes.0), (1, 0, bytes.1)],
            "fetch v{version}"
        );
        let partitions: Vec<_> = response
            .responses
            .iter()
            .flat_map(|topic| &topic.partitions)
            .collect();
        assert_eq!(partitions[0].high_watermark, rounds * 3, "fetch v{version}");
        assert_eq!(partitions[1].last_stable_offset, rounds * 10, "fetch v{version}");
        assert_eq!(
            partitions[0].log_start_offset,
            if version >= 5 { 0 } else { -1 },
            "fetch v{version}"
        );
        assert_eq!(partitions[0].aborted_transactions, None, "fetch v{version}");
        // The batch that holds offset 4 starts at 3; offset and epoch are stamped, the rest is what was sent.
        let records = partitions[0].records.as_ref().unwrap();
        assert_eq!(&records[..8], &3_i64.to_be_bytes(), "fetch v{version}");
        assert_eq!(&records[12..16], &5_i32.to_be_bytes(), "fetch v{version}");
        assert_eq!(&records[16..small.len()], &small[16..], "fetch v{version}");
        let records = partitions[1].records.as_ref().unwrap();
        assert_eq!(
            &records[large.len() + 16..2 * large.len()],
            &large[16..],
            "fetch v{version}"
        );
    }
}

#[tokio::test]
async fn errors_are_told_per_partition_and_the_rest_is_appended() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 2);
    let internal = broker.add("__internal", 1);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    let good = batch(1, 10);
    let mut corrupt = BytesMut::from(&good[..]);
    corrupt[70] ^= 1;
    let response = produce(
        &mut client,
        &topic,
        9,
        vec![(0, good.clone()), (1, corrupt.freeze()), (2, good.clone())],
    )
    .await;
    assert_eq!(codes(&response), [(0, 0, 0), (1, 2, -1), (2, 3, -1)]);
    assert!(
        response.responses[0].partition_responses[1]
            .error_message
            .is_some()
    );

    let twice = [&good[..], &good[..]].concat();
    let response = produce(&mut client, &topic, 8, vec![(0, twice.into()), (1, Bytes::new())]).await;
    assert_eq!(codes(&response), [(0, 87, -1), (1, 87, -1)]);

    let mut zstd = BytesMut::from(&good[..]);
    zstd[22] |= 4;
    let response = produce(&mut client, &topic, 6, vec![(0, zstd.clone().freeze())]).await;
    assert_eq!(codes(&response), [(0, 76, -1)]);

    let mut transactional = BytesMut::from(&good[..]);
    transactional[22] |= 16;
    let response = produce(&mut client, &topic, 9, vec![(0, transactional.freeze())]).await;
    assert_eq!(codes(&response), [(0, 42, -1)]);
    let message = response.responses[0].partition_responses[0].error_message.clone();
    assert!(message.unwrap().contains("ransactions are not supported"));
    let request = produce_request(&topic, 9, -1, vec![(0, good.clone())])
        .with_transactional_id(Some(kafka_protocol::messages::TransactionalId(text("t"))));
    assert_eq!(codes(&client.call(9, &request).await.unwrap()), [(0, 42, -1)]);

    let request = produce_request(&topic, 9, 2, vec![(0, good.clone())]);
    assert_eq!(codes(&client.call(9, &request).await.unwrap()), [(0, 21, -1)]);
    let response = produce(&mut client, &internal, 9, vec![(0, good.clone())]).await;
    assert_eq!(codes(&response), [(0, 17, -1)]);

    let unknown = Topic {
        name: "nowhere".into(),
        id: uuid::Uuid::from_u128(9),
        internal: false,
        partitions: Vec::new(),
    };
    assert_eq!(
        codes(&produce(&mut client, &unknown, 9, vec![(0, good.clone())]).await),
        [(0, 3, -1)]
    );
    assert_eq!(
        codes(&produce(&mut client, &unknown, 13, vec![(0, good.clone())]).await),
        [(0, 100, -1)]
    );

    broker.full.store(true, Ordering::SeqCst);
    assert_eq!(
        codes(&produce(&mut client, &topic, 9, vec![(0, good.clone())]).await),
        [(0, 56, -1)]
    );
    assert_eq!(
        sizes(&Ask::of(12, vec![(&topic, 0, 0)]).send(&mut client).await),
        [(0, 0, good.len())]
    );
}

#[tokio::test]
async fn without_acks_there_is_no_answer_and_an_error_closes_the_connection() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    client
        .send(9, &produce_request(&topic, 9, 0, vec![(0, batch(2, 10))]))
        .await
        .unwrap();
    // The next answer belongs to the next request.
    let response = produce(&mut client, &topic, 9, vec![(0, batch(1, 10))]).await;
    assert_eq!(codes(&response), [(0, 0, 2)]);
    client
        .send(9, &produce_request(&topic, 9, 0, vec![(9, batch(1, 10))]))
        .await
        .unwrap();
    assert!(client.call(0, &ApiVersionsRequest::default()).await.is_err());
}

#[tokio::test]
async fn an_idempotent_producer_that_repeats_itself_gets_the_first_answer() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    let init = kafka_protocol::messages::InitProducerIdRequest::default().with_transactional_id(None);
    let id = client.call(4, &init).await.unwrap();
    assert_eq!((id.error_code, id.producer_epoch), (0, 0));
    let again = client.call(0, &init).await.unwrap();
    assert_ne!(again.producer_id, id.producer_id);
    let stamped = |sequence: i32| {
        let mut batch = BytesMut::from(&batch(2, 10)[..]);
        batch[43..51].copy_from_slice(&id.producer_id.0.to_be_bytes());
        batch[51..53].copy_from_slice(&id.producer_epoch.to_be_bytes());
        batch[53..57].copy_from_slice(&sequence.to_be_bytes());
        let crc = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
        batch.freeze()
    };
    for (sequence, code, offset) in [(0, 0, 0), (2, 0, 2), (0, 0, 0), (2, 0, 2), (9, 45, -1)] {
        let response = produce(&mut client, &topic, 9, vec![(0, stamped(sequence))]).await;
        assert_eq!(codes(&response), [(0, code, offset)], "sequence {sequence}");
    }
    assert_eq!(topic.partition(0).unwrap().log().unwrap().log_end(), 4);
}

#[tokio::test]
async fn a_parked_fetch_is_woken_by_the_append_it_waits_for() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 2);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut consumer = Client::connect(address, "consumer").await.unwrap();
    let mut producer = Client::connect(address, "producer").await.unwrap();
    let mut ask = Ask::of(12, vec![(&topic, 0, 0), (&topic, 1, 0)]);
    ask.wait_ms = 600_000;
    let small = batch(1, 10);
    ask.min_bytes = i32::try_from(small.len() * 2).unwrap();
    let (fetched, ()) = tokio::join!(ask.send(&mut consumer), async {
        // One batch is too little, the second one completes the fetch whichever partition it goes to.
        produce(&mut producer, &topic, 9, vec![(1, small.clone())]).await;
        produce(&mut producer, &topic, 9, vec![(0, small.clone())]).await;
    });
    assert_eq!(sizes(&fetched), [(0, 0, small.len()), (1, 0, small.len())]);
}

#[tokio::test]
async fn a_parked_fetch_is_woken_by_deletion_and_by_a_move_of_the_log_start() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut consumer = Client::connect(address, "consumer").await.unwrap();
    let mut producer = Client::connect(address, "producer").await.unwrap();
    produce(&mut producer, &topic, 9, vec![(0, batch(5, 10))]).await;
    let log = topic.partition(0).unwrap().log().unwrap();
    let mut ask = Ask::of(12, vec![(&topic, 0, 5)]);
    ask.wait_ms = 600_000;
    let fetched = broker.fetched.lock().len();
    let (answer, ()) = tokio::join!(ask.send(&mut consumer), async {
        until(|| broker.fetched.lock().len() > fetched).await;
        log.retire();
    });
    assert_eq!(sizes(&answer), [(0, 3, 0)]);
}

async fn until(mut holds: impl FnMut() -> bool) {
    tokio::time::timeout(Duration::from_secs(30), async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the awaited state was not reached");
}

#[tokio::test]
async fn a_stop_answers_parked_fetches_and_closes() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let (address, stop) = broker.serve(Limits::default()).await;
    let mut consumer = Client::connect(address, "consumer").await.unwrap();
    let mut ask = Ask::of(12, vec![(&topic, 0, 0)]);
    ask.wait_ms = 600_000;
    let (answer, ()) = tokio::join!(ask.send(&mut consumer), async {
        until(|| !broker.fetched.lock().is_empty()).await;
        stop.cancel();
    });
    assert_eq!(sizes(&answer), [(0, 0, 0)]);
    until(|| !broker.disconnected.lock().is_empty()).await;
}

#[tokio::test]
async fn the_first_batch_comes_whatever_the_limits_and_only_that_one() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 3);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    let big = batch(1, 5_000);
    for partition in [1, 2] {
        produce(&mut client, &topic, 9, vec![(partition, big.clone())]).await;
        produce(&mut client, &topic, 9, vec![(partition, big.clone())]).await;
    }
    let mut ask = Ask::of(12, vec![(&topic, 0, 0), (&topic, 1, 0), (&topic, 2, 0)]);
    ask.max_bytes = 10;
    assert_eq!(
        sizes(&ask.send(&mut client).await),
        [(0, 0, 0), (1, 0, big.len()), (2, 0, 0)]
    );
    ask.max_bytes = 0;
    assert_eq!(
        sizes(&ask.send(&mut client).await),
        [(0, 0, 0), (1, 0, big.len()), (2, 0, 0)]
    );
}

#[tokio::test]
async fn offsets_out_of_range_and_old_epochs_are_errors_at_once() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    produce(&mut client, &topic, 9, vec![(0, batch(5, 10))]).await;
    for (offset, code) in [(-1, 1), (6, 1), (5, 0)] {
        let response = Ask::of(11, vec![(&topic, 0, offset)]).send(&mut client).await;
        assert_eq!(sizes(&response)[0].1, code, "offset {offset}");
        let partition = &response.responses[0].partitions[0];
        let expected = if code == 0 { (5, 5, 0) } else { (-1, -1, -1) };
        let told = (
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
        );
        assert_eq!(told, expected, "offset {offset}");
    }
    for (epoch, code) in [(4, 74), (6, 75), (5, 0), (-1, 0)] {
        let mut request = Ask::of(11, vec![(&topic, 0, 0)]).request();
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        request.max_wait_ms = 600_000;
        let response = client.call(11, &request).await.unwrap();
        assert_eq!(sizes(&response)[0].1, code, "epoch {epoch}");
    }
    let mut request = Ask::of(12, vec![(&topic, 0, 5)]).request();
    request.topics[0].partitions[0].last_fetched_epoch = 4;
    let response = client.call(12, &request).await.unwrap();
    let diverging = &response.responses[0].partitions[0].diverging_epoch;
    assert_eq!((diverging.epoch, diverging.end_offset), (4, 0));
}

#[tokio::test]
async fn a_session_is_answered_with_news_only_and_takes_turns() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 3);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    let all = vec![(&*topic, 0, 0), (&*topic, 1, 0), (&*topic, 2, 0)];
    let mut ask = Ask::of(12, all);
    ask.session = (0, 0);
    let opened = ask.send(&mut client).await;
    assert_ne!(opened.session_id, 0);
    assert_eq!(sizes(&opened), [(0, 0, 0), (1, 0, 0), (2, 0, 0)]);
    let mut next = Ask::of(12, Vec::new());
    next.session = (opened.session_id, 1);
    assert_eq!(sizes(&next.send(&mut client).await), []);
    let big = batch(1, 5_000);
    for partition in [0, 1, 2] {
        produce(&mut client, &topic, 9, vec![(partition, big.clone())]).await;
    }
    // Room for one batch at a time: each partition is first once, and the others tell their high watermark once.
    next.max_bytes = 10;
    let mut served = Vec::new();
    for epoch in 2..5 {
        next.session.1 = epoch;
        let response = next.send(&mut client).await;
        served.extend(
            sizes(&response)
                .into_iter()
                .filter(|(_, _, size)| *size > 0)
                .map(|(index, _, _)| index),
        );
    }
    assert_eq!(served, [0, 1, 2]);
    // A partition that is forgotten is not told about any more.
    next.session.1 = 5;
    let mut request = next.request();
    request.forgotten_topics_data = vec![
        ForgottenTopic::default()
            .with_topic(topic_name("events"))
            .with_partitions(vec![0, 1]),
    ];
    let response = client.call(12, &request).await.unwrap();
    assert_eq!(sizes(&response), [(2, 0, big.len())]);
    // A request out of turn is refused as a whole.
    let response = next.send(&mut client).await;
    assert_eq!((response.error_code, response.responses.len()), (71, 0));
}

#[tokio::test]
async fn fetchers_are_reported_with_where_they_read_and_when_they_leave() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 2);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "reader-1").await.unwrap();
    Ask::of(13, vec![(&topic, 1, 0), (&topic, 9, 0)])
        .send(&mut client)
        .await;
    let (who, positions) = broker.fetched.lock()[0].clone();
    assert_eq!((&*who.id, &*who.host), ("reader-1", "/127.0.0.1"));
    assert_eq!(positions.len(), 1);
    assert_eq!(
        (positions[0].topic_id, positions[0].partition, positions[0].offset),
        (topic.id, 1, 0)
    );
    drop(client);
    until(|| !broker.disconnected.lock().is_empty()).await;
    assert_eq!(broker.disconnected.lock()[0].connection, who.connection);
}

#[tokio::test]
async fn the_advertised_table_is_what_is_served() {
    let broker = TestBroker::new();
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    let software = ApiVersionsRequest::default()
        .with_client_software_name(text("tests"))
        .with_client_software_version(text("1.0"));
    let mut first = None;
    for version in 0..=4 {
        let request = if version >= 3 {
            software.clone()
        } else {
            ApiVersionsRequest::default()
        };
        let response = client.call(version, &request).await.unwrap();
        assert_eq!(response.error_code, 0, "v{version}");
        let ranges: Vec<_> = response
            .api_keys
            .iter()
            .map(|api| (api.api_key, api.min_version, api.max_version))
            .collect();
        assert_eq!(first.get_or_insert(ranges.clone()), &ranges, "v{version}");
    }
    let ranges = first.unwrap();
    for expected in [
        (0, 0, 13),
        (1, 4, 17),
        (3, 0, 13),
        (11, 0, 9),
        (18, 0, 4),
        (10, 0, 5),
    ] {
        assert!(ranges.contains(&expected), "{expected:?} in {ranges:?}");
    }
    let telemetry_or_transactions = [24, 25, 26, 28, 71, 72];
    assert!(
        ranges
            .iter()
            .all(|(key, ..)| !telemetry_or_transactions.contains(key))
    );
    let nameless = ApiVersionsRequest::default().with_client_software_name(text("-bad-"));
    assert_eq!(client.call(3, &nameless).await.unwrap().error_code, 42);
}

#[tokio::test]
async fn a_newer_client_learns_which_versions_of_api_versions_there_are() {
    let broker = TestBroker::new();
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut frame = BytesMut::new();
    frame.put_slice(&[
        0, 0, 0, 14, 0, 18, 0, 99, 0, 0, 0, 5, 0xff, 0xff, 0xde, 0xad, 0xbe, 0xef,
    ]);
    stream.write_all(&frame).await.unwrap();
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).await.unwrap();
    // Length, correlation id, UNSUPPORTED_VERSION, one entry: ApiVersions 0 to 4.
    assert_eq!(
        answer,
        [0, 0, 0, 16, 0, 0, 0, 5, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]
    );
    // The connection goes on.
    let mut client = BytesMut::new();
    client.put_slice(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 6, 0xff, 0xff]);
    stream.write_all(&client).await.unwrap();
    let length = stream.read_i32().await.unwrap();
    assert!(length > 16);
}

#[tokio::test]
async fn versions_and_apis_that_are_not_served_end_the_connection() {
    let broker = TestBroker::new();
    let (address, _stop) = broker.serve(Limits::default()).await;
    for (key, version) in [
        (0, 2),
        (0, 14),
        (1, 3),
        (1, 18),
        (4, 0),
        (9_999, 0),
        (-1, 0),
        (3, -1),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut frame = BytesMut::new();
        frame.put_i32(10);
        frame.put_i16(key);
        frame.put_i16(version);
        frame.put_slice(&[0, 0, 0, 1, 0xff, 0xff]);
        stream.write_all(&frame).await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty(), "API {key} version {version}");
    }
}

#[tokio::test]
async fn requests_sent_together_are_answered_in_order() {
    let broker = TestBroker::new();
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut frames = BytesMut::new();
    for id in 0..50 {
        frames.put_i32(10);
        frames.put_slice(&[0, 18, 0, 0]);
        frames.put_i32(id);
        frames.put_i16(-1);
    }
    // Cut where it hurts: in the middle of lengths and headers.
    for piece in frames.chunks(7) {
        stream.write_all(piece).await.unwrap();
    }
    for id in 0..50 {
        let length = stream.read_i32().await.unwrap();
        let mut answer = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer[..4], &i32::to_be_bytes(id));
    }
}

#[tokio::test]
async fn topics_are_created_described_and_found_by_id() {
    let broker = TestBroker::new();
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    let config = CreatableTopicConfig::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("1000")));
    let topic = |name: &str, partitions, factor| {
        CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(factor)
    };
    let request = CreateTopicsRequest::default()
        .with_timeout_ms(1_000)
        .with_topics(vec![
            topic("one", 3, 1).with_configs(vec![config]),
            topic("three", 3, 3),
            topic("none", 0, 1),
            topic("twice", 1, 1),
            topic("twice", 1, 1),
        ]);
    let response = client.call(7, &request).await.unwrap();
    let told: Vec<_> = response
        .topics
        .iter()
        .map(|topic| (topic.name.to_string(), topic.error_code, topic.num_partitions))
        .collect();
    let expected = [
        ("one", 0, 3),
        ("three", 38, -1),
        ("none", 37, -1),
        ("twice", 42, -1),
    ];
    assert_eq!(
        told,
        expected.map(|(name, code, count)| (name.to_owned(), code, count))
    );
    for version in 2..=7 {
        let request = request.clone().with_validate_only(true);
        assert_eq!(
            client.call(version, &request).await.unwrap().topics[0].error_code,
            36,
            "v{version}"
        );
    }
    let id = broker.topic("one").unwrap().id;
    for version in 0..=13 {
        let all = MetadataRequest::default().with_topics(if version == 0 { Some(Vec::new()) } else { None });
        let response = client.call(version, &all).await.unwrap();
        assert_eq!(response.topics.len(), 1, "v{version}");
        assert_eq!(response.topics[0].partitions.len(), 3, "v{version}");
        assert_eq!(
            (&*response.brokers[0].host, response.brokers[0].port),
            ("broker.test", 9092)
        );
        if version >= 10 {
            assert_eq!(response.topics[0].topic_id, id, "v{version}");
        }
        if version >= 7 {
            assert_eq!(response.topics[0].partitions[0].leader_epoch, 5, "v{version}");
        }
    }
    let asked = |name: Option<&str>, id: uuid::Uuid| {
        kafka_protocol::messages::metadata_request::MetadataRequestTopic::default()
            .with_name(name.map(topic_name))
            .with_topic_id(id)
    };
    let nil = uuid::Uuid::nil();
    let request = MetadataRequest::default().with_topics(Some(vec![
        asked(None, id),
        asked(None, uuid::Uuid::from_u128(5)),
        asked(Some("missing"), nil),
        asked(Some("no/slash"), nil),
    ]));
    let response = client.call(12, &request).await.unwrap();
    let codes: Vec<_> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, 100, 3, 17]);
    assert!(broker.topic("missing").is_none());
    broker.auto_create.store(true, Ordering::SeqCst);
    let request = MetadataRequest::default().with_topics(Some(vec![asked(Some("missing"), nil)]));
    let refused = request.clone().with_allow_auto_topic_creation(false);
    assert_eq!(client.call(12, &refused).await.unwrap().topics[0].error_code, 3);
    assert_eq!(client.call(12, &request).await.unwrap().topics[0].error_code, 5);
    assert_eq!(client.call(12, &request).await.unwrap().topics[0].error_code, 0);
}

#[tokio::test]
async fn offsets_are_listed_by_name_and_by_time() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    for time in [10, 30, 20] {
        let batch = encode_batch(&[ClientRecord::new(time, "v")]).unwrap();
        produce(&mut client, &topic, 9, vec![(0, batch)]).await;
    }
    topic
        .partition(0)
        .unwrap()
        .log()
        .unwrap()
        .delete_records(1)
        .unwrap();
    let request = |timestamp: i64, isolation: i8| {
        let partition = ListOffsetsPartition::default()
            .with_timestamp(timestamp)
            .with_current_leader_epoch(-1);
        ListOffsetsRequest::default()
            .with_replica_id((-1).into())
            .with_isolation_level(isolation)
            .with_topics(vec![
                ListOffsetsTopic::default()
                    .with_name(topic_name("events"))
                    .with_partitions(vec![partition]),
            ])
    };
    for (version, timestamp, expected) in [
        (1, -1, (0, 3, -1)),
        (10, -1, (0, 3, -1)),
        (10, -2, (0, 1, -1)),
        (7, -3, (0, 1, 30)),
        (6, -3, (35, -1, -1)),
        (8, -4, (0, 1, -1)),
        (7, -4, (35, -1, -1)),
        (9, -5, (0, -1, -1)),
        (10, -6, (35, -1, -1)),
        (10, -7, (35, -1, -1)),
        (1, 5, (0, 1, 30)),
        (4, 20, (0, 1, 30)),
        (4, 31, (0, -1, -1)),
    ] {
        for isolation in [0, 1] {
            if isolation == 1 && version < 2 {
                continue;
            }
            let response = client
                .call(version, &request(timestamp, isolation))
                .await
                .unwrap();
            let partition = &response.topics[0].partitions[0];
            let found = (partition.error_code, partition.offset, partition.timestamp);
            assert_eq!(
                found, expected,
                "v{version} timestamp {timestamp} isolation {isolation}"
            );
        }
    }
    let latest = client.call(5, &request(-1, 0)).await.unwrap();
    assert_eq!(latest.topics[0].partitions[0].leader_epoch, 5);
    let mut twice = request(-1, 0);
    let again = twice.topics[0].partitions[0].clone();
    twice.topics[0].partitions.push(again);
    let response = client.call(5, &twice).await.unwrap();
    assert!(
        response.topics[0]
            .partitions
            .iter()
            .all(|partition| partition.error_code == 42)
    );
}
