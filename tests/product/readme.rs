//! What the README says is so.
use std::collections::BTreeSet;
use std::path::PathBuf;

pub fn text() -> String {
    std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// The fenced blocks of a language, in order.
pub fn blocks(language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text().lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((info == language, String::new())),
            (Some((wanted, block)), Some("")) => {
                if *wanted {
                    blocks.push(std::mem::take(block));
                }
                open = None;
            }
            (Some((_, block)), _) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence in the README is not closed");
    blocks
}

/// Every command line of the README.
pub fn commands() -> Vec<String> {
    blocks("sh")
        .iter()
        .flat_map(|block| block.lines())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_path_that_is_named_is_there() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let named = regex::Regex::new(r"(?:src|deploy|tests|crds|benches)/[A-Za-z0-9_./-]*").unwrap();
    let text = text();
    let paths: BTreeSet<&str> = named
        .find_iter(&text)
        .map(|path| path.as_str().trim_end_matches(['.', '/']))
        .collect();
    assert!(paths.len() > 10, "{paths:?}");
    for path in paths {
        assert!(
            root.join(path).exists(),
            "the README names {path}, which is not there"
        );
    }
}

/// A reader who is new to the code finds what the table sends him to.
#[test]
fn every_function_of_the_table_is_where_it_says() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let named = regex::Regex::new(r"`([a-z_]+)` in `(src/[a-z_/]+\.rs)`").unwrap();
    let text = text();
    let named: Vec<(&str, &str)> = named
        .captures_iter(&text)
        .map(|found| found.extract::<2>().1.into())
        .collect();
    assert!(named.len() >= 4, "{named:?}");
    for (function, file) in named {
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(
            source.contains(&format!("pub fn {function}(")),
            "{function} is not in {file}"
        );
        assert!(source.starts_with("//! "), "{file} does not say what it is for");
    }
}

/// Each command of the README is run by a test, word for word; this says by which.
#[test]
fn every_command_has_a_test() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let embedded = std::fs::read_to_string(root.join("tests/product/embedded.rs")).unwrap();
    let mut elsewhere = String::new();
    for tier in ["operator", "node"] {
        for entry in std::fs::read_dir(root.join("tests").join(tier))
            .into_iter()
            .flatten()
        {
            elsewhere.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default());
        }
    }
    for command in commands() {
        // The command that runs the tests is being run.
        let itself = command == "tests/run";
        let in_cluster = command.starts_with("kubectl ") && elsewhere.contains(&command);
        let here = embedded.contains(&command.replace('"', "\\\""));
        assert!(
            itself || in_cluster || here,
            "no test runs what the README says: {command}"
        );
    }
}
