//! Peers that mean no good: each is got rid of, and the others are served meanwhile.
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::wire::client::Client;
use crate::wire::limits::Limits;
use crate::wire::test_broker::TestBroker;
use crate::wire::test_requests::{Ask, batch, codes, produce, until};

/// Far longer than anything here takes; only a hang gets there.
const DEADLINE: Duration = Duration::from_secs(240);

/// Waits until the server closed the connection, and tells how many bytes came before.
async fn closed(stream: &mut TcpStream) -> usize {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest)).await;
    // A reset is as good as an orderly end.
    let _ = read.expect("the connection is still open");
    rest.len()
}

async fn is_served(address: SocketAddr) {
    let mut client = Client::connect(address, "honest").await.unwrap();
    let answer = tokio::time::timeout(DEADLINE, client.call(0, &ApiVersionsRequest::default())).await;
    assert_eq!(answer.expect("no answer").unwrap().error_code, 0);
}

#[tokio::test]
async fn absurd_lengths_and_other_protocols_are_closed_at_once() {
    let broker = TestBroker::new();
    let (address, _stop) = broker.serve(Limits::default()).await;
    let openings: [&[u8]; 7] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0, 0, 0, 0],
        &[0, 0, 0, 7],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01],
    ];
    for opening in openings {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(opening).await.unwrap();
        assert_eq!(closed(&mut stream).await, 0, "{opening:?}");
    }
    assert_eq!(broker_metrics(&broker), 7);
    is_served(address).await;
}

fn broker_metrics(broker: &TestBroker) -> u64 {
    use crate::wire::broker::Broker;
    broker.metrics().malformed_requests.get()
}

#[tokio::test]
async fn a_frame_that_drips_in_is_given_up() {
    let broker = TestBroker::new();
    let limits = Limits {
        frame_deadline: Duration::from_millis(200),
        ..Limits::default()
    };
    let (address, _stop) = broker.serve(limits).await;
    // One stops within the length, one within a small frame, one within a frame that is charged.
    let mut openings = [vec![0, 0], vec![0, 0, 0, 100, 0, 3], vec![0, 2, 0, 0, 0, 3]];
    openings[2].extend([0; 1000]);
    for opening in openings {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&opening).await.unwrap();
        assert_eq!(closed(&mut stream).await, 0);
    }
    is_served(address).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let broker = TestBroker::new();
    let limits = Limits {
        idle: Duration::from_millis(100),
        ..Limits::default()
    };
    let (address, _stop) = broker.serve(limits).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert_eq!(closed(&mut silent).await, 0);
}

#[tokio::test]
async fn one_connection_too_many_is_closed_and_the_others_go_on() {
    let broker = TestBroker::new();
    let limits = Limits {
        max_connections: 3,
        ..Limits::default()
    };
    let (address, _stop) = broker.serve(limits).await;
    let mut first = Client::connect(address, "first").await.unwrap();
    first.call(0, &ApiVersionsRequest::default()).await.unwrap();
    let mut others = Vec::new();
    for _ in 0..2 {
        let mut client = Client::connect(address, "other").await.unwrap();
        client.call(0, &ApiVersionsRequest::default()).await.unwrap();
        others.push(client);
    }
    let mut refused = TcpStream::connect(address).await.unwrap();
    assert_eq!(closed(&mut refused).await, 0);
    first.call(0, &ApiVersionsRequest::default()).await.unwrap();
    // Room again once one has left.
    others.clear();
    tokio::time::timeout(DEADLINE, async {
        loop {
            let mut client = Client::connect(address, "late").await.unwrap();
            if client.call(0, &ApiVersionsRequest::default()).await.is_ok() {
                break;
            }
        }
    })
    .await
    .expect("a place that was left is not given away");
}

#[tokio::test]
async fn claims_of_large_frames_keep_only_other_large_frames_waiting() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let limits = Limits {
        frame_budget_bytes: 1 << 20,
        large_frame_budget_bytes: 100 << 20,
        ..Limits::default()
    };
    let (address, _stop) = broker.serve(limits).await;
    let mut hostile = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // 100 MiB, and then nothing but a header.
        stream
            .write_all(&[6, 0x40, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1])
            .await
            .unwrap();
        hostile.push(stream);
    }
    let mut client = Client::connect(address, "honest").await.unwrap();
    let record = crate::wire::client::ClientRecord::new(1_700_000_000_000, vec![b'v'; 500_000]);
    let produced = tokio::time::timeout(DEADLINE, client.produce("events", 0, &[record])).await;
    assert_eq!(produced.expect("an ordinary produce waits").unwrap(), 0);
    assert_eq!(topic.partition(0).unwrap().log().unwrap().log_end(), 1);
}

