//! DescribeLogDirs (35): the one log directory, its volume, and what each partition takes of it.
use std::sync::Arc;

use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use crate::wire::apis::{text, topic_name};
use crate::wire::broker::{Broker, Topic};
use crate::wire::partition::Partition;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The API.
#[derive(Debug)]
pub struct DescribeLogDirs;

impl<S: Broker> Api<S> for DescribeLogDirs {
    type Request = DescribeLogDirsRequest;
    const NAME: &'static str = "DescribeLogDirs";
    const MIN: i16 = 1;
    const MAX: i16 = 4;
    const SCHEMA: Schema = requests::DESCRIBE_LOG_DIRS;

    async fn handle(broker: Arc<S>, _call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse {
        let topics = match request.topics {
            None => {
                let all = broker.topics();
                all.iter()
                    .map(|topic| describe(topic, topic.partitions.iter()))
                    .collect()
            }
            // As in Kafka, what is not here is left out.
            Some(asked) => asked
                .into_iter()
                .filter_map(|asked| {
                    let topic = broker.topic(&asked.topic)?;
                    Some(describe(
                        &topic,
                        asked
                            .partitions
                            .iter()
                            .filter_map(|index| topic.partition(*index)),
                    ))
                })
                .collect(),
        };
        let directory = broker.log_directory();
        DescribeLogDirsResponse::default().with_results(vec![
            DescribeLogDirsResult::default()
                .with_error_code(directory.error.map_or(0, |code| code.code()))
                .with_log_dir(text(directory.path))
                .with_topics(topics)
                .with_total_bytes(directory.total_bytes)
                .with_usable_bytes(directory.usable_bytes),
        ])
    }
}

fn describe<'a>(topic: &Topic, partitions: impl Iterator<Item = &'a Arc<Partition>>) -> DescribeLogDirsTopic {
    let partitions = partitions.map(|partition| {
        DescribeLogDirsPartition::default()
            .with_partition_index(partition.index())
            .with_partition_size(partition.log().map_or(0, |log| log.size_bytes()))
    });
    DescribeLogDirsTopic::default()
        .with_name(topic_name(&topic.name))
        .with_partitions(partitions.collect())
}
