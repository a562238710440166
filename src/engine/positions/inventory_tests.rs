use super::super::fetchers;
use super::super::tests::{Node, ORDERS, client};
use super::*;
use crate::wire::groups::GroupService;
use crate::wire::groups::messages::{Client, FetchPosition, LeavingMember};

fn fetch(node: &Node, client: &Client, partition: i32, offset: i64) {
    let position = FetchPosition {
        topic_id: ORDERS,
        partition,
        offset,
    };
    node.positions.fetched(client, &[position]);
}

/// Fetchers with the known positions of partition 0 and 1.
fn alone(node: &Node) -> Vec<(String, Known, Known)> {
    let readers = node.positions.readers("orders", ORDERS, 4);
    readers
        .iter()
        .filter(|reader| reader.kind == ReaderKind::Fetcher)
        .map(|reader| {
            (
                reader.name.to_string(),
                reader.position(0).known,
                reader.position(1).known,
            )
        })
        .collect()
}

#[tokio::test]
async fn a_consumer_without_a_group_is_a_reader() {
    let node = Node::new();
    fetch(&node, &client("spark", 7), 0, 250);
    let expected = ("spark@192.0.2.1".to_owned(), Known::At(250), Known::Absent);
    assert_eq!(alone(&node), [expected]);
}

#[tokio::test]
async fn fetches_of_a_member_belong_to_its_group() {
    let node = Node::new();
    let (member_id, _) = node.member("g", client("app", 1)).await;
    // A group's fetches come over another connection than its heartbeats.
    fetch(&node, &client("app", 2), 0, 250);
    assert_eq!(alone(&node), []);
    // Somebody else at that address under the same name is one too many: the lower position is the one to guard.
    fetch(&node, &client("app", 3), 0, 90);
    let expected = ("app@192.0.2.1".to_owned(), Known::At(90), Known::Absent);
    assert_eq!(alone(&node), [expected]);
    node.positions.disconnected(&client("app", 3));
    fetch(&node, &client("app", 2), 0, 260);
    assert_eq!(alone(&node), []);
    // After it left, what it fetched last does not make it a reader of its own.
    let leaving = LeavingMember {
        member_id,
        instance_id: None,
        reason: None,
    };
    let left = node.positions.leave("g", vec![leaving]).await;
    assert_eq!(left, Ok(vec![None]));
    assert_eq!(alone(&node), []);
}

#[tokio::test]
async fn fetches_of_somebody_who_commits_belong_to_the_group() {
    let node = Node::new();
    fetch(&node, &client("committer", 2), 0, 250);
    assert_eq!(alone(&node).len(), 1);
    assert_eq!(node.commit("g", 0, 200).await, None);
    assert_eq!(alone(&node), []);
    assert_eq!(node.known("g", 0), Known::At(200));
}

#[tokio::test]
async fn a_group_that_subscribes_counts_wherever_nothing_is_committed() {
    let node = Node::new();
    let (member_id, _) = node.member("g", client("app", 1)).await;
    // Nobody has been given this one; it may be new.
    assert_eq!(node.known("g", 2), Known::Assigned);
    // A second member makes the group rebalance.
    let waiting = tokio::spawn({
        let positions = node.positions.clone();
        async move {
            let node = positions;
            let request = crate::wire::groups::messages::JoinRequest {
                group_id: "g".to_owned(),
                member_id: String::new(),
                instance_id: None,
                client: client("app", 5),
                session_timeout_ms: 45_000,
                rebalance_timeout_ms: 60_000,
                protocol_type: "consumer".to_owned(),
                protocols: vec![crate::wire::groups::messages::OfferedProtocol {
                    name: "range".to_owned(),
                    metadata: bytes::Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
                }],
                reason: None,
                requires_known_member_id: false,
                supports_skip_assignment: false,
            };
            node.join(request).await
        }
    });
    while node.positions.describe("g").unwrap().state == "Stable" {
        tokio::task::yield_now().await;
    }
    assert_eq!(node.known("g", 2), Known::Assigned);
    assert_eq!(node.known("g", 0), Known::Assigned);
    let leaving = LeavingMember {
        member_id,
        instance_id: None,
        reason: None,
    };
    assert!(node.positions.leave("g", vec![leaving]).await.is_ok());
    waiting.abort();
}

#[tokio::test]
async fn a_consumer_without_a_group_counts_for_ten_minutes_after_a_restart() {
    let at = |offset| [("app@192.0.2.1".to_owned(), Known::At(offset), Known::Absent)];
    let node = Node::new();
    fetch(&node, &client("app", 7), 0, 250);
    let node = node.restart().await;
    assert_eq!(alone(&node), at(250));
    // A member of a group that looks like it does not hide it.
    node.member("g", client("app", 1)).await;
    fetch(&node, &client("app", 2), 0, 300);
    assert_eq!(alone(&node), at(250));
    // It is back.
    fetch(&node, &client("app", 3), 0, 260);
    assert_eq!(alone(&node), at(260));
    node.clock.advance_ms(fetchers::REMEMBERED_MS);
    node.positions.run_due();
    assert_eq!(alone(&node), []);
    let node = node.restart().await;
    assert_eq!(alone(&node), []);
}

#[tokio::test]
async fn too_many_consumers_without_a_group_are_too_many_after_a_restart() {
    let node = Node::new();
    node.positions
        .shared
        .fetchers
        .not_remembered(node.positions.shared.now());
    let node = node.restart().await;
    assert_eq!(alone(&node)[0].1, Known::Assigned);
}
