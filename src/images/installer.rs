//! How an image puts packages into a sandbox before a program: its own installer, told where to look.

use std::collections::BTreeMap;

use crate::types::PackageKind;

/// The mark in an installer's command that stands for the address of the server's package gateway.
pub const INDEX_MARK: &str = "{index}";
/// The most words of an installer's command, and the most that keep code from running.
const MAX_WORDS: usize = 32;

/// An installer in an image. What is to be installed follows its words, after a `--`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installer {
    /// Whose packages it installs.
    pub kind: PackageKind,
    /// The command, with [`INDEX_MARK`] for the gateway's address.
    pub install: Vec<String>,
    /// Further words that keep the packages' own code from running while they are put in.
    pub no_code: Vec<String>,
    /// Variables of the installer, beside the image's and the language's.
    pub env: BTreeMap<String, String>,
}

/// Whether the words start an installer that looks at the gateway: its address is in them exactly once, and not as the
/// command itself.
pub(super) fn is_installer(install: &[String], no_code: &[String]) -> bool {
    let marks: usize = install
        .iter()
        .map(|word| word.matches(INDEX_MARK).count())
        .sum();
    let words = |words: &[String]| {
        words.len() <= MAX_WORDS
            && words
                .iter()
                .all(|word| !word.is_empty() && !word.contains('\0'))
    };
    marks == 1
        && install
            .first()
            .is_some_and(|first| !first.contains(INDEX_MARK))
        && words(install)
        && words(no_code)
}
