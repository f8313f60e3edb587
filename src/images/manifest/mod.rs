//! Reads an `image.toml` into an [`Image`] that keeps every rule.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Deserialize;

use super::installer::{INDEX_MARK, Installer, is_installer};
use super::language::{
    DEFAULT_SHM_MIB, Image, Language, MAX_SHM_MIB, is_command, is_loader_variable, is_name,
    is_program, is_reference, is_variable,
};
use super::warm::{
    Kind, MAX_KINDS, MAX_PATTERNS, MAX_WARM_MIB, MAX_WORD_BYTES, MAX_WORDS, Pattern, Warm, WarmArgs,
};
use crate::types::PackageKind;

/// The most languages of an image, and the most aliases of a language.
const MAX_NAMES: usize = 32;
/// The longest summary, in bytes: it stands in a list, one line an image.
const MAX_SUMMARY_BYTES: usize = 256;

/// What is wrong with an `image.toml`.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// No TOML, a key that does not exist, or a value of the wrong kind.
    #[error("image.toml of {image}: {error}")]
    Syntax {
        /// The image's folder.
        image: String,
        /// The parser's message, with line and column.
        error: Box<toml::de::Error>,
    },
    /// A name that is not the folder's.
    #[error("image.toml of {image}: name is {found:?}: it must be the folder's name")]
    Name {
        /// The image's folder.
        image: String,
        /// What was found.
        found: String,
    },
    /// Another tag than the one that everybody looks for.
    #[error("image.toml of {image}: tag is {found:?}: it must be belljar/{image}:latest")]
    Tag {
        /// The image's folder.
        image: String,
        /// What was found.
        found: String,
    },
    /// A summary that is no line of a list.
    #[error("image.toml of {image}: summary must be one line of 1 to {MAX_SUMMARY_BYTES} bytes")]
    Summary {
        /// The image's folder.
        image: String,
    },
    /// Shared memory outside its range.
    #[error("image.toml of {image}: shm_mib is {found}: it must lie between 1 and {MAX_SHM_MIB}")]
    Shm {
        /// The image's folder.
        image: String,
        /// What was found.
        found: u32,
    },
    /// A variable that cannot or must not be set.
    #[error(
        "image.toml of {image}: env has {name:?}: names have letters, digits and `_` and begin with no digit, \
         values have no NUL, and variables of the loader (LD_*, GLIBC_TUNABLES) are refused"
    )]
    Variable {
        /// The image's folder.
        image: String,
        /// The variable.
        name: String,
    },
    /// No language, or too many of them or of their aliases.
    #[error(
        "image.toml of {image}: it must have 1 to {MAX_NAMES} languages with at most {MAX_NAMES} aliases each"
    )]
    Count {
        /// The image's folder.
        image: String,
    },
    /// The first language is not the image's own.
    #[error("image.toml of {image}: the first language is {found:?}: it must be the image's own")]
    FirstLanguage {
        /// The image's folder.
        image: String,
        /// What was found.
        found: String,
    },
    /// A name that could not be told apart from others or shown plainly.
    #[error(
        "image.toml of {image}: a language is called {found:?}: names have 1 to 32 characters of a-z, 0-9, \
         `+`, `#`, `.`, `_`, `-` and begin with a letter"
    )]
    LanguageName {
        /// The image's folder.
        image: String,
        /// What was found.
        found: String,
    },
    /// Two languages answer to one name.
    #[error("image.toml of {image}: the name {found:?} is there twice")]
    Twice {
        /// The image's folder.
        image: String,
        /// The name.
        found: String,
    },
    /// Not the name of a hidden file.
    #[error(
        "image.toml of {image}: program is {found:?}: it must be a hidden file name such as .main.py"
    )]
    Program {
        /// The image's folder.
        image: String,
        /// What was found.
        found: String,
    },
    /// A list of variables that says nothing clear.
    #[error(
        "image.toml of {image}: cold_env has {found:?}: it must be at most {MAX_PATTERNS} names of variables, with \
         `*` only at the end of one"
    )]
    Pattern {
        /// The image's folder.
        image: String,
        /// What was found.
        found: String,
    },
    /// More memory than an interpreter may take while it waits, or none.
    #[error(
        "image.toml of {image}: memory_mib of a waiting interpreter is {found}: it must lie between 1 and \
         {MAX_WARM_MIB}"
    )]
    WarmMemory {
        /// The image's folder.
        image: String,
        /// What was found.
        found: u32,
    },
    /// No kind of waiting interpreter, or too many of them.
    #[error("image.toml of {image}: `warm` has {found} kinds: it must have 1 to {MAX_KINDS}")]
    Kinds {
        /// The image's folder.
        image: String,
        /// How many were found.
        found: usize,
    },
    /// A kind that no program would get, or not plainly.
    #[error(
        "image.toml of {image}: the first kind of `warm` has no words, and each other one 1 to {MAX_WORDS} of them, \
         of 1 to {MAX_WORD_BYTES} bytes"
    )]
    Words {
        /// The image's folder.
        image: String,
    },
    /// Only the image's own language is warmed.
    #[error(
        "image.toml of {image}: {found:?} has a section `warm`: only the image's first language has one"
    )]
    WarmSecond {
        /// The image's folder.
        image: String,
        /// The language.
        found: String,
    },
    /// A command that would install from somewhere else.
    #[error(
        "image.toml of {image}: install is {found:?}: it must be a list of non-empty strings with {INDEX_MARK} in it \
         exactly once, and no_code one of non-empty strings"
    )]
    Install {
        /// The image's folder.
        image: String,
        /// What was found.
        found: Vec<String>,
    },
    /// A command that would not run the program.
    #[error(
        "image.toml of {image}: command is {found:?}: it must be a list of non-empty strings with {{program}} \
         in it exactly once"
    )]
    Command {
        /// The image's folder.
        image: String,
        /// What was found.
        found: Vec<String>,
    },
}

