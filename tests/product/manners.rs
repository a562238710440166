//! The command line as somebody meets it who has just installed it: slips, pipes, terminals, interruptions.
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use rustix::process::Signal;

use crate::support::ports::free_port;
use crate::support::process::Start;
use crate::support::temp::TempDir;
use crate::support::tidemark::{BINARY, Tidemark, tidemark};
use crate::support::wait::{PATIENCE, eventually, until};

/// The commands that nobody types, and so are not listed.
const HIDDEN: [&str; 2] = ["man", "probe"];

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a shell command in `home`; `tidemark` is the binary under test.
fn shell(home: &Path, command: &str) -> Start {
    let script = format!("set -o pipefail; tidemark() {{ timeout 300 '{BINARY}' \"$@\"; }}; {command}");
    Start::new("shell", "bash").args(["-c", &script]).directory(home)
}

/// Runs `tidemark ARGS` on a terminal of so many columns and answers what appears on it.
fn on_a_terminal(home: &Path, columns: u32, environment: &[(&str, &str)], args: &str) -> String {
    let command = format!("unset CI; stty cols {columns}; exec '{BINARY}' {args}");
    let mut start = Start::new("script", "script")
        .args(["-qec", &command, "/dev/null"])
        .directory(home)
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh");
    for (key, value) in environment {
        start = start.env(*key, *value);
    }
    stdout(&start.output()).replace('\r', "")
}

