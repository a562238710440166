//! Topics and their settings.
use super::{Bench, values};
use crate::adapter::{Cell, Outcome, ensure};
use serde_json::json;

pub fn create(bench: &mut Bench<'_>) -> Cell {
    let topic = bench.name.clone();
    bench.client.create(&topic, 5, &[("retention.ms", "3600000")])?;
    let reply = bench.client.ask(json!({"do": "partitions", "topic": topic}))?;
    ensure(reply["count"] == 5, || format!("{reply} for 5 partitions"))?;
    let again = bench.client.create(&topic, 5, &[]);
    ensure(matches!(again, Err(Outcome::Failed(_))), || {
        format!("a second topic of the same name: {again:?}")
    })?;
    bench.client.produce(&topic, 4, &values("last", 1)).map(drop)
}

fn described(bench: &mut Bench<'_>, key: &str) -> Cell<String> {
    let topic = bench.name.clone();
    let reply = bench
        .client
        .ask(json!({"do": "describe", "topic": topic, "key": key}))?;
    Ok(reply["value"].as_str().unwrap_or_default().to_owned())
}

pub fn describe(bench: &mut Bench<'_>) -> Cell {
    let topic = bench.name.clone();
    bench.client.create(
        &topic,
        1,
        &[("retention.ms", "7200000"), ("segment.bytes", "2097152")],
    )?;
    let wanted = [
        ("retention.ms", "7200000"),
        ("segment.bytes", "2097152"),
        ("retention.bytes", "-1"),
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
    ];
    for (key, value) in wanted {
        let found = described(bench, key)?;
        ensure(found == value, || format!("{key} is '{found}' for '{value}'"))?;
    }
    Ok(())
}

pub fn alter(bench: &mut Bench<'_>) -> Cell {
    let topic = bench.name.clone();
    bench.client.create(&topic, 1, &[("segment.bytes", "2097152")])?;
    for (key, value) in [("retention.ms", "86400000"), ("retention.bytes", "123456789")] {
        bench
            .client
            .ask(json!({"do": "alter", "topic": topic, "key": key, "value": value}))?;
        let found = described(bench, key)?;
        ensure(found == value, || format!("{key} is '{found}' for '{value}'"))?;
    }
    Ok(())
}

/// A value that the key does not take is refused and the old one stays.
pub fn refuse(bench: &mut Bench<'_>) -> Cell {
    let topic = bench.name.clone();
    bench.client.create(&topic, 1, &[("retention.ms", "7200000")])?;
    let altered = bench
        .client
        .ask(json!({"do": "alter", "topic": topic, "key": "retention.ms", "value": "soon"}));
    match altered {
        Err(Outcome::Failed(_)) => {}
        Err(cannot) => return Err(cannot),
        Ok(reply) => return ensure(false, || format!("'soon' was taken as retention.ms: {reply}")),
    }
    let found = described(bench, "retention.ms")?;
    ensure(found == "7200000", || {
        format!("retention.ms is '{found}' for '7200000'")
    })
}
