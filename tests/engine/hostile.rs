//! Many and strange connections to a running engine: its memory stays bounded and the others are served.
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use tidemark::wire::client::{Client, ClientRecord};

use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;
use crate::support::wait::eventually;

/// Far longer than anything here takes, on the most loaded of machines: only a hang gets there.
const DEADLINE: Duration = Duration::from_secs(300);

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
    let mut connections = Vec::with_capacity(wanted);
    // Every one has said something once. No more come at a time than wait to be accepted, however slow the machine is: the kernel lets those
    // beyond that try again, for as long as it sees fit.
    while connections.len() < wanted {
        let mut some: Vec<TcpStream> = (0..100).map(|_| connect(&engine)).collect();
        for connection in &mut some {
            connection
                .write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff])
                .unwrap();
        }
        for connection in &mut some {
            let mut length = [0; 4];
            connection.set_read_timeout(Some(DEADLINE)).unwrap();
            connection.read_exact(&mut length).unwrap();
            let mut answer = vec![0; u32::from_be_bytes(length) as usize];
            connection.read_exact(&mut answer).unwrap();
        }
        connections.append(&mut some);
    }
    let metrics = engine.http("GET", "/metrics", None).body;
    let open = metrics.lines().find_map(|line| line.strip_prefix("connections "));
    assert!(open.unwrap().parse::<usize>().unwrap() >= wanted, "{open:?}");
    is_served(&engine).await;
    // Quiet connections give their buffers back; what is left is their sockets and a few KiB each. About 8 in a development build, twice that
    // with what the allocator holds on to; one buffer kept by each would be far beyond it.
    let bound = before + (wanted as u64) * 16;
    eventually("quiet connections to give their buffers back", DEADLINE, || {
        let now = resident_kib(&mut engine);
        let refused = format!("{now} KiB resident, {before} before, at most {bound} expected");
        (now < bound).then_some(()).ok_or(refused)
    });
}

/// What a member says of itself stays in its group; the megabyte around it does not.
#[tokio::test]
async fn members_keep_what_they_said_and_not_the_frame_it_came_in() {
    use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
    use kafka_protocol::messages::{GroupId, JoinGroupRequest, ListGroupsRequest};
    use tidemark::wire::apis::text;
    let home = TempDir::new("large-joins");
    let mut engine = with_topic(&home).await;
    is_served(&engine).await;
    let before = resident_kib(&mut engine);
    let members = 150;
    let mut joined = Vec::new();
    for number in 0..members {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(vec![1; 20].into());
        let mut request = JoinGroupRequest::default()
            .with_group_id(GroupId(text(format!("group-{number}"))))
            .with_group_instance_id(Some(text("instance")))
            .with_session_timeout_ms(1_800_000)
            .with_rebalance_timeout_ms(1_800_000)
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        request.unknown_tagged_fields.insert(99, vec![7; 1 << 20].into());
        let mut client = Client::connect(engine.bootstrap(), "large").await.unwrap();
        client.send(9, &request).await.unwrap();
        joined.push(client);
    }
    let mut looks = Client::connect(engine.bootstrap(), "looks").await.unwrap();
    let all_there = async {
        while looks
            .call(4, &ListGroupsRequest::default())
            .await
            .unwrap()
            .groups
            .len()
            < members
        {}
    };
    tokio::time::timeout(DEADLINE, all_there)
        .await
        .expect("members that wait for a rebalance keep others out");
    is_served(&engine).await;
    let bound = before + (64 << 10);
    eventually("frames to be given back", DEADLINE, || {
        let now = resident_kib(&mut engine);
        let refused = format!("{now} KiB resident with {members} members, {before} before");
        (now < bound).then_some(()).ok_or(refused)
    });
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
