//! What a registry of npm's says of one package (its "packument"): read, cut down to what an installer needs, and
//! written anew with links to the gateway.
//!
//! Versions without a SHA-512 do not exist here. Nothing of the registry is passed on that is not understood.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{digest::Digest, page::Link};
use crate::config::HttpUrl;

/// What the registry is asked for: the short form, where it has one.
pub(crate) const ACCEPT: &str =
    "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8";
/// What the gateway answers.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.npm.install-v1+json";
/// The longest version or tag, in bytes (npm's own bound).
const MAX_VERSION_BYTES: usize = 256;
/// The scripts that an installer runs unless it is told not to.
const SCRIPTS: [&str; 3] = ["preinstall", "install", "postinstall"];

/// One package, as it is kept.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Package {
    name: String,
    tags: BTreeMap<String, String>,
    versions: BTreeMap<String, Version>,
}

/// One version, as it is kept: where its file lies, and what is served of it.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Version {
    tarball: String,
    integrity: String,
    about: About,
}

/// A registry's packument, as far as it is read.
#[derive(Deserialize)]
struct Upstream {
    #[serde(default, rename = "dist-tags")]
    tags: BTreeMap<String, Value>,
    #[serde(default)]
    versions: BTreeMap<String, UpstreamVersion>,
}

/// One version of it. Fields are named one by one, so that what a full packument has beside them is never held in memory.
#[derive(Deserialize)]
struct UpstreamVersion {
    #[serde(default)]
    dist: Value,
    #[serde(default)]
    scripts: Value,
    #[serde(default)]
    gypfile: Value,
    #[serde(default, rename = "hasInstallScript")]
    has_install_script: Value,
    #[serde(default)]
    deprecated: Value,
    #[serde(default)]
    dependencies: Value,
    #[serde(default, rename = "optionalDependencies")]
    optional_dependencies: Value,
    #[serde(default, rename = "peerDependencies")]
    peer_dependencies: Value,
    #[serde(default, rename = "peerDependenciesMeta")]
    peer_dependencies_meta: Value,
    #[serde(default, rename = "bundleDependencies")]
    bundle_dependencies: Value,
    #[serde(default, rename = "bundledDependencies")]
    bundled_dependencies: Value,
    #[serde(default)]
    bin: Value,
    #[serde(default)]
    directories: Value,
    #[serde(default)]
    engines: Value,
    #[serde(default)]
    os: Value,
    #[serde(default)]
    cpu: Value,
    #[serde(default)]
    libc: Value,
    #[serde(default, rename = "_hasShrinkwrap")]
    has_shrinkwrap: Value,
}

/// What an installer needs to know of a version, beside its name and its file, by the registry's own names.
type About = Map<String, Value>;

impl Package {
    /// Reads the packument of the package `name`.
    ///
    /// # Errors
    /// What is no packument.
    pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let Upstream { tags, versions } = serde_json::from_slice(bytes)?;
        let versions: BTreeMap<String, Version> = versions
            .into_iter()
            .filter(|(version, _)| is_version(version))
            .filter_map(|(version, upstream)| Some((version, upstream.read()?)))
            .collect();
        let tags = tags
            .into_iter()
            .filter_map(|(tag, version)| Some((tag, version.as_str()?.to_owned())))
            .filter(|(tag, version)| {
                tag.len() <= MAX_VERSION_BYTES && versions.contains_key(version)
            })
            .collect();
        Ok(Self {
            name: name.to_owned(),
            tags,
            versions,
        })
    }

    /// The packument as the gateway serves it below `files`, the absolute address of its files, and what its links lead
    /// to: `leads` says which of them may be followed from `page`, the packument's own address.
    pub(crate) fn render(
        &self,
        page: &HttpUrl,
        files: &str,
        leads: impl Fn(&HttpUrl) -> bool,
    ) -> (Value, Vec<Link>) {
        let mut versions = Map::new();
        let mut links = Vec::new();
        for (version, kept) in &self.versions {
            let digest = Digest::of_integrity(&kept.integrity);
            let (Some(digest), Ok(url)) = (digest, page.join(&kept.tarball)) else {
                continue;
            };
            if !leads(&url) {
                continue;
            }
            let name = self.file_name(version);
            let mut manifest = Map::new();
            manifest.insert("name".to_owned(), self.name.as_str().into());
            manifest.insert("version".to_owned(), version.as_str().into());
            manifest.extend(kept.about.clone());
            let dist = json!({
                "tarball": format!("{files}{digest}/{name}"),
                "integrity": digest.integrity(),
            });
            manifest.insert("dist".to_owned(), dist);
            versions.insert(version.clone(), manifest.into());
            links.push(Link {
                at: digest,
                name,
                digest,
                url,
            });
        }
        let tags: BTreeMap<_, _> = self
            .tags
            .iter()
            .filter(|(_, version)| versions.contains_key(version.as_str()))
            .collect();
        let packument = json!({"name": self.name, "dist-tags": tags, "versions": versions});
        (packument, links)
    }

    /// A name for a version's file, without the scope and its slash.
    fn file_name(&self, version: &str) -> String {
        let name = self.name.rsplit('/').next().unwrap_or_default();
        format!("{name}-{version}.tgz")
    }
}

