//! What servers leave behind: instances, containers, lines of the record, files.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// What `docker` prints, line by line.
#[must_use]
pub fn docker(arguments: &[&str]) -> BTreeSet<String> {
    let said = Command::new("docker")
        .args(arguments)
        .output()
        .expect("the docker command");
    assert!(
        said.status.success(),
        "these tests need a Docker daemon: {said:?}"
    );
    let text = String::from_utf8(said.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Of what `docker` prints, the lines that name one of these instances.
#[must_use]
pub fn named_after(instances: &BTreeSet<String>, arguments: &[&str]) -> BTreeSet<String> {
    let mut all = docker(arguments);
    all.retain(|line| instances.iter().any(|id| line.contains(id.as_str())));
    all
}

/// The names of these instances' containers, in whatever state.
#[must_use]
pub fn containers(instances: &BTreeSet<String>) -> BTreeSet<String> {
    named_after(instances, &["ps", "--all", "--format", "{{.Names}}"])
}

/// The instances that have a file. There is none before the first server has begun.
#[must_use]
pub fn instances(state: &Path) -> BTreeSet<String> {
    let files = children(&state.join("instances"));
    let names = files.iter().filter_map(|path| path.file_name()?.to_str());
    names
        .filter_map(|name| name.strip_suffix(".lock").map(str::to_owned))
        .collect()
}

/// The lines of the record so far; one that a kill broke off is none.
#[must_use]
pub fn audit(state: &Path) -> Vec<Value> {
    let mut lines = Vec::new();
    for file in walk(&state.join("audit")) {
        let text = fs::read_to_string(file).unwrap();
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        lines.extend(whole.map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    lines
}

/// The lines of the record about one action.
#[must_use]
pub fn recorded(state: &Path, action: &str) -> Vec<Value> {
    let mut lines = audit(state);
    lines.retain(|line| line["action"] == action);
    lines
}

/// Files of a state directory that should not be there while `live` is the only server of it, and has nothing under way;
/// or, without one, while none lives.
#[must_use]
pub fn strangers(state: &Path, live: Option<&str>) -> BTreeSet<PathBuf> {
    // A folder of each process, and its lock.
    let scratch = children(&state.join("artifacts/tmp"));
    let ours = scratch.len() == if live.is_some() { 2 } else { 0 };
    let mut left = walk(state);
    left.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let inside = path.strip_prefix(state).unwrap();
        let mut parts = inside.iter().map(|part| part.to_str().unwrap());
        let known = match (parts.next().unwrap(), parts.next()) {
            // The tests' own, and what is kept.
            ("belljar.toml" | "log" | "docker.sock", None)
            | ("artifacts", Some("blobs" | "entries" | "gone" | "lock")) => true,
            ("audit", _) => path.extension().is_some_and(|end| end == "jsonl"),
            ("instances", _) => live.is_some_and(|live| name == format!("{live}.lock")),
            ("artifacts", Some("tmp")) => ours && path.extension().is_some_and(|e| e == "lock"),
            _ => false,
        };
        !known
    });
    left
}

/// What lies in a folder.
#[must_use]
pub fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

/// All files below a folder, folders not among them.
#[must_use]
pub fn walk(folder: &Path) -> BTreeSet<PathBuf> {
    let below = |path: PathBuf| {
        if path.is_dir() {
            walk(&path)
        } else {
            BTreeSet::from([path])
        }
    };
    children(folder).into_iter().flat_map(below).collect()
}
