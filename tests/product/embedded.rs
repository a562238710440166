//! The embedded default, by the README's own words: run it, connect, write a Topic, lower it, be refused, be told.
use std::path::Path;
use std::process::{Command, Output};

use crate::readme;
use crate::support::ports::free_port;
use crate::support::process::Start;
use crate::support::temp::TempDir;
use crate::support::wait::{PATIENCE, eventually};

/// A shell in which the README's words work: `tidemark` is the binary under test, `cargo run --release --` runs it
/// too, and the README's addresses are those of this test.
struct Reader {
    home: TempDir,
    kafka: String,
    control: String,
}

impl Reader {
    fn new() -> Self {
        let home = TempDir::new("readme");
        let binaries = home.join("bin");
        std::fs::create_dir(&binaries).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tidemark"), binaries.join("tidemark")).unwrap();
        let cargo =
            "#!/bin/sh\n[ \"$1 $2 $3\" = 'run --release --' ] || exit 1\nshift 3\nexec tidemark \"$@\"\n";
        std::fs::write(binaries.join("cargo"), cargo).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(binaries.join("cargo"), executable).unwrap();
        let examples = home.join("deploy/examples");
        std::fs::create_dir_all(&examples).unwrap();
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/examples")).unwrap()
        {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), examples.join(entry.file_name())).unwrap();
        }
        let address = || format!("127.0.0.1:{}", free_port());
        Self {
            home,
            kafka: address(),
            control: address(),
        }
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let path = std::env::var("PATH").unwrap();
        vec![
            ("PATH", format!("{}:{path}", self.home.join("bin").display())),
            ("TIDEMARK_LISTEN", self.kafka.clone()),
            // A server takes an address, a client an URL or an address: the same variable serves both.
            ("TIDEMARK_CONTROL", self.control.clone()),
        ]
    }

    /// Runs a command of the README.
    fn run(&self, command: &str) -> Output {
        assert!(
            readme::commands().iter().any(|line| line == command),
            "the README does not say: {command}"
        );
        let command = command.replace("127.0.0.1:9092", &self.kafka);
        let mut shell = Command::new("bash");
        shell
            .args(["-ec", &command])
            .current_dir(self.home.path())
            .envs(self.environment());
        shell.output().unwrap()
    }

    /// Runs a command of the README until what it prints holds every one of `words`.
    fn run_until(&self, command: &str, words: &[&str]) -> String {
        eventually(&format!("{command} prints {words:?}"), PATIENCE, || {
            let ended = self.run(command);
            let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
            if words.iter().all(|word| printed.contains(word)) {
                return Ok(printed);
            }
            Err(format!(
                "{}\n{printed}{}",
                ended.status,
                String::from_utf8_lossy(&ended.stderr)
            ))
        })
    }
}

#[test]
fn the_readmes_commands_work_as_written() {
    let reader = Reader::new();
    let run = "cargo run --release -- run --topics deploy/examples";
    assert!(readme::commands().iter().any(|line| line == run));
    let mut start = Start::new("run", "bash")
        .args(["-ec", &format!("exec {run}")])
        .directory(reader.home.path());
    for (key, value) in reader.environment() {
        start = start.env(key, value);
    }
    let mut running = start.spawn(reader.home.path());
    reader.run_until(
        "tidemark status",
        &["Orders.v1", "clicks", "audit"].map(|name| if name == "Orders.v1" { "orders" } else { name }),
    );

    // Connect a client.
    assert!(
        reader
            .run("echo hello | kcat -b 127.0.0.1:9092 -t clicks -p 0 -P")
            .status
            .success()
    );
    let consumed = reader.run_until(
        "kcat -b 127.0.0.1:9092 -t clicks -p 0 -C -o beginning -e",
        &["hello"],
    );
    assert_eq!(consumed, "hello\n");

    // Write a Topic.
    let manifest = readme::blocks("yaml")
        .into_iter()
        .find(|block| block.contains("payments"))
        .unwrap();
    let watched = reader.home.join("deploy/examples/payments.yaml");
    std::fs::write(&watched, &manifest).unwrap();
    let shown = readme::blocks("text")
        .into_iter()
        .find(|block| block.contains("payments"))
        .unwrap();
    let row = |text: &str| {
        let row = text
            .lines()
            .find(|line| line.starts_with("payments"))
            .unwrap_or_default();
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let status = reader.run_until("tidemark status", &["payments", "30d"]);
    assert_eq!(row(&status), row(&shown));

    // A group reads and lags: ten records written two hours ago, the position at the third.
    lag(&reader.kafka);

    // Ask before, then apply all the same.
    let lowered = manifest.replace("retention.ms: 30d", "retention.ms: 1h");
    assert_ne!(lowered, manifest);
    std::fs::write(reader.home.join("payments.yaml"), &lowered).unwrap();
    let asked = reader.run("tidemark plan -f payments.yaml");
    let printed = String::from_utf8_lossy(&asked.stdout);
    assert_eq!(
        asked.status.code(),
        Some(2),
        "{printed}{}",
        String::from_utf8_lossy(&asked.stderr)
    );
    let shown = readme::blocks("text")
        .into_iter()
        .find(|block| block.contains("would be refused"))
        .unwrap();
    assert_eq!(words(&shown), words(&printed));
    std::fs::write(&watched, &lowered).unwrap();
    let status = reader.run_until("tidemark status", &["SlowReader"]);
    assert!(
        status.contains("What to do: tidemark explain SlowReader"),
        "{status}"
    );
    let explained = reader.run("tidemark explain SlowReader");
    assert!(String::from_utf8_lossy(&explained.stdout).starts_with("# SlowReader\n"));

    running.must_run().unwrap();
    assert!(running.stop().success(), "{}", running.log_tail(20));
    assert!(
        reader.home.join("data/logs/.kafka_cleanshutdown").exists(),
        "it did not close cleanly"
    );
}

/// What is printed but for the times, and for where the README breaks a long line.
fn words(text: &str) -> Vec<String> {
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap();
    let text = time.replace_all(text, "TIME");
    text.split_whitespace().map(str::to_owned).collect()
}

/// Ten old records in `payments`, of which the group `ledger` has read three.
fn lag(kafka: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut client = tidemark::wire::client::Client::connect(kafka, "readme")
            .await
            .unwrap();
        let two_hours_ago = jiff::Timestamp::now().as_millisecond() - 2 * 3600 * 1000;
        let records: Vec<_> = (0..10)
            .map(|number| {
                tidemark::wire::client::ClientRecord::new(two_hours_ago + number, format!("payment {number}"))
            })
            .collect();
        client.produce("payments", 0, &records).await.unwrap();
        client.commit("ledger", "payments", 0, 3).await.unwrap();
    });
}