#[tokio::test]
async fn a_peer_that_goes_away_ends_its_parked_request() {
    let broker = TestBroker::new();
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    // JoinGroup v0, which this broker never answers.
    let mut frame = BytesMut::new();
    frame.put_slice(&[0, 11, 0, 0, 0, 0, 0, 1, 0xff, 0xff]);
    frame.put_slice(&[0, 1, b'g', 0, 0, 0x75, 0x30, 0, 0, 0, 8]);
    frame.put_slice(b"consumer");
    frame.put_slice(&[0, 0, 0, 0]);
    let mut whole = BytesMut::new();
    whole.put_u32(u32::try_from(frame.len()).unwrap());
    whole.put_slice(&frame);
    stream.write_all(&whole).await.unwrap();
    is_served(address).await;
    drop(stream);
    tokio::time::timeout(DEADLINE, async {
        // The parked peer has no client id; the honest one has.
        while !broker
            .disconnected
            .lock()
            .iter()
            .any(|client| client.id.is_empty())
        {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the parked request outlives its peer");
}

#[tokio::test]
async fn bodies_that_claim_more_than_they_hold_end_the_connection_without_memory() {
    let broker = TestBroker::new();
    let (address, _stop) = broker.serve(Limits::default()).await;
    // Metadata v0, Fetch v4, Produce v3, JoinGroup v0 and OffsetCommit v2, each with 2^31-1 elements.
    let bodies: [(i16, i16, &[u8]); 5] = [
        (3, 0, &[]),
        (1, 4, &[0; 17]),
        (0, 3, &[0xff, 0xff, 0, 1, 0, 0, 0, 0]),
        (11, 0, &[0, 1, b'g', 0, 0, 0, 0, 0, 0, 0, 0]),
        (8, 2, &[0, 1, b'g', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (key, version, body) in bodies {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut frame = BytesMut::new();
        frame.put_u32(u32::try_from(14 + body.len()).unwrap());
        frame.put_i16(key);
        frame.put_i16(version);
        frame.put_slice(&[0, 0, 0, 1, 0xff, 0xff]);
        frame.put_slice(body);
        frame.put_slice(&[0x7f, 0xff, 0xff, 0xff]);
        stream.write_all(&frame).await.unwrap();
        assert_eq!(closed(&mut stream).await, 0, "API {key}");
    }
    assert_eq!(broker_metrics(&broker), 5);
    is_served(address).await;
}

/// Requests that wait for something else than memory, and answers that nobody takes, hold no room that honest clients wait for.
#[tokio::test]
async fn what_is_parked_keeps_no_frame_waiting() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let limits = Limits {
        frame_budget_bytes: 600 << 10,
        parked_budget_bytes: 300 << 10,
        ..Limits::default()
    };
    let (address, _stop) = broker.serve(limits).await;
    let mut parked = Vec::new();
    for at in 0..8 {
        let mut client = Client::connect(address, "parked").await.unwrap();
        if at % 2 == 0 {
            // A hundred KiB of a join that this broker never answers.
            let protocol = kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol::default()
                .with_name(crate::wire::apis::text("range"))
                .with_metadata(vec![0; 100 << 10].into());
            let join = kafka_protocol::messages::JoinGroupRequest::default()
                .with_group_id(crate::wire::apis::text("group").into())
                .with_protocol_type(crate::wire::apis::text("consumer"))
                .with_protocols(vec![protocol]);
            client.send(9, &join).await.unwrap();
        } else {
            // As much of a fetch, for a day.
            let ask = Ask {
                wait_ms: 86_400_000,
                ..Ask::of(11, vec![(&*topic, 0, 0); 2_000])
            };
            client.send(11, &ask.request()).await.unwrap();
        }
        parked.push(client);
    }
    until(|| broker.fetched.lock().len() == 4).await;
    for _ in 0..3 {
        let mut client = Client::connect(address, "honest").await.unwrap();
        let produced = produce(&mut client, &topic, 9, vec![(0, batch(5, 100 << 10))]);
        let produced = tokio::time::timeout(DEADLINE, produced).await;
        assert_eq!(codes(&produced.expect("an honest produce waits"))[0].1, 0);
    }
}

/// Peers that ask for large answers and take none hold so much memory in all; the next of them is given up.
#[tokio::test]
async fn answers_that_nobody_takes_are_held_up_to_a_bound() {
    let broker = TestBroker::new();
    let limits = Limits {
        answer_budget_bytes: 1 << 20,
        crowded_write: Duration::from_millis(100),
        ..Limits::default()
    };
    let (address, _stop) = broker.serve(limits).await;
    let named = (0..5_000).map(|number| {
        let name = format!("no-such-topic-{number}-{}", "x".repeat(60));
        MetadataRequestTopic::default().with_name(Some(crate::wire::apis::topic_name(&name)))
    });
    let request = MetadataRequest::default().with_topics(Some(named.collect()));
    let peers = 10;
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..peers {
        let mut client = Client::connect(address, "takes nothing").await.unwrap();
        let request = request.clone();
        // Far more than the sockets' buffers hold.
        asking.spawn(async move { while client.send(4, &request).await.is_ok() {} });
    }
    // Two answers fit, at most.
    until(|| broker.disconnected.lock().len() >= peers - 2).await;
    is_served(address).await;
}
