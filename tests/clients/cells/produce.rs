//! Writing: every codec, every acks, idempotence, the size limit.
use super::{Bench, expected, same, values};
use crate::adapter::{Cell, Outcome, ensure};
use serde_json::json;

fn produce(bench: &mut Bench<'_>, codec: &str, acks: &str, idempotent: bool) -> Cell {
    let topic = bench.name.clone();
    bench.client.create(&topic, 1, &[])?;
    let (one, two) = (values("one", 300), values("two", 7));
    for (first, values) in [(0, &one), (300, &two)] {
        let reply = bench.client.ask(
            json!({"do": "produce", "topic": topic, "partition": 0, "values": values,
            "codec": codec, "acks": acks, "idempotent": idempotent}),
        )?;
        let told = reply["first"].as_i64().unwrap_or(-1);
        ensure(told == first || told == -1, || {
            format!("the first offset is {told} for {first}")
        })?;
    }
    let found = bench.client.read(&topic, 0, json!("beginning"), 307)?;
    same(&found, &expected(0, &[one, two].concat()))
}

pub fn codec(bench: &mut Bench<'_>, codec: &str) -> Cell {
    produce(bench, codec, "all", false)
}

pub fn acks(bench: &mut Bench<'_>, acks: &str) -> Cell {
    produce(bench, "none", acks, false)
}

pub fn idempotent(bench: &mut Bench<'_>) -> Cell {
    produce(bench, "none", "all", true)
}

/// A record over the topic's `max.message.bytes` is refused by the broker, and nothing of it is kept.
pub fn too_large(bench: &mut Bench<'_>) -> Cell {
    let topic = bench.name.clone();
    bench.client.create(&topic, 1, &[("max.message.bytes", "2000")])?;
    match bench.client.produce(&topic, 0, &["y".repeat(5000)]) {
        Err(Outcome::Failed(_)) => {}
        other => {
            return ensure(false, || {
                format!("5,000 bytes were taken where 2,000 are the limit: {other:?}")
            });
        }
    }
    let small = values("small", 3);
    let first = bench.client.produce(&topic, 0, &small)?;
    ensure(first <= 0, || format!("the first kept record has offset {first}"))?;
    same(
        &bench.client.read(&topic, 0, json!("beginning"), 3)?,
        &expected(0, &small),
    )
}
