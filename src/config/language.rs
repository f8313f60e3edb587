//! What can be run: the built-in images and the operator's, and the names that lead to them.

use std::{collections::BTreeMap, iter, sync::Arc};

use super::{Problem, raw::RawLanguage};
use crate::images::{
    DEFAULT_SHM_MIB, Image, Language, MAX_SHM_MIB, is_command, is_loader_variable, is_name,
    is_program, is_reference, is_variable,
};

/// Every image there is, each found by the name or an alias of its own language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Languages {
    images: Vec<Arc<Image>>,
    /// How many of `images`, from the front, are built in.
    built_in: usize,
}

impl Languages {
    /// The built-in images, less those that the operator replaces, and the operator's.
    pub(super) fn new(built_in: Vec<Image>, raw: Vec<RawLanguage>) -> Result<Self, Problem> {
        let own = raw
            .into_iter()
            .map(checked)
            .collect::<Result<Vec<_>, _>>()?;
        let mut images: Vec<Arc<Image>> = built_in
            .into_iter()
            .filter(|image| !own.iter().any(|other| other.name == image.name))
            .map(Arc::new)
            .collect();
        let built_in = images.len();
        for image in own {
            for name in image.languages.iter().flat_map(Language::names) {
                if let Some(other) = find(&images, name) {
                    return Err(Problem::LanguageClash {
                        language: image.name.clone(),
                        found: name.to_owned(),
                        other: other.name.clone(),
                    });
                }
            }
            images.push(Arc::new(image));
        }
        Ok(Self { images, built_in })
    }

    /// The image whose own language answers to `name`, in upper or lower case.
    #[must_use]
    pub fn image(&self, name: &str) -> Option<&Arc<Image>> {
        find(&self.images, name)
    }

    /// All images, the built-in ones first.
    #[must_use]
    pub fn images(&self) -> &[Arc<Image>] {
        &self.images
    }

    /// The built-in images that are in use.
    #[must_use]
    pub fn built_in(&self) -> &[Arc<Image>] {
        &self.images[..self.built_in]
    }

    /// The operator's images.
    #[must_use]
    pub fn configured(&self) -> &[Arc<Image>] {
        &self.images[self.built_in..]
    }

    /// The languages with their aliases, for messages: `python (python3, py), bash`.
    #[must_use]
    pub fn list(&self) -> String {
        list(
            self.images
                .iter()
                .filter_map(|image| image.languages.first()),
        )
    }
}

fn find<'a>(images: &'a [Arc<Image>], name: &str) -> Option<&'a Arc<Image>> {
    images.iter().find(|image| {
        let own = image.languages.first();
        own.is_some_and(|own| own.answers_to(name))
    })
}

/// Languages with their aliases, for messages.
#[must_use]
pub fn list<'a>(languages: impl Iterator<Item = &'a Language>) -> String {
    languages
        .map(|language| {
            if language.aliases.is_empty() {
                language.name.clone()
            } else {
                format!("{} ({})", language.name, language.aliases.join(", "))
            }
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn checked(raw: RawLanguage) -> Result<Image, Problem> {
    let language = raw.name;
    let names =
        iter::once(("name", &language)).chain(raw.aliases.iter().map(|alias| ("aliases", alias)));
    for (key, found) in names {
        if !is_name(found) {
            return Err(Problem::LanguageName {
                language: language.clone(),
                key,
                found: found.clone(),
            });
        }
    }
    for (at, alias) in raw.aliases.iter().enumerate() {
        if *alias == language || raw.aliases[..at].contains(alias) {
            return Err(Problem::LanguageClash {
                language: language.clone(),
                found: alias.clone(),
                other: language,
            });
        }
    }
    if !is_reference(&raw.image) {
        return Err(Problem::LanguageImage {
            language,
            found: raw.image,
        });
    }
    if !is_program(&raw.program) {
        return Err(Problem::LanguageProgram {
            language,
            found: raw.program,
        });
    }
    if !is_command(&raw.command) {
        return Err(Problem::LanguageCommand {
            language,
            found: raw.command,
        });
    }
    if let Some((name, _)) = raw.env.iter().find(|(name, value)| {
        !is_variable(name) || is_loader_variable(name) || value.contains('\0')
    }) {
        return Err(Problem::LanguageVariable {
            language,
            name: name.clone(),
        });
    }
    let shm_mib = raw.shm_mib.unwrap_or(DEFAULT_SHM_MIB);
    if !(1..=MAX_SHM_MIB).contains(&shm_mib) {
        return Err(Problem::LanguageShm {
            language,
            found: shm_mib,
            most: MAX_SHM_MIB,
        });
    }
    Ok(Image {
        name: language.clone(),
        tag: raw.image,
        shm_mib,
        env: BTreeMap::new(),
        egress_env: BTreeMap::new(),
        languages: vec![Language {
            name: language,
            aliases: raw.aliases,
            program: raw.program,
            command: raw.command,
            env: raw.env,
            // The hook is part of the built-in images.
            warm: None,
            // So is what is installed how.
            packages: None,
        }],
    })
}
