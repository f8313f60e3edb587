//! The picture in `ARCHITECTURE.md`, kept: a module imports only from rows below its own.
//!
//! Also the shape of every file: it opens with `//!`, and it is not too long to be read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// The rows, from top to bottom. Modules of one row are siblings, and none imports another.
/// A new module goes into one of them, or nobody can say what it may know.
const ROWS: &[&[&str]] = &[
    // For tests and fuzzers only: it looks at readers of every row.
    &["main", "lib", "cli", "fuzzing"],
    &["transport"],
    &["tools"],
    &["broker"],
    &["pool"],
    &["session", "engine", "egress", "output", "artifact", "audit"],
    &["policy"],
    &["config"],
    &["images"],
    &["scratch"],
    &["types"],
];

/// `lib.rs` names every module, and `main.rs` starts the command line: neither is imported by anybody.
const ENTRIES: [&str; 2] = ["main", "lib"];

/// The longest file, in lines.
const MAX_LINES: usize = 600;

/// Where our own source is, from the workspace's root.
const SOURCE: [&str; 8] = [
    "build.rs", "src", "guest", "wire", "tests", "examples", "benches", "fuzz",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file at or below `path`, sorted.
fn rust_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return if path.extension().is_some_and(|end| end == "rs") {
            vec![path.to_owned()]
        } else {
            Vec::new()
        };
    }
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    let mut children: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    children.retain(|child| !child.ends_with("target"));
    children.sort();
    children
        .iter()
        .flat_map(|child| rust_files(child))
        .collect()
}

/// The top-level module that a file below `src/` belongs to, and how deep the file's own module lies:
/// 0 is the crate's root, 1 is `src/engine/mod.rs`, 2 is `src/engine/spec.rs`.
fn module_of(file: &Path) -> (String, usize) {
    let path = file.strip_prefix(root().join("src")).unwrap();
    let names: Vec<String> = path
        .with_extension("")
        .iter()
        .map(|name| name.to_str().unwrap().to_owned())
        .collect();
    let depth = match names.last().map(String::as_str) {
        Some("lib" | "main") => 0,
        Some("mod") => names.len() - 1,
        _ => names.len(),
    };
    (names[0].clone(), depth)
}

/// Source without comments and without what strings and characters hold.
fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if let Some(hashes) = raw_string(rest) {
            let open = hashes + 2;
            let close = format!("\"{}", "#".repeat(hashes));
            rest[open..]
                .find(&close)
                .map_or(rest.len(), |at| open + at + close.len())
        } else if c == '"' {
            end_of_string(rest)
        } else {
            character(rest).unwrap_or_default()
        };
        if skipped == 0 {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            code.push(' ');
            rest = &rest[skipped..];
        }
    }
    code
}

/// The number of `#` where a raw string begins.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.bytes().take_while(|&b| b == b'#').count();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// The length of the string that begins here.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the character literal that begins here; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let first = body.chars().next()?;
    let length = if first == '\\' {
        let end = body[2..].find('\'')?;
        2 + end
    } else {
        first.len_utf8()
    };
    body[length..].starts_with('\'').then_some(length + 2)
}

/// The names right after a path's `::`: one, or those of a `{…}` group.
fn names_after(text: &str) -> Vec<String> {
    let ident = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let Some(group) = text.trim_start().strip_prefix('{') else {
        return vec![ident(text)];
    };
    let mut names = vec![ident(group)];
    let mut depth = 0_usize;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(ident(&group[at + 1..])),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The top-level modules that a file names, by `crate::` or by enough `super::`.
fn imports(source: &str, depth: usize) -> Vec<String> {
    let code = code_only(source);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            found.extend(names_after(&code[at + "crate::".len()..]));
        }
    }
    // Tests stand at the foot of a file, one module deeper.
    let tests = code.find("mod tests {").unwrap_or(code.len());
    let mut at = 0;
    while let Some(next) = code[at..].find("super::") {
        let start = at + next;
        let mut end = start;
        let mut ups = 0;
        while code[end..].starts_with("super::") {
            end += "super::".len();
            ups += 1;
        }
        if ups == depth + usize::from(start > tests) {
            found.extend(names_after(&code[end..]));
        }
        at = end;
    }
    found.sort();
    found.dedup();
    found
}

