//! Reading: from where, across segments, and where there is nothing any more.
use super::{Bench, expected, same, values};
use crate::adapter::{Cell, Outcome, ensure};
use crate::support::wait::PATIENCE;
use serde_json::json;
use std::time::Instant;

fn topic_with(bench: &mut Bench<'_>, values: &[String]) -> Cell<String> {
    let topic = bench.name.clone();
    bench.client.create(&topic, 1, &[])?;
    bench.client.produce(&topic, 0, values)?;
    Ok(topic)
}

pub fn from_beginning(bench: &mut Bench<'_>) -> Cell {
    let values = values("b", 500);
    let topic = topic_with(bench, &values)?;
    same(
        &bench.client.read(&topic, 0, json!("beginning"), 500)?,
        &expected(0, &values),
    )
}

pub fn from_end(bench: &mut Bench<'_>) -> Cell {
    let topic = topic_with(bench, &values("old", 50))?;
    bench.client.open("end", &topic, 0, json!("end"), "none")?;
    let new = values("new", 20);
    bench.client.produce(&topic, 0, &new)?;
    let found = bench.client.take("end", 20)?;
    bench.client.close("end")?;
    same(&found, &expected(50, &new))
}

pub fn from_offset(bench: &mut Bench<'_>) -> Cell {
    let values = values("o", 100);
    let topic = topic_with(bench, &values)?;
    let found = bench.client.read(&topic, 0, json!(37), 63)?;
    same(&found, &expected(37, &values[37..]))
}

/// Records a second apart; a time between two of them gives the later one.
pub fn from_timestamp(bench: &mut Bench<'_>) -> Cell {
    let topic = bench.name.clone();
    // These records are years old.
    bench.client.create(&topic, 1, &[("retention.ms", "-1")])?;
    let (values, first_ms) = (values("t", 60), 1_700_000_000_000_i64);
    for (i, value) in (0_i64..).zip(&values) {
        bench.client.ask(
            json!({"do": "produce", "topic": topic, "partition": 0, "values": [value],
            "codec": "none", "acks": "all", "idempotent": false, "timestamp": first_ms + i * 1000}),
        )?;
    }
    let time = first_ms + 41_500;
    let found = bench.client.read(&topic, 0, json!({"timestamp": time}), 18)?;
    same(&found, &expected(42, &values[42..]))
}

/// Six partitions in one reader, several segments each, a batch size and a codec of its own for each: nothing is lost, nothing comes twice.
pub fn many_segments(bench: &mut Bench<'_>) -> Cell {
    let topic = bench.name.clone();
    bench.client.create(&topic, 6, &[("segment.bytes", "1048576")])?;
    let mut sum = 0_u64;
    for (partition, codec) in (0..).zip(["none", "zstd", "none", "gzip", "none", "none"]) {
        // Incompressible enough to fill segments, the same for every client.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ partition;
        let values: Vec<String> = (0..1200)
            .map(|_| {
                let mut value = String::new();
                while value.len() < 2000 {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    value.push_str(&format!("{state:016x}"));
                }
                value
            })
            .collect();
        let kcat = crate::support::kcat::kcat(bench.broker.bootstrap(), ["-P", "-q", "-t", &topic])
            .args([
                "-p".to_owned(),
                partition.to_string(),
                "-z".to_owned(),
                codec.to_owned(),
            ])
            .args([
                "-X".to_owned(),
                format!("batch.num.messages={}", 1 + partition * 40),
            ]);
        kcat.run_with(values.join("\n").as_bytes());
        for (offset, value) in values.iter().enumerate() {
            let line = format!("{partition}:{offset}:{value}");
            sum += u64::from(crc32(line.as_bytes()));
        }
    }
    let reply = bench
        .client
        .ask(json!({"do": "digest", "topic": topic, "partitions": 6, "count": 7200}))?;
    ensure(reply["count"] == 7200 && reply["sum"] == sum, || {
        format!("{reply} for 7200 records, sum {sum}")
    })
}

/// The CRC-32 that every language has in its library (zlib's).
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

pub fn out_of_range(bench: &mut Bench<'_>, reset: &str) -> Cell {
    let values = values("r", 40);
    let topic = topic_with(bench, &values)?;
    bench
        .client
        .ask(json!({"do": "delete-records", "topic": topic, "partition": 0, "before": 15}))?;
    bench.client.open("lost", &topic, 0, json!(3), reset)?;
    if reset == "earliest" {
        let found = bench.client.take("lost", 25)?;
        bench.client.close("lost")?;
        return same(&found, &expected(15, &values[15..]));
    }
    // Where the end was when the client asked for it only the client knows: it is given one more record until it sees one.
    let deadline = Instant::now() + PATIENCE;
    let mut written = 0;
    while Instant::now() < deadline {
        let found = bench.client.poll("lost")?;
        if let Some((first, value)) = found.first() {
            bench.client.close("lost")?;
            let wanted = format!("more-{}", first - 40);
            return ensure(value == &wanted, || {
                format!("offset {first} holds {value}, not {wanted}")
            });
        }
        bench.client.produce(&topic, 0, &[format!("more-{written}")])?;
        written += 1;
    }
    ensure(false, || {
        format!("no record came after {written} more were written")
    })
}

/// Without a reset policy the client is told, and no record comes.
pub fn out_of_range_without_reset(bench: &mut Bench<'_>) -> Cell {
    let topic = topic_with(bench, &values("r", 40))?;
    bench
        .client
        .ask(json!({"do": "delete-records", "topic": topic, "partition": 0, "before": 15}))?;
    let read = bench
        .client
        .open("lost", &topic, 0, json!(3), "none")
        .and_then(|()| bench.client.take("lost", 1));
    // A reader that failed to open is not there to be closed.
    let _closed = bench.client.close("lost");
    match read {
        Err(Outcome::Failed(reason)) => {
            let plain: String = reason
                .to_lowercase()
                .chars()
                .filter(char::is_ascii_alphabetic)
                .collect();
            ensure(plain.contains("outofrange"), || {
                format!("another error than OFFSET_OUT_OF_RANGE: {reason}")
            })
        }
        Err(cannot) => Err(cannot),
        Ok(records) => ensure(false, || {
            format!("offset 3 is deleted, yet these came: {records:?}")
        }),
    }
}

pub fn delete_records(bench: &mut Bench<'_>) -> Cell {
    let values = values("d", 30);
    let topic = topic_with(bench, &values)?;
    bench
        .client
        .ask(json!({"do": "delete-records", "topic": topic, "partition": 0, "before": 12}))?;
    same(
        &bench.client.read(&topic, 0, json!("beginning"), 18)?,
        &expected(12, &values[12..]),
    )?;
    // Beyond the end: OFFSET_OUT_OF_RANGE, nothing deleted.
    let beyond = bench
        .client
        .ask(json!({"do": "delete-records", "topic": topic, "partition": 0, "before": 31}));
    ensure(matches!(beyond, Err(Outcome::Failed(_))), || {
        format!("a deletion beyond the end answers {beyond:?}")
    })?;
    same(
        &bench.client.read(&topic, 0, json!("beginning"), 18)?,
        &expected(12, &values[12..]),
    )
}
