//! The shapes of the requests served here, one constant per API; a comment names the field where its kind does not.
//!
//! Produce and Fetch are walked by hand where they are handled. Each constant is compared with the protocol crate,
//! version by version, in the tests of this module.
use super::{BYTES, INT8, INT16, INT32, INT64, STRING, Schema, UUID, array, optional, since, until, values};

/// `ListOffsets` 1 to 10, flexible from 6.
pub const LIST_OFFSETS: Schema = &[
    INT32,          // replica_id
    since(2, INT8), // isolation_level
    array(&[
        STRING, // name
        array(&[
            INT32,           // partition_index
            since(4, INT32), // current_leader_epoch
            INT64,           // timestamp
        ]), // partitions
    ]), // topics
    since(10, INT32), // timeout_ms
];

/// `Metadata` 0 to 13, flexible from 9.
pub const METADATA: Schema = &[
    array(&[
        since(10, UUID), // topic_id
        STRING,          // name
    ]), // topics
    since(4, INT8),            // allow_auto_topic_creation
    since(8, until(10, INT8)), // include_cluster_authorized_operations
    since(8, INT8),            // include_topic_authorized_operations
];

/// `OffsetCommit` 2 to 9, flexible from 8.
pub const OFFSET_COMMIT: Schema = &[
    STRING,           // group_id
    INT32,            // generation_id_or_member_epoch
    STRING,           // member_id
    since(7, STRING), // group_instance_id
    until(4, INT64),  // retention_time_ms
    array(&[
        STRING, // name
        array(&[
            INT32,           // partition_index
            INT64,           // committed_offset
            since(6, INT32), // committed_leader_epoch
            STRING,          // committed_metadata
        ]), // partitions
    ]), // topics
];

/// `OffsetFetch` 1 to 9, flexible from 6.
pub const OFFSET_FETCH: Schema = &[
    until(7, STRING), // group_id
    until(
        7,
        array(&[
            until(7, STRING),         // name
            until(7, values(&INT32)), // partition_indexes
        ]),
    ), // topics
    since(
        8,
        array(&[
            since(8, STRING), // group_id
            since(9, STRING), // member_id
            since(9, INT32),  // member_epoch
            since(
                8,
                array(&[
                    since(8, STRING),         // name
                    since(8, values(&INT32)), // partition_indexes
                ]),
            ), // topics
        ]),
    ), // groups
    since(7, INT8),   // require_stable
];

/// `FindCoordinator` 0 to 6, flexible from 3.
pub const FIND_COORDINATOR: Schema = &[
    until(3, STRING),          // key
    since(1, INT8),            // key_type
    since(4, values(&STRING)), // coordinator_keys
];

/// `JoinGroup` 0 to 9, flexible from 6.
pub const JOIN_GROUP: Schema = &[
    STRING,           // group_id
    INT32,            // session_timeout_ms
    since(1, INT32),  // rebalance_timeout_ms
    STRING,           // member_id
    since(5, STRING), // group_instance_id
    STRING,           // protocol_type
    array(&[
        STRING, // name
        BYTES,  // metadata
    ]), // protocols
    since(8, STRING), // reason
];

/// `Heartbeat` 0 to 4, flexible from 4.
pub const HEARTBEAT: Schema = &[
    STRING,           // group_id
    INT32,            // generation_id
    STRING,           // member_id
    since(3, STRING), // group_instance_id
];

/// `LeaveGroup` 0 to 5, flexible from 4.
pub const LEAVE_GROUP: Schema = &[
    STRING,           // group_id
    until(2, STRING), // member_id
    since(
        3,
        array(&[
            since(3, STRING), // member_id
            since(3, STRING), // group_instance_id
            since(5, STRING), // reason
        ]),
    ), // members
];

/// `SyncGroup` 0 to 5, flexible from 4.
pub const SYNC_GROUP: Schema = &[
    STRING,           // group_id
    INT32,            // generation_id
    STRING,           // member_id
    since(3, STRING), // group_instance_id
    since(5, STRING), // protocol_type
    since(5, STRING), // protocol_name
    array(&[
        STRING, // member_id
        BYTES,  // assignment
    ]), // assignments
];

/// `DescribeGroups` 0 to 6, flexible from 5.
pub const DESCRIBE_GROUPS: Schema = &[
    values(&STRING), // groups
    since(3, INT8),  // include_authorized_operations
];

/// `ListGroups` 0 to 5, flexible from 3.
pub const LIST_GROUPS: Schema = &[
    since(4, values(&STRING)), // states_filter
    since(5, values(&STRING)), // types_filter
];

/// `ApiVersions` 0 to 4, flexible from 3.
pub const API_VERSIONS: Schema = &[
    since(3, STRING), // client_software_name
    since(3, STRING), // client_software_version
];

