//! `SECURITY.md`, kept: every promise names what shows it, and what it names is there.
//!
//! A promise whose test was renamed or removed is no promise. This test reads the document alone and never judges
//! whether a test is a good one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Where tests may be.
const SOURCE: [&str; 5] = ["src", "guest", "wire", "tests", "examples"];
/// The table of promises: its heading, and how many columns its rows have.
const HEADING: &str = "## Promises";
const COLUMNS: usize = 3;
/// Promises that are held by how the code is made say so.
const BY_CONSTRUCTION: &str = "by construction";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn document() -> String {
    fs::read_to_string(root().join("SECURITY.md")).unwrap()
}

fn rust_files(path: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The name of every function that is a test: `#[test]`, `#[tokio::test]`, with whatever else stands between.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    for folder in SOURCE {
        rust_files(&root().join(folder), &mut files);
    }
    let mut names = BTreeSet::new();
    for file in files {
        let source = fs::read_to_string(file).unwrap();
        let mut marked = false;
        for line in source.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                marked = true;
            } else if let Some(rest) = line
                .strip_prefix("fn ")
                .or_else(|| line.strip_prefix("async fn "))
            {
                if marked {
                    let name = rest.split(['(', '<']).next().unwrap();
                    names.insert(name.to_owned());
                }
                marked = false;
            }
        }
    }
    names
}

/// The cells of each row of the first table under `heading`, without its head.
fn rows(document: &str, heading: &str) -> Vec<Vec<String>> {
    document
        .split_once(heading)
        .unwrap_or_else(|| panic!("no {heading}"))
        .1
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let tests = tests();
    assert!(tests.len() > 500, "{} tests were found", tests.len());
    let mut wrong = Vec::new();
    let promises = rows(&document(), HEADING);
    assert!(promises.len() > 30, "{} promises", promises.len());
    for promise in &promises {
        assert_eq!(promise.len(), COLUMNS, "{promise:?}");
        let shown = quoted(&promise[2]);
        if shown.is_empty() && !promise[2].contains(BY_CONSTRUCTION) {
            wrong.push(format!("nothing shows: {}", promise[0]));
        }
        for name in shown {
            let there = tests.contains(name) || name.contains('/') && root().join(name).exists();
            if !there {
                wrong.push(format!("no test and no file: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "SECURITY.md:\n{}", wrong.join("\n"));
}

#[test]
fn every_file_that_the_document_names_exists() {
    let document = document();
    let missing: Vec<&str> = quoted(&document)
        .into_iter()
        .filter(|name| {
            ["src/", "guest/", "wire/", "tests/", "fuzz/"]
                .iter()
                .any(|folder| name.starts_with(folder))
        })
        .filter(|name| !root().join(name).exists())
        .collect();
    assert!(missing.is_empty(), "SECURITY.md names {missing:?}");
}
