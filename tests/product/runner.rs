//! `tests/run` leaves nothing behind, however it ends, and says what it did.
//!
//! The script runs as it is, on a copy of the tree's outline, with a `cargo` that behaves as badly as tests can: it starts
//! processes that leave its session, mounts, makes a network interface, and does not end.
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::process::{ProcessGuard, Start};
use crate::support::temp::TempDir;
use crate::support::wait::{PATIENCE, until};

/// What stands for `cargo test`. `$HOME/mode` says what comes of it.
const CARGO: &str = r#"#!/usr/bin/env bash
case $(cat "$HOME/mode") in
    pass) printf 'running 3 tests\ntest a::b ... ok\ntest a::c ... ok\ntest a::d ... ignored, needs a moon\n\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n' ;;
    fail)
        printf 'running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\nfailures:\n\n---- a::c stdout ----\nno\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n'
        exit 101
        ;;
    hang)
        mkdir -p "$TIDEMARK_TEST_DIR/mounted"
        # Both need root, and a kernel that has them.
        mount -t tmpfs none "$TIDEMARK_TEST_DIR/mounted" 2>/dev/null
        setsid unshare --net sh -c 'ip link add tidemark-tests type bridge 2>/dev/null; exec sleep 7777' &
        setsid sleep 7777 &
        sleep 7777 &
        echo "a file of a test" >"$TIDEMARK_TEST_DIR/file"
        touch "$HOME/hanging"
        exec sleep 7777
        ;;
esac
"#;

/// The outline of a clone, in which `tests/run unit` runs.
struct Clone {
    home: TempDir,
}

impl Clone {
    fn new(mode: &str) -> Self {
        let home = TempDir::new("clone");
        for folder in ["tests", "bin", "tmp"] {
            std::fs::create_dir_all(home.join(folder)).unwrap();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run");
        std::fs::copy(script, home.join("tests/run")).unwrap();
        let clone = Self { home };
        clone.program("cargo", CARGO);
        clone.mode(mode);
        clone
    }

    fn mode(&self, mode: &str) {
        std::fs::write(self.home.join("mode"), mode).unwrap();
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.home.join("bin").join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn start(&self) -> Start {
        let path = std::env::var("PATH").unwrap();
        // Whoever starts these tests in the background may have left the signals ignored, and a shell cannot take that back.
        Start::new("run", "env")
            .arg("--default-signal=INT,HUP,TERM")
            .arg(self.home.join("tests/run"))
            .arg("unit")
            .directory(self.home.path())
            .env("PATH", format!("{}:{path}", self.home.join("bin").display()))
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.join("tmp"))
            .env("TIDEMARK_TEST_DIR", "")
            .env("TIDEMARK_TESTS_INSIDE", "")
            .env("TIDEMARK_PEERS", self.home.join("peers"))
    }

    /// The script in the middle of a test that does not end.
    fn hanging(&self) -> ProcessGuard {
        let mut running = self.start().spawn(self.home.path());
        until("the test to hang", PATIENCE, || {
            running.must_run().unwrap();
            self.home.join("hanging").exists()
        });
        running
    }

    /// Processes that were started for this clone, by a variable that all of them inherit.
    fn processes(&self) -> Vec<PathBuf> {
        let ours = format!("HOME={}\0", self.home.path().display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if String::from_utf8_lossy(&environment).contains(&ours) {
                found.push(entry.path());
            }
        }
        found
    }

    #[track_caller]
    fn has_nothing_left(&self) {
        until("its processes to be gone", PATIENCE, || {
            self.processes().is_empty()
        });
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let home = self.home.path().display().to_string();
        assert!(!mounts.contains(&home), "{mounts}");
        assert!(!Path::new("/sys/class/net/tidemark-tests").exists());
    }

    fn temporary(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.home.join("tmp")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

#[track_caller]
fn interrupted(interrupt: impl Fn(&ProcessGuard)) -> (Clone, ExitStatus) {
    let clone = Clone::new("hang");
    let mut running = clone.hanging();
    until("what the test starts", PATIENCE, || clone.processes().len() > 6);
    interrupt(&running);
    let ended = running.wait(PATIENCE);
    clone.has_nothing_left();
    (clone, ended)
}

/// Ctrl-C as a terminal sends it: to everything in the foreground at once.
fn press_ctrl_c(running: &ProcessGuard) {
    let group = Pid::from_raw(i32::try_from(running.pid()).unwrap()).unwrap();
    kill_process_group(group, Signal::INT).unwrap();
}

#[test]
fn ctrl_c_leaves_nothing() {
    let (clone, ended) = interrupted(press_ctrl_c);
    assert_eq!(ended.code(), Some(130));
    assert_eq!(clone.temporary(), Vec::<PathBuf>::new());
}

#[test]
fn termination_leaves_nothing() {
    for signal in [Signal::TERM, Signal::HUP] {
        let (clone, ended) = interrupted(|running| running.signal(signal));
        assert_eq!(ended.code(), Some(143));
        assert_eq!(clone.temporary(), Vec::<PathBuf>::new());
    }
}

#[test]
fn what_a_killed_run_could_not_remove_the_next_one_does() {
    let (clone, ended) = interrupted(|running| running.signal(Signal::KILL));
    assert_eq!(ended.code(), None);
    assert_eq!(clone.temporary().len(), 1, "nobody was left to remove the folder");
    clone.mode("pass");
    clone.start().run();
    assert_eq!(clone.temporary(), Vec::<PathBuf>::new());
}

/// Where namespaces are not allowed, as for an ordinary user in many containers.
#[test]
fn ctrl_c_leaves_nothing_without_namespaces() {
    let clone = Clone::new("hang");
    clone.program("unshare", "#!/bin/sh\nexit 1\n");
    clone.program(
        "setsid",
        "#!/bin/sh\n[ \"$1\" = sleep ] || exec /usr/bin/setsid \"$@\"\n",
    );
    clone.program("mount", "#!/bin/sh\nexit 1\n");
    let mut running = clone.hanging();
    press_ctrl_c(&running);
    assert_eq!(running.wait(PATIENCE).code(), Some(130));
    clone.has_nothing_left();
    assert_eq!(clone.temporary(), Vec::<PathBuf>::new());
}

#[test]
fn the_summary_tells_counts_and_what_was_skipped_and_why() {
    let clone = Clone::new("pass");
    let printed = clone.start().run();
    let summary = printed.split("== summary\n").nth(1).unwrap();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let row = summary.lines().find(|line| line.starts_with("unit")).unwrap();
    assert_eq!(&words(row)[..4], ["unit", "2", "0", "1"]);
    assert!(
        summary.contains("SKIPPED  unit: a::d: needs a moon\n"),
        "{summary}"
    );
    assert_eq!(printed.lines().last(), Some("2 passed, 0 failed"));
    assert_eq!(clone.temporary(), Vec::<PathBuf>::new());
}

#[test]
fn a_failure_is_named_and_ends_with_an_exit_code() {
    let clone = Clone::new("fail");
    let output = clone.start().output();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("FAILED   unit: a::c\n"), "{printed}");
    assert_eq!(printed.lines().last(), Some("1 passed, 1 failed"));
    assert_eq!(clone.temporary(), Vec::<PathBuf>::new());
}

#[test]
fn an_unknown_tier_or_option_is_told_with_those_there_are() {
    let clone = Clone::new("pass");
    for (argument, wanted) in [
        ("units", "the tiers are: lint unit"),
        ("--fast", "see tests/run --help"),
    ] {
        let output = clone.start().arg(argument).output();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(argument) && told.contains(wanted), "{told}");
    }
}
