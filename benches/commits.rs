//! What grouping commits is worth. `cargo bench --bench commits [ROUNDS]` commits one after the other, each waiting for its own flush, then as many
//! at once as a thousand readers would, on the same disk in the same run, and prints both rates with their ratio.
//!
//! `TIDEMARK_BENCH_DIR` is where the store goes (default: where this is run).
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemark::engine::positions::Positions;
use tidemark::engine::store::Store;
use tidemark::telemetry::clock::SystemClock;
use tidemark::wire::groups::messages::{Client, CommitPartition, CommitRequest};
use tidemark::wire::groups::topics::Topic;
use tidemark::wire::groups::{GroupConfig, GroupService};
use uuid::Uuid;

const ALONE: usize = 200;
const READERS: usize = 1_000;
const EACH: usize = 20;

fn request(reader: usize, offset: usize) -> CommitRequest {
    CommitRequest {
        group_id: format!("group-{}", reader / 4),
        generation_or_epoch: -1,
        member_id: String::new(),
        instance_id: None,
        retention_time_ms: -1,
        client: Client {
            id: Arc::from("bench"),
            host: Arc::from("/127.0.0.1"),
            connection: reader as u64,
        },
        version: 8,
        topics: vec![(
            "orders".to_owned(),
            vec![CommitPartition {
                partition: i32::try_from(reader % 4).unwrap_or(0),
                offset: i64::try_from(offset).unwrap_or(0),
                leader_epoch: -1,
                metadata: None,
            }],
        )],
    }
}

async fn commit(positions: &Positions, reader: usize, offset: usize) {
    let results = positions.commit(request(reader, offset)).await;
    assert_eq!(results[0].1[0].1, None);
}

fn rate(commits: usize, took: Duration) -> f64 {
    commits as f64 / took.as_secs_f64()
}

async fn round(number: usize) -> anyhow::Result<()> {
    let parent = std::env::var_os("TIDEMARK_BENCH_DIR").unwrap_or_else(|| ".".into());
    let home = tempfile::tempdir_in(parent)?;
    let store = Store::open(&home.path().join("state.redb"))?;
    let topic = Topic {
        name: Arc::from("orders"),
        id: Uuid::from_u128(1),
        partitions: 4,
    };
    let positions = Positions::start(
        store.clone(),
        Arc::new(SystemClock::new()),
        GroupConfig::default(),
        Arc::default(),
        vec![topic],
    )?;

    let started = Instant::now();
    for offset in 0..ALONE {
        commit(&positions, 0, offset).await;
    }
    let alone = rate(ALONE, started.elapsed());

    let before = store.transactions();
    let started = Instant::now();
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let positions = positions.clone();
            tokio::spawn(async move {
                for offset in 0..EACH {
                    commit(&positions, reader, offset).await;
                }
            })
        })
        .collect();
    for reader in readers {
        reader.await?;
    }
    let together = rate(READERS * EACH, started.elapsed());
    let transactions = store.transactions() - before;
    positions.shutdown().await;
    store.close();
    println!(
        "round {number}: one at a time {alone:>8.0}/s   {READERS} readers at once {together:>8.0}/s   ratio {:>6.1}x   {:.0} commits a flush",
        together / alone,
        (READERS * EACH) as f64 / transactions as f64,
    );
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let rounds = std::env::args()
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(5);
    for number in 1..=rounds {
        round(number).await?;
    }
    Ok(())
}
