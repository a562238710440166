//! Every reason of a condition has a page, and every page is in the binary.
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use tidemark::commands::explain::PAGES;

#[test]
fn the_binary_holds_every_page() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy/docs/reasons");
    let written: BTreeSet<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let held: BTreeSet<String> = PAGES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(written, held);
    for (name, page) in PAGES {
        assert!(
            page.starts_with(&format!("# {name}\n")),
            "{name}'s page has another title"
        );
        assert!(
            page.contains("## What it means") && page.contains("## What to do"),
            "{name}'s page is not complete"
        );
    }
}
