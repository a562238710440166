use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use tempfile::TempDir;

use super::*;
use crate::engine::readers::{ReaderInventory, ReaderListener};
use crate::retention::Known;
use crate::telemetry::clock::ManualClock;
use crate::wire::error_code::ErrorCode;
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::*;

pub(super) const ORDERS: Uuid = Uuid::from_u128(1);
const START_MS: i64 = 1_767_225_600_000;

pub(super) struct Node {
    pub positions: Positions,
    pub clock: Arc<ManualClock>,
    pub directory: TempDir,
    pub store: Store,
}

impl Node {
    pub fn new() -> Self {
        Self::on(tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(START_MS)))
    }

    fn on(directory: TempDir, clock: Arc<ManualClock>) -> Self {
        Self::with(directory, clock, Arc::default())
    }

    fn with(directory: TempDir, clock: Arc<ManualClock>, gate: Arc<Gate>) -> Self {
        let store = Store::open(&directory.path().join("state.redb")).unwrap();
        let topic = Topic {
            name: "orders".into(),
            id: ORDERS,
            partitions: 4,
        };
        let positions = Positions::start(
            store.clone(),
            clock.clone(),
            GroupConfig::default(),
            gate,
            vec![topic],
        )
        .unwrap();
        Self {
            positions,
            clock,
            directory,
            store,
        }
    }

    pub async fn restart(self) -> Self {
        self.positions.shutdown().await;
        self.store.close();
        Self::on(self.directory, self.clock)
    }

    pub async fn commit(&self, group: &str, partition: i32, offset: i64) -> Option<ErrorCode> {
        let request = commit(group, partition, offset);
        self.positions.commit(request).await[0].1[0].1
    }

    pub fn committed(&self, group: &str, partition: i32) -> Option<i64> {
        let reply = self.positions.fetch_offsets(FetchOffsetsRequest {
            group_id: group.to_owned(),
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![("orders".to_owned(), vec![partition])]),
        });
        reply.unwrap()[0].1[0].1.as_ref().map(|fetched| fetched.offset)
    }

    pub fn known(&self, group: &str, partition: i32) -> Known {
        let readers = self.positions.readers("orders", ORDERS, 4);
        let reader = readers.iter().find(|reader| *reader.name == *group).unwrap();
        reader.position(partition).known
    }

    /// A member of state Stable that owns partition 0.
    pub async fn member(&self, group: &str, client: Client) -> (String, i32) {
        let mut request = join(group);
        request.client = client;
        let mut joining = pin!(self.positions.join(request));
        assert!(poll(joining.as_mut()).is_pending());
        self.clock.advance_ms(3_000);
        self.positions.run_due();
        self.clock.advance_ms(3_000);
        self.positions.run_due();
        let joined = joining.await;
        assert_eq!(joined.error, None);
        let synced = self
            .positions
            .sync(SyncRequest {
                group_id: group.to_owned(),
                generation_id: joined.generation_id,
                member_id: joined.member_id.clone(),
                instance_id: None,
                protocol_type: None,
                protocol_name: None,
                assignments: vec![(joined.member_id.clone(), owns_partition_0())],
            })
            .await;
        assert_eq!(synced.error, None);
        (joined.member_id, joined.generation_id)
    }
}

pub(super) fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

pub(super) fn client(name: &str, connection: u64) -> Client {
    Client {
        id: name.into(),
        host: "/192.0.2.1".into(),
        connection,
    }
}

fn commit(group: &str, partition: i32, offset: i64) -> CommitRequest {
    CommitRequest {
        group_id: group.to_owned(),
        generation_or_epoch: -1,
        member_id: String::new(),
        instance_id: None,
        retention_time_ms: -1,
        client: client("committer", 1),
        version: 8,
        topics: vec![(
            "orders".to_owned(),
            vec![CommitPartition {
                partition,
                offset,
                leader_epoch: -1,
                metadata: None,
            }],
        )],
    }
}

fn join(group: &str) -> JoinRequest {
    let subscription = [&[0, 0, 0, 0, 0, 1, 0, 6][..], b"orders", &[0xff; 4]].concat();
    JoinRequest {
        group_id: group.to_owned(),
        member_id: String::new(),
        instance_id: None,
        client: client("member", 1),
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![OfferedProtocol {
            name: "range".to_owned(),
            metadata: Bytes::from(subscription),
        }],
        reason: None,
        requires_known_member_id: false,
        supports_skip_assignment: true,
    }
}