impl UpstreamVersion {
    fn read(self) -> Option<Version> {
        let of_dist = |key: &str| self.dist.get(key).and_then(Value::as_str);
        let integrity = Digest::of_integrity(of_dist("integrity")?)?.integrity()?;
        let tarball = of_dist("tarball")?.to_owned();
        // A full packument says what the short one sums up.
        let runs_scripts = SCRIPTS
            .iter()
            .any(|script| self.scripts.get(script).is_some())
            || self.gypfile == Value::Bool(true)
            || self.has_install_script == Value::Bool(true);
        let about = [
            ("deprecated", self.deprecated),
            ("dependencies", self.dependencies),
            ("optionalDependencies", self.optional_dependencies),
            ("peerDependencies", self.peer_dependencies),
            ("peerDependenciesMeta", self.peer_dependencies_meta),
            ("bundleDependencies", self.bundle_dependencies),
            ("bundledDependencies", self.bundled_dependencies),
            ("bin", self.bin),
            ("directories", self.directories),
            ("engines", self.engines),
            ("os", self.os),
            ("cpu", self.cpu),
            ("libc", self.libc),
            ("_hasShrinkwrap", self.has_shrinkwrap),
            (
                "hasInstallScript",
                if runs_scripts {
                    true.into()
                } else {
                    Value::Null
                },
            ),
        ];
        Some(Version {
            tarball,
            integrity,
            about: about
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        })
    }
}