/// `CreateTopics` 2 to 7, flexible from 5.
pub const CREATE_TOPICS: Schema = &[
    array(&[
        STRING, // name
        INT32,  // num_partitions
        INT16,  // replication_factor
        array(&[
            INT32,          // partition_index
            values(&INT32), // broker_ids
        ]), // assignments
        array(&[
            STRING, // name
            STRING, // value
        ]), // configs
    ]), // topics
    INT32, // timeout_ms
    INT8,  // validate_only
];

/// `DeleteTopics` 1 to 6, flexible from 4.
pub const DELETE_TOPICS: Schema = &[
    since(
        6,
        array(&[
            since(6, STRING), // name
            since(6, UUID),   // topic_id
        ]),
    ), // topics
    until(5, values(&STRING)), // topic_names
    INT32,                     // timeout_ms
];

/// `DeleteRecords` 0 to 2, flexible from 2.
pub const DELETE_RECORDS: Schema = &[
    array(&[
        STRING, // name
        array(&[
            INT32, // partition_index
            INT64, // offset
        ]), // partitions
    ]), // topics
    INT32, // timeout_ms
];

/// `InitProducerId` 0 to 5, flexible from 2.
pub const INIT_PRODUCER_ID: Schema = &[
    STRING,          // transactional_id
    INT32,           // transaction_timeout_ms
    since(3, INT64), // producer_id
    since(3, INT16), // producer_epoch
];

/// `OffsetForLeaderEpoch` 2 to 4, flexible from 4.
pub const OFFSET_FOR_LEADER_EPOCH: Schema = &[
    since(3, INT32), // replica_id
    array(&[
        STRING, // topic
        array(&[
            INT32, // partition
            INT32, // current_leader_epoch
            INT32, // leader_epoch
        ]), // partitions
    ]), // topics
];

/// `SaslHandshake` 0 to 1, never flexible.
pub const SASL_HANDSHAKE: Schema = &[
    STRING, // mechanism
];

/// `DescribeAcls` 1 to 3, flexible from 2.
pub const DESCRIBE_ACLS: Schema = &[
    INT8,   // resource_type_filter
    STRING, // resource_name_filter
    INT8,   // pattern_type_filter
    STRING, // principal_filter
    STRING, // host_filter
    INT8,   // operation
    INT8,   // permission_type
];

/// `CreateAcls` 1 to 3, flexible from 2.
pub const CREATE_ACLS: Schema = &[
    array(&[
        INT8,   // resource_type
        STRING, // resource_name
        INT8,   // resource_pattern_type
        STRING, // principal
        STRING, // host
        INT8,   // operation
        INT8,   // permission_type
    ]), // creations
];

/// `DeleteAcls` 1 to 3, flexible from 2.
pub const DELETE_ACLS: Schema = &[
    array(&[
        INT8,   // resource_type_filter
        STRING, // resource_name_filter
        INT8,   // pattern_type_filter
        STRING, // principal_filter
        STRING, // host_filter
        INT8,   // operation
        INT8,   // permission_type
    ]), // filters
];

/// `DescribeConfigs` 1 to 4, flexible from 4.
pub const DESCRIBE_CONFIGS: Schema = &[
    array(&[
        INT8,            // resource_type
        STRING,          // resource_name
        values(&STRING), // configuration_keys
    ]), // resources
    INT8,           // include_synonyms
    since(3, INT8), // include_documentation
];

/// `AlterConfigs` 0 to 2, flexible from 2.
pub const ALTER_CONFIGS: Schema = &[
    array(&[
        INT8,   // resource_type
        STRING, // resource_name
        array(&[
            STRING, // name
            STRING, // value
        ]), // configs
    ]), // resources
    INT8, // validate_only
];

/// `DescribeLogDirs` 1 to 4, flexible from 2.
pub const DESCRIBE_LOG_DIRS: Schema = &[
    array(&[
        STRING,         // topic
        values(&INT32), // partitions
    ]), // topics
];

/// `CreatePartitions` 0 to 3, flexible from 2.
pub const CREATE_PARTITIONS: Schema = &[
    array(&[
        STRING, // name
        INT32,  // count
        array(&[
            values(&INT32), // broker_ids
        ]), // assignments
    ]), // topics
    INT32, // timeout_ms
    INT8,  // validate_only
];

/// `DeleteGroups` 0 to 2, flexible from 2.
pub const DELETE_GROUPS: Schema = &[
    values(&STRING), // groups_names
];

/// `ElectLeaders` 0 to 2, flexible from 2.
pub const ELECT_LEADERS: Schema = &[
    since(1, INT8), // election_type
    array(&[
        STRING,         // topic
        values(&INT32), // partitions
    ]), // topic_partitions
    INT32,          // timeout_ms
];

