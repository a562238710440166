use kafka_protocol::messages::fetch_request::ForgottenTopic;

use crate::wire::apis::topic_name;
use crate::wire::client::Client;
use crate::wire::limits::Limits;
use crate::wire::test_broker::TestBroker;
use crate::wire::test_requests::{Ask, batch, produce, sizes, until};

#[tokio::test]
async fn a_parked_fetch_is_woken_by_the_append_it_waits_for() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 2);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut consumer = Client::connect(address, "consumer").await.unwrap();
    let mut producer = Client::connect(address, "producer").await.unwrap();
    let mut ask = Ask::of(12, vec![(&topic, 0, 0), (&topic, 1, 0)]);
    ask.wait_ms = 600_000;
    let small = batch(1, 10);
    ask.min_bytes = i32::try_from(small.len() * 2).unwrap();
    let (fetched, ()) = tokio::join!(ask.send(&mut consumer), async {
        // One batch is too little, the second one completes the fetch whichever partition it goes to.
        produce(&mut producer, &topic, 9, vec![(1, small.clone())]).await;
        produce(&mut producer, &topic, 9, vec![(0, small.clone())]).await;
    });
    assert_eq!(sizes(&fetched), [(0, 0, small.len()), (1, 0, small.len())]);
}

#[tokio::test]
async fn a_parked_fetch_is_woken_by_deletion_and_by_a_move_of_the_log_start() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut consumer = Client::connect(address, "consumer").await.unwrap();
    let mut producer = Client::connect(address, "producer").await.unwrap();
    produce(&mut producer, &topic, 9, vec![(0, batch(5, 10))]).await;
    let log = topic.partition(0).unwrap().log().unwrap();
    let mut ask = Ask::of(12, vec![(&topic, 0, 5)]);
    ask.wait_ms = 600_000;
    let fetched = broker.fetched.lock().len();
    let (answer, ()) = tokio::join!(ask.send(&mut consumer), async {
        until(|| broker.fetched.lock().len() > fetched).await;
        log.retire();
    });
    assert_eq!(sizes(&answer), [(0, 3, 0)]);
}

#[tokio::test]
async fn a_stop_answers_parked_fetches_and_closes() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let (address, stop) = broker.serve(Limits::default()).await;
    let mut consumer = Client::connect(address, "consumer").await.unwrap();
    let mut ask = Ask::of(12, vec![(&topic, 0, 0)]);
    ask.wait_ms = 600_000;
    let (answer, ()) = tokio::join!(ask.send(&mut consumer), async {
        until(|| !broker.fetched.lock().is_empty()).await;
        stop.cancel();
    });
    assert_eq!(sizes(&answer), [(0, 0, 0)]);
    until(|| !broker.disconnected.lock().is_empty()).await;
}

#[tokio::test]
async fn the_first_batch_comes_whatever_the_limits_and_only_that_one() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 3);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    let big = batch(1, 5_000);
    for partition in [1, 2] {
        produce(&mut client, &topic, 9, vec![(partition, big.clone())]).await;
        produce(&mut client, &topic, 9, vec![(partition, big.clone())]).await;
    }
    let mut ask = Ask::of(12, vec![(&topic, 0, 0), (&topic, 1, 0), (&topic, 2, 0)]);
    ask.max_bytes = 10;
    assert_eq!(
        sizes(&ask.send(&mut client).await),
        [(0, 0, 0), (1, 0, big.len()), (2, 0, 0)]
    );
    ask.max_bytes = 0;
    assert_eq!(
        sizes(&ask.send(&mut client).await),
        [(0, 0, 0), (1, 0, big.len()), (2, 0, 0)]
    );
}