/// Whether `text` is a version in a form that is the same in a URL.
fn is_version(text: &str) -> bool {
    text.len() <= MAX_VERSION_BYTES
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b".+-".contains(&b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::egress::packages::digest::sha512;

    const FILES: &str = "http://127.0.0.1:3128/javascript/files/";

    fn page() -> HttpUrl {
        HttpUrl::parse("https://registry.test/is-odd").unwrap()
    }

    fn dist(tarball: &str, content: &[u8]) -> Value {
        json!({"tarball": tarball, "integrity": sha512(content).integrity(), "shasum": "0"})
    }

    fn package(name: &str, packument: &Value) -> Package {
        Package::read(name, packument.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_packument_is_written_anew_with_links_to_the_gateway() {
        let package = package(
            "@scope/is-odd",
            &json!({
                "_id": "@scope/is-odd",
                "name": "something else",
                "readme": "x",
                "dist-tags": {"latest": "1.0.0", "gone": "9.0.0", "odd": 1},
                "versions": {
                    "1.0.0": {
                        "name": "something else",
                        "version": "6.6.6",
                        "dist": dist("https://files.test/is-odd-1.0.0.tgz", b"1"),
                        "dependencies": {"is-number": "^1"},
                        "devDependencies": {"mocha": "*"},
                        "bin": "cli.js",
                        "scripts": {"postinstall": "evil", "test": "mocha"},
                        "_npmUser": {"name": "x"},
                    },
                    "2.0.0": {
                        "dist": dist("is-odd-2.0.0.tgz", b"2"),
                        "scripts": {"test": "mocha"},
                    },
                },
            }),
        );
        let (served, links) = package.render(&page(), FILES, |_| true);
        let [one, two] = [sha512(b"1"), sha512(b"2")];
        assert_eq!(
            served,
            json!({
                "name": "@scope/is-odd",
                "dist-tags": {"latest": "1.0.0"},
                "versions": {
                    "1.0.0": {
                        "name": "@scope/is-odd",
                        "version": "1.0.0",
                        "dependencies": {"is-number": "^1"},
                        "bin": "cli.js",
                        "hasInstallScript": true,
                        "dist": {
                            "tarball": format!("{FILES}{one}/is-odd-1.0.0.tgz"),
                            "integrity": one.integrity(),
                        },
                    },
                    "2.0.0": {
                        "name": "@scope/is-odd",
                        "version": "2.0.0",
                        "dist": {
                            "tarball": format!("{FILES}{two}/is-odd-2.0.0.tgz"),
                            "integrity": two.integrity(),
                        },
                    },
                },
            })
        );
        let urls: Vec<_> = links.iter().map(|link| link.url.to_string()).collect();
        assert_eq!(
            urls,
            [
                "https://files.test/is-odd-1.0.0.tgz",
                "https://registry.test/is-odd-2.0.0.tgz"
            ]
        );
    }

    #[test]
    fn a_version_without_a_strong_digest_is_left_out() {
        let versions = |dist: Value| {
            let packument =
                json!({"dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"dist": dist}}});
            let package = package("x", &packument);
            assert_eq!(package.tags.len(), package.versions.len());
            package.versions.len()
        };
        assert_eq!(versions(dist("x.tgz", b"")), 1);
        for bad in [
            json!({"tarball": "x.tgz", "shasum": "1031f78cac2710cba44820e73c898571bb83d3c3"}),
            json!({"tarball": "x.tgz", "integrity": "sha1-hvfkN/qlp/zhXR3cuerq6jd2Z7g="}),
            json!({"tarball": 1, "integrity": sha512(b"").integrity()}),
            json!({"integrity": sha512(b"").integrity()}),
            json!([]),
            Value::Null,
        ] {
            assert_eq!(versions(bad), 0);
        }
    }

    #[test]
    fn odd_fields_of_old_packages_are_no_reason_to_refuse_all() {
        let packument = json!({"versions": {
            "0.0.1": {"dist": dist("x.tgz", b""), "engines": ["node >= 0.1"], "os": "linux", "scripts": [], "bin": null},
            "not a version": {"dist": dist("x.tgz", b"")},
            "0.0.2/../x": {"dist": dist("x.tgz", b"")},
        }});
        let package = package("x", &packument);
        assert_eq!(package.versions.keys().collect::<Vec<_>>(), ["0.0.1"]);
    }

    #[test]
    fn hosts_that_are_not_open_are_left_out() {
        let package = package(
            "x",
            &json!({
                "dist-tags": {"latest": "2.0.0"},
                "versions": {
                    "1.0.0": {"dist": dist("https://files.test/x.tgz", b"")},
                    "2.0.0": {"dist": dist("https://evil.test/x.tgz", b"")},
                    "3.0.0": {"dist": dist("git+ssh://files.test/x.tgz", b"")},
                },
            }),
        );
        let at_files = |url: &HttpUrl| url.endpoint.to_string() == "files.test:443";
        let (served, links) = package.render(&page(), FILES, at_files);
        assert_eq!(links.len(), 1);
        assert_eq!(served["dist-tags"], json!({}));
        assert_eq!(served["versions"].as_object().unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn any_packument_is_read_or_refused(version in r"[0-9a-z./+ -]{0,12}", tarball in any::<String>(), noise in any::<Vec<u8>>()) {
            let _ = Package::read("x", &noise);
            let package = package("x", &json!({"versions": {version: {"dist": dist(&tarball, b"")}}}));
            let (served, links) = package.render(&page(), FILES, |_| true);
            prop_assert_eq!(served["versions"].as_object().unwrap().len(), links.len());
            prop_assert!(links.iter().all(|link| !link.name.contains(['/', ' '])));
            let kept = serde_json::to_vec(&package).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Package>(&kept).unwrap(), package);
        }
    }
}
