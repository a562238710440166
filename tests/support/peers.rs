//! Where the installed peers are.
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

pub const INSTALLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/install");

/// The folder of a peer, as `tests/peers/install where NAME` tells it. Panics when it is not installed.
#[track_caller]
pub fn folder(name: &str) -> PathBuf {
    static KNOWN: LazyLock<Mutex<HashMap<String, PathBuf>>> = LazyLock::new(Mutex::default);
    if let Some(path) = KNOWN.lock().expect("no panic under the lock").get(name) {
        return path.clone();
    }
    let output = Command::new(INSTALLER)
        .args(["where", name])
        .output()
        .expect("bash can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let path = PathBuf::from(String::from_utf8(output.stdout).expect("a path in UTF-8").trim());
    KNOWN
        .lock()
        .expect("no panic under the lock")
        .insert(name.to_owned(), path.clone());
    path
}

/// The executable of a peer whose folder and file have the same name.
#[track_caller]
pub fn executable(name: &str) -> PathBuf {
    folder(name).join(name)
}

/// A file of the source tree.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
