//! What the story plays on: an engine and its reconcile loop on a temporary directory, a producer, readers.
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::picture::{Marker, Segment, columns, draw};
use crate::engine::Engine;
use crate::engine::config::EngineConfig;
use crate::operator::control_client::ControlClient;
use crate::operator::source::Report;
use crate::operator::source::directory::{DirectorySource, Settings};
use crate::operator::storage::Storage;
use crate::resource::contract::{ObservedTopic, PassReport, SegmentList};
use crate::resource::status::TopicStatus;
use crate::telemetry::clock::Clock;
use crate::wire::client::{Client, ClientRecord};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Longer than anything here takes; reached only when something is wrong.
const DEADLINE: Duration = Duration::from_secs(20);

/// The last segments that were drawn of a topic, so that what is gone shows as a gap.
type Drawn = BTreeMap<String, Vec<Segment>>;

/// A running engine with everything the story needs.
#[derive(Debug)]
pub struct Stage {
    manifests: PathBuf,
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    control: Arc<ControlClient>,
    client: Client,
    reports: mpsc::UnboundedReceiver<Report>,
    stop: CancellationToken,
    reconciling: tokio::task::JoinHandle<()>,
    drawn: Drawn,
}

impl Stage {
    /// Starts everything on free ports, with its files under `place`.
    ///
    /// # Errors
    /// When the engine does not start.
    pub async fn build(place: &std::path::Path) -> anyhow::Result<Self> {
        let manifests = place.join("topics");
        std::fs::create_dir_all(&manifests).with_context(|| format!("make {}", manifests.display()))?;
        let data = place.join("data");
        let mut config = EngineConfig::new(&data);
        config.listen.set_port(0);
        config.control = Some(([127, 0, 0, 1], 0).into());
        let clock = Arc::clone(&config.clock);
        let engine = Engine::start(config).await?;
        let address = engine
            .control_address()
            .context("the engine serves no control API")?;
        let control = Arc::new(ControlClient::new(&address.to_string(), None)?);
        let listening = engine.listening().context("the engine serves no Kafka clients")?;
        let client = Client::connect(listening, "tidemark-demo").await?;
        let (sender, reports) = mpsc::unbounded_channel();
        let reporter = Arc::new(move |report| {
            // Nobody listens any more once the story has ended.
            let _ = sender.send(report);
        });
        let settings = Settings::new(manifests.clone(), data.join("status"));
        let source = DirectorySource::new(settings, Arc::clone(&control), Arc::clone(&clock), reporter);
        let stop = CancellationToken::new();
        let reconciling = tokio::spawn(source.run(stop.clone()));
        Ok(Self {
            manifests,
            engine,
            clock,
            control,
            client,
            reports,
            stop,
            reconciling,
            drawn: Drawn::new(),
        })
    }

    /// Stops everything, cleanly.
    ///
    /// # Errors
    /// When the reconcile loop had ended by itself.
    pub async fn clear(self) -> anyhow::Result<()> {
        self.stop.cancel();
        let reconciled = self.reconciling.await;
        self.engine.shutdown().await;
        reconciled.context("the reconcile loop ended by itself")
    }

    /// Declares `topic` with this `retention.ms` and these lines under `readers`, and waits until its status says so or
    /// says why not.
    ///
    /// # Errors
    /// When the status does not come to `reason`.
    pub async fn declare(
        &mut self,
        topic: &str,
        retention: &str,
        readers: &str,
        reason: &str,
    ) -> anyhow::Result<TopicStatus> {
        let manifest = format!(
            "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: {topic}}}\nspec:\n  partitions: 1\n  \
             config:\n    retention.ms: {retention}\n    segment.ms: 12h\n  readers: {{{readers}}}\n"
        );
        let file = self.manifests.join(format!("{topic}.yaml"));
        std::fs::write(&file, manifest).with_context(|| format!("write {}", file.display()))?;
        self.status(topic, reason).await
    }

