//! What the engine remembers beside the logs: a record of it that cannot be read, is gone or is older than the topic it names takes
//! nothing that a reader has not read.
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteTopicsRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use tidemark::engine::store::{Batch, Store, Table};
use tidemark::operator::storage::Storage;
use tidemark::resource::contract::{DeleteTopic, DeletionPolicy, EventKind, OnLoss, Outcome, PassReport};
use tidemark::wire::client::{Client, ClientRecord};

use crate::scene::{DAY, Desired, Scene, run};
use crate::support::temp::TempDir;
use crate::support::tidemark::{Tidemark, request};
use crate::support::wait::{PATIENCE, eventually};

/// Changes the state store of a scene while no engine runs on it.
async fn while_stopped(scene: &mut Scene, change: impl FnOnce(&mut Batch)) {
    scene.engine.shutdown().await;
    let store = Store::open(&scene.config.data.join("state.redb")).unwrap();
    let mut batch = Batch::new();
    change(&mut batch);
    store.write_blocking(batch).unwrap();
    store.close();
    scene.restart(|_| {}).await;
}

/// A clamp is in force for a reader at 25 that stands still for five days.
async fn clamped() -> (Scene, Desired) {
    let base = Desired::new().set("retention.ms", 30 * DAY).readers(|readers| {
        readers.on_loss = OnLoss::Clamp;
        readers.headroom_ms = Some(0);
    });
    let mut scene = Scene::read_to("g", 25, &base).await;
    let lower = base.set("retention.ms", 4 * DAY + DAY / 2);
    assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Clamped);
    scene.pass().await;
    assert_eq!(scene.log_start("t", 0).await, 20);
    (scene, lower)
}

/// A clamp is safe only as long as what it waits for is known.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_waits_and_cannot_be_read_any_more_is_not_in_force_in_part_either() {
    let changes: [fn(&mut Batch); 2] = [
        |batch| {
            batch.put(Table::PendingChanges, "t", "{");
        },
        |batch| {
            batch.remove(Table::PendingChanges, "t");
        },
    ];
    for change in changes {
        let (mut scene, lower) = clamped().await;
        while_stopped(&mut scene, change).await;
        scene.clock.advance_ms(5 * DAY);
        scene.pass().await;
        assert_eq!(scene.log_start("t", 0).await, 20);
        let observed = scene.observe("t").await;
        assert!(observed.pending.is_none());
        assert_eq!(
            observed.in_force.config["retention.ms"].value,
            (30 * DAY).to_string()
        );
        assert!(observed.in_force.partition_config.is_empty());
        let told = scene.engine.recent_events(0);
        assert!(
            told.iter()
                .any(|event| event.kind == EventKind::ChangeDropped
                    && event.message.contains("in force again")),
            "{told:?}"
        );
        // Asked for again, it is judged against what was in force before it.
        assert_eq!(scene.apply("t", &lower).await.verdict, Outcome::Clamped);
        scene.pass().await;
        assert_eq!(scene.log_start("t", 0).await, 20);
        scene.kafka.commit("g", "t", 0, 100).await.unwrap();
        scene.resumed("t").await;
        scene.pass().await;
        assert_eq!(scene.log_start("t", 0).await, 100);
    }
}

/// What time it was last is not known any more: a clock that may be wrong by any amount is not believed at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_last_seen_that_cannot_be_read_or_is_gone_is_no_reason_to_believe_the_clock() {
    let changes: [fn(&mut Batch); 2] = [
        |batch| {
            batch.put(Table::Engine, "wall-clock-seen-ms", "yesterday");
        },
        |batch| {
            batch.remove(Table::Engine, "wall-clock-seen-ms");
        },
    ];
    for change in changes {
        let mut scene = Scene::new().await;
        scene
            .apply("t", &Desired::new().set("retention.ms", 30 * DAY))
            .await;
        scene.ten_days("t", 0).await;
        scene.clock.step_wall_ms(400 * DAY);
        while_stopped(&mut scene, change).await;
        let report = scene.pass().await;
        assert_eq!(
            (report.held.as_deref(), report.segments_deleted),
            (Some("clock_jump"), 0)
        );
        let confirmed: PassReport = scene
            .control
            .post("/v1/retention/clock", None::<&()>)
            .await
            .unwrap();
        assert_eq!(confirmed.held, None);
        assert_eq!(scene.log_start("t", 0).await, 100);
    }
}