fn row_of(module: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&module))
}

/// Why `module` may not import `import`, if it may not. What is no module (a type, a macro) is no import.
fn objection(module: &str, import: &str) -> Option<String> {
    let to = row_of(import)?;
    let Some(from) = row_of(module) else {
        return Some(format!("`{module}` is in none of the rows"));
    };
    if module == import || ENTRIES.contains(&module) {
        return None;
    }
    match to.cmp(&from) {
        std::cmp::Ordering::Less => Some(format!(
            "`{import}` is in a row above `{module}`: move what both need down, or pass it in"
        )),
        std::cmp::Ordering::Equal => Some(format!(
            "`{import}` is a sibling of `{module}`: whoever needs both stands above them"
        )),
        std::cmp::Ordering::Greater => None,
    }
}

#[test]
fn modules_import_only_rows_below() {
    let mut wrong = String::new();
    for file in rust_files(&root().join("src")) {
        let (module, depth) = module_of(&file);
        for import in imports(&fs::read_to_string(&file).unwrap(), depth) {
            if let Some(why) = objection(&module, &import) {
                let file = file.strip_prefix(root()).unwrap().display();
                writeln!(wrong, "{file} imports `crate::{import}`: {why}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_module_has_a_row() {
    let mut found = 0;
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let name = entry.unwrap().path().with_extension("");
        let name = name.file_name().unwrap().to_str().unwrap();
        assert!(row_of(name).is_some(), "`{name}` is in none of the rows");
        found += 1;
    }
    assert!(found > 5, "src/ was not read");
}

#[test]
fn every_file_says_what_it_is_for_and_can_be_read() {
    let mut wrong = String::new();
    let mut found = 0;
    for file in SOURCE
        .iter()
        .flat_map(|path| rust_files(&root().join(path)))
    {
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().count();
        let name = file.strip_prefix(root()).unwrap().display();
        // The tests of a file that outgrew it are told about there.
        if !text.starts_with("//!") && !file.ends_with("tests.rs") {
            writeln!(wrong, "{name} does not open with `//!`").unwrap();
        }
        if lines > MAX_LINES {
            writeln!(
                wrong,
                "{name} has {lines} lines, more than {MAX_LINES}: look for the seam"
            )
            .unwrap();
        }
        found += 1;
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(found > 10, "the source was not read");
}

/// The check itself must bite.
#[test]
fn imports_are_found_wherever_they_hide() {
    let source = r##"
        //! crate::broker is only talked about here.
        /* use crate::broker; */
        use crate::{
            engine::{Engine, spec::{A, B}},
            types,
        };
        pub(crate) fn f<'a>(x: &'a str) -> crate::output::Shown {
            let c = '"'; let d = '\''; let s = "crate::broker"; let r = r#"crate::"broker"#;
            super::super::policy::check(c, d, s, r, other_crate::session::x())
        }
        mod tests { use super::super::super::config::Settings; use super::super::audit; }
    "##;
    assert_eq!(
        imports(source, 2),
        ["config", "engine", "output", "policy", "types"]
    );
    assert_eq!(
        imports("use super::{broker, tools::x};", 1),
        ["broker", "tools"]
    );
}

#[test]
fn the_rule_is_the_picture() {
    assert_eq!(objection("broker", "engine"), None);
    assert_eq!(objection("engine", "engine"), None);
    assert_eq!(objection("lib", "cli"), None);
    assert_eq!(objection("types", "Serialize"), None, "no module");
    assert!(objection("engine", "broker").unwrap().contains("above"));
    assert!(objection("engine", "audit").unwrap().contains("sibling"));
    assert!(objection("config", "policy").unwrap().contains("above"));
    assert!(
        objection("mystery", "types")
            .unwrap()
            .contains("none of the rows")
    );
}
