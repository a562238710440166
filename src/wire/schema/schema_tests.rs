use kafka_protocol::messages as m;
use kafka_protocol::protocol::{Decodable, HeaderVersion, Message, Request};

use super::*;

/// A small generator of bodies; the same seed gives the same bytes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 29)
    }

    fn below(&mut self, bound: u64) -> usize {
        usize::try_from(self.next() % bound).unwrap()
    }
}

/// Writes a body of this shape, with every array and string present.
fn write(schema: Schema, version: i16, flexible: bool, random: &mut Random, out: &mut Vec<u8>) {
    for field in schema {
        if field.since <= version && version <= field.until {
            write_field(field, version, flexible, random, out);
        }
    }
    if flexible {
        let tags = random.below(3);
        out.push(u8::try_from(tags).unwrap());
        for tag in 0..tags {
            let size = random.below(5);
            out.extend([100 + u8::try_from(tag).unwrap(), u8::try_from(size).unwrap()]);
            out.extend(std::iter::repeat_n(0xab, size));
        }
    }
}

fn write_length(length: usize, plain_bytes: usize, flexible: bool, out: &mut Vec<u8>) {
    if flexible {
        out.push(u8::try_from(length + 1).unwrap());
    } else {
        out.extend(&u32::try_from(length).unwrap().to_be_bytes()[4 - plain_bytes..]);
    }
}

fn write_field(field: &Field, version: i16, flexible: bool, random: &mut Random, out: &mut Vec<u8>) {
    match field.kind {
        Kind::Fixed(size) => out.extend((0..size).map(|_| u8::try_from(random.below(256)).unwrap())),
        Kind::Text | Kind::Blob => {
            let length = random.below(12);
            let plain = if matches!(field.kind, Kind::Text) { 2 } else { 4 };
            write_length(length, plain, flexible, out);
            out.extend(std::iter::repeat_n(b'x', length));
        }
        Kind::Structures(schema) => {
            let count = random.below(4);
            write_length(count, 4, flexible, out);
            (0..count).for_each(|_| write(schema, version, flexible, random, out));
        }
        Kind::Values(value) => {
            let count = random.below(4);
            write_length(count, 4, flexible, out);
            (0..count).for_each(|_| write_field(value, version, flexible, random, out));
        }
        Kind::Optional(schema) => match random.below(2) {
            0 => out.push(0xff),
            _ => {
                out.push(1);
                write(schema, version, flexible, random, out);
            }
        },
    }
}

fn agrees<R: Request + Decodable + Message + HeaderVersion>(name: &str, schema: Schema) {
    for version in R::VERSIONS.min..=R::VERSIONS.max {
        let flexible = R::header_version(version) >= 2;
        for seed in 0..50 {
            let mut body = Vec::new();
            write(schema, version, flexible, &mut Random(seed), &mut body);
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
