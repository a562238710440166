//! The commands that `deploy/docs/kubernetes.md` gives, so that what is tested is what is written there.
use crate::support::peers;

/// The one command line with this text in it.
#[track_caller]
pub fn command(text: &str) -> String {
    let page = std::fs::read_to_string(peers::source("deploy/docs/kubernetes.md")).expect("a page");
    let blocks = page
        .split("```sh\n")
        .skip(1)
        .filter_map(|block| block.split("```").next());
    let mut found = blocks.flat_map(str::lines).filter(|line| line.contains(text));
    let line = found
        .next()
        .unwrap_or_else(|| panic!("no command with {text} in it"));
    assert_eq!(found.next(), None, "more than one command with {text} in it");
    line.to_owned()
}
