use kafka_protocol::messages as m;
use kafka_protocol::protocol::{Decodable, HeaderVersion, Message, Request};

use super::sample::{Random, sample};
use super::*;

fn agrees<R: Request + Decodable + Message + HeaderVersion>(name: &str, schema: Schema) {
    for version in R::VERSIONS.min..=R::VERSIONS.max {
        let flexible = R::header_version(version) >= 2;
        for seed in 0..50 {
            let mut body = Vec::new();
            sample(schema, version, flexible, &mut Random(seed), &mut body);
            let size = body.len();
            let walked = walk(schema, version, flexible, &body, 100_000);
            assert_eq!(
                walked.map(|walked| walked.length),
                Ok(size),
                "{name} v{version} seed {seed}"
            );
            let mut rest = bytes::Bytes::from(body.clone());
            if let Err(error) = R::decode(&mut rest, version) {
                panic!("{name} v{version} seed {seed}: {error}");
            }
            assert_eq!(rest.len(), 0, "{name} v{version} seed {seed} leaves bytes");
            for cut in 0..size {
                let short = walk(schema, version, flexible, &body[..cut], 100_000);
                assert!(
                    short.is_err(),
                    "{name} v{version} seed {seed} passes when cut to {cut} of {size}"
                );
            }
        }
    }
}

#[test]
fn shapes_are_those_the_decoder_reads() {
    macro_rules! all {
        ($($request:ident $schema:ident,)*) => {
            $(agrees::<m::$request>(stringify!($request), requests::$schema);)*
        };
    }
    all! {
        ListOffsetsRequest LIST_OFFSETS,
        MetadataRequest METADATA,
        OffsetCommitRequest OFFSET_COMMIT,
        OffsetFetchRequest OFFSET_FETCH,
        FindCoordinatorRequest FIND_COORDINATOR,
        JoinGroupRequest JOIN_GROUP,
        HeartbeatRequest HEARTBEAT,
        LeaveGroupRequest LEAVE_GROUP,
        SyncGroupRequest SYNC_GROUP,
        DescribeGroupsRequest DESCRIBE_GROUPS,
        ListGroupsRequest LIST_GROUPS,
        ApiVersionsRequest API_VERSIONS,
        CreateTopicsRequest CREATE_TOPICS,
        DeleteTopicsRequest DELETE_TOPICS,
        DeleteRecordsRequest DELETE_RECORDS,
        InitProducerIdRequest INIT_PRODUCER_ID,
        OffsetForLeaderEpochRequest OFFSET_FOR_LEADER_EPOCH,
        SaslHandshakeRequest SASL_HANDSHAKE,
        DescribeAclsRequest DESCRIBE_ACLS,
        CreateAclsRequest CREATE_ACLS,
        DeleteAclsRequest DELETE_ACLS,
        DescribeConfigsRequest DESCRIBE_CONFIGS,
        AlterConfigsRequest ALTER_CONFIGS,
        DescribeLogDirsRequest DESCRIBE_LOG_DIRS,
        CreatePartitionsRequest CREATE_PARTITIONS,
        DeleteGroupsRequest DELETE_GROUPS,
        ElectLeadersRequest ELECT_LEADERS,
        IncrementalAlterConfigsRequest INCREMENTAL_ALTER_CONFIGS,
        ListPartitionReassignmentsRequest LIST_PARTITION_REASSIGNMENTS,
        AlterPartitionReassignmentsRequest ALTER_PARTITION_REASSIGNMENTS,
        DescribeClientQuotasRequest DESCRIBE_CLIENT_QUOTAS,
        DescribeUserScramCredentialsRequest DESCRIBE_USER_SCRAM_CREDENTIALS,
        AlterUserScramCredentialsRequest ALTER_USER_SCRAM_CREDENTIALS,
        DescribeClusterRequest DESCRIBE_CLUSTER,
        DescribeProducersRequest DESCRIBE_PRODUCERS,
        DescribeTransactionsRequest DESCRIBE_TRANSACTIONS,
        ListTransactionsRequest LIST_TRANSACTIONS,
        ConsumerGroupHeartbeatRequest CONSUMER_GROUP_HEARTBEAT,
        ConsumerGroupDescribeRequest CONSUMER_GROUP_DESCRIBE,
        ListConfigResourcesRequest LIST_CONFIG_RESOURCES,
        DescribeTopicPartitionsRequest DESCRIBE_TOPIC_PARTITIONS,
        DescribeQuorumRequest DESCRIBE_QUORUM,
        OffsetDeleteRequest OFFSET_DELETE,
    }
}

#[test]
fn eight_bytes_do_not_ask_for_gigabytes() {
    // Metadata v0 that claims 2^31-1 topics; then one that claims as many as it has bytes.
    let huge = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert!(matches!(
        walk(requests::METADATA, 0, false, &huge, 100_000),
        Err(Malformed::Truncated { .. })
    ));
    let flexible = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0];
    assert!(matches!(
        walk(requests::METADATA, 12, true, &flexible, 100_000),
        Err(Malformed::Truncated { .. })
    ));
    let tags = [1, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(matches!(
        walk(requests::METADATA, 9, true, &tags, 100_000),
        Err(Malformed::Truncated { .. })
    ));
    let negative = [0x80, 0, 0, 0];
    assert!(matches!(
        walk(requests::METADATA, 0, false, &negative, 100_000),
        Err(Malformed::Length(_))
    ));
    let endless = [0xff; 6];
    assert_eq!(
        walk(requests::METADATA, 9, true, &endless, 100_000),
        Err(Malformed::VarInt)
    );
}

#[test]
fn the_number_of_elements_is_bounded_over_all_arrays() {
    // Ten topic names of one byte each, with a bound of nine.
    let mut body = 10_i32.to_be_bytes().to_vec();
    (0..10).for_each(|_| body.extend([0, 1, b't']));
    assert_eq!(
        walk(requests::METADATA, 0, false, &body, 9),
        Err(Malformed::TooMany { limit: 9 })
    );
    let walked = walk(requests::METADATA, 0, false, &body, 10).unwrap();
    assert_eq!((walked.elements, walked.length), (10, body.len()));
}
