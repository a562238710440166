//! Consumer groups.
use super::{Bench, values};
use crate::adapter::{Cell, Outcome, ensure};
use crate::broker::Broker;
use crate::support::wait::{PATIENCE, attempt};
use kafka_protocol::messages::ListGroupsRequest;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tidemark::wire::client::Client;

fn join(bench: &mut Bench<'_>, id: &str, instance: Option<&str>, protocol: &str) -> Cell {
    let name = bench.name.clone();
    let command = json!({"do": "join", "id": id, "group": name, "topic": name, "instance": instance, "protocol": protocol});
    bench.client.ask(command).map(drop)
}

fn member(bench: &mut Bench<'_>, id: &str) -> Cell<Value> {
    bench.client.ask(json!({"do": "member", "id": id}))
}

fn leave(bench: &mut Bench<'_>, id: &str) -> Cell {
    bench.client.ask(json!({"do": "leave", "id": id})).map(drop)
}

fn partitions(state: &Value) -> BTreeSet<i64> {
    state["partitions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_i64)
        .collect()
}

/// Asks the members for their state until `accept` takes it.
fn wait(
    bench: &mut Bench<'_>,
    what: &str,
    ids: &[&str],
    accept: impl Fn(&[Value]) -> bool,
) -> Cell<Vec<Value>> {
    // An adapter that fails does not get better by being asked again.
    let looked = attempt(PATIENCE, || {
        let states = ids.iter().map(|id| member(bench, id)).collect::<Cell<Vec<_>>>();
        match states {
            Ok(states) if !accept(&states) => {
                Err(format!("waited for {what}; the members are at {states:?}"))
            }
            settled => Ok(settled),
        }
    });
    looked.unwrap_or_else(|reason| Err(Outcome::Failed(reason)))
}

/// The protocol that the group speaks, as the broker lists it: some clients fall back to the classic one without a word.
fn protocol_of(bench: &Bench<'_>) -> Cell<String> {
    let failed =
        |error: &dyn std::fmt::Display| Outcome::Failed(format!("the groups cannot be listed: {error}"));
    let runtime = tokio::runtime::Runtime::new().map_err(|error| failed(&error))?;
    let listed = runtime.block_on(async {
        let mut client = Client::connect(bench.broker.bootstrap(), "matrix").await?;
        client.call(5, &ListGroupsRequest::default()).await
    });
    let groups = listed.map_err(|error| failed(&error))?.groups;
    let own = groups.iter().find(|group| **group.group_id == *bench.name);
    own.map(|group| group.group_type.to_lowercase())
        .ok_or_else(|| Outcome::Failed(format!("the group {} is not listed", bench.name)))
}

/// True when the members share the four partitions without overlap, each with some.
fn shared(states: &[Value]) -> bool {
    let each: Vec<BTreeSet<i64>> = states.iter().map(partitions).collect();
    let all: BTreeSet<i64> = each.iter().flatten().copied().collect();
    all.len() == 4
        && each.iter().map(BTreeSet::len).sum::<usize>() == 4
        && each.iter().all(|own| !own.is_empty())
}

fn produce_to_all(bench: &mut Bench<'_>, label: &str, each: usize) -> Cell {
    let topic = bench.name.clone();
    (0..4).try_for_each(|partition| {
        bench
            .client
            .produce(&topic, partition, &values(label, each))
            .map(drop)
    })
}

fn count(states: &[Value]) -> i64 {
    states.iter().filter_map(|state| state["count"].as_i64()).sum()
}

/// One member has all partitions, two share them, the one that stays has all again; every record reaches a member.
pub fn rebalance(bench: &mut Bench<'_>, protocol: &str) -> Cell {
    let topic = bench.name.clone();
    bench.client.create(&topic, 4, &[])?;
    join(bench, "a", None, protocol)?;
    wait(bench, "the first member to have all", &["a"], shared)?;
    let spoken = protocol_of(bench)?;
    if spoken != protocol {
        leave(bench, "a")?;
        return Err(Outcome::Cannot(format!(
            "asked for the {protocol} group protocol, speaks the {spoken} one"
        )));
    }
    produce_to_all(bench, "alone", 25)?;
    wait(bench, "100 records", &["a"], |states| count(states) == 100)?;
    bench.client.ask(json!({"do": "commit", "id": "a"}))?;

    join(bench, "b", None, protocol)?;
    wait(bench, "two members to share", &["a", "b"], shared)?;
    produce_to_all(bench, "shared", 25)?;
    // A partition that moved may be read again from its last commit, never skipped.
    let states = wait(bench, "200 records", &["a", "b"], |states| count(states) >= 200)?;
    ensure(count(&states) == 200, || {
        format!("all was committed before the move, yet records came twice: {states:?}")
    })?;
    for id in ["a", "b"] {
        bench.client.ask(json!({"do": "commit", "id": id}))?;
    }
    leave(bench, "a")?;
    wait(bench, "the member that stayed to have all", &["b"], shared)?;
    produce_to_all(bench, "left", 25)?;
    let own = states[1]["count"].as_i64().unwrap_or_default();
    wait(bench, "another 100 records", &["b"], |states| {
        count(states) == own + 100
    })?;
    leave(bench, "b")
}

/// A static member that goes and comes back within its session keeps its partitions, and the other member keeps its own.
pub fn static_member(bench: &mut Bench<'_>) -> Cell {
    let topic = bench.name.clone();
    bench.client.create(&topic, 4, &[])?;
    join(bench, "a", Some("first"), "classic")?;
    join(bench, "b", Some("second"), "classic")?;
    let own = |states: &[Value]| states.iter().map(partitions).collect::<Vec<_>>();
    let rebalances = |state: &Value| state["rebalances"].as_i64();
    // A leader that learns of the topic's partitions only after it has joined joins once more, and that moves everybody: it is the
    // client's doing, and a return after it shows what the broker does.
    for last in [false, false, false, true] {
        let before = wait(bench, "two static members to share", &["a", "b"], shared)?;
        let other = member(bench, "b")?;
        leave(bench, "a")?;
        join(bench, "a", Some("first"), "classic")?;
        let after = wait(bench, "the static member to be back", &["a", "b"], shared)?;
        if own(&before) == own(&after) && rebalances(&other) == rebalances(&after[1]) {
            break;
        }
        ensure(!last, || {
            format!("the member that stayed was rebalanced: {before:?}, {other} to {after:?}")
        })?;
    }
    leave(bench, "a")?;
    leave(bench, "b")
}

/// What was committed is where a member of the same group goes on, after the broker was restarted.
pub fn resume(bench: &mut Bench<'_>, restart: fn(&mut Broker)) -> Cell {
    let topic = bench.name.clone();
    bench.client.create(&topic, 4, &[])?;
    produce_to_all(bench, "before", 10)?;
    join(bench, "a", None, "classic")?;
    wait(bench, "40 records", &["a"], |states| count(states) == 40)?;
    bench.client.ask(json!({"do": "commit", "id": "a"}))?;
    leave(bench, "a")?;

    restart(bench.broker);

    let committed = bench
        .client
        .ask(json!({"do": "committed", "group": topic, "topic": topic, "partition": 2}))?;
    ensure(committed["offset"] == 10, || {
        format!("committed is {committed} for 10")
    })?;
    produce_to_all(bench, "after", 5)?;
    join(bench, "again", None, "classic")?;
    let states = wait(bench, "20 records", &["again"], |states| count(states) == 20)?;
    let first = &states[0]["first"];
    ensure((0..4).all(|p| first[p.to_string()] == 10), || {
        format!("went on at {first} for 10 everywhere")
    })?;
    leave(bench, "again")
}