fn listed_commands() -> Vec<String> {
    let help = tidemark(["--help"]).run();
    let commands = help
        .split("Commands:\n")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let names = commands.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_help_with_an_example() {
    let mut commands = listed_commands();
    assert!(commands.len() >= 10, "{commands:?}");
    commands.extend(HIDDEN.map(str::to_owned));
    // A flag without a name for its value gets one from clap, and it shouts.
    let shouted = regex::Regex::new(r"<[A-Z]+_[A-Z_]+>").unwrap();
    for command in commands {
        let help = tidemark([command.as_str(), "--help"]).run();
        let examples = help.split("Example").nth(1).unwrap_or_default();
        assert!(
            examples.contains(&format!("tidemark {command}")),
            "the help of {command} has no example:\n{help}"
        );
        assert!(!shouted.is_match(&help), "{help}");
        let headings = ["Options:", "Logging:"].map(|heading| help.find(heading));
        assert!(
            headings.iter().all(Option::is_some) && headings[0] < headings[1],
            "{help}"
        );
    }
}

/// Every flag of the examples is one; the examples are run, except those that serve or ask somebody.
#[test]
fn the_examples_in_the_help_are_taken() {
    let home = TempDir::new("examples");
    for command in listed_commands() {
        let help = tidemark([command.as_str(), "--help"]).run();
        let examples = help.split("Example").nth(1).unwrap_or_default();
        for line in examples.lines().map(str::trim) {
            let Some(arguments) = line.strip_prefix("tidemark ") else {
                continue;
            };
            // What is explained stands two spaces behind what is typed; a pipe ends it too.
            let typed = arguments
                .split("  ")
                .next()
                .unwrap()
                .split(['|', '>'])
                .next()
                .unwrap();
            // An unknown flag or command is told before anything is looked at: with --help nothing else happens.
            let ended = shell(home.path(), &format!("tidemark {typed} --help")).output();
            assert!(ended.status.success(), "tidemark {typed}: {}", stderr(&ended));
        }
    }
}

#[test]
fn the_version_tells_the_release_and_the_commit() {
    let version = tidemark(["--version"]).run();
    let form = regex::Regex::new(r"^tidemark \d+\.\d+\.\d+ \(([0-9a-f]{12}|unknown)\)\n$").unwrap();
    assert!(form.is_match(&version), "{version}");
}

#[test]
fn manual_pages_and_completions_know_every_command() {
    let home = TempDir::new("man");
    tidemark(["man"]).arg(home.path()).run();
    let pages: BTreeSet<String> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    let scripts: Vec<String> = ["bash", "zsh", "fish", "elvish", "powershell"]
        .map(|shell| tidemark(["completions", shell]).run())
        .into();
    for command in listed_commands() {
        assert!(
            pages.contains(&format!("tidemark-{command}.1")),
            "{command}: {pages:?}"
        );
        for script in &scripts {
            assert!(script.contains(&command), "{command}:\n{script}");
        }
    }
    std::fs::write(home.join("script"), &scripts[0]).unwrap();
    shell(home.path(), "bash -n script").run();
}

/// What is typed wrongly, and what the answer has to hold: the fault, and what to do about it.
#[test]
fn a_slip_is_answered_with_what_to_do() {
    let home = TempDir::new("slips");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let topic = |spec: &str| {
        format!("apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: t}}\nspec: {spec}\n")
    };
    std::fs::create_dir_all(home.join("empty")).unwrap();
    std::fs::write(home.join("file"), "").unwrap();
    std::fs::write(home.join("good.yaml"), topic("{}")).unwrap();
    std::fs::write(home.join("key.yaml"), topic("{config: {retention.mss: 1d}}")).unwrap();
    std::fs::write(home.join("field.yaml"), topic("{confg: {retention.ms: 1d}}")).unwrap();
    std::fs::write(home.join("value.yaml"), topic("{config: {retention.ms: 1.5d}}")).unwrap();
    std::fs::write(
        home.join("kind.yaml"),
        topic("{}").replace("kind: Topic", "kind: topic"),
    )
    .unwrap();
    let taken = format!("run --topics empty --listen 127.0.0.1:{port} --control 127.0.0.1:0");
    let answers: &[(&str, &[&str])] = &[
        ("", &["Usage: tidemark", "Commands:", "Examples:"]),
        ("strat", &["'strat'", "--help"]),
        ("run --topcis empty", &["'--topcis'", "'--topics'"]),
        ("run", &["./topics", "is not there", "--topics DIR"]),
        (
            "run --listen localhost:9092",
            &["--listen", "localhost:9092", "IP:PORT", "127.0.0.1:9092"],
        ),
        (&taken, &["cannot listen on", "in use", "--listen"]),
        (
            "run --topics empty --listen 127.0.0.1:0 --control 127.0.0.1:0 --data file",
            &["file: not a directory", "--data"],
        ),
        ("engine --check-interval soon", &["--check-interval", "soon"]),
        ("engine --check-interval 0", &["--check-interval", "1 ms or more"]),
        (
            "engine --default retention.msx=1",
            &["retention.msx", "did you mean retention.ms?"],
        ),
        ("engine --default retention.ms", &["KEY=VALUE"]),
        ("engine --durability always", &["page-cache", "interval=", "ack"]),
        (
            "engine --control 0.0.0.0:9097",
            &["0.0.0.0:9097", "--control-token-file"],
        ),
        (
            "engine --control 0.0.0.0:9097 --control-token-file nowhere",
            &["--control-token-file", "nowhere", "No such file"],
        ),
        (
            "engine --control 0.0.0.0:9097 --control-token-file file",
            &["--control-token-file", "file is empty", "bearer token"],
        ),
        ("engine --durability interval=0s", &["interval=0s", "1ms or more"]),
        (
            "engine --advertise broker:99999",
            &["--advertise", "broker:99999", "HOST:PORT", "1 to 65535"],
        ),
        ("engine --identity ''", &["--identity", "not empty"]),
        ("engine --log loud", &["loud", "info"]),
        ("status", &["tidemark run", "--data"]),
        ("plan", &["--file <FILE>"]),
        ("plan -f nowhere.yaml", &["nowhere.yaml", "No such file"]),
        ("plan -f empty", &["no Topic in empty", "kind: Topic"]),
        (
            "plan -f key.yaml",
            &[
                "key.yaml: line 4: spec.config.retention.mss",
                "did you mean retention.ms?",
            ],
        ),
        (
            "plan -f field.yaml",
            &["field.yaml: line 4: spec.confg", "did you mean config?"],
        ),
        (
            "plan -f value.yaml",
            &[
                "value.yaml: line 4: spec.config.retention.ms",
                "1.5d",
                "whole number",
            ],
        ),
        (
            "plan -f kind.yaml",
            &["kind.yaml: line 2: kind: topic", "known is Topic"],
        ),
        (
            "plan -f good.yaml --control 127.0.0.1:1",
            &["127.0.0.1:1", "refused", "tidemark run", "--control", "--data"],
        ),
        (
            "plan -f good.yaml --control https://127.0.0.1:1",
            &["--control", "https://127.0.0.1:1", "http://HOST:PORT"],
        ),
        ("plan -f good.yaml --data empty", &["empty is no data directory"]),
        ("inspect nowhere", &["nowhere: No such file"]),
        ("inspect empty", &["empty", "TOPIC-NUMBER"]),
        ("inspect empty --set retention.ms=1d", &["--plan"]),
        ("explain Slow", &["Slow", "tidemark explain"]),
        ("completions tcsh", &["tcsh", "bash", "zsh"]),
        ("operator", &["Kubernetes", "KUBECONFIG", "tidemark run"]),
    ];
    let doubled = regex::Regex::new(r"\(os error \d+\).*\(os error").unwrap();
    for (arguments, wanted) in answers {
        let ended = shell(home.path(), &format!("tidemark {arguments}"))
            .env("HOME", home.path())
            .env("KUBECONFIG", "")
            .output();
        let told = stderr(&ended);
        assert_eq!(ended.status.code(), Some(1), "tidemark {arguments}: {told}");
        assert_eq!(stdout(&ended), "", "an error is told on standard error");
        for words in *wanted {
            assert!(
                told.contains(words),
                "tidemark {arguments} does not say {words:?}:\n{told}"
            );
        }
        assert!(!told.contains("panicked"), "{told}");
        assert!(!doubled.is_match(&told), "told twice: {told}");
    }
}

#[test]
fn a_reader_that_goes_is_no_error_and_a_full_disk_is() {
    let home = TempDir::new("pipes");
    for command in [
        "crd",
        "completions bash",
        "explain",
        "explain SlowReader",
        "demo",
        "run --help",
    ] {
        let ended = shell(home.path(), &format!("tidemark {command} | head -n 1")).output();
        assert!(
            ended.status.success(),
            "{command}: {} {}",
            ended.status,
            stderr(&ended)
        );
        assert_eq!(stderr(&ended), "", "{command}");
        assert_eq!(stdout(&ended).lines().count(), 1, "{command}");
    }
    for command in ["crd", "explain", "demo"] {
        let ended = shell(home.path(), &format!("tidemark {command} >/dev/full")).output();
        assert_eq!(ended.status.code(), Some(1), "{command}");
        let told = stderr(&ended);
        assert!(
            told.starts_with("error: write to standard output"),
            "{command}: {told}"
        );
    }
}

/// A directory that `tidemark run` has left: `orders` in force, `faulty` held back by a reader that is not known.
fn left_by_a_run(home: &Path) {
    let topics = home.join("topics");
    std::fs::create_dir_all(&topics).unwrap();
    let manifest = |name: &str, spec: &str| {
        let text = format!(
            "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        );
        std::fs::write(topics.join(format!("{name}.yaml")), text).unwrap();
    };
    manifest("orders", "{partitions: 2, config: {retention.ms: 7d}}");
    manifest("a.b", "{}");
    let mut run = Tidemark::run(home, &[]);
    let status = |wanted: &[&str]| {
        eventually(&format!("a status with {wanted:?}"), PATIENCE, || {
            let printed = stdout(&tidemark(["status"]).directory(home).output());
            let all = wanted.iter().all(|words| printed.contains(words));
            if all { Ok(()) } else { Err(printed) }
        });
    };
    status(&["orders", "a.b"]);
    // The same name to a metric as `a.b`, so it is refused.
    manifest("clashing", "{topicName: a_b}");
    status(&["NameCollision"]);
    manifest("bad", "{config: {retention.ms: 1.5d}}");
    status(&["bad.yaml"]);
    assert!(run.stop().success());
}

#[test]
fn status_is_told_for_people_and_for_scripts() {
    let home = TempDir::new("status");
    left_by_a_run(home.path());
    let ended = tidemark(["status"]).directory(home.path()).output();
    let table = stdout(&ended);
    assert!(
        stderr(&ended).starts_with("note: nothing runs on ./data"),
        "{}",
        stderr(&ended)
    );
    let rows: Vec<&str> = table.lines().collect();
    assert!(
        rows[0].starts_with("NAME       PARTITIONS   RETENTION"),
        "{table}"
    );
    let column = rows[0].find("READY").unwrap();
    for row in &rows[1..4] {
        assert!(
            ["True", "False"]
                .iter()
                .any(|state| row[column..].starts_with(state)),
            "{table}"
        );
    }
    // Why it is not ready stands below, with the command that says what to do; the command works.
    let why = table.split("\n\n").nth(1).unwrap();
    assert!(why.starts_with("clashing: "), "{table}");
    let page = why.trim().rsplit("What to do: ").next().unwrap();
    let page = stdout(&shell(home.path(), page).output());
    assert!(page.starts_with("# NameCollision\n"), "{page}");

    let not_taken = table.split("\n\n").nth(2).unwrap();
    assert!(
        not_taken.starts_with("bad.yaml: not taken: line 4: spec.config.retention.ms: \"1.5d\": "),
        "{table}"
    );

    let wide = tidemark(["status", "-o", "wide"]).directory(home.path()).run();
    assert!(wide.lines().next().unwrap().ends_with("MESSAGE"), "{wide}");
    assert_eq!(wide.split("\n\n").next().unwrap().lines().count(), 4, "{wide}");
    let json = tidemark(["status", "-o", "json"]).directory(home.path()).run();
    let listed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(3));
    let yaml = tidemark(["status", "orders", "-o", "yaml"])
        .directory(home.path())
        .output();
    assert!(
        stdout(&yaml).contains("observedGeneration: 1"),
        "{}",
        stdout(&yaml)
    );
    assert_eq!(stderr(&yaml), "", "a script is told nothing beside");

    let nobody = tidemark(["status", "order"]).directory(home.path()).output();
    assert_eq!(nobody.status.code(), Some(1));
    assert!(stderr(&nobody).contains("no Topic order"), "{}", stderr(&nobody));
}

#[test]
fn watching_shows_each_change_once_under_the_same_headers() {
    let home = TempDir::new("watch");
    left_by_a_run(home.path());
    let mut run = Tidemark::run(home.path(), &[]);
    let watch = tidemark(["status", "--watch"])
        .directory(home.path())
        .spawn(&home.path().join("topics"));
    until("the first table", PATIENCE, || watch.log().contains("orders"));
    let raised = "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {name: orders}\nspec: {config: {retention.ms: 9d}}\n";
    std::fs::write(home.join("topics/orders.yaml"), raised).unwrap();
    until("the change", PATIENCE, || watch.log().contains("9d"));
    let log = watch.log();
    assert_eq!(log.matches("NAME ").count(), 1, "{log}");
    assert!(!log.contains("note:"), "something runs: {log}");
    let place = |needle: &str| log.lines().find_map(|line| line.find(needle)).unwrap();
    assert_eq!(place("7d"), place("9d"), "{log}");
    drop(watch);
    assert!(run.stop().success());
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let home = TempDir::new("colour");
    left_by_a_run(home.path());
    let escape = '\u{1b}';
    assert!(on_a_terminal(home.path(), 100, &[], "status").contains(escape));
    assert!(
        on_a_terminal(home.path(), 100, &[], "plan").contains(escape),
        "errors too"
    );
    for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        for command in ["status", "plan", "--help"] {
            let shown = on_a_terminal(home.path(), 100, &[plain], command);
            assert!(!shown.contains(escape), "{plain:?} {command}: {shown:?}");
        }
    }
    for command in ["status", "plan", "--help"] {
        let ended = shell(home.path(), &format!("tidemark {command} 2>&1 | cat")).output();
        assert!(!stdout(&ended).contains(escape), "{command}: {}", stdout(&ended));
    }
}

