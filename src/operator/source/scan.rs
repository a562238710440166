//! One look at a directory of manifests.
//!
//! A look is only worth something as a whole: a directory that cannot be listed, or a file that cannot be read, says
//! nothing about what is not in it.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::resource::manifest::{self, Fault};
use crate::resource::topic::Topic;

/// `namespace/name` of a Topic.
pub type Key = (String, String);

/// What a directory holds.
#[derive(Debug, Default)]
pub struct Scan {
    /// Device and inode of the directory: another one is another place, whatever its path.
    pub identity: (u64, u64),
    /// Every Topic without a fault, with the file that declares it.
    pub topics: BTreeMap<Key, (Topic, String)>,
    /// Faults by file.
    pub faults: BTreeMap<String, Vec<Fault>>,
    /// Every Topic that some document names, faulty or not.
    pub named: BTreeSet<Key>,
    /// Files with a fault that hides which Topics they declare: nobody knows what is not in them.
    pub unreadable: BTreeSet<String>,
}

/// Reads every `*.yaml`, `*.yml` and `*.json` in `directory`, or the one file that it is. Directories in it and hidden
/// files, as editors leave them, pass by.
///
/// # Errors
/// When the directory cannot be listed.
pub fn scan(directory: &Path, namespace: &str) -> io::Result<Scan> {
    let metadata = fs::metadata(directory)?;
    let mut scan = Scan {
        identity: (metadata.dev(), metadata.ino()),
        ..Scan::default()
    };
    let mut files = Vec::new();
    if metadata.is_file() {
        files.push(directory.to_owned());
    } else {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let manifest = path
                .extension()
                .is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json");
            let hidden = path
                .file_name()
                .is_none_or(|name| name.to_string_lossy().starts_with('.'));
            if manifest && !hidden {
                files.push(path);
            }
        }
    }
    files.sort();
    for path in files {
        let file = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        match read(&path) {
            // A file that is being written, or was when the disk became full or the power went.
            Ok(Some(text)) if text.trim().is_empty() => {
                scan.unreadable.insert(file.clone());
                let fault =
                    nowhere("is empty; to remove the Topics that it declared, remove the file".to_owned());
                scan.faults.entry(file).or_default().push(fault);
            }
            Ok(Some(text)) => scan.take(&file, &text, namespace),
            Ok(None) => {}
            Err(error) => {
                scan.unreadable.insert(file.clone());
                scan.faults
                    .entry(file)
                    .or_default()
                    .push(nowhere(format!("cannot be read: {error}")));
            }
        }
    }
    Ok(scan)
}

fn nowhere(message: String) -> Fault {
    Fault {
        line: 0,
        field: String::new(),
        value: String::new(),
        message,
        topic: None,
    }
}

/// The text of a regular file; `None` if it is gone meanwhile or is no file. A link to nowhere is not gone.
fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = String::new();
    file.take(manifest::MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > manifest::MOST_BYTES {
        return Err(io::Error::other(format!(
            "it is larger than {} bytes",
            manifest::MOST_BYTES
        )));
    }
    Ok(Some(text))
}

impl Scan {
    fn take(&mut self, file: &str, text: &str, namespace: &str) {
        let manifests = manifest::read(text, namespace);
        for located in manifests.topics {
            let metadata = &located.topic.metadata;
            let key = (
                metadata.namespace.clone().unwrap_or_default(),
                metadata.name.clone().unwrap_or_default(),
            );
            self.named.insert(key.clone());
            if let Some((_, other)) = self.topics.get(&key) {
                let fault = Fault {
                    line: located.line,
                    field: "metadata.name".to_owned(),
                    value: key.1.clone(),
                    message: format!("is declared in {other} already"),
                    topic: Some(format!("{}/{}", key.0, key.1)),
                };
                self.faults.entry(file.to_owned()).or_default().push(fault);
                continue;
            }
            self.topics.insert(key, (located.topic, file.to_owned()));
        }
        for fault in manifests.faults {
            match fault.topic.as_deref().and_then(|topic| topic.split_once('/')) {
                Some((namespace, name)) => {
                    self.named.insert((namespace.to_owned(), name.to_owned()));
                }
                None => {
                    self.unreadable.insert(file.to_owned());
                }
            }
            self.faults.entry(file.to_owned()).or_default().push(fault);
        }
    }
}
