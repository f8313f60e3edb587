//! Gathers every probe that lies in a folder here, so that there is none that no test runs, and reads its head, so that
//! one without an expectation does not build.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a build script fails by panicking, and hears from cargo by its environment"
)]

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

#[expect(
    dead_code,
    unreachable_pub,
    reason = "here a head is only read, and public in the library"
)]
mod head;

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    println!("cargo::rerun-if-changed={}", here.display());
    let mut table = String::from("&[\n");
    for topic in entries(&here).into_iter().filter(|path| path.is_dir()) {
        for file in entries(&topic) {
            let path = format!("{}/{}", name(&topic), name(&file));
            let Some(path) = path.strip_suffix(".py") else {
                panic!("{path}: a probe ends in .py");
            };
            let text = fs::read_to_string(&file).unwrap();
            if let Err(why) = head::Probe::parse(path, &text) {
                panic!("{path}: {why}");
            }
            let file = file.display().to_string();
            writeln!(table, "({path:?}, include_str!({file:?})),").unwrap();
        }
    }
    table.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    fs::write(out.join("files.rs"), table).unwrap();
}

/// What lies in a folder, sorted, without what is hidden.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !name(path).starts_with('.'))
        .collect();
    found.sort();
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}
