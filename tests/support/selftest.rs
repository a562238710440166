//! The helpers themselves, as far as they need no peer.
use crate::support::ports::free_port;
use crate::support::process::Start;
use crate::support::temp::TempDir;
use crate::support::wait::{PATIENCE, until};
use std::path::Path;

#[test]
fn a_dropped_guard_kills_the_whole_group() {
    let home = TempDir::new("guard");
    // The shell starts a child of its own and tells its id.
    let script = "sleep 600 & echo $!; wait";
    let guard = Start::new("group", "sh").args(["-c", script]).spawn(home.path());
    until("the child's id", PATIENCE, || guard.log().ends_with('\n'));
    let child = guard.log().trim().to_owned();
    let alive =
        || std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(alive());
    drop(guard);
    until("the child to be gone", PATIENCE, || !alive());
}

#[test]
fn a_temporary_folder_goes_away() {
    let home = TempDir::new("temporary");
    let path = home.path().to_path_buf();
    std::fs::write(home.join("file"), b"x").expect("a file in our own folder");
    drop(home);
    assert!(!Path::new(&path).exists());
}

#[test]
fn ports_differ() {
    let ports: std::collections::BTreeSet<u16> = (0..50).map(|_| free_port()).collect();
    assert_eq!(ports.len(), 50);
}

#[test]
fn what_a_program_prints_and_how_it_ends_is_told() {
    let cat = Start::new("cat", "cat");
    assert_eq!(cat.run_with(b"hello"), "hello");
    let output = Start::new("sh", "sh")
        .args(["-c", "echo no >&2; exit 3"])
        .output();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stderr, b"no\n");
}
