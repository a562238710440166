//! The entry points of `fuzz/` on a bounded number of mutated inputs.
//!
//! The seed is fixed, or taken from `TIDEMARK_SEED`; a failure names the input that caused it. `TIDEMARK_LONG=1` runs twenty times as many.
//! Memory is watched as address space: a reservation that a length in the input asked for shows there even if it is never touched.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::entry_points;

/// How much the address space may grow while one target runs. Threads of tests beside this one reserve some gigabytes for their stacks
/// and arenas; 2^31 elements of anything are more than this.
const MOST_GROWTH: u64 = 8 << 30;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Numbers that lengths and counts go wrong at.
const EDGES: [u32; 12] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
];

fn mutate(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut output = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(output.len() + 1);
        match random.below(8) {
            0 => output.truncate(at),
            1 => drop(output.splice(at..at, random.bytes(4))),
            2 => {
                let end = (at + random.below(16)).min(output.len());
                output.drain(at..end);
            }
            3 => {
                let edge = EDGES[random.below(EDGES.len())].to_be_bytes();
                let width = [1, 2, 4][random.below(3)];
                for (place, byte) in output.iter_mut().skip(at).zip(&edge[4 - width..]) {
                    *place = *byte;
                }
            }
            4 => {
                let from = random.below(output.len() + 1);
                let end = (from + random.below(32)).min(output.len());
                let piece = output[from..end].to_vec();
                output.splice(at..at, piece);
            }
            _ => {
                if let Some(byte) = output.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    output
}

fn address_space() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn run(name: &str, seeds: &[Vec<u8>], rounds: usize, target: fn(&[u8])) {
    let seed = match std::env::var("TIDEMARK_SEED") {
        Ok(seed) => seed.parse().expect("TIDEMARK_SEED is a number"),
        Err(_) => 20_261_130,
    };
    let rounds = if std::env::var_os("TIDEMARK_LONG").is_some() {
        rounds * 20
    } else {
        rounds
    };
    let mut random = Random(seed);
    let before = address_space();
    for input in seeds {
        try_one(name, seed, input, target);
    }
    for _ in 0..rounds {
        let input = match random.below(10) {
            0 => {
                let count = random.below(200);
                random.bytes(count)
            }
            _ => mutate(&seeds[random.below(seeds.len())], &mut random),
        };
        try_one(name, seed, &input, target);
    }
    let grown = address_space().saturating_sub(before);
    assert!(
        grown < MOST_GROWTH,
        "{name}, seed {seed}: the address space grew by {grown} bytes"
    );
}

fn try_one(name: &str, seed: u64, input: &[u8], target: fn(&[u8])) {
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        let smallest = shrink(input, target);
        let hex: String = smallest.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!(
            "{name}, seed {seed}: a fault with the {} bytes {hex}",
            smallest.len()
        );
    }
}

/// Takes away pieces for as long as the fault stays.
fn shrink(input: &[u8], target: fn(&[u8])) -> Vec<u8> {
    let mut smallest = input.to_vec();
    let mut piece = (smallest.len() / 2).max(1);
    loop {
        let mut at = 0;
        let mut shrunk = false;
        while at < smallest.len() {
            let mut shorter = smallest.clone();
            shorter.drain(at..(at + piece).min(smallest.len()));
            if catch_unwind(AssertUnwindSafe(|| target(&shorter))).is_err() {
                smallest = shorter;
                shrunk = true;
            } else {
                at += piece;
            }
        }
        match (shrunk, piece) {
            (false, 1) => return smallest,
            (false, _) => piece /= 2,
            (true, _) => {}
        }
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no corpus in {}", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// A directory of one sound segment, with its indexes as a close leaves them, in the form the entry point takes.
fn sound_directories() -> Vec<Vec<u8>> {
    let batches = sound_batches();
    let mut one = vec![0];
    push_file(&mut one, 0, &batches[0]);
    let mut two = vec![1 + (1 << 2)];
    push_file(&mut two, 0, &batches[0]);
    push_file(&mut two, 1, &[0, 0, 0, 1, 0, 0, 0, 0]);
    push_file(&mut two, 2, &[0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, 0, 0, 0, 1]);
    push_file(&mut two, 5, &batches[1]);
    push_file(&mut two, 8, b"0\n1\n3 0\n");
    push_file(&mut two, 9, b"version: 0\ntopic_id: OqBYWRP9RRio22307b_IHA");
    vec![one, two, vec![0], vec![3]]
}

fn push_file(input: &mut Vec<u8>, name: u8, content: &[u8]) {
    input.push(name);
    input.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
    input.extend(content);
}

fn sound_batches() -> Vec<Vec<u8>> {
    use tidemark::wire::client::{ClientRecord, encode_batch};
    let records = |count: usize| -> Vec<ClientRecord> {
        (0..count)
            .map(|at| ClientRecord::new(1_700_000_000_000 + at as i64, format!("value {at}")))
            .collect()
    };
    [1, 7]
        .map(|count| encode_batch(&records(count)).unwrap().to_vec())
        .to_vec()
}

/// The same records compressed with each codec.
fn compressed_batches() -> Vec<Vec<u8>> {
    use tidemark::log::batch::{self, HEADER_LEN};
    use tidemark::log::compression::{Codec, compress};
    let plain = &sound_batches()[1];
    [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]
        .into_iter()
        .map(|codec| {
            let header = batch::BatchHeader {
                attributes: codec.id(),
                ..batch::BatchHeader::parse(plain).unwrap()
            };
            batch::encode(&header, &compress(codec, &plain[HEADER_LEN..], None).unwrap())
        })
        .collect()
}

/// The inputs that are kept for a target, and those that are made here.
fn seeds(name: &str, made: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    [corpus(name), made].concat()
}

#[test]
fn requests() {
    run(
        "request_frame",
        &corpus("request_frame"),
        60_000,
        entry_points::request_frame,
    );
}

#[test]
fn records() {
    let made = [sound_batches(), compressed_batches()].concat();
    run(
        "record_batches",
        &seeds("record_batches", made),
        10_000,
        entry_points::record_batches,
    );
}

#[test]
fn directories() {
    run(
        "partition_directory",
        &seeds("partition_directory", sound_directories()),
        500,
        entry_points::partition_directory,
    );
}

#[test]
fn files_beside_the_segments() {
    let mut made: Vec<Vec<u8>> = [
        "0\n2\nevents 0 17\nevents 1 9\n",
        "0\n2\n1 0\n4 12\n",
        "version: 0\ntopic_id: OqBYWRP9RRio22307b_IHA",
        "cluster.id=syD0ODg0SjSekKkJXrVpyA\ndirectory.id=OqBYWRP9RRio22307b_IHA\nnode.id=1\nversion=1\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    // A producer snapshot: version, checksum, no producers; and an aborted transaction.
    made.push(vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    made.push([&[0, 0][..], &7_i64.to_be_bytes(), &[0; 24]].concat());
    run(
        "side_files",
        &seeds("side_files", made),
        20_000,
        entry_points::side_files,
    );
}

#[test]
fn state() {
    let topic = r#"{"name":"orders","id":"3aa05859-13fd-4518-a8db-6df4edbfc81c","partitions":2,"directories":2,"createdMs":1}"#;
    let mut entries = vec![0];
    push_entry(&mut entries, 0, b"orders", topic.as_bytes());
    push_entry(&mut entries, 4, b"orders-0", b"17");
    let group = r#"{"kind":"classic","protocolType":"consumer","generation":3,"protocolName":"range","leader":"m","stateSinceMs":5,"members":[]}"#;
    push_entry(&mut entries, 8, b"\0\0\0\x01g", group.as_bytes());
    let position = b"\0\0\0\x01g\0\0\0\x06orders\0\0\0\0";
    push_entry(
        &mut entries,
        9,
        position,
        &[&[0, 0, 0, 0, 0, 0, 0, 7][..], &[0; 36]].concat(),
    );
    push_entry(&mut entries, 10, position, b"{}");
    let changes = vec![1, 0, 0, 9, 1, 0xff, 0, 0x10, 0, 4, 0, 0, 0, 0];
    run(
        "state_store",
        &seeds("state_store", vec![entries, changes, vec![0], vec![1]]),
        250,
        entry_points::state_store,
    );
}

fn push_entry(input: &mut Vec<u8>, table: u8, key: &[u8], value: &[u8]) {
    input.extend([table, u8::try_from(key.len()).unwrap()]);
    input.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
    input.extend(key);
    input.extend(value);
}
