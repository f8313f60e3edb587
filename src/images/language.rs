//! What an image runs: its languages, and the rules that each part of them keeps.
//!
//! The rules are here once, for the built-in images and for those that an operator configures.

use std::collections::BTreeMap;

use super::{installer::Installer, warm::Warm};

/// The mark in a command that stands for the program's absolute path.
pub const PROGRAM_MARK: &str = "{program}";
/// `/dev/shm` of an image that says nothing, in MiB.
pub const DEFAULT_SHM_MIB: u32 = 16;
/// The largest `/dev/shm`, in MiB: it counts as memory of the sandbox.
pub const MAX_SHM_MIB: u32 = 1024;
/// The longest name or alias, in bytes: names stand in messages and in lists of what there is.
const MAX_NAME_BYTES: usize = 32;
/// The longest reference of an image, in bytes: as registries have it.
const MAX_REFERENCE_BYTES: usize = 255;
/// The longest file name of a program, in bytes.
const MAX_PROGRAM_BYTES: usize = 64;
/// The most words of a command.
const MAX_COMMAND_WORDS: usize = 32;

/// An image that sandboxes are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its short name.
    pub name: String,
    /// Its reference on the daemon.
    pub tag: String,
    /// Size of `/dev/shm` in MiB.
    pub shm_mib: u32,
    /// Variables of every program in it.
    pub env: BTreeMap<String, String>,
    /// Variables of every program in it where the run has egress, over [`Self::env`].
    pub egress_env: BTreeMap<String, String>,
    /// What it runs; the first is its own.
    pub languages: Vec<Language>,
}

/// A language as one image runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Language {
    /// Its name.
    pub name: String,
    /// Further names.
    pub aliases: Vec<String>,
    /// The hidden file name that the code is given.
    pub program: String,
    /// The command that runs it, with [`PROGRAM_MARK`] for the file's path.
    pub command: Vec<String>,
    /// Variables of its programs.
    pub env: BTreeMap<String, String>,
    /// How an interpreter of it waits for its program; absent: it is started with the program.
    pub warm: Option<Warm>,
    /// How packages are put in before a program; absent: they cannot be.
    pub packages: Option<Installer>,
}

impl Image {
    /// The language of this image that answers to `name`, its own or another that it runs.
    #[must_use]
    pub fn language(&self, name: &str) -> Option<&Language> {
        self.languages
            .iter()
            .find(|language| language.answers_to(name))
    }
}

impl Language {
    /// Whether `name` is this language's name or one of its aliases, in upper or lower case.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        self.names().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// The name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name)
            .chain(&self.aliases)
            .map(String::as_str)
    }
}

/// Whether `text` may name a language: names are shown in messages and typed by models, so plain lower-case
/// ones only.
#[must_use]
pub fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+#._-".contains(&b))
}

/// Whether `text` may be the reference of an image: nothing that reads as another argument or another path of
/// the daemon's API.
#[must_use]
pub fn is_reference(text: &str) -> bool {
    text.len() <= MAX_REFERENCE_BYTES
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"./:@_-".contains(&b))
        && !text.split('/').any(|part| part.is_empty() || part == "..")
}

/// Whether `text` may name the program's file: a hidden file, so that it is never collected as an artifact,
/// and a plain name, so that it lies in the workspace itself.
#[must_use]
pub fn is_program(text: &str) -> bool {
    (2..=MAX_PROGRAM_BYTES).contains(&text.len())
        && text.starts_with('.')
        && text != ".."
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// Whether `words` start a program: words that the kernel takes, the first of which is not the program itself,
/// with the program's place in them exactly once.
#[must_use]
pub fn is_command(words: &[String]) -> bool {
    let marks: usize = words
        .iter()
        .map(|word| word.matches(PROGRAM_MARK).count())
        .sum();
    words.len() <= MAX_COMMAND_WORDS
        && marks == 1
        && words
            .iter()
            .all(|word| !word.is_empty() && !word.contains('\0'))
}

/// Whether `text` is the name of a variable that every shell and system can set.
#[must_use]
pub fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether the dynamic loader obeys the variable: it decides what code every program loads, so nobody sets it.
#[must_use]
pub fn is_loader_variable(text: &str) -> bool {
    text.starts_with("LD_") || text == "GLIBC_TUNABLES"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn names_are_plain() {
        for good in ["python", "c++", "c#", "r", "node20", "a-b_c.d"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "Python", "1c", "-a", "a b", "pythön", &"a".repeat(33)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn references_are_no_paths_of_the_api() {
        for good in [
            "python:3.13-alpine",
            "belljar/python:latest",
            "registry.example:5000/a/b@sha256:00",
        ] {
            assert!(is_reference(good), "{good}");
        }
        for bad in [
            "",
            "-x",
            "a/../b",
            "a//b",
            "a?b",
            "a b",
            "a%2fb",
            &"a".repeat(256),
        ] {
            assert!(!is_reference(bad), "{bad}");
        }
    }

    #[test]
    fn a_command_names_the_program_once() {
        assert!(is_command(&words("python3 {program}")));
        assert!(is_command(&words("sh -c . --file={program}")));
        for bad in [
            "",
            "python3",
            "cp {program} {program}",
            "x {program}{program}",
        ] {
            assert!(!is_command(&words(bad)), "{bad}");
        }
        assert!(!is_command(&["a\0".into(), PROGRAM_MARK.into()]));
        assert!(!is_command(&[String::new(), PROGRAM_MARK.into()]));
        assert!(!is_command(&words(&format!(
            "{{program}} {}",
            "a ".repeat(32)
        ))));
    }

    #[test]
    fn loader_variables_are_known() {
        for bad in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "GLIBC_TUNABLES",
        ] {
            assert!(is_loader_variable(bad), "{bad}");
        }
        assert!(!is_loader_variable("PATH"));
    }

    proptest! {
        #[test]
        fn a_program_is_always_a_hidden_plain_name(text in r"[./a-zA-Z0-9 \\\x00-]{0,70}") {
            if is_program(&text) {
                prop_assert!(text.starts_with('.'));
                prop_assert!(!text.contains(['/', '\\', '\0', ' ']));
                prop_assert!(text != "." && text != "..");
            }
        }

        #[test]
        fn a_variable_never_has_an_equals_sign(text in any::<String>()) {
            if is_variable(&text) {
                prop_assert!(!text.is_empty() && !text.contains(['=', '\0', '\n']));
            }
        }
    }
}
