//! Two releases of this source tree, and the images of both.
use crate::support::peers;
use crate::support::process::Start;
use std::path::{Path, PathBuf};

/// The version of the source tree.
pub const THIS: &str = env!("CARGO_PKG_VERSION");

/// The version of the release after it.
pub fn next() -> String {
    let numbers: Vec<u32> = THIS
        .split('.')
        .map(|number| number.parse().expect("a release"))
        .collect();
    format!("{}.{}.0", numbers[0], numbers[1] + 1)
}

/// Builds the images of this release and of the next one. The profile is `TIDEMARK_NODE_PROFILE`, `dev` where that is not set.
pub fn build(folder: &Path) {
    write_next_release();
    image_of(&peers::source(""), &folder.join("this.tar"));
    image_of(&next_release(), &folder.join("next.tar"));
}

/// The source tree of the next release. Its place is always the same, so a build finds what it built before.
pub fn next_release() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("next-release")
}

/// A copy in which only the version is another, as after the commit that makes a release.
fn write_next_release() {
    let copy = next_release();
    if copy.exists() {
        std::fs::remove_dir_all(&copy).expect("our own folder");
    }
    std::fs::create_dir_all(&copy).expect("a folder of the build tree");
    // With their times, by which cargo tells what is built already.
    Start::new("cp", "cp")
        .args(["--archive", "Cargo.toml", "Cargo.lock", "src", "crds", "deploy"])
        .arg(&copy)
        .directory(env!("CARGO_MANIFEST_DIR"))
        .run();
    for (file, before) in [
        ("Cargo.toml", "name = \"tidemark\"\nversion = \""),
        ("Cargo.lock", "name = \"tidemark\"\nversion = \""),
        ("deploy/kustomization.yaml", "newTag: "),
    ] {
        let file = copy.join(file);
        let text = std::fs::read_to_string(&file).expect("it was copied");
        let named = format!("{before}{THIS}");
        assert_eq!(text.matches(&named).count(), 1, "{}: {named}", file.display());
        let text = text.replace(&named, &format!("{before}{}", next()));
        std::fs::write(&file, text).expect("our own folder");
    }
}

fn image_of(tree: &Path, archive: &Path) {
    let profile = std::env::var("TIDEMARK_NODE_PROFILE").unwrap_or_else(|_| "dev".to_owned());
    // A folder of its own: a static build shares nothing with that of the tests. It stays, so only the first run is slow.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("static");
    Start::new("deploy/image/build", tree.join("deploy/image/build"))
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "0")
        .env("RUSTFLAGS", "-C debuginfo=0")
        .args(["--profile", &profile])
        .arg(archive)
        .run();
}
