use kafka_protocol::messages::consumer_protocol_assignment::{
    ConsumerProtocolAssignment, TopicPartition as Assigned,
};
use kafka_protocol::messages::{ConsumerProtocolSubscription, TopicName};
use kafka_protocol::protocol::{Encodable, StrBytes};
use proptest::prelude::*;

use super::*;

fn name(text: &str) -> TopicName {
    TopicName(StrBytes::from_string(text.to_owned()))
}

fn versioned(version: i16, message: &impl Encodable) -> Vec<u8> {
    let mut bytes = bytes::BytesMut::from(&version.to_be_bytes()[..]);
    message.encode(&mut bytes, version).unwrap();
    bytes.to_vec()
}

#[test]
fn every_version_of_a_subscription_is_read() {
    for version in 0..=3 {
        let message = ConsumerProtocolSubscription::default()
            .with_topics(vec![
                StrBytes::from_static_str("b"),
                StrBytes::from_static_str("a"),
            ])
            .with_user_data(Some(bytes::Bytes::from_static(b"rest")));
        let topics = subscribed_topics(&versioned(version, &message)).unwrap();
        assert_eq!(
            topics.into_iter().collect::<Vec<_>>(),
            ["a", "b"],
            "version {version}"
        );
    }
}

#[test]
fn every_version_of_an_assignment_is_read() {
    for version in 0..=3 {
        let message = ConsumerProtocolAssignment::default().with_assigned_partitions(vec![
            Assigned::default()
                .with_topic(name("orders"))
                .with_partitions(vec![0, 7]),
            Assigned::default().with_topic(name("none")),
        ]);
        let assigned = assigned_partitions(&versioned(version, &message)).unwrap();
        assert_eq!(
            assigned,
            [("orders".to_owned(), vec![0, 7]), ("none".to_owned(), vec![])],
            "version {version}"
        );
    }
}

#[test]
fn lengths_beyond_the_bytes_are_refused() {
    // Version 0 and 2^31-1 topics.
    assert_eq!(subscribed_topics(&[0, 0, 0x7f, 0xff, 0xff, 0xff]), None);
    assert_eq!(assigned_partitions(&[0, 0, 0x7f, 0xff, 0xff, 0xff]), None);
    // One topic "t" with 2^31-1 partitions.
    assert_eq!(
        assigned_partitions(&[0, 0, 0, 0, 0, 1, 0, 1, b't', 0x7f, 0xff, 0xff, 0xff]),
        None
    );
    assert_eq!(subscribed_topics(&[]), None);
    assert_eq!(subscribed_topics(&[0xff, 0xff, 0, 0, 0, 0]), None);
    assert_eq!(assigned_partitions(&[]), Some(Vec::new()));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        // A reading that claims topics must have had bytes for them.
        if let Some(topics) = subscribed_topics(&bytes) {
            prop_assert!(topics.iter().map(|topic| topic.len() + 2).sum::<usize>() + 6 <= bytes.len());
        }
        if let Some(topics) = assigned_partitions(&bytes) {
            prop_assert!(topics.len() * 6 <= bytes.len());
        }
    }
}
