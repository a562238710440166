//! The demonstration does what it says, and the README shows what it really prints.
use std::process::Command;

use crate::readme;

/// Replaces every RFC 3339 time by `TIME`: all of a transcript that differs from run to run.
fn without_times(text: &str) -> String {
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap();
    time.replace_all(text, "TIME").into_owned()
}

/// The pictures line by line, and the sentences word by word: a time that is printed shorter may break lines elsewhere.
fn paragraphs(text: &str) -> Vec<String> {
    let words = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    without_times(text)
        .split("\n\n")
        .map(|paragraph| match paragraph.contains('┌') {
            true => paragraph.to_owned(),
            false => words(paragraph),
        })
        .collect()
}

#[test]
fn the_readme_shows_what_the_demonstration_prints() {
    let ended = Command::new(env!("CARGO_BIN_EXE_tidemark"))
        .arg("demo")
        .output()
        .unwrap();
    let printed = String::from_utf8(ended.stdout).unwrap();
    let complaints = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{printed}\n{complaints}");
    assert_eq!(complaints, "", "a demonstration tells on standard output");
    let shown = readme::blocks("text")
        .into_iter()
        .find(|block| block.contains("billing has read"))
        .unwrap();
    assert_eq!(paragraphs(&shown), paragraphs(&printed));
}
