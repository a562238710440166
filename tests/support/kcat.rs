//! kcat, the light client that most scenes use to write and read.
use super::process::Start;

/// Its own deadlines, which are as short as 5 s, made so long that none passes on a machine that stands still for a while: how long it
/// waits for metadata, for other answers, and as a member for its turn; and for the acknowledgement of a write, which it would write again.
const PATIENT: [&str; 6] = [
    "-m",
    "240",
    "-X",
    "socket.timeout.ms=240000",
    "-X",
    "session.timeout.ms=240000",
];
const PATIENT_WRITER: [&str; 2] = ["-X", "request.timeout.ms=240000"];

/// kcat against one broker, with `args` as on its command line.
pub fn kcat<'a>(bootstrap: &str, args: impl IntoIterator<Item = &'a str>) -> Start {
    let args: Vec<&str> = args.into_iter().collect();
    let writer: &[&str] = if args.contains(&"-P") {
        &PATIENT_WRITER
    } else {
        &[]
    };
    Start::new("kcat", "timeout")
        // One that waits for ever minds no signal that it can handle.
        .args(["-k", "5", "600", "kcat"])
        .args(["-b", bootstrap])
        .args(PATIENT)
        .args(writer.iter().copied())
        .args(args)
}

/// Writes one record per line of `lines`.
#[track_caller]
pub fn produce(bootstrap: &str, topic: &str, partition: i32, lines: &[String]) {
    let mut input = lines.join("\n").into_bytes();
    input.push(b'\n');
    kcat(bootstrap, ["-P", "-t", topic, "-p", &partition.to_string()]).run_with(&input);
}

/// Everything from `offset` (a number, `beginning`, `end`, `-N`, `s@TIMESTAMP`) to the end of a partition, each record as `offset:value`.
#[track_caller]
pub fn consume(bootstrap: &str, topic: &str, partition: i32, offset: &str) -> Vec<String> {
    let partition = partition.to_string();
    let args = [
        "-C", "-q", "-e", "-t", topic, "-p", &partition, "-o", offset, "-f", "%o:%s\n",
    ];
    kcat(bootstrap, args).run().lines().map(str::to_owned).collect()
}
