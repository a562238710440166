//! One of the two that scripts are run on, and how its answers are written down: leader epochs only as known or not, times in minutes
//! from the run's base time.
use std::path::{Path, PathBuf};

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Request, StrBytes};
use tidemark::log::batch;
use tidemark::wire::client::Client;

use crate::script::{Epoch, MINUTE, Place, Script, Step, Time};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(text(topic))
}

/// One of the two.
pub struct Side {
    bootstrap: String,
    logs: PathBuf,
    kafka: Client,
    base: i64,
    /// Leader epochs of the topics; Kafka has new ones after each start.
    epochs: Vec<i32>,
}

fn creatable(name: &str, partitions: i32, replicas: i16, settings: &[(&str, &str)]) -> CreatableTopic {
    let configs = settings.iter().map(|(key, value)| {
        CreatableTopicConfig::default()
            .with_name(text(key))
            .with_value(Some(text(value)))
    });
    CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(replicas)
        .with_configs(configs.collect())
}

impl Side {
    pub async fn new(bootstrap: &str, logs: &Path, base: i64) -> Self {
        Self {
            bootstrap: bootstrap.to_owned(),
            logs: logs.to_path_buf(),
            kafka: Client::connect(bootstrap, "scripted").await.unwrap(),
            base,
            epochs: Vec::new(),
        }
    }

    pub async fn create(&mut self, topics: &[(String, &Script)]) {
        let topics = topics
            .iter()
            .map(|(name, script)| creatable(name, script.partitions, 1, &script.settings));
        let request = CreateTopicsRequest::default()
            .with_topics(topics.collect())
            .with_timeout_ms(60_000);
        let reply = self.kafka.call(7, &request).await.unwrap();
        for topic in &reply.topics {
            assert_eq!(topic.error_code, 0, "{:?}: {:?}", topic.name, topic.error_message);
        }
    }