fn owns_partition_0() -> Bytes {
    let parts = [
        &[0, 0, 0, 0, 0, 1, 0, 6][..],
        b"orders",
        &[0, 0, 0, 1, 0, 0, 0, 0],
        &[0xff; 4],
    ];
    Bytes::from(parts.concat())
}

/// Writes down what it is told.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl ReaderListener for Ear {
    fn moved(&self, topic: &str, kind: ReaderKind, reader: &str, partition: i32, position: i64) {
        self.0
            .lock()
            .push(format!("{kind:?} {reader} at {position} of {topic}-{partition}"));
    }

    fn changed(&self, topic: &str, kind: ReaderKind, reader: &str) {
        self.0
            .lock()
            .push(format!("{kind:?} {reader} changed on {topic}"));
    }
}

#[tokio::test]
async fn commits_survive_a_restart() {
    let node = Node::new();
    assert_eq!(node.commit("g", 0, 7).await, None);
    assert_eq!(node.commit("g", 0, 9).await, None);
    assert_eq!(node.commit("", 3, 1).await, None);
    let node = node.restart().await;
    assert_eq!(node.committed("g", 0), Some(9));
    assert_eq!(node.committed("", 3), Some(1));
    assert_eq!(node.committed("g", 1), None);
    let results = node.positions.delete_groups(vec!["g".to_owned()]).await;
    assert_eq!(results, [None]);
    let node = node.restart().await;
    assert_eq!(node.committed("g", 0), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commits_at_once_are_kept_in_their_order() {
    let node = Arc::new(Node::new());
    let tasks: Vec<_> = (0..16)
        .map(|group| {
            let node = node.clone();
            tokio::spawn(async move {
                let group = format!("group-{group}");
                for offset in 0..50 {
                    for partition in 0..4 {
                        assert_eq!(node.commit(&group, partition, offset).await, None);
                        assert_eq!(node.committed(&group, partition), Some(offset));
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // Commits of one partition that overlap: memory and disk agree on the last.
    let overlapping: Vec<_> = (0..200)
        .map(|offset| {
            let node = node.clone();
            tokio::spawn(async move { node.commit("shared", 0, offset).await })
        })
        .collect();
    for task in overlapping {
        assert_eq!(task.await.unwrap(), None);
    }
    let seen = node.committed("shared", 0);
    let node = Arc::into_inner(node).unwrap().restart().await;
    assert_eq!(node.committed("shared", 0), seen);
    for group in 0..16 {
        assert_eq!(node.committed(&format!("group-{group}"), 2), Some(49));
    }
}

#[tokio::test]
async fn a_member_goes_on_after_a_restart() {
    let node = Node::new();
    let (member_id, generation_id) = node.member("g", client("member", 1)).await;
    let beat = HeartbeatRequest {
        group_id: "g".to_owned(),
        generation_id,
        member_id: member_id.clone(),
        instance_id: None,
    };
    assert_eq!(node.positions.heartbeat(beat.clone()), Ok(()));
    assert_eq!(node.known("g", 0), Known::Assigned);
    let node = node.restart().await;
    assert_eq!(node.positions.heartbeat(beat.clone()), Ok(()));
    assert_eq!(node.known("g", 0), Known::Assigned);
    let mut request = commit("g", 0, 5);
    request.generation_or_epoch = generation_id;
    request.member_id = member_id;
    assert_eq!(node.positions.commit(request).await[0].1[0].1, None);
    assert_eq!(node.known("g", 0), Known::At(5));
    node.clock.advance_ms(45_000);
    node.positions.run_due();
    assert_eq!(node.positions.heartbeat(beat), Err(ErrorCode::UnknownMemberId));
    assert_eq!(node.positions.describe("g").unwrap().state, "Empty");
}

/// Many who commit at once share the flush: on a disk that takes ten milliseconds for one, a thousand commits do not take ten seconds.
#[tokio::test]
async fn a_thousand_commits_at_once_take_a_few_transactions() {
    let node = Node::new();
    assert_eq!(node.commit("before", 0, 1).await, None);
    let before = node.store.transactions();
    let commits = (0..1_000).map(|number| {
        let node = &node;
        async move { node.commit(&format!("group-{}", number / 4), number % 4, 7).await }
    });
    let mut commits = Box::pin(futures::future::join_all(commits));
    let held = node.store.hold();
    assert!(poll(commits.as_mut()).is_pending());
    drop(held);
    let results = commits.as_mut().await;
    drop(commits);
    assert!(results.iter().all(Option::is_none));
    // Whatever was asked for while one transaction is under way goes into the next.
    let taken = node.store.transactions() - before;
    assert!((1..=3).contains(&taken), "{taken} transactions");
    let node = node.restart().await;
    assert!((0..250).all(|group| node.committed(&format!("group-{group}"), 3) == Some(7)));
}

#[tokio::test]
async fn one_after_the_other_each_takes_its_own() {
    let node = Node::new();
    let before = node.store.transactions();
    for offset in 0..20 {
        assert_eq!(node.commit("g", 0, offset).await, None);
    }
    assert_eq!(node.store.transactions() - before, 20);
}

#[tokio::test]
async fn the_timer_wakes_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("state.redb")).unwrap();
    let config = GroupConfig {
        initial_rebalance_delay_ms: 20,
        ..GroupConfig::default()
    };
    let clock = Arc::new(crate::telemetry::clock::SystemClock::new());
    let positions = Positions::start(store, clock, config, Arc::default(), Vec::new()).unwrap();
    let joined = tokio::time::timeout(Duration::from_secs(240), positions.join(join("g"))).await;
    assert_eq!(joined.unwrap().error, None);
}

#[tokio::test]
async fn a_commit_that_cannot_be_kept_is_refused_and_not_seen() {
    let node = Node::new();
    assert_eq!(node.commit("g", 0, 7).await, None);
    node.store.close();
    assert_eq!(
        node.commit("g", 0, 8).await,
        Some(ErrorCode::CoordinatorNotAvailable)
    );
    assert_eq!(node.committed("g", 0), Some(7));
    let results = node.positions.delete_groups(vec!["g".to_owned()]).await;
    assert_eq!(results, [Some(ErrorCode::CoordinatorNotAvailable)]);
    // Groups go on all the same: who is lost in a crash joins again.
    let (member_id, generation_id) = node.member("live", client("member", 1)).await;
    let beat = HeartbeatRequest {
        group_id: "live".to_owned(),
        generation_id,
        member_id,
        instance_id: None,
    };
    assert_eq!(node.positions.heartbeat(beat), Ok(()));
}

#[tokio::test]
async fn after_a_stop_everything_is_refused_and_nobody_waits() {
    let node = Node::new();
    let mut joining = pin!(node.positions.join(join("g")));
    assert!(poll(joining.as_mut()).is_pending());
    node.positions.shutdown().await;
    assert_eq!(joining.await.error, Some(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(
        node.commit("other", 0, 8).await,
        Some(ErrorCode::CoordinatorNotAvailable)
    );
}

#[tokio::test]
async fn a_stop_sends_away_who_waits_and_still_keeps_commits() {
    let node = Node::new();
    let mut joining = pin!(node.positions.join(join("g")));
    assert!(poll(joining.as_mut()).is_pending());
    node.positions.drain();
    assert_eq!(joining.await.error, Some(ErrorCode::CoordinatorNotAvailable));
    let late = node.positions.join(join("g")).await;
    assert_eq!(late.error, Some(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(node.commit("other", 0, 8).await, None);
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_nothing_waiting() {
    let node = Node::new();
    {
        let mut joining = pin!(node.positions.join(join("g")));
        assert!(poll(joining.as_mut()).is_pending());
        assert_eq!(node.positions.shared.waiting.lock().len(), 1);
    }
    assert_eq!(node.positions.shared.waiting.lock().len(), 0);
}

#[tokio::test]
async fn the_guard_is_told_what_moves_and_what_changes() {
    let node = Node::new();
    let ear = Arc::new(Ear::default());
    node.positions.listen(ear.clone());
    let heard = || std::mem::take(&mut *ear.0.lock());
    assert_eq!(node.commit("g", 0, 7).await, None);
    assert_eq!(heard(), ["Group g at 7 of orders-0"]);
    node.member("live", client("member", 1)).await;
    assert!(heard().contains(&"Group live changed on orders".to_owned()));
    let position = FetchPosition {
        topic_id: ORDERS,
        partition: 2,
        offset: 40,
    };
    node.positions.fetched(&client("kcat", 5), &[position]);
    assert_eq!(heard(), ["Fetcher kcat@192.0.2.1 at 40 of orders-2"]);
    node.positions.fetched(&client("kcat", 5), &[position]);
    assert_eq!(heard(), [""; 0]);
    node.clock.advance_ms(fetchers::REMEMBERED_MS);
    node.positions.run_due();
    assert!(heard().contains(&"Fetcher kcat@192.0.2.1 changed on orders".to_owned()));
    assert!(node.positions.remove_topic("orders").wait().await);
    assert!(heard().contains(&"Group g changed on orders".to_owned()));
}

#[tokio::test]
async fn a_position_on_an_earlier_topic_of_the_name_is_known_as_such() {
    let node = Node::new();
    assert_eq!(node.commit("g", 0, 10).await, None);
    let again = Uuid::from_u128(2);
    let known = |node: &Node| node.positions.readers("orders", again, 4)[0].position(0).known;
    // As after a crash between the deletion of the topic and that of its commits.
    assert_eq!(known(&node), Known::EarlierTopic(10));
    assert!(node.positions.remove_topic("orders").wait().await);
    node.positions.set_topic("orders", again, 4);
    assert_eq!(known(&node), Known::EarlierTopic(10));
    assert_eq!(node.committed("g", 0), None);
    assert_eq!(node.commit("g", 0, 2).await, None);
    assert_eq!(known(&node), Known::At(2));
}

#[tokio::test]
async fn an_expired_position_is_known_as_such() {
    let node = Node::new();
    assert_eq!(node.commit("batch", 0, 300).await, None);
    node.clock.advance_ms(7 * 86_400_000);
    node.positions.expire(&Default::default());
    let node = node.restart().await;
    assert_eq!(node.known("batch", 0), Known::Expired(Some(300)));
    assert_eq!(node.committed("batch", 0), None);
    let readers = node.positions.readers("orders", ORDERS, 4);
    assert_eq!(readers[0].position(0).updated_ms, START_MS);
}

#[tokio::test]
async fn a_commit_waits_while_settings_change() {
    let node = Node::new();
    let gate = node.positions.shared.gate.clone();
    let mut commit = pin!(node.commit("g", 0, 7));
    {
        let _change = gate.change();
        assert!(poll(commit.as_mut()).is_pending());
        assert_eq!(node.known_groups(), 0);
    }
    assert_eq!(commit.await, None);
    assert_eq!(node.known_groups(), 1);
}

impl Node {
    fn known_groups(&self) -> usize {
        self.positions.readers("orders", ORDERS, 4).len()
    }
}

/// A change of settings holds the gate for as long as the disk takes. The one thread there is here goes on meanwhile.
#[tokio::test]
async fn a_commit_that_waits_for_a_change_holds_up_nobody_else() {
    let gate = Arc::new(Gate::default());
    let clock = Arc::new(ManualClock::at(START_MS));
    let node = Node::with(tempfile::tempdir().unwrap(), clock, Arc::clone(&gate));
    let (begun, begins) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let change = std::thread::spawn(move || {
        let _change = gate.change();
        begun.send(()).unwrap();
        // Told to end, and not left to give up.
        ends.recv_timeout(Duration::from_secs(20)).is_ok()
    });
    begins.recv().unwrap();
    let commit = node.commit("g", 0, 7);
    let meanwhile = async {
        while node.store.transactions() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Durable, and about to take effect.
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let seen = node.committed("g", 0);
        let _ = end.send(());
        seen
    };
    let (refused, seen) = tokio::join!(commit, meanwhile);
    assert!(change.join().unwrap(), "the runtime stood still");
    assert_eq!((refused, seen), (None, None));
    assert_eq!(node.committed("g", 0), Some(7));
}
