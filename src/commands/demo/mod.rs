//! `tidemark demo`: the whole story in under a minute, with real bytes through the real protocol.
//!
//! Every step is checked; where one does not do what it says the demonstration ends with an error.
use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use clap::Args;

use self::stage::Stage;
use super::Outcome;
use super::output::{self, BAD, GOOD, painted, show};
use super::shared::{StopSignals, runtime};
use crate::resource::status::TopicStatus;

pub mod picture;
mod stage;

/// Shows a lowering of retention being refused, and going in by itself when the reader has caught up.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  tidemark demo\n\nIt works on a temporary directory and free ports, and leaves nothing."
)]
pub struct Demo {}

impl Demo {
    /// Plays the story on standard output.
    ///
    /// # Errors
    /// When a step does not do what it says.
    pub fn run(self) -> anyhow::Result<Outcome> {
        runtime()?.block_on(async {
            let mut stop = StopSignals::watch()?;
            let place = std::env::temp_dir().join(format!("tidemark-demo-{}", uuid::Uuid::new_v4()));
            std::fs::create_dir(&place).with_context(|| format!("make {}", place.display()))?;
            let played = on_stage(&place, &mut stop).await;
            let removed =
                std::fs::remove_dir_all(&place).with_context(|| format!("remove {}", place.display()));
            played.and(removed)
        })?;
        Ok(Outcome::Done)
    }
}

async fn on_stage(place: &Path, stop: &mut StopSignals) -> anyhow::Result<()> {
    let mut stage = Stage::build(place).await?;
    let told = tokio::select! {
        told = play(&mut stage) => told,
        () = stop.come() => Err(anyhow!("interrupted before the end; nothing is left behind")),
    };
    let cleared = stage.clear().await;
    told.and(cleared)
}

async fn play(stage: &mut Stage) -> anyhow::Result<()> {
    refused_until_read(stage).await?;
    clamped(stage).await
}

async fn refused_until_read(stage: &mut Stage) -> anyhow::Result<()> {
    step("orders keeps 30 days. Ten days of records, a hundred a day, are in it: a segment a day, by age.")?;
    stage.declare("orders", "30d", "", "Applied").await?;
    stage.produce_ten_days("orders").await?;
    stage.read_and_commit("billing", "orders", 0, 250).await?;
    let picture = stage
        .picture("orders", &[(250, "billing has read up to here")])
        .await?;
    draw(&picture)?;

    step(
        "In Git, somebody lowers retention.ms from 30d to 5d. Six segments would go; billing is still reading the third.",
    )?;
    let status = stage.declare("orders", "5d", "", "SlowReader").await?;
    tell(&status)?;
    let would_be = would_be_start(&status)?;
    ensure!(would_be == 600, "the log would start at {would_be}, not at 600");
    let picture = stage
        .picture(
            "orders",
            &[(250, "billing"), (would_be, "the log would start here")],
        )
        .await?;
    draw(&picture)?;

    let deleted = stage.pass().await?;
    ensure!(
        deleted == 0,
        "{deleted} segments were deleted although the change was refused"
    );
    ensure!(
        in_force(stage, "orders").await? == "2592000000",
        "30d is not in force any more"
    );
    step("A retention pass runs. Nothing is deleted, and 30d is still in force.")?;

    step(
        "billing reads on and commits 600. The change goes in by itself, without an edit; the next pass deletes.",
    )?;
    stage.read_and_commit("billing", "orders", 250, 600).await?;
    let status = stage.status("orders", "Applied").await?;
    tell(&status)?;
    let deleted = stage.pass().await?;
    ensure!(deleted == 6, "{deleted} segments were deleted, not 6");
    ensure!(
        stage.log_start("orders").await? == 600,
        "the log does not start at 600"
    );
    let picture = stage
        .picture("orders", &[(600, "billing, and the log start")])
        .await?;
    draw(&picture)?;
    Ok(())
}

async fn clamped(stage: &mut Stage) -> anyhow::Result<()> {
    step(
        "clicks is the same, but declares `readers: {onLoss: Clamp}`: as much of a change as loses nothing goes in at once.",
    )?;
    stage.declare("clicks", "30d", "onLoss: Clamp", "Applied").await?;
    stage.produce_ten_days("clicks").await?;
    stage.read_and_commit("reports", "clicks", 0, 250).await?;
    stage.picture("clicks", &[]).await?;
    let status = stage.declare("clicks", "5d", "onLoss: Clamp", "Clamped").await?;
    tell(&status)?;
    let deleted = stage.pass().await?;
    ensure!(deleted == 2, "{deleted} segments were deleted, not 2");
    let picture = stage
        .picture("clicks", &[(250, "reports has read up to here")])
        .await?;
    draw(&picture)?;

    step("reports reads on and commits 600: the limit steps down to what was declared.")?;
    stage.read_and_commit("reports", "clicks", 250, 600).await?;
    stage.status("clicks", "Applied").await?;
    ensure!(
        in_force(stage, "clicks").await? == "432000000",
        "5d is not in force"
    );
    let deleted = stage.pass().await?;
    ensure!(deleted == 4, "{deleted} segments were deleted, not 4");
    let picture = stage
        .picture("clicks", &[(600, "reports, and the log start")])
        .await?;
    draw(&picture)?;
    show("No reader lost a record.\n")?;
    Ok(())
}

/// The value of `retention.ms` in force.
async fn in_force(stage: &Stage, topic: &str) -> anyhow::Result<String> {
    let observed = stage.observe(topic).await?;
    let value = observed
        .in_force
        .config
        .get("retention.ms")
        .context("no retention.ms is in force")?;
    Ok(value.value.clone())
}

fn would_be_start(status: &TopicStatus) -> anyhow::Result<i64> {
    let plan = status.plan.as_ref().context("the status holds no plan")?;
    let partition = plan.partitions.first().context("the plan names no partition")?;
    Ok(partition.would_be_start)
}

/// What the status says about the change.
fn tell(status: &TopicStatus) -> anyhow::Result<()> {
    let condition = status
        .condition("RetentionApplied")
        .context("the status says nothing about retention")?;
    let style = if condition.status == "True" { GOOD } else { BAD };
    let sentence = format!(
        "{} {}",
        painted(style, &format!("{}:", condition.reason)),
        condition.message
    );
    show(&(output::wrapped("    ", &sentence, picture::columns()) + "\n\n"))?;
    Ok(())
}

/// What happens next.
fn step(text: &str) -> anyhow::Result<()> {
    show(&(output::wrapped("* ", text, picture::columns()) + "\n\n"))?;
    Ok(())
}

fn draw(picture: &str) -> anyhow::Result<()> {
    show(&format!("{picture}\n"))?;
    Ok(())
}
