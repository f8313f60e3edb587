//! Packages as callers ask for them: a name and versions, and nothing that an installer would take for anything else.
//!
//! What installers accept is far more: paths, URLs, repositories, options, markers, aliases. Each of them would install
//! from somewhere else than the operator's registry, so none of them is a [`PackageSpec`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest request for one package, in bytes: it stands in an argument, a message and the audit log.
pub const MAX_PACKAGE_SPEC_BYTES: usize = 256;
/// The longest name of a package, in bytes (npm's bound; Python's names are shorter).
const MAX_PACKAGE_NAME_BYTES: usize = 214;
/// What installers take for a file to install, whatever else the text says.
const ARCHIVES: [&str; 14] = [
    ".whl",
    ".zip",
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.bz2",
    ".tbz",
    ".tar.xz",
    ".txz",
    ".tar.lz",
    ".tlz",
    ".tar.lzma",
    ".egg",
    ".tar.zst",
];
/// Operators of a Python version, the longer first.
const PYTHON_OPERATORS: [&str; 7] = ["==", ">=", "<=", "~=", "!=", "<", ">"];

/// Whose packages.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PackageKind {
    /// Python's, from an index of the simple repository API.
    Python,
    /// JavaScript's, from a registry of npm's.
    JavaScript,
}

impl PackageKind {
    /// Its name: the section of the configuration, and the first part of the gateway's paths.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
        }
    }
}

impl fmt::Display for PackageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A package to install: a name, extras, versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSpec(String);

/// Text that asks for no package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackageSpecError {
    /// Longer than any name with its versions.
    #[error("it is longer than {MAX_PACKAGE_SPEC_BYTES} bytes")]
    TooLong,
    /// No name with versions as Python writes them.
    #[error(
        "a Python package is a name with versions, such as `requests`, `requests==2.32.3` or `httpx[http2]>=0.27,<1`: no \
         spaces, paths, URLs, options or markers"
    )]
    Python,
    /// No name with versions as npm writes them.
    #[error(
        "a JavaScript package is a name with versions or a tag, such as `lodash`, `lodash@4.17.21` or `@types/node@^20`: no \
         paths, URLs, repositories, aliases or options"
    )]
    JavaScript,
    /// An installer would look for a file.
    #[error(
        "it ends as the name of an archive does, so that an installer would take it for a file"
    )]
    Archive,
}

impl PackageSpec {
    /// Parses what a caller asks for.
    ///
    /// # Errors
    /// [`PackageSpecError`].
    pub fn parse(kind: PackageKind, text: &str) -> Result<Self, PackageSpecError> {
        if text.len() > MAX_PACKAGE_SPEC_BYTES {
            return Err(PackageSpecError::TooLong);
        }
        let name = match kind {
            PackageKind::Python => python(text).ok_or(PackageSpecError::Python)?,
            PackageKind::JavaScript => javascript(text).ok_or(PackageSpecError::JavaScript)?,
        };
        if is_archive(name) || is_archive(text) {
            return Err(PackageSpecError::Archive);
        }
        Ok(Self(text.to_owned()))
    }

    /// The text, as one argument of the installer. It never begins with `-`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PackageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of `name[extras]versions`.
fn python(text: &str) -> Option<&str> {
    let end = text
        .find(|c: char| "[=<>~!".contains(c))
        .unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    if !is_python_name(name) {
        return None;
    }
    if let Some(inside) = rest.strip_prefix('[') {
        let (extras, versions) = inside.split_once(']')?;
        if !extras.split(',').all(is_python_name) {
            return None;
        }
        rest = versions;
    }
    let version = |clause: &str| {
        let operator = PYTHON_OPERATORS
            .iter()
            .find(|operator| clause.starts_with(**operator));
        operator.is_some_and(|operator| is_python_version(&clause[operator.len()..]))
    };
    (rest.is_empty() || rest.split(',').all(version)).then_some(name)
}

/// Whether `text` is the name of a Python project or of an extra: ASCII letters, digits, `.`, `_` and `-`, with a letter
/// or digit at both ends.
#[must_use]
pub fn is_python_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let at_an_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    text.len() <= MAX_PACKAGE_NAME_BYTES
        && at_an_end(bytes.first())
        && at_an_end(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b))
}

fn is_python_version(text: &str) -> bool {
    let text = text.strip_suffix(".*").unwrap_or(text);
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b".!+_-".contains(&b))
}

/// The name of `name@versions`.
fn javascript(text: &str) -> Option<&str> {
    // The first `@` may begin a scope.
    let (name, versions) = match text.get(1..).and_then(|rest| rest.find('@')) {
        Some(at) => (&text[..=at], Some(&text[at + 2..])),
        None => (text, None),
    };
    (is_javascript_name(name) && versions.is_none_or(is_javascript_range)).then_some(name)
}

/// Whether `text` is a name on a registry of npm's: `name` or `@scope/name`.
#[must_use]
pub fn is_javascript_name(text: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    text.len() <= MAX_PACKAGE_NAME_BYTES
        && match text.strip_prefix('@') {
            Some(scoped) => scoped
                .split_once('/')
                .is_some_and(|(scope, name)| part(scope) && part(name)),
            None => part(text),
        }
}

/// A range of versions or a tag; nothing with a slash or a colon, by which npm knows everything else.
fn is_javascript_range(text: &str) -> bool {
    let first = |c: char| c.is_ascii_alphanumeric() || "^~<>=*".contains(c);
    text.starts_with(first)
        && !text.ends_with(' ')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b".^~<>=*|+_ -".contains(&b))
}

