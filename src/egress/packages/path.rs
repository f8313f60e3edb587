//! The paths of the gateway: the only thing of an installer's request that counts.

use super::{digest::Digest, python};
use crate::types::{PackageKind, is_javascript_name};

/// The longest path, in bytes: a digest and the longest name.
const MAX_PATH_BYTES: usize = 1024;

/// What a path asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// What the registry says of a name.
    Page(String),
    /// A file by its digest and its name.
    File(Digest, String),
}

/// Where the pages of a kind begin.
pub(crate) fn index(kind: PackageKind) -> &'static str {
    match kind {
        PackageKind::Python => "/python/simple/",
        PackageKind::JavaScript => "/javascript/",
    }
}

/// Where the files of a kind begin.
pub(crate) fn files(kind: PackageKind) -> &'static str {
    match kind {
        PackageKind::Python => "/python/files/",
        PackageKind::JavaScript => "/javascript/files/",
    }
}

impl Asked {
    /// Reads a path. Only the slash of a scope may be escaped: nothing is decoded, so that nothing has two spellings.
    pub(crate) fn parse(kind: PackageKind, path: &str) -> Option<Self> {
        if path.len() > MAX_PATH_BYTES {
            return None;
        }
        if let Some(rest) = path.strip_prefix(files(kind)) {
            let (digest, name) = rest.split_once('/')?;
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"._+!-".contains(&b);
            return name
                .bytes()
                .all(plain)
                .then_some(Self::File(Digest::parse_hex(digest)?, name.to_owned()));
        }
        let name = path.strip_prefix(index(kind))?;
        match kind {
            PackageKind::Python => {
                let name = name.strip_suffix('/')?;
                python::is_normal_name(name).then(|| Self::Page(name.to_owned()))
            }
            PackageKind::JavaScript => {
                let name = match name.strip_prefix('@') {
                    Some(scoped) => {
                        let (scope, name) = scoped
                            .split_once("%2f")
                            .or_else(|| scoped.split_once("%2F"))
                            .or_else(|| scoped.split_once('/'))?;
                        format!("@{scope}/{name}")
                    }
                    None => name.to_owned(),
                };
                is_javascript_name(&name).then_some(Self::Page(name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::egress::packages::digest::{sha256, sha512};

    fn page(name: &str) -> Asked {
        Asked::Page(name.to_owned())
    }

    #[test]
    fn pages_and_files_have_fixed_shapes() {
        let python = |path: &str| Asked::parse(PackageKind::Python, path);
        let javascript = |path: &str| Asked::parse(PackageKind::JavaScript, path);
        assert_eq!(
            python("/python/simple/zope-interface/"),
            Some(page("zope-interface"))
        );
        assert_eq!(javascript("/javascript/is-odd"), Some(page("is-odd")));
        for scoped in ["@types%2fnode", "@types%2Fnode", "@types/node"] {
            let path = format!("/javascript/{scoped}");
            assert_eq!(javascript(&path), Some(page("@types/node")));
        }
        let (short, long) = (sha256(b""), sha512(b""));
        assert_eq!(
            python(&format!(
                "/python/files/{short}/six-1.0+cpu-py3-none-any.whl.metadata"
            )),
            Some(Asked::File(
                short,
                "six-1.0+cpu-py3-none-any.whl.metadata".to_owned()
            ))
        );
        assert_eq!(
            javascript(&format!("/javascript/files/{long}/is-odd-1.0.0.tgz")),
            Some(Asked::File(long, "is-odd-1.0.0.tgz".to_owned()))
        );
    }

    #[test]
    fn everything_else_is_nothing() {
        for bad in [
            "",
            "/",
            "*",
            "/python/simple/",
            "/python/simple/six",
            "/python/simple/Six/",
            "/python/simple/../six/",
            "/python/simple/six/../../x/",
            "/python/simple/a%2fb/",
            "/python//simple/six/",
            "/javascript/six",
            "/python/files/",
            "/python/files/0/six.whl",
            "http://evil.test/python/simple/six/",
        ] {
            assert_eq!(Asked::parse(PackageKind::Python, bad), None, "{bad}");
        }
        for bad in [
            "/javascript/",
            "/javascript/-/npm/v1/security/audits",
            "/javascript/@types%252fnode",
            "/javascript/@a%2fb%2fc",
            "/javascript/..%2fx",
            "/javascript/@a%2f..",
            "/javascript/a/b",
            "/python/simple/six/",
        ] {
            assert_eq!(Asked::parse(PackageKind::JavaScript, bad), None, "{bad}");
        }
        let digest = sha256(b"");
        for name in ["a/b", "a%2fb", "..%2f", "a b", "é"] {
            let path = format!("/python/files/{digest}/{name}");
            assert_eq!(Asked::parse(PackageKind::Python, &path), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leads_out_of_its_folder(path in r"/(python/simple|javascript)/[a-zA-Z0-9@%./_-]{0,24}") {
            for kind in [PackageKind::Python, PackageKind::JavaScript] {
                if let Some(Asked::Page(name)) = Asked::parse(kind, &path) {
                    prop_assert!(!name.split('/').any(|part| part.is_empty() || part.starts_with('.')));
                    prop_assert!(!name.contains(['%', '?', '#']));
                }
            }
        }
    }
}
