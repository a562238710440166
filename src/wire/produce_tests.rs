use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ApiVersionsRequest;

use crate::wire::apis::text;
use crate::wire::broker::Topic;
use crate::wire::client::Client;
use crate::wire::limits::Limits;
use crate::wire::test_broker::TestBroker;
use crate::wire::test_requests::{Ask, batch, codes, produce, produce_request, sizes};

/// The versions that differ in how something is laid out.
const PRODUCE_VERSIONS: [i16; 8] = [3, 5, 7, 8, 9, 10, 12, 13];

const FETCH_VERSIONS: [i16; 10] = [4, 5, 6, 7, 9, 11, 12, 13, 16, 17];

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
    let mut counted_wrongly = BytesMut::from(&good[..]);
    counted_wrongly[60] += 1;
    let crc = crc32c::crc32c(&counted_wrongly[21..]);
    counted_wrongly[17..21].copy_from_slice(&crc.to_be_bytes());
    let refused = produce(&mut client, &topic, 9, vec![(0, counted_wrongly.freeze())]).await;
    assert_eq!(codes(&refused), [(0, 87, -1)]);
    // Records that are refused leave the log start told, a checksum does not.
    assert_eq!(refused.responses[0].partition_responses[0].log_start_offset, 0);
    assert_eq!(response.responses[0].partition_responses[1].log_start_offset, -1);
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
    // A batch that is cut off is none, whatever its codec.
    let torn = zstd.clone().freeze().slice(..zstd.len() - 1);
    let response = produce(&mut client, &topic, 6, vec![(0, torn)]).await;
    assert_eq!(codes(&response), [(0, 87, -1)]);
    // What is wrong with the place or the batch comes before the acks.
    let request = produce_request(&topic, 6, 2, vec![(0, zstd.freeze()), (9, good.clone())]);
    assert_eq!(
        codes(&client.call(6, &request).await.unwrap()),
        [(0, 76, -1), (9, 3, -1)]
    );
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
