//! Temporary folders in one place, so that a run leaves nothing behind even when it is killed.
use std::path::{Path, PathBuf};

/// Where all temporary files of the tests go: `TIDEMARK_TEST_DIR` (set, and removed at the end, by `tests/run`), otherwise a folder of
/// the build tree.
pub fn root() -> PathBuf {
    let root = std::env::var_os("TIDEMARK_TEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    std::fs::create_dir_all(&root).unwrap_or_else(|e| panic!("cannot make {}: {e}", root.display()));
    root
}

/// A folder that is removed when dropped; kept when the test fails and `TIDEMARK_KEEP` is set.
#[derive(Debug)]
pub struct TempDir(Option<tempfile::TempDir>);

impl TempDir {
    pub fn new(name: &str) -> Self {
        let directory = tempfile::Builder::new()
            .prefix(&format!("{name}-"))
            .tempdir_in(root())
            .unwrap_or_else(|e| panic!("cannot make a temporary folder for {name}: {e}"));
        Self(Some(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.as_ref().expect("present until dropped").path()
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if std::thread::panicking()
            && std::env::var_os("TIDEMARK_KEEP").is_some()
            && let Some(directory) = self.0.take()
        {
            eprintln!("kept {}", directory.keep().display());
        }
    }
}