    /// Waits until the topic's `Ready` condition has this reason.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn status(&mut self, topic: &str, reason: &str) -> anyhow::Result<TopicStatus> {
        let wanted = format!("default/{topic}");
        let waited = tokio::time::timeout(DEADLINE, async {
            while let Some(report) = self.reports.recv().await {
                let Report::Status { topic, status } = report else {
                    continue;
                };
                let ready = status
                    .condition("Ready")
                    .is_some_and(|ready| ready.reason == reason);
                if topic == wanted && ready {
                    return Ok(*status);
                }
            }
            bail!("the reconcile loop ended by itself")
        });
        waited
            .await
            .with_context(|| format!("{topic} did not come to {reason}"))?
    }

    /// Produces a hundred records for each of the last ten days: a segment a day.
    ///
    /// # Errors
    /// When the broker does not take them.
    pub async fn produce_ten_days(&mut self, topic: &str) -> anyhow::Result<()> {
        let now = self.clock.wall_ms();
        for day in (1..=10).rev() {
            let written = now - day * DAY_MS - DAY_MS / 2;
            let records: Vec<ClientRecord> = (0..100)
                .map(|number| ClientRecord::new(written + number, format!("{topic} {day} {number}")))
                .collect();
            self.client.produce(topic, 0, &records).await?;
        }
        Ok(())
    }

    /// Reads from `from` up to `to` and commits `to`, as a consumer does.
    ///
    /// # Errors
    /// When a record is missing or the commit is refused.
    pub async fn read_and_commit(
        &mut self,
        group: &str,
        topic: &str,
        from: i64,
        to: i64,
    ) -> anyhow::Result<()> {
        let mut next = from;
        while next < to {
            let records = self.client.fetch(topic, 0, next, 1000).await?;
            ensure!(
                !records.is_empty(),
                "{group} got nothing at offset {next} of {topic}"
            );
            for record in records.iter().take_while(|record| record.offset < to) {
                ensure!(
                    record.offset == next,
                    "{group} got offset {} where {next} was due",
                    record.offset
                );
                next += 1;
            }
        }
        Ok(self.client.commit(group, topic, 0, to).await?)
    }

    /// Runs a retention pass now; returns how many segments it deleted.
    ///
    /// # Errors
    /// When the engine does not run it.
    pub async fn pass(&self) -> anyhow::Result<u32> {
        let report: PassReport = self.control.post("/v1/retention/pass", None::<&()>).await?;
        Ok(report.segments_deleted)
    }

    /// The topic as it is.
    ///
    /// # Errors
    /// When there is no such topic.
    pub async fn observe(&self, topic: &str) -> anyhow::Result<ObservedTopic> {
        self.control
            .observe(topic)
            .await?
            .with_context(|| format!("there is no topic {topic}"))
    }

    /// The topic's log start offset.
    ///
    /// # Errors
    /// When there is no such topic.
    pub async fn log_start(&self, topic: &str) -> anyhow::Result<i64> {
        let observed = self.observe(topic).await?;
        Ok(observed
            .partitions
            .first()
            .context("a topic without partitions")?
            .log_start)
    }

    /// Draws the topic's segments with their ages, those that went since the first drawing as gaps.
    ///
    /// # Errors
    /// When the segments cannot be listed.
    pub async fn picture(&mut self, topic: &str, markers: &[(i64, &str)]) -> anyhow::Result<String> {
        let segments = self.segments(topic).await?;
        let before = self.drawn.remove(topic).unwrap_or_default();
        let oldest = segments.first().map_or(i64::MAX, |segment| segment.base_offset);
        let gone = before.into_iter().filter(|segment| segment.base_offset < oldest);
        let shown: Vec<Segment> = gone
            .map(|segment| Segment {
                gone: true,
                ..segment
            })
            .chain(segments)
            .collect();
        self.drawn.insert(topic.to_owned(), shown.clone());
        let markers: Vec<Marker> = markers
            .iter()
            .map(|(offset, text)| Marker {
                offset: *offset,
                text: (*text).to_owned(),
            })
            .collect();
        Ok(draw(&shown, &markers, columns()))
    }

    async fn segments(&self, topic: &str) -> anyhow::Result<Vec<Segment>> {
        let listed: SegmentList = self
            .control
            .get(&format!("/v1/topics/{topic}/partitions/0/segments"))
            .await?;
        let observed = self.observe(topic).await?;
        let log_end = observed
            .partitions
            .first()
            .map_or(0, |partition| partition.log_end);
        let ends = listed
            .segments
            .iter()
            .skip(1)
            .map(|next| next.base_offset)
            .chain([log_end]);
        let now = self.clock.wall_ms();
        let shown = listed
            .segments
            .iter()
            .zip(ends)
            .map(|(segment, end_offset)| Segment {
                base_offset: segment.base_offset,
                end_offset,
                label: format!("{}d", now.saturating_sub(segment.largest_timestamp) / DAY_MS),
                gone: false,
            });
        Ok(shown.collect())
    }
}