#[tokio::test]
async fn offsets_out_of_range_and_old_epochs_are_errors_at_once() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 1);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    produce(&mut client, &topic, 9, vec![(0, batch(5, 10))]).await;
    for (offset, code) in [(-1, 1), (6, 1), (5, 0)] {
        let response = Ask::of(11, vec![(&topic, 0, offset)]).send(&mut client).await;
        assert_eq!(sizes(&response)[0].1, code, "offset {offset}");
        let partition = &response.responses[0].partitions[0];
        // Where the log starts is told to whoever is out of range too.
        let expected = if code == 0 { (5, 5, 0) } else { (-1, -1, 0) };
        let told = (
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
        );
        assert_eq!(told, expected, "offset {offset}");
    }
    for (epoch, code) in [(4, 74), (6, 75), (5, 0), (-1, 0)] {
        let mut request = Ask::of(11, vec![(&topic, 0, 0)]).request();
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        request.max_wait_ms = 600_000;
        let response = client.call(11, &request).await.unwrap();
        assert_eq!(sizes(&response)[0].1, code, "epoch {epoch}");
    }
    let mut request = Ask::of(12, vec![(&topic, 0, 5)]).request();
    request.topics[0].partitions[0].last_fetched_epoch = 4;
    let response = client.call(12, &request).await.unwrap();
    let diverging = &response.responses[0].partitions[0].diverging_epoch;
    assert_eq!((diverging.epoch, diverging.end_offset), (4, 0));
}

#[tokio::test]
async fn a_session_is_answered_with_news_only_and_takes_turns() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 3);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "tests").await.unwrap();
    let all = vec![(&*topic, 0, 0), (&*topic, 1, 0), (&*topic, 2, 0)];
    let mut ask = Ask::of(12, all);
    ask.session = (0, 0);
    let opened = ask.send(&mut client).await;
    assert_ne!(opened.session_id, 0);
    assert_eq!(sizes(&opened), [(0, 0, 0), (1, 0, 0), (2, 0, 0)]);
    let mut next = Ask::of(12, Vec::new());
    next.session = (opened.session_id, 1);
    assert_eq!(sizes(&next.send(&mut client).await), []);
    let big = batch(1, 5_000);
    for partition in [0, 1, 2] {
        produce(&mut client, &topic, 9, vec![(partition, big.clone())]).await;
    }
    // Room for one batch at a time: each partition is first once, and the others tell their high watermark once.
    next.max_bytes = 10;
    let mut served = Vec::new();
    for epoch in 2..5 {
        next.session.1 = epoch;
        let response = next.send(&mut client).await;
        served.extend(
            sizes(&response)
                .into_iter()
                .filter(|(_, _, size)| *size > 0)
                .map(|(index, _, _)| index),
        );
    }
    assert_eq!(served, [0, 1, 2]);
    // A partition that is forgotten is not told about any more.
    next.session.1 = 5;
    let mut request = next.request();
    request.forgotten_topics_data = vec![
        ForgottenTopic::default()
            .with_topic(topic_name("events"))
            .with_partitions(vec![0, 1]),
    ];
    let response = client.call(12, &request).await.unwrap();
    assert_eq!(sizes(&response), [(2, 0, big.len())]);
    // A request out of turn is refused as a whole.
    let response = next.send(&mut client).await;
    assert_eq!((response.error_code, response.responses.len()), (71, 0));
}

#[tokio::test]
async fn fetchers_are_reported_with_where_they_read_and_when_they_leave() {
    let broker = TestBroker::new();
    let topic = broker.add("events", 2);
    let (address, _stop) = broker.serve(Limits::default()).await;
    let mut client = Client::connect(address, "reader-1").await.unwrap();
    Ask::of(13, vec![(&topic, 1, 0), (&topic, 9, 0)])
        .send(&mut client)
        .await;
    let (who, positions) = broker.fetched.lock()[0].clone();
    assert_eq!((&*who.id, &*who.host), ("reader-1", "/127.0.0.1"));
    assert_eq!(positions.len(), 1);
    assert_eq!(
        (positions[0].topic_id, positions[0].partition, positions[0].offset),
        (topic.id, 1, 0)
    );
    drop(client);
    until(|| !broker.disconnected.lock().is_empty()).await;
    assert_eq!(broker.disconnected.lock()[0].connection, who.connection);
}
