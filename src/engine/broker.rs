//! The engine as the protocol sees it.
//!
//! Look-ups read a snapshot. What writes state may wait for the disk, so it runs where waiting is allowed.
use std::sync::Arc;

use tokio::task;
use uuid::Uuid;

use crate::engine::Engine;
use crate::engine::config::Durability;
use crate::engine::refusal::Refusal as EngineRefusal;
use crate::engine::topics::record::Layers;
use crate::engine::topics::{alter, describe};
use crate::resource::settings::Overrides;
use crate::telemetry::clock::Clock;
use crate::telemetry::metrics::Metrics;
use crate::wire::broker::{
    Broker, ConfigChange, ConfigEntry, ConfigResource, CreatedTopic, Endpoint, LogDirectory, NewTopic,
    Refusal, Topic,
};
use crate::wire::error_code::ErrorCode;
use crate::wire::partition::Partition;

impl From<EngineRefusal> for Refusal {
    fn from(refusal: EngineRefusal) -> Self {
        Self::new(refusal.error_code(), refusal.client_message())
    }
}

impl Broker for Engine {
    fn cluster_id(&self) -> &str {
        &self.directory.identity().cluster_id
    }

    fn node_id(&self) -> i32 {
        self.config.node_id
    }

    fn advertised(&self) -> Endpoint {
        self.endpoint.get().cloned().unwrap_or_else(|| Endpoint {
            host: self.config.listen.ip().to_string(),
            port: self.config.listen.port(),
        })
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.config.clock
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.catalog.by_name(name).map(|state| Arc::clone(&state.topic))
    }

    fn topic_by_id(&self, id: Uuid) -> Option<Arc<Topic>> {
        self.catalog.by_id(id).map(|state| Arc::clone(&state.topic))
    }

    fn topics(&self) -> Vec<Arc<Topic>> {
        self.catalog
            .snapshot()
            .iter()
            .map(|state| Arc::clone(&state.topic))
            .collect()
    }

    fn auto_create_topics(&self) -> bool {
        self.config.auto_create_topics
    }

    fn accepts_produce(&self) -> Result<(), Refusal> {
        let health = self.health.now();
        if health.is_healthy() {
            return Ok(());
        }
        Err(Refusal::new(ErrorCode::KafkaStorageError, health.message.clone()))
    }

    async fn make_durable(&self, appended: &[(Arc<Partition>, i64)]) -> Result<(), Refusal> {
        if self.config.durability != Durability::Ack || appended.is_empty() {
            return Ok(());
        }
        let waits: Vec<_> = appended
            .iter()
            .filter_map(|(partition, log_end)| Some((Arc::clone(partition.log()?), *log_end)))
            .map(|(log, log_end)| task::spawn_blocking(move || log.commit(log_end)))
            .collect();
        for wait in waits {
            match wait.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(Refusal::from(&error)),
                Err(error) => return Err(Refusal::new(ErrorCode::KafkaStorageError, error.to_string())),
            }
        }
        Ok(())
    }

    async fn create_topic(&self, topic: NewTopic, validate_only: bool) -> Result<CreatedTopic, Refusal> {
        self.blocking(move |engine| engine.create_over_wire(&topic, validate_only))
            .await
    }

    async fn delete_topic(&self, name: &str) -> Result<(), Refusal> {
        let name = name.to_owned();
        self.blocking(move |engine| engine.delete_topic_over_wire(&name))
            .await
    }

    async fn create_partitions(&self, topic: &str, count: i32, validate_only: bool) -> Result<(), Refusal> {
        let name = topic.to_owned();
        self.blocking(move |engine| {
            let changes = engine.lock_changes()?;
            let topic = engine.known_topic(&name)?;
            engine.grow(&changes, &topic, count, validate_only).map(|_| ())
        })
        .await
    }

    fn describe_config(&self, resource: &ConfigResource) -> Result<Vec<ConfigEntry>, Refusal> {
        match resource {
            ConfigResource::Topic(name) => {
                let topic = self.known_topic(name)?;
                Ok(describe::topic(&topic.record.layers))
            }
            ConfigResource::Broker => Ok(describe::broker(&self.config)),
            ConfigResource::BrokerDefaults => Ok(Vec::new()),
        }
    }

    async fn alter_config(
        &self,
        resource: ConfigResource,
        change: ConfigChange,
        validate_only: bool,
    ) -> Result<(), Refusal> {
        let name = match resource {
            ConfigResource::Topic(name) => name,
            ConfigResource::Broker | ConfigResource::BrokerDefaults => {
                return Err(Refusal::new(
                    ErrorCode::InvalidRequest,
                    "this engine's own settings are given at start (--default KEY=VALUE) and cannot be altered over the wire",
                ));
            }
        };
        self.blocking(move |engine| engine.alter_topic(&name, &change, validate_only))
            .await
    }

    async fn delete_records(&self, topic: &str, partition: i32, offset: i64) -> Result<i64, Refusal> {
        let name = topic.to_owned();
        self.blocking(move |engine| engine.delete_records_over_wire(&name, partition, offset))
            .await
    }

    async fn next_producer_id(&self) -> Result<i64, Refusal> {
        self.blocking(|engine| engine.producer_ids.next().map_err(EngineRefusal::from))
            .await
    }

    fn log_directory(&self) -> LogDirectory {
        let volume = self.health.volume();
        let health = self.health.now();
        let path = std::path::absolute(self.directory.logs()).unwrap_or_else(|_| self.directory.logs());
        LogDirectory {
            path: path.display().to_string(),
            total_bytes: volume.total_bytes,
            usable_bytes: volume.free_bytes,
            // A full or read-only volume is still read from; only a directory that is gone is no use.
            error: (health.reason == "Corrupt").then_some(ErrorCode::KafkaStorageError),
        }
    }
}

impl Engine {
    /// Runs what may wait for the disk on a thread that may.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T, EngineRefusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let Some(engine) = self.myself.upgrade() else {
            return Err(EngineRefusal::Stopping.into());
        };
        match task::spawn_blocking(move || work(&engine)).await {
            Ok(result) => result.map_err(Refusal::from),
            Err(error) => Err(Refusal::new(ErrorCode::UnknownServerError, error.to_string())),
        }
    }

    fn create_over_wire(&self, topic: &NewTopic, validate_only: bool) -> Result<CreatedTopic, EngineRefusal> {
        let changes = self.lock_changes()?;
        let partitions = topic.partitions.unwrap_or(self.config.default_partitions);
        self.check_new_topic(&topic.name, partitions)?;
        let mut overrides = Overrides::new();
        for (key, value) in &topic.config {
            let value = value.clone().ok_or_else(|| EngineRefusal::InvalidConfig {
                field: format!("config.{key}"),
                message: format!("Null value not supported for topic configs: {key}"),
            })?;
            overrides.insert(key.clone(), value);
        }
        let layers = Layers {
            engine_defaults: self.config.defaults.clone(),
            config: alter::check(&overrides, "config")?,
            ..Layers::default()
        };
        let config = describe::topic(&layers);
        if validate_only {
            return Ok(CreatedTopic {
                id: Uuid::nil(),
                partitions,
                config,
            });
        }
        let record = self.new_record(&topic.name, partitions, layers);
        let created = self.create_checked(&changes, record)?;
        Ok(CreatedTopic {
            id: created.record.id,
            partitions,
            config,
        })
    }
}
