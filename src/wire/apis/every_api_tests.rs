//! Every API at every version: whatever a well-formed request says, it is answered, and the answer can be written.
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::wire::broker::Client;
use crate::wire::registry::{Action, Call};
use crate::wire::schema::sample::{Random, sample};
use crate::wire::test_broker::TestBroker;

#[tokio::test]
async fn an_answer_can_be_written_at_every_version() {
    let broker = TestBroker::new();
    // Names as the samples make them up, so that some of them are found.
    for name in ["x", "xx", "xxx", "xxxx"] {
        broker.add(name, 2);
    }
    let client = Arc::new(Client {
        id: "tests".into(),
        host: "/127.0.0.1".into(),
        connection: 1,
    });
    let mut answered = 0;
    for entry in broker_apis::<TestBroker>() {
        let Action::Answer(handler) = entry.action else {
            continue;
        };
        for version in entry.min..=entry.max {
            let flexible = (entry.request_header)(version) >= 2;
            for seed in 0..40 {
                let mut body = Vec::new();
                sample(entry.schema, version, flexible, &mut Random(seed), &mut body);
                let call = Call {
                    version,
                    correlation_id: 0x0102_0304,
                    client: Arc::clone(&client),
                    room: Vec::new(),
                };
                let answer = handler(Arc::clone(&broker), call, Bytes::from(body)).await;
                let frame =
                    answer.unwrap_or_else(|error| panic!("{} v{version} seed {seed}: {error}", entry.name));
                assert_eq!(
                    &frame[4..8],
                    &[1, 2, 3, 4],
                    "{} v{version} seed {seed}",
                    entry.name
                );
                let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
                assert_eq!(
                    frame.len(),
                    4 + length as usize,
                    "{} v{version} seed {seed}",
                    entry.name
                );
                answered += 1;
            }
        }
    }
    assert!(answered > 2_000, "{answered}");
}

#[test]
fn what_is_advertised_is_unique_and_no_older_than_what_is_shown() {
    let entries = all::<TestBroker>();
    let mut keys: Vec<i16> = entries.iter().map(|entry| entry.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), entries.len());
    for entry in entries {
        assert!(
            entry.shown_from <= entry.min && entry.min <= entry.max,
            "{entry:?}"
        );
        assert!(!entry.name.is_empty());
    }
}
