//! A room imports only from rooms below it, and stays small enough to find one's way in.
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of the crate, from top to bottom.
const ROOMS: [&str; 8] = [
    "commands",
    "operator",
    "engine",
    "wire",
    "log",
    "retention",
    "resource",
    "telemetry",
];

/// Lines that a source or test file may have at most.
const LONGEST_FILE: usize = 600;

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("read {}: {error}", directory.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The rooms that `source` names in paths such as `crate::log::…` or `crate::{log::…, wire::…}`.
fn rooms_named(source: &str) -> Vec<&'static str> {
    let code = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    ROOMS
        .into_iter()
        .filter(|room| code.contains(&format!("crate::{room}::")))
        .collect()
}

#[test]
fn a_room_imports_only_from_rooms_below_it() {
    let mut faults = Vec::new();
    let mut files_read = 0;
    for (position, room) in ROOMS.iter().enumerate() {
        for file in rust_files(&root().join("src").join(room)) {
            files_read += 1;
            let source = fs::read_to_string(&file).unwrap();
            assert!(
                !source.contains("use crate::{"),
                "{}: one `use` a room, please",
                file.display()
            );
            for named in rooms_named(&source) {
                if ROOMS.iter().position(|other| *other == named).unwrap() < position {
                    faults.push(format!(
                        "{} imports from `{named}`, which lies above `{room}`",
                        file.display()
                    ));
                }
            }
        }
    }
    assert!(files_read > ROOMS.len(), "the rooms were not found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_operator_knows_no_engine() {
    for file in rust_files(&root().join("src/operator")) {
        let source = fs::read_to_string(&file).unwrap();
        for room in rooms_named(&source) {
            let allowed = ["operator", "resource", "telemetry"].contains(&room);
            assert!(
                allowed,
                "{} reaches past the storage trait into `{room}`",
                file.display()
            );
        }
    }
}

#[test]
fn no_file_outgrows_its_reader() {
    let mut long = Vec::new();
    for directory in ["src", "tests"] {
        for file in rust_files(&root().join(directory)) {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            if lines > LONGEST_FILE {
                long.push(format!("{lines} lines: {}", file.display()));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn the_top_level_holds_what_was_agreed() {
    let agreed = [
        "Cargo.toml",
        "Cargo.lock",
        "LICENSE",
        "README.md",
        "benches",
        "crds",
        "deploy",
        "fuzz",
        "src",
        "tests",
    ];
    let made_by_use = ["target", "data", "topics"];
    for entry in fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let known =
            name.starts_with('.') || agreed.contains(&name.as_str()) || made_by_use.contains(&name.as_str());
        assert!(known, "{name} is not among what the top level holds");
    }
}
