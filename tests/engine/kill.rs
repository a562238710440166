//! kill -9 of the whole engine while groups commit: nothing acknowledged is lost.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use parking_lot::Mutex;
use tidemark::wire::client::Client;

use crate::members::{committed, topic_name};
use crate::scene::eventually;
use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;

const ROUNDS: usize = 100;
const GROUPS: usize = 8;
const PARTITIONS: i32 = 4;

/// Group and partition -> (last acknowledged, last asked for).
type Commits = BTreeMap<(usize, i32), (i64, i64)>;

async fn connect(address: SocketAddr) -> Option<Client> {
    Client::connect(address, "committer").await.ok()
}

/// Commits ever higher offsets until the connection breaks or `stop` is set.
async fn commit_on(
    address: SocketAddr,
    group: usize,
    commits: Arc<Mutex<Commits>>,
    answered: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
) {
    let Some(mut kafka) = connect(address).await else {
        return;
    };
    let name = format!("group-{group}");
    while !stop.load(Ordering::Relaxed) {
        for partition in 0..PARTITIONS {
            let offset = {
                let mut commits = commits.lock();
                let entry = commits.entry((group, partition)).or_insert((-1, -1));
                entry.1 += 1;
                entry.1
            };
            if kafka.commit(&name, "t", partition, offset).await.is_err() {
                return;
            }
            if let Some(entry) = commits.lock().get_mut(&(group, partition)) {
                entry.0 = offset;
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_commit_is_lost_over_a_hundred_kills() {
    let home = TempDir::new("kill");
    let mut engine = Tidemark::engine(home.path(), &[]);
    let address: SocketAddr = engine.bootstrap().parse().unwrap();
    let topic = CreatableTopic::default()
        .with_name(topic_name("t"))
        .with_num_partitions(PARTITIONS)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    let reply = connect(address).await.unwrap().call(5, &request).await.unwrap();
    assert_eq!(reply.topics[0].error_code, 0);
    let commits: Arc<Mutex<Commits>> = Arc::default();
    let answered: Arc<AtomicUsize> = Arc::default();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..GROUPS)
            .map(|group| {
                let (commits, answered) = (commits.clone(), answered.clone());
                tokio::spawn(commit_on(address, group, commits, answered, stop.clone()))
            })
            .collect();
        // Different moments of the same work: after so many more answers, whatever they take.
        let before = answered.load(Ordering::Relaxed);
        eventually("answers", async || {
            let more = answered.load(Ordering::Relaxed) - before;
            if more >= (round * 7) % 40 {
                Ok(())
            } else {
                Err(more)
            }
        })
        .await;
        engine.kill();
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.unwrap();
        }
        engine.start_again();
        let mut kafka = connect(address).await.unwrap();
        let mut now = commits.lock().clone();
        for ((group, partition), (acked, asked)) in &mut now {
            let name = format!("group-{group}");
            let (kept, _, _) = committed(&mut kafka, &name, "t", *partition).await;
            assert!(
                (*acked..=*asked).contains(&kept),
                "round {round}, {name}, partition {partition}: {acked} was acknowledged, {asked} asked for, {kept} kept"
            );
            // What is kept now is what must be there from here on.
            (*acked, *asked) = (kept, kept);
        }
        acknowledged = now.values().map(|(acked, _)| acked + 1).sum();
        *commits.lock() = now;
    }
    assert!(
        acknowledged > 200,
        "{acknowledged} commits are too few to say anything"
    );
}
