//! The Topics of a directory with their statuses, as files: what an API server would keep.
//!
//! A record holds what a manifest cannot: generation, deletion mark, finalizer and status. It is replaced as a whole, by
//! renaming a finished file over it, so a reader never sees half of one.
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::scan::Key;
use crate::resource::manifest::Fault;
use crate::resource::topic::Topic;

/// The manifests that are not taken, beside the records: an object of lists, by the name of the file.
pub const FAULTS: &str = "faults.json";

/// The records of a data directory: `DATA/status/<namespace>/<name>.yaml`.
#[derive(Debug)]
pub struct Records {
    root: PathBuf,
}

impl Records {
    /// Records under `root`.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Every record that can be read; one that cannot is as good as none, because a status can be made anew.
    pub fn load(&self) -> BTreeMap<Key, Topic> {
        let mut records = BTreeMap::new();
        for namespace in entries(&self.root) {
            for path in entries(&namespace) {
                if path.extension().is_none_or(|extension| extension != "yaml") {
                    continue;
                }
                let Some(topic) = read(&path) else {
                    tracing::warn!(path = %path.display(), "record cannot be read; its status is made anew");
                    continue;
                };
                if let (Some(namespace), Some(name)) =
                    (topic.metadata.namespace.clone(), topic.metadata.name.clone())
                {
                    records.insert((namespace, name), topic);
                }
            }
        }
        records
    }

    /// One record, if there is one that can be read.
    pub fn read(&self, key: &Key) -> Option<Topic> {
        read(&self.path(key))
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(&key.0).join(format!("{}.yaml", key.1))
    }

    /// Replaces a record.
    ///
    /// # Errors
    /// Those of the file system; the old record stays.
    pub fn write(&self, key: &Key, topic: &Topic) -> io::Result<()> {
        let text = serde_yaml::to_string(topic).map_err(io::Error::other)?;
        replace(&self.path(key), text.as_bytes())
    }

    /// Replaces the list of manifests that are not taken; there is no file where all are.
    ///
    /// # Errors
    /// Those of the file system; the old list stays.
    pub fn write_faults(&self, faults: &BTreeMap<String, Vec<Fault>>) -> io::Result<()> {
        let path = self.root.join(FAULTS);
        if faults.is_empty() {
            return remove_if_there(&path);
        }
        replace(&path, &serde_json::to_vec_pretty(faults)?)
    }

    /// Removes a record; one that is not there is removed.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(&self, key: &Key) -> io::Result<()> {
        remove_if_there(&self.path(key))
    }
}

/// Readers find the old content or the new, whole, also after a power loss.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_data()?;
    drop(file);
    fs::rename(temporary, path)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Option<Topic> {
    serde_yaml::from_str(&fs::read_to_string(path).ok()?).ok()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(listing) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}
