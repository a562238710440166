//! Topics in files: several documents a file, every fault with its line.
//!
//! The API server's part of the checks (unknown fields, types, ranges) is done here for manifests that never see one,
//! with the same table of keys. A fault in one document never hides the others.
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_yaml::Value;

use super::contract::Owner;
use super::desired::{self, Path, Step, Violation};
use super::keys;
use super::slips;
use super::topic::{API_VERSION, GROUP, KIND, Topic};

/// A fault in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Line, counted from 1; 0 where there is none.
    pub line: usize,
    /// The field, where it is one.
    pub field: String,
    /// The value as written, where it is about one.
    pub value: String,
    /// What is wrong, with the bound.
    pub message: String,
    /// `namespace/name` of the Topic, where it has one.
    pub topic: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(formatter, "line {}: ", self.line)?;
        }
        if !self.field.is_empty() {
            write!(formatter, "{}: ", self.field)?;
        }
        if !self.value.is_empty() {
            write!(formatter, "{}: ", self.value)?;
        }
        formatter.write_str(&self.message)
    }
}

/// A Topic and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Located {
    /// The Topic, with its namespace filled in.
    pub topic: Topic,
    /// First line of its document.
    pub line: usize,
}

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifests {
    /// Topics without a fault.
    pub topics: Vec<Located>,
    /// Faults of the others.
    pub faults: Vec<Fault>,
}

/// The largest manifest file that is read, bytes.
pub const MOST_BYTES: u64 = 4 << 20;

/// Reads the Topics of a file. Documents of other kinds pass by; Topics without a namespace get `namespace`.
pub fn read(text: &str, namespace: &str) -> Manifests {
    let mut manifests = Manifests::default();
    for (first, document) in documents(text) {
        read_document(document, first, namespace, &mut manifests);
    }
    manifests
}

/// Splits a stream at its `---` lines; each document with the number of its first line.
fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut first, mut at) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let bare = line.trim_end();
        if bare == "---" || bare.starts_with("--- ") || bare == "..." {
            documents.push((first, text.get(start..at).unwrap_or_default()));
            start = at + line.len();
            first = index + 2;
        }
        at += line.len();
    }
    documents.push((first, text.get(start..).unwrap_or_default()));
    documents
}

