//! Stamps the commit into `tidemark --version`.
use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Asks to be run again when a file of the repository changes. One that is not there would mean: at every build.
fn watch(name: &str) {
    // In a work tree of its own, `.git` is a file that names the place.
    if let Some(path) = git(&["rev-parse", "--git-path", name])
        && Path::new(&path).exists()
    {
        println!("cargo:rerun-if-changed={path}");
    }
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=TIDEMARK_COMMIT={commit}");
    println!("cargo:rerun-if-changed=src/build.rs");
    watch("HEAD");
    // A development build need not be made anew for every commit; what is released tells the one it was built from.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && let Some(branch) = git(&["symbolic-ref", "--quiet", "HEAD"])
    {
        watch(&branch);
    }
}
