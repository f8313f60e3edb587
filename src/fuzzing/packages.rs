//! What registries say, what callers ask to be installed, and what installers ask the gateway.

use serde_json::Value;

use super::input::Input;
use crate::{
    config::{HttpUrl, Scheme},
    egress::packages::{
        digest::Digest,
        javascript::Package,
        page::{Link, Page},
        path::{Asked, files, index as pages},
        python::Project,
    },
    types::{PackageKind, PackageSpec},
};

const KINDS: [PackageKind; 2] = [PackageKind::Python, PackageKind::JavaScript];
const GATEWAY: &str = "http://127.0.0.1:3128";

/// Pages of registries: what is kept of one is read back as the same, and what is served of it links to nothing but the
/// gateway, by paths that lead back to exactly the files that may be fetched.
pub(super) fn index(bytes: &[u8]) {
    let mut input = Input(bytes);
    let flags = input.byte();
    let kind = KINDS[usize::from(flags & 1)];
    let Ok(page) = Page::read(kind, "six", input.0) else {
        return;
    };
    let kept = serde_json::to_vec(&page).expect("a page of ours");
    assert_eq!(
        serde_json::from_slice::<Page>(&kept).expect("what was kept"),
        page
    );
    let own = HttpUrl::parse("https://registry.test/simple/six/").expect("a URL");
    let builds = flags & 2 != 0;
    let leads = |url: &HttpUrl| url.scheme == Scheme::Https && flags & 4 == 0;
    let (served, links) = match &page {
        Page::Python(project) => python(project, &own, builds, leads),
        Page::JavaScript(package) => javascript(package, &own, leads),
    };
    for link in &links {
        assert!(leads(&link.url));
        let path = format!("{}{}/{}", files(kind), link.at, link.name);
        assert_eq!(
            Asked::parse(kind, &path),
            Some(Asked::File(link.at, link.name.clone()))
        );
    }
    // It is JSON that says the same when it is read.
    let text = serde_json::to_vec(&served).expect("JSON");
    assert_eq!(
        serde_json::from_slice::<Value>(&text).expect("JSON"),
        served
    );
}

fn python(
    project: &Project,
    own: &HttpUrl,
    builds: bool,
    leads: impl Fn(&HttpUrl) -> bool,
) -> (Value, Vec<Link>) {
    let (served, links) = project.render(own, builds, leads);
    let files = served["files"].as_array().expect("files");
    for file in files {
        let name = file["filename"].as_str().expect("a name");
        assert!(builds || name.strip_suffix(".whl").is_some());
        let digest = file["hashes"]["sha256"].as_str().expect("a digest");
        assert_eq!(file["url"], format!("../../files/{digest}/{name}"));
        let found = links.iter().filter(|link| link.name == name);
        assert_eq!(found.count(), 1);
    }
    (served, links)
}

fn javascript(
    package: &Package,
    own: &HttpUrl,
    leads: impl Fn(&HttpUrl) -> bool,
) -> (Value, Vec<Link>) {
    let files = format!("{GATEWAY}{}", files(PackageKind::JavaScript));
    let (served, links) = package.render(own, &files, leads);
    let versions = served["versions"].as_object().expect("versions");
    assert_eq!(versions.len(), links.len());
    for (version, about) in versions {
        assert_eq!(about["name"], "six");
        assert_eq!(about["version"], version.as_str());
        let integrity = about["dist"]["integrity"].as_str().expect("a digest");
        let digest = Digest::of_integrity(integrity).expect("a digest");
        let file = format!("{files}{digest}/six-{version}.tgz");
        assert_eq!(about["dist"]["tarball"], file);
    }
    let tags = served["dist-tags"].as_object().expect("tags");
    assert!(
        tags.values()
            .all(|version| versions.contains_key(version.as_str().unwrap_or("?")))
    );
    (served, links)
}

/// A package to install: no option, path, URL or anything else that an installer takes for more than a name with versions.
pub(super) fn package(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for kind in KINDS {
        let Ok(spec) = PackageSpec::parse(kind, text) else {
            continue;
        };
        let spec = spec.as_str();
        assert_eq!(spec, text);
        assert!(
            spec.bytes()
                .all(|byte| byte.is_ascii_graphic() || byte == b' ')
        );
        assert!(!spec.starts_with(['-', '.', '/', '~', ' ']));
        assert!(!spec.contains([':', '\\', ';', '#', '?', '&', '\'', '"', '`', '$', '(']));
        match kind {
            PackageKind::Python => {
                assert!(!spec.contains(['@', '/', ' ', '|', '^']));
                // A star stands at the end of a version only.
                let after = |rest: &str| rest.is_empty() || rest.starts_with(',');
                assert!(spec.split('*').skip(1).all(after));
            }
            PackageKind::JavaScript => {
                let slashes = spec.matches('/').count();
                assert!(slashes == 0 || (slashes == 1 && spec.starts_with('@')));
            }
        }
    }
}

/// The paths of the gateway: none leads out of its folder, and none has two spellings.
pub(super) fn gateway(bytes: &[u8]) {
    let Ok(path) = std::str::from_utf8(bytes) else {
        return;
    };
    for kind in KINDS {
        match Asked::parse(kind, path) {
            None => {}
            Some(Asked::Page(name)) => {
                assert!(!name.contains(['%', '?', '#', '\\', ':']));
                assert!(
                    name.split('/')
                        .all(|part| !part.is_empty() && !part.starts_with('.'))
                );
                let end = if kind == PackageKind::Python { "/" } else { "" };
                let plain = format!("{}{name}{end}", pages(kind));
                assert_eq!(Asked::parse(kind, &plain), Some(Asked::Page(name)));
            }
            Some(Asked::File(digest, name)) => {
                assert!(!name.contains(['/', '%', '?', '#', '\\', ':']));
                assert_eq!(path, format!("{}{digest}/{name}", files(kind)));
            }
        }
    }
    if let Some(digest) = Digest::of_integrity(path) {
        let text = digest.integrity().expect("a digest of npm's");
        assert_eq!(Digest::of_integrity(&text), Some(digest));
        assert_eq!(Digest::parse_hex(&digest.to_string()), Some(digest));
    }
}
