use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::ApiVersionsRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::wire::apis::text;
use crate::wire::client::Client;
use crate::wire::test_broker::TestBroker;

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
