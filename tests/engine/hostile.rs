//! Many and strange connections to a running engine: its memory stays bounded and the others are served.
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use tidemark::wire::client::{Client, ClientRecord};

use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;

/// Far longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

fn resident_kib(engine: &mut Tidemark) -> u64 {
    let pid = engine.process().pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn connect(engine: &Tidemark) -> TcpStream {
    TcpStream::connect(engine.bootstrap()).unwrap()
}

/// Produces and fetches, as an honest client would.
async fn is_served(engine: &Tidemark) {
    let exchange = async {
        let mut client = Client::connect(engine.bootstrap(), "honest").await.unwrap();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let record = ClientRecord::new(i64::try_from(now.as_millis()).unwrap(), "value");
        let offset = client.produce("events", 0, &[record]).await.unwrap();
        let fetched = client.fetch("events", 0, offset, 1_000).await.unwrap();
        assert_eq!(fetched.len(), 1);
    };
    tokio::time::timeout(DEADLINE, exchange)
        .await
        .expect("an honest client is not served");
}

async fn with_topic(home: &TempDir) -> Tidemark {
    use kafka_protocol::messages::CreateTopicsRequest;
    use kafka_protocol::messages::create_topics_request::CreatableTopic;
    let engine = Tidemark::engine(home.path(), &[]);
    let mut client = Client::connect(engine.bootstrap(), "tests").await.unwrap();
    let topic = CreatableTopic::default()
        .with_name(tidemark::wire::apis::topic_name("events"))
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(30_000);
    assert_eq!(client.call(5, &request).await.unwrap().topics[0].error_code, 0);
    engine
}

/// How many descriptors this process may have.
fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, wanted);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    usize::try_from(limit.current.unwrap_or(1 << 20)).unwrap_or(usize::MAX)
}

#[tokio::test]
async fn ten_thousand_idle_connections_cost_little_and_keep_no_one_out() {
    let wanted = 10_000;
    assert!(
        descriptors() > wanted + 200,
        "this test needs {wanted} descriptors: raise the hard limit (ulimit -Hn)"
    );
    let home = TempDir::new("many-connections");
    let mut engine = with_topic(&home).await;
    is_served(&engine).await;
    let before = resident_kib(&mut engine);
    let connections: Vec<TcpStream> = (0..wanted).map(|_| connect(&engine)).collect();
    // Every one has said something once, and a few are in the middle of a sentence.
    for mut connection in &connections {
        connection
            .write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff])
            .unwrap();
    }
    for mut connection in &connections {
        let mut length = [0; 4];
        connection.set_read_timeout(Some(DEADLINE)).unwrap();
        connection.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        connection.read_exact(&mut answer).unwrap();
    }
    is_served(&engine).await;
    // Quiet connections give their buffers back; what is left is their sockets and a few KiB each.
    let bound = before + (wanted as u64) * 8;
    let started = Instant::now();
    loop {
        let now = resident_kib(&mut engine);
        if now < bound {
            break;
        }
        assert!(
            started.elapsed() < DEADLINE,
            "{now} KiB resident, {before} before, at most {bound} expected"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn claims_of_gigabytes_take_no_memory() {
    let home = TempDir::new("claims");
    let mut engine = with_topic(&home).await;
    is_served(&engine).await;
    let before = resident_kib(&mut engine);
    let mut held = Vec::new();
    for at in 0..400_u32 {
        let mut connection = connect(&engine);
        // Two in four claim more than any frame may have; the others claim 100 MiB and 1.9 MiB, and send a little of it.
        let (length, body) = match at % 4 {
            0 => (i32::MAX, 0),
            1 => (-1, 0),
            2 => (100 << 20, 60_000),
            _ => (1_900_000, 60_000),
        };
        let mut sent = length.to_be_bytes().to_vec();
        sent.extend([0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0xff, 0xff]);
        sent.extend(std::iter::repeat_n(0, body));
        // A connection that was closed already is as good.
        let _ = connection.write_all(&sent);
        held.push(connection);
    }
    is_served(&engine).await;
    let grown = resident_kib(&mut engine).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for claims");
}

#[tokio::test]
async fn half_open_connections_and_peers_that_read_nothing_keep_no_one_out() {
    let home = TempDir::new("half-open");
    let mut engine = with_topic(&home).await;
    let mut client = Client::connect(engine.bootstrap(), "honest").await.unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let record = ClientRecord::new(i64::try_from(now.as_millis()).unwrap(), vec![b'v'; 900_000]);
    for _ in 0..4 {
        client
            .produce("events", 0, std::slice::from_ref(&record))
            .await
            .unwrap();
    }
    let before = resident_kib(&mut engine);
    let mut held = Vec::new();
    for at in 0..200 {
        let mut connection = connect(&engine);
        // Fetch v4 of everything there is, over and over; not a byte of it is read.
        let mut fetch = vec![
            0, 1, 0, 4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1,
        ];
        fetch.extend([0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0, 6]);
        fetch.extend(b"events");
        fetch.extend([
            0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff,
        ]);
        let mut frame = u32::try_from(fetch.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(fetch);
        for _ in 0..8 {
            connection.write_all(&frame).unwrap();
        }
        if at % 2 == 0 {
            connection.shutdown(Shutdown::Write).unwrap();
        }
        held.push(connection);
    }
    is_served(&engine).await;
    let grown = resident_kib(&mut engine).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB for 200 peers that do not read");
}
