//! A small volume of its own for an engine: full, read-only, grown. Needs root.
use std::path::{Path, PathBuf};
use std::process::Command;

use tidemark::engine::health::file_system;

use super::temp::TempDir;

/// A mounted tmpfs; unmounted when dropped.
pub struct Volume {
    path: PathBuf,
    /// Goes after the mount.
    _home: Option<TempDir>,
}

impl Volume {
    /// In a folder of its own; `None` without the right to mount.
    #[track_caller]
    pub fn new(name: &str, megabytes: u32) -> Option<Self> {
        let home = TempDir::new(name);
        let mut volume = Self::on(home.path(), megabytes)?;
        volume._home = Some(home);
        Some(volume)
    }

    /// On a folder that is made where it is not there; `None` without the right to mount.
    #[track_caller]
    pub fn on(path: &Path, megabytes: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("mounting needs root: this one is left out");
            return None;
        }
        std::fs::create_dir_all(path).expect("a folder in our own");
        mount(
            path,
            &["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"],
        );
        Some(Self {
            path: path.to_path_buf(),
            _home: None,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes every byte that is left.
    #[track_caller]
    pub fn fill(&self) -> PathBuf {
        use std::io::Write;
        let filler = self.path.join("filler");
        let mut file = std::fs::File::create(&filler).expect("an empty file");
        for size in [1 << 20, 1 << 12, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        assert_eq!(file_system(&self.path).expect("a file system").free_bytes, 0);
        filler
    }

    /// As a claim that has been grown under its file system.
    #[track_caller]
    pub fn grow(&self, megabytes: u32) {
        mount(&self.path, &["-o", &format!("remount,size={megabytes}m")]);
    }

    /// Whoever opens a file from now on finds the file system read-only, until [`Self::writable`]. The same directory is
    /// mounted once more over itself: one that is written to cannot be remounted.
    #[track_caller]
    pub fn read_only(&self) {
        mount(&self.path, &["--bind", &self.path.display().to_string()]);
        mount(&self.path, &["-o", "remount,bind,ro"]);
        assert!(file_system(&self.path).expect("a file system").read_only);
    }

    #[track_caller]
    pub fn writable(&self) {
        let status = Command::new("umount").arg("-l").arg(&self.path).status();
        assert!(status.expect("umount runs").success());
        assert!(!file_system(&self.path).expect("a file system").read_only);
    }
}

#[track_caller]
fn mount(path: &Path, args: &[&str]) {
    let status = Command::new("mount").args(args).arg(path).status();
    assert!(
        status.expect("mount runs").success(),
        "mount {args:?} {}",
        path.display()
    );
}

impl Drop for Volume {
    fn drop(&mut self) {
        // What is mounted over it too, where a test failed.
        for _ in 0..2 {
            let _ = Command::new("umount")
                .arg("-l")
                .arg(&self.path)
                .stderr(std::process::Stdio::null())
                .status();
        }
    }
}