/// Kafka's checkpoint of log starts names topics, not their ids. A topic that was made anew has its own log start, also where the process
/// dies before the checkpoint is written again.
#[test]
fn a_topic_made_anew_does_not_begin_where_the_one_before_it_was_cut() {
    let home = TempDir::new("made-anew");
    let mut engine = Tidemark::engine(home.path(), &[]);
    let produce = |engine: &Tidemark, count: usize| {
        run(async {
            let mut client = Client::connect(engine.bootstrap(), "anew").await.unwrap();
            let records = vec![ClientRecord::new(1, "v"); count];
            client.produce("t", 0, &records).await.unwrap();
        });
    };
    let name = || TopicName(StrBytes::from_static_str("t"));
    let delete = async |client: &mut Client| {
        let request = DeleteTopicsRequest::default().with_topic_names(vec![name()]);
        let response = client.call(5, &request).await.unwrap();
        assert_eq!(response.responses[0].error_code, 0);
    };
    for again in [false, true] {
        let body = r#"{"partitions": 1, "config": {"retention.ms": "-1"}}"#;
        engine.http("PUT", "/v1/topics/t", Some(body)).json(200);
        produce(&engine, 500);
        run(async {
            let mut client = Client::connect(engine.bootstrap(), "anew").await.unwrap();
            let partition = DeleteRecordsPartition::default()
                .with_partition_index(0)
                .with_offset(300);
            let topic = DeleteRecordsTopic::default()
                .with_name(name())
                .with_partitions(vec![partition]);
            let request = DeleteRecordsRequest::default().with_topics(vec![topic]);
            let response = client.call(2, &request).await.unwrap();
            assert_eq!(response.topics[0].partitions[0].low_watermark, 300);
            delete(&mut client).await;
        });
        if again {
            engine.kill();
            engine.start_again();
        }
        engine.http("PUT", "/v1/topics/t", Some(body)).json(200);
        produce(&engine, 100);
        engine.kill();
        engine.start_again();
        let partition = &engine.get("/v1/topics/t")["partitions"][0];
        assert_eq!(
            (&partition["logStart"], &partition["logEnd"]),
            (&0.into(), &100.into())
        );
        run(async {
            let mut client = Client::connect(engine.bootstrap(), "anew").await.unwrap();
            delete(&mut client).await;
        });
    }
}

/// The same for the checkpoint of recovery points, which tells a start after a crash what it need not read.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_topic_made_anew_counts_as_flushed_because_the_one_before_it_was() {
    let mut scene = Scene::new().await;
    let desired = Desired::new();
    scene.apply("t", &desired).await;
    scene.segment("t", 0, 10, 1).await;
    scene.restart(|_| {}).await;
    let path = scene.config.data.join("logs/recovery-point-offset-checkpoint");
    assert!(std::fs::read_to_string(&path).unwrap().contains("t 0 10"));
    let request = DeleteTopic {
        owner: desired.0.owner.clone().unwrap().uid,
        policy: Some(DeletionPolicy::Delete),
        request_id: "gone".to_owned(),
    };
    scene.control.delete("t", &request).await.unwrap();
    scene.apply("t", &desired).await;
    assert!(!std::fs::read_to_string(&path).unwrap().contains("t 0 "));
}

/// A damaged state store is explained, not touched, and taken up as soon as it can be read.
#[test]
fn a_damaged_state_store_is_told_of_and_left_as_it_is() {
    let home = TempDir::new("damaged-store");
    let mut engine = Tidemark::engine(home.path(), &[]);
    let body = r#"{"partitions": 1}"#;
    engine.http("PUT", "/v1/topics/t", Some(body)).json(200);
    engine.stop();
    let path = engine.data().join("state.redb");
    let whole = std::fs::read(&path).unwrap();
    let unreadable = {
        let store = Store::open(&path).unwrap();
        let mut batch = Batch::new();
        batch.put(Table::Topics, "t", "{");
        store.write_blocking(batch).unwrap();
        store.close();
        std::fs::read(&path).unwrap()
    };
    let marker = engine.data().join("logs/.kafka_cleanshutdown");
    for (damaged, word, is_store) in [
        (b"no store".to_vec(), "state.redb", false),
        (unreadable, "topics t", true),
    ] {
        std::fs::write(&path, &damaged).unwrap();
        engine.start_unready();
        let control = engine.control().to_owned();
        eventually("the reason to be told", PATIENCE, || {
            let reply = request(&control, "GET", "/readyz", None, None).map_err(|error| error.to_string())?;
            let told = reply.status == 503 && reply.body.contains("Corrupt") && reply.body.contains(word);
            if told { Ok(()) } else { Err(reply.body) }
        });
        let refused = request(&control, "GET", "/v1/topics", None, None).unwrap();
        assert_eq!(refused.json(503)["reason"], "Corrupt");
        assert!(std::net::TcpStream::connect(engine.bootstrap()).is_err());
        assert!(marker.exists(), "the clean stop is forgotten");
        // Opening one that is a store notes in it that it is open.
        let same = std::fs::read(&path).unwrap() == damaged;
        assert!(is_store || same, "the store was changed");
        // In one step: the engine looks again meanwhile, and half a file is a damaged one too.
        let restored = home.path().join("restored.redb");
        std::fs::write(&restored, &whole).unwrap();
        std::fs::rename(&restored, &path).unwrap();
        engine.wait_ready();
        assert_eq!(engine.get("/v1/topics/t")["partitions"][0]["logEnd"], 0);
        engine.stop();
    }
}
