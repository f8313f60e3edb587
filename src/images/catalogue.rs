//! The built-in images, as they are in the binary.
//!
//! To add one: make the folder `images/<name>/` with a `Dockerfile` and an `image.toml`, and name it in
//! [`FOLDERS`]. A test compares the two.

use super::{
    language::Image,
    manifest::{self, ManifestError},
};

/// A file of an image's build context.
pub(super) struct File {
    /// Its path below `images/`.
    pub(super) path: &'static str,
    pub(super) content: &'static str,
}

/// One folder below `images/`.
struct Folder {
    name: &'static str,
    manifest: &'static str,
    dockerfile: File,
    /// What else its Dockerfile copies.
    own: &'static [File],
}

macro_rules! file {
    ($path:expr) => {
        File {
            path: $path,
            content: include_str!(concat!("../../images/", $path)),
        }
    };
}

macro_rules! folder {
    ($name:literal, $($own:literal),*) => {
        Folder {
            name: $name,
            manifest: include_str!(concat!("../../images/", $name, "/image.toml")),
            dockerfile: file!(concat!($name, "/Dockerfile")),
            own: &[$(file!(concat!($name, "/", $own))),*],
        }
    };
}

/// Every image's folder, in the order in which they are listed.
const FOLDERS: [Folder; 3] = [
    folder!(
        "python",
        "sitecustomize.py",
        "warm.py",
        "preload-bare.txt",
        "preload-core.txt",
        "preload-science.txt",
        "preload-standard.txt"
    ),
    folder!("javascript", "proxy.js", "warm.js"),
    folder!("bash", "warm.sh"),
];

/// What every image's build context holds beside its own folder's files.
const COMMON: [File; 3] = [
    file!("common/base.sh"),
    file!("common/finish.sh"),
    file!("common/install.sh"),
];

/// A built-in image.
#[derive(Clone, Debug)]
pub struct BuiltIn {
    /// What it runs.
    pub image: Image,
    /// What is in it, in one line for people.
    pub summary: String,
    /// Which of [`FOLDERS`] it is.
    folder: usize,
}

impl BuiltIn {
    /// The Dockerfile's path in the build context.
    #[must_use]
    pub fn dockerfile(&self) -> &'static str {
        FOLDERS[self.folder].dockerfile.path
    }

    /// The files that it is built from, in a fixed order.
    pub(super) fn files(&self) -> impl Iterator<Item = &'static File> {
        COMMON
            .iter()
            .chain(std::iter::once(&FOLDERS[self.folder].dockerfile))
            .chain(FOLDERS[self.folder].own)
    }
}

/// There is no built-in image of that name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no built-in image {name:?}; those there are: {known}")]
pub struct UnknownImage {
    name: String,
    known: String,
}

/// The built-in images.
///
/// An error means that belljar itself is broken: the texts are part of the binary, and a test reads them.
pub fn catalogue() -> Result<Vec<BuiltIn>, ManifestError> {
    FOLDERS
        .iter()
        .enumerate()
        .map(|(at, folder)| {
            let manifest = manifest::parse(folder.name, folder.manifest)?;
            Ok(BuiltIn {
                image: manifest.image,
                summary: manifest.summary,
                folder: at,
            })
        })
        .collect()
}

/// Those of `all` that are named, in the catalogue's order; all of them where none is named.
pub fn select(all: Vec<BuiltIn>, names: &[String]) -> Result<Vec<BuiltIn>, UnknownImage> {
    if let Some(name) = names
        .iter()
        .find(|name| !all.iter().any(|one| one.image.name == **name))
    {
        let known: Vec<&str> = all.iter().map(|one| one.image.name.as_str()).collect();
        return Err(UnknownImage {
            name: name.clone(),
            known: known.join(", "),
        });
    }
    Ok(all
        .into_iter()
        .filter(|one| names.is_empty() || names.contains(&one.image.name))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;

    #[test]
    fn the_built_in_images_keep_the_rules() {
        let images = catalogue().unwrap();
        assert_eq!(images.len(), FOLDERS.len());
        for one in &images {
            assert_eq!(one.image.languages[0].name, one.image.name);
            assert!(one.image.language("bash").is_some(), "bash is in all");
        }
        let javascript = &images[1].image;
        assert!(javascript.egress_env["NODE_OPTIONS"].contains("proxy.js"));
        assert!(!javascript.env.contains_key("NODE_OPTIONS"));
    }

    #[test]
    fn own_languages_do_not_clash() {
        let images = catalogue().unwrap();
        let mut seen = BTreeSet::new();
        for name in images.iter().flat_map(|one| one.image.languages[0].names()) {
            assert!(seen.insert(name), "{name} leads to two images");
        }
    }

    /// What is below `images/` is what is in the binary: a folder or file that nobody named would be missing
    /// from every installed belljar.
    #[test]
    fn every_file_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("images");
        let mut found = BTreeSet::new();
        for folder in std::fs::read_dir(&root).unwrap().map(Result::unwrap) {
            for file in std::fs::read_dir(folder.path())
                .unwrap()
                .map(Result::unwrap)
            {
                let folder = folder.file_name().into_string().unwrap();
                found.insert(format!(
                    "{folder}/{}",
                    file.file_name().into_string().unwrap()
                ));
            }
        }
        let embedded: BTreeSet<String> = COMMON
            .iter()
            .map(|file| file.path.to_owned())
            .chain(FOLDERS.iter().flat_map(|folder| {
                [
                    folder.dockerfile.path.to_owned(),
                    format!("{}/image.toml", folder.name),
                ]
                .into_iter()
                .chain(folder.own.iter().map(|file| file.path.to_owned()))
            }))
            .collect();
        assert_eq!(found, embedded);
    }

    #[test]
    fn dockerfiles_ask_for_nothing_that_a_sandbox_refuses() {
        for folder in &FOLDERS {
            for line in folder.dockerfile.content.lines() {
                let word = line.split_whitespace().next().unwrap_or_default();
                assert!(
                    ![
                        "VOLUME",
                        "HEALTHCHECK",
                        "ENTRYPOINT",
                        "USER",
                        "EXPOSE",
                        "ADD"
                    ]
                    .contains(&word),
                    "{}: {line}",
                    folder.name
                );
            }
        }
    }

    #[test]
    fn names_select_in_the_catalogues_order() {
        let names = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
            select(catalogue().unwrap(), &wanted)
                .map(|found| {
                    found
                        .into_iter()
                        .map(|one| one.image.name)
                        .collect::<Vec<_>>()
                })
                .map_err(|error| error.to_string())
        };
        assert_eq!(names(&[]).unwrap(), ["python", "javascript", "bash"]);
        assert_eq!(names(&["bash", "python"]).unwrap(), ["python", "bash"]);
        let error = names(&["bash", "perl"]).unwrap_err();
        assert!(
            error.contains("\"perl\"") && error.contains("python, javascript, bash"),
            "{error}"
        );
    }
}
