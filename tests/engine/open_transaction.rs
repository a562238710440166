//! A directory that a broker with transactions left in the middle of one.
use std::path::Path;

use tidemark::log::batch::{BatchHeader, attributes, encode};
use tidemark::log::compression::Codec;
use tidemark::log::records::RecordWriter;
use tidemark::resource::contract::Outcome;

use crate::scene::{DAY, Desired, HOUR, MINUTE, Scene, T};

/// One batch of `count` records with this timestamp; those of a producer are part of a transaction.
fn batch(base_offset: i64, count: i32, timestamp: i64, producer: Option<i64>) -> Vec<u8> {
    let mut writer = RecordWriter::default();
    for _ in 0..count {
        writer.push(0, None, Some(b"value"), 0, &[]);
    }
    let header = BatchHeader {
        base_offset,
        size: 0,
        leader_epoch: 0,
        magic: 2,
        crc: 0,
        attributes: attributes(Codec::None, false, producer.is_some(), false),
        last_offset_delta: count - 1,
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        producer_id: producer.unwrap_or(-1),
        producer_epoch: producer.map_or(-1, |_| 0),
        base_sequence: producer.map_or(-1, |_| 0),
        record_count: count,
    };
    encode(&header, &writer.into_bytes())
}

/// Offsets 0 to 199 are ten days old; those from 200 to 1662 are an hour old and belong to a transaction that nobody ended.
fn leave_in_the_middle(data: &Path) {
    let logs = data.join("logs");
    std::fs::remove_file(logs.join(".kafka_cleanshutdown")).unwrap();
    let partition = logs.join("t-0");
    for entry in std::fs::read_dir(&partition).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() != "partition.metadata" {
            std::fs::remove_file(path).unwrap();
        }
    }
    let put = |base: i64, batch: Vec<u8>| {
        std::fs::write(partition.join(format!("{base:020}.log")), batch).unwrap();
    };
    put(0, batch(0, 200, T - 10 * DAY, None));
    put(200, batch(200, 1_463, T - HOUR, Some(7)));
}

/// D4: lag is not the test. A reader that an open transaction holds back is not in the way of what it has read, and where it
/// is in the way, it is told what holds it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_held_by_an_open_transaction_is_judged_by_its_position_and_told_apart() {
    let mut scene = Scene::new().await;
    let base = Desired::new()
        .set("retention.ms", 30 * DAY)
        .readers(|readers| readers.headroom_ms = Some(0));
    scene.apply("t", &base).await;
    scene.restart(|config| leave_in_the_middle(&config.data)).await;
    let partition = &scene.observe("t").await.partitions[0];
    assert_eq!(
        (partition.log_start, partition.high_watermark, partition.segments),
        (0, 1_663, 2)
    );
    scene.kafka.commit("g", "t", 0, 200).await.unwrap();
    scene.kafka.commit("late", "t", 0, 300).await.unwrap();

    let verdict = scene.apply("t", &base.clone().set("retention.ms", 7 * DAY)).await;
    assert_eq!(verdict.verdict, Outcome::Applied, "{}", verdict.message);
    assert_eq!(verdict.partitions[0].would_be_start, 200);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 200);

    let verdict = scene
        .judged(
            "t",
            &base.set("retention.ms", 30 * MINUTE),
            Outcome::Refused,
            "SlowReader",
        )
        .await;
    assert_eq!(verdict.partitions[0].would_be_start, 1_663);
    let [held, free] = &verdict.readers_at_risk[..] else {
        panic!("{:?}", verdict.readers_at_risk);
    };
    assert_eq!(
        (held.name.as_str(), held.position, held.records_at_risk),
        ("g", Some(200), 1_463)
    );
    let detail = held.detail.as_deref().unwrap_or_default();
    assert!(detail.contains("open transaction"), "{detail:?}");
    assert!(verdict.message.contains(detail), "{}", verdict.message);
    // One that reads uncommitted records is past the beginning of the transaction: that is no transaction's doing.
    assert_eq!(
        (
            free.name.as_str(),
            free.position,
            free.records_at_risk,
            &free.detail
        ),
        ("late", Some(300), 1_363, &None)
    );
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 200);
    assert_eq!(scene.in_force("t", "retention.ms").await, (7 * DAY).to_string());
}