    /// Connects again and waits until every partition is served; remembers the leader epoch.
    pub async fn started(&mut self, topics: &[(String, i32)]) {
        self.kafka = Client::connect(&*self.bootstrap, "scripted").await.unwrap();
        let named = MetadataRequestTopic::default().with_name(Some(topic_name(&topics[0].0)));
        let deadline = std::time::Instant::now() + crate::support::wait::PATIENCE;
        for (topic, partitions) in topics {
            for partition in 0..*partitions {
                while self.offset(topic, partition, -1).await.is_none() {
                    assert!(
                        std::time::Instant::now() < deadline,
                        "{topic}-{partition} is not served"
                    );
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
        let request = MetadataRequest::default().with_topics(Some(vec![named]));
        let reply = self.kafka.call(9, &request).await.unwrap();
        self.epochs.push(reply.topics[0].partitions[0].leader_epoch);
    }

    async fn list(
        &mut self,
        version: i16,
        topic: &str,
        partition: i32,
        timestamp: i64,
        committed: bool,
        epoch: i32,
    ) -> Result<ListOffsetsResponse, String> {
        let asked = ListOffsetsPartition::default()
            .with_partition_index(partition)
            .with_current_leader_epoch(epoch)
            .with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![asked]);
        let request = ListOffsetsRequest::default()
            .with_replica_id((-1).into())
            .with_isolation_level(i8::from(committed && version >= 2))
            .with_topics(vec![topic]);
        self.call(version, &request).await
    }

    async fn offset(&mut self, topic: &str, partition: i32, timestamp: i64) -> Option<i64> {
        let reply = self.list(7, topic, partition, timestamp, false, -1).await.ok()?;
        let answer = &reply.topics[0].partitions[0];
        (answer.error_code == 0).then_some(answer.offset)
    }

    /// Sets settings of many topics at once.
    pub async fn set(&mut self, topics: &[(String, Vec<(&str, String)>)]) {
        let resources = topics.iter().map(|(topic, settings)| {
            let configs = settings.iter().map(|(key, value)| {
                incremental_alter_configs_request::AlterableConfig::default()
                    .with_name(text(key))
                    .with_value(Some(text(value)))
            });
            incremental_alter_configs_request::AlterConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text(topic))
                .with_configs(configs.collect())
        });
        let request = IncrementalAlterConfigsRequest::default().with_resources(resources.collect());
        let reply = self.kafka.call(1, &request).await.unwrap();
        for answer in reply.responses {
            assert_eq!(answer.error_code, 0, "{answer:?}");
        }
    }

    /// Base offset and size of each segment, from the directory.
    pub fn segments(&self, topic: &str, partition: i32) -> Vec<(i64, u64)> {
        let directory = self.logs.join(format!("{topic}-{partition}"));
        let mut segments: Vec<(i64, u64)> = std::fs::read_dir(&directory)
            .unwrap()
            .filter_map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                let base = name.strip_suffix(".log")?.parse().ok()?;
                // What was renamed for its deletion meanwhile does not count.
                Some((base, entry.metadata().ok()?.len()))
            })
            .collect();
        segments.sort_unstable();
        segments
    }

    async fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, String> {
        match self.kafka.call(version, request).await {
            Ok(reply) => Ok(reply),
            Err(_) => {
                self.kafka = Client::connect(&*self.bootstrap, "scripted").await.unwrap();
                Err("connection closed".to_owned())
            }
        }
    }

    fn epoch(&self, epoch: Epoch) -> i32 {
        match epoch {
            Epoch::None => -1,
            Epoch::Current => self.epochs[self.epochs.len() - 1],
            Epoch::Ahead => 1_000,
        }
    }

    fn shown_epoch(&self, epoch: i32) -> String {
        if self.epochs.contains(&epoch) {
            "known".to_owned()
        } else {
            epoch.to_string()
        }
    }

    fn shown_time(&self, time: i64) -> String {
        match (time - self.base).checked_div(MINUTE) {
            _ if time < self.base / 10 => time.to_string(),
            Some(-4..12) => "now".to_owned(),
            Some(minutes) => format!("{minutes} min"),
            None => time.to_string(),
        }
    }

    async fn place(&mut self, topic: &str, partition: i32, place: Place) -> i64 {
        match place {
            Place::Exactly(offset) => offset,
            Place::Percent(percent, more) => {
                let start = self.offset(topic, partition, -2).await.unwrap_or(0);
                let end = self.offset(topic, partition, -1).await.unwrap_or(0);
                start + (end - start) * percent / 100 + more
            }
        }
    }

    pub async fn run(&mut self, topic: &str, step: &Step) -> String {
        self.answer(topic, step).await.unwrap_or_else(|closed| closed)
    }

    async fn answer(&mut self, topic: &str, step: &Step) -> Result<String, String> {
        match step {
            Step::Produce {
                version,
                acks,
                partition,
                batch,
            } => {
                let records = batch.encode(self.base);
                self.produce(*version, *acks, topic, *partition, records).await
            }
            Step::ListOffsets {
                version,
                partition,
                time,
                committed,
                epoch,
            } => {
                let time = match time {
                    Time::Special(time) => *time,
                    Time::Age(age) => self.base - age * MINUTE,
                };
                let epoch = self.epoch(*epoch);
                let reply = self
                    .list(*version, topic, *partition, time, *committed, epoch)
                    .await?;
                let answer = &reply.topics[0].partitions[0];
                Ok(format!(
                    "{} offset {} time {} epoch {}",
                    answer.error_code,
                    answer.offset,
                    self.shown_time(answer.timestamp),
                    self.shown_epoch(answer.leader_epoch)
                ))
            }
            Step::EndOfEpoch {
                version,
                partition,
                epoch,
                current,
            } => {
                let asked = OffsetForLeaderPartition::default()
                    .with_partition(*partition)
                    .with_current_leader_epoch(self.epoch(*current))
                    .with_leader_epoch(self.epoch(*epoch));
                let asked = OffsetForLeaderTopic::default()
                    .with_topic(topic_name(topic))
                    .with_partitions(vec![asked]);
                let request = OffsetForLeaderEpochRequest::default()
                    .with_replica_id((-1).into())
                    .with_topics(vec![asked]);
                let reply = self.call(*version, &request).await?;
                let answer = &reply.topics[0].partitions[0];
                let epoch = self.shown_epoch(answer.leader_epoch);
                Ok(format!(
                    "{} epoch {epoch} ends {}",
                    answer.error_code, answer.end_offset
                ))
            }
            Step::Fetch {
                version,
                partition,
                from,
                bytes,
            } => {
                let from = self.place(topic, *partition, *from).await;
                self.fetch(*version, topic, *partition, from, *bytes).await
            }
            Step::DescribeConfigs {
                version,
                synonyms,
                keys,
            } => self.describe(*version, topic, *synonyms, keys.as_deref()).await,
            Step::Create {
                version,
                name,
                partitions,
                replicas,
                settings,
            } => {
                let request = CreateTopicsRequest::default()
                    .with_topics(vec![creatable(name, *partitions, *replicas, settings)])
                    .with_timeout_ms(60_000)
                    .with_validate_only(true);
                let reply = self.call(*version, &request).await?;
                let answer = &reply.topics[0];
                let configs = answer.configs.iter().flatten().map(|config| {
                    format!(
                        "\n{}={:?} {} {} {}",
                        &*config.name,
                        config.value.as_deref(),
                        config.config_source,
                        config.read_only,
                        config.is_sensitive
                    )
                });
                let mut configs: Vec<String> = configs.collect();
                configs.sort();
                Ok(format!(
                    "{} {} {} {}{}",
                    answer.error_code,
                    answer.num_partitions,
                    answer.replication_factor,
                    answer.topic_config_error_code,
                    configs.concat()
                ))
            }
            Step::AddPartitions { version, count } => self.add_partitions(*version, topic, *count).await,
            Step::DeleteRecords {
                version,
                partition,
                to,
            } => {
                let offset = self.place(topic, *partition, *to).await;
                self.delete_records(*version, topic, *partition, offset).await
            }
            Step::Alter {
                version,
                dry,
                operations,
            } => {
                let configs = operations.iter().map(|(operation, key, value)| {
                    incremental_alter_configs_request::AlterableConfig::default()
                        .with_name(text(key))
                        .with_config_operation(*operation)
                        .with_value(value.map(text))
                });
                let resource = incremental_alter_configs_request::AlterConfigsResource::default()
                    .with_resource_type(2)
                    .with_resource_name(text(topic))
                    .with_configs(configs.collect());
                let request = IncrementalAlterConfigsRequest::default()
                    .with_resources(vec![resource])
                    .with_validate_only(*dry);
                let reply = self.call(*version, &request).await?;
                Ok(reply.responses[0].error_code.to_string())
            }
            Step::Replace {
                version,
                dry,
                settings,
            } => {
                let configs = settings.iter().map(|(key, value)| {
                    alter_configs_request::AlterableConfig::default()
                        .with_name(text(key))
                        .with_value(Some(text(value)))
                });
                let resource = alter_configs_request::AlterConfigsResource::default()
                    .with_resource_type(2)
                    .with_resource_name(text(topic))
                    .with_configs(configs.collect());
                let request = AlterConfigsRequest::default()
                    .with_resources(vec![resource])
                    .with_validate_only(*dry);
                let reply = self.call(*version, &request).await?;
                Ok(reply.responses[0].error_code.to_string())
            }
            Step::Nowhere(kind) => self.nowhere(*kind).await,
        }
    }

    async fn produce(
        &mut self,
        version: i16,
        acks: i16,
        topic: &str,
        partition: i32,
        records: Vec<u8>,
    ) -> Result<String, String> {
        let data = PartitionProduceData::default()
            .with_index(partition)
            .with_records(Some(records.into()));
        let data = TopicProduceData::default()
            .with_name(topic_name(topic))
            .with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_acks(acks)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![data]);
        let reply = self.call(version, &request).await?;
        let answer = &reply.responses[0].partition_responses[0];
        let bad: Vec<i32> = answer
            .record_errors
            .iter()
            .map(|error| error.batch_index)
            .collect();
        Ok(format!(
            "{} base {} time {} start {} bad {bad:?}",
            answer.error_code,
            answer.base_offset,
            self.shown_time(answer.log_append_time_ms),
            answer.log_start_offset
        ))
    }

    async fn fetch(
        &mut self,
        version: i16,
        topic: &str,
        partition: i32,
        from: i64,
        bytes: i32,
    ) -> Result<String, String> {
        let wanted = FetchPartition::default()
            .with_partition(partition)
            .with_current_leader_epoch(-1)
            .with_fetch_offset(from)
            .with_partition_max_bytes(bytes);
        let topic = FetchTopic::default()
            .with_topic(topic_name(topic))
            .with_partitions(vec![wanted]);
        let request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        let reply = self.call(version, &request).await?;
        let answer = &reply.responses[0].partitions[0];
        let records = answer.records.clone().unwrap_or_default();
        let batches: Vec<String> = batch::batches(&records)
            .map_while(Result::ok)
            .map(|slice| {
                let header = slice.header;
                let (time, epoch) = (
                    self.shown_time(header.max_timestamp),
                    self.shown_epoch(header.leader_epoch),
                );
                let (base, last, kind) = (header.base_offset, header.last_offset(), header.attributes);
                format!("{base}-{last} attributes {kind} until {time} epoch {epoch}")
            })
            .collect();
        Ok(format!(
            "from {from}: {} start {} high {} stable {}, {} bytes {batches:?}",
            answer.error_code,
            answer.log_start_offset,
            answer.high_watermark,
            answer.last_stable_offset,
            records.len()
        ))
    }

    async fn describe(
        &mut self,
        version: i16,
        topic: &str,
        synonyms: bool,
        keys: Option<&[&str]>,
    ) -> Result<String, String> {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text(topic))
            .with_configuration_keys(keys.map(|keys| keys.iter().map(|key| text(key)).collect()));
        let request = DescribeConfigsRequest::default()
            .with_resources(vec![resource])
            .with_include_synonyms(synonyms);
        let reply = self.call(version, &request).await?;
        let answer = &reply.results[0];
        let mut lines: Vec<String> = answer
            .configs
            .iter()
            .map(|config| {
                let synonyms: Vec<String> = config
                    .synonyms
                    .iter()
                    .map(|synonym| {
                        format!(
                            "{}={:?} {}",
                            &*synonym.name,
                            synonym.value.as_deref(),
                            synonym.source
                        )
                    })
                    .collect();
                let fixed = (config.read_only, config.is_sensitive, config.config_type);
                let (name, value) = (&*config.name, config.value.as_deref());
                format!(
                    "\n{name}={value:?} {} {fixed:?} {synonyms:?}",
                    config.config_source
                )
            })
            .collect();
        lines.sort();
        Ok(format!("{}{}", answer.error_code, lines.concat()))
    }

    async fn delete_records(
        &mut self,
        version: i16,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<String, String> {
        let to = DeleteRecordsPartition::default()
            .with_partition_index(partition)
            .with_offset(offset);
        let asked = DeleteRecordsTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![to]);
        let request = DeleteRecordsRequest::default()
            .with_topics(vec![asked])
            .with_timeout_ms(30_000);
        let reply = self.call(version, &request).await?;
        let answer = &reply.topics[0].partitions[0];
        Ok(format!(
            "to {offset}: {} low {}",
            answer.error_code, answer.low_watermark
        ))
    }

    async fn add_partitions(&mut self, version: i16, topic: &str, count: i32) -> Result<String, String> {
        let asked = CreatePartitionsTopic::default()
            .with_name(topic_name(topic))
            .with_count(count);
        let request = CreatePartitionsRequest::default()
            .with_topics(vec![asked])
            .with_timeout_ms(30_000)
            .with_validate_only(true);
        let reply = self.call(version, &request).await?;
        Ok(reply.results[0].error_code.to_string())
    }

    async fn nowhere(&mut self, kind: u64) -> Result<String, String> {
        const MISSING: &str = "missing";
        match kind {
            0 => self.produce(9, 1, MISSING, 0, Vec::new()).await,
            1 => self.add_partitions(3, MISSING, 4).await,
            2 => self.delete_records(2, MISSING, 0, 0).await,
            3 => self.fetch(11, MISSING, 0, 0, 1).await,
            4 => self.describe(4, MISSING, true, None).await,
            5 => {
                let request = DeleteTopicsRequest::default()
                    .with_topic_names(vec![topic_name(MISSING)])
                    .with_timeout_ms(30_000);
                let reply = self.call(5, &request).await?;
                Ok(reply.responses[0].error_code.to_string())
            }
            6 => {
                let reply = self.list(7, MISSING, 0, -1, false, -1).await?;
                Ok(reply.topics[0].partitions[0].error_code.to_string())
            }
            _ => {
                let resource = alter_configs_request::AlterConfigsResource::default()
                    .with_resource_type(2)
                    .with_resource_name(text(MISSING));
                let request = AlterConfigsRequest::default().with_resources(vec![resource]);
                let reply = self.call(1, &request).await?;
                Ok(reply.responses[0].error_code.to_string())
            }
        }
    }
}
