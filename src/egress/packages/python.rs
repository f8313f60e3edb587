//! What an index of Python's says of one project, in the simple repository API's JSON form (PEP 691): read, cut down to
//! what an installer needs, and written anew with links to the gateway.
//!
//! Files without a SHA-256 do not exist here, nor do names that mean more than one file. Nothing of the index is passed
//! on that is not understood.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{digest::Digest, page::Link};
use crate::{
    config::HttpUrl,
    types::{Sha256, is_python_name},
};

/// What the index is asked for, and what the gateway answers.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.pypi.simple.v1+json";
/// What is behind a file's name where its metadata is meant (PEP 658).
pub(crate) const METADATA: &str = ".metadata";
/// The longest name of a file, in bytes: as file systems have it.
const MAX_FILE_NAME_BYTES: usize = 255;
/// The longest of the short texts that are passed on, in bytes.
const MAX_TEXT_BYTES: usize = 1024;
/// What an installer installs as it is.
const WHEEL: &str = ".whl";
/// What it has to build first.
const SOURCES: [&str; 2] = [".tar.gz", ".zip"];

/// One project, as it is kept.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Project {
    name: String,
    files: Vec<File>,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct File {
    filename: String,
    url: String,
    sha256: Sha256,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Sha256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requires_python: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    yanked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

/// An index's page, as far as it is read.
#[derive(Deserialize)]
struct Upstream {
    files: Vec<UpstreamFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct UpstreamFile {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: Value,
    #[serde(default)]
    requires_python: Value,
    #[serde(default)]
    core_metadata: Value,
    #[serde(default)]
    dist_info_metadata: Value,
    #[serde(default)]
    yanked: Value,
    #[serde(default)]
    size: Value,
}

/// Whether `name` is a project's in its normal form (PEP 503), in which installers ask for it.
pub(crate) fn is_normal_name(name: &str) -> bool {
    is_python_name(name)
        && !name.contains("--")
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

impl Project {
    /// Reads the page of the project `name`.
    ///
    /// # Errors
    /// What is no page in JSON.
    pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let page: Upstream = serde_json::from_slice(bytes)?;
        let mut seen = HashSet::new();
        Ok(Self {
            name: name.to_owned(),
            files: page
                .files
                .into_iter()
                .filter_map(File::read)
                .filter(|file| seen.insert(file.filename.clone()))
                .collect(),
        })
    }

    /// The page as the gateway serves it, and what its links lead to: `leads` says which of them may be followed from
    /// `page`, the page's own address.
    pub(crate) fn render(
        &self,
        page: &HttpUrl,
        builds: bool,
        leads: impl Fn(&HttpUrl) -> bool,
    ) -> (Value, Vec<Link>) {
        let mut files = Vec::new();
        let mut links = Vec::new();
        for file in &self.files {
            let Ok(url) = page.join(&file.url) else {
                continue;
            };
            if !leads(&url) || !(builds || file.filename.ends_with(WHEEL)) {
                continue;
            }
            let metadata = file.metadata.filter(|_| url.target() == url.path());
            let mut entry = json!({
                "filename": file.filename,
                "url": format!("../../files/{}/{}", file.sha256, file.filename),
                "hashes": {"sha256": file.sha256},
                "requires-python": file.requires_python,
                "yanked": file.yanked.as_deref().map_or(Value::Bool(false), Value::from),
                "size": file.size,
            });
            if let Some(metadata) = metadata {
                let metadata = json!({"sha256": metadata});
                entry["core-metadata"] = metadata.clone();
                entry["dist-info-metadata"] = metadata;
            }
            files.push(entry);
            links.push(Link {
                at: Digest::from(file.sha256),
                name: file.filename.clone(),
                digest: file.sha256.into(),
                url: url.clone(),
            });
            let beside = metadata.and_then(|digest| {
                let url = HttpUrl::parse(&format!("{url}{METADATA}")).ok()?;
                Some((digest, url))
            });
            links.extend(beside.map(|(digest, url)| Link {
                at: Digest::from(file.sha256),
                name: format!("{}{METADATA}", file.filename),
                digest: digest.into(),
                url,
            }));
        }
        let page = json!({"meta": {"api-version": "1.0"}, "name": self.name, "files": files});
        (page, links)
    }
}

impl File {
    fn read(file: UpstreamFile) -> Option<Self> {
        let metadata = [&file.core_metadata, &file.dist_info_metadata]
            .into_iter()
            .find_map(sha256);
        Some(Self {
            sha256: sha256(&file.hashes)?,
            metadata: metadata.filter(|_| file.filename.ends_with(WHEEL)),
            requires_python: text(&file.requires_python),
            yanked: match &file.yanked {
                Value::Bool(true) => Some("yanked".to_owned()),
                other => text(other),
            },
            size: file.size.as_u64(),
            filename: is_file_name(&file.filename).then_some(file.filename)?,
            url: file.url,
        })
    }
}

fn sha256(hashes: &Value) -> Option<Sha256> {
    Sha256::parse(hashes.get("sha256")?.as_str()?).ok()
}

fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    (text.len() <= MAX_TEXT_BYTES).then(|| text.to_owned())
}

/// Whether `name` is that of one file to install, in a form that is the same in a URL and in a folder.
fn is_file_name(name: &str) -> bool {
    name.len() + METADATA.len() <= MAX_FILE_NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._+!-".contains(&b))
        && (name.ends_with(WHEEL) || SOURCES.iter().any(|end| name.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::egress::packages::digest;

    const A: &str = "14fd1ed3dd0e1a46cc53b8fc890b5a3b11737515aeb7f42c3af9f38e8d8975d7";
    const B: &str = "23a656e7db613f75d061570e3b2cf57d2a498501018593e6a01e24ed211a78dc";

    fn page() -> HttpUrl {
        HttpUrl::parse("https://index.test/simple/six/").unwrap()
    }

    fn project(files: &Value) -> Project {
        let text = json!({"meta": {"api-version": "1.1"}, "name": "six", "files": files});
        Project::read("six", text.to_string().as_bytes()).unwrap()
    }

    fn file(name: &str, url: &str) -> Value {
        json!({"filename": name, "url": url, "hashes": {"sha256": A}})
    }

    #[test]
    fn a_page_is_written_anew_with_links_to_the_gateway() {
        let project = project(&json!([{
            "filename": "six-1.0-py3-none-any.whl",
            "url": "https://files.test/x/six-1.0-py3-none-any.whl#sha256=0",
            "hashes": {"sha256": A, "md5": "0"},
            "requires-python": ">=3",
            "core-metadata": {"sha256": B},
            "yanked": "broken",
            "size": 11,
            "gpg-sig": true,
            "evil": "<script>",
        }]));
        let (page, links) = project.render(&page(), false, |_| true);
        let name = "six-1.0-py3-none-any.whl";
        assert_eq!(
            page,
            json!({
                "meta": {"api-version": "1.0"},
                "name": "six",
                "files": [{
                    "filename": name,
                    "url": format!("../../files/{A}/{name}"),
                    "hashes": {"sha256": A},
                    "requires-python": ">=3",
                    "yanked": "broken",
                    "size": 11,
                    "core-metadata": {"sha256": B},
                    "dist-info-metadata": {"sha256": B},
                }],
            })
        );
        let at = Digest::parse_hex(A).unwrap();
        let found: Vec<_> = links
            .iter()
            .map(|link| {
                (
                    link.at,
                    link.name.as_str(),
                    link.digest,
                    link.url.to_string(),
                )
            })
            .collect();
        let metadata = format!("{name}.metadata");
        assert_eq!(
            found,
            [
                (at, name, at, format!("https://files.test/x/{name}")),
                (
                    at,
                    metadata.as_str(),
                    Digest::parse_hex(B).unwrap(),
                    format!("https://files.test/x/{metadata}")
                ),
            ]
        );
    }

    #[test]
    fn a_link_without_a_strong_digest_is_left_out() {
        let hashes = |hashes: Value| {
            let mut file = file("six-1.0.tar.gz", "six-1.0.tar.gz");
            file["hashes"] = hashes;
            project(&json!([file])).files.len()
        };
        assert_eq!(hashes(json!({"sha256": A})), 1);
        assert_eq!(hashes(json!({})), 0);
        assert_eq!(
            hashes(json!({"md5": "0cc175b9c0f1b6a831c399e269772661"})),
            0
        );
        assert_eq!(hashes(json!({"sha256": A.to_uppercase()})), 0);
        assert_eq!(hashes(json!({"sha256": &A[1..]})), 0);
        assert_eq!(hashes(Value::Null), 0);
        assert_eq!(hashes(json!("sha256")), 0);
    }

    #[test]
    fn metadata_without_a_digest_is_not_offered() {
        let mut file = file("six-1.0-py3-none-any.whl", "six-1.0-py3-none-any.whl");
        file["core-metadata"] = json!(true);
        let (page, links) = project(&json!([file])).render(&page(), false, |_| true);
        assert_eq!(links.len(), 1);
        assert_eq!(page["files"][0].get("core-metadata"), None);
    }

    #[test]
    fn a_name_that_is_no_plain_file_is_left_out() {
        for bad in [
            "../six-1.0.tar.gz",
            "six/1.0.tar.gz",
            ".six-1.0.tar.gz",
            "six-1.0.exe",
            "six-1.0.tar.gz\n",
            "six 1.0.zip",
            "-six.whl",
            "six%2f.whl",
            &format!("{}.whl", "x".repeat(250)),
        ] {
            assert_eq!(project(&json!([file(bad, "x.whl")])).files, [], "{bad}");
        }
    }

    #[test]
    fn one_name_is_one_file() {
        let mut second = file("six-1.0.zip", "b/six-1.0.zip");
        second["hashes"]["sha256"] = B.into();
        let project = project(&json!([file("six-1.0.zip", "a/six-1.0.zip"), second]));
        assert_eq!(project.files.len(), 1);
        assert_eq!(project.files[0].sha256.to_string(), A);
    }

    #[test]
    fn sources_and_hosts_that_are_not_open_are_left_out() {
        let project = project(&json!([
            file("six-1.0.tar.gz", "https://files.test/six-1.0.tar.gz"),
            file("six-1.0-py3-none-any.whl", "https://files.test/six.whl"),
            file("six-2.0-py3-none-any.whl", "https://evil.test/six.whl"),
            file(
                "six-3.0-py3-none-any.whl",
                "https://user:password@files.test/six.whl"
            ),
            file("six-4.0-py3-none-any.whl", "file:///etc/passwd"),
        ]));
        let names = |builds| -> Vec<String> {
            let at_files = |url: &HttpUrl| url.endpoint.to_string() == "files.test:443";
            let (_, links) = project.render(&page(), builds, at_files);
            links.into_iter().map(|link| link.name).collect()
        };
        assert_eq!(names(false), ["six-1.0-py3-none-any.whl"]);
        assert_eq!(names(true), ["six-1.0.tar.gz", "six-1.0-py3-none-any.whl"]);
    }

    #[test]
    fn names_of_projects_are_normal() {
        for good in ["six", "zope-interface", "a1", "0x10c-asm"] {
            assert!(is_normal_name(good), "{good}");
        }
        for bad in [
            "", "Six", "a.b", "a_b", "a--b", "-a", "a-", "a/b", "..", "a%20b",
        ] {
            assert!(!is_normal_name(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_page_is_read_or_refused_and_every_link_is_a_gateways(
            name in r"[a-zA-Z0-9./\\ %-]{0,12}(\.whl|\.zip|)",
            url in r"(https://[a-z.:@]{0,8})?[a-z0-9/.%?#: -]{0,16}",
            noise in any::<Vec<u8>>(),
        ) {
            let _ = Project::read("six", &noise);
            let project = project(&json!([file(&name, &url)]));
            let (served, links) = project.render(&page(), true, |_| true);
            prop_assert_eq!(served["files"].as_array().unwrap().len(), links.len());
            for link in links {
                prop_assert_eq!(&link.name, &name);
                prop_assert!(!link.name.contains(['/', '\\', ' ', '%']));
                prop_assert_eq!(link.at, Digest::parse_hex(A).unwrap());
            }
        }

        #[test]
        fn what_is_kept_is_read_back_as_the_same(size in any::<u64>(), text in any::<String>()) {
            let mut file = file("six-1.0.zip", "six-1.0.zip");
            file["size"] = size.into();
            file["yanked"] = text.as_str().into();
            let project = project(&json!([file]));
            let kept = serde_json::to_vec(&project).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Project>(&kept).unwrap(), project);
            let _ = digest::sha256(&kept);
        }
    }
}