/// An `image.toml` that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) image: Image,
    pub(crate) summary: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    name: String,
    tag: String,
    summary: String,
    #[serde(default = "default_shm_mib")]
    shm_mib: u32,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    egress_env: BTreeMap<String, String>,
    language: Vec<RawLanguage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLanguage {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    program: String,
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    warm: Option<RawWarm>,
    packages: Option<RawInstaller>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInstaller {
    kind: PackageKind,
    install: Vec<String>,
    #[serde(default)]
    no_code: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWarm {
    cold_env: Vec<String>,
    #[serde(default)]
    cold_args: bool,
    kind: Vec<RawKind>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKind {
    env: BTreeMap<String, String>,
    memory_mib: u32,
    #[serde(default)]
    words: Vec<String>,
}

fn default_shm_mib() -> u32 {
    DEFAULT_SHM_MIB
}

/// Reads the `image.toml` of the folder `image`.
pub(crate) fn parse(image: &str, text: &str) -> Result<Manifest, ManifestError> {
    let owned = || image.to_owned();
    let raw: RawManifest = toml::from_str(text).map_err(|error| ManifestError::Syntax {
        image: owned(),
        error: Box::new(error),
    })?;
    if raw.name != image {
        return Err(ManifestError::Name {
            image: owned(),
            found: raw.name,
        });
    }
    if raw.tag != format!("belljar/{image}:latest") || !is_reference(&raw.tag) {
        return Err(ManifestError::Tag {
            image: owned(),
            found: raw.tag,
        });
    }
    if !(1..=MAX_SUMMARY_BYTES).contains(&raw.summary.len())
        || raw.summary.chars().any(char::is_control)
    {
        return Err(ManifestError::Summary { image: owned() });
    }
    if !(1..=MAX_SHM_MIB).contains(&raw.shm_mib) {
        return Err(ManifestError::Shm {
            image: owned(),
            found: raw.shm_mib,
        });
    }
    check_env(image, &raw.env)?;
    check_env(image, &raw.egress_env)?;
    Ok(Manifest {
        summary: raw.summary,
        image: Image {
            languages: languages(image, raw.language)?,
            name: raw.name,
            tag: raw.tag,
            shm_mib: raw.shm_mib,
            env: raw.env,
            egress_env: raw.egress_env,
        },
    })
}

fn languages(image: &str, raw: Vec<RawLanguage>) -> Result<Vec<Language>, ManifestError> {
    let owned = || image.to_owned();
    if !(1..=MAX_NAMES).contains(&raw.len()) || raw.iter().any(|l| l.aliases.len() > MAX_NAMES) {
        return Err(ManifestError::Count { image: owned() });
    }
    if raw[0].name != image {
        return Err(ManifestError::FirstLanguage {
            image: owned(),
            found: raw[0].name.clone(),
        });
    }
    let mut seen = Vec::new();
    for name in raw
        .iter()
        .flat_map(|language| std::iter::once(&language.name).chain(&language.aliases))
    {
        if !is_name(name) {
            return Err(ManifestError::LanguageName {
                image: owned(),
                found: name.clone(),
            });
        }
        if seen.contains(&name) {
            return Err(ManifestError::Twice {
                image: owned(),
                found: name.clone(),
            });
        }
        seen.push(name);
    }
    if let Some(second) = raw[1..].iter().find(|language| language.warm.is_some()) {
        return Err(ManifestError::WarmSecond {
            image: owned(),
            found: second.name.clone(),
        });
    }
    raw.into_iter()
        .map(|language| checked(image, language))
        .collect()
}

fn checked(image: &str, raw: RawLanguage) -> Result<Language, ManifestError> {
    if !is_program(&raw.program) {
        return Err(ManifestError::Program {
            image: image.to_owned(),
            found: raw.program,
        });
    }
    if !is_command(&raw.command) {
        return Err(ManifestError::Command {
            image: image.to_owned(),
            found: raw.command,
        });
    }
    check_env(image, &raw.env)?;
    Ok(Language {
        name: raw.name,
        aliases: raw.aliases,
        program: raw.program,
        command: raw.command,
        env: raw.env,
        warm: raw.warm.map(|warm| checked_warm(image, warm)).transpose()?,
        packages: raw
            .packages
            .map(|packages| checked_installer(image, packages))
            .transpose()?,
    })
}

fn checked_installer(image: &str, raw: RawInstaller) -> Result<Installer, ManifestError> {
    check_env(image, &raw.env)?;
    if !is_installer(&raw.install, &raw.no_code) {
        return Err(ManifestError::Install {
            image: image.to_owned(),
            found: [raw.install, raw.no_code].concat(),
        });
    }
    Ok(Installer {
        kind: raw.kind,
        install: raw.install,
        no_code: raw.no_code,
        env: raw.env,
    })
}

fn checked_warm(image: &str, raw: RawWarm) -> Result<Warm, ManifestError> {
    if !(1..=MAX_KINDS).contains(&raw.kind.len()) {
        return Err(ManifestError::Kinds {
            image: image.to_owned(),
            found: raw.kind.len(),
        });
    }
    if raw.cold_env.len() > MAX_PATTERNS {
        return Err(ManifestError::Pattern {
            image: image.to_owned(),
            found: format!("{} patterns", raw.cold_env.len()),
        });
    }
    let pattern = |text: String| {
        Pattern::parse(&text).ok_or(ManifestError::Pattern {
            image: image.to_owned(),
            found: text,
        })
    };
    Ok(Warm {
        kinds: raw
            .kind
            .into_iter()
            .enumerate()
            .map(|(number, kind)| checked_kind(image, number, kind))
            .collect::<Result<_, _>>()?,
        cold_env: raw
            .cold_env
            .into_iter()
            .map(pattern)
            .collect::<Result<_, _>>()?,
        args: if raw.cold_args {
            WarmArgs::None
        } else {
            WarmArgs::Any
        },
    })
}

fn checked_kind(image: &str, number: usize, raw: RawKind) -> Result<Kind, ManifestError> {
    check_env(image, &raw.env)?;
    if !(1..=MAX_WARM_MIB).contains(&raw.memory_mib) {
        return Err(ManifestError::WarmMemory {
            image: image.to_owned(),
            found: raw.memory_mib,
        });
    }
    // The first is for whatever no other one is for.
    let least = usize::from(number > 0);
    let most = number.min(1) * MAX_WORDS;
    let right = (least..=most).contains(&raw.words.len())
        && raw
            .words
            .iter()
            .all(|word| (1..=MAX_WORD_BYTES).contains(&word.len()));
    if !right {
        return Err(ManifestError::Words {
            image: image.to_owned(),
        });
    }
    Ok(Kind {
        env: raw.env,
        words: raw.words,
        memory_mib: raw.memory_mib,
    })
}

fn check_env(image: &str, env: &BTreeMap<String, String>) -> Result<(), ManifestError> {
    match env.iter().find(|(name, value)| {
        !is_variable(name) || is_loader_variable(name) || value.contains('\0')
    }) {
        None => Ok(()),
        Some((name, _)) => Err(ManifestError::Variable {
            image: image.to_owned(),
            name: name.clone(),
        }),
    }
}