fn read_document(document: &str, first: usize, namespace: &str, manifests: &mut Manifests) {
    let line_of =
        |error: &serde_yaml::Error| error.location().map_or(0, |location| first + location.line() - 1);
    let value: Value = match serde_yaml::from_str(document) {
        Ok(Value::Null) => return,
        Ok(value) => value,
        Err(error) => {
            let fault = Fault {
                line: line_of(&error),
                message: plain(&error),
                ..Fault::nowhere()
            };
            manifests.faults.push(fault);
            return;
        }
    };
    let text = |path: [&str; 1]| {
        value
            .get(path[0])
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (api_version, kind) = (text(["apiVersion"]), text(["kind"]));
    if value.as_mapping().is_none() {
        manifests.faults.push(Fault {
            line: first,
            message: "is no Kubernetes manifest".to_owned(),
            ..Fault::nowhere()
        });
        return;
    }
    let ours = api_version.starts_with(&format!("{GROUP}/"));
    let near = if ours && kind != KIND {
        Some(("kind", &kind, KIND))
    } else if kind == KIND
        && !value
            .as_mapping()
            .is_some_and(|fields| fields.contains_key("apiVersion"))
    {
        Some(("apiVersion", &api_version, API_VERSION))
    } else {
        None
    };
    if let Some((field, written, known)) = near {
        // Nearly a Topic is a Topic with a slip in it; to pass it by would be to forget it in silence.
        manifests.faults.push(Fault {
            line: line(document, &Path::of(&[field])).map_or(first, |line| first + line - 1),
            field: field.to_owned(),
            value: written.clone(),
            message: if written.is_empty() {
                format!("is required; it is {known}")
            } else {
                format!("is not known; known is {known}")
            },
            topic: None,
        });
        return;
    }
    if kind != KIND || !ours {
        return;
    }
    let name = value
        .get("metadata")
        .and_then(|metadata| metadata.get("name"))
        .and_then(Value::as_str);
    let own = value
        .get("metadata")
        .and_then(|metadata| metadata.get("namespace"))
        .and_then(Value::as_str);
    let topic = name.map(|name| format!("{}/{name}", own.unwrap_or(namespace)));
    let mut faults = Vec::new();
    if api_version != API_VERSION {
        let message = format!("is not known; known is {API_VERSION}");
        faults.push(Violation {
            path: Path::of(&["apiVersion"]),
            value: api_version,
            message,
        });
    }
    check_name(name, own, &mut faults);
    let mut known = value.clone();
    check_fields(&mut known, &Path::default(), &[], &mut faults);
    // What is known of a manifest with a fault is checked all the same, so that one look tells them all; the text, where
    // nothing had to be left out, because only that has lines.
    let parsed = if faults.is_empty() {
        serde_yaml::from_str::<Topic>(document).map_err(|error| (line_of(&error), error))
    } else {
        serde_yaml::to_string(&known)
            .and_then(|text| serde_yaml::from_str(&text))
            .map_err(|error| (first, error))
    };
    match parsed {
        Ok(mut topic) => {
            topic
                .metadata
                .namespace
                .get_or_insert_with(|| namespace.to_owned());
            let nobody = Owner {
                uid: String::new(),
                namespace: String::new(),
                name: String::new(),
            };
            let mut found = desired::desired(&topic, nobody).err().unwrap_or_default();
            found.retain(|violation| faults.iter().all(|fault| fault.path != violation.path));
            faults.extend(found);
            if faults.is_empty() {
                manifests.topics.push(Located { topic, line: first });
            }
        }
        Err((line, error)) => {
            let message = plain(&error);
            let (field, message) = message.split_once(": ").unwrap_or(("", message.as_str()));
            manifests.faults.push(Fault {
                line,
                field: field.to_owned(),
                value: String::new(),
                message: message.to_owned(),
                topic: topic.clone(),
            });
        }
    }
    manifests.faults.extend(faults.into_iter().map(|violation| Fault {
        line: line(document, &violation.path).map_or(first, |line| first + line - 1),
        field: violation.path.to_string(),
        value: violation.value,
        message: violation.message,
        topic: topic.clone(),
    }));
}

impl Fault {
    fn nowhere() -> Self {
        Self {
            line: 0,
            field: String::new(),
            value: String::new(),
            message: String::new(),
            topic: None,
        }
    }
}

/// The parser's text without its own position, which counts from the document.
fn plain(error: &serde_yaml::Error) -> String {
    let text = error.to_string();
    match text.find(" at line ") {
        Some(at) => text.get(..at).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// `metadata.name` by the rules of the API server (RFC 1123 subdomain): it becomes a file name here.
fn check_name(name: Option<&str>, namespace: Option<&str>, faults: &mut Vec<Violation>) {
    let path = Path::of(&["metadata", "name"]);
    let Some(name) = name else {
        faults.push(Violation {
            path,
            value: String::new(),
            message: "is required".to_owned(),
        });
        return;
    };
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let subdomain = |text: &str| {
        text.len() <= 253
            && text.split('.').all(|label| {
                label.starts_with(allowed)
                    && label.ends_with(allowed)
                    && label.chars().all(|c| allowed(c) || c == '-')
            })
    };
    for (path, text) in [
        (path, Some(name)),
        (Path::of(&["metadata", "namespace"]), namespace),
    ] {
        if let Some(text) = text.filter(|text| !subdomain(text)) {
            let message = "must be lower case letters, digits, '-' and '.', and begin and end with a letter or digit; \
                           set spec.topicName for another topic name";
            faults.push(Violation {
                path,
                value: format!("{text:?}"),
                message: message.to_owned(),
            });
        }
    }
}

/// Unknown fields, at every level of the spec, with the one that was meant; they are taken out of `value`.
fn check_fields(value: &mut Value, path: &Path, schema: &[&str], faults: &mut Vec<Violation>) {
    if let Value::Sequence(items) = value {
        for (index, item) in items.iter_mut().enumerate() {
            check_fields(item, &path.index(index), schema, faults);
        }
        return;
    }
    let (Some(fields), Some(known)) = (value.as_mapping_mut(), desired::known_fields(schema)) else {
        return;
    };
    fields.retain(|name, child| {
        let Some(name) = name.as_str() else { return true };
        let path = path.key(name);
        if !known.contains(&name) {
            let (what, hint) = if schema.last() == Some(&"config") {
                ("is not a topic setting", keys::hint(name))
            } else {
                let hint = slips::meant(name, known.iter().copied()).map_or_else(
                    || format!("known here are {}", known.join(", ")),
                    |meant| format!("did you mean {meant}?"),
                );
                ("is not a field", Some(hint))
            };
            let message = hint.map_or_else(|| what.to_owned(), |hint| format!("{what}: {hint}"));
            faults.push(Violation {
                path,
                value: String::new(),
                message,
            });
            return false;
        }
        let mut deeper = schema.to_vec();
        deeper.push(name);
        check_fields(child, &path, &deeper, faults);
        true
    });
}

/// The line of a field within a document, counted from 1; that of the nearest parent where the field itself has none.
pub fn line(document: &str, path: &Path) -> Option<usize> {
    let lines: Vec<&str> = document.lines().collect();
    let mut range = (0, lines.len());
    let mut found = None;
    for step in &path.0 {
        let next = match step {
            Step::Key(key) => find_key(&lines, range, key),
            Step::Index(index) => find_item(&lines, range, *index),
        };
        match next {
            Some((at, end)) => {
                found = Some(at + 1);
                range = (at, end);
            }
            None => break,
        }
    }
    found
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Where the first field of a line begins, behind the dash of a list.
fn column(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '-']).len()
}

fn is_content(line: &str) -> bool {
    let text = line.trim_start();
    !text.is_empty() && !text.starts_with('#')
}

/// Line and end of the block of `key:`: the shallowest one in the range, or one inside braces.
fn find_key(lines: &[&str], (from, to): (usize, usize), key: &str) -> Option<(usize, usize)> {
    let forms = [format!("{key}:"), format!("\"{key}\":"), format!("'{key}':")];
    let at_start = |line: &str| {
        let text = line.trim_start_matches([' ', '-']);
        forms.iter().any(|form| text.starts_with(form.as_str()))
    };
    let inside = |line: &str| {
        forms
            .iter()
            .any(|form| line.contains(&format!("{{{form}")) || line.contains(&format!(" {form}")))
    };
    let range = || {
        lines
            .iter()
            .enumerate()
            .take(to)
            .skip(from)
            .filter(|(_, line)| is_content(line))
    };
    let at = range()
        .filter(|(_, line)| at_start(line))
        .min_by_key(|(at, line)| (column(line), *at))
        .or_else(|| range().find(|(_, line)| inside(line)))
        .map(|(at, _)| at)?;
    let depth = lines.get(at).map_or(0, |line| column(line));
    let block = lines
        .iter()
        .enumerate()
        .take(to)
        .skip(at + 1)
        .filter(|(_, line)| is_content(line));
    let end = block
        .map(|(index, line)| (index, indent(line), line.trim_start().starts_with('-')))
        .find(|(_, deep, item)| *deep < depth || (*deep == depth && !item))
        .map_or(to, |(index, _, _)| index);
    Some((at, end))
}

/// Line and end of the `index`th `- ` of the range.
fn find_item(lines: &[&str], (from, to): (usize, usize), index: usize) -> Option<(usize, usize)> {
    let items: Vec<(usize, usize)> = lines
        .iter()
        .enumerate()
        .take(to)
        .skip(from)
        .filter(|(_, line)| line.trim_start().starts_with("- "))
        .map(|(at, line)| (at, indent(line)))
        .collect();
    let depth = items.iter().map(|(_, depth)| *depth).min()?;
    let mut same = items
        .iter()
        .filter(|(_, deep)| *deep == depth)
        .map(|(at, _)| *at)
        .skip(index);
    let at = same.next()?;
    Some((at, same.next().unwrap_or(to)))
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
