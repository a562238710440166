//! kcat, the light client that most scenes use to write and read.
use super::process::Start;

/// kcat against one broker, with `args` as on its command line.
pub fn kcat<'a>(bootstrap: &str, args: impl IntoIterator<Item = &'a str>) -> Start {
    Start::new("kcat", "timeout")
        // One that waits for ever minds no signal that it can handle.
        .args(["-k", "5", "300", "kcat"])
        .args(["-b", bootstrap])
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
