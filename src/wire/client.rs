//! A small Kafka client: one connection, one request at a time.
//!
//! The demonstration and the tests speak the real protocol through it. It is no client library: no retries, no
//! metadata, no compression.
use std::io;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    FetchRequest, GroupId, OffsetCommitRequest, ProduceRequest, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{
    Decodable, HeaderVersion, Request, StrBytes, encode_request_header_into_buffer,
};
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record,
    RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, ToSocketAddrs};

/// The largest response that is read, in bytes.
const LARGEST_RESPONSE: usize = 128 << 20;

/// What can go wrong between this client and a broker.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed or ended.
    #[error("the connection to the broker failed: {0}")]
    Io(#[from] io::Error),
    /// A message could not be encoded or decoded.
    #[error("the broker and this client do not understand each other: {0}")]
    Protocol(String),
    /// The broker answered with a Kafka error code.
    #[error("the broker answered error code {code}{}", message.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
    Broker {
        /// Kafka's error code.
        code: i16,
        /// What the broker says about it, where the API has room for that.
        message: Option<String>,
    },
}

fn protocol_error(error: impl std::fmt::Display) -> ClientError {
    ClientError::Protocol(format!("{error:#}"))
}

fn check(code: i16, message: Option<&StrBytes>) -> Result<(), ClientError> {
    if code == 0 {
        return Ok(());
    }
    Err(ClientError::Broker {
        code,
        message: message.map(ToString::to_string),
    })
}

/// A record as the client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRecord {
    /// The record's offset; ignored when producing.
    pub offset: i64,
    /// Milliseconds since 1970, or -1.
    pub timestamp_ms: i64,
    /// The key, if there is one.
    pub key: Option<Bytes>,
    /// The value; none is a tombstone.
    pub value: Option<Bytes>,
}

impl ClientRecord {
    /// A record to produce: no key, the given value.
    pub fn new(timestamp_ms: i64, value: impl Into<Bytes>) -> Self {
        Self {
            offset: 0,
            timestamp_ms,
            key: None,
            value: Some(value.into()),
        }
    }
}

/// Encodes `records` as one uncompressed v2 batch with base offset 0, as a producer without an id sends it.
///
/// # Errors
/// When the records do not fit into a batch.
pub fn encode_batch(records: &[ClientRecord]) -> Result<Bytes, ClientError> {
    let records: Vec<Record> = (0..)
        .zip(records)
        .map(|(offset, record)| wire_record(offset, record))
        .collect();
    let mut encoded = BytesMut::new();
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    RecordBatchEncoder::encode(&mut encoded, &records, &options).map_err(protocol_error)?;
    Ok(encoded.freeze())
}

fn wire_record(offset: i64, record: &ClientRecord) -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        timestamp_type: TimestampType::Creation,
        offset,
        // The encoder starts a new batch where sequences do not rise with the offsets.
        sequence: NO_SEQUENCE.wrapping_add(offset as i32),
        timestamp: record.timestamp_ms,
        key: record.key.clone(),
        value: record.value.clone(),
        headers: IndexMap::new(),
    }
}

/// One connection to one broker.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    client_id: StrBytes,
    correlation_id: i32,
}