#[test]
fn a_narrow_terminal_is_filled_and_not_overrun() {
    let home = TempDir::new("narrow");
    left_by_a_run(home.path());
    let plain = [("NO_COLOR", "1")];
    let status = on_a_terminal(home.path(), 60, &plain, "status");
    let why = status.split("\n\n").nth(1).unwrap();
    assert!(
        why.lines().count() > 2 && why.lines().all(|line| line.chars().count() <= 60),
        "{status}"
    );
    let demo = on_a_terminal(home.path(), 60, &plain, "demo");
    assert!(demo.contains("No reader lost a record."), "{demo}");
    for line in demo.lines() {
        assert!(line.chars().count() <= 60, "{line}\n{demo}");
    }
}

/// `tidemark run` on a terminal of 60 columns: where to connect, what happens, and how it ends with Ctrl-C.
#[test]
fn run_tells_a_terminal_what_it_does() {
    let home = TempDir::new("terminal");
    std::fs::create_dir(home.join("topics")).unwrap();
    let manifest = |name: &str, spec: &str| {
        let text = format!(
            "apiVersion: tidemark.dev/v1alpha1\nkind: Topic\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        );
        std::fs::write(home.join(format!("topics/{name}.yaml")), text).unwrap();
    };
    manifest("orders", "{topicName: Orders.v1, config: {retention.ms: 7d}}");
    let address = || format!("127.0.0.1:{}", free_port());
    let (kafka, control) = (address(), address());
    let command = format!("stty cols 60; exec '{BINARY}' run --listen {kafka} --control {control}");
    let mut script = Start::new("script", "script")
        .args(["-fqec", &command, "shown"])
        .directory(home.path())
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .env("NO_COLOR", "1")
        .piped();
    let shown = || {
        std::fs::read_to_string(home.join("shown"))
            .unwrap_or_default()
            .replace('\r', "")
    };
    let shows = |words: &str| {
        eventually(&format!("{words:?} on the terminal"), PATIENCE, || {
            let shown = shown();
            if shown.contains(words) { Ok(()) } else { Err(shown) }
        });
    };
    shows(&format!("Kafka clients   {kafka}\n"));
    shows(&format!("  echo hello | kcat -b {kafka} -t Orders.v1 -P\n"));
    shows("orders: Ready (Applied), in force 7d / unlimited\n");
    manifest("bad", "{config: {retention.ms: 1.5d}}");
    shows("! bad.yaml: line 4: spec.config.retention.ms:");
    std::fs::remove_file(home.join("topics/bad.yaml")).unwrap();
    shows("  bad.yaml: gone\n");
    script.stdin.take().unwrap().write_all(b"\x03").unwrap();
    assert!(script.wait().unwrap().success(), "{}", shown());
    shows("stopping: requests are finished, logs are closed\n");
    assert!(
        home.join("data/logs/.kafka_cleanshutdown").exists(),
        "it did not close cleanly"
    );
    for line in shown().lines().filter(|line| !line.starts_with("Script ")) {
        assert!(line.chars().count() <= 60, "{line}\n{}", shown());
    }
}

#[test]
fn an_interrupted_demonstration_leaves_nothing() {
    let home = TempDir::new("interrupted");
    let temporary = home.join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut demo = tidemark(["demo"]).env("TMPDIR", &temporary).spawn(home.path());
    until("its first files", PATIENCE, || {
        std::fs::read_dir(&temporary).unwrap().count() > 0 || !demo.is_running()
    });
    demo.signal(Signal::INT);
    let ended = demo.wait(PATIENCE);
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    // One that was faster than the signal has ended well.
    assert!(matches!(ended.code(), Some(0 | 1)), "{ended}\n{}", demo.log());
    if ended.code() == Some(1) {
        assert!(
            demo.log()
                .ends_with("error: interrupted before the end; nothing is left behind\n"),
            "{}",
            demo.log()
        );
    }
}

#[test]
fn logs_are_lines_or_json_and_go_to_standard_error() {
    let home = TempDir::new("logs");
    let mut engine = Tidemark::engine(home.path(), &["--log-format", "json"]);
    assert!(engine.stop().success());
    let log = std::fs::read_to_string(home.join("engine.log"))
        .or_else(|_| std::fs::read_to_string(home.join("tidemark.log")))
        .unwrap();
    assert!(log.lines().count() > 1, "{log}");
    for line in log.lines() {
        let event: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(
            event["level"].is_string() && event["message"].is_string(),
            "{line}"
        );
    }
}