/// `IncrementalAlterConfigs` 0 to 1, flexible from 1.
pub const INCREMENTAL_ALTER_CONFIGS: Schema = &[
    array(&[
        INT8,   // resource_type
        STRING, // resource_name
        array(&[
            STRING, // name
            INT8,   // config_operation
            STRING, // value
        ]), // configs
    ]), // resources
    INT8, // validate_only
];

/// `ListPartitionReassignments` 0 to 0, flexible from 0.
pub const LIST_PARTITION_REASSIGNMENTS: Schema = &[
    INT32, // timeout_ms
    array(&[
        STRING,         // name
        values(&INT32), // partition_indexes
    ]), // topics
];

/// `AlterPartitionReassignments` 0 to 1, flexible from 0.
pub const ALTER_PARTITION_REASSIGNMENTS: Schema = &[
    INT32,          // timeout_ms
    since(1, INT8), // allow_replication_factor_change
    array(&[
        STRING, // name
        array(&[
            INT32,          // partition_index
            values(&INT32), // replicas
        ]), // partitions
    ]), // topics
];

/// `DescribeClientQuotas` 0 to 1, flexible from 1.
pub const DESCRIBE_CLIENT_QUOTAS: Schema = &[
    array(&[
        STRING, // entity_type
        INT8,   // match_type
        STRING, // _match
    ]), // components
    INT8, // strict
];

/// `DescribeUserScramCredentials` 0 to 0, flexible from 0.
pub const DESCRIBE_USER_SCRAM_CREDENTIALS: Schema = &[
    array(&[
        STRING, // name
    ]), // users
];

/// `AlterUserScramCredentials` 0 to 0, flexible from 0.
pub const ALTER_USER_SCRAM_CREDENTIALS: Schema = &[
    array(&[
        STRING, // name
        INT8,   // mechanism
    ]), // deletions
    array(&[
        STRING, // name
        INT8,   // mechanism
        INT32,  // iterations
        BYTES,  // salt
        BYTES,  // salted_password
    ]), // upsertions
];

/// `DescribeCluster` 0 to 2, flexible from 0.
pub const DESCRIBE_CLUSTER: Schema = &[
    INT8,           // include_cluster_authorized_operations
    since(1, INT8), // endpoint_type
    since(2, INT8), // include_fenced_brokers
];

/// `DescribeProducers` 0 to 0, flexible from 0.
pub const DESCRIBE_PRODUCERS: Schema = &[
    array(&[
        STRING,         // name
        values(&INT32), // partition_indexes
    ]), // topics
];

/// `DescribeTransactions` 0 to 0, flexible from 0.
pub const DESCRIBE_TRANSACTIONS: Schema = &[
    values(&STRING), // transactional_ids
];

/// `ListTransactions` 0 to 2, flexible from 0.
pub const LIST_TRANSACTIONS: Schema = &[
    values(&STRING),  // state_filters
    values(&INT64),   // producer_id_filters
    since(1, INT64),  // duration_filter
    since(2, STRING), // transactional_id_pattern
];

/// `ConsumerGroupHeartbeat` 0 to 1, flexible from 0.
pub const CONSUMER_GROUP_HEARTBEAT: Schema = &[
    STRING,           // group_id
    STRING,           // member_id
    INT32,            // member_epoch
    STRING,           // instance_id
    STRING,           // rack_id
    INT32,            // rebalance_timeout_ms
    values(&STRING),  // subscribed_topic_names
    since(1, STRING), // subscribed_topic_regex
    STRING,           // server_assignor
    array(&[
        UUID,           // topic_id
        values(&INT32), // partitions
    ]), // topic_partitions
];

/// `ConsumerGroupDescribe` 0 to 1, flexible from 0.
pub const CONSUMER_GROUP_DESCRIBE: Schema = &[
    values(&STRING), // group_ids
    INT8,            // include_authorized_operations
];

/// `ListConfigResources` 0 to 1, flexible from 0.
pub const LIST_CONFIG_RESOURCES: Schema = &[
    since(1, values(&INT8)), // resource_types
];

/// `DescribeTopicPartitions` 0 to 0, flexible from 0.
pub const DESCRIBE_TOPIC_PARTITIONS: Schema = &[
    array(&[
        STRING, // name
    ]), // topics
    INT32, // response_partition_limit
    optional(&[
        STRING, // topic_name
        INT32,  // partition_index
    ]), // cursor
];

/// `DescribeQuorum` 0 to 2, flexible from 0.
pub const DESCRIBE_QUORUM: Schema = &[
    array(&[
        STRING, // topic_name
        array(&[
            INT32, // partition_index
        ]), // partitions
    ]), // topics
];

/// `OffsetDelete` 0.
pub const OFFSET_DELETE: Schema = &[
    STRING, // group_id
    array(&[
        STRING, // name
        array(&[
            INT32, // partition_index
        ]), // partitions
    ]), // topics
];