impl Client {
    /// Connects and names itself `client_id`.
    ///
    /// # Errors
    /// When the connection cannot be made.
    pub async fn connect(address: impl ToSocketAddrs, client_id: &str) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            client_id: StrBytes::from_string(client_id.to_owned()),
            correlation_id: 0,
        })
    }

    /// Sends `request` in `version` and waits for its response.
    ///
    /// # Errors
    /// When the connection fails or the response is not one; Kafka error codes inside a response are the
    /// caller's to read.
    pub async fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, ClientError> {
        self.send(version, request).await?;
        let mut body = self.receive_frame().await?;
        let header_version = <R::Response as HeaderVersion>::header_version(version);
        let header = ResponseHeader::decode(&mut body, header_version).map_err(protocol_error)?;
        if header.correlation_id != self.correlation_id {
            let expected = self.correlation_id;
            let text = format!(
                "response to request {} where {expected} was asked",
                header.correlation_id
            );
            return Err(ClientError::Protocol(text));
        }
        R::Response::decode(&mut body, version).map_err(protocol_error)
    }

    /// Sends `request` without waiting: what `acks=0` means.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn send<R: Request>(&mut self, version: i16, request: &R) -> Result<(), ClientError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(self.client_id.clone()));
        let mut frame = BytesMut::from(&[0_u8; 4][..]);
        encode_request_header_into_buffer(&mut frame, &header).map_err(protocol_error)?;
        request.encode(&mut frame, version).map_err(protocol_error)?;
        let length = u32::try_from(frame.len() - 4).map_err(protocol_error)?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&frame).await?;
        Ok(())
    }

    async fn receive_frame(&mut self) -> Result<Bytes, ClientError> {
        let length = self.stream.read_i32().await?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= LARGEST_RESPONSE);
        let length = length.ok_or_else(|| protocol_error("a response of impossible length"))?;
        let mut frame = BytesMut::zeroed(length);
        self.stream.read_exact(&mut frame).await?;
        Ok(frame.freeze())
    }

    /// Produces `records` as one batch with `acks=all`; returns the first one's offset.
    ///
    /// # Errors
    /// When the broker refuses the batch or the connection fails.
    pub async fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        records: &[ClientRecord],
    ) -> Result<i64, ClientError> {
        let data = PartitionProduceData::default()
            .with_index(partition)
            .with_records(Some(encode_batch(records)?));
        let topic_data = TopicProduceData::default()
            .with_name(topic_name(topic))
            .with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![topic_data]);
        let response = self.call(9, &request).await?;
        let partition = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partition_responses)
            .next();
        let partition =
            partition.ok_or_else(|| protocol_error("a produce response without the partition"))?;
        check(partition.error_code, partition.error_message.as_ref())?;
        Ok(partition.base_offset)
    }

    /// Fetches what is there from `offset` on, waiting `max_wait_ms` at most for a first record.
    ///
    /// # Errors
    /// When the broker answers an error, `OFFSET_OUT_OF_RANGE` (1) among them, or the connection fails.
    pub async fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        max_wait_ms: i32,
    ) -> Result<Vec<ClientRecord>, ClientError> {
        let wanted = FetchPartition::default()
            .with_partition(partition)
            .with_current_leader_epoch(-1)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(1 << 20);
        let request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(max_wait_ms)
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_session_epoch(-1)
            .with_topics(vec![
                FetchTopic::default()
                    .with_topic(topic_name(topic))
                    .with_partitions(vec![wanted]),
            ]);
        let response = self.call(11, &request).await?;
        check(response.error_code, None)?;
        let partition = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions)
            .next();
        let partition = partition.ok_or_else(|| protocol_error("a fetch response without the partition"))?;
        check(partition.error_code, None)?;
        decode_records(partition.records.unwrap_or_default(), offset)
    }

    /// Commits `offset` for `group`, as a reader that assigns its partitions itself does.
    ///
    /// # Errors
    /// When the broker refuses the commit or the connection fails.
    pub async fn commit(
        &mut self,
        group: &str,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<(), ClientError> {
        let position = OffsetCommitRequestPartition::default()
            .with_partition_index(partition)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(-1);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![position]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(StrBytes::from_string(group.to_owned())))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        let response = self.call(7, &request).await?;
        let partition = response
            .topics
            .into_iter()
            .flat_map(|topic| topic.partitions)
            .next();
        let partition = partition.ok_or_else(|| protocol_error("a commit response without the partition"))?;
        check(partition.error_code, None)
    }
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn decode_records(mut encoded: Bytes, from: i64) -> Result<Vec<ClientRecord>, ClientError> {
    let mut records = Vec::new();
    while encoded.has_remaining() {
        let set = RecordBatchDecoder::decode(&mut encoded).map_err(protocol_error)?;
        let wanted = set
            .records
            .into_iter()
            .filter(|record| record.offset >= from && !record.control);
        records.extend(wanted.map(|record| ClientRecord {
            offset: record.offset,
            timestamp_ms: record.timestamp,
            key: record.key,
            value: record.value,
        }));
    }
    Ok(records)
}