fn is_archive(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let text = text.split('[').next().unwrap_or_default();
    ARCHIVES.iter().any(|end| text.ends_with(end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_python_package_is_a_name_with_extras_and_versions() {
        let parse = |text: &str| PackageSpec::parse(PackageKind::Python, text);
        for good in [
            "six",
            "requests==2.32.3",
            "httpx[http2,socks]>=0.27,<1",
            "zope.interface~=7.0",
            "ruamel_yaml!=0.18.7",
            "numpy==2.*",
            "x>=1.0rc1",
            "local==1!2.0+cpu",
            "a",
        ] {
            assert_eq!(parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            " six",
            "six ",
            "six == 1",
            "six;python_version<'3'",
            "six @ https://evil.test/six.whl",
            "six@git+https://evil.test/x",
            "git+https://evil.test/x",
            "https://evil.test/six.tar.gz",
            "file:///workspace/six",
            "./six",
            "../six",
            "/workspace/six",
            ".",
            "~six",
            "-r",
            "--index-url=https://evil.test",
            "-e.",
            "six==",
            "six==1,",
            "six===1",
            "six[",
            "six[]",
            "six[a",
            "six[a]b",
            "six==1 --pre",
            "six==$(id)",
            "six==1\n--pre",
            "six\0",
            "sïx",
            "six-",
            "six==*",
            "six==1.*.*",
        ] {
            assert_eq!(parse(bad), Err(PackageSpecError::Python), "{bad:?}");
        }
    }

    #[test]
    fn a_javascript_package_is_a_name_with_a_range_or_a_tag() {
        let parse = |text: &str| PackageSpec::parse(PackageKind::JavaScript, text);
        for good in [
            "lodash",
            "lodash@4.17.21",
            "@types/node@^20",
            "@babel/core",
            "react@>=18 <20",
            "react@17 || 18",
            "vue@next",
            "JSONStream@*",
            "x@~1.2.x",
            "x@1.0.0-rc.1+build",
        ] {
            assert_eq!(parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "@",
            "@scope",
            "@scope/",
            "@/name",
            "@a/b/c",
            "a/b",
            "user/repo#main",
            "github:user/repo",
            "git+ssh://git@evil.test/x",
            "git@evil.test:x",
            "https://evil.test/x.tgz",
            "file:x",
            "./x",
            "../x",
            "/x",
            "~/x",
            ".",
            "x@",
            "x@npm:other@1",
            "x@file:y",
            "x@workspace:*",
            "x@https://evil.test/x.tgz",
            "x@user/repo",
            "x@./y",
            "x@-y",
            "x@1 ",
            "x@1@2",
            "-g",
            "--registry=https://evil.test",
            "x y",
            "x\n",
            "x@1\n2",
            "ünicode",
        ] {
            assert_eq!(parse(bad), Err(PackageSpecError::JavaScript), "{bad:?}");
        }
    }

    #[test]
    fn what_an_installer_would_take_for_a_file_is_refused() {
        for (kind, bad) in [
            (PackageKind::Python, "evil.whl"),
            (PackageKind::Python, "evil-1.0.tar.gz"),
            (PackageKind::Python, "evil.ZIP"),
            (PackageKind::Python, "evil.zip[extra]"),
            (PackageKind::Python, "evil==1.zip"),
            (PackageKind::Python, "evil.tar.gz>=1"),
            (PackageKind::JavaScript, "evil.tgz"),
            (PackageKind::JavaScript, "evil.tar.gz"),
            (PackageKind::JavaScript, "evil@latest.tgz"),
            (PackageKind::JavaScript, "evil.tar@1"),
        ] {
            assert_eq!(
                PackageSpec::parse(kind, bad),
                Err(PackageSpecError::Archive),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_request_is_bounded() {
        let long = format!("a=={}", "1".repeat(MAX_PACKAGE_SPEC_BYTES));
        assert_eq!(
            PackageSpec::parse(PackageKind::Python, &long),
            Err(PackageSpecError::TooLong)
        );
        let name = "a".repeat(MAX_PACKAGE_NAME_BYTES + 1);
        assert_eq!(
            PackageSpec::parse(PackageKind::JavaScript, &name),
            Err(PackageSpecError::JavaScript)
        );
    }

    proptest! {
        #[test]
        fn whatever_parses_is_no_option_path_or_url(
            text in r"[@a-z0-9./\\:=<>~!,;\[\] #%$'\n-]{0,24}",
            javascript in any::<bool>(),
        ) {
            let kind = if javascript { PackageKind::JavaScript } else { PackageKind::Python };
            if let Ok(spec) = PackageSpec::parse(kind, &text) {
                let spec = spec.as_str();
                prop_assert_eq!(spec, &text);
                prop_assert!(!spec.starts_with(['-', '.', '/', '~', ' ']));
                prop_assert!(!spec.contains([':', '\\', ';', '#', '%', '$', '\'', '\n', '\0']));
                prop_assert_eq!(spec.matches('/').count(), usize::from(spec.starts_with('@')));
            }
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in any::<String>()) {
            let _ = PackageSpec::parse(PackageKind::Python, &text);
            let _ = PackageSpec::parse(PackageKind::JavaScript, &text);
        }
    }
}
